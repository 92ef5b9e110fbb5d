"""The channel has messages and consumers, and the RDY of all of them is 0."""

from admin_console.diagnosis import words
from admin_console.diagnosis.falling_behind import is_old_and_growing
from admin_console.diagnosis.finding import DANGER, WARNING, Finding, FindingKind, Sentences
from admin_console.diagnosis.vitals import Vitals

BACKING_OFF = FindingKind("backing off", begins_after_s=5, ends_after_s=5)


def find(vitals: Vitals) -> Finding | None:
    stats = vitals.stats
    if not stats.depth or not stats.client_count or stats.ready_count != 0 or stats.paused or vitals.is_partial:
        return None
    return Finding(
        BACKING_OFF,
        DANGER if is_old_and_growing(vitals) else WARNING,
        lambda: Sentences(
            "RDY 0",
            "Not draining: RDY is 0.",
            f"{_who(vitals)} set RDY to 0, which is how client libraries back off after failures. "
            f"{words.depth(vitals)}. Look at {_whose(vitals)} own log.",
            "the consumers back off (RDY 0)",
        ),
    )


def _who(vitals: Vitals) -> str:
    count = vitals.stats.client_count
    return "The consumer has" if count == 1 else f"All {count} consumers have"


def _whose(vitals: Vitals) -> str:
    return "the consumer's" if vitals.stats.client_count == 1 else "each consumer's"
