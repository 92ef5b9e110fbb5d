"""The output buffer of one client: messages are written at once, or gathered as IDENTIFY has agreed."""

import asyncio
from collections.abc import Callable

from queue_engine.wire.protocol.identify import DEFAULT_OUTPUT_BUFFER_TIMEOUT_MS, NO_OUTPUT_BUFFER_SIZE, AgreedSettings


class OutputBuffer:
    """Honours output_buffer_size and output_buffer_timeout.

    With the timeout that client libraries send as their default (250 ms), and with a size of -1, every run is written
    at once. write: takes bytes for the transport. is_holding: messages are gathered and not written.
    gathered_bytes: how many.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, write: Callable[[bytes], None]) -> None:
        self._loop = loop
        self._write = write
        self._gathers = False
        self._size = 0
        self._timeout_ms = 0
        self.is_holding = False
        self._gathered: list[bytes] = []
        self.gathered_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def agree(self, identity: AgreedSettings) -> None:
        """Buffer from now on as IDENTIFY has agreed."""
        self._size = identity.output_buffer_size
        self._timeout_ms = identity.output_buffer_timeout_ms
        self._gathers = self._size > NO_OUTPUT_BUFFER_SIZE and self._timeout_ms != DEFAULT_OUTPUT_BUFFER_TIMEOUT_MS

    def add(self, frames: bytes, *, is_last: bool) -> None:
        """Take a run's frames; `is_last` when the client has no credit for more."""
        if not self._gathers:
            self._write(frames)
            return
        self.is_holding = True
        self._gathered.append(frames)
        self.gathered_bytes += len(frames)
        if self.gathered_bytes >= self._size or is_last:
            self.flush()
        elif self._timer is None and self._timeout_ms:
            self._timer = self._loop.call_later(self._timeout_ms / 1000, self.flush)

    def flush(self) -> None:
        """Write the gathered messages."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._gathered:
            self.is_holding = False
            gathered, self._gathered = self._gathered, []
            self.gathered_bytes = 0
            self._write(b"".join(gathered))

    def drop(self) -> None:
        """Forget the gathered messages, since the connection has ended."""
        self.is_holding = False
        self._gathered.clear()
        self.flush()
