"""The channel, or its topic, is paused: by whom, since when, until when, and why."""

from admin_console.diagnosis import pause_words, words
from admin_console.diagnosis.finding import CALM, HELD, WARNING, Finding, FindingKind, Sentences
from admin_console.diagnosis.vitals import Vitals

# Nothing is delivered any more, so nothing fails or times out.
PAUSED = FindingKind("paused", act="unpause_channel", ends_others=True)
TOPIC_PAUSED = FindingKind("topic paused", act="unpause_topic")
RAMP = FindingKind("ramp", act="unpause_channel")


def find(vitals: Vitals) -> Finding | None:
    stats, now_ms = vitals.stats, vitals.taken_at_ms
    if not stats.paused:
        return None
    late = pause_words.overdue(stats.pause, stats.resume_refused, now_ms, vitals.moment.pause_limit_ms)
    return Finding(
        PAUSED,
        WARNING if late else HELD,
        lambda: Sentences(
            pause_words.chip(is_overdue=bool(late)),
            f"Paused{pause_words.since(stats.pause, now_ms)}: nothing is delivered.",
            _joined(late, pause_words.details(stats.pause, now_ms), pause_words.began(stats.pause))
            + f"{words.depth(vitals)}.{words.growth(vitals)} Resume it to deliver them.",
        ),
    )


def find_topic(vitals: Vitals) -> Finding | None:
    topic, now_ms = vitals.topic, vitals.taken_at_ms
    if not topic.paused or vitals.stats.paused:
        return None
    late = pause_words.overdue(topic.pause, topic.resume_refused, now_ms, vitals.moment.pause_limit_ms)
    return Finding(
        TOPIC_PAUSED,
        WARNING if late else HELD,
        lambda: Sentences(
            "▲ topic paused" if late else "❚❚ topic paused",
            f"The topic {topic.topic_name} is paused{pause_words.since(topic.pause, now_ms)}: no new message comes to "
            "its channels.",
            f"{_joined(late, pause_words.details(topic.pause, now_ms))}Messages already here are still delivered. "
            "Resume the topic to deliver the rest.",
        ),
    )


def find_ramp(vitals: Vitals) -> Finding | None:
    """Resumed, and slow on purpose."""
    ramp, now_ms = vitals.stats.ramp, vitals.taken_at_ms
    if ramp is None or ramp.until_ms <= now_ms:
        return None
    return Finding(
        RAMP,
        CALM,
        lambda: Sentences(
            "▶ resuming slowly",
            "Resuming slowly: it delivers ever faster until its ramp ends.",
            f"{pause_words.ramp(ramp, now_ms)} {words.depth(vitals)}. Resume fully now to deliver all of it at once.",
            also="it is resuming slowly",
        ),
    )


def _joined(*sentences: str) -> str:
    """Those that are not empty, with a space behind each."""
    return "".join(f"{sentence} " for sentence in sentences if sentence)
