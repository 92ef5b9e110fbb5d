"""Each error of the engine that jobs distinguish becomes the job's own error through the API's answer."""

import pytest

from queue_engine.service.http.refusals import act_refusal, publish_refusal
from queue_engine.vocabulary.errors import (
    BatchConflictError,
    BatchKeyConflictError,
    InvalidStorageError,
    LeaseLostError,
    LeaseNotFoundError,
    LimitError,
    NotALogTopicError,
    OffsetBeyondEndError,
    OffsetGoneError,
    OffsetTooHighError,
    OffsetTooLowError,
    PipelineError,
    RequestError,
    TopicChangedError,
    TopicMissingError,
    TopicNotFoundError,
    TopicReplacedError,
)
from queue_engine.wire.error_answers import JOB_ERRORS, ErrorAnswer, read_error_answer

MEANINGS: dict[type[RequestError], type[PipelineError]] = {
    TopicNotFoundError: TopicMissingError,
    InvalidStorageError: NotALogTopicError,
    TopicChangedError: TopicReplacedError,
    LeaseNotFoundError: LeaseLostError,
    BatchKeyConflictError: BatchConflictError,
    OffsetTooHighError: OffsetBeyondEndError,
    OffsetTooLowError: OffsetGoneError,
}


@pytest.mark.parametrize("error", MEANINGS)
def test_an_error_means_to_a_job_what_it_was(error: type[RequestError]) -> None:
    refusal = publish_refusal if error is BatchKeyConflictError else act_refusal
    response = refusal(error("whatever it says")).response()
    assert response.body == b'{"message":"%s"}' % error.code.encode()  # exactly nsqd's
    answer = read_error_answer(response.body, dict(response.headers))
    assert JOB_ERRORS[answer.code or answer.message] is MEANINGS[error]
    assert answer.message == error.code


def test_another_limit_means_nothing_of_its_own() -> None:
    response = act_refusal(LimitError("offset 3 is beyond its end, or is gone")).response()
    answer = read_error_answer(response.body, dict(response.headers))
    assert answer == ErrorAnswer("LIMIT_REACHED", "offset 3 is beyond its end, or is gone")
    assert answer.message not in JOB_ERRORS


def test_an_answer_has_only_the_fields_that_say_something() -> None:
    assert ErrorAnswer("NOT_FOUND").encoded() == b'{"message":"NOT_FOUND"}'
    assert ErrorAnswer("LIMIT_REACHED", code="OFFSET_GONE").encoded() == (
        b'{"message":"LIMIT_REACHED","code":"OFFSET_GONE"}'
    )


@pytest.mark.parametrize(
    ("detail", "sent"),
    [
        ('the most is 5 bytes: ~`{}[]"\\', 'the most is 5 bytes: ~`{}[]"\\'),
        ("80 % of möglich\r\nSet-Cookie: a=b", "80 %25 of m%C3%B6glich%0D%0ASet-Cookie: a=b"),
    ],
)
def test_a_detail_is_one_header_line_and_is_read_back_whole(detail: str, sent: str) -> None:
    error = ErrorAnswer("LIMIT_REACHED", detail, "OFFSET_GONE")
    assert error.headers() == (("X-Penstock-Detail", sent), ("X-Penstock-Code", "OFFSET_GONE"))
    for body in (error.nsqd_body(), error.encoded()):
        assert read_error_answer(body, dict(error.headers())) == error
    assert len(ErrorAnswer("X", "é" * 9_000).headers()[0][1]) < 1 << 14


@pytest.mark.parametrize("data", [b"<html>Bad gateway</html>", b"\xff", b"[1]", b""])
def test_what_is_no_answer_of_the_engine_s_is_a_message(data: bytes) -> None:
    assert read_error_answer(data, {}).code == ""
