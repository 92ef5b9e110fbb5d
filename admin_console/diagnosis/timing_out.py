"""Deliveries end with a timeout: consumers neither finish nor TOUCH their messages in time."""

from typing import TYPE_CHECKING

from admin_console.diagnosis import words
from admin_console.diagnosis.finding import DANGER, Finding, Kind, Sentences
from admin_console.diagnosis.vitals import Vitals
from admin_console.vocabulary import units

if TYPE_CHECKING:
    from admin_console.gateway.gateway import ConsumerFailures

TIMING_OUT = Kind("timing out", begins_after_s=3, ends_after_s=10, act="requeue_channel")

# Timeouts are a finding when there are several, and they are this share of the deliveries that ended.
TIMEOUTS_MIN = 5
SHARE_MIN = 0.10


def find(vitals: Vitals) -> Finding | None:
    """Counts those of lost connections as well; of the consumers that are left the one with most is named."""
    failures = vitals.failures
    if failures is None or failures.timed_out < TIMEOUTS_MIN or vitals.stats.paused or vitals.finished_min is None:
        return None
    timeouts = failures.timed_out
    handled = vitals.finished_min + failures.requeued + timeouts
    if timeouts < SHARE_MIN * handled:
        return None
    culprit = words.culprit(failures.most_timed_out, timeouts)
    return Finding(
        TIMING_OUT,
        DANGER,
        lambda: _sentences(vitals, culprit, timeouts, handled),
        client_key=culprit.client_key if culprit else 0,
        client_name=words.name(culprit) if culprit else "",
    )


def _sentences(vitals: Vitals, culprit: "ConsumerFailures | None", timeouts: int, handled: float) -> Sentences:
    share = units.share(timeouts, handled)
    by = f": {units.share(culprit.count, timeouts)} of them at {words.name(culprit)}" if culprit else ""
    return Sentences(
        f"▲ {share} time out",
        f"{share} of the messages handled {words.span(vitals)} timed out{by}.",
        f"{units.number(timeouts)} of {units.number(handled)} came back unfinished and are delivered again."
        f"{words.address(culprit)}{words.held(vitals)} Consumers that need longer must TOUCH, or ask for a longer "
        "msg_timeout.",
        f"{units.number(timeouts)} timed out {words.span(vitals)}{by.replace(':', ',', 1)}",
    )
