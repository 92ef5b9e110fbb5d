"""The consumers requeue their messages: many deliveries end with REQ, few or none with FIN."""

from typing import TYPE_CHECKING

from admin_console.diagnosis import words
from admin_console.diagnosis.finding import DANGER, WARNING, Finding, FindingKind, Sentences
from admin_console.diagnosis.vitals import Vitals
from admin_console.vocabulary import units

if TYPE_CHECKING:
    from admin_console.gateway.gateway import ConsumerFailures, RecentFailures

FAILING = FindingKind("failing", begins_after_s=3, ends_after_s=15, act="pause_channel")

REQUEUES_MIN = 5
SHARE_WARNING = 0.20
SHARE_DANGER = 0.50


def find(vitals: Vitals) -> Finding | None:
    """Counts messages that consumers requeue; an operator's acts are no failures."""
    failures = vitals.stats.failures
    if failures is None or failures.requeued < REQUEUES_MIN or not failures.requeued_recently or vitals.stats.paused:
        return None
    finished, requeued = vitals.finished_min, vitals.requeued_min
    if finished is None or requeued is None or requeued < REQUEUES_MIN:
        return None  # without counts of finished messages the share is unknown
    handled = finished + failures.requeued + failures.timed_out
    if failures.requeued < SHARE_WARNING * handled:
        return None
    culprit = words.culprit(failures.most_requeued, failures.requeued)
    return Finding(
        FAILING,
        DANGER if failures.requeued >= SHARE_DANGER * handled else WARNING,
        lambda: _sentences(vitals, failures, culprit, finished, requeued),
        client_key=culprit.client_key if culprit else 0,
        client_name=words.name(culprit) if culprit else "",
    )


def _sentences(
    vitals: Vitals, failures: "RecentFailures", culprit: "ConsumerFailures | None", finished: float, requeued: float
) -> Sentences:
    counts = f"{units.number(requeued)} requeued {words.span(vitals)}"
    by = ""
    if culprit:
        by = f", {words.share_of(culprit, failures.requeued, requeued)} of them by {words.name(culprit)}"
    rest = f"{units.number(finished)} were finished" if finished else "none was finished"
    return Sentences(
        "▲ requeues",
        f"Failing: {counts}{by}; {rest}.",
        f"{words.who(failures.most_requeued, failures.requeued, vitals)}{words.held(vitals, has_age=False)} More "
        "consumers would fail in the same way. Look at the consumers' logs, or pause the channel until they work.",
        f"{counts}{by}",
    )
