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
from admin_console.hub.hub import LiveState
from admin_console.screens.build import Request
from admin_console.screens.graphs import chosen_channels
from admin_console.vocabulary import units
from admin_console.vocabulary.times import column_time

ROWS_MAX = 96


@dataclass(frozen=True, slots=True)
class RangeTable:
    """Headings, and rows of a moment (HTML) and the other columns by heading, newest first.

    `notice` where there is less than was asked for; `step` is what a row stands for, in words.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    notice: str
    step: str


def table_of(source: HistorySource, live: LiveState | None, asked: Request, span: Range) -> RangeTable:
    """The lines of the page's graphs over `span`, in at most ROWS_MAX rows. Times are UTC."""
    try:
        if asked.page == "overview":
            found = overview_history(source, live, span, ROWS_MAX, chosen=chosen_channels(asked.draw))
        elif asked.page == "topic":
            found = topic_history(source, live, asked.topic, span, ROWS_MAX)
        else:
            found = channel_history(source, live, asked.topic, asked.channel, span, ROWS_MAX)
    except HistoryUnreadableError as exc:
        return RangeTable((), (), str(exc), "")
    names = list(found.columns)
    headings = [_heading(name, found) for name in names]
    rows = []
    for index in range(len(found.times) - 1, -1, -1):
        values = [float(found.columns[name][index]) for name in names]
        if not all(map(isnan, values)):
            texts = (_text(name, value, found) for name, value in zip(names, values, strict=True))
            rows.append((column_time(found.times[index] * 1000), tuple(zip(headings, texts, strict=True))))
    return RangeTable(("From (UTC)", *headings), tuple(rows), notice_of(found), units.duration(found.step_s))


def notice_of(found: History) -> str:
    """A sentence for a range with less data than requested; "" when it is complete."""
    if found.notice == NEVER:
        return "History is written by the pipeline, which has not run yet: only the last 15 minutes are known."
    since = found.recorded_from
    if found.notice == NOTHING and since is not None:
        begins = f": history begins at {worded(since)}" if since > found.range.first_s else ""
        return f"Nothing was recorded in this range{begins}."
    return ""


def _heading(name: str, found: History) -> str:
    label = found.labels[name]
    label = f"{label} latency" if name in found.graphs.get(LATENCY, ()) else label
    return label[:1].upper() + label[1:]


def _text(name: str, value: float, found: History) -> str:
    if isnan(value):
        return units.UNKNOWN
    if name in found.graphs.get(LATENCY, ()):
        return units.duration(value / 1000)
    return units.number(value) if name in found.band else units.rate(value)
