"""The worker's jobs without Spark: what people ask of them, what errors do to them, what outlives a worker."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.job.context import JobContext, JobResources
from queue_engine.lake.job.reports import JobReports
from queue_engine.lake.job.requests import ask_for_replay, has_requests, put_request, read_replay_request
from queue_engine.lake.job.state import JobState, read_state, write_state
from queue_engine.lake.job.thread import JobThread
from queue_engine.lake.jobs import Job, job_of
from queue_engine.lake.worker.scheduler import REPLAYS_RUNNING_MAX, JobScheduler
from queue_engine.vocabulary.clock import Clock, SystemClock
from queue_engine.vocabulary.errors import (
    EngineUnreachableError,
    PipelineError,
    StoreRefusedError,
    StoreUnreachableError,
)
from tests.support.clock import ManualClock
from tests.support.waiting import wait_for


class Jobs:
    """A service that works until it is stopped, and replays that end when the test lets them."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.planned: list[str] = []
        self.let_go = threading.Event()
        self.by_name = {
            "archive": Job("archive", "", "messages", self.serve),
            "replay": Job("replay", "", "messages", self.replay, is_service=False, first_state="running"),
        }

    def serve(self, context: JobContext, _: str, once: bool) -> None:
        assert not once
        self.runs.append("archive")
        context.report(JobState("archive", "running", done=7, total=9))
        context.stop.wait()

    def replay(self, context: JobContext, replay_id: str, _: bool) -> None:
        self.runs.append(replay_id)
        while not context.stop.wait(0.01) and not self.let_go.is_set():
            pass

    def plan(self, context: JobContext, replay_id: str) -> None:
        self.planned.append(read_replay_request(Path(context.lake.path), replay_id)["topic"])


@contextmanager
def working(lake_path: Path, jobs: Jobs) -> Iterator[JobScheduler]:
    lake = Lake(str(lake_path))
    with lake.lock():
        clock = SystemClock()
        reports = JobReports(lake_path, clock)
        resources = JobResources(None, lake, lambda: LogClient("http://127.0.0.1:1"), clock, reports)
        worker = JobScheduler(resources, jobs.by_name, plan=jobs.plan)
        worker.start()
        try:
            yield worker
        finally:
            worker.stop()
            assert worker.wait(5)


def job_thread(
    lake_path: Path,
    name: str,
    run: Callable[[JobContext], None],
    clock: Clock,
    reports: JobReports,
    *,
    is_retried: bool = True,
    retry_first_s: float = 0.01,
) -> JobThread:
    """A thread of one job, without Spark and without an engine."""
    return JobThread(
        name,
        run,
        JobResources(None, Lake(str(lake_path)), lambda: LogClient("http://127.0.0.1:1"), clock, reports),
        unit="messages",
        is_retried=is_retried,
        retry_first_s=retry_first_s,
    )


def state_of(lake_path: Path, job: str) -> str:
    state = read_state(lake_path, job)
    return state.state if state else ""


def tick_until(worker: JobScheduler, what: str, look: Callable[[], object]) -> None:
    def looked() -> object:
        worker.tick()
        return look()

    wait_for(what, looked)


def test_a_service_runs_and_waits_when_its_worker_ends(tmp_path: Path) -> None:
    jobs = Jobs()
    with working(tmp_path, jobs):
        wait_for("the archive", lambda: jobs.runs)  # its state says "running" before it has begun
    state = read_state(tmp_path, "archive")
    assert state is not None
    assert (state.state, state.done, state.total) == ("waiting", 7, 9), "what was reported last is kept"


def test_a_stopped_service_stays_stopped_through_workers_until_it_is_started(tmp_path: Path) -> None:
    jobs = Jobs()
    with working(tmp_path, jobs) as worker:
        wait_for("the archive", lambda: jobs.runs)
        put_request(tmp_path, "stop_job", job="archive")
        tick_until(worker, "the stop", lambda: state_of(tmp_path, "archive") == "stopped")
        assert not has_requests(tmp_path)
    with working(tmp_path, jobs) as worker:
        worker.tick()
        assert jobs.runs == ["archive"], "the second worker has left it alone"
        put_request(tmp_path, "start_job", job="archive")
        tick_until(worker, "the start", lambda: jobs.runs == ["archive"] * 2)


def test_a_start_right_behind_a_stop_is_not_lost(tmp_path: Path) -> None:
    jobs = Jobs()
    with working(tmp_path, jobs) as worker:
        wait_for("the archive", lambda: jobs.runs)
        put_request(tmp_path, "stop_job", job="archive")
        put_request(tmp_path, "start_job", job="archive")
        tick_until(worker, "the second run", lambda: len(jobs.runs) == 2)
        tick_until(worker, "the word", lambda: state_of(tmp_path, "archive") == "running")


def test_a_replay_is_planned_run_when_somebody_says_so_and_done(tmp_path: Path) -> None:
    jobs = Jobs()
    with working(tmp_path, jobs) as worker:
        ask_for_replay(tmp_path, "7f3a", topic="orders")
        tick_until(worker, "the plan", lambda: state_of(tmp_path, "plan-7f3a") == "done")
        assert jobs.planned == ["orders"]
        assert state_of(tmp_path, "replay-7f3a") == "", "nothing is published before somebody said so"
        put_request(tmp_path, "run_replay", id="7f3a")
        tick_until(worker, "the run", lambda: state_of(tmp_path, "replay-7f3a") == "running")
        jobs.let_go.set()
        tick_until(worker, "the end", lambda: state_of(tmp_path, "replay-7f3a") == "done")
        put_request(tmp_path, "run_replay", id="7f3a")
        worker.tick()
        assert jobs.runs.count("7f3a") == 1, "what is done is not done again"


def test_a_discarded_plan_stops_computing_and_no_worker_takes_it_up_again(tmp_path: Path) -> None:
    jobs = Jobs()
    stopped: list[str] = []

    def endless(context: JobContext, replay_id: str) -> None:
        jobs.planned.append(replay_id)
        context.stop.wait()
        stopped.append(replay_id)
        raise PipelineError("Spark's job was cancelled")

    jobs.plan = endless
    ids = ["a1", "a2", "a3"]
    with working(tmp_path, jobs) as worker:
        for replay_id in ids:
            ask_for_replay(tmp_path, replay_id, topic="orders")
        tick_until(worker, "two plans", lambda: len(jobs.planned) == REPLAYS_RUNNING_MAX)
        put_request(tmp_path, "cancel_replay", id="a3")  # its turn has not come
        put_request(tmp_path, "cancel_replay", id="a1")
        tick_until(worker, "the end of one", lambda: stopped == ["a1"])
        # Another request of the same replay takes the place of the one that is being computed.
        ask_for_replay(tmp_path, "a2", topic="clicks")
        tick_until(worker, "the other plan", lambda: jobs.planned == ["a1", "a2", "a2"])
        states = {one: (state_of(tmp_path, f"plan-{one}"), state_of(tmp_path, f"replay-{one}")) for one in ids}
        assert states == {"a1": ("cancelled",) * 2, "a2": ("running", ""), "a3": ("cancelled",) * 2}
    jobs.planned.clear()
    with working(tmp_path, jobs) as worker:
        tick_until(worker, "the one that goes on", lambda: jobs.planned == ["a2"])
        # What is cancelled is not started by a start that came while it stopped; the worker goes on.
        put_request(tmp_path, "run_replay", id="a4")
        tick_until(worker, "the run", lambda: "a4" in jobs.runs)
        put_request(tmp_path, "cancel_replay", id="a4")
        put_request(tmp_path, "start_job", job="replay-a4")
        tick_until(worker, "the cancel", lambda: state_of(tmp_path, "replay-a4") == "cancelled")
        worker.tick()
        assert jobs.runs.count("a4") == 1


def test_a_replay_under_way_goes_on_with_the_next_worker_and_a_cancelled_one_never(tmp_path: Path) -> None:
    jobs = Jobs()
    with working(tmp_path, jobs) as worker:
        for replay_id in ("going", "cancelled"):
            put_request(tmp_path, "run_replay", id=replay_id)
        tick_until(worker, "both", lambda: {"going", "cancelled"} <= set(jobs.runs))
        put_request(tmp_path, "cancel_replay", id="cancelled")
        tick_until(worker, "the cancel", lambda: state_of(tmp_path, "replay-cancelled") == "cancelled")
    assert state_of(tmp_path, "replay-going") == "waiting"
    jobs.runs.clear()
    with working(tmp_path, jobs) as worker:
        put_request(tmp_path, "start_job", job="replay-cancelled")
        tick_until(worker, "the one that goes on", lambda: "going" in jobs.runs)
        worker.tick()
    assert "cancelled" not in jobs.runs
    assert state_of(tmp_path, "replay-cancelled") == "cancelled"


def test_a_killed_worker_s_stop_is_remembered_though_its_job_had_not_ended(tmp_path: Path) -> None:
    jobs = Jobs()
    end = threading.Event()

    def stubborn(context: JobContext, _: str, __: bool) -> None:
        context.stop.wait()
        context.report(JobState("archive", "running", done=8))
        assert end.wait(10)

    jobs.by_name["archive"] = Job("archive", "", "messages", stubborn)
    with working(tmp_path, jobs) as worker:
        put_request(tmp_path, "stop_job", job="archive")
        worker.tick()
        assert not has_requests(tmp_path)
        worker.reports.flush(is_last=True)
        assert state_of(tmp_path, "archive") == "stopped"
        end.set()


def test_replays_take_turns(tmp_path: Path) -> None:
    jobs = Jobs()
    names = [f"r{number}" for number in range(REPLAYS_RUNNING_MAX + 1)]
    with working(tmp_path, jobs) as worker:
        for name in names:
            put_request(tmp_path, "run_replay", id=name)
        tick_until(worker, "the first", lambda: len(set(jobs.runs) & set(names)) == REPLAYS_RUNNING_MAX)
        worker.tick()
        assert state_of(tmp_path, f"replay-{names[-1]}") == "waiting"
        jobs.let_go.set()
        tick_until(worker, "the last", lambda: state_of(tmp_path, f"replay-{names[-1]}") == "done")


@pytest.mark.parametrize(
    "details",
    [{}, {"job": 7}, {"job": "../../etc"}, {"job": "dance"}, {"job": "archive/../x"}, {"job": ""}, {"id": "x"}],
)
def test_a_request_that_names_nothing_is_passed_over(tmp_path: Path, details: dict[str, object]) -> None:
    with working(tmp_path, Jobs()) as worker:
        for kind in ("stop_job", "start_job", "cancel_job"):
            put_request(tmp_path, kind, **details)
        worker.tick()
        assert not has_requests(tmp_path)
    assert sorted(path.name for path in (tmp_path / "jobs").iterdir()) == ["archive.json"]


def test_an_error_is_one_sentence_tried_again_and_forgotten_when_it_went(tmp_path: Path) -> None:
    tries: list[int] = []
    clock = SystemClock()
    reports = JobReports(tmp_path, clock)
    seen: list[JobState] = []

    def flaky(context: JobContext) -> None:
        known = reports.newest("rollup")
        assert known is not None
        seen.append(known)
        tries.append(1)
        if len(tries) < 3:
            raise PipelineError("The engine is gone.\nmore of it")

    thread = job_thread(tmp_path, "rollup", flaky, clock, reports)
    thread.start()
    assert thread.join(10)
    assert [(state.state, state.error) for state in seen] == [
        ("running", ""),
        ("running", "The engine is gone."),
        ("running", "The engine is gone."),
    ]
    last = read_state(tmp_path, "rollup")
    assert last is not None
    assert (last.state, last.error) == ("done", "")


def test_figures_reach_the_disk_once_a_second_and_words_at_once(tmp_path: Path) -> None:
    clock = ManualClock()
    reports = JobReports(tmp_path, clock)

    def on_disk() -> tuple[str, int]:
        state = read_state(tmp_path, "archive")
        assert state is not None
        return state.state, state.done

    reports.report(JobState("archive", "running", done=1))
    reports.report(JobState("archive", "running", done=2))
    reports.flush()
    assert on_disk() == ("running", 1)
    clock.advance(ms=1000)
    reports.flush()
    assert on_disk() == ("running", 2)
    reports.report(JobState("archive", "failed", done=3))
    assert on_disk() == ("failed", 3)
    reports.report(JobState("archive", "failed", done=4))
    reports.flush(is_last=True)
    assert on_disk() == ("failed", 4)


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        (PipelineError("the topic was made anew"), 1),
        (StoreRefusedError("the credentials have expired"), 1),
        (EngineUnreachableError("no answer"), 2),
        (StoreUnreachableError("no answer"), 2),
        (RuntimeError("PythonException: …\nqueue_engine.vocabulary.errors.StoreBusyError: fewer requests"), 2),
    ],
)
def test_a_replay_is_tried_again_only_for_what_goes_away_by_itself(
    tmp_path: Path, error: Exception, tries: int
) -> None:
    seen: list[int] = []

    def fails_once(_: JobContext) -> None:
        seen.append(1)
        if len(seen) == 1:
            raise error

    clock = SystemClock()
    thread = job_thread(tmp_path, "replay-7f3a", fails_once, clock, JobReports(tmp_path, clock), is_retried=False)
    thread.start()
    assert thread.join(10)
    assert len(seen) == tries
    assert state_of(tmp_path, "replay-7f3a") == ("failed" if tries == 1 else "done")


def test_an_error_stays_until_the_job_comes_further_or_has_gone_on_for_a_while(tmp_path: Path) -> None:
    """A job that fails again and again is never shown as running without an error."""
    clock = ManualClock()
    reports = JobReports(tmp_path, clock)
    seen: list[tuple[str, str]] = []
    tries: list[int] = []
    may_end = threading.Event()

    def see() -> None:
        known = reports.newest("archive")
        assert known is not None
        seen.append((known.state, known.error))

    def run(context: JobContext) -> None:
        tries.append(1)
        context.report(JobState("archive", "running", done=5, total=9, lag=4))
        see()
        if len(tries) == 3:
            context.report(JobState("archive", "running", done=6, total=9, lag=3))
            see()
        if len(tries) < 5:
            raise PipelineError(f"error {len(tries)}")
        assert may_end.wait(10)

    thread = job_thread(tmp_path, "archive", run, clock, reports)
    thread.start()
    wait_for("the fifth try", lambda: len(seen) == 6)
    running = "running"
    expected = ["", "error 1.", "error 2.", "", "error 3.", "error 4."]
    assert seen == [(running, error) for error in expected]
    clock.advance(ms=59_000)
    thread.clear_recovered_error()
    see()
    clock.advance(ms=1_000)
    thread.clear_recovered_error()
    see()
    may_end.set()
    assert thread.join(10)
    assert seen[6:] == [(running, "error 4."), (running, "")]


def test_a_failed_job_says_when_it_is_tried_again(tmp_path: Path) -> None:
    clock = ManualClock()
    reports = JobReports(tmp_path, clock)

    def fails(_: JobContext) -> None:
        raise PipelineError("the engine is gone")

    thread = job_thread(tmp_path, "archive", fails, clock, reports, retry_first_s=20.0)
    thread.start()
    wait_for("the failure", lambda: state_of(tmp_path, "archive") == "failed")
    failed = read_state(tmp_path, "archive")
    assert failed is not None
    assert failed.next_try_ms == reports.now_ms() + 20_000
    thread.request_stop("stopped")
    assert thread.join(10)
    stopped = read_state(tmp_path, "archive")
    assert stopped is not None
    assert (stopped.state, stopped.next_try_ms) == ("stopped", 0)


def test_names_of_jobs(tmp_path: Path) -> None:
    assert job_of("archive")[0].name == "archive"
    assert job_of("replay-7f3a")[1] == "7f3a"
    for name in ("replay", "dance", "replay-", "replay-../x", "replay-.."):
        with pytest.raises(PipelineError, match="there is no job"):
            job_of(name)


def test_broken_states_keep_no_worker_from_starting(tmp_path: Path) -> None:
    write_state(tmp_path, JobState("rollup", "running"))
    (tmp_path / "jobs" / "archive.json").write_text("{broken")
    with working(tmp_path, Jobs()):
        wait_for("the archive", lambda: state_of_archive(tmp_path) == "running")


def state_of_archive(lake_path: Path) -> str:
    try:
        return state_of(lake_path, "archive")
    except PipelineError:
        return ""
