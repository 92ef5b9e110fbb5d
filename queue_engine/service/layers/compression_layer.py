"""Snappy or deflate on a connection. Few bytes of a peer may stand for very many: they are decompressed in steps.

A step passes on as much as one read of a socket has at most, and other connections have their turn before the next.
While there is more, or who is above has paused reading, nothing is read from below. So a connection holds one read and
one step, whatever its bytes stand for, and the session above refuses too large a command as on any connection.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

from queue_engine.service.layers.layer import Layer
from queue_engine.wire.protocol.compression import CompressionError, Decoder, Encoder

logger = logging.getLogger(__name__)

# uvloop's largest read has as much.
STEP_BYTES = 256 << 10
# Behind a large read the loop would read on at once, up to 32 times, and bytes that stand for nothing take time, too.
_LARGE_READ_BYTES = 64 << 10


class Pace(Protocol):
    """How fast a connection's layer may work. step_bytes: at once, STEP_BYTES at most; a larger read waits."""

    @property
    def step_bytes(self) -> int: ...

    def soon(self, piece: Callable[[], object]) -> None:
        """Call `piece` when other connections had their turn."""
        ...


class CompressionLayer(Layer):
    """Compresses output: each piece is a write below. Call `insert`, then `data_received` with the bytes read
    before."""

    def __init__(
        self,
        below: asyncio.Transport,
        above: asyncio.Protocol,
        encoder: Encoder,
        decoder: Decoder,
        pace: Pace,
    ) -> None:
        super().__init__(below, above)
        self._encoder = encoder
        self._decoder = decoder
        self._pace = pace
        self._is_paused = False  # who is above has paused reading
        self._has_more = False  # fed bytes wait to be decompressed
        self._is_below_paused = False
        self._is_step_due = False
        self._is_large_read = False
        self._has_ended = False  # below; above learns of it behind the waiting bytes

    # The protocol above calls these.

    def write(self, data: Any) -> None:
        if not self._is_closing:
            for piece in self._encoder.encode(data):
                self._below.write(piece)

    def pause_reading(self) -> None:
        self._is_paused = True
        self._settle_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        if self._has_more:
            self._step_soon()
        else:
            self._settle_reading()

    def is_reading(self) -> bool:
        return not self._is_paused

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        # Who waits for room has sent something then, though its socket is empty (admission/unread_bytes.py).
        return self._has_more if name == "holds_unread" else super().get_extra_info(name, default)

    # The transport below calls these.

    def data_received(self, data: bytes) -> None:
        if not self._is_closing:
            self._decoder.feed(data)
            self._has_more = True
            self._is_large_read = len(data) >= _LARGE_READ_BYTES
            if len(data) <= self._pace.step_bytes:
                self._step()
            else:
                self._settle_reading()
                self._step_soon()

    def eof_received(self) -> bool | None:
        if self._has_more:
            self._has_ended = True
            return True
        return self._above.eof_received()

    def _step(self) -> None:
        self._is_step_due = False
        if self._is_closing or self._is_paused:
            return
        step_bytes = self._pace.step_bytes
        try:
            data = self._decoder.decode(step_bytes)
        except CompressionError as exc:
            logger.info("client cut remote=%s reason=%r", _shown(self.get_extra_info("peername")), str(exc))
            self.abort()
            return
        self._has_more = len(data) >= step_bytes or self._is_large_read
        self._is_large_read = False
        self._settle_reading()
        if data:
            self._above.data_received(data)
        if self._has_more:
            if not self._is_closing and not self._is_paused:
                self._step_soon()
        elif self._has_ended and not self._is_closing and not self._above.eof_received():
            self.close()

    def _settle_reading(self) -> None:
        """Pause the transport below as long as there is a reason."""
        is_wanted = self._is_paused or self._has_more
        if is_wanted == self._is_below_paused or self._is_closing or self._has_ended:
            return
        self._is_below_paused = is_wanted
        if is_wanted:
            self._below.pause_reading()
        else:
            self._below.resume_reading()

    def _step_soon(self) -> None:
        if not self._is_step_due:
            self._is_step_due = True
            self._pace.soon(self._step)


def _shown(peer: Any) -> str:
    """HOST:PORT, as other lines of the log have it."""
    if not isinstance(peer, tuple):
        return "unix"
    host, port = peer[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
