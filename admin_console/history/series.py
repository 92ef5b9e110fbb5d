"""The lines of a page's graphs over a range: hours, minutes, and at the right edge the live seconds.

Three tiers end one after another: hours where the last compaction did, minutes where the last rollup did (some minutes
ago), seconds now. Each is read from where the one before ends. The live seconds go back fifteen minutes; a rollup that
lags more leaves a gap, as does every window that is not recorded. A node has live seconds while the page of its topic
is open.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from admin_console.gateway.history import HistorySource
from admin_console.history.points import (
    Flags,
    LinePoints,
    Points,
    Slots,
    floats,
    numbered,
    of_all_nodes,
    partial,
    percentiles,
    shares_of,
)
from admin_console.history.ranges import HOUR_S, POINTS_MAX, Range
from admin_console.history.store import Floats, Part, Rows, store_of
from admin_console.hub.hub import GAUGES, TOTAL, Key, LiveState
from admin_console.rings.rings import SECONDS
from admin_console.screens import graphs

NEVER, NOTHING = "never", "nothing"
LATENCY = "latency"
# Of nodes: a zoom into the silence of one still finds its windows before and after.
AROUND_S = 6 * HOUR_S
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
    drawn = (
        chosen
        or sorted(store_of(source).deepest(graphs.TOP_CHANNELS, _coarsest(source, tiers.parts), span.node))
        or None
    )
    return _Reading(source, live, span, tiers, TOTAL).history(graphs.overview_plans(live, drawn))


def topic_history(
    source: HistorySource, live: LiveState | None, topic: str, span: Range, points_max: int = POINTS_MAX
) -> History:
    tiers = _tiers(source, span, points_max)
    return _Reading(source, live, span, tiers, (topic, "")).history(graphs.topic_plans(topic))


def channel_history(
    source: HistorySource, live: LiveState | None, topic: str, channel: str, span: Range, points_max: int = POINTS_MAX
) -> History:
    """A channel's lines, and its latencies from publish to FIN."""
    tiers = _tiers(source, span, points_max)
    plans = graphs.channel_plans(topic, channel)
    return _Reading(source, live, span, tiers, (topic, channel)).history(plans, has_latency=True)


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


def _widened(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The parts, and AROUND_S before and after them."""
    if not parts:
        return ()
    first, *others = parts
    *others, last = replace(first, first_s=first.first_s - AROUND_S), *others
    return *others, replace(last, end_s=last.end_s + AROUND_S)


def _coarsest(source: HistorySource, parts: Sequence[Part]) -> Sequence[Part]:
    """The same time in hours where there are some: a sixtieth of the rows has the same peaks."""
    hours = source.extent("hours")
    if hours is None or [part.level for part in parts] != ["minutes"]:
        return parts
    first_s, end_s = parts[0].first_s, parts[0].end_s
    from_s, until_s = max(-(-first_s // HOUR_S) * HOUR_S, hours[0]), min(end_s // HOUR_S * HOUR_S, hours[1])
    if from_s >= until_s:
        return parts
    made = Part("minutes", first_s, from_s), Part("hours", from_s, until_s), Part("minutes", until_s, end_s)
    return [part for part in made if part.first_s < part.end_s]


class _Reading:
    """One range being read. main: the totals, or the topic or channel that the page is about, whose graphs have a line
    for each node where it is at several."""

    def __init__(self, source: HistorySource, live: LiveState | None, span: Range, tiers: _Tiers, main: Key) -> None:
        self._store = store_of(source)
        self._live = live
        self._span = span
        self._tiers = tiers
        self._main = main
        self._points = Points(span.first_s, span.end_s, tiers.step_s)
        self._nodes = [span.node] if span.node else []
        own = _own_name(live)
        # As pages name this server's engine ↔ as its samples do.
        self._shown = {source.node: own} if own else {}
        self._stored = {page: name for name, page in self._shown.items()}

    def history(self, plans: Sequence[graphs.GraphPlan], *, has_latency: bool = False) -> History:
        rate = "finished" if self._main[1] else "messages"
        of_main = [line.ring for plan in plans for line in plan.lines if line.key == self._main]
        rows, nodes, numbers = self._windows(self._main, [*of_main, "waiting", rate])
        if self._nodes:
            page = tuple(self._shown.get(name, name) for name in self._nodes)
            plans = [replace(plan, lines=tuple(replace(one, nodes=page) for one in plan.lines)) for plan in plans]
        elif self._main != TOTAL:
            sizes = _sizes(rows, nodes, numbers, rate)
            by_page = {self._shown.get(name, name): size for name, size in sizes.items()}
            plans = [*graphs.plans_of_nodes(graphs.series_by_size([*by_page], by_page), *self._main), *plans]
        lines = [line for plan in plans for line in plan.lines]
        gathered = {line.column: LinePoints(self._points) for line in lines}
        found = 0
        for key in dict.fromkeys(line.key for line in lines):
            own = [line for line in lines if line.key == key]
            found_rows = (
                (rows, nodes, numbers) if key == self._main else self._windows(key, [line.ring for line in own])
            )
            found += len(found_rows[0]["t"])
            for one in dict.fromkeys(line.nodes for line in own):
                of_one = [line for line in own if line.nodes == one]
                windows = self._sums(*found_rows, of_one)
                for line in of_one:
                    _add_windows(gathered[line.column], windows, line.ring)
            for line in own:
                self._add_live(gathered[line.column], line)
        columns = {name: line.values for name, line in gathered.items()}
        named = {plan.name: [line.column for line in plan.lines] for plan in plans}
        labels = {line.column: line.label for line in lines}
        if has_latency:
            is_finishing = floats(rows[rate]) > 0
            of_latency, its_labels = self._latencies({nodes[number] for number in set(numbers[is_finishing].tolist())})
            columns |= of_latency
            named[LATENCY] = list(LATENCY_LABELS)
            labels |= its_labels
        live, tiers = self._live, self._tiers
        has_newest = live is not None and live.second is not None and live.second < self._span.end_s and not self._nodes
        return History(
            range=self._span,
            step_s=tiers.step_s,
            times=self._points.times,
            columns=columns,
            band={
                line.column: (gathered[line.column].low, gathered[line.column].high)
                for line in lines
                if line.ring in GAUGES
            },
            graphs=named,
            labels=labels,
            paused=self._paused(rows) if self._main != TOTAL else [],
            weights={name: line.weights for name, line in gathered.items()},
            newest=live.second if live is not None and has_newest else None,
            recorded_from=tiers.recorded_from,
            recorded_until=tiers.recorded_until,
            notice=_notice(tiers, found, columns),
            nodes=nodes,
            partial=[*_spans(self._points, self._partial(nodes)), *self._live_silences()],
        )

    def _windows(self, key: Key, rings: Sequence[str]) -> tuple[Rows, tuple[str, ...], Slots]:
        """A row a window and node; of the chosen node, where there is one. Then the nodes, and their number in each
        row."""
        names = ["node", "samples", "paused_samples", *_columns_of(rings)]
        rows = self._store.windows(*key, names, self._tiers.parts, self._nodes)
        if rows is None:
            rows = {name: np.empty(0) for name in ("t", "window_s", *names)}
        return rows, *numbered(rows.pop("node"))

    def _sums(self, rows: Rows, names: Sequence[str], numbers: Slots, lines: Sequence[graphs.Line]) -> Rows:
        """A row a window, for lines of the same nodes, as pages name them; of all for none. names, numbers: of the
        nodes in `rows`."""
        nodes = lines[0].nodes
        if not nodes or self._nodes:
            return of_all_nodes(rows, shares_of(rows, numbers))
        is_theirs = np.isin(numbers, [names.index(self._stored.get(one, one)) for one in nodes])
        needed = ("t", "window_s", "samples", *_columns_of([line.ring for line in lines]))
        shares = shares_of(rows, numbers)[is_theirs] if len(nodes) > 1 else None
        return of_all_nodes({name: rows[name][is_theirs] for name in needed}, shares)

    def _add_live(self, gathered: LinePoints, line: graphs.Line) -> None:
        seconds = _live_seconds(self._live, line, self._tiers.live_from_s, self._span.end_s)
        if seconds is not None:
            gathered.add_seconds(*seconds, is_gauge=line.ring in GAUGES)

    def _latencies(self, finishing: Collection[str]) -> tuple[dict[str, Floats], dict[str, str]]:
        """Columns and their labels. finishing: the nodes that finished messages in the range; an nsqd has no
        histogram."""
        found = self._store.latencies(*self._main, self._tiers.parts, self._nodes)
        if found is None or not len(found[0]["t"]):
            return {name: np.full(self._points.count, np.nan) for name in LATENCY_LABELS}, LATENCY_LABELS
        counts, nodes = found
        all_nodes = nodes.union(finishing)
        of = "" if nodes == all_nodes else f" ({len(nodes)} of {len(all_nodes)} nodes)"
        return percentiles(self._points, counts), {name: label + of for name, label in LATENCY_LABELS.items()}

    def _paused(self, rows: Rows) -> list[tuple[int, int]]:
        points, nodes = self._points, self._nodes
        paused = points.sums(points.slots(rows["t"]), floats(rows["paused_samples"]))
        line = graphs.Line("", "", 0, self._main, "paused")
        seconds = None if nodes else _live_seconds(self._live, line, self._tiers.live_from_s, self._span.end_s)
        if seconds is not None:
            paused += points.sums(points.slots(seconds[0] + np.arange(len(seconds[1]))), np.nan_to_num(seconds[1]))
        return _spans(points, paused > 0)

    def _partial(self, nodes: Sequence[str]) -> Flags:
        """Where a node is missing between others of its windows, or since it does not answer. A node without the topic
        still has its totals. nodes: those of the range."""
        store, live = self._store, self._live
        none = np.zeros(self._points.count, dtype=bool)
        is_alone = live is None or live.cluster is None
        if self._nodes or (is_alone and len(nodes) < 2):
            return none
        around = _widened(self._tiers.parts)
        names = [] if self._main == TOTAL else store.nodes(*self._main, around)
        totals = store.windows(*TOTAL, ["node"], around, names) if names or self._main == TOTAL else None
        if totals is None:
            return none
        found, numbers = numbered(totals["node"])
        silent = {self._stored.get(one, one) for one in live.silent_of(*self._main)} if live is not None else ()
        return partial(self._points, totals["t"], numbers, [found.index(one) for one in silent if one in found])

    def _live_silences(self) -> list[tuple[int, int]]:
        """From and to, of the live seconds that lack a node's part."""
        if self._live is None or self._nodes:
            return []
        spans = ((max(first, self._tiers.live_from_s), last + 1) for first, last in self._live.silences_of(*self._main))
        return [(first, min(end, self._span.end_s)) for first, end in spans if first < min(end, self._span.end_s)]


def _own_name(live: LiveState | None) -> str:
    """This server's among the nodes; "" without others."""
    places = live.cluster.by_topic.values() if live is not None and live.cluster is not None else ()
    return next((place.node for of_topic in places for place in of_topic if place.is_embedded), "")


def _columns_of(rings: Sequence[str]) -> list[str]:
    """The columns of windows that have these gauges and counters."""
    names: list[str] = []
    for ring in dict.fromkeys(rings):
        names += [f"{ring}_avg", f"{ring}_min", f"{ring}_max"] if ring in GAUGES else [ring]
    return names


def _sizes(rows: Rows, nodes: Sequence[str], numbers: Slots, rate: str) -> dict[str, float]:
    """The most that waited at each node in a window, and the messages that came or were finished: the larger, the more
    of it is to be seen. numbers: of the nodes of `rows`."""
    if len(nodes) < 2:
        return {}
    sizes = np.zeros(len(nodes))
    np.fmax.at(sizes, numbers, floats(rows["waiting_max"]))
    sizes += np.bincount(numbers, weights=np.nan_to_num(floats(rows[rate])), minlength=len(nodes))
    return dict(zip(nodes, sizes.tolist(), strict=True))


def _add_windows(gathered: LinePoints, windows: Rows, ring: str) -> None:
    if len(windows["t"]):
        add = gathered.add_gauge if ring in GAUGES else gathered.add_counter
        add(windows, ring)


def _live_seconds(live: LiveState | None, line: graphs.Line, from_s: int, end_s: int) -> tuple[int, Floats] | None:
    """The seconds of [from_s, end_s) that the rings of a line have: the first one, and a value for each."""
    if live is None or live.second is None:
        return None
    series = graphs.columns_of(live, (graphs.GraphPlan("", "", "", (line,)),))[line.column]
    if not series:
        return None
    oldest_s = live.second - SECONDS + 1
    first_s, last_s = max(from_s, oldest_s), min(end_s, live.second + 1)
    if first_s >= last_s:
        return None
    values = np.array(series, dtype=np.float64)
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
