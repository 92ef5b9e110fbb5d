"""Requests to the worker: taken in order, gone once done, and none that somebody else put there does harm."""

import os
from pathlib import Path

import pytest

from queue_engine.lake.job.requests import (
    REQUESTS_MAX,
    JobRequest,
    has_requests,
    put_request,
    take_requests,
)
from queue_engine.vocabulary.errors import PipelineError


def test_requests_are_taken_in_order_and_are_gone(tmp_path: Path) -> None:
    assert not has_requests(tmp_path)
    put_request(tmp_path, "stop_job", job="archive")
    second = put_request(tmp_path, "run_replay", id="7f3a")
    second.rename(second.with_name("9999999999999-00000000.json"))
    assert has_requests(tmp_path)
    assert list(take_requests(tmp_path)) == [
        JobRequest("stop_job", {"job": "archive"}),
        JobRequest("run_replay", {"id": "7f3a"}),
    ]
    assert not has_requests(tmp_path)
    assert os.listdir(tmp_path / "requests") == []


def test_a_request_stays_until_what_it_asks_for_is_done(tmp_path: Path) -> None:
    put_request(tmp_path, "stop_job", job="archive")
    taken = take_requests(tmp_path)
    assert next(taken).kind == "stop_job"
    taken.close()  # as a killed worker leaves it
    assert [request.kind for request in take_requests(tmp_path)] == ["stop_job"]


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"kind": "run_program"}', b'{"kind": 7}', b" " * (65 << 10)])
def test_a_broken_request_is_told_of_once_and_the_next_is_taken(tmp_path: Path, content: bytes) -> None:
    put_request(tmp_path, "start_job", job="rollup")
    (tmp_path / "requests" / "0000000000000-00000000.json").write_bytes(content)
    broken, good = take_requests(tmp_path)
    assert broken.kind == ""
    assert "requests/0000000000000-00000000.json" in broken.complaint
    assert good.details == {"job": "rollup"}
    assert not has_requests(tmp_path)


def test_a_pipe_and_a_directory_in_the_way_are_put_aside(tmp_path: Path) -> None:
    (tmp_path / "requests").mkdir()
    os.mkfifo(tmp_path / "requests" / "pipe.json")
    (tmp_path / "requests" / "folder.json").mkdir()
    assert [request.kind for request in take_requests(tmp_path)] == ["", ""]
    assert not has_requests(tmp_path)


def test_too_many_and_too_large_are_refused_with_the_limit(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="the most is 32,768"):
        put_request(tmp_path, "plan_replay", expression="x" * 40_000)
    with pytest.raises(ValueError, match="no request 'dance'"):
        put_request(tmp_path, "dance")
    for _ in range(REQUESTS_MAX):
        put_request(tmp_path, "start_job", job="archive")
    with pytest.raises(PipelineError, match="200 requests wait"):
        put_request(tmp_path, "start_job", job="archive")


def test_requests_of_one_millisecond_keep_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times_ns = iter(range(1_800_000_000_000_000_000, 1_800_000_000_001_000_000, 10_000))
    monkeypatch.setattr("queue_engine.lake.job.requests.time.time_ns", lambda: next(times_ns))
    for number in range(50):
        put_request(tmp_path, "start_job", job=f"job{number}")
    assert [request.details["job"] for request in take_requests(tmp_path)] == [f"job{number}" for number in range(50)]
