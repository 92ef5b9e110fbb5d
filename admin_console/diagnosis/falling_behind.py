"""More messages arrive than are finished, and the oldest one grows old."""

from admin_console.diagnosis import words
from admin_console.diagnosis.finding import DANGER, Finding, Kind
from admin_console.diagnosis.vitals import Vitals
from admin_console.vocabulary import units

FALLING_BEHIND = Kind("falling behind", begins_after_s=10, ends_after_s=10)

OLD_AND_GROWING_S = 60


def find(vitals: Vitals) -> Finding | None:
    if vitals.stats.paused or not vitals.has_consumers_ready or not is_old_and_growing(vitals):
        return None
    return Finding(
        FALLING_BEHIND,
        DANGER,
        "▲ falling behind",
        "Falling behind: more comes than is finished.",
        f"{words.depth(vitals)}.{words.growth(vitals)}{words.flow(vitals)}{_advice(vitals)}",
        f"depth changes by {units.growth(vitals.growth_s)}",
    )


def is_old_and_growing(vitals: Vitals) -> bool:
    return vitals.is_growing and (vitals.oldest_s or 0) >= OLD_AND_GROWING_S


def _advice(vitals: Vitals) -> str:
    """Advises more consumers only where the present ones finish their messages."""
    finished, handled = vitals.finished_min or 0, vitals.handled_min
    return " Add consumers." if finished and finished >= 0.8 * handled else ""
