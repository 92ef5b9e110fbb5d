"""nsqlookupd on real sockets."""

import json
import socket
import struct
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.lookup import IDENTITY
from tests.support.nsq_socket import sized
from tests.support.processes.running_lookup import RunningLookup
from tests.support.waiting import wait_for


class PeerSocket:
    """A peer's connection. Use as a context."""

    def __init__(self, port: int, *, address: str = "127.0.0.1") -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(address, 0))
        self._stream = self._socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def reply(self) -> bytes:
        """Raises EOFError when the connection is closed."""
        head = self._stream.read(4)
        if len(head) < 4:
            raise EOFError
        return self._stream.read(struct.unpack(">i", head)[0])

    def half_close(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def __enter__(self) -> "PeerSocket":
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._socket.close()


@pytest.fixture(scope="module")
def lookup() -> Iterator[RunningLookup]:
    with RunningLookup() as running:
        yield running


def test_a_peer_registers_and_is_gone_with_its_connection(lookup: RunningLookup) -> None:
    with PeerSocket(lookup.tcp_port) as peer:
        peer.send(b"  V1IDENTIFY\n" + sized(json.dumps(IDENTITY).encode()) + b"REGISTER orders billing\n")
        own = json.loads(peer.reply())
        assert (own["tcp_port"], own["http_port"]) == (lookup.tcp_port, lookup.http_port)
        assert peer.reply() == b"OK"
        assert lookup.producer_ports("orders") == [4150]
    wait_for("the end of its registrations", lambda: lookup.producer_ports("orders") == [])
    assert lookup.channels("orders") == ["billing"]


def test_an_error_is_answered_and_the_connection_ends(lookup: RunningLookup) -> None:
    with PeerSocket(lookup.tcp_port) as peer:
        peer.send(b"  V1HELLO\nPING\n")
        assert peer.reply() == b"E_INVALID invalid command HELLO"
        with pytest.raises(EOFError):
            peer.reply()


def test_a_peer_that_shut_down_its_writing_gets_all_its_replies(lookup: RunningLookup) -> None:
    with PeerSocket(lookup.tcp_port) as peer:
        peer.send(b"  V1" + b"PING\n" * 50 + b"IDENTIFY\n\0")
        peer.half_close()
        assert [peer.reply() for _ in range(50)] == [b"OK"] * 50
        assert peer.reply() == b"E_BAD_BODY IDENTIFY failed to read body size"
        with pytest.raises(EOFError):
            peer.reply()


def test_answers_have_the_headers_of_nsqlookupd(lookup: RunningLookup) -> None:
    with urllib.request.urlopen(f"http://{lookup.http_address}/topics", timeout=30) as answer:
        assert answer.headers["X-NSQ-Content-Type"] == "nsq; version=1.0"
        assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
    with urllib.request.urlopen(f"http://{lookup.http_address}/ping", timeout=30) as answer:
        assert (answer.read(), answer.headers["X-NSQ-Content-Type"]) == (b"OK", None)
    with pytest.raises(urllib.error.HTTPError) as refused:
        lookup.get("/lookup?topic=nope")
    with refused.value as answer:
        assert (answer.code, answer.read()) == (404, b'{"message":"TOPIC_NOT_FOUND"}')


def test_one_address_leaves_room_for_other_nsqds() -> None:
    with RunningLookup(max_connections=4) as lookup, ExitStack() as held:
        peers = [held.enter_context(PeerSocket(lookup.tcp_port, address="127.0.0.2")) for _ in range(3)]
        for peer in peers:
            peer.send(b"  V1PING\n")
            assert peer.reply() == b"OK"
        refused = held.enter_context(PeerSocket(lookup.tcp_port, address="127.0.0.2"))
        assert refused.reply() == b"E_INVALID too many connections: connect again later"
        other = held.enter_context(PeerSocket(lookup.tcp_port))
        other.send(b"  V1PING\n")
        assert other.reply() == b"OK"


def test_a_connection_beyond_the_limit_is_refused_with_a_reply() -> None:
    with RunningLookup(max_connections=1) as lookup, PeerSocket(lookup.tcp_port) as first:
        first.send(b"  V1PING\n")
        assert first.reply() == b"OK"
        with PeerSocket(lookup.tcp_port) as second:
            assert second.reply() == b"E_INVALID too many connections: connect again later"
            with pytest.raises(EOFError):
                second.reply()
        first.send(b"PING\n")
        assert first.reply() == b"OK"
