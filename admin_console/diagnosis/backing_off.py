"""The channel has messages and consumers, and the RDY of all is 0: where nodes are silent, of all at the others."""

from admin_console.diagnosis import words
from admin_console.diagnosis.falling_behind import is_old_and_growing
from admin_console.diagnosis.finding import DANGER, WARNING, Finding, FindingKind, Sentences
from admin_console.diagnosis.vitals import Vitals

BACKING_OFF = FindingKind("backing off", begins_after_s=5, ends_after_s=5)
_SETS = "set RDY to 0, which is how client libraries back off after failures"


def find(vitals: Vitals) -> Finding | None:
    stats = vitals.stats
    if not stats.depth or not stats.client_count or stats.ready_count != 0 or stats.paused:
        return None
    if vitals.is_partial:
        return Finding(BACKING_OFF, WARNING, lambda: _of_those_that_answer(vitals))
    return Finding(
        BACKING_OFF,
        DANGER if is_old_and_growing(vitals) else WARNING,
        lambda: Sentences(
            "RDY 0",
            "Not draining: RDY is 0.",
            f"{_who(vitals)} {_SETS}. {words.depth(vitals)}. {_advice(vitals)}",
            "the consumers back off (RDY 0)",
        ),
    )


def _of_those_that_answer(vitals: Vitals) -> Sentences:
    return Sentences(
        "RDY 0, others unknown",
        f"RDY is 0 on {words.ANSWERING}.",
        f"{_who(vitals, ' there')} {_SETS}. {words.depth(vitals)} there. {words.SILENT} {_advice(vitals)}",
        f"the consumers on {words.ANSWERING} back off (RDY 0)",
    )


def _advice(vitals: Vitals) -> str:
    return f"Look at {'the consumer' if vitals.stats.client_count == 1 else 'each consumer'}'s own log."


def _who(vitals: Vitals, where: str = "") -> str:
    count = vitals.stats.client_count
    return f"The consumer{where} has" if count == 1 else f"All {count} consumers{where} have"
