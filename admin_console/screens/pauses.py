"""Pauses on pages: the chip, and the panel of a topic or channel."""

from typing import TYPE_CHECKING

from admin_console.diagnosis import pause_words
from admin_console.hub.hub import LiveState
from admin_console.screens.cells import Chip
from admin_console.screens.partial import listed
from admin_console.vocabulary import units

NODES_NAMED_MAX = 3  # in the sentence about their pauses

if TYPE_CHECKING:
    from admin_console.gateway.gateway import ChannelStats, TopicStats


def now_ms(live: LiveState) -> int:
    """When the figures were taken, Unix milliseconds."""
    return live.snapshot.taken_at_ns // 1_000_000


def _overdue(live: LiveState, one: "TopicStats | ChannelStats") -> str:
    return pause_words.overdue(one.pause, one.resume_refused, now_ms(live), live.snapshot.pause_limit_ms)


def paused_chip(live: LiveState, topic: "TopicStats") -> Chip:
    late = _overdue(live, topic)
    now = now_ms(live)
    sentences = (
        topic_paused(live, topic),
        late,
        pause_words.details(topic.pause, now),
    )
    return Chip(
        pause_words.chip(is_overdue=bool(late)) + paused_on(live, topic.topic_name),
        "warning" if late else "held",
        " ".join(filter(None, sentences)),
    )


def topic_paused(live: LiveState, topic: "TopicStats") -> str:
    """`Paused by anna for 42m: no message goes on to the channels.`, or at which nodes of several."""
    paused = f"Paused{pause_words.since(topic.pause, now_ms(live))}"
    where = paused_on(live, topic.topic_name)
    if not where:
        return f"{paused}: no message goes on to the channels."
    return f"{paused.replace('Paused', f'Paused{where} nodes', 1)}. {still_delivering(live, topic.topic_name)}".rstrip()


def paused_on(live: LiveState, topic: str, channel: str = "") -> str:
    """` on 2 of 3`; "" where it is paused at all of its nodes."""
    places = live.cluster.places(topic, channel) if live.cluster else ()
    paused = sum([bool(place.stats.paused) for place in places])
    return f" on {paused} of {len(places)}" if 0 < paused < len(places) else ""


def still_delivering(live: LiveState, topic: str, channel: str = "") -> str:
    """`nsq-c1 still delivers.`; "" where it is paused at all of its nodes."""
    places = live.cluster.places(topic, channel) if live.cluster else ()
    going = [place.node for place in places if place.is_answering and not place.stats.paused]
    if not going:
        return ""
    return f"{listed(going)} still {'delivers' if len(going) == 1 else 'deliver'}."


def by_node(live: LiveState, topic: str, channel: str = "") -> str:
    """`On nsq-b by ada since 14:05:00 UTC, resumes in 3m; on nsq-c by bob …`; "" where all nodes of several have the
    same pause, or none is recorded."""
    places = live.cluster.places(topic, channel) if live.cluster else ()
    paused = [(one.node, one.stats.pause) for one in places if one.is_answering and one.stats.paused]
    recorded = [(node, pause) for node, pause in paused if pause is not None and (pause.by or pause.since_ms)]
    if len(places) < 2 or not recorded:
        return ""
    if len({pause and (pause.by, pause.until_ms) for _, pause in paused}) == 1 and len(paused) == len(places):
        return ""
    now = now_ms(live)
    texts = []
    for node, pause in recorded[:NODES_NAMED_MAX]:
        by = f" by {pause_words.who(pause)}" if pause.by else ""
        since = f" since {units.moment(pause.since_ms)} UTC" if pause.since_ms else ""
        end = pause_words.left(pause, now)
        texts.append(f"on {node}{by}{since}{f', {end}' if end else ''}")
    more = len(recorded) - len(texts)
    sentence = "; ".join([*texts, *([f"on {more} more"] if more else [])])
    return f"Paused {sentence}."


def pause_flags(live: LiveState, one: "TopicStats | ChannelStats", topic: str, channel: str = "") -> dict[str, bool]:
    """Of the buttons, and in a cluster of the panel: an nsqd does not record who paused, and when. For one server the
    panel is there with each pause."""
    is_on_some = bool(paused_on(live, topic, channel))
    return {
        "paused": one.paused,
        "running": not one.paused,
        "paused_on_some": one.paused and is_on_some,
        "paused_everywhere": one.paused and not is_on_some,
        **({"pause_recorded": one.pause is not None} if live.cluster is not None else {}),
    }


def order(live: LiveState, one: "TopicStats | ChannelStats") -> tuple[bool, int]:
    """A sort key of pauses: those that outlived their time first, then the one that ends first."""
    return not _overdue(live, one), (one.pause.until_ms if one.pause else 0) or 1 << 62


def panel_texts(live: LiveState, one: "TopicStats | ChannelStats") -> dict[str, str]:
    """The live texts of partials/pause.html."""
    pause, now = one.pause, now_ms(live)
    if pause is None:
        return dict.fromkeys(("pause_by", "pause_reason", "pause_since", "pause_until", "pause_depth"), units.UNKNOWN)
    by = pause.by or units.UNKNOWN
    if pause.changed_ms:
        by += f"; changed by {pause.changed_by or units.UNKNOWN} at {units.moment(pause.changed_ms)} UTC"
    left = pause_words.left(pause, now)
    until = f"{units.moment(pause.until_ms)} UTC, {left.removeprefix('resumes ')}" if left else "when a user resumes it"
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
    """The text of partials/ramp.html; "" without a ramp."""
    ramp = channel.ramp
    return pause_words.ramp(ramp, now_ms(live)) if ramp is not None and ramp.until_ms > now_ms(live) else ""
