"""The rates of a node, from the counters of its last readings: safe against a restart, which begins at 0."""

import threading
from collections import deque
from dataclasses import dataclass

from admin_console.cluster.reading.totals import NodeSums
from queue_engine.delivery.stats import EngineSnapshot

WINDOW_S = 30.0  # three readings of the usual period


@dataclass(frozen=True, slots=True)
class Rates:
    """Messages a second, averages of WINDOW_S or of two readings. None: unknown, as after the first reading."""

    published_s: float | None = None
    finished_s: float | None = None


NO_RATES = Rates()


@dataclass(frozen=True, slots=True)
class _Reading:
    at_s: float
    started_s: int
    published: int | None
    finished: int | None


class NodeRates:
    """Of one node; note each of its readings."""

    def __init__(self) -> None:
        self._readings: deque[_Reading] = deque()

    def note(self, at_s: float, started_s: int, sums: NodeSums) -> Rates:
        """at_s: of the reading, by a clock that is never set back. started_s: of the node's process, Unix."""
        newest = _Reading(at_s, started_s, sums.messages, sums.finished)
        readings = self._readings
        before = readings[-1] if readings else None
        if before is not None and before.started_s != started_s:
            readings.clear()
        readings.append(newest)
        # One that is older than the window stays, so that two readings are there at any period.
        while len(readings) > 2 and at_s - readings[1].at_s >= WINDOW_S:
            readings.popleft()
        first = readings[0]
        took_s = at_s - first.at_s
        if took_s <= 0:
            return NO_RATES
        return Rates(_grown(first.published, newest.published, took_s), _grown(first.finished, newest.finished, took_s))


def _grown(before: int | None, now: int | None, took_s: float) -> float | None:
    """None also where it fell: a topic or channel was deleted, and its counts with it."""
    return None if before is None or now is None or now < before else (now - before) / took_s


class OwnRates:
    """Of the engine of this process, for all that shows or compares them; any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rates = NodeRates()
        self._noted_ns = -1
        self._newest = NO_RATES

    def of(self, snapshot: EngineSnapshot, sums: NodeSums) -> Rates:
        """Up to the newest snapshot that was noted."""
        with self._lock:
            if snapshot.monotonic_ns > self._noted_ns:
                self._noted_ns = snapshot.monotonic_ns
                self._newest = self._rates.note(snapshot.monotonic_ns / 1e9, snapshot.started_at_ns, sums)
            return self._newest
