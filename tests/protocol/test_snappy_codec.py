"""Snappy on the wire: both ways with the library that Python clients use; what is refused before it costs memory."""

import random
import struct

import cramjam
import pytest
import snappy
from nsq.snappy_socket import SnappySocket

from queue_engine.wire.protocol.compression import CompressionError
from queue_engine.wire.protocol.snappy_codec import BLOCK_BYTES_MAX, SnappyDecoder, SnappyEncoder, _masked

IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"
BODIES = [b"a", b"FIN 0123456789abcdef\n" * 100, random.Random(1).randbytes(1_000), bytes(200_000), b"x" * 65_536]


def chunk(kind: int, payload: bytes, checksum: bytes | None = None, length: int | None = None) -> bytes:
    checksum = struct.pack("<I", _masked(payload)) if checksum is None else checksum
    claimed = len(checksum + payload) if length is None else length
    return bytes((kind,)) + claimed.to_bytes(3, "little") + checksum + payload


def decoded(data: bytes, piece: int = 1 << 20) -> bytes:
    decoder = SnappyDecoder()
    found = b""
    for at in range(0, len(data), piece):
        decoder.feed(data[at : at + piece])
        while part := decoder.decode(1 << 18):
            found += part
    return found


def test_the_clients_library_reads_what_is_sent() -> None:
    encoder, theirs = SnappyEncoder(), snappy.StreamDecompressor()
    for body in BODIES:
        assert theirs.decompress(b"".join(encoder.encode(body))) == body


RECORD_BYTES = 16 << 10  # of TLS
LARGE = [random.Random(3).randbytes(900_000), b"some words that become smaller " * 30_000]


@pytest.mark.parametrize("body", LARGE, ids=["noise", "words"])
def test_each_piece_is_a_whole_chunk_that_fits_into_a_record_of_tls(body: bytes) -> None:
    encoder, theirs = SnappyEncoder(), snappy.StreamDecompressor()
    found = b""
    for piece in encoder.encode(body):
        assert len(piece) <= RECORD_BYTES
        part = theirs.decompress(piece)
        assert part
        found += part
    assert found == body


class Reads:
    """In the place of a socket: one read after the other, of so many bytes at most."""

    def __init__(self, data: bytes, read_bytes: int) -> None:
        self.reads = [data[at : at + read_bytes] for at in range(0, len(data), read_bytes)]

    def recv(self, size: int) -> bytes:
        assert len(self.reads[0]) <= size
        return self.reads.pop(0)


@pytest.mark.parametrize("body", LARGE, ids=["noise", "words"])
@pytest.mark.parametrize("read_bytes", [65_536, 65_483, 40_960, 16_426])  # pynsq's; a segment of loopback's; two seen
def test_pynsq_gets_something_with_each_read_of_16_kib(body: bytes, read_bytes: int) -> None:
    """It takes a read that gives it nothing for the end of the connection."""
    reads = Reads(b"".join(SnappyEncoder().encode(body)), read_bytes)
    pynsq = SnappySocket(reads)
    found = b""
    while reads.reads:
        found += pynsq.recv(65_536)
    assert found == body


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_what_the_clients_library_sends_is_read(piece: int) -> None:
    # pynsq begins a stream for each command; gnsq goes on with one.
    one = snappy.StreamCompressor()
    sent = b"".join(snappy.StreamCompressor().compress(body) for body in BODIES)
    sent += b"".join(one.compress(body) for body in BODIES)
    assert decoded(sent, piece) == b"".join(BODIES) * 2


def test_what_does_not_become_smaller_is_sent_as_it_is() -> None:
    noise = random.Random(2).randbytes(5_000)
    assert b"".join(SnappyEncoder().encode(noise)) == IDENTIFIER + chunk(1, noise)


def test_padding_is_skipped() -> None:
    assert decoded(IDENTIFIER + chunk(0xFE, b"", b"12345") + chunk(1, b"hello")) == b"hello"


def test_a_step_is_bounded_whatever_the_bytes_stand_for() -> None:
    decoder = SnappyDecoder()
    decoder.feed(b"".join(SnappyEncoder().encode(bytes(4 << 20))))
    parts = []
    while part := decoder.decode(1 << 18):
        parts.append(len(part))
    assert sum(parts) == 4 << 20
    assert max(parts) <= (1 << 18) + BLOCK_BYTES_MAX


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (chunk(1, b"hello"), "identifier is missing"),
        (b"PUB topic\n", "identifier is missing"),
        (b"\xff\x06\x00\x00sNaPpy", "identifier is wrong"),
        (b"\xff\xff\xff\xff", "has 16777215 bytes and the most is 76494"),
        (IDENTIFIER + b"\x00\xff\xff\xff", "has 16777215 bytes and the most is 76494"),
        (IDENTIFIER + chunk(1, bytes(BLOCK_BYTES_MAX + 1)), "has 65537 bytes and the most is 65536"),
        (IDENTIFIER + chunk(0, bytes(cramjam.snappy.compress_raw(bytes(65_537)))), "claims 65537 bytes"),
        (IDENTIFIER + chunk(0, b"\xff\xff\xff\xff\x0f\x00"), "claims 4294967295 bytes"),
        (IDENTIFIER + chunk(1, b"hello", b"\0\0\0\0"), "checksum is wrong"),
        (IDENTIFIER + chunk(0, b"\x05\xff"), "snappy"),
        (IDENTIFIER + chunk(0, b""), "snappy"),
        (IDENTIFIER + b"\x02\x05\x00\x00hello", "type 0x02 is reserved"),
        (IDENTIFIER + b"\x01\x03\x00\x00abc", "fewer than its checksum"),
    ],
)
def test_what_is_no_stream_is_refused(data: bytes, text: str) -> None:
    with pytest.raises(CompressionError, match=text):
        decoded(data)


@pytest.mark.parametrize("empty", [IDENTIFIER, b"\xfe\x00\x00\x00", b"\x80\x02\x00\x00ab"])
def test_chunks_that_stand_for_nothing_are_few_in_a_row(empty: bytes) -> None:
    some = empty * 900 + b"".join(SnappyEncoder().encode(b"x"))
    assert decoded(IDENTIFIER + some * 3) == b"xxx"
    with pytest.raises(CompressionError, match="more than 1000 snappy chunks in a row"):
        decoded(IDENTIFIER + empty * 2_000)
