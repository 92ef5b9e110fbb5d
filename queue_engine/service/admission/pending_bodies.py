"""How many bytes of bodies may be on their way in at once, over TCP and HTTP together.

A body that does not come in one read asks for its whole size before more of it is read, in the order of asking: one
that has room can always complete, so nobody waits for what waits for him. The others are not read from meanwhile,
which their clients notice as a slow network. Who has room and sends nothing while others wait is ended.

Those that wait hold what came in their first read, up to 256 KB each. When that adds up, it is crowded: nothing is read
from TCP connections that are neither consumers nor in the midst of a body, and HTTP requests with a body that is not
there at once are refused; others, such as a probe's, are served.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from queue_engine.vocabulary.clock import NS_PER_MS


class BodyReader(Protocol):
    """A connection that reads a body. heard_ns: when something came from it last (monotonic)."""

    heard_ns: int

    def body_granted(self) -> None:
        """There is room for the body that was asked for: read on."""
        ...

    def body_stalled(self, limit_ms: int) -> None:
        """Others wait, and nothing came for so long: end the connection."""
        ...


@dataclass(frozen=True, slots=True)
class _Body:
    """size: in the end. held_bytes: came before there was room."""

    size: int
    held_bytes: int


class PendingBodies:
    """bytes_max: of all bodies together, though one alone may always be read. stall_ms: how long one that has room may
    send nothing while others wait for it. used: bytes of those that have room."""

    def __init__(self, bytes_max: int, stall_ms: int) -> None:
        self.used = 0
        self.is_crowded = False
        self.on_crowded: list[Callable[[bool], None]] = []
        """Each is told when it has become crowded, and when it is no more."""
        self._bytes_max = bytes_max
        self._stall_ns = stall_ms * NS_PER_MS
        self._granted: dict[BodyReader, _Body] = {}
        self._waiting: OrderedDict[BodyReader, _Body] = OrderedDict()
        self._held_bytes = 0  # by those that wait
        self._is_granting = False

    def ask(self, reader: BodyReader, size: int, held_bytes: int) -> bool:
        """Whether `reader` may read a body of `size` bytes, of which it has `held_bytes`; if not, it is told by
        `body_granted`."""
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
        """The body is complete, or the connection at its end; whether it had room or waited."""
        body = self._granted.pop(reader, None)
        if body is not None:
            self.used -= body.size
        elif reader in self._waiting:
            self._held_bytes -= self._waiting.pop(reader).held_bytes
        if not self._is_granting:  # a body may be complete as soon as it has room: the outer call goes on with the next
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
        """End who stalls. Called a few times a second."""
        if self._waiting:
            for reader in [one for one in self._granted if now_ns - one.heard_ns > self._stall_ns]:
                reader.body_stalled(self._stall_ns // NS_PER_MS)
