"""Every consumer is full: it has as many messages as its RDY, while the channel falls behind or nothing moves."""

from admin_console.diagnosis import falling_behind, old_messages, words
from admin_console.diagnosis.failing import SHARE_WARNING
from admin_console.diagnosis.finding import WARNING, Finding, FindingKind, Sentences
from admin_console.diagnosis.vitals import Vitals
from admin_console.rings.figures import RECENT_S
from admin_console.vocabulary import units

SATURATED = FindingKind("saturated", begins_after_s=10, ends_after_s=10)


def find(vitals: Vitals) -> Finding | None:
    stats = vitals.stats
    if stats.paused or not stats.depth or not vitals.is_full:
        return None
    if vitals.ended_recently == 0:
        return Finding(
            SATURATED,
            WARNING,
            lambda: Sentences(
                "▲ consumers full",
                f"Every consumer is full, and none has ended a delivery in the last {RECENT_S} s.",
                f"{_held(vitals)} Nothing more is delivered until they finish what they hold: the list in flight shows "
                "who holds which message, and for how long.",
                _also(vitals),
            ),
        )
    # More consumers help only where the present ones finish their messages.
    if not vitals.finished_min or vitals.handled_min - vitals.finished_min >= SHARE_WARNING * vitals.handled_min:
        return None
    behind = falling_behind.find(vitals) or old_messages.find(vitals)
    if behind is None:
        return None
    return Finding(
        SATURATED,
        behind.level,
        lambda: Sentences(
            "▲ consumers full",
            "Every consumer is full: it holds as many messages as its RDY allows.",
            f"{_held(vitals)} Add consumers, or let each take more at once.",
            _also(vitals),
        ),
    )


def _held(vitals: Vitals) -> str:
    stats = vitals.stats
    held = f"{units.number(stats.in_flight_count)} in flight of RDY {units.number(stats.ready_count)}"
    return f"{held}, while {words.lower(words.depth(vitals))}.{words.flow(vitals)}"


def _also(vitals: Vitals) -> str:
    stats = vitals.stats
    return f"the consumers hold {units.number(stats.in_flight_count)} of RDY {units.number(stats.ready_count)}"
