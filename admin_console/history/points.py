"""Windows and live seconds gathered into the points of a graph: a point is a bucket of `step_s` seconds.

Gauges: the average over the bucket, and beside it the least and the most, so that a peak of a second is still seen in
thirty days. Counters: growth over the bucket divided by the seconds that its recorded windows last. By the windows'
length, not by samples × interval: a counter's growth is counted from sample to sample, so a lost sample loses none of
it, and rate × time is again the count. A bucket without any record is unknown: NaN, never 0.

Recorded windows and live seconds weigh by the seconds they cover, so a bucket may have some of both.
"""

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from admin_console.cluster.calls.options import PACE
from admin_console.gateway.history import value_ms_of
from admin_console.history.store import BUCKET_COUNT, Column, Floats, Rows

Slots = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

PERCENTILES = (("p50", 50), ("p95", 95), ("p99", 99))


class Points:
    """Buckets [first_s + i·step_s, …) for i < count; first_s is a multiple of step_s."""

    def __init__(self, first_s: int, end_s: int, step_s: int) -> None:
        self.step_s = step_s
        self.first_s = first_s // step_s * step_s
        self.count = -(-(end_s - self.first_s) // step_s)

    @property
    def times(self) -> list[int]:
        return [self.first_s + index * self.step_s for index in range(self.count)]

    def slots(self, seconds: Column) -> Slots:
        """The bucket of each second."""
        return ((seconds - self.first_s) // self.step_s).astype(np.int64, copy=False)

    def sums(self, slots: Slots, values: Floats) -> Floats:
        """The sum of the values of each bucket."""
        return np.bincount(slots, weights=values, minlength=self.count).astype(np.float64, copy=False)


class LinePoints:
    """One line of a graph while it is gathered. `weights`: the seconds that each point stands for."""

    def __init__(self, points: Points) -> None:
        self._points = points
        self._sums = np.zeros(points.count)
        self.weights = np.zeros(points.count)
        self.low = np.full(points.count, np.nan)
        self.high = np.full(points.count, np.nan)

    @property
    def values(self) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            averages: Floats = self._sums / self.weights
        return averages

    def add_gauge(self, windows: Rows, gauge: str) -> None:
        """Recorded windows of a gauge: within a bucket they weigh by their samples."""
        average, samples = floats(windows[f"{gauge}_avg"]), floats(windows["samples"])
        has_value = ~np.isnan(average)
        slots = self._points.slots(windows["t"][has_value])
        samples = np.maximum(samples[has_value], 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            averages = self._points.sums(slots, average[has_value] * samples) / self._points.sums(slots, samples)
        self._add(np.nan_to_num(averages), self._points.sums(slots, floats(windows["window_s"])[has_value]))
        np.fmin.at(self.low, slots, floats(windows[f"{gauge}_min"])[has_value])
        np.fmax.at(self.high, slots, floats(windows[f"{gauge}_max"])[has_value])

    def add_counter(self, windows: Rows, counter: str) -> None:
        """Recorded windows of a counter."""
        slots = self._points.slots(windows["t"])
        self._sums += self._points.sums(slots, floats(windows[counter]))
        self.weights += self._points.sums(slots, floats(windows["window_s"]))

    def add_seconds(self, first_s: int, values: Floats, *, is_gauge: bool) -> None:
        """Live seconds from `first_s` on, NaN without a snapshot: gauges, or changes per second."""
        has_value = ~np.isnan(values)
        slots = self._points.slots(first_s + np.flatnonzero(has_value))
        values = values[has_value]
        self._sums += self._points.sums(slots, values)
        self.weights += self._points.sums(slots, np.ones(len(values)))
        if is_gauge:
            np.fmin.at(self.low, slots, values)
            np.fmax.at(self.high, slots, values)

    def _add(self, averages: Floats, weights: Floats) -> None:
        self._sums += averages * weights
        self.weights += weights


GREATEST = ("samples", "window_s", "oldest_age_ms_avg", "oldest_age_ms_min", "oldest_age_ms_max")


def of_all_nodes(windows: Rows, shares: Floats | None = None) -> Rows:
    """One row a window, in order of time: counts of several nodes are added up; of GREATEST the greatest is taken.

    shares: by which gauges count in the sum (`shares_of`); None for whole windows.
    """
    times, places = np.unique(np.asarray(windows["t"]), return_inverse=True)
    if len(times) == len(windows["t"]):
        order = np.argsort(windows["t"])
        return {name: column[order] for name, column in windows.items()}
    made: Rows = {"t": times}
    for name, column in windows.items():
        if name in GREATEST:
            most = np.full(len(times), np.nan)
            np.fmax.at(most, places, floats(column))
            made[name] = most
        elif name != "t":
            values = floats(column)
            if shares is not None and name.endswith(("_avg", "_min")):
                values *= shares
            has_value = ~np.isnan(values)
            sums = np.bincount(places, weights=np.nan_to_num(values), minlength=len(times))
            made[name] = np.where(np.bincount(places[has_value], minlength=len(times)) > 0, sums, np.nan)
    return made


def shares_of(windows: Rows, nodes: Slots) -> Floats:
    """The part of each window that its gauges count for in a sum: below 1 in the first and last window of a node that
    came or went while others were recorded. Without it a node with a new name would count twice in that window.

    nodes: the number of each window's node, from 0 without a gap. The share is the time that the node's samples cover,
    divided by the time of the window that was recorded at all, so that a pause of the server lowers no share. A sample
    covers `Pace.sample_s`, or less at a node that usually has more samples, as this server has of itself. Recorded is
    the time of the node with the most; where no node of the window has others before and after, the sum of the longest
    that ends, the longest that begins, and the longest that does both: then the nodes replaced each other.

    No simple rule is right everywhere. A node that begins in the first window of the range, or ends in the last, counts
    for the whole window: nothing before or after shows it. In other windows the share is too small where the node was
    silent before it went, or where nodes that replaced each other overlapped while the server paused; it is too large,
    at most 1, where this server alone has windows before and after, and the interval of its samples became longer
    within the range.
    """
    times, places = np.unique(np.asarray(windows["t"], np.int64), return_inverse=True)
    rates = np.maximum(floats(windows["samples"]), 1) / floats(windows["window_s"])
    if len(times) < 2:
        return np.ones(len(rates))
    counts = np.bincount(nodes)
    medians = rates[np.lexsort((rates, nodes))][np.cumsum(counts) - counts + counts // 2]
    covered = np.minimum(rates * np.minimum(PACE.sample_s, 1 / medians)[nodes], 1)
    first, last = np.full(len(counts), len(times)), np.zeros(len(counts), np.int64)
    np.minimum.at(first, nodes, places)
    np.maximum.at(last, nodes, places)
    begins = (places == first[nodes]) & (places > 0)
    ends = (places == last[nodes]) & (places < len(times) - 1)
    # The most of each kind: neither, begins, ends, both.
    most = np.zeros((4, len(times)))
    np.maximum.at(most, (begins + 2 * ends, places), covered)
    recorded = np.where(most[0] > 0, most.max(axis=0), np.minimum(most.sum(axis=0), 1))
    return np.where(begins | ends, covered / recorded[places], 1.0)


def numbered(names: Column) -> tuple[tuple[str, ...], Slots]:
    """The different names of a column, in order, and for each row the number of its name among them."""
    column = names.tolist()
    found = sorted(set(column))
    numbers = {name: number for number, name in enumerate(found)}
    return tuple(found), np.fromiter(map(numbers.__getitem__, column), np.int64, len(column))


def partial(points: Points, seconds: Column, nodes: Slots, silent: Collection[int] = ()) -> Flags:
    """Which points lack a window of a node that has some before and after. seconds, nodes: the start of each window,
    and the number of its node, from 0 without a gap; also of windows around the points. silent: nodes that have none
    after their last because they do not answer."""
    made = np.zeros(points.count, dtype=bool)
    if len(seconds):
        times, places, counts = np.unique(np.asarray(seconds, np.int64), return_inverse=True, return_counts=True)
        node_count = int(nodes.max()) + 1
        first, last = np.full(node_count, len(times)), np.zeros(node_count, np.int64)
        np.minimum.at(first, nodes, places)
        np.maximum.at(last, nodes, places)
        last[[*silent]] = len(times) - 1
        begun = np.bincount(first, minlength=len(times))
        ended = np.bincount(last + 1, minlength=len(times) + 1)[:-1]
        slots = points.slots(times[counts < np.cumsum(begun - ended)])
        made[slots[(slots >= 0) & (slots < points.count)]] = True
    return made


def percentiles(points: Points, counts: Rows) -> dict[str, Floats]:
    """The nearest rank of each of PERCENTILES of every bucket, in milliseconds; NaN where no message was finished."""
    # One number for slot and latency bucket: sorted, the slots lie one behind another, each by latency.
    sorts = points.slots(np.asarray(counts["t"])) * BUCKET_COUNT + np.asarray(counts["b"])
    keys, places = np.unique(sorts, return_inverse=True)
    numbers = np.bincount(places, weights=floats(counts["n"]), minlength=len(keys)).astype(np.int64)
    upto = np.cumsum(numbers)
    starts = np.searchsorted(keys, np.arange(points.count + 1) * BUCKET_COUNT)
    before = np.concatenate(([0], upto))[starts]
    totals = np.diff(before)
    has_any = totals > 0
    made = {}
    for name, percent in PERCENTILES:
        ranks = before[:-1][has_any] + (totals[has_any] * percent + 99) // 100
        buckets, of_points = np.unique(keys[np.searchsorted(upto, ranks)] % BUCKET_COUNT, return_inverse=True)
        values = np.full(points.count, np.nan)
        values[has_any] = np.array([value_ms_of(int(bucket)) for bucket in buckets])[of_points]
        made[name] = values
    return made


def floats(column: Column) -> Floats:
    """A column of numbers as duckdb gives it, NaN where it is null."""
    if isinstance(column, np.ma.MaskedArray):
        filled: Floats = np.ma.filled(column.astype(np.float64), np.nan)
        return filled
    return column.astype(np.float64)
