"""A poison message: one message is delivered again and again, and never finished."""

from admin_console.diagnosis.finding import DANGER, WARNING, Finding, FindingKind, Sentences
from admin_console.diagnosis.vitals import Vitals
from admin_console.vocabulary import units

POISON = FindingKind("poison message", begins_after_s=3, ends_after_s=15, act="quarantine_messages")

# Client libraries give up, as they come, after 5 attempts or after a few more: from so many on, it is poison even
# if other messages fail, too.
ATTEMPTS_MIN = 20
# From so many on, when it makes most of the failures of the last minute by itself.
ATTEMPTS_MIN_ALONE = 5
REPEATED_MIN = 3
SHARE_DANGER = 0.50


def find(vitals: Vitals) -> Finding | None:
    stats = vitals.stats
    attempts = stats.attempts_max
    if attempts < ATTEMPTS_MIN_ALONE or stats.paused:
        return None
    failures = vitals.stats.failures
    failed = failures.requeued + failures.timed_out if failures else 0
    repeated = failures.repeated if failures else 0
    is_alone = repeated >= REPEATED_MIN and 2 * repeated > failed
    if attempts < ATTEMPTS_MIN and not is_alone:
        return None
    handled = failed + (vitals.finished_min or 0)
    is_grave = is_alone and vitals.finished_min is not None and failed >= SHARE_DANGER * handled
    return Finding(
        POISON,
        DANGER if is_grave else WARNING,
        lambda: _sentences(vitals, ("all" if repeated >= failed else "most") if is_alone else ""),
        message_id=stats.attempts_max_id,
    )


def _sentences(vitals: Vitals, part: str) -> Sentences:
    """part: of the failures, that it makes by itself, "all" or "most"; "" where others fail as well."""
    message_id = vitals.stats.attempts_max_id
    which = f"the message {message_id}" if message_id else "one message"
    times = units.plural(vitals.stats.attempts_max, "time")
    share = f" It alone makes {part} of the last minute's failures." if part else ""
    return Sentences(
        "▲ poison message",
        f"Poison message: {which} was delivered {times} and never finished.",
        f"Its consumers requeue it or let it time out.{share} Look at the message and at why it fails; "
        "quarantined, it is delivered no more until it is redriven.",
        f"{which} was delivered {times} and never finished",
    )
