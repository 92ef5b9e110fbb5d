"""Deliveries end with a timeout: consumers neither finish nor TOUCH their messages in time."""

from typing import TYPE_CHECKING

from admin_console.diagnosis import words
from admin_console.diagnosis.finding import DANGER, WARNING, Finding, FindingKind, Sentences
from admin_console.diagnosis.vitals import Vitals
from admin_console.vocabulary import units

if TYPE_CHECKING:
    from admin_console.gateway.gateway import ConsumerFailures, RecentFailures

TIMING_OUT = FindingKind("timing out", begins_after_s=3, ends_after_s=10, act="requeue_channel")

# Timeouts are a danger when there are several, and they are this share of the deliveries that ended.
TIMEOUTS_MIN = 5
SHARE_MIN = 0.10
# One each second is a warning whatever the share: a consumer forgets messages, and each is delayed by its timeout.
WARNING_TIMEOUTS_MIN = 60


def find(vitals: Vitals) -> Finding | None:
    """Counts those of lost connections as well; of the consumers that are left the one with most is named."""
    failures, timeouts = vitals.stats.failures, vitals.timeouts_min
    if failures is None or failures.timed_out < TIMEOUTS_MIN or vitals.stats.paused or not timeouts:
        return None
    is_large_share = timeouts >= SHARE_MIN * vitals.handled_min
    if not is_large_share and timeouts < WARNING_TIMEOUTS_MIN:
        return None
    culprit = words.culprit(failures.most_timed_out, failures.timed_out)
    return Finding(
        TIMING_OUT,
        DANGER if is_large_share else WARNING,
        lambda: _sentences(vitals, failures, culprit, timeouts),
        client_key=culprit.client_key if culprit else 0,
        client_name=words.name(culprit) if culprit else "",
    )


def _sentences(
    vitals: Vitals, failures: "RecentFailures", culprit: "ConsumerFailures | None", timeouts: float
) -> Sentences:
    handled = vitals.handled_min
    by = ""
    if culprit:
        by = f"{words.share_of(culprit, failures.timed_out, timeouts)} of them at {words.name(culprit)}"
    return Sentences(
        "▲ times out",
        f"{units.share(timeouts, handled)} of the deliveries that ended {words.span(vitals)} timed out"
        + (f": {by}." if by else "."),
        f"{units.number(timeouts)} of {units.number(handled)} came back unfinished and are delivered again."
        f"{words.address(culprit)}{words.held(vitals)} Consumers that need longer must send TOUCH, or set a longer "
        "msg_timeout.",
        f"{units.number(timeouts)} timed out {words.span(vitals)}" + (f", {by}" if by else ""),
    )
