"""Pauses on pages: the chip, the list of all on the overview, and the panel of a topic or channel."""

from typing import TYPE_CHECKING

from admin_console.diagnosis import pause_words
from admin_console.hub.hub import LiveState
from admin_console.screens.cells import Cell, Chip, NameCell
from admin_console.screens.links import channel_cell, topic_cell
from admin_console.screens.parts import Column, Empty, Table
from admin_console.vocabulary import units

if TYPE_CHECKING:
    from admin_console.gateway.gateway import ChannelStats, TopicStats

ROWS_MAX = 8

_COLUMNS = (
    Column("name", "Name", "name"),
    Column("by", "By", "text"),
    Column("since", "For"),
    Column("until", "Resumes in"),
    Column("depth", "Depth"),
)


def now_ms(live: LiveState) -> int:
    """When the figures were taken, Unix milliseconds."""
    return live.snapshot.taken_at_ns // 1_000_000


def _overdue(live: LiveState, one: "TopicStats | ChannelStats") -> str:
    return pause_words.overdue(one.pause, one.resume_refused, now_ms(live), live.snapshot.pause_limit_ms)


def paused_chip(live: LiveState, topic: "TopicStats") -> Chip:
    late = _overdue(live, topic)
    now = now_ms(live)
    sentences = (
        f"Paused{pause_words.since(topic.pause, now)}: no message goes on to the channels.",
        late,
        pause_words.details(topic.pause, now),
    )
    return Chip(
        pause_words.chip(is_overdue=bool(late)), "warning" if late else "held", " ".join(filter(None, sentences))
    )


def paused_table(live: LiveState | None) -> Table:
    """All that is paused: what has outlived its time first, then what ends first."""
    found: list[tuple[tuple[bool, int, str], str, tuple[NameCell | Cell, ...]]] = []
    for topic in live.snapshot.topics if live else ():
        assert live is not None, "topics come from a live state"
        if topic.paused:
            found.append(_row(live, topic, topic.topic_name, topic_cell(topic.topic_name)))
        for channel in topic.channels:
            if channel.paused:
                name = channel_cell(topic.topic_name, channel.channel_name)
                found.append(_row(live, channel, f"{topic.topic_name}/{channel.channel_name}", name))
    rows = [(key, cells) for _, key, cells in sorted(found, key=lambda one: one[0])[:ROWS_MAX]]
    return Table.build("paused", "Paused", _COLUMNS, rows, Empty("", "Nothing is paused."))


def _row(
    live: LiveState, one: "TopicStats | ChannelStats", key: str, name: NameCell
) -> tuple[tuple[bool, int, str], str, tuple[NameCell | Cell, ...]]:
    pause, late, now = one.pause, _overdue(live, one), now_ms(live)
    end_ms = pause.until_ms if pause is not None else 0
    order = (not late, end_ms or 1 << 62, key)
    left = units.rough((end_ms - now) / 1000) if end_ms > now else "overdue" if late else "no end"
    return (
        order,
        key,
        (
            name,
            Cell(pause_words.who(pause) if pause and pause.by else units.UNKNOWN, pause.reason if pause else ""),
            Cell(units.rough((now - pause.since_ms) / 1000) if pause and pause.since_ms else units.UNKNOWN),
            Cell(left, late, "warning" if late else "" if end_ms else "muted"),
            Cell(units.number(one.depth), units.exact(one.depth)),
        ),
    )


def panel_texts(live: LiveState, one: "TopicStats | ChannelStats") -> dict[str, str]:
    """The live texts of partials/pause.html."""
    pause, now = one.pause, now_ms(live)
    if pause is None:
        return dict.fromkeys(("pause_by", "pause_reason", "pause_since", "pause_until", "pause_depth"), units.UNKNOWN)
    by = pause.by or units.UNKNOWN
    if pause.changed_ms:
        by += f"; changed by {pause.changed_by or 'somebody'} at {units.moment(pause.changed_ms)} UTC"
    left = pause_words.left(pause, now)
    until = (
        f"{units.moment(pause.until_ms)} UTC, {left.removeprefix('resumes ')}" if left else "when somebody resumes it"
    )
    since = f"{units.moment(pause.since_ms)} UTC, {units.rough((now - pause.since_ms) / 1000)} ago"
    return {
        "pause_by": by,
        "pause_reason": pause.reason or "none given",
        "pause_since": since if pause.since_ms else units.UNKNOWN,
        "pause_until": _overdue(live, one) or until,
        "pause_depth": f"{units.number(pause.depth)}, {_growth(one.depth - pause.depth)}"
        if pause.since_ms
        else units.UNKNOWN,
    }


def _growth(change: int) -> str:
    return f"{'+' if change > 0 else '−'}{units.number(abs(change))} since" if change else "unchanged since"


def ramp_text(live: LiveState, channel: "ChannelStats") -> str:
    """What partials/ramp.html says; "" without a ramp."""
    ramp = channel.ramp
    return pause_words.ramp(ramp, now_ms(live)) if ramp is not None and ramp.until_ms > now_ms(live) else ""
