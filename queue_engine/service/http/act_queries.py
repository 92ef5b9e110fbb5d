"""Reads the query parameters of acts: of pausing and resuming why, how long, and how slowly it begins again; of a
channel's quarantine how many attempts, and how fast a redrive is."""

from typing import Any

from queue_engine.service.http.log_queries import QueryError, whole_number
from queue_engine.service.http.query import Query
from queue_engine.service.http.reference.parameters import (
    KEEP_ATTEMPTS,
    MAX_ATTEMPTS,
    PAUSE_FOR,
    PAUSE_UNTIL,
    RAMP,
    REASON,
    REDRIVE_RATE,
    Duration,
)
from queue_engine.vocabulary.flow.pause import REASON_CHARACTERS_MAX
from queue_engine.vocabulary.options.durations import format_duration, parse_duration_ms

QUARANTINE_ACTS = frozenset({"set_max_attempts", "redrive_channel", "cancel_redrive"})


def pause_details(query: Query, by: str) -> dict[str, Any]:
    """What `pause_topic` and `pause_channel` take beside the names. Raises QueryError."""
    details: dict[str, Any] = {"by": by}
    if REASON.name in query:
        reason = query[REASON.name]
        if len(reason) > REASON_CHARACTERS_MAX:
            raise QueryError(f"reason has {len(reason)} characters and the most is {REASON_CHARACTERS_MAX}")
        details["reason"] = reason
    if PAUSE_FOR.name in query and PAUSE_UNTIL.name in query:
        raise QueryError("for and until are both given: they name two ends")
    if PAUSE_FOR.name in query:
        details["for_ms"] = _duration_ms(query, PAUSE_FOR)
    if PAUSE_UNTIL.name in query:
        details["until_ms"] = whole_number(query, PAUSE_UNTIL)
    return details


def resume_details(query: Query) -> dict[str, Any]:
    """What `unpause_topic` and `unpause_channel` take beside the names. Raises QueryError."""
    return {"ramp_ms": _duration_ms(query, RAMP)} if RAMP.name in query else {}


def _duration_ms(query: Query, parameter: Duration) -> int:
    text = query[parameter.name]
    try:
        duration_ms = parse_duration_ms(text)
    except ValueError as exc:
        raise QueryError(f"{parameter.name}={text} is not a duration such as 90s or 1h30m") from exc
    if duration_ms > parameter.most_ms:
        raise QueryError(f"{parameter.name}={text} is longer than {format_duration(parameter.most_ms)}")
    return duration_ms


def quarantine_details(action: str, query: Query, by: str) -> dict[str, Any]:
    """What the act takes beside the names. Raises QueryError."""
    if action == "set_max_attempts":
        return {"max_attempts": whole_number(query, MAX_ATTEMPTS)}
    if action == "cancel_redrive":
        return {}
    return {"rate": whole_number(query, REDRIVE_RATE), "keeps_attempts": keeps_attempts(query), "by": by}


def keeps_attempts(query: Query) -> bool:
    """Raises QueryError."""
    text = query.get(KEEP_ATTEMPTS.name, KEEP_ATTEMPTS.default)
    if text not in KEEP_ATTEMPTS.words:
        raise QueryError(f"{KEEP_ATTEMPTS.name}={text} can be {' or '.join(KEEP_ATTEMPTS.words)}")
    return text == "true"
