"""Old replays: their files go after a time, and those that have not ended stay."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.job.context import JobResources
from queue_engine.lake.job.reports import JobReports
from queue_engine.lake.job.requests import ask_for_replay, replay_ids
from queue_engine.lake.job.state import JobState, read_states, write_state
from queue_engine.lake.worker.old_replays import ENDED_MAX, KEPT_MS, remove_old_replays
from queue_engine.lake.worker.scheduler import JobScheduler
from queue_engine.vocabulary.clock import NS_PER_MS
from tests.pipeline.worker.test_scheduler import Jobs, working
from tests.support.clock import ManualClock

NOW_MS = 1_800_000_000_000


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    lake = Lake(str(tmp_path / "pipeline"))
    with lake.lock():
        yield lake


def replay(lake: Lake, replay_id: str, state: str = "done", *, age_ms: int = 0) -> None:
    """A replay with its files; the state "" is that of a plan that waits for an operator."""
    path = Path(lake.path)
    ask_for_replay(path, replay_id, topic="orders", target="orders")
    for request in (path / "requests").glob("*.json"):
        request.unlink()  # the worker has handled it
    lake.write_manifest(f"replays/{replay_id}/plan.json", {"count": 1})
    write_state(path, JobState(f"plan-{replay_id}", "done", updated_ms=NOW_MS - age_ms))
    if state:
        write_state(path, JobState(f"replay-{replay_id}", state, updated_ms=NOW_MS - age_ms))


def left(lake: Lake) -> list[str]:
    return sorted(replay_ids(Path(lake.path), 10_000))


@pytest.mark.parametrize("state", ["done", "cancelled"])
def test_a_replay_that_has_ended_goes_with_all_its_files(lake: Lake, state: str) -> None:
    replay(lake, "old", state, age_ms=KEPT_MS + 1)
    replay(lake, "new", state, age_ms=KEPT_MS)
    assert remove_old_replays(lake, NOW_MS) == ["plan-old", "replay-old"]
    assert left(lake) == ["new"]
    assert sorted(read_states(Path(lake.path)).by_name) == ["plan-new", "replay-new"]
    assert not (Path(lake.path) / "replays/old").exists()
    assert remove_old_replays(lake, NOW_MS) == []


@pytest.mark.parametrize("state", ["", "waiting", "running", "stopped", "failed"])
def test_a_replay_that_has_not_ended_stays(lake: Lake, state: str) -> None:
    replay(lake, "open", state, age_ms=100 * KEPT_MS)
    assert remove_old_replays(lake, NOW_MS) == []
    assert left(lake) == ["open"]


def test_of_many_the_newest_stay_and_no_state_is_hidden_by_their_number(lake: Lake) -> None:
    for number in range(300):
        replay(lake, f"r{number:03d}", age_ms=number)
    assert "replay-r299" not in read_states(Path(lake.path)).by_name, "600 states are more than are read"
    assert len(remove_old_replays(lake, NOW_MS)) == 2 * (300 - ENDED_MAX)
    assert left(lake) == [f"r{number:03d}" for number in range(ENDED_MAX)]
    assert len(read_states(Path(lake.path)).by_name) == 2 * ENDED_MAX


def test_a_folder_that_can_not_be_removed_keeps_its_states_until_it_can(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay(lake, "old", age_ms=2 * KEPT_MS)
    folder = Path(lake.path) / "replays/old"
    (folder / "a-directory").mkdir()
    (folder / "a-directory" / "locked").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, "rmdir", _refuse)
        assert remove_old_replays(lake, NOW_MS) == []
    assert "replay-old" in read_states(Path(lake.path)).by_name
    assert len(remove_old_replays(lake, NOW_MS)) == 2
    assert left(lake) == []


def _refuse(path: str, **_: object) -> None:
    raise PermissionError(13, os.strerror(13), path)


def test_a_link_in_the_place_of_a_replay_is_removed_and_its_target_stays(lake: Lake, tmp_path: Path) -> None:
    replay(lake, "old", age_ms=2 * KEPT_MS)
    elsewhere = tmp_path / "elsewhere"
    (Path(lake.path) / "replays/old").rename(elsewhere)
    (Path(lake.path) / "replays/old").symlink_to(elsewhere)
    remove_old_replays(lake, NOW_MS)
    assert (elsewhere / "plan.json").exists()


def test_a_broken_state_costs_that_replay_alone(lake: Lake) -> None:
    for name in ("broken", "old"):
        replay(lake, name, age_ms=2 * KEPT_MS)
    (Path(lake.path) / "jobs/replay-broken.json").write_text("{")
    remove_old_replays(lake, NOW_MS)
    assert left(lake) == ["broken"]


def test_a_worker_removes_them_when_it_starts_and_does_not_write_their_states_again(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    with lake.lock():
        replay(lake, "old", age_ms=2 * KEPT_MS)  # by the worker's own clock even older
    with working(tmp_path, Jobs()) as worker:
        worker.tick()
    assert [name for name in read_states(tmp_path).by_name if "old" in name] == []
    assert replay_ids(tmp_path, 10) == []


def test_a_worker_that_goes_on_removes_them_too(lake: Lake) -> None:
    path, clock = Path(lake.path), ManualClock(time_ns=NOW_MS * NS_PER_MS)
    reports = JobReports(path, clock)
    resources = JobResources(None, lake, lambda: LogClient("http://127.0.0.1:1"), clock, reports)
    worker = JobScheduler(resources, {}, plan=lambda *_: None)
    replay(lake, "r1")
    worker.start()
    clock.advance(ms=KEPT_MS)
    worker.tick()
    assert left(lake) == ["r1"]
    clock.advance(ms=3_600_000)
    worker.tick()
    assert left(lake) == []
    assert reports.newest("replay-r1") is None, "a request to run it would find a state"
    clock.advance(ms=2_000)
    worker.tick()
    assert worker.wait(1)
    assert read_states(path).by_name == {}
