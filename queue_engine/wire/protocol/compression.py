"""What the two compressions of a connection have in common: they pass bytes on in bounded pieces, and refuse others."""

from collections.abc import Iterable
from typing import Protocol


class CompressionError(Exception):
    """The peer's bytes are no stream of the agreed compression. Its text says how."""


class Encoder(Protocol):
    """Compresses what is sent."""

    def encode(self, data: bytes) -> Iterable[bytes]:
        """Pieces from which the peer can decode all of `data`, each for a write of its own: a peer that gets a whole
        piece can decode a part of `data`. They have to be taken to the end, in order."""
        ...


class Decoder(Protocol):
    """Decompresses what is received, only so much as is asked for: a peer's few bytes may stand for very many."""

    def feed(self, data: bytes) -> None:
        """Take a read of the peer's bytes; they are kept until `decode` needs them."""
        ...

    def decode(self, bytes_max: int) -> bytes:
        """About `bytes_max` of what the fed bytes stand for: at most 64 KiB more. b"" when further bytes are needed.

        Raises CompressionError, after which the decoder is of no more use.
        """
        ...
