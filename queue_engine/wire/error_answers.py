"""An error of the HTTP API, and the job's error that it becomes in the pipeline.

    {"message": nsqd's code, such as "LIMIT_REACHED", "detail": a sentence for people, "code": a finer code}

detail and code are left out when they are empty.
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

# Code of the engine's error → the job's error.
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
    """The fields drawn above; "" for none."""

    message: str
    detail: str = ""
    code: str = ""

    def encoded(self) -> bytes:
        fields = {"message": self.message, "detail": self.detail, "code": self.code}
        return orjson.dumps({name: text for name, text in fields.items() if text or name == "message"})


def read_error_answer(data: bytes) -> ErrorAnswer:
    """Read an error's body. Any body that is no such JSON, as a proxy's error page, becomes the message."""
    try:
        answer = orjson.loads(data)
    except orjson.JSONDecodeError:
        return ErrorAnswer(data[:200].decode("utf-8", "replace"))
    if not isinstance(answer, dict):
        return ErrorAnswer(str(answer))
    return ErrorAnswer(*(str(answer.get(name, "")) for name in ("message", "detail", "code")))
