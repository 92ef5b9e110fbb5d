"""AUTH with real clients: pynsq and gnsq against a server that asks an auth server, or knows tokens of its own.

ansq is not among them: it sends AUTH, and then refuses every further command itself, on any server.
"""

import asyncio
import json
import subprocess
import sys
import threading
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nsq
import pytest

from queue_engine.service.act_file.act_reader import read_page
from queue_engine.service.identity.token_file import TokenFile
from tests.support.auth_server import AuthServer, granted
from tests.support.nsq_socket import FRAME_ERROR, FRAME_RESPONSE, NsqSocket, sized
from tests.support.processes.running_engine import RunningEngine
from tests.support.waiting import TIMEOUT_S, wait_for, wait_for_async

pytestmark = [pytest.mark.slow(reason="real clients on real sockets"), pytest.mark.timeout(400)]

ORDERS = {"topic": r"orders\..*", "channels": ["", "bill.*"], "permissions": ["subscribe", "publish"]}


@pytest.fixture
def auth_server() -> Iterator[AuthServer]:
    with AuthServer(granted(ORDERS, url="https://who.example/deploy")) as server:
        yield server


@pytest.fixture
def engine(tmp_path: Path, auth_server: AuthServer) -> Iterator[RunningEngine]:
    with RunningEngine(tmp_path / "data", auth_http_address=(auth_server.address,)) as engine:
        yield engine


def new_token(directory: Path, name: str = "deploy", topics: tuple[str, ...] = (), *, valid_ms: int = 0) -> str:
    now_ms = time.time_ns() // 1_000_000
    expires_ms = now_ms + valid_ms if valid_ms else 0
    return TokenFile(directory).create(
        name, ["publish", "consume"], list(topics), expires_ms=expires_ms, by="", now_ms=now_ms
    )[1]


def stats_of(engine: RunningEngine, topic: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(engine.http("GET", f"/stats?format=json&topic={topic}"))
    return found


async def pynsq_publishes_and_consumes(engine: RunningEngine, secret: str, topic: str) -> None:
    writer = nsq.Writer([f"127.0.0.1:{engine.tcp_port}"], auth_secret=secret)
    await wait_for_async("the writer's connection", lambda: writer.conns)
    answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    writer.pub(topic, b"one", callback=lambda _, data: answered.set_result(data))
    assert await asyncio.wait_for(answered, TIMEOUT_S) == b"OK"
    got: list[bytes] = []

    def handler(message: nsq.Message) -> bool:
        got.append(message.body)
        return True

    reader = nsq.Reader(
        topic,
        "billing",
        message_handler=handler,
        nsqd_tcp_addresses=[f"127.0.0.1:{engine.tcp_port}"],
        auth_secret=secret,
    )
    await wait_for_async("the message", lambda: got == [b"one"])
    reader.close()
    for connection in list(writer.conns.values()):
        connection.close()


async def test_pynsq_with_an_auth_server(engine: RunningEngine, auth_server: AuthServer) -> None:
    await pynsq_publishes_and_consumes(engine, "s3cret", "orders.eu")
    assert set(auth_server.secrets()) == {"s3cret"}
    assert auth_server.questions[0].fields["remote_ip"] == "127.0.0.1"
    assert auth_server.questions[0].fields["tls"] == "false"


async def test_pynsq_with_a_token(tmp_path: Path) -> None:
    with RunningEngine(tmp_path / "data") as engine:
        secret = new_token(tmp_path / "data", topics=("orders.*",))
        wait_for("the gate to close", lambda: _refusal(engine, b"PUB t\n" + sized(b"x")) is not None)
        await pynsq_publishes_and_consumes(engine, secret, "orders.eu")


_GNSQ = """
import gevent.monkey; gevent.monkey.patch_all()
import sys, gevent, gnsq
port, secret, topic = sys.argv[1:]
secret = secret.encode()
producer = gnsq.Producer("127.0.0.1:" + port, auth_secret=secret)
producer.start()
producer.publish(topic, b"from gnsq")
consumer = gnsq.Consumer(topic, "billing", "127.0.0.1:" + port, auth_secret=secret)
@consumer.on_message.connect
def handler(_, message):
    sys.stdout.write(message.body.decode())
    gevent.spawn_later(0.05, consumer.close)
consumer.start()
"""


@pytest.mark.parametrize("kind", ["auth server", "token"])
def test_gnsq_with_auth(tmp_path: Path, auth_server: AuthServer, kind: str) -> None:
    options = {"auth_http_address": (auth_server.address,)} if kind == "auth server" else {}
    (tmp_path / "data").mkdir()
    secret = "s3cret" if kind == "auth server" else new_token(tmp_path / "data")
    with RunningEngine(tmp_path / "data", **options) as engine:
        done = subprocess.run(
            [sys.executable, "-c", _GNSQ, str(engine.tcp_port), secret, "orders.eu"],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.stdout == "from gnsq", done.stderr
    assert set(auth_server.secrets()) == ({"s3cret"} if kind == "auth server" else set())


def _refusal(engine: RunningEngine, command: bytes, *, secret: bytes = b"") -> str | None:
    """The error that a command gets on a connection of its own; None for another answer."""
    client = NsqSocket(engine.tcp_port)
    try:
        if secret:
            client.send(b"AUTH\n" + sized(secret))
            kind, data = client.read_frame()
            if kind == FRAME_ERROR:
                return data.decode()
        client.send(command)
        kind, data = client.read_frame()
        return data.decode() if kind == FRAME_ERROR else None
    finally:
        client.close()


def test_the_errors_are_nsqds(engine: RunningEngine, auth_server: AuthServer) -> None:
    pub = b"PUB orders.eu\n" + sized(b"x")
    assert _refusal(engine, pub) == "E_AUTH_FIRST AUTH required before PUB"
    assert _refusal(engine, pub, secret=b"s3cret") is None
    assert _refusal(engine, b"PUB logs\n" + sized(b"x"), secret=b"x") == (
        'E_UNAUTHORIZED AUTH failed for PUB on "logs" ""'
    )
    assert _refusal(engine, b"SUB orders.eu archive\n", secret=b"x") == (
        'E_UNAUTHORIZED AUTH failed for SUB on "orders.eu" "archive"'
    )
    assert _refusal(engine, b"AUTH\n" + sized(b"x"), secret=b"x") == "E_INVALID AUTH already set"
    assert _refusal(engine, b"AUTH x\n" + sized(b"x")) == "E_INVALID AUTH invalid number of parameters"
    assert _refusal(engine, b"AUTH\n" + b"\0\0\0\0") == "E_BAD_BODY AUTH invalid body size 0"
    auth_server.answer = granted()
    assert _refusal(engine, pub, secret=b"x") == "E_UNAUTHORIZED AUTH no authorizations found"
    auth_server.answer = (403, {}, b"")
    assert _refusal(engine, pub, secret=b"x") == "E_AUTH_FAILED AUTH failed"


def test_stats_name_who_a_client_is(engine: RunningEngine) -> None:
    client = engine.client()
    client.send(b"AUTH\n" + sized(b"s3cret"))
    kind, data = client.read_frame()
    assert kind == FRAME_RESPONSE
    assert json.loads(data) == {
        "identity": "deploy",
        "identity_url": "https://who.example/deploy",
        "permission_count": 1,
    }
    client.send(b"PUB orders.eu\n" + sized(b"x"))
    assert client.read_frame() == (FRAME_RESPONSE, b"OK")
    (producer,) = stats_of(engine, "orders.eu")["producers"]
    assert (producer["authed"], producer["auth_identity"], producer["auth_identity_url"]) == (
        True,
        "deploy",
        "https://who.example/deploy",
    )


def test_a_ttl_that_ends_asks_anew_and_new_rights_count(engine: RunningEngine, auth_server: AuthServer) -> None:
    auth_server.answer = granted(ORDERS, ttl=1)
    client = engine.client()
    client.send(b"AUTH\n" + sized(b"s3cret"))
    client.read_frame()
    auth_server.answer = granted({**ORDERS, "topic": "other"})

    def answer() -> bytes:
        client.send(b"PUB orders.eu\n" + sized(b"x"))
        return client.read_frame()[1]

    wait_for("the refusal", lambda: answer() == b'E_UNAUTHORIZED AUTH failed for PUB on "orders.eu" ""')
    assert len(auth_server.questions) == 2


def test_a_slow_auth_server_holds_up_its_own_client_alone(engine: RunningEngine, auth_server: AuthServer) -> None:
    first = engine.client()
    first.send(b"AUTH\n" + sized(b"quick"))
    first.read_frame()
    goes_on = threading.Event()

    def wait(_: object) -> bytes:
        assert goes_on.wait(TIMEOUT_S)
        return granted(ORDERS)

    auth_server.answer = wait
    slow = engine.client()
    slow.send(b"AUTH\n" + sized(b"slow") + b"PUB orders.eu\n" + sized(b"x"))
    wait_for("the question", lambda: len(auth_server.questions) == 2)
    first.send(b"PUB orders.eu\n" + sized(b"x"))
    assert first.read_frame() == (FRAME_RESPONSE, b"OK")
    goes_on.set()
    assert json.loads(slow.read_frame()[1])["identity"] == "deploy"
    assert slow.read_frame() == (FRAME_RESPONSE, b"OK")


def test_a_revoked_token_ends_its_open_connections_and_others_go_on(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    secrets = {name: new_token(directory, name).encode() for name in ("one", "two")}
    with RunningEngine(directory) as engine:
        clients = {}
        for name, secret in secrets.items():
            clients[name] = engine.client()
            clients[name].send(b"AUTH\n" + sized(secret) + b"SUB t ch\n")
            assert json.loads(clients[name].read_frame()[1])["identity"] == name
            assert clients[name].read_frame() == (FRAME_RESPONSE, b"OK")
        TokenFile(directory).revoke("one", by="", now_ms=5)
        assert clients["one"].read_frame() == (FRAME_ERROR, b"E_UNAUTHORIZED AUTH the token one was revoked")
        clients["two"].send(b"PUB t\n" + sized(b"x"))
        assert clients["two"].read_frame() == (FRAME_RESPONSE, b"OK")
        assert _refusal(engine, b"NOP\n", secret=secrets["one"]) == "E_AUTH_FAILED AUTH failed"
    assert set(TokenFile(directory).used_ms()) == {token.id for token in TokenFile(directory).read() or ()}


def test_acts_without_a_console_are_on_the_disk_before_their_answer(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    now_ms = time.time_ns() // 1_000_000
    _, secret = TokenFile(directory).create("ops", ["administer"], [], expires_ms=0, by="", now_ms=now_ms)
    with RunningEngine(directory) as engine:
        engine.http("POST", "/topic/create?topic=t", token=secret)
        engine.copy_as_killed(tmp_path / "killed")
        with pytest.raises(urllib.error.HTTPError, match="403"):
            engine.http("POST", "/topic/delete?topic=t")
    (created,) = [one.act for one in read_page(tmp_path / "killed", count=9).acts]
    assert created is not None
    assert (created.action, created.topic, created.actor, created.error) == ("create_topic", "t", "ops", "")
    refused = read_page(directory, count=1).acts[0].act
    assert refused is not None
    assert (refused.action, refused.actor, refused.error[:14]) == ("delete_topic", "", "TOKEN_REQUIRED")
