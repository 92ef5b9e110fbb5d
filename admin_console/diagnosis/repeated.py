"""One message is delivered again and again, and never finished."""

from admin_console.diagnosis.finding import WARNING, Finding, Kind
from admin_console.diagnosis.vitals import Vitals
from admin_console.vocabulary import units

REPEATED = Kind("repeated", begins_after_s=3, ends_after_s=15)

# Client libraries give up, as they come, after 5 attempts or after a few more.
ATTEMPTS_MIN = 20


def find(vitals: Vitals) -> Finding | None:
    stats = vitals.stats
    if stats.paused or stats.attempts_max < ATTEMPTS_MIN:
        return None
    attempts = units.plural(stats.attempts_max, "time")
    message_id = stats.attempts_max_id
    which = f" It is the message {message_id}." if message_id else ""
    return Finding(
        REPEATED,
        WARNING,
        f"▲ {units.number(stats.attempts_max)} attempts",
        f"One message has been delivered {attempts} and never finished.",
        f"Its consumers requeue it or let it time out.{which} Look at why it fails; a consumer that finishes it, or "
        "gives up after some attempts, ends this.",
        f"{f'message {message_id}' if message_id else 'one message'} has been delivered {attempts}",
    )
