"""One timer of the loop for the heartbeats of all connections: those due within the same 5 ms are sent together.

So a heartbeat is at most 10 ms late while the loop turns, and many connections do not wake the process each for itself.
"""

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Protocol

from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, Clock

TICK_NS = 5 * NS_PER_MS
# Heartbeats sent before other work of the loop.
SLICE = 100
# The loop counts in milliseconds, and may be early by one.
_EARLY_S = 0.001

CallLater = Callable[[float, Callable[[], None]], asyncio.TimerHandle]


class Beating(Protocol):
    """A connection with heartbeats."""

    def beat(self, now_ns: int) -> int:
        """Send the heartbeat that is due; returns when the next one is, monotonic nanoseconds, 0 for never."""
        ...

    def fail(self, error: Exception) -> None: ...


class HeartbeatTimer:
    """Calls each connection's `beat` in the tick behind the time it is due. Belongs to the engine's thread."""

    def __init__(self, clock: Clock, call_later: CallLater | None = None) -> None:
        """call_later: as a loop's, which is the default."""
        self._clock = clock
        self._call_later = call_later or asyncio.get_running_loop().call_later
        self._tick_of: dict[Beating, int] = {}
        self._due: dict[int, dict[Beating, None]] = {}  # by tick
        self._ticks: list[int] = []  # a heap of the keys
        self._timer: asyncio.TimerHandle | None = None
        self._timer_tick = 0

    def set(self, one: Beating, due_ns: int) -> None:
        """Call it then, and not when it was to be called before. due_ns: 0 for not at all."""
        tick = -(-due_ns // TICK_NS)
        before = self._tick_of.get(one, 0)
        if tick == before:
            return
        if before:
            del self._due[before][one], self._tick_of[one]
        if not tick:
            return
        self._tick_of[one] = tick
        together = self._due.get(tick)
        if together is None:
            together = self._due[tick] = {}
            heappush(self._ticks, tick)
            self._arm()
        together[one] = None

    def run(self) -> None:
        """Call all that are due, with a pause of the loop behind each hundred."""
        self._timer = None
        now_ns = self._clock.monotonic_ns()
        try:
            for _ in range(SLICE):
                one = self._take(now_ns)
                if one is None:
                    break
                try:
                    self.set(one, one.beat(now_ns))
                except Exception as exc:
                    one.fail(exc)
        finally:
            self._arm()  # also when a connection can't be ended: the others have their heartbeats

    def _take(self, now_ns: int) -> Beating | None:
        while self._ticks and self._ticks[0] * TICK_NS <= now_ns:
            together = self._due[self._ticks[0]]
            if together:
                one = next(iter(together))
                del together[one], self._tick_of[one]
                return one
            del self._due[heappop(self._ticks)]
        return None

    def _arm(self) -> None:
        if not self._ticks or (self._timer is not None and self._timer_tick <= self._ticks[0]):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_tick = self._ticks[0]
        left_ns = self._timer_tick * TICK_NS - self._clock.monotonic_ns()
        delay_s = left_ns / NS_PER_S + _EARLY_S if left_ns > 0 else 0
        self._timer = self._call_later(delay_s, self.run)
