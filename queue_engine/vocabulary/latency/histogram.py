"""Times counted in buckets with fixed bounds, so that the counts of channels, servers and weeks add up."""

from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

_NS_PER_S = 1_000_000_000


def _bounds(*seconds: float) -> tuple[int, ...]:
    return tuple(round(one * _NS_PER_S) for one in seconds)


# Monitoring systems store the bounds: change them only with a new name for the metric.
SYNC_BOUNDS_NS = _bounds(
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10
)
MESSAGE_BOUNDS_NS = _bounds(0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60, 300, 1_800, 3_600, 21_600, 86_400)


class HistogramCounts(NamedTuple):
    """A histogram at one moment. counts: by bucket, each without those below it: one for each bound, of times up to and
    including it, and one for longer times. Times are nanoseconds."""

    bounds_ns: tuple[int, ...]
    counts: tuple[int, ...]
    sum_ns: int

    def plus(self, others: "Iterable[HistogramCounts]") -> "HistogramCounts":
        """The sum with others of the same bounds."""
        counts, sum_ns = list(self.counts), self.sum_ns
        for other in others:
            assert other.bounds_ns == self.bounds_ns
            counts = list(map(int.__add__, counts, other.counts))
            sum_ns += other.sum_ns
        return HistogramCounts(self.bounds_ns, tuple(counts), sum_ns)


def no_times(bounds_ns: tuple[int, ...]) -> HistogramCounts:
    """A histogram without a time."""
    return HistogramCounts(bounds_ns, (0,) * (len(bounds_ns) + 1), 0)


NO_MESSAGES = no_times(MESSAGE_BOUNDS_NS)
NO_SYNCS = no_times(SYNC_BOUNDS_NS)


class Histogram:
    """Counts times. One thread."""

    __slots__ = ("_bounds_ns", "_counts", "_sum_ns")

    def __init__(self, bounds_ns: tuple[int, ...]) -> None:
        self._bounds_ns = bounds_ns
        self._counts = [0] * (len(bounds_ns) + 1)
        self._sum_ns = 0

    def note(self, took_ns: int, count: int = 1) -> None:
        """Count `count` times of `took_ns`; a negative one, after a clock was set back, as 0."""
        if took_ns < 0:
            took_ns = 0
        self._counts[bisect_left(self._bounds_ns, took_ns)] += count
        self._sum_ns += took_ns * count

    def counts(self) -> HistogramCounts:
        return HistogramCounts(self._bounds_ns, tuple(self._counts), self._sum_ns)
