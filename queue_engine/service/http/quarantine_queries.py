"""Reads the query parameters of acts on a channel's quarantine."""

from typing import Any

from queue_engine.service.http.log_queries import QueryError, whole_number
from queue_engine.service.http.query import Query
from queue_engine.service.http.reference.parameters import KEEP_ATTEMPTS, MAX_ATTEMPTS, REDRIVE_RATE

QUARANTINE_ACTS = frozenset({"set_max_attempts", "redrive_channel", "cancel_redrive"})


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
