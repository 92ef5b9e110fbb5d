"""What one client may take of what all share, on real sockets: the others are served beside it."""

import http.client
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from queue_engine.service.identity.token_file import TokenFile
from queue_engine.vocabulary.permission import Permission
from tests.benchmarks.dripping_peers import OWN_ADDRESS, dripping
from tests.support.exposition import read_exposition
from tests.support.nsq_socket import NsqSocket, sized
from tests.support.processes.running_engine import RunningEngine
from tests.support.waiting import wait_for

StartEngine = Callable[..., RunningEngine]

LARGE = b"x" * 1_000_000


def waiting_bodies(engine: RunningEngine) -> int:
    return engine.snapshot.bodies.waiting_count if engine.snapshot is not None else 0


def test_others_publish_while_two_hundred_bodies_of_one_address_drip(start_engine: StartEngine) -> None:
    engine = start_engine(command_timeout_ms=600_000)  # no deadline ends a body meanwhile
    publisher = engine.client()
    with dripping(engine.tcp_port, engine.http_port, 200):
        wait_for("bodies to wait for room", lambda: waiting_bodies(engine) > 150)
        for _ in range(20):
            publisher.publish("large", LARGE)
            assert engine.http("POST", "/pub?topic=large", LARGE) == b"OK"
        notice = wait_for("the line", lambda: engine.http("GET", "/readyz").decode().partition("OK\n")[2])
    assert notice.startswith("unfinished bodies wait for room: ")
    assert notice.endswith(" by address 127.0.0.2")
    metrics = engine.http("GET", "/metrics").decode()
    assert "\npenstock_pending_body_wait_seconds " in metrics
    assert engine.topic_stats("large")["message_count"] == 40


@pytest.mark.slow(reason="waits until the server has measured the bodies")
def test_bodies_of_the_same_address_that_drip_make_room_for_those_that_come(start_engine: StartEngine) -> None:
    engine = start_engine(command_timeout_ms=60_000)
    publisher = engine.client()
    with dripping(engine.tcp_port, engine.http_port, 14, address=OWN_ADDRESS) as peers:
        wait_for("bodies to wait for room", lambda: waiting_bodies(engine) > 5)
        publisher.publish("large", LARGE)
        wait_for("an end", lambda: peers.ended_count)
    assert wait_for("the count", lambda: engine.snapshot and engine.snapshot.bodies.ended_count)


OTHER_ADDRESS = "127.0.0.2"


def test_one_address_leaves_a_quarter_of_the_tcp_connections_to_others(start_engine: StartEngine) -> None:
    engine = start_engine(max_connections=20)
    with ExitStack() as held:
        clients = [held.enter_context(NsqSocket(engine.tcp_port, address=OTHER_ADDRESS)) for _ in range(16)]
        for client in clients[:15]:
            client.expect_open()
        [(_, told)] = clients[15].read_until_closed()
        assert told == b"E_INVALID too many connections of address 127.0.0.2: 15 are open, its share of 20"
        for number in range(3, 8):
            held.enter_context(NsqSocket(engine.tcp_port, address=f"127.0.0.{number}")).expect_open()
        clients[0].expect_open()
    counts = engine.snapshot.refused_connections if engine.snapshot is not None else {}
    assert counts.get(("tcp", "too_many"), 0) == 0


def test_a_token_leaves_a_quarter_of_the_tcp_connections_to_others(start_engine: StartEngine) -> None:
    engine = start_engine(max_connections=20, http_token="secret")
    with ExitStack() as held:
        clients = [
            held.enter_context(NsqSocket(engine.tcp_port, address=f"127.0.0.{2 + number}")) for number in range(16)
        ]
        for client in clients:
            client.send(b"AUTH\n" + sized(b"secret"))
        for client in clients[:15]:
            assert b"identity" in client.read_frame()[1]
        [(_, told)] = clients[15].read_until_closed()
        assert told == b"E_INVALID too many connections of token http-token: 15 are open, its share of 20"
        held.enter_context(NsqSocket(engine.tcp_port, address="127.0.0.99")).expect_open()


def test_idle_http_connections_of_one_address_give_way_to_its_own_and_others_get_in(start_engine: StartEngine) -> None:
    engine = start_engine(max_connections=20)
    with ExitStack() as held:

        def asks(address: str) -> http.client.HTTPConnection:
            at = ("127.0.0.1", engine.http_port)
            client = http.client.HTTPConnection(*at, timeout=30, source_address=(address, 0))
            held.callback(client.close)
            client.request("GET", "/ping")
            answer = client.getresponse()
            assert (answer.status, answer.read()) == (200, b"OK")
            return client

        idle = [asks(OTHER_ADDRESS) for _ in range(40)]
        for number in range(3, 8):
            asks(f"127.0.0.{number}")
        for client in idle[:25]:
            assert client.sock.recv(1) == b""
        # One that has begun a request is not idle, and its share is full: the next is told why.
        for _ in range(15):
            begun = socket.create_connection(("127.0.0.1", engine.http_port), 30, source_address=(OTHER_ADDRESS, 0))
            held.enter_context(begun).sendall(b"GET /ping HTTP/1.1\r\n")
        for client in idle[25:]:
            assert client.sock.recv(1) == b""
        with pytest.raises(AssertionError, match="503"):
            asks(OTHER_ADDRESS)
        asks("127.0.0.9")


def engine_cpu_s(engine: RunningEngine) -> float:
    return read_exposition(engine.http("GET", "/metrics"))["penstock_engine_cpu_seconds_total"]


def test_compressed_nops_before_auth_leave_the_engine_to_others(start_engine: StartEngine, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    permissions = [Permission.PUBLISH]
    _, secret = TokenFile(tmp_path / "data").create("orders", permissions, [], expires_ms=0, by="", now_ms=1)
    engine = start_engine()
    publisher = engine.client()
    publisher.send(b"AUTH\n" + sized(secret.encode()))
    assert b"orders" in publisher.read_frame()[1]

    def cpu_s_of_publishes() -> float:
        before_s = engine_cpu_s(engine)
        for _ in range(50):
            publisher.publish("t", b"x")
        return engine_cpu_s(engine) - before_s

    cpu_s_of_publishes()
    alone_s = cpu_s_of_publishes()
    for _ in range(20):
        flood = engine.layered()
        flood.negotiate(deflate=True)
        flood.send(b"NOP\n" * (1 << 20))
    # Each connection alone had a millisecond of each turn before, and there are a hundred turns at least.
    beside_s = cpu_s_of_publishes()
    assert beside_s < 15 * alone_s, f"{beside_s:.3f} s beside them, {alone_s:.3f} s alone"
