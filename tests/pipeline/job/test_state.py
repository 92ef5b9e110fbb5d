"""States of jobs on disk: each is read as it was written, and a broken file gets a sentence and harms no other."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from queue_engine.lake.directory.status_fields import TEXT_LENGTH_MAX
from queue_engine.lake.directory.status_file import BrokenStatusFileError
from queue_engine.lake.job.state import (
    STATE_BYTES_MAX,
    STATES_MAX,
    JobState,
    TopicProgress,
    read_state,
    read_states,
    write_state,
)

STATE = JobState(
    job="archive",
    state="running",
    started_ms=1_800_000_000_000,
    updated_ms=1_800_000_001_000,
    done=1200,
    total=5000,
    rows_per_s=812.5,
    lag=3800,
    topics=(TopicProgress("orders", 3, 1200, 5000),),
)


def put(lake: Path, name: str, content: bytes) -> Path:
    path = lake / "jobs" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


def test_what_was_written_is_read(tmp_path: Path) -> None:
    replay = JobState(job="replay-7f3a", state="failed", error="The topic orders is gone.", unit="messages")
    write_state(tmp_path, STATE)
    write_state(tmp_path, replay)
    states = read_states(tmp_path)
    assert states.by_name == {"archive": STATE, "replay-7f3a": replay}
    assert states.broken == ()
    assert (replay.replay_id, STATE.replay_id) == ("7f3a", "")
    write_state(tmp_path, replace(STATE, done=5000))
    assert read_state(tmp_path, "archive") == replace(STATE, done=5000)
    assert sorted(os.listdir(tmp_path / "jobs")) == ["archive.json", "replay-7f3a.json"]


def test_no_lake_has_no_jobs(tmp_path: Path) -> None:
    assert read_states(tmp_path / "none").by_name == {}
    assert read_state(tmp_path / "none", "archive") is None


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is not JSON"),
        (b'{"job": "archive", "state"', "is not JSON"),
        (b"[1, 2]", "is not a JSON object"),
        (b'{"job": "archive", "state": NaN}', "is not JSON"),
        (b'{"job": "archive", "state": "dancing"}', "there is no state 'dancing'"),
        (b'{"job": "rollup", "state": "running"}', "it names the job 'rollup'"),
        (b'{"job": "archive", "state": "running", "done": -1}', "done is '-1', not a whole number"),
        (b'{"job": "archive", "state": "running", "total": 1e99}', "total is '1e\\+99', not a whole number"),
        (b'{"job": "archive", "state": "running", "done": true}', "done is 'True'"),
        (b'{"job": "archive", "state": "running", "rows_per_s": "fast"}', "rows_per_s is 'fast', not a number"),
        (b'{"job": "archive", "state": "running", "topics": {}}', "topics is not a list"),
        (b'{"job": "archive", "state": "running", "topics": [7]}', "topics is not a list of objects"),
        (b'{"job": "archive", "state": "running", "error": ["x"]}', "error is .*, not a text"),
        (b"[" * 100_000, "is not JSON"),
        (b" " * (STATE_BYTES_MAX + 1), "the most is 1,048,576"),
    ],
)
def test_a_broken_file_is_told_of_and_the_others_are_read(tmp_path: Path, content: bytes, complaint: str) -> None:
    put(tmp_path, "archive.json", content)
    write_state(tmp_path, JobState("rollup", "waiting"))
    states = read_states(tmp_path)
    assert list(states.by_name) == ["rollup"]
    assert len(states.broken) == 1
    assert states.broken[0].startswith("jobs/archive.json")
    with pytest.raises(BrokenStatusFileError, match=complaint):
        read_state(tmp_path, "archive")


def test_what_is_no_plain_file_is_neither_waited_for_nor_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"job": "link", "state": "running", "error": "secret"}')
    (tmp_path / "jobs").mkdir()
    os.mkfifo(tmp_path / "jobs" / "pipe.json")
    os.symlink(secret, tmp_path / "jobs" / "link.json")
    (tmp_path / "jobs" / "folder.json").mkdir()
    put(tmp_path, "Not A Job.json", b"{}")
    states = read_states(tmp_path)
    assert states.by_name == {}
    assert len(states.broken) == 4
    assert "secret" not in str(states.broken)


def test_long_texts_are_cut_and_unknown_fields_passed_over(tmp_path: Path) -> None:
    put(tmp_path, "archive.json", b'{"job": "archive", "state": "failed", "error": "%s", "new": 1}' % (b"x" * 9000))
    state = read_state(tmp_path, "archive")
    assert state is not None
    assert len(state.error) == TEXT_LENGTH_MAX


def test_no_more_files_than_the_most_are_read(tmp_path: Path) -> None:
    for number in range(STATES_MAX + 5):
        put(tmp_path, f"replay-{number:06d}.json", b'{"job": "replay-%06d", "state": "done"}' % number)
    assert len(read_states(tmp_path).by_name) == STATES_MAX


@pytest.mark.parametrize("job", ["", "../archive", "a/b", "Archive", ".hidden", "x" * 97])
def test_a_name_that_is_no_job_s_makes_no_file(tmp_path: Path, job: str) -> None:
    with pytest.raises(ValueError, match="is not a job's name"):
        write_state(tmp_path, JobState(job, "waiting"))
