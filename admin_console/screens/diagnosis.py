"""The banner of a page: the gravest finding, whose sentence `admin_console/diagnosis` makes, and what can be done."""

import time
from collections.abc import Callable, Sequence

from admin_console.diagnosis import words
from admin_console.diagnosis.diagnosis import Diagnosis
from admin_console.diagnosis.finding import TONES, WARNING
from admin_console.hub.hub import LiveState
from admin_console.screens.parts import Banner
from admin_console.vocabulary import units


def channel_banner(diagnosis: Diagnosis) -> Banner | None:
    """The gravest state of a channel, since when it lasts, and its other states; None for a channel without any."""
    if not diagnosis.states:
        return None
    gravest, *others = diagnosis.states
    finding = gravest.finding
    text = finding.text
    also = [other.finding.also for other in others if other.finding.also]
    if also:
        text += f" Also: {'; '.join(also)}."
    if finding.kind.begins_after_s:
        text += f" Seen since {units.clock(gravest.begun_s)} UTC."
    return Banner(TONES[finding.level], finding.title, text)


def overview_banner(live: LiveState, urgent: Sequence[Diagnosis], link_of: Callable[[str, str], str]) -> Banner | None:
    """The gravest problem of all, in one sentence with a link to its page; None when all is well."""
    health = live.snapshot.health
    if health != "OK":
        return Banner(
            "danger", "The engine reports a problem.", f"{health.removeprefix('NOK - ')}. Publishing may be refused."
        )
    grave = [diagnosis for diagnosis in urgent if diagnosis.level >= WARNING]
    if not grave:
        return None
    worst = grave[0].vitals
    cause = channel_banner(grave[0])
    if cause is None:
        return None
    others = f" {units.plural(len(grave) - 1, 'more channel')} to look at below." if len(grave) > 1 else ""
    name = f"{worst.topic_name}/{worst.channel_name}"
    return Banner(
        cause.tone,
        f"{name}: {cause.title[0].lower()}{cause.title[1:]}",
        cause.text + others,
        link_of(worst.topic_name, worst.channel_name),
        f"Open {name}",
    )


def topic_banner(live: LiveState, name: str) -> Banner | None:
    """What stops a topic: a fault, a pause, or no channel to give its messages to."""
    topic = live.topics[name]
    depth = f"the depth at the topic itself is {units.number(topic.depth)}"
    if topic.fenced:
        return Banner(
            "danger",
            "Fenced: something failed in this topic, and it stopped.",
            f"{words.sentence(topic.fenced)} Publishes to it are refused, and {depth}; its channels deliver what "
            "they have. The server's log has the details. Let it try again when the cause is gone.",
        )
    if topic.unreadable:
        return Banner(
            "danger",
            "Not readable: the disk refuses something of this topic.",
            f"{words.sentence(topic.unreadable)} It is tried again by itself, and everything else goes on.",
        )
    if topic.paused:
        return Banner(
            "held",
            f"Paused{_since(live.paused_since.get((name, '')))}: no message goes on to the channels.",
            f"{words.sentence(depth)} It is accepting messages; resume it to let them through.",
        )
    if not topic.channels and topic.depth:
        return Banner(
            "warning",
            "The topic has no channel: no consumer receives its messages.",
            f"{words.sentence(depth)} The first channel that is created gets them all.",
        )
    return None


def _since(since_s: int | None) -> str:
    return f" for {units.duration(time.time() - since_s)}" if since_s else ""
