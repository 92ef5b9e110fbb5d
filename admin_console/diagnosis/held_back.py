"""A memory limit stops deliveries of the channel."""

from admin_console.diagnosis import words
from admin_console.diagnosis.finding import WARNING, Finding, FindingKind, Sentences
from admin_console.diagnosis.vitals import Vitals

HELD_BACK = FindingKind("held back", begins_after_s=2, ends_after_s=5)


def find(vitals: Vitals) -> Finding | None:
    stats = vitals.stats
    if not stats.held_back or stats.paused:
        return None
    return Finding(
        HELD_BACK,
        WARNING,
        lambda: Sentences(
            "▲ held back",
            "Held back: a limit of memory is reached.",
            f"{words.sentence(stats.held_back)} {words.depth(vitals)}.",
            "a limit of memory holds deliveries back",
        ),
    )
