"""The last fifteen minutes of one thing, a slot a second, in flat arrays of doubles.

Gauges are kept as they were. Counters are kept as running sums that only grow, whatever restarts or deletions
did to the counters they came from, so a rate over any span is one subtraction. A second without a snapshot is NaN:
a gap, never 0.
"""

from array import array
from collections.abc import Sequence
from math import isnan, nan

SECONDS = 900
SPARK_BUCKET_S = 15
# A column: the sum of the jumps that acts made (depth_jumps.py); it rises and falls.
DEPTH_JUMPS = "depth_jumps"
SPARK_BUCKETS = SECONDS // SPARK_BUCKET_S
_BLANK = array("d", [nan]) * SECONDS
_BLANK_SPARK = array("d", [nan]) * SPARK_BUCKETS


class Clock:
    """The seconds the rings hold: which second the newest slot is, and when each slot was really taken."""

    __slots__ = ("_references", "newest", "oldest", "taken_s")

    def __init__(self) -> None:
        self.newest: int | None = None  # Unix second
        self.oldest = 0  # first Unix second seen
        self.taken_s = array("d", _BLANK)
        self._references: dict[int, tuple[int, float] | None] = {}

    def reference(self, span_s: int) -> tuple[int, float] | None:
        """The earliest second of the last `span_s` that was seen, and how long ago its figures were taken.

        None when there is none before the newest. Found once a second for all rings together.
        """
        if span_s not in self._references:
            self._references[span_s] = self._find_reference(span_s)
        return self._references[span_s]

    def _find_reference(self, span_s: int) -> tuple[int, float] | None:
        newest = self.newest
        if newest is None:
            return None
        for second in range(max(newest - min(span_s, SECONDS - 1), self.oldest), newest):
            elapsed_s = self.taken_s[newest % SECONDS] - self.taken_s[second % SECONDS]
            if elapsed_s > 0:  # false for NaN as well
                return second, elapsed_s
        return None

    def accept(self, taken_s: float) -> tuple[int, range] | None:
        """The second that figures taken at `taken_s` (Unix) belong to, and the seconds missed before it.

        None when they came in the same second as the last ones. Figures taken a little early or late belong to
        the next second, so that a tick that drifts leaves no gap. A clock set back starts anew at its own second.
        """
        if self.newest is None:
            second = round(taken_s)
            self.oldest = second
            missed = range(0)
        else:
            late_s = taken_s - self.newest
            if -2.0 < late_s <= 0.1:
                return None
            second = self.newest + 1 if 0 < late_s < 1.9 else round(taken_s)
            if second < self.newest:
                self.oldest = second
                missed = range(second - SECONDS, second)
            else:
                missed = range(max(self.newest + 1, second - SECONDS), second)
        self.newest = second
        self._references.clear()
        self.taken_s[second % SECONDS] = taken_s
        for lost in missed:
            self.taken_s[lost % SECONDS] = nan
        return second, missed


class Rings:
    """Columns of one topic, channel or total."""

    __slots__ = ("_counter_columns", "_gauge_columns", "clock", "columns", "gauges", "sources", "spark", "sums")

    def __init__(self, clock: Clock, gauges: Sequence[str], counters: Sequence[str]) -> None:
        self.clock = clock
        self.gauges = frozenset(gauges)
        self.columns = {name: array("d", _BLANK) for name in (*gauges, *counters)}
        self._gauge_columns = tuple(self.columns[name] for name in gauges)
        self._counter_columns = tuple(self.columns[name] for name in counters)
        self.sums = [0.0] * len(self._counter_columns)
        self.sources: tuple[int, ...] | None = None  # the counters' last raw values
        self.spark = array("d", _BLANK_SPARK)

    def forget(self, seconds: range) -> None:
        """Mark seconds without a snapshot."""
        for column in self.columns.values():
            for second in seconds:
                column[second % SECONDS] = nan
        for bucket in {second // SPARK_BUCKET_S for second in seconds}:
            self.spark[bucket % SPARK_BUCKETS] = nan

    def deltas(self, raw: tuple[int, ...], *, is_new: bool) -> list[float]:
        """How much each raw counter has grown; a counter that fell has started again from 0.

        is_new: the thing came into being since the last figures, so all it counted is growth. Otherwise the first
        values seen are only where counting starts.
        """
        before = self.sources
        self.sources = raw
        if before is None:
            return [float(value) if is_new else 0.0 for value in raw]
        return [float(value - old if value >= old else value) for value, old in zip(raw, before, strict=True)]

    def write(self, second: int, gauges: Sequence[float], growth: Sequence[float]) -> None:
        """Put this second's gauges and add what the counters grew by. The first gauge is the sparkline's."""
        slot = second % SECONDS
        for column, value in zip(self._gauge_columns, gauges, strict=True):
            column[slot] = value
        sums = self.sums = [total + grown for total, grown in zip(self.sums, growth, strict=True)]
        for column, value in zip(self._counter_columns, sums, strict=True):
            column[slot] = value
        # The bucket of this second was fifteen minutes ago's until its first second overwrites it.
        self.spark[second // SPARK_BUCKET_S % SPARK_BUCKETS] = gauges[0]

    def newest(self, name: str) -> float | None:
        """A gauge now, or None when the newest second has none."""
        if self.clock.newest is None:
            return None
        value = self.columns[name][self.clock.newest % SECONDS]
        return None if isnan(value) else value

    def change(self, name: str, span_s: int) -> tuple[float, float] | None:
        """How much a column changed over the last `span_s` seconds or as many as are known, and how many those are.

        None when fewer than two seconds are known.
        """
        found = self.clock.reference(span_s)
        newest = self.clock.newest
        if found is None or newest is None:
            return None
        column = self.columns[name]
        now = column[newest % SECONDS]
        first, elapsed_s = found
        grown = now - column[first % SECONDS]
        if not isnan(grown):
            return grown, elapsed_s
        if isnan(now):
            return None
        # Younger than the span: from its own first second on.
        for second in range(first + 1, newest):
            then = column[second % SECONDS]
            if not isnan(then):
                return now - then, self.clock.taken_s[newest % SECONDS] - self.clock.taken_s[second % SECONDS]
        return None

    def rate(self, name: str, span_s: int = 5) -> float | None:
        """Change per second over the last `span_s` seconds; None when unknown."""
        change = self.change(name, span_s)
        return None if change is None else change[0] / change[1]

    def trend(self, name: str, span_s: int) -> float | None:
        """As `rate`, for a gauge of depth, without the jumps that acts made: an emptied channel does not drain, and a
        rewound one does not grow."""
        change, jumps = self.change(name, span_s), self.change(DEPTH_JUMPS, span_s)
        return None if change is None or jumps is None else (change[0] - jumps[0]) / change[1]

    def count(self, name: str, span_s: int = 60) -> float | None:
        """How much a counter grew over the last `span_s` seconds, or as many as are known; None when unknown."""
        change = self.change(name, span_s)
        return None if change is None else change[0]

    def series(self, name: str) -> list[float | None]:
        """All fifteen minutes of a column, oldest first: gauges as they were, counters as changes per second."""
        newest = self.clock.newest
        if newest is None:
            return [None] * SECONDS
        values = _unrolled(self.columns[name], newest)
        if name in self.gauges:
            return [None if isnan(value) else value for value in values]
        taken = _unrolled(self.clock.taken_s, newest)
        rates: list[float | None] = [None]
        for index in range(1, SECONDS):
            grown = values[index] - values[index - 1]
            rates.append(None if isnan(grown) else round(grown / (taken[index] - taken[index - 1]), 3))
        return rates

    def spark_values(self) -> list[float]:
        """The sparkline's buckets, oldest first, NaN where unknown."""
        newest = self.clock.newest
        if newest is None:
            return list(_BLANK_SPARK)
        bucket = newest // SPARK_BUCKET_S % SPARK_BUCKETS
        return [*self.spark[bucket + 1 :], *self.spark[: bucket + 1]]


def _unrolled(column: "array[float]", newest: int) -> "array[float]":
    slot = newest % SECONDS
    return column[slot + 1 :] + column[: slot + 1]
