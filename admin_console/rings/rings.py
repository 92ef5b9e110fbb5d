"""The last fifteen minutes of one thing, a slot a second, in flat arrays of integers.

Gauges are stored as they are. Counters are stored as running sums that only grow, over restarts and deletions too, so a
rate over any span is one subtraction.

A column takes the bytes that its figures need: nothing while it never changed, then 1, 2, 4 or 8 bytes a second; 5,000
channels whose figures all change have room in a budget that eight bytes for each would exceed three times.

    A second is recorded when the Clock has taken it and it is not before the ring's first. Every other second is a gap,
    never 0.
"""

from array import array
from collections.abc import Sequence
from math import isnan, nan
from operator import add, sub
from typing import NamedTuple

SECONDS = 900
SPARK_BUCKET_S = 15
# A column: the sum of the jumps that acts made (depth_jumps.py); it rises and falls.
DEPTH_JUMPS = "depth_jumps"
SPARK_BUCKETS = SECONDS // SPARK_BUCKET_S
_BLANK = array("d", [nan]) * SECONDS
_BLANK_SPARK = array("d", [nan]) * SPARK_BUCKETS
# The object itself, its lists and its sparkline.
RING_BYTES_MIN = 2_048
_UNSIGNED = (("B", 1 << 8), ("H", 1 << 16), ("I", 1 << 32), ("q", 1 << 63))
_GREATEST = (1 << 63) - 1
_SIGNED = (("b", 1 << 7), ("h", 1 << 15), ("i", 1 << 31), ("q", 1 << 63))


class Clock:
    """The seconds the rings hold: which second the newest slot is, and when each slot was really taken.

    One thread writes, and others read meanwhile: a second is the newest once all rings have it (`show`)."""

    __slots__ = ("_references", "newest", "oldest", "taken_s", "written")

    def __init__(self) -> None:
        self.newest: int | None = None  # Unix second
        self.written: int | None = None  # the one that is being written, or was last
        self.oldest = 0  # first Unix second seen
        self.taken_s = array("d", _BLANK)
        self._references: dict[tuple[int | None, int], tuple[int, float] | None] = {}

    def reference(self, span_s: int) -> tuple[int, float] | None:
        """The earliest second of the last `span_s` that was seen, and how long ago its figures were taken.

        None when there is none before the newest. Found once a second for all rings together.
        """
        newest = self.newest
        try:
            return self._references[newest, span_s]
        except KeyError:
            found = None if newest is None else self.reference_at(newest, span_s)
            self._references[newest, span_s] = found
            return found

    def reference_at(self, newest: int, span_s: int) -> tuple[int, float] | None:
        """As `reference`, when this second was the newest."""
        for second in range(max(newest - min(span_s, SECONDS - 1), self.oldest), newest):
            elapsed_s = self.taken_s[newest % SECONDS] - self.taken_s[second % SECONDS]
            if elapsed_s > 0:  # false for NaN as well
                return second, elapsed_s
        return None

    def accept(self, taken_s: float) -> tuple[int, range] | None:
        """The second that figures taken at `taken_s` (Unix) belong to, and the seconds missed before it. Once all rings
        have them, call `show`.

        None when they came in the same second as the last ones. Figures taken a little early or late belong to
        the next second, so that a tick that drifts leaves no gap. A clock set back starts anew at its own second.
        """
        if self.written is None:
            second = round(taken_s)
            self.oldest = second
            missed = range(0)
        else:
            late_s = taken_s - self.written
            if -2.0 < late_s <= 0.1:
                return None
            second = self.written + 1 if 0 < late_s < 1.9 else round(taken_s)
            if second < self.written:
                self.oldest = second
                missed = range(second - SECONDS, second)
            else:
                missed = range(max(self.written + 1, second - SECONDS), second)
        self.written = second
        self.taken_s[second % SECONDS] = taken_s
        for lost in missed:
            if lost % SECONDS != second % SECONDS:
                self.taken_s[lost % SECONDS] = nan
        return second, missed

    def show(self) -> None:
        """All rings have the second that was accepted last: readers see it from now on."""
        self.newest = self.written
        self._references.clear()


class Layout:
    """The columns of a kind of rings: gauges first, then counters. same: names that are another column's as well."""

    def __init__(self, gauges: Sequence[str], counters: Sequence[str], same: dict[str, str] | None = None) -> None:
        self.gauge_count = len(gauges)
        self.count = len(gauges) + len(counters)
        self.index_of = {name: index for index, name in enumerate((*gauges, *counters))}
        for name, other in (same or {}).items():
            self.index_of[name] = self.index_of[other]


class Birth(NamedTuple):
    """The latest moment (Unix seconds) at which all counters of a thing were 0; was_empty: its gauges as well."""

    at_s: float
    was_empty: bool


class Rings:
    """Columns of one topic, channel or total."""

    __slots__ = (
        "_birth",
        "_columns",
        "_constants",
        "_flow",
        "_peak",
        "_sums",
        "bytes",
        "clock",
        "is_partial",
        "layout",
        "moved_s",
        "since",
        "sources",
        "spark",
    )

    def __init__(self, clock: Clock, layout: Layout, birth: Birth | None = None) -> None:
        """birth: when the topic or channel was made, so that the figures of its first second are growth; None where
        that is unknown."""
        self.clock = clock
        self.layout = layout
        self.since: int | None = None  # the first second written
        self._birth = birth
        # The last second of a counter's change or of an act's; None while there was none.
        self.moved_s: int | None = None
        self.is_partial = False  # a node that has it does not answer
        self.bytes = RING_BYTES_MIN
        self._columns: list[array[int] | None] = [None] * layout.count
        self._constants = [0] * layout.count  # the values of columns that never changed
        self._sums = [0] * (layout.count - layout.gauge_count)
        self.sources: tuple[int, ...] | None = None  # the counters' last raw values
        self.spark = array("d", _BLANK_SPARK)
        self._peak: tuple[int, float | None] = (-1, None)
        self._flow: tuple[int, float] = (-1, 0.0)

    def forget(self, seconds: range) -> None:
        """Seconds without a snapshot leave gaps in the sparkline, too."""
        for bucket in {second // SPARK_BUCKET_S for second in seconds}:
            self.spark[bucket % SPARK_BUCKETS] = nan

    def deltas(self, raw: tuple[int, ...]) -> list[int]:
        """How much each raw counter has grown; a counter that fell has started again from 0.

        All that a thing with a birth has counted is growth. Otherwise the first values seen are only where counting
        starts, and so they are after `take_growth`.
        """
        before = self.sources
        self.sources = raw
        if before is None:
            if self._birth is None or self.since is not None:
                return [0] * len(raw)
            if any(raw):
                self.moved_s = self.clock.written
            return list(raw)
        if before == raw:
            return [0] * len(raw)
        self.moved_s = self.clock.written
        grown = list(map(sub, raw, before))
        if min(grown) < 0:
            grown = [value - old if value >= old else value for value, old in zip(raw, before, strict=True)]
        return grown

    def take_growth(self, growth: Sequence[int]) -> list[int]:
        """As `deltas`, of counters over several nodes, whose growth the cluster works out."""
        self.sources = None
        if any(growth):
            self.moved_s = self.clock.written
        return list(growth)

    def write(self, second: int, gauges: Sequence[int], growth: Sequence[int]) -> None:
        """Put this second's gauges and add the growth of the counters. The first gauge is the sparkline's."""
        slot = second % SECONDS
        columns, constants = self._columns, self._constants
        if self.since is None or second < self.since:
            if self.since is None:
                constants[: len(gauges)] = gauges
            else:
                self._birth = None  # the clock was set back: that moment lies ahead
            self.since = second
        sums = self._sums = list(map(add, self._sums, growth))
        values = (*gauges, *sums)
        try:
            for column, value, constant in zip(columns, values, constants, strict=True):
                if column is not None:
                    column[slot] = value
                elif value != constant:
                    break
            else:
                values = ()
        except OverflowError:
            pass
        # Rarely a column needs more bytes than it has.
        for index, value in enumerate(values):
            self._put(index, value, slot)
        # The bucket of this second was fifteen minutes ago's until its first second overwrites it.
        self.spark[second // SPARK_BUCKET_S % SPARK_BUCKETS] = gauges[0]

    def _put(self, index: int, value: int, slot: int) -> None:
        column = self._columns[index]
        if column is None:
            if value != self._constants[index]:
                self._widen(index, value, slot)
            return
        try:
            column[slot] = value
        except OverflowError:
            self._widen(index, value, slot)

    def _widen(self, index: int, value: int, slot: int) -> None:
        """Give a column the bytes that `value` needs, 8 at most, and put it in. A number beyond them counts as the
        greatest: a node's report is no figure then, and costs no other column its own."""
        column = self._columns[index]
        value = _within(value)
        if column is None:
            constant = self._constants[index] = _within(self._constants[index])
            column = array(_code_of(min(value, constant), max(value, constant)), (constant,)) * SECONDS
            self.bytes += SECONDS * column.itemsize
        else:
            self.bytes -= SECONDS * column.itemsize
            low = min(column) if value < 0 or column.typecode.islower() else 0
            code = _code_of(min(value, low), max(value, max(column)))
            if code == "q" and index >= self.layout.gauge_count:
                # A sum that has grown for long restarts: only its growth in these fifteen minutes counts.
                base = min(value, min(column))
                value = _within(value - base)
                column = array("q", [_within(one - base) for one in column])
                code = _code_of(0, max(value, max(column)))
            column = array(code, column)
            self.bytes += SECONDS * column.itemsize
        column[slot] = value
        self._columns[index] = column
        if index >= self.layout.gauge_count:
            self._sums[index - self.layout.gauge_count] = value

    def newest(self, name: str) -> int | None:
        """A gauge now, or None when the newest second has none."""
        newest = self.clock.newest
        if newest is None or self.since is None or newest < self.since:
            return None
        return self._at(self.layout.index_of[name], newest)

    def _at(self, index: int, second: int) -> int:
        column = self._columns[index]
        return self._constants[index] if column is None else column[second % SECONDS]

    def change(self, name: str, span_s: int, at: int | None = None) -> tuple[float, float] | None:
        """The change of a column over the last `span_s` seconds, or as many as are recorded, and their number.

        at: the last of these seconds; the newest without it. The answer for a second stays while the rings hold it.
        None when fewer than two seconds are recorded.
        """
        clock = self.clock
        newest, since = clock.newest, self.since
        if at is None or at == newest:
            found = clock.reference(span_s)
        else:
            found, newest = clock.reference_at(at, span_s), at
        if found is None or newest is None or since is None:
            return None
        first, elapsed_s = found
        index = self.layout.index_of[name]
        if first < since:
            # Younger than the span: since its birth, else from its own first second on, which was taken.
            now_s, birth = clock.taken_s[newest % SECONDS], self._birth
            is_within = birth is not None and now_s - birth.at_s <= span_s + 1 and since <= newest
            if birth is not None and is_within and (birth.was_empty or index >= self.layout.gauge_count):
                return self._at(index, newest), now_s - birth.at_s
            if since >= newest:
                return None
            first = since
            elapsed_s = now_s - clock.taken_s[first % SECONDS]
        column = self._columns[index]
        if column is None:
            return 0, elapsed_s
        return column[newest % SECONDS] - column[first % SECONDS], elapsed_s

    def depth_change(self, name: str, span_s: int, at: int | None = None) -> tuple[float, float] | None:
        """As `change`, for a gauge of depth, without the jumps that acts made: an emptied channel does not drain, and a
        rewound one does not grow. None as well while a part of the depth is unknown."""
        if self.is_partial:
            return None
        change, jumps = self.change(name, span_s, at), self.change(DEPTH_JUMPS, span_s, at)
        return None if change is None or jumps is None else (change[0] - jumps[0], change[1])

    def series(self, name: str) -> list[float | None]:
        """All fifteen minutes of a column, oldest first: gauges as they were, counters as changes per second.

        A second without a snapshot is a gap of a gauge. A counter's growth over a gap is shared among its seconds, so
        rate × time is the count, as in the history.
        """
        newest, since = self.clock.newest, self.since
        if newest is None or since is None:
            return [None] * SECONDS
        index = self.layout.index_of[name]
        taken = _unrolled(self.clock.taken_s, newest)
        column = self._columns[index]
        numbers = [self._constants[index]] * SECONDS if column is None else _unrolled(column, newest)
        unborn = max(0, since - (newest - SECONDS + 1))
        values = [
            None if at < unborn or isnan(taken_s) else number
            for at, (number, taken_s) in enumerate(zip(numbers, taken, strict=True))
        ]
        if index < self.layout.gauge_count:
            return list(values)
        rates: list[float | None] = [None] * SECONDS
        before: tuple[int, float] | None = None  # index of the last value, and the value
        for at, value in enumerate(values):
            if value is None:
                continue
            if before is not None:
                rate = round((value - before[1]) / (taken[at] - taken[before[0]]), 3)
                rates[before[0] + 1 : at + 1] = [rate] * (at - before[0])
            before = at, value
        return rates

    def spark_values(self) -> list[float]:
        """The sparkline's buckets, oldest first, NaN where unknown."""
        newest = self.clock.newest
        if newest is None:
            return list(_BLANK_SPARK)
        bucket = newest // SPARK_BUCKET_S % SPARK_BUCKETS
        return [*self.spark[bucket + 1 :], *self.spark[: bucket + 1]]

    def peak(self) -> float | None:
        """The highest of the sparkline's buckets but for the newest, which still fills; None without any."""
        newest = self.clock.newest
        if newest is None:
            return None
        bucket = newest // SPARK_BUCKET_S
        if self._peak[0] != bucket:
            values = [value for value in self.spark_values()[:-1] if not isnan(value)]
            self._peak = (bucket, max(values, default=None))
        return self._peak[1]

    def flow(self) -> float:
        """How many messages came and were finished in the last fifteen minutes, worked out every 15 s: an order by it
        stays for as long."""
        newest = self.clock.newest
        if newest is None or self.moved_s is None:
            return 0.0
        bucket = newest // SPARK_BUCKET_S
        if self._flow[0] != bucket:
            changes = [self.change(name, SECONDS - 1) for name in ("messages", "finished")]
            self._flow = (bucket, sum([change[0] for change in changes if change]))
        return self._flow[1]


def _within(value: int) -> int:
    return max(-_GREATEST, min(value, _GREATEST))


def _code_of(low: int, high: int) -> str:
    """The type of array of the fewest bytes that holds numbers from `low` to `high`."""
    if low >= 0:
        return next(code for code, limit in _UNSIGNED if high < limit)
    return next(code for code, limit in _SIGNED if -limit <= low and high < limit)


def _unrolled(column: "array[float] | array[int]", newest: int) -> "Sequence[float]":
    slot = newest % SECONDS
    return [*column[slot + 1 :], *column[: slot + 1]]
