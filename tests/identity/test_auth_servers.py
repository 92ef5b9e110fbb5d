"""Asking auth servers: nsqd's questions and answers, several servers, and those that are down, slow or hostile."""

import asyncio
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from queue_engine.service.identity.auth_answer import AUTHORIZATIONS_MAX, PATTERNS_MAX
from queue_engine.service.identity.auth_servers import ANSWER_BYTES_MAX, SECRET_BYTES_MAX, AuthServers
from queue_engine.service.identity.authorization import Authorization
from queue_engine.service.identity.gate import Peer, SecretRefusedError
from queue_engine.service.tls import replaceable
from queue_engine.vocabulary.errors import PenstockError
from queue_engine.vocabulary.permission import Permission
from tests.support.auth_server import EVERYTHING, AuthServer, granted
from tests.support.certificates import Certificates
from tests.support.clock import ManualClock

PEER = Peer("192.0.2.7", is_tls=True, common_name="worker 1")


@pytest.fixture
def server() -> Iterator[AuthServer]:
    with AuthServer() as server:
        yield server


async def ask(
    *addresses: str, secret: bytes = b"s&cret", times: int = 1, clock: ManualClock | None = None, **options: Any
) -> Authorization:
    options = {"connect_timeout_ms": 5_000, "request_timeout_ms": 20_000, **options}
    servers = AuthServers(addresses, clock or ManualClock(), **options)
    try:
        for _ in range(times):
            found = await servers.request(secret, PEER)
        return found
    finally:
        await servers.close()


@pytest.mark.parametrize("method", ["get", "post"])
async def test_the_question_is_nsqds(server: AuthServer, method: str) -> None:
    await ask(server.address, method=method, secret=b"s&cret \xff")
    (question,) = server.questions
    assert (question.method, question.path) == (method.upper(), "/auth")
    assert question.fields == {
        "common_name": "worker 1",
        "remote_ip": "192.0.2.7",
        "secret": "s&cret �",
        "tls": "true",
    }


async def test_a_url_is_taken_as_it_is(server: AuthServer) -> None:
    await ask(f"http://{server.address}/who?site=a")
    assert server.questions[0].path == "/who"
    assert server.questions[0].fields["site"] == "a"


async def test_the_answer_allows_what_it_names(server: AuthServer) -> None:
    server.answer = granted(
        {"topic": r"orders\..*", "channels": ["bill.*"], "permissions": ["subscribe"]},
        {"topic": "logs", "channels": [".*"], "permissions": ["publish"]},
        {"topic": "no-channel-fits", "channels": ["x"], "permissions": ["publish"]},
        url="https://who.example/deploy",
    )
    clock = ManualClock()
    found = await ask(server.address, clock=clock)
    assert (found.identity, found.identity_url, found.permission_count) == ("deploy", "https://who.example/deploy", 3)
    assert found.ends_ns == clock.monotonic_ns() + 3600 * 10**9
    consume, publish = Permission.CONSUME, Permission.PUBLISH
    assert found.may(consume, "orders.eu", "billing")
    assert not found.may(consume, "orders.eu", "archive")
    assert not found.may(consume, "xorders.eu", "billing")
    assert not found.may(publish, "orders.eu")
    assert found.may(publish, "logs")
    assert not found.may(publish, "logs2")
    assert not found.may(publish, "no-channel-fits")
    assert not found.may(Permission.ADMINISTER, "logs")


async def test_a_bad_expression_costs_its_authorization_alone(server: AuthServer) -> None:
    server.answer = granted({"topic": "(", "channels": [".*"], "permissions": ["publish"]}, EVERYTHING)
    found = await ask(server.address)
    assert found.permission_count == 1
    assert found.may(Permission.PUBLISH, "t")


async def test_no_authorizations_are_an_answer(server: AuthServer) -> None:
    server.answer = granted()
    assert (await ask(server.address)).permission_count == 0


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "the answer is no JSON"),
        (b"[]", "no JSON object"),
        (granted(EVERYTHING, ttl=0), "ttl is 0"),
        (granted(EVERYTHING, ttl=-5), "ttl is -5"),
        (granted(EVERYTHING, ttl="60"), "ttl is 60"),
        (granted(EVERYTHING, ttl=True), "ttl is True"),
        (granted(EVERYTHING, ttl=None), "ttl is None"),
        (granted(["no object"]), "no list of objects"),  # type: ignore[arg-type]
        (granted({**EVERYTHING, "permissions": ["administer"]}), "'administer' is none of publish and subscribe"),
        (granted({**EVERYTHING, "channels": ".*"}), "channels is no list"),
        (granted({**EVERYTHING, "topic": 5}), "topic is no text"),
        (granted(EVERYTHING, identity=5), "identity is no text"),  # type: ignore[arg-type]
        (granted(*[EVERYTHING] * (AUTHORIZATIONS_MAX + 1)), f"the most is {AUTHORIZATIONS_MAX}"),
        (granted({**EVERYTHING, "channels": ["x"] * PATTERNS_MAX}), f"more than {PATTERNS_MAX}"),
        (b'{"ttl": 1, "x": "' + b"x" * ANSWER_BYTES_MAX + b'"}', f"more than {ANSWER_BYTES_MAX} bytes"),
        ((403, {}, b'{"message":"NOT_AUTHORIZED"}'), "answered 403"),
        ((500, {}, b""), "answered 500"),
        ((204, {}, b""), "answered 204"),
    ],
)
async def test_an_answer_that_does_not_count_is_a_refusal(server: AuthServer, answer: Any, reason: str) -> None:
    server.answer = answer
    with pytest.raises(SecretRefusedError, match=reason):
        await ask(server.address)


async def test_a_redirect_is_not_followed(server: AuthServer) -> None:
    with AuthServer() as inside:
        for status in (301, 302, 307, 308):
            server.answer = (status, {"Location": f"http://{inside.address}/auth"}, b"")
            with pytest.raises(SecretRefusedError, match=f"answered {status}"):
                await ask(server.address)
        assert inside.questions == []


async def test_the_next_server_is_asked_when_one_is_down_and_each_begins_once(server: AuthServer) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        down = f"127.0.0.1:{taken.getsockname()[1]}"
    with AuthServer() as second:
        await ask(server.address, second.address, times=4)
        assert (len(server.questions), len(second.questions)) == (2, 2)
        second.answer = (403, {}, b"")
        await ask(down, second.address, server.address)
        assert len(server.questions) == 3


async def test_all_reasons_are_named_without_the_secret(server: AuthServer) -> None:
    server.answer = (403, {}, b"")
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        down = f"127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(SecretRefusedError) as refused:
        await ask(down, server.address, secret=b"very-secret")
    assert str(refused.value) == (
        f"http://{down}/auth can't be reached: Connect call failed ('127.0.0.1', {down.partition(':')[2]}); "
        f"http://{server.address}/auth answered 403"
    )


async def test_a_server_that_does_not_answer_costs_the_timeout(server: AuthServer) -> None:
    goes_on = threading.Event()
    server.answer = lambda _: (goes_on.wait(60) and b"") or b""
    with pytest.raises(SecretRefusedError, match=r"did not answer within 0.05 s"):
        await ask(server.address, request_timeout_ms=50)
    goes_on.set()


async def test_a_server_that_speaks_no_http_is_a_refusal() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"220 mail.example ESMTP\r\n")
        writer.close()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listener:
        with pytest.raises(SecretRefusedError, match="did not answer as HTTP wants it"):
            await ask(f"127.0.0.1:{listener.sockets[0].getsockname()[1]}")


async def test_a_long_secret_is_not_sent(server: AuthServer) -> None:
    with pytest.raises(SecretRefusedError, match=f"the most is {SECRET_BYTES_MAX}"):
        await ask(server.address, secret=b"x" * (SECRET_BYTES_MAX + 1))
    assert server.questions == []


async def test_other_authorities_count_once_their_file_is_replaced(
    certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaceable, "LOOK_INTERVAL_NS", 0)
    authorities = tmp_path / "authorities.pem"
    shutil.copy(certificates.stranger.certificate, authorities)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificates.server.certificate, certificates.server.key)
    with AuthServer(tls=tls) as server:
        servers = AuthServers(
            (f"https://localhost:{server.port}/auth",),
            ManualClock(),
            connect_timeout_ms=5_000,
            request_timeout_ms=20_000,
            root_ca_file=str(authorities),
        )
        try:
            with pytest.raises(SecretRefusedError, match=r"did not answer|can't be reached"):
                await servers.request(b"secret", PEER)
            shutil.copy(certificates.authority.certificate, authorities)
            assert (await servers.request(b"secret", PEER)).identity == "deploy"
        finally:
            await servers.close()


async def test_https_wants_a_certificate_of_the_authority(certificates: Certificates) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificates.server.certificate, certificates.server.key)
    with AuthServer(tls=tls) as server:
        url = f"https://localhost:{server.port}/auth"
        found = await ask(url, root_ca_file=str(certificates.authority.certificate))
        assert found.identity == "deploy"
        with pytest.raises(SecretRefusedError, match=r"did not answer|can't be reached"):
            await ask(url)
        assert len(server.questions) == 1
    with pytest.raises(PenstockError, match=r"--tls-root-ca-file /nowhere\.pem can't be used: No such file"):
        AuthServers(("a:1",), ManualClock(), connect_timeout_ms=1, request_timeout_ms=1, root_ca_file="/nowhere.pem")
