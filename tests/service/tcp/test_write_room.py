"""The room of a connection for messages: what it says that fits is taken whole, by sockets of all kinds."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from queue_engine.delivery.channel import RUN_BYTES_MAX
from queue_engine.service.tcp.write_room import UNSENT_BYTES_MAX, WriteRoom
from queue_engine.wire.protocol.identify import DEFAULT_OUTPUT_BUFFER_SIZE


class SocketTransport(asyncio.Transport):
    """Writes to a socket at once, as uvloop does, and keeps what it does not take."""

    def __init__(self, given: socket.socket | None) -> None:
        super().__init__({"socket": given})
        self.socket = given
        self.kept = b""

    def write(self, data: Any) -> None:
        assert self.socket is not None
        try:
            sent = self.socket.send(data)
        except BlockingIOError:
            sent = 0
        self.kept += data[sent:]

    def get_write_buffer_size(self) -> int:
        return len(self.kept)


def connected(send_buffer_bytes: int | None) -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES_MAX)
        if send_buffer_bytes is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        peer = socket.create_connection(listener.getsockname())
        return listener.accept()[0], peer


@pytest.fixture(params=["tcp", "tcp with a small buffer", "unix"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[SocketTransport, socket.socket]]:
    """A transport, and its peer, which reads nothing."""
    if request.param == "unix":
        own, peer = socket.socketpair()
    else:
        own, peer = connected(100_000 if "small" in request.param else None)
    with own, peer:
        own.setblocking(False)
        yield SocketTransport(own), peer


@pytest.mark.parametrize("share", [1, 0.4])
def test_a_peer_that_reads_nothing_costs_the_output_buffer(
    pair: tuple[SocketTransport, socket.socket], share: float
) -> None:
    transport, _ = pair
    room, sent_bytes = WriteRoom(), 0
    assert room.run_bytes_max(transport, 0) == RUN_BYTES_MAX
    while not transport.kept:
        count = int(room.run_bytes_max(transport, 0) * share)
        transport.write(b"x" * count)
        room.written(count)
        sent_bytes += count
    assert sent_bytes >= RUN_BYTES_MAX, "the socket took hardly anything"
    assert len(transport.kept) <= DEFAULT_OUTPUT_BUFFER_SIZE
    assert room.run_bytes_max(transport, 0) <= DEFAULT_OUTPUT_BUFFER_SIZE - len(transport.kept) + 1


def test_it_is_large_again_once_the_peer_has_read(pair: tuple[SocketTransport, socket.socket]) -> None:
    transport, peer = pair
    room = WriteRoom()
    transport.write(b"x" * (8 << 20))
    room.written(8 << 20)
    assert room.run_bytes_max(transport, 0) == 1
    peer.settimeout(10)
    unread = 8 << 20
    while unread:
        transport.kept, rest = b"", transport.kept
        transport.write(rest)
        unread -= len(peer.recv(1 << 20))
    assert room.run_bytes_max(transport, 0) == RUN_BYTES_MAX


def test_without_a_socket_a_run_fits_into_the_output_buffer() -> None:
    room = WriteRoom()
    room.agree(30_000)
    assert room.run_bytes_max(SocketTransport(None), 0) == 30_000
    assert room.run_bytes_max(SocketTransport(None), 29_000) == 1_000
    assert room.run_bytes_max(SocketTransport(None), 31_000) == 1
    assert room.run_bytes_max(None, 0) == 30_000


def test_a_closed_socket_has_no_room() -> None:
    own, peer = socket.socketpair()
    own.close()
    peer.close()
    assert WriteRoom().run_bytes_max(SocketTransport(own), 0) == DEFAULT_OUTPUT_BUFFER_SIZE
