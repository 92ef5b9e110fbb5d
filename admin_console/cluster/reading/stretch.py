"""The pace of reading: its periods become longer while it takes more of a core than it may."""

import time
from collections.abc import Callable

from admin_console.cluster.calls.options import Pace

# Beyond, what pages show is read less often, too.
WATCHED_FACTOR = 6.0
# Of `Pace.cpu_share`, beside a busy engine: threads of one interpreter take turns. An engine that takes a fifth of a
# core is busy: on a machine with other work it gets no more.
LEFT_MIN = 0.25
ENGINE_WEIGHT = 4.0


class Stretch:
    """How many times longer than `Pace.period_s` the period is, so that the thread of the cluster, which reads and
    merges, takes `Pace.cpu_share` of a core. now_s: monotonic. cpu_s: processor time of the thread since it began."""

    def __init__(
        self, pace: Pace, now_s: Callable[[], float] = time.monotonic, cpu_s: Callable[[], float] = time.thread_time
    ) -> None:
        self._pace = pace
        self._now_s = now_s
        self._cpu_s = cpu_s
        self._noted: tuple[float, float] | None = None
        self.factor = 1.0
        self._left = 1.0

    def note_engine(self, share: float) -> None:
        """share: of a core, that the engine of this process has taken in the last second."""
        self._left = max(LEFT_MIN, 1.0 - ENGINE_WEIGHT * share)

    @property
    def left(self) -> float:
        """Which part of `Pace.cpu_share` the engine leaves, LEFT_MIN to 1."""
        return self._left

    def note(self) -> None:
        """Call after each reading, on the thread of the cluster."""
        now_s, cpu_s = self._now_s(), self._cpu_s()
        if self._noted is None:
            self._noted = now_s, cpu_s
        took_s = now_s - self._noted[0]
        if took_s >= self._pace.period_s * self.factor:
            share = (cpu_s - self._noted[1]) / took_s
            self.factor = max(1.0, self.factor * share / (self._pace.cpu_share * self._left))
            self._noted = now_s, cpu_s

    @property
    def period_s(self) -> float:
        """Between two readings of all topics of a node, and of an nsqlookupd."""
        return self._pace.period_s * self.factor / self._left

    @property
    def watched_s(self) -> float:
        """Between two readings of what a page shows."""
        return self._pace.watched_s * max(1.0, self.factor / self._left / WATCHED_FACTOR)

    def retry_after_s(self, failures: int) -> float:
        return self._pace.retry_after_s(failures)
