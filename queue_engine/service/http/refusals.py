"""Refusals of requests: nsqd's error code and status for every error, and a sentence where it helps."""

import re

from queue_engine.engine.messages.rows import InvalidQueryError, MessageNotFoundError, SearchNotFoundError
from queue_engine.service.http.exchange.response import Response, error_response
from queue_engine.vocabulary.errors import (
    BatchKeyConflictError,
    ClosedError,
    CountsChangedError,
    CursorNotFoundError,
    FencedError,
    InvalidCursorError,
    InvalidStorageError,
    LakeChangedError,
    LeaseNotFoundError,
    LimitError,
    NotOwnReaderError,
    OutcomeUnknownError,
    PauseError,
    QuarantineError,
    QuotaError,
    RequestError,
    ReservedTopicError,
    TopicChangedError,
    TrashConflictError,
    TrashNotFoundError,
)

# Longer sentences have a value of the client's in them, of which this much is shown.
_DETAIL_MAX = 400
_WORD_SHOWN = 80
_BEGINNING_SHOWN, _END_SHOWN = 120, 200
_LONG_WORD = re.compile(r"\S{256,}")  # paths of files are shorter


class Refusal(Exception):
    """Ends a request with an error answer. `HttpApi.finish` catches it."""

    def __init__(
        self, status: int, word: str, detail: str = "", code: str = "", *, headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        """word: nsqd's error code, such as "INVALID_TOPIC". detail: a sentence; a value of the client's in it is cut
        where it is long. code: a finer one beside the word."""
        super().__init__(word)
        self.status = status
        self.word = word
        self.detail = _shortened(detail)
        self.code = code
        self.headers = headers

    def response(self) -> Response:
        return error_response(self.status, self.word, self.detail, self.code, headers=self.headers)


def _shortened(detail: str) -> str:
    if len(detail) <= _DETAIL_MAX:
        return detail
    detail = _LONG_WORD.sub(lambda found: found[0][:_WORD_SHOWN] + "…", detail)
    if len(detail) <= _DETAIL_MAX:
        return detail
    # A value of many words: the complaint stands behind it.
    return f"{detail[:_BEGINNING_SHOWN]}…{detail[-_END_SHOWN:]}"


def publish_refusal(error: Exception) -> Refusal:
    if isinstance(error, QuotaError):
        seconds = -(-error.wait_ms // 1000)
        return Refusal(429, error.code, str(error), headers=(("Retry-After", str(seconds)),))
    if isinstance(error, LimitError):
        return Refusal(403, error.code, str(error), error.finer_code)
    if isinstance(error, TopicChangedError | BatchKeyConflictError):
        return Refusal(409, error.code, str(error))
    if isinstance(error, InvalidStorageError):
        return Refusal(400, error.code, str(error))
    if isinstance(error, FencedError):
        return Refusal(503, error.code, str(error))
    if isinstance(error, RequestError):
        return Refusal(400, error.code, str(error) if isinstance(error, ReservedTopicError) else "")
    if isinstance(error, ClosedError):
        return Refusal(503, "EXITING")
    # nsqd answers EXITING to this, too; but here the disk refuses, and the server goes on.
    return Refusal(503, "STORAGE_REFUSED", str(error))


def act_refusal(error: Exception) -> Refusal:
    if isinstance(error, ClosedError):
        return Refusal(503, "EXITING")
    if isinstance(error, LimitError):
        return Refusal(403, error.code, str(error), error.finer_code)
    if isinstance(error, NotOwnReaderError):
        return Refusal(403, error.code, str(error))
    if isinstance(error, TopicChangedError | LakeChangedError | FencedError | CountsChangedError | TrashConflictError):
        return Refusal(409, error.code, str(error))
    if isinstance(error, RequestError):
        explained = (
            InvalidStorageError
            | LeaseNotFoundError
            | CursorNotFoundError
            | InvalidCursorError
            | InvalidQueryError
            | MessageNotFoundError
            | PauseError
            | QuarantineError
            | ReservedTopicError
            | SearchNotFoundError
            | TrashNotFoundError
        )
        detail = str(error) if isinstance(error, explained) else ""
        return Refusal(404 if error.code.endswith("_NOT_FOUND") else 400, error.code, detail)
    if isinstance(error, OutcomeUnknownError):
        return Refusal(500, "OUTCOME_UNKNOWN", str(error))
    return Refusal(500, "INTERNAL_ERROR", str(error))
