"""The graphs of each page: their lines, their legends, and this second's values."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from admin_console.gateway.gateway import is_valid_name
from admin_console.hub.hub import GAUGES, TOTAL, Key, LiveState
from admin_console.rings import figures
from admin_console.rings.figures import Figure
from admin_console.rings.rings import SECONDS, Rings
from admin_console.screens.partial import least
from admin_console.screens.parts import Graph, GraphLegend
from admin_console.screens.rates import over
from admin_console.screens.topic_groups import total
from admin_console.vocabulary import units

TOP_CHANNELS = 4
# The colours of nodes: first those that are unlike the shade of a pause. Others have the last together.
NODE_SERIES = (1, 2, 4, 5, 6, 7, 8, 3)
OTHER_NODES = 9
BY_NODE = ("depth_nodes", "rate_nodes")  # the graphs with a line for each node
READING_S_MAX = 15  # between two readings of a node; beyond, its line has a gap
_RATES = {"messages": figures.ARRIVED, "finished": figures.FINISHED}
_COUNTS = {"timeouts": figures.TIMEOUTS_MIN, "requeued": figures.REQUEUED_MIN}


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its name in the data, its label, its colour (a series), and the rings with its numbers. nodes: whose
    part it is; empty for the sum of all."""

    column: str
    label: str
    series: int
    key: Key
    ring: str  # a gauge or counter of the rings
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphPlan:
    """A graph and its lines, without data. `unit` is "messages" or "per second"."""

    name: str
    title: str
    unit: str
    lines: tuple[Line, ...]


def chosen_channels(draw: str) -> list[Key] | None:
    """The channels of "orders/billing,orders/mail", at most TOP_CHANNELS; None where none is named."""
    names = [name.strip().partition("/") for name in draw.split(",")]
    valid = [(topic, channel) for topic, _, channel in names if is_valid_name(topic) and is_valid_name(channel)]
    return list(dict.fromkeys(valid))[:TOP_CHANNELS] or None


def overview_plans(live: LiveState | None, deepest: Sequence[Key] | None = None) -> tuple[GraphPlan, ...]:
    """Flow through all topics, and the depth of four channels: `deepest`, or the deepest ones now."""
    if deepest is None:
        deepest = _deepest(live) if live else []
    return (
        GraphPlan(
            "flow",
            "Published and finished, messages/s",
            "per second",
            (
                Line("published", "published", 1, TOTAL, "messages"),
                Line("finished", "finished", 2, TOTAL, "finished"),
            ),
        ),
        GraphPlan(
            "waiting",
            "Depth by channel, messages",
            "messages",
            tuple(
                Line(f"waiting:{topic}/{channel}", f"{topic}/{channel}", index, (topic, channel), "depth")
                for index, (topic, channel) in enumerate(deepest, 1)
            ),
        ),
    )


def _deepest(live: LiveState) -> list[Key]:
    """The channels with the highest depth in the last fifteen minutes, by name.

    The bucket that still fills is left out and the order is by name, so that two channels that overtake each other
    every second neither come and go nor swap colours.
    """
    cached = live.derived.get("deepest")
    if isinstance(cached, list):
        return cached
    ranked = heapq.nlargest(TOP_CHANNELS, ((_peak(live, key), key) for key in live.channels))
    made = sorted(key for _, key in ranked)
    live.derived["deepest"] = made
    return made


def _peak(live: LiveState, key: Key) -> float:
    rings = live.rings.get(key)
    return (rings.peak() if rings else None) or 0.0


def topic_plans(topic: str) -> tuple[GraphPlan, ...]:
    key = (topic, "")
    return (
        GraphPlan(
            "depth",
            "Depth, messages",
            "messages",
            (
                Line("waiting", "topic and channels", 1, key, "waiting"),
                Line("depth", "at the topic itself", 3, key, "depth"),
            ),
        ),
        GraphPlan(
            "rates",
            "Published and finished, messages/s",
            "per second",
            (
                Line("published", "published", 1, key, "messages"),
                Line("finished", "finished by all channels", 2, key, "finished"),
            ),
        ),
        _in_flight_plan(key),
        _trouble_plan(key),
    )


def channel_plans(topic: str, channel: str) -> tuple[GraphPlan, ...]:
    key = (topic, channel)
    return (
        GraphPlan("depth", "Depth, messages", "messages", (Line("depth", "depth", 1, key, "depth"),)),
        _in_flight_plan(key),
        GraphPlan(
            "rates",
            "Received and finished, messages/s",
            "per second",
            (Line("received", "received", 1, key, "messages"), Line("finished", "finished", 2, key, "finished")),
        ),
        _trouble_plan(key),
    )


def _in_flight_plan(key: Key) -> GraphPlan:
    lines = Line("in_flight", "in flight", 1, key, "in_flight"), Line("deferred", "deferred", 3, key, "deferred")
    return GraphPlan("in_flight", "In flight and deferred, messages", "messages", lines)


def _trouble_plan(key: Key) -> GraphPlan:
    lines = Line("timeouts", "timed out", 2, key, "timeouts"), Line("requeued", "requeued", 4, key, "requeued")
    return GraphPlan("trouble", "Timeouts and requeues, messages/s", "per second", lines)


def node_plans(live: LiveState | None, topic: str, channel: str = "") -> tuple[GraphPlan, ...]:
    """Depth and rate of a topic or channel that is at several nodes: a line for each, the largest where there are many,
    and one for the sum of the others."""
    return plans_of_nodes(node_series(live, topic, channel) if live else {}, topic, channel)


def plans_of_nodes(found: Mapping[str, int], topic: str, channel: str = "") -> tuple[GraphPlan, ...]:
    """The same of nodes whose series are given; none for one node alone."""
    if len(found) < 2:
        return ()
    others = tuple(node for node, series in found.items() if series == OTHER_NODES)

    def lines(ring: str) -> tuple[Line, ...]:
        key = (topic, channel)
        made = [
            Line(f"{ring}@{node}", node, series, key, ring, (node,))
            for node, series in found.items()
            if series != OTHER_NODES
        ]
        if others:
            made.append(Line(f"{ring}@", f"{len(others)} others", OTHER_NODES, key, ring, others))
        return tuple(made)

    rate = ("Finished", "finished") if channel else ("Published", "messages")
    return (
        GraphPlan(BY_NODE[0], "Depth by node, messages", "messages", lines("waiting")),
        GraphPlan(BY_NODE[1], f"{rate[0]} by node, messages/s", "per second", lines(rate[1])),
    )


def node_series(live: LiveState, topic: str, channel: str = "") -> dict[str, int]:
    """The nodes of a topic or channel by name, with the series of their lines; OTHER_NODES for those without a line of
    their own."""
    if live.cluster is None:
        return {}
    nodes = [place.node for place in live.cluster.places(topic, channel)]
    rings = live.rings_of_nodes(topic, channel) if len(nodes) > len(NODE_SERIES) else {}
    return series_by_size(nodes, {node: (one.peak() or 0) + one.flow() for node, one in rings.items()})


def series_by_size(nodes: Sequence[str], sizes: Mapping[str, float]) -> dict[str, int]:
    """As `node_series`, of nodes with their sizes."""
    large = heapq.nlargest(len(NODE_SERIES), nodes, key=lambda node: sizes.get(node, 0.0))
    series = dict(zip(sorted(large), NODE_SERIES, strict=False))
    return {node: series.get(node, OTHER_NODES) for node in nodes}


def value_now(live: LiveState | None, line: Line) -> float | None:
    """This second's value of a line: a gauge as it is, a counter as its change in the last second; of a node, between
    its last two readings."""
    return total([_newest(rings, line) for rings in _rings_of(live, line)])


def _newest(rings: Rings, line: Line) -> float | None:
    if line.ring in GAUGES:
        return rings.newest(line.ring)
    rate = Figure(line.ring, 1).rate(rings)
    return Figure(line.ring, READING_S_MAX).rate(rings) if rate is None and line.nodes else rate


def _rings_of(live: LiveState | None, line: Line) -> list[Rings]:
    """Whose values make the line. A node's are left out while it does not answer: its figures are unknown then."""
    if live is None:
        return []
    if not line.nodes:
        rings = live.rings.get(line.key)
        return [rings] if rings is not None else []
    by_node, silent = live.rings_of_nodes(*line.key), live.silent_of(*line.key)
    return [by_node[node] for node in line.nodes if node in by_node and node not in silent]


def points_of(live: LiveState | None, plans: Sequence[GraphPlan]) -> dict[str, float | None]:
    """This second's value of every line."""
    points = {line.column: value_now(live, line) for plan in plans for line in plan.lines}
    return {column: None if value is None else round(value, 3) for column, value in points.items()}


def graphs_of(live: LiveState | None, plans: Sequence[GraphPlan]) -> tuple[Graph, ...]:
    """The graphs with their legends."""
    made = []
    for plan in plans:
        legend = tuple(GraphLegend(line.column, line.label, line.series, _worded(live, line)) for line in plan.lines)
        summary = f"{plan.title}, last 15 minutes. Now: " + ", ".join(f"{item.label} {item.value}" for item in legend)
        made.append(Graph(plan.name, plan.title, legend, summary))
    return tuple(made)


def _worded(live: LiveState | None, line: Line) -> str:
    """The legend's figure of a line: that of cards and rows, and not the line's last second."""
    found = _rings_of(live, line)
    is_partial = live is not None and not line.nodes and bool(live.silent_of(*line.key))
    if line.ring in GAUGES:
        return least(units.number(total([rings.newest(line.ring) for rings in found])), is_partial=is_partial)
    if line.ring in _COUNTS:
        count = total([_COUNTS[line.ring].count(rings) for rings in found])
        return least(units.per_minute(count), is_partial=is_partial)
    figure = _RATES[line.ring]
    rate = least(units.rate(total([figure.rate(rings) for rings in found])), is_partial=is_partial)
    return f"{rate} {over(figure, found[0] if found else None)}"


def columns_of(live: LiveState | None, plans: Sequence[GraphPlan]) -> dict[str, list[float | None]]:
    """Fifteen minutes of every line, a value a second, oldest first; empty without rings."""
    columns: dict[str, list[float | None]] = {}
    for plan in plans:
        for line in plan.lines:
            if line.nodes:
                columns[line.column] = _series_of_nodes(live, line)
                continue
            rings = live.rings.get(line.key) if live else None
            columns[line.column] = rings.series(line.ring) if rings else []
    return columns


def _series_of_nodes(live: LiveState | None, line: Line) -> list[float | None]:
    """A node's readings have seconds of their own: between two of them, and after the last while it answers, a gauge is
    as the earlier one."""
    if live is None or live.second is None:
        return []
    by_node, silent = live.rings_of_nodes(*line.key), live.silent_of(*line.key)
    found = []
    for node in line.nodes:
        rings = by_node.get(node)
        if rings is None or rings.clock.newest is None:
            continue
        late_s = min(max(0, live.second - rings.clock.newest), SECONDS)
        values = rings.series(line.ring)[late_s:] + [None] * late_s
        if line.ring in GAUGES or node not in silent:
            values = _held(values, is_open=node not in silent)
        found.append(values)
    return [total(values) for values in zip(*found, strict=True)]


def _held(values: list[float | None], *, is_open: bool) -> list[float | None]:
    """Short gaps have the value before them; is_open: also one at the end."""
    made = list(values)
    last = -1
    for at, value in enumerate([*values, 0 if is_open else None]):
        if value is None:
            continue
        if last >= 0 and at - last <= READING_S_MAX:
            made[last + 1 : at] = [values[last]] * (at - last - 1)
        last = at
    return made
