"""The interface of a connection's two compressions: bytes pass in bounded pieces, and other bytes are refused."""

from collections.abc import Iterable
from typing import Protocol


class CompressionError(Exception):
    """The peer's bytes are no stream of the agreed compression. Its text says how."""


class Encoder(Protocol):
    """Compresses the bytes to send."""

    def encode(self, data: bytes) -> Iterable[bytes]:
        """Pieces from which the peer can decode all of `data`, each for a write of its own: a peer that gets a whole
        piece can decode a part of `data`. They have to be taken to the end, in order."""
        ...


class Decoder(Protocol):
    """Decompresses received bytes, only so many as the caller requests: a peer's few bytes may stand for very many."""

    def feed(self, data: bytes) -> None:
        """Take a read of the peer's bytes; they wait until `decode` needs them."""
        ...

    def decode(self, bytes_max: int) -> bytes:
        """About `bytes_max` decompressed bytes: at most 64 KiB more. b"" when further bytes are needed.

        Raises CompressionError, after which the decoder is of no more use.
        """
        ...
