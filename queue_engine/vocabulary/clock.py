"""The clock is an argument everywhere, so that tests move time instead of sleeping."""

import time
from typing import Protocol

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000


class Clock(Protocol):
    """The two clocks of the engine, both in nanoseconds."""

    def monotonic_ns(self) -> int:
        """Never goes back; for deadlines while the process runs."""
        ...

    def time_ns(self) -> int:
        """Wall time since the Unix epoch; for timestamps that others read."""
        ...


class SystemClock:
    """The machine's own clocks."""

    # Called for every read from a socket: the system's own functions, without another call around them.
    monotonic_ns = staticmethod(time.monotonic_ns)
    time_ns = staticmethod(time.time_ns)
