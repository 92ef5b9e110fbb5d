"""A fault stopped the channel, until an operator lets it try again."""

from admin_console.diagnosis import words
from admin_console.diagnosis.finding import DANGER, Finding, FindingKind, Sentences
from admin_console.diagnosis.vitals import Vitals
from admin_console.vocabulary import units

FENCED = FindingKind("fenced", act="retry_channel")


def find(vitals: Vitals) -> Finding | None:
    stats = vitals.stats
    if not stats.fenced:
        return None
    return Finding(
        FENCED,
        DANGER,
        lambda: Sentences(
            "■ fenced",
            "Fenced: something failed in this channel, and it stopped.",
            f"{words.sentence(stats.fenced)} {words.depth(vitals)}. These messages and "
            f"{units.number(stats.in_flight_count)} in flight stay. Everything else works; the "
            "server's log has the details. Press Try again when the cause is gone.",
        ),
    )
