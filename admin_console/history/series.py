"""The lines of a page's graphs over a range: hours, minutes, and at the right edge the live seconds.

Three tiers end one after another: hours where the last compaction did, minutes where the last rollup did (some minutes
ago), seconds now. Each is read from where the one before ends. The live seconds go back fifteen minutes; a rollup that
lags more leaves a gap, as does every window that is not recorded. The live seconds are of all nodes together: the lines
of one node end where its minutes do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from admin_console.gateway.history import HistorySource
from admin_console.history.points import Flags, LinePoints, Points, floats, of_all_nodes, partial, percentiles
from admin_console.history.ranges import HOUR_S, POINTS_MAX, Range
from admin_console.history.store import Floats, HistoryStore, Part, Rows, store_of
from admin_console.hub.hub import GAUGES, TOTAL, Key, LiveState
from admin_console.rings.rings import SECONDS
from admin_console.screens import graphs

NEVER, NOTHING = "never", "nothing"
LATENCY = "latency"
LATENCY_LABELS = {"p50": "median", "p95": "95 %", "p99": "99 %"}


@dataclass(frozen=True, slots=True)
class History:
    """The data of a range, columnar. Seconds are Unix seconds; NaN where nothing is recorded.

    columns: a value for each of `times`, gauges as averages, counters per second, latencies in milliseconds.
    band: the least and the most of every gauge's column. weights: how many seconds each point of a column stands for
    (latencies have none), newest: the last live second in it (None when none is): with both a page goes on adding
    seconds, and a counter's rate × weight is its count.
    notice: "never" when no history was ever written, "nothing" when none of this range was, else "".
    nodes: those with windows in the range. partial: from and to, where one of them has none that has some before and
    after: counts there are the least that they can be.
    """

    range: Range
    step_s: int
    times: list[int]
    columns: Mapping[str, Floats]
    band: Mapping[str, tuple[Floats, Floats]]
    graphs: Mapping[str, Sequence[str]]
    labels: Mapping[str, str]
    paused: Sequence[tuple[int, int]]
    weights: Mapping[str, Floats]
    newest: int | None
    recorded_from: int | None
    recorded_until: int | None
    notice: str
    nodes: Sequence[str]
    partial: Sequence[tuple[int, int]]

    def _digits(self, column: str) -> int:
        """A counter's rate × the seconds of the longest point still is its count, rounded."""
        return 6 if column in self.weights and column not in self.band else 3

    def wire(self) -> dict[str, Any]:
        """The API's answer."""
        return {
            "range": self.range.preset,
            "from": self.range.first_s,
            "to": self.range.end_s,
            "grows": self.range.grows,
            "step_s": self.step_s,
            "times": self.times,
            "columns": {name: np.round(values, self._digits(name)) for name, values in self.columns.items()},
            "band": {name: [np.round(low, 3), np.round(high, 3)] for name, (low, high) in self.band.items()},
            "graphs": self.graphs,
            "labels": self.labels,
            "paused": self.paused,
            "weights": {name: weights.astype(np.int64) for name, weights in self.weights.items()},
            "newest": self.newest,
            "recorded_from": self.recorded_from,
            "recorded_until": self.recorded_until,
            "notice": self.notice,
            "node": self.range.node,
            "nodes": self.nodes,
            "partial": self.partial,
        }


@dataclass(frozen=True, slots=True)
class _Tiers:
    """The sources of a range: parts of the files, and the first live second that counts."""

    parts: tuple[Part, ...]
    live_from_s: int
    step_s: int
    recorded_from: int | None
    recorded_until: int | None


def overview_history(
    source: HistorySource,
    live: LiveState | None,
    span: Range,
    points_max: int = POINTS_MAX,
    *,
    chosen: Sequence[Key] | None = None,
) -> History:
    """All topics together, and the `chosen` channels, or those that held most in the range."""
    tiers = _tiers(source, span, points_max)
    # By name, as in the live graph.
    drawn = chosen or sorted(store_of(source).deepest(graphs.TOP_CHANNELS, tiers.parts, span.node)) or None
    return _history(source, live, span, tiers, graphs.overview_plans(live, drawn), None)


def topic_history(
    source: HistorySource, live: LiveState | None, topic: str, span: Range, points_max: int = POINTS_MAX
) -> History:
    tiers = _tiers(source, span, points_max)
    return _history(source, live, span, tiers, graphs.topic_plans(topic), (topic, ""))


def channel_history(
    source: HistorySource, live: LiveState | None, topic: str, channel: str, span: Range, points_max: int = POINTS_MAX
) -> History:
    """A channel's lines, and its latencies from publish to FIN."""
    tiers = _tiers(source, span, points_max)
    plans = graphs.channel_plans(topic, channel)
    return _history(source, live, span, tiers, plans, (topic, channel), has_latency=True)


def _tiers(source: HistorySource, span: Range, points_max: int) -> _Tiers:
    minutes, hours = source.extent("minutes"), source.extent("hours")
    # Both begin together, in the hour of the first sample: only minutes that were removed later are missing.
    is_cut = minutes is not None and hours is not None and hours[0] <= minutes[0] - HOUR_S
    level = span.level(minutes[0] if minutes and is_cut else None)
    step_s = span.step_s(level, points_max)
    # The first point is a whole one.
    first_s = span.first_s // step_s * step_s
    parts = []
    until_s = first_s
    for one, extent in (("hours", hours), ("minutes", minutes)):
        if extent is None or (one == "hours" and level != "hours"):
            continue
        end_s = min(extent[1], span.end_s)
        if until_s < end_s:
            parts.append(Part(one, until_s, end_s))
            until_s = end_s
    extents = [extent for extent in (minutes, hours) if extent]
    return _Tiers(
        tuple(parts),
        until_s,
        step_s,
        min((extent[0] for extent in extents), default=None),
        max((extent[1] for extent in extents), default=None),
    )


def _history(
    source: HistorySource,
    live: LiveState | None,
    span: Range,
    tiers: _Tiers,
    plans: Sequence[graphs.GraphPlan],
    paused_key: Key | None,
    *,
    has_latency: bool = False,
) -> History:
    store = store_of(source)
    nodes = [span.node] if span.node else []
    if nodes:
        live = None  # its seconds are of all nodes
    points = Points(span.first_s, span.end_s, tiers.step_s)
    lines = [line for plan in plans for line in plan.lines]
    gathered = {line.column: LinePoints(points) for line in lines}
    paused = np.zeros(points.count)
    found = 0
    for key in dict.fromkeys(line.key for line in lines):
        own = [line for line in lines if line.key == key]
        windows = _windows(store, key, own, tiers.parts, nodes)
        if windows is not None and len(windows["t"]):
            found += len(windows["t"])
            for line in own:
                add = gathered[line.column].add_gauge if line.ring in GAUGES else gathered[line.column].add_counter
                add(windows, line.ring)
            if key == paused_key:
                paused += points.sums(points.slots(windows["t"]), floats(windows["paused_samples"]))
        for line in own:
            _add_live(gathered[line.column], live, line, tiers.live_from_s, span.end_s)
    recorded = store.nodes(*(paused_key or TOTAL), tiers.parts, nodes)
    seconds = _live_seconds(live, paused_key, "paused", tiers.live_from_s, span.end_s) if paused_key else None
    if seconds is not None:
        paused += points.sums(points.slots(seconds[0] + np.arange(len(seconds[1]))), np.nan_to_num(seconds[1]))
    columns = {name: line.values for name, line in gathered.items()}
    named = {plan.name: [line.column for line in plan.lines] for plan in plans}
    labels = {line.column: line.label for line in lines}
    if has_latency and paused_key is not None:
        columns |= _latencies(store, points, paused_key, tiers.parts, nodes)
        named[LATENCY] = list(LATENCY_LABELS)
        labels |= LATENCY_LABELS
    newest = live.second if live and live.second is not None and live.second < span.end_s else None
    return History(
        range=span,
        step_s=tiers.step_s,
        times=points.times,
        columns=columns,
        band={
            line.column: (gathered[line.column].low, gathered[line.column].high)
            for line in lines
            if line.ring in GAUGES
        },
        graphs=named,
        labels=labels,
        paused=_spans(points, paused > 0),
        weights={name: line.weights for name, line in gathered.items()},
        newest=newest,
        recorded_from=tiers.recorded_from,
        recorded_until=tiers.recorded_until,
        notice=_notice(tiers, found, columns),
        nodes=tuple(recorded),
        partial=_spans(points, _partial(store, points, tuple(recorded), tiers.parts)),
    )


def _partial(store: HistoryStore, points: Points, nodes: Sequence[str], parts: Sequence[Part]) -> Flags:
    """Where one of `nodes` is missing between others of its windows. A node without the topic still has its totals."""
    if len(nodes) > 1:
        windows = store.windows(*TOTAL, ["samples"], parts, nodes)
        if windows is not None:
            return partial(points, windows, store.nodes(*TOTAL, parts, nodes))
    return np.zeros(points.count, dtype=bool)


def _windows(
    store: HistoryStore, key: Key, lines: Sequence[graphs.Line], parts: Sequence[Part], nodes: Sequence[str]
) -> Rows | None:
    names = ["samples", "paused_samples"]
    for name in dict.fromkeys(line.ring for line in lines):
        names += [f"{name}_avg", f"{name}_min", f"{name}_max"] if name in GAUGES else [name]
    windows = store.windows(*key, names, parts, nodes)
    return None if windows is None else of_all_nodes(windows)


def _latencies(
    store: HistoryStore, points: Points, key: Key, parts: Sequence[Part], nodes: Sequence[str]
) -> dict[str, Floats]:
    counts = store.latencies(*key, parts, nodes)
    if counts is None or not len(counts["t"]):
        return {name: np.full(points.count, np.nan) for name in LATENCY_LABELS}
    return percentiles(points, counts)


def _add_live(gathered: LinePoints, live: LiveState | None, line: graphs.Line, from_s: int, end_s: int) -> None:
    seconds = _live_seconds(live, line.key, line.ring, from_s, end_s)
    if seconds is not None:
        gathered.add_seconds(*seconds, is_gauge=line.ring in GAUGES)


def _live_seconds(live: LiveState | None, key: Key, name: str, from_s: int, end_s: int) -> tuple[int, Floats] | None:
    """The seconds of [from_s, end_s) that the rings have: the first one, and a value for each."""
    rings = live.rings.get(key) if live else None
    if rings is None or live is None or live.second is None:
        return None
    oldest_s = live.second - SECONDS + 1
    first_s, last_s = max(from_s, oldest_s), min(end_s, live.second + 1)
    if first_s >= last_s:
        return None
    values = np.array(rings.series(name), dtype=np.float64)
    return first_s, values[first_s - oldest_s : last_s - oldest_s]


def _spans(points: Points, flags: Flags) -> list[tuple[int, int]]:
    """First and last second of every row of points with the flag."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False]))))
    return [
        (points.first_s + int(first) * points.step_s, points.first_s + int(end) * points.step_s)
        for first, end in zip(edges[::2], edges[1::2], strict=True)
    ]


def _notice(tiers: _Tiers, found: int, columns: Mapping[str, Floats]) -> str:
    if tiers.recorded_from is None:
        return NEVER
    if not found and all(np.isnan(values).all() for values in columns.values()):
        return NOTHING
    return ""
