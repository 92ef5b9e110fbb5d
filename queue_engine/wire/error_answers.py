"""An error of the HTTP API, and the job's error that it becomes in the pipeline.

    {"message": nsqd's code, such as "LIMIT_REACHED", "detail": a sentence for people, "code": a finer code}

detail and code are left out when they are empty. Both are in headers, too: X-Penstock-Detail, in which bytes other than
printable ASCII, and the percent sign, are percent-encoded, and X-Penstock-Code. nsqd's own paths have the message alone
in the body, since its clients compare the whole body.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from string import ascii_letters, digits, punctuation
from urllib.parse import quote, unquote

import orjson

from queue_engine.vocabulary.errors import (
    BatchConflictError,
    BatchKeyConflictError,
    InvalidStorageError,
    LakeChangedError,
    LeaseLostError,
    LeaseNotFoundError,
    NotALogTopicError,
    OffsetBeyondEndError,
    OffsetGoneError,
    OffsetTooHighError,
    OffsetTooLowError,
    OtherLakeError,
    PipelineError,
    TopicChangedError,
    TopicMissingError,
    TopicNotFoundError,
    TopicReplacedError,
)

DETAIL_HEADER = "X-Penstock-Detail"
CODE_HEADER = "X-Penstock-Code"
# Clients refuse header lines that are much longer.
_DETAIL_CHARACTERS_MAX = 2_000
_PLAIN_IN_HEADERS = " " + (ascii_letters + digits + punctuation).replace("%", "")

# Code of the engine's error → the job's error.
JOB_ERRORS: dict[str, type[PipelineError]] = {
    TopicNotFoundError.code: TopicMissingError,
    InvalidStorageError.code: NotALogTopicError,
    TopicChangedError.code: TopicReplacedError,
    LakeChangedError.code: OtherLakeError,
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
        """The body with all fields."""
        fields = {"message": self.message, "detail": self.detail, "code": self.code}
        return orjson.dumps({name: text for name, text in fields.items() if text or name == "message"})

    def nsqd_body(self) -> bytes:
        """The body as nsqd has it: the message alone."""
        return orjson.dumps({"message": self.message})

    def headers(self) -> tuple[tuple[str, str], ...]:
        """Detail and code as headers; none for an empty one."""
        detail = quote(self.detail[:_DETAIL_CHARACTERS_MAX].strip(), safe=_PLAIN_IN_HEADERS)
        return tuple((name, text) for name, text in ((DETAIL_HEADER, detail), (CODE_HEADER, self.code)) if text)


def read_error_answer(data: bytes, headers: Mapping[str, str] | Message) -> ErrorAnswer:
    """Read an error's body and headers (names in any case, as `http.client` has them). Any body that is no such JSON,
    as a proxy's error page, becomes the message."""
    try:
        answer = orjson.loads(data)
    except orjson.JSONDecodeError:
        return ErrorAnswer(data[:200].decode("utf-8", "replace"))
    if not isinstance(answer, dict):
        return ErrorAnswer(str(answer))
    detail = answer.get("detail") or unquote(headers.get(DETAIL_HEADER, ""))
    code = answer.get("code") or headers.get(CODE_HEADER, "")
    return ErrorAnswer(str(answer.get("message", "")), str(detail), str(code))
