"""Snappy's framing format, as nsqd and its clients use it on a connection.

    stream: ( identifier | chunk )…      an identifier comes first, and may come again

    identifier   | 0xff | 06 00 00 | "sNaPpY" |
    compressed   | 0x00 | length u24 | checksum u32 | block |      of 64 KiB at most
    raw          | 0x01 | length u24 | checksum u32 | bytes |      of 64 KiB at most
    padding      | 0x80 … 0xfe | length u24 | bytes |              skipped
    reserved     | 0x02 … 0x7f |                                   refused

Numbers are little-endian, `length` counts the bytes behind it. The checksum is a CRC-32C of the uncompressed bytes,
turned right by 15 bits, plus 0xa282ead8. A block begins with its uncompressed length, so a false claim is refused
before it costs memory.
"""

import struct
from collections.abc import Iterator

import cramjam
from crc32c import crc32c

from queue_engine.wire.protocol.compression import CompressionError

BLOCK_BYTES_MAX = 64 << 10
# Snappy's own bound for a compressed block of 64 KiB, and the checksum.
_CHUNK_BYTES_MAX = 76_490 + 4
# Chunks in a row that stand for nothing: identifiers, padding, empty ones. Each takes as long as one with bytes.
_EMPTY_CHUNKS_MAX = 1_000
_IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"
_COMPRESSED = 0x00
_RAW = 0x01
_FIRST_SKIPPED = 0x80
_STREAM = 0xFF
_HEADER_BYTES = 4
_CHECKSUM_BYTES = 4
# Bytes of a sent block. pynsq loses its connection when a read ends in the chunk in which it began, so chunks are
# small, each is written alone, and each fits into one record of TLS. nsqd cuts at 16 KiB, too, but for larger bodies.
_SENT_BLOCK_BYTES = (16 << 10) - len(_IDENTIFIER) - _HEADER_BYTES - _CHECKSUM_BYTES

_pack_checksum = struct.Struct("<I").pack
_unpack_checksum = struct.Struct("<I").unpack_from


class SnappyEncoder:
    """Makes chunks of the bytes to send, a piece of each."""

    def __init__(self) -> None:
        self._start = _IDENTIFIER  # before the first chunk

    def encode(self, data: bytes) -> Iterator[bytes]:
        for at in range(0, len(data), _SENT_BLOCK_BYTES):
            block = data[at : at + _SENT_BLOCK_BYTES]
            packed = bytes(cramjam.snappy.compress_raw(block))
            kind = _COMPRESSED
            if len(packed) >= len(block):
                packed, kind = block, _RAW
            length = len(packed) + _CHECKSUM_BYTES
            start, self._start = self._start, b""
            header = bytes((kind,)) + length.to_bytes(3, "little") + _pack_checksum(_masked(block))
            yield b"".join((start, header, packed))


class SnappyDecoder:
    """Reads chunks of received bytes. Holds the fed bytes, and no more than a chunk beyond."""

    def __init__(self) -> None:
        self._buffer = b""
        self._position = 0
        self._has_begun = False
        self._empty_chunks = 0  # in a row

    def feed(self, data: bytes) -> None:
        self._buffer = self._buffer[self._position :] + data
        self._position = 0

    def decode(self, bytes_max: int) -> bytes:
        parts: list[bytes] = []
        count = 0
        while count < bytes_max:
            chunk = self._chunk()
            if chunk is None:
                break
            if chunk:
                parts.append(chunk)
                count += len(chunk)
                self._empty_chunks = 0
                continue
            self._empty_chunks += 1
            if self._empty_chunks > _EMPTY_CHUNKS_MAX:
                raise CompressionError(f"more than {_EMPTY_CHUNKS_MAX} snappy chunks in a row stand for nothing")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _chunk(self) -> bytes | None:
        """The bytes that the next chunk stands for, b"" for an identifier and padding; None when it is not complete."""
        buffer, at = self._buffer, self._position
        if len(buffer) - at < _HEADER_BYTES:
            return None
        kind = buffer[at]
        length = int.from_bytes(buffer[at + 1 : at + _HEADER_BYTES], "little")
        self._check(kind, length)
        start, end = at + _HEADER_BYTES, at + _HEADER_BYTES + length
        if len(buffer) < end:
            return None
        self._position = end
        if kind >= _FIRST_SKIPPED:
            if kind == _STREAM and buffer[at:end] != _IDENTIFIER:
                raise CompressionError("snappy's stream identifier is wrong")
            return b""
        packed = buffer[start + _CHECKSUM_BYTES : end]
        block = packed if kind == _RAW else _unpacked(packed)
        if len(block) > BLOCK_BYTES_MAX:
            raise CompressionError(f"a raw snappy chunk has {len(block)} bytes and the most is {BLOCK_BYTES_MAX}")
        if _unpack_checksum(buffer, start)[0] != _masked(block):
            raise CompressionError("a snappy chunk's checksum is wrong")
        return block

    def _check(self, kind: int, length: int) -> None:
        """Refuse a chunk by its header, before more of it is awaited."""
        if not self._has_begun:
            if kind != _STREAM:
                raise CompressionError("snappy's stream identifier is missing")
            self._has_begun = True
        if _RAW < kind < _FIRST_SKIPPED:
            raise CompressionError(f"snappy's chunk type 0x{kind:02x} is reserved")
        if length > _CHUNK_BYTES_MAX:
            raise CompressionError(f"a snappy chunk has {length} bytes and the most is {_CHUNK_BYTES_MAX}")
        if kind == _STREAM and length != len(_IDENTIFIER) - _HEADER_BYTES:
            raise CompressionError("snappy's stream identifier is wrong")
        if kind < _FIRST_SKIPPED and length < _CHECKSUM_BYTES:
            raise CompressionError(f"a snappy chunk has {length} bytes, fewer than its checksum")


def _unpacked(packed: bytes) -> bytes:
    try:
        claimed = cramjam.snappy.decompress_raw_len(packed)
        if claimed > BLOCK_BYTES_MAX:
            raise CompressionError(f"a snappy block claims {claimed} bytes and the most is {BLOCK_BYTES_MAX}")
        return bytes(cramjam.snappy.decompress_raw(packed))
    except cramjam.DecompressionError as exc:
        raise CompressionError(str(exc)) from exc


def _masked(data: bytes) -> int:
    checksum = crc32c(data)
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF
