"""A range as a table, for browsers without scripts and for users who prefer numbers."""

from dataclasses import dataclass
from math import isnan

from admin_console.gateway.history import HistorySource, HistoryUnreadableError
from admin_console.history.ranges import Range, worded
from admin_console.history.series import (
    LATENCY,
    NEVER,
    NOTHING,
    History,
    channel_history,
    overview_history,
    topic_history,
)
from admin_console.history.store import Floats
from admin_console.hub.hub import LiveState
from admin_console.screens.build import Request
from admin_console.screens.graphs import BY_NODE, chosen_channels
from admin_console.vocabulary import units
from admin_console.vocabulary.times import column_time

ROWS_MAX = 96
_LATENCY, _RATE = " latency", ", messages/s"  # in headings


@dataclass(frozen=True, slots=True)
class RangeTable:
    """Headings, and rows of a moment (HTML) and the other columns by heading, newest first.

    `notice` where the range has less data than requested; `step` is the length of a row, in words.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    notice: str
    step: str


def table_of(source: HistorySource, live: LiveState | None, page_request: Request, span: Range) -> RangeTable:
    """The lines of the page's graphs over `span`, in at most ROWS_MAX rows. Times are UTC."""
    try:
        if page_request.page == "overview":
            found = overview_history(source, live, span, ROWS_MAX, chosen=chosen_channels(page_request.draw))
        elif page_request.page == "topic":
            found = topic_history(source, live, page_request.topic, span, ROWS_MAX)
        else:
            found = channel_history(source, live, page_request.topic, page_request.channel, span, ROWS_MAX)
    except HistoryUnreadableError as exc:
        return RangeTable((), (), str(exc), "")
    of_nodes = {name for graph in BY_NODE for name in found.graphs.get(graph, ())}
    parts = [part for name in found.columns if name not in of_nodes for part in _parts(name, found)]
    headings = [heading for heading, _ in parts]
    rows = []
    for index in range(len(found.times) - 1, -1, -1):
        values = [float(column[index]) for _, column in parts]
        if not all(map(isnan, values)):
            texts = (_text(heading, value) for heading, value in zip(headings, values, strict=True))
            rows.append((column_time(found.times[index] * 1000), tuple(zip(headings, texts, strict=True))))
    return RangeTable(("From (UTC)", *headings), tuple(rows), notice_of(found), units.duration(found.step_s))


def _parts(name: str, found: History) -> list[tuple[str, Floats]]:
    """The cells of a row for a column, by heading: of a gauge the least, the mean and the most of its seconds; of a
    counter the sum and the rate; of a latency the percentile of all its messages."""
    label = found.labels[name][:1].upper() + found.labels[name][1:]
    values = found.columns[name]
    if name in found.graphs.get(LATENCY, ()):
        share, of, nodes = label.partition(" (")
        return [(f"{share}{_LATENCY}{of}{nodes}", values)]
    if name in found.band:
        low, high = found.band[name]
        return [(f"{label}, minimum", low), (f"{label}, mean", values), (f"{label}, maximum", high)]
    return [(f"{label}, messages", values * found.weights[name]), (f"{label}{_RATE}", values)]


def notice_of(found: History) -> str:
    """A sentence for a range with less data than requested; "" when it is complete."""
    if found.notice == NEVER:
        return (
            "The pipeline has written no history yet: only the last 15 minutes have data. "
            "Its state is on the page Pipeline."
        )
    since = found.recorded_from
    if found.partial:
        return "In parts of this range not every node was recorded: counts there are the least that they can be."
    if found.notice == NOTHING and since is not None:
        begins = f": history begins at {worded(since)}" if since > found.range.first_s else ""
        return f"Nothing was recorded in this range{begins}."
    return ""


def _text(heading: str, value: float) -> str:
    if isnan(value):
        return units.UNKNOWN
    if _LATENCY in heading:
        return units.duration(value / 1000)
    return units.rate(value) if heading.endswith(_RATE) else units.number(value)
