"""The depth stays: the consumers hold messages in flight, and no delivery ends."""

from admin_console.diagnosis import words
from admin_console.diagnosis.falling_behind import AGELESS_DEPTH_MIN
from admin_console.diagnosis.finding import DANGER, WARNING, Finding, FindingKind, Sentences
from admin_console.diagnosis.vitals import Vitals
from admin_console.vocabulary import units

STUCK = FindingKind("stuck", begins_after_s=5, ends_after_s=5, act="requeue_channel")

OLD_S = 60


def find(vitals: Vitals) -> Finding | None:
    stats = vitals.stats
    if stats.paused or not stats.depth or not stats.in_flight_count or not vitals.has_consumers_ready:
        return None
    if not _is_old(vitals) or vitals.finished_min or vitals.minute_s < 55 or vitals.handled_min:
        return None
    return Finding(STUCK, DANGER if vitals.is_growing else WARNING, lambda: _sentences(vitals))


def _is_old(vitals: Vitals) -> bool:
    """Go's nsqd reports no ages: where more messages wait than came in a minute, the first of them is older."""
    if vitals.oldest_s is not None:
        return vitals.oldest_s >= OLD_S
    depth, inflow_s = vitals.stats.depth, vitals.inflow_s
    return depth >= AGELESS_DEPTH_MIN and inflow_s is not None and depth > inflow_s * OLD_S


def _sentences(vitals: Vitals) -> Sentences:
    stats = vitals.stats
    consumers = units.plural(stats.client_count, "consumer")
    return Sentences(
        "▲ none finished",
        f"0 finished {words.span(vitals)}: {consumers} {'holds' if stats.client_count == 1 else 'hold'} "
        f"{units.plural(stats.in_flight_count, 'message')} and {'ends' if stats.client_count == 1 else 'end'} none.",
        f"{words.depth(vitals)}. The messages in flight have neither been finished nor requeued. Look at what the "
        "consumers do with them; the list In flight shows the consumer of each.",
        f"0 finished {words.span(vitals)}",
    )
