"""Deliveries end with a timeout: consumers neither finish nor TOUCH their messages in time."""

from admin_console.diagnosis import words
from admin_console.diagnosis.finding import DANGER, Finding, Kind
from admin_console.diagnosis.vitals import Vitals
from admin_console.vocabulary import units

TIMING_OUT = Kind("timing out", begins_after_s=3, ends_after_s=10)

# Timeouts are a finding when there are several, and they are this share of the deliveries that ended.
TIMEOUTS_MIN = 5
SHARE_MIN = 0.10


def find(vitals: Vitals) -> Finding | None:
    stats = vitals.stats
    timeouts, handled = vitals.timeouts_min or 0, vitals.handled_min
    if stats.paused or timeouts < TIMEOUTS_MIN or timeouts < SHARE_MIN * handled:
        return None
    share = units.share(timeouts, handled)
    text = f"{units.number(timeouts)} of {units.number(handled)} came back unfinished and are delivered again."
    blamed = [client for client in stats.clients or () if client.timeout_count]
    if len(stats.clients or ()) > 1 and blamed:
        worst = max(blamed, key=lambda client: client.timeout_count)
        every = sum(client.timeout_count for client in blamed)
        text += (
            f" {units.share(worst.timeout_count, every)} of the timeouts are "
            f"{worst.client_id or worst.remote_address}'s, which holds {units.number(worst.in_flight_count)} now."
        )
    return Finding(
        TIMING_OUT,
        DANGER,
        f"▲ {share} time out",
        f"{share} of the messages handled {words.span(vitals)} timed out.",
        f"{text} Consumers that need longer must TOUCH, or ask for a longer msg_timeout.",
        f"{units.number(timeouts)} timed out {words.span(vitals)}",
    )
