"""Inflow above outflow: more messages arrive than are finished, and the oldest one grows old."""

from admin_console.diagnosis import words
from admin_console.diagnosis.finding import DANGER, WARNING, Finding, FindingKind, Sentences
from admin_console.diagnosis.vitals import Vitals
from admin_console.vocabulary import units

FALLING_BEHIND = FindingKind("falling behind", begins_after_s=10, ends_after_s=10)

OLD_AND_GROWING_S = 60
# Before that, when so many times as many arrive as are finished.
AGEING_S = 15
RATIO_MIN = 1.2
# Go's nsqd reports no ages: the wait of a new message stands for the oldest one's, in channels that are this deep.
# Others are calm at a glance (`is_calm`).
AGELESS_DEPTH_MIN = 100


def find(vitals: Vitals) -> Finding | None:
    if _waits_s(vitals) < AGEING_S or vitals.stats.paused or not vitals.has_consumers_ready:
        return None
    if not vitals.is_growing:
        return None
    inflow, outflow = vitals.inflow_s or 0, vitals.outflow_s or 0
    is_old = is_old_and_growing(vitals)
    if not is_old and inflow < RATIO_MIN * outflow:
        return None
    return Finding(
        FALLING_BEHIND,
        DANGER if is_old else WARNING,
        lambda: Sentences(
            "▲ falling behind",
            f"Falling behind: {_ratio(inflow, outflow)}.",
            f"{words.depth(vitals)}.{words.flow(vitals)}{_wait(vitals)}{_advice(vitals)}",
            f"the depth grows by {units.rate(vitals.growth_s)}",
        ),
    )


def is_old_and_growing(vitals: Vitals) -> bool:
    return _waits_s(vitals) >= OLD_AND_GROWING_S and vitals.is_growing


def _waits_s(vitals: Vitals) -> float:
    """The age of the oldest message; without it, in how long a new one is delivered at this pace."""
    if vitals.oldest_s is not None or vitals.stats.depth < AGELESS_DEPTH_MIN:
        return vitals.oldest_s or 0
    pace = vitals.outflow_s or vitals.inflow_s
    return vitals.stats.depth / pace if pace else 0


def _wait(vitals: Vitals) -> str:
    """A sentence after a space; "" where the age of the oldest message says it."""
    if vitals.oldest_s is not None or not vitals.outflow_s:
        return ""
    return f" At this pace a new message is delivered in {units.about(_waits_s(vitals))}."


def _ratio(inflow: float, outflow: float) -> str:
    if outflow and inflow >= 1.1 * outflow:
        return f"{inflow / outflow:.1f} times as many messages arrive as are finished"
    return "more messages arrive than are finished"


def _advice(vitals: Vitals) -> str:
    """Advises more consumers only where the present ones finish their messages."""
    finished, handled = vitals.finished_min or 0, vitals.handled_min
    return " Add consumers." if finished and finished >= 0.8 * handled else ""
