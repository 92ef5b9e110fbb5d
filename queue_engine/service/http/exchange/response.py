"""Answers to requests, from a handler to the connection."""

from collections.abc import Callable
from dataclasses import dataclass

from queue_engine.service.http.reference.content_types import JSON, TEXT
from queue_engine.wire.error_answers import ErrorAnswer


@dataclass(frozen=True, slots=True)
class Response:
    """An answer; an empty text has no content type. nsq_version: whether it has nsqd's header X-NSQ-Content-Type.
    error: of a refusal, else None; on paths of our own all of that goes into the body."""

    status: int
    body: bytes
    content_type: str = TEXT
    nsq_version: bool = True
    headers: tuple[tuple[str, str], ...] = ()
    error: ErrorAnswer | None = None


# Answers a request: called once, at once or later, on the loop's thread.
Answer = Callable[[Response], None]


def error_response(
    status: int, word: str, detail: str = "", code: str = "", *, headers: tuple[tuple[str, str], ...] = ()
) -> Response:
    """An error as nsqd's clients read it; see `ErrorAnswer`."""
    error = ErrorAnswer(word, detail, code)
    return Response(status, error.nsqd_body(), JSON, headers=(*error.headers(), *headers), error=error)


def internal_error() -> Response:
    """The answer to a request that failed with an unexpected error."""
    return error_response(500, "INTERNAL_ERROR", "the server failed at this request alone; its log has the error")
