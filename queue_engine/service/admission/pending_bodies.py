"""Limits the bytes of bodies that are being read at once, over TCP and HTTP together (`--max-pending-body-bytes`).

A body that does not come in one read asks for room for its whole size before more of it is read. Room is granted in the
order of asking, and a body with room can always complete, so there is no deadlock. Connections without room are not
read from; their clients notice a slow network. A connection that has room and sends nothing while others wait is ended.

Waiting bodies hold the bytes of their first read, up to 256 KB each. When these add up to a quarter of the limit,
bodies are crowded: TCP connections that are neither consumers nor within a body are not read from, new ones are
refused, and so are HTTP requests whose body is not there at once. Other requests, such as a probe's, are served.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from queue_engine.vocabulary.clock import NS_PER_MS


class BodyReader(Protocol):
    """A connection that reads a body. heard_ns: when its last bytes came (monotonic)."""

    heard_ns: int

    def body_granted(self) -> None:
        """Read on: there is room for the body."""
        ...

    def body_stalled(self, limit_ms: int) -> None:
        """End the connection: it sent nothing for `limit_ms` while others wait."""
        ...


@dataclass(frozen=True, slots=True)
class _Body:
    """size: when complete. held_bytes: that came before there was room."""

    size: int
    held_bytes: int


class PendingBodies:
    """The bodies that are being read, and those that wait for room. Belongs to the engine's thread.

    bytes_max: of all bodies together; one alone may be larger. stall_ms: how long a connection with room may send
    nothing while others wait. used: bytes of the bodies with room.
    """

    def __init__(self, bytes_max: int, stall_ms: int) -> None:
        self.used = 0
        self.is_crowded = False
        self.on_crowded: list[Callable[[bool], None]] = []
        """Called with True when bodies have become crowded, and with False when they are no longer."""
        self._bytes_max = bytes_max
        self._stall_ns = stall_ms * NS_PER_MS
        self._granted: dict[BodyReader, _Body] = {}
        self._waiting: OrderedDict[BodyReader, _Body] = OrderedDict()
        self._held_bytes = 0  # by those that wait
        self._is_granting = False

    def ask(self, reader: BodyReader, size: int, held_bytes: int) -> bool:
        """Whether `reader` may read a body of `size` bytes, of which it has `held_bytes`; if not, `body_granted` is
        called later."""
        body = _Body(size, held_bytes)
        if not self._waiting and self._has_room_for(size):
            self._grant(reader, body)
            return True
        self._waiting[reader] = body
        self._held_bytes += held_bytes
        if not self.is_crowded and self._held_bytes > self._bytes_max // 4:
            self._tell_crowded(True)
        return False

    def _has_room_for(self, size: int) -> bool:
        return not self._granted or self.used + size <= self._bytes_max

    def _grant(self, reader: BodyReader, body: _Body) -> None:
        self._granted[reader] = body
        self.used += body.size

    def leave(self, reader: BodyReader) -> None:
        """Forget a body that is complete, or whose connection has ended, with or without room."""
        body = self._granted.pop(reader, None)
        if body is not None:
            self.used -= body.size
        elif reader in self._waiting:
            self._held_bytes -= self._waiting.pop(reader).held_bytes
        if not self._is_granting:  # else a granted body completed at once: the outer call grants the next one
            self._is_granting = True
            try:
                self._grant_in_turn()
            finally:
                self._is_granting = False
        if self.is_crowded and self._held_bytes <= self._bytes_max // 8:
            self._tell_crowded(False)

    def _grant_in_turn(self) -> None:
        while self._waiting:
            first, body = next(iter(self._waiting.items()))
            if not self._has_room_for(body.size):
                break
            del self._waiting[first]
            self._held_bytes -= body.held_bytes
            self._grant(first, body)
            first.body_granted()

    def _tell_crowded(self, is_crowded: bool) -> None:
        self.is_crowded = is_crowded
        for tell in self.on_crowded:
            tell(is_crowded)

    def check(self, now_ns: int) -> None:
        """End connections that stall. Called a few times a second."""
        if self._waiting:
            for reader in [one for one in self._granted if now_ns - one.heard_ns > self._stall_ns]:
                reader.body_stalled(self._stall_ns // NS_PER_MS)
