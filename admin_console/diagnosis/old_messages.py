"""The oldest message has been unfinished for over five minutes."""

from admin_console.diagnosis import words
from admin_console.diagnosis.finding import WARNING, Finding, FindingKind, Sentences
from admin_console.diagnosis.vitals import Vitals
from admin_console.vocabulary import units

OLD_MESSAGES = FindingKind("oldest message", begins_after_s=5, ends_after_s=10)

OLD_S = 300


def find(vitals: Vitals) -> Finding | None:
    stats = vitals.stats
    if stats.paused or not stats.depth or (vitals.oldest_s or 0) < OLD_S:
        return None
    return Finding(
        OLD_MESSAGES,
        WARNING,
        lambda: Sentences(
            "▲ over 5 min old",
            "The oldest message is over 5 minutes old.",
            f"{words.depth(vitals)}.{words.flow(vitals)}",
            f"the oldest message is {units.duration(vitals.oldest_s)} old",
        ),
    )
