"""The oldest message has been unfinished for over five minutes."""

from admin_console.diagnosis import words
from admin_console.diagnosis.finding import WARNING, Finding, Kind, Sentences
from admin_console.diagnosis.vitals import Vitals
from admin_console.vocabulary import units

OLD_MESSAGES = Kind("old messages", begins_after_s=5, ends_after_s=10)

OLD_S = 300


def find(vitals: Vitals) -> Finding | None:
    stats = vitals.stats
    if stats.paused or not stats.depth or (vitals.oldest_s or 0) < OLD_S:
        return None
    return Finding(
        OLD_MESSAGES,
        WARNING,
        lambda: Sentences(
            "old messages",
            "Old messages are unfinished.",
            f"{words.depth(vitals)}.{words.growth(vitals)}{words.flow(vitals)}",
            f"the oldest message has been due for {units.duration(vitals.oldest_s)}",
        ),
    )
