"""Why isn't this draining? One sentence from the figures, and what can be done about it."""

import time
from collections.abc import Callable

from admin_console.live.hub import Reading
from admin_console.screens import units
from admin_console.screens.parts import Meaning
from admin_console.screens.vitals import DANGER, OLD_AND_GROWING_S, WARNING, Vitals


def channel_meaning(vitals: Vitals) -> Meaning | None:
    """What is wrong with a channel, the first cause that applies; None when nothing is."""
    stats = vitals.stats
    waiting = units.plural(stats.depth, "message")
    waits = "waits" if stats.depth == 1 else "wait"
    oldest = f", the oldest for {units.duration(vitals.oldest_s)}" if vitals.oldest_s is not None else ""
    growth = f" Depth changes by {units.growth(vitals.growth_s)}." if vitals.growth_s else ""
    if stats.fenced:
        return Meaning(
            "danger",
            "Fenced: something failed in this channel, and it stopped.",
            f"{_sentence(stats.fenced)} {waiting} {waits}, and {units.number(stats.in_flight_count)} in flight are "
            "kept as they are. Everything else goes on; the server's log has the details. Let it try again when the "
            "cause is gone.",
        )
    if stats.unreadable:
        return Meaning(
            "danger",
            "Not readable: the disk refuses something of this channel.",
            f"{_sentence(stats.unreadable)} {waiting} {waits}. It is tried again by itself, and everything else goes "
            "on. Look at the disk; the README tells what can be done about a place that stays unreadable.",
        )
    if stats.paused:
        return Meaning(
            "held",
            f"Paused{_since(vitals.paused_since_s)}: nothing is delivered.",
            f"{waiting} {waits}{oldest}.{growth} Resume it to deliver them.",
        )
    if vitals.topic_paused:
        return Meaning(
            "held",
            f"The topic {vitals.topic_name} is paused: no new message comes to its channels.",
            "What already waits here is still delivered. Resume the topic to let the rest through.",
        )
    if vitals.is_timing_out:
        return Meaning("danger", *_timing_out(vitals))
    if not stats.depth:
        return None
    if not stats.client_count:
        return Meaning(
            "warning",
            "Not draining: no consumer is connected.",
            f"{waiting} {waits}{oldest}.{growth} Connect a consumer to {vitals.topic_name}/{vitals.channel_name}.",
        )
    if not stats.ready_count:
        who = "The consumer has" if stats.client_count == 1 else f"All {stats.client_count} consumers have"
        return Meaning(
            "warning",
            "Not draining: RDY is 0.",
            f"{who} asked for no more messages, which is how client libraries back off after failures. "
            f"{waiting} {waits}{oldest}. Look at the consumers' own logs.",
        )
    if stats.held_back:
        return Meaning(
            "warning",
            "Held back: a limit of memory is reached.",
            f"{_sentence(stats.held_back)} {waiting} {waits}{oldest}.",
        )
    if vitals.level not in (DANGER, WARNING):
        return None
    flow = ""
    if vitals.inflow_s and vitals.outflow_s:
        flow = f" {units.rate(vitals.inflow_s)} come, {units.rate(vitals.outflow_s)} are finished."
    elif vitals.inflow_s:
        flow = f" {units.rate(vitals.inflow_s)} come, none are finished."
    tone = vitals.tone
    if vitals.is_saturated:
        return Meaning(
            tone,
            "Saturated: the consumers hold as many messages as they asked for.",
            f"{units.number(stats.in_flight_count)} in flight of RDY {units.number(stats.ready_count)}, while "
            f"{waiting} {waits}{oldest}.{flow} Add consumers, or let each take more at once.",
        )
    if (vitals.oldest_s or 0) >= OLD_AND_GROWING_S and vitals.is_growing:
        return Meaning(
            tone,
            "Falling behind: more comes than is finished.",
            f"{waiting} {waits}{oldest}.{growth}{flow} Add consumers.",
        )
    return Meaning(tone, "Old messages are waiting.", f"{waiting} {waits}{oldest}.{growth}{flow}")


def _timing_out(vitals: Vitals) -> tuple[str, str]:
    stats = vitals.stats
    timeouts = vitals.timeouts_min or 0
    handled = timeouts + (vitals.finished_min or 0)
    title = f"{units.share(timeouts, handled)} of the messages handled in the last minute timed out."
    text = f"{units.number(timeouts)} of {units.number(handled)} came back unfinished and are delivered again."
    blamed = [client for client in stats.clients or () if client.timeout_count]
    if len(stats.clients or ()) > 1 and blamed:
        worst = max(blamed, key=lambda client: client.timeout_count)
        every = sum(client.timeout_count for client in blamed)
        text += (
            f" {units.share(worst.timeout_count, every)} of the timeouts are "
            f"{worst.client_id or worst.remote_address}'s, which holds {units.number(worst.in_flight_count)} now."
        )
    return title, f"{text} Consumers that need longer must TOUCH, or ask for a longer msg_timeout."


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def overview_meaning(reading: Reading, urgent: list[Vitals], link_of: Callable[[str, str], str]) -> Meaning | None:
    """The gravest thing there is, in one sentence with a link to it; None when all is well."""
    health = reading.snapshot.health
    if health != "OK":
        return Meaning(
            "danger", "The engine is not well.", f"{health.removeprefix('NOK - ')}. Publishing may be refused."
        )
    grave = [vitals for vitals in urgent if vitals.level >= WARNING]
    if not grave:
        return None
    worst = grave[0]
    cause = channel_meaning(worst)
    if cause is None:
        return None
    others = f" {units.plural(len(grave) - 1, 'more channel')} to look at below." if len(grave) > 1 else ""
    name = f"{worst.topic_name}/{worst.channel_name}"
    return Meaning(
        cause.tone,
        f"{name}: {cause.title[0].lower()}{cause.title[1:]}",
        cause.text + others,
        link_of(worst.topic_name, worst.channel_name),
        f"Open {name}",
    )


def topic_meaning(reading: Reading, name: str) -> Meaning | None:
    """What holds a topic back: a pause, or nobody to give its messages to."""
    topic = reading.topics[name]
    waiting = f"{units.plural(topic.depth, 'message')} {'waits' if topic.depth == 1 else 'wait'} at the topic"
    if topic.fenced:
        return Meaning(
            "danger",
            "Fenced: something failed in this topic, and it stopped.",
            f"{_sentence(topic.fenced)} Publishes to it are refused, and {waiting}; its channels deliver what they "
            "have. The server's log has the details. Let it try again when the cause is gone.",
        )
    if topic.unreadable:
        return Meaning(
            "danger",
            "Not readable: the disk refuses something of this topic.",
            f"{_sentence(topic.unreadable)} It is tried again by itself, and everything else goes on.",
        )
    if topic.paused:
        return Meaning(
            "held",
            f"Paused{_since(reading.paused_since.get((name, '')))}: no message goes on to the channels.",
            f"{waiting}. Publishing works; resume it to let them through.",
        )
    if not topic.channels and topic.depth:
        return Meaning(
            "warning",
            "Nobody receives these messages: the topic has no channel.",
            f"{waiting} until the first channel is created; that one gets them all.",
        )
    return None


def _since(since_s: int | None) -> str:
    return f" for {units.duration(time.time() - since_s)}" if since_s else ""
