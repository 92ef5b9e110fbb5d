"""All that is left in the channel is deferred: nothing can be delivered before it is due."""

from admin_console.diagnosis.finding import CALM, Finding, FindingKind, Sentences
from admin_console.diagnosis.vitals import Vitals
from admin_console.vocabulary import units

DEFERRED = FindingKind("deferred", begins_after_s=2, act="release_deferred")


def find(vitals: Vitals) -> Finding | None:
    stats = vitals.stats
    if not stats.deferred_count or stats.depth or stats.in_flight_count or stats.paused:
        return None
    if vitals.stats.failures is not None:
        return None  # consumers requeue with a delay: that is the cause
    return Finding(
        DEFERRED,
        CALM,
        lambda: Sentences(
            "deferred only",
            f"Nothing is due yet: {units.plural(stats.deferred_count, 'message')} "
            f"{'is' if stats.deferred_count == 1 else 'are'} deferred, and nothing else is left.",
            _due(vitals) + " A deferred message is delivered when it is due.",
            "all that is left is deferred",
        ),
    )


def _due(vitals: Vitals) -> str:
    next_s, latest_s = vitals.next_due_s, vitals.latest_due_s
    if next_s is None:
        return "The due time of the next one is unknown."
    text = f"The next one is due in {units.duration(next_s)}" if next_s > 0 else "The next one is due now"
    if vitals.stats.deferred_count == 1 or latest_s is None or latest_s <= next_s:
        return f"{text}."
    latest = units.duration(latest_s)
    if latest == units.duration(next_s) and next_s > 0:
        return f"They are due in {latest}."
    return f"{text}, the latest in {latest}."
