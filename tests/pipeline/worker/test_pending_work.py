"""The work for which a worker is started, and the states in which none is."""

from pathlib import Path

import pytest

from admin_console.rings.rings import SECONDS
from queue_engine.lake.directory.lake import not_converted
from queue_engine.lake.directory.status_file import write_status_file
from queue_engine.lake.history.levels import OLD_MANIFEST, SUMMARY
from queue_engine.lake.job.requests import put_request, take_requests
from queue_engine.lake.job.state import JobState, write_state
from queue_engine.lake.worker.pending_work import HISTORY_GATHER_S, HISTORY_LAG_MAX_S, PendingWork
from tests.support.clock import ManualClock


class Engine:
    """The two answers of an engine that `PendingWork` asks for."""

    depth = 0
    has_samples = True


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def work(tmp_path: Path, clock: ManualClock, engine: Engine) -> PendingWork:
    return PendingWork(tmp_path, clock, archive_depth=lambda: engine.depth, has_samples=lambda: engine.has_samples)


def seconds(clock: ManualClock) -> int:
    return clock.time_ns() // 1_000_000_000


def write_history(lake_path: Path, end_s: int) -> None:
    write_status_file(lake_path / SUMMARY, {"end_s": end_s})


def test_a_server_that_lives_for_a_moment_has_no_work(work: PendingWork, clock: ManualClock) -> None:
    assert work.find() == ""
    clock.advance(ms=(HISTORY_LAG_MAX_S - 1) * 1000)
    assert work.find() == ""
    clock.advance(ms=2000)
    assert work.find() == "the history is behind"


def test_a_history_that_is_up_to_date_may_gather_before_a_worker_is_started_for_it(
    work: PendingWork, clock: ManualClock, tmp_path: Path
) -> None:
    clock.advance(ms=HISTORY_LAG_MAX_S * 2000)
    write_history(tmp_path, seconds(clock) - HISTORY_LAG_MAX_S + 1)
    assert work.find() == ""
    clock.advance(ms=2000)
    assert work.find() == "", "what this server has sampled itself is in the memory of the pages"
    clock.advance(ms=(HISTORY_GATHER_S - HISTORY_LAG_MAX_S) * 1000)
    assert work.find() == "the history is behind"
    write_history(tmp_path, seconds(clock) - HISTORY_LAG_MAX_S - 1)
    assert work.find() == "the history is behind", "a worker that was started for it brings it up to date"
    write_history(tmp_path, seconds(clock) - HISTORY_LAG_MAX_S)
    assert work.find() == ""
    clock.advance(ms=2000)
    assert work.find() == ""


def test_the_history_of_an_earlier_server_does_not_gather(
    work: PendingWork, clock: ManualClock, tmp_path: Path
) -> None:
    """Its last minutes are in no memory."""
    write_history(tmp_path, seconds(clock) - 1)
    clock.advance(ms=(HISTORY_LAG_MAX_S - 1) * 1000)
    assert work.find() == ""
    clock.advance(ms=2000)
    assert work.find() == "the history is behind"


def test_gathered_history_is_written_before_the_pages_forget_it() -> None:
    starting_s = 120
    assert HISTORY_GATHER_S + starting_s < SECONDS


def test_a_day_that_is_being_compacted_is_work(work: PendingWork, tmp_path: Path) -> None:
    write_state(tmp_path, JobState("compact", "running"))
    assert work.find() == "the job compact has not ended"
    write_state(tmp_path, JobState("compact", "waiting"))
    assert work.find() == ""


def test_no_samples_or_a_stopped_rollup_need_no_history(
    work: PendingWork, clock: ManualClock, engine: Engine, tmp_path: Path
) -> None:
    clock.advance(ms=HISTORY_LAG_MAX_S * 2000)
    engine.has_samples = False
    assert work.find() == ""
    engine.has_samples = True
    write_state(tmp_path, JobState("rollup", "stopped"))
    assert work.find() == ""


def test_a_damaged_history_is_work_for_the_job_that_can_tell(
    work: PendingWork, clock: ManualClock, tmp_path: Path
) -> None:
    clock.advance(ms=HISTORY_LAG_MAX_S * 2000)
    (tmp_path / SUMMARY).write_text("{broken")
    assert work.find() == "the history is behind"


def test_history_of_an_earlier_version_waits_for_the_operator_once_the_job_has_said_so(
    work: PendingWork, clock: ManualClock, tmp_path: Path
) -> None:
    clock.advance(ms=HISTORY_LAG_MAX_S * 2000)
    assert work.find() == "the history is behind"
    (tmp_path / OLD_MANIFEST).parent.mkdir()
    (tmp_path / OLD_MANIFEST).touch()
    write_state(tmp_path, JobState("rollup", "waiting", error=str(not_converted("the history", "manifest.json"))))
    assert work.find() == ""
    (tmp_path / OLD_MANIFEST).unlink()
    assert work.find() == "the history is behind", "it was moved away"
    (tmp_path / OLD_MANIFEST).touch()
    write_history(tmp_path, seconds(clock) - HISTORY_LAG_MAX_S - 1)
    assert work.find() == "the history is behind", "it was converted"


def test_messages_to_archive_are_work_unless_somebody_stopped_the_archive(
    work: PendingWork, engine: Engine, tmp_path: Path
) -> None:
    engine.depth = 1
    assert work.find() == "messages wait to be archived"
    write_state(tmp_path, JobState("archive", "stopped"))
    assert work.find() == ""


@pytest.mark.parametrize("state", ["waiting", "running", "failed", "stopped", "done", "cancelled"])
def test_a_replay_to_go_on_with_is_work(work: PendingWork, tmp_path: Path, state: str) -> None:
    write_state(tmp_path, JobState("replay-7f3a", state))
    assert work.find() == ("replay-7f3a has not ended" if state in ("waiting", "running") else "")


def test_a_request_is_work_until_it_is_taken(work: PendingWork, tmp_path: Path) -> None:
    put_request(tmp_path, "stop_job", job="archive")
    assert work.find() == "a request waits"
    assert len(list(take_requests(tmp_path))) == 1
    assert work.find() == ""
