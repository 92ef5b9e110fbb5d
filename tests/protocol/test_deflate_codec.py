"""Deflate on the wire: raw streams both ways, and bombs, which are taken apart in bounded steps."""

import random
import zlib

import pytest

from queue_engine.wire.protocol.compression import CompressionError
from queue_engine.wire.protocol.deflate_codec import DeflateDecoder, DeflateEncoder

BODIES = [b"a", b"FIN 0123456789abcdef\n" * 100, random.Random(1).randbytes(50_000), bytes(2_000_000), b"end"]


@pytest.mark.parametrize("level", [1, 6, 9])
def test_each_write_can_be_read_at_once(level: int) -> None:
    encoder, theirs = DeflateEncoder(level), zlib.decompressobj(-zlib.MAX_WBITS)
    for body in BODIES:
        assert theirs.decompress(b"".join(encoder.encode(body))) == body


@pytest.mark.parametrize("piece", [1, 1_000, 1 << 20])
def test_what_a_client_sends_is_read_in_pieces(piece: int) -> None:
    theirs, decoder, found = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS), DeflateDecoder(), b""
    sent = b"".join(theirs.compress(body) + theirs.flush(zlib.Z_SYNC_FLUSH) for body in BODIES)
    for at in range(0, len(sent), piece):
        decoder.feed(sent[at : at + piece])
        while part := decoder.decode(1 << 18):
            found += part
    assert found == b"".join(BODIES)


def test_a_bomb_comes_in_steps() -> None:
    decoder, total = DeflateDecoder(), 0
    bomb = b"".join(DeflateEncoder(9).encode(bytes(64 << 20)))
    assert len(bomb) < 70_000
    decoder.feed(bomb)
    while part := decoder.decode(1 << 18):
        assert len(part) <= 1 << 18
        total += len(part)
    assert total == 64 << 20


def test_the_end_of_the_stream_is_no_error() -> None:
    theirs, decoder = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS), DeflateDecoder()
    decoder.feed(theirs.compress(b"last words") + theirs.flush())
    assert decoder.decode(100) == b"last words"
    assert decoder.decode(100) == b""


@pytest.mark.parametrize("data", [b"PUB topic\n", zlib.compress(b"hello"), b"\x07"])
def test_what_is_no_stream_is_refused(data: bytes) -> None:
    decoder = DeflateDecoder()
    decoder.feed(data)
    with pytest.raises(CompressionError):
        decoder.decode(1 << 18)


def test_bytes_behind_the_end_are_refused() -> None:
    theirs, decoder = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS), DeflateDecoder()
    decoder.feed(theirs.compress(b"last words") + theirs.flush() + b"more")
    with pytest.raises(CompressionError, match="behind the end"):
        decoder.decode(1 << 18)
