"""The consumers finish their messages and are at their RDY, while the channel falls behind."""

from admin_console.diagnosis import falling_behind, old_messages, words
from admin_console.diagnosis.failing import SHARE_WARNING
from admin_console.diagnosis.finding import Finding, Kind
from admin_console.diagnosis.vitals import Vitals
from admin_console.vocabulary import units

SATURATED = Kind("saturated", begins_after_s=10, ends_after_s=10)

FULL_SHARE = 0.95


def find(vitals: Vitals) -> Finding | None:
    """Found only where more consumers help: the present ones finish their messages."""
    stats = vitals.stats
    if stats.paused or not stats.depth or not stats.ready_count or not vitals.finished_min:
        return None
    if stats.in_flight_count < FULL_SHARE * stats.ready_count:
        return None
    if vitals.handled_min - vitals.finished_min >= SHARE_WARNING * vitals.handled_min:
        return None
    behind = falling_behind.find(vitals) or old_messages.find(vitals)
    if behind is None:
        return None
    return Finding(
        SATURATED,
        behind.level,
        "▲ saturated",
        "Saturated: the consumers hold as many messages as they asked for.",
        f"{units.number(stats.in_flight_count)} in flight of RDY {units.number(stats.ready_count)}, while "
        f"{words.depth(vitals)}.{words.flow(vitals)} Add consumers, or let each take more at once.",
        f"the consumers hold {units.number(stats.in_flight_count)} of RDY {units.number(stats.ready_count)}",
    )
