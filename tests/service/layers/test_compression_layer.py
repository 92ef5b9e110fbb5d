"""The layer of a compression: what a peer's bytes stand for comes in steps, and no faster than the session reads."""

import asyncio
import random
import socket
from collections.abc import Callable
from typing import Any

import pytest

from queue_engine.service.admission.unread_bytes import has_unread_bytes
from queue_engine.service.layers.compression_layer import STEP_BYTES, CompressionLayer
from queue_engine.wire.protocol.deflate_codec import DeflateDecoder, DeflateEncoder
from queue_engine.wire.protocol.snappy_codec import SnappyDecoder, SnappyEncoder
from tests.support.memory_session import MemoryTransport


class Above(asyncio.Protocol):
    """Keeps what comes. pauses_after: it pauses reading once it has so many bytes."""

    def __init__(self) -> None:
        self.reads: list[int] = []
        self.has_ended = False
        self.pauses_after: int | None = None
        self.layer: CompressionLayer

    def data_received(self, data: bytes) -> None:
        self.reads.append(len(data))
        if self.pauses_after is not None and sum(self.reads) >= self.pauses_after:
            self.pauses_after = None
            self.layer.pause_reading()

    def eof_received(self) -> bool:
        self.has_ended = True
        return False


class OwnPace:
    """As a session's whose client has said who it is."""

    step_bytes = STEP_BYTES

    def soon(self, piece: Callable[[], object]) -> None:
        asyncio.get_running_loop().call_soon(piece)


@pytest.fixture(params=["snappy", "deflate"])
async def parts(request: pytest.FixtureRequest) -> tuple[MemoryTransport, Above, bytes]:
    """A socket's transport below, a session above, and a bomb of 4 MiB."""
    transport, above = MemoryTransport(), Above()
    if request.param == "snappy":
        above.layer = CompressionLayer(transport, above, SnappyEncoder(), SnappyDecoder(), OwnPace())
        bomb = b"".join(SnappyEncoder().encode(bytes(4 << 20)))
    else:
        above.layer = CompressionLayer(transport, above, DeflateEncoder(6), DeflateDecoder(), OwnPace())
        bomb = b"".join(DeflateEncoder(9).encode(bytes(4 << 20)))
    above.layer.insert()
    return transport, above, bomb


async def turns(count: int = 100) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_bomb_comes_in_steps_with_turns_of_others_between(
    parts: tuple[MemoryTransport, Above, bytes],
) -> None:
    transport, above, bomb = parts
    transport.session.data_received(bomb)
    assert len(above.reads) == 1
    assert not transport.is_reading, "the rest waits where it is"
    await turns(1)
    assert len(above.reads) == 2
    await turns()
    assert sum(above.reads) == 4 << 20
    assert max(above.reads) <= STEP_BYTES + (64 << 10)
    assert transport.is_reading


async def test_nothing_is_decompressed_while_the_session_does_not_read(
    parts: tuple[MemoryTransport, Above, bytes],
) -> None:
    transport, above, bomb = parts
    above.pauses_after = 1 << 20
    transport.session.data_received(bomb)
    await turns()
    paused_at = sum(above.reads)
    assert 1 << 20 <= paused_at < (1 << 20) + STEP_BYTES + (64 << 10)
    assert not transport.is_reading
    above.layer.resume_reading()
    await turns()
    assert sum(above.reads) == 4 << 20
    assert transport.is_reading


async def test_a_step_that_is_due_waits_while_the_session_does_not_read(
    parts: tuple[MemoryTransport, Above, bytes],
) -> None:
    transport, above, bomb = parts
    transport.session.data_received(bomb)
    above.layer.pause_reading()
    await turns()
    assert len(above.reads) == 1
    above.layer.resume_reading()
    await turns()
    assert sum(above.reads) == 4 << 20


async def test_what_waits_to_be_decompressed_counts_as_sent(parts: tuple[MemoryTransport, Above, bytes]) -> None:
    """The socket is empty then, and a client that waits for room must not look silent."""
    transport, above, bomb = parts
    transport.socket, peer = socket.socketpair()
    with transport.socket, peer:
        assert not has_unread_bytes(above.layer)
        above.pauses_after = 1
        transport.session.data_received(bomb)
        assert has_unread_bytes(above.layer)
        above.layer.resume_reading()
        await turns()
        assert not has_unread_bytes(above.layer)


async def test_a_session_that_ends_gets_nothing_more(parts: tuple[MemoryTransport, Above, bytes]) -> None:
    transport, above, bomb = parts
    transport.session.data_received(bomb)
    above.layer.close()
    await turns()
    assert len(above.reads) == 1
    assert transport.is_closed


async def test_the_end_comes_behind_all_that_was_sent(parts: tuple[MemoryTransport, Above, bytes]) -> None:
    transport, above, bomb = parts
    transport.session.data_received(bomb)
    assert transport.session.eof_received()
    assert not above.has_ended
    await turns()
    assert sum(above.reads) == 4 << 20
    assert above.has_ended
    assert transport.is_closed


async def test_what_is_no_stream_cuts_the_connection(parts: tuple[MemoryTransport, Above, bytes]) -> None:
    transport, above, _ = parts
    transport.session.data_received(b"PUB topic\n and more that is no stream")
    assert transport.is_aborted
    assert above.reads == []


async def test_a_large_read_of_what_stands_for_nothing_gives_others_a_turn(
    parts: tuple[MemoryTransport, Above, bytes],
) -> None:
    transport, above, _ = parts
    one_byte = SnappyEncoder() if isinstance(above.layer._decoder, SnappyDecoder) else DeflateEncoder(6)
    transport.session.data_received(b"".join(b"".join(one_byte.encode(b"x")) for _ in range(10_000)))
    assert not transport.is_reading
    await turns(2)
    assert transport.is_reading
    assert sum(above.reads) == 10_000


class Writes(MemoryTransport):
    """Keeps each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))


async def test_each_chunk_of_snappy_is_a_write_of_its_own() -> None:
    transport, body = Writes(), random.Random(1).randbytes(100_000)
    layer = CompressionLayer(transport, Above(), SnappyEncoder(), SnappyDecoder(), OwnPace())
    layer.write(body)
    assert transport.writes == list(SnappyEncoder().encode(body))
    assert len(transport.writes) == 7
