"""An error as the HTTP API answers it, and what its code means to a job.

    {"message": nsqd's word, such as "LIMIT_REACHED", "detail": a sentence for people, "code": a finer word}

detail and code are there where they say more than the message does.
"""

from dataclasses import dataclass

import orjson

from queue_engine.vocabulary.errors import (
    BatchConflictError,
    BatchKeyConflictError,
    InvalidStorageError,
    LeaseLostError,
    LeaseNotFoundError,
    NotALogTopicError,
    OffsetBeyondEndError,
    OffsetGoneError,
    OffsetTooHighError,
    OffsetTooLowError,
    PipelineError,
    TopicChangedError,
    TopicMissingError,
    TopicNotFoundError,
    TopicReplacedError,
)

# The engine's error as its code → what it means to a job.
JOB_ERRORS: dict[str, type[PipelineError]] = {
    TopicNotFoundError.code: TopicMissingError,
    InvalidStorageError.code: NotALogTopicError,
    TopicChangedError.code: TopicReplacedError,
    LeaseNotFoundError.code: LeaseLostError,
    BatchKeyConflictError.code: BatchConflictError,
    OffsetTooHighError.finer_code: OffsetBeyondEndError,
    OffsetTooLowError.finer_code: OffsetGoneError,
}


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """message, detail, code: drawn above, "" for none."""

    message: str
    detail: str = ""
    code: str = ""

    def encoded(self) -> bytes:
        fields = {"message": self.message, "detail": self.detail, "code": self.code}
        return orjson.dumps({name: text for name, text in fields.items() if text or name == "message"})


def read_error_answer(data: bytes) -> ErrorAnswer:
    """What a server answered, whatever it is: a proxy's own error page is a message."""
    try:
        answer = orjson.loads(data)
    except orjson.JSONDecodeError:
        return ErrorAnswer(data[:200].decode("utf-8", "replace"))
    if not isinstance(answer, dict):
        return ErrorAnswer(str(answer))
    return ErrorAnswer(*(str(answer.get(name, "")) for name in ("message", "detail", "code")))
