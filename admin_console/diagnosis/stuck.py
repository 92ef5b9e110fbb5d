"""The depth stays: the consumers hold messages in flight, and no delivery ends."""

from admin_console.diagnosis import words
from admin_console.diagnosis.finding import DANGER, WARNING, Finding, FindingKind, Sentences
from admin_console.diagnosis.vitals import Vitals
from admin_console.vocabulary import units

STUCK = FindingKind("stuck", begins_after_s=5, ends_after_s=5, act="requeue_channel")

OLD_S = 60


def find(vitals: Vitals) -> Finding | None:
    stats = vitals.stats
    if stats.paused or not stats.depth or not stats.in_flight_count or not vitals.has_consumers_ready:
        return None
    if (vitals.oldest_s or 0) < OLD_S or vitals.finished_min or vitals.minute_s < 55 or vitals.handled_min:
        return None
    return Finding(STUCK, DANGER if vitals.is_growing else WARNING, lambda: _sentences(vitals))


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
