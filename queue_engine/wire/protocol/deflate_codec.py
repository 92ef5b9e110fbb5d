"""Deflate on a connection: a raw stream (RFC 1951, no header of zlib's) in each direction, flushed with each write."""

import zlib

from queue_engine.wire.protocol.compression import CompressionError

_RAW_WBITS = -zlib.MAX_WBITS
# zlib copies unused input: it gets so much at a time.
_PIECE_BYTES = 16 << 10


class DeflateEncoder:
    """level: 1 (fastest) to 9 (smallest)."""

    def __init__(self, level: int) -> None:
        self._stream = zlib.compressobj(level, zlib.DEFLATED, _RAW_WBITS)

    def encode(self, data: bytes) -> tuple[bytes]:
        return (self._stream.compress(data) + self._stream.flush(zlib.Z_SYNC_FLUSH),)


class DeflateDecoder:
    """Holds the fed bytes, and zlib's window of 32 KiB."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(_RAW_WBITS)
        self._buffer = b""
        self._position = 0

    def feed(self, data: bytes) -> None:
        self._buffer = self._buffer[self._position :] + data
        self._position = 0

    def decode(self, bytes_max: int) -> bytes:
        parts: list[bytes] = []
        count = 0
        try:
            while count < bytes_max:
                piece = self._stream.unconsumed_tail
                if not piece:
                    piece = self._buffer[self._position : self._position + _PIECE_BYTES]
                    self._position += len(piece)
                plain = self._stream.decompress(piece, bytes_max - count)
                if plain:
                    parts.append(plain)
                    count += len(plain)
                elif not piece:
                    break
                if self._stream.eof and (self._stream.unused_data or self._position < len(self._buffer)):
                    raise CompressionError("bytes come behind the end of the deflate stream")
        except zlib.error as exc:
            raise CompressionError(str(exc)) from exc
        return parts[0] if len(parts) == 1 else b"".join(parts)
