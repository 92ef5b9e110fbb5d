"""The consumers requeue their messages: many deliveries end with REQ, few or none with FIN."""

from admin_console.diagnosis import words
from admin_console.diagnosis.finding import DANGER, WARNING, Finding, Kind
from admin_console.diagnosis.vitals import RECENT_S, Vitals
from admin_console.vocabulary import units

# An operator's one requeue of everything in flight is recent for RECENT_S: it never becomes a state.
FAILING = Kind("failing", begins_after_s=RECENT_S + 2, ends_after_s=15)

REQUEUES_MIN = 5
SHARE_WARNING = 0.20
SHARE_DANGER = 0.50


def find(vitals: Vitals) -> Finding | None:
    requeued = vitals.requeued_min or 0
    finished = vitals.finished_min or 0
    if vitals.stats.paused or requeued < REQUEUES_MIN or not vitals.requeued_recently:
        return None
    share = requeued / vitals.handled_min
    if share < SHARE_WARNING:
        return None
    counts = f"{units.number(finished)} finished, {units.number(requeued)} requeued {words.span(vitals)}"
    told = units.share(requeued, vitals.handled_min)
    meaning = "every delivery fails" if not finished else f"{told} of the deliveries fail"
    return Finding(
        FAILING,
        DANGER if share >= SHARE_DANGER else WARNING,
        "▲ every delivery fails" if not finished else f"▲ {told} requeued",
        f"{counts}: {meaning}.",
        f"{_who(vitals)}{words.held(vitals)} More consumers would fail in "
        "the same way: look at the consumers' logs, or pause the channel until they work again.",
        counts,
    )


def _who(vitals: Vitals) -> str:
    """A sentence: whether one consumer fails or all, where that is known."""
    clients = vitals.stats.clients or ()
    failing = [client for client in clients if client.requeue_count > client.finish_count]
    if len(failing) > 1 and len(failing) == len(clients):
        return f"All {len(clients)} consumers give messages back with REQ."
    if len(clients) < 2 or not failing:
        return "The consumers give messages back with REQ."
    names = ", ".join(client.client_id or client.remote_address for client in failing[:3])
    more = f" and {len(failing) - 3} more" if len(failing) > 3 else ""
    return f"{len(failing)} of {len(clients)} consumers requeue more than they finish: {names}{more}."
