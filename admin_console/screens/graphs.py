"""The graphs of each page: their lines, their legends, and this second's values."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from admin_console.gateway.gateway import is_valid_name
from admin_console.hub.hub import GAUGES, TOTAL, Key, LiveState
from admin_console.rings import figures
from admin_console.rings.figures import Figure
from admin_console.screens.parts import Graph, GraphLegend
from admin_console.screens.rates import over
from admin_console.vocabulary import units

TOP_CHANNELS = 4
_RATES = {"messages": figures.ARRIVED, "finished": figures.FINISHED}
_COUNTS = {"timeouts": figures.TIMEOUTS_MIN, "requeued": figures.REQUEUED_MIN}


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its name in the data, its label, its colour (series 1 to 4), and the rings with its numbers."""

    column: str
    label: str
    series: int
    key: Key
    ring: str  # a gauge or counter of the rings


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
            "Depth by channel",
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
            "Depth",
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
        GraphPlan("depth", "Depth", "messages", (Line("depth", "depth", 1, key, "depth"),)),
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
    return GraphPlan("in_flight", "In flight and deferred", "messages", lines)


def _trouble_plan(key: Key) -> GraphPlan:
    lines = Line("timeouts", "timed out", 2, key, "timeouts"), Line("requeued", "requeued", 4, key, "requeued")
    return GraphPlan("trouble", "Timeouts and requeues, messages/s", "per second", lines)


def value_now(live: LiveState | None, line: Line) -> float | None:
    """This second's value of a line: a gauge as it is, a counter as its change in the last second."""
    rings = live.rings.get(line.key) if live else None
    if rings is None:
        return None
    return rings.newest(line.ring) if line.ring in GAUGES else Figure(line.ring, 1).rate(rings)


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
    rings = live.rings.get(line.key) if live else None
    if line.ring in GAUGES:
        return units.number(rings.newest(line.ring) if rings else None)
    if line.ring in _COUNTS:
        return units.per_minute(_COUNTS[line.ring].count(rings))
    figure = _RATES[line.ring]
    return f"{units.rate(figure.rate(rings))} {over(figure, rings)}"


def columns_of(live: LiveState | None, plans: Sequence[GraphPlan]) -> dict[str, list[float | None]]:
    """Fifteen minutes of every line, a value a second, oldest first; empty without rings."""
    columns: dict[str, list[float | None]] = {}
    for plan in plans:
        for line in plan.lines:
            rings = live.rings.get(line.key) if live else None
            columns[line.column] = rings.series(line.ring) if rings else []
    return columns
