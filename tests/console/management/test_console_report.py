"""What the console hands the engine: the pipeline's worker, its jobs and replays, refused connections."""

from pathlib import Path

import pytest

from admin_console.gateway.pipeline import Pipeline
from admin_console.management.console_report import ConsoleReport
from queue_engine.lake.directory.lake_lock import LakeLock
from queue_engine.lake.job.state import JobState, write_state
from queue_engine.lake.worker.process import WorkerProcess
from queue_engine.service.monitoring.console_figures import ConsoleFigures, JobFigures
from queue_engine.vocabulary.clock import SystemClock

pytestmark = pytest.mark.django_db


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline"
    for state in (
        JobState("archive", "running", lag=12),
        JobState("compact", "failed", lag=7, error="the disk is full"),
        JobState("replay-20260301-143000-7f3a", "done"),
        JobState("replay-20260302-143000-7f3a", "done"),
        JobState("plan-20260303-143000-7f3a", "running"),
    ):
        write_state(path, state)
    return path


def report_of(pipeline: Pipeline) -> ConsoleFigures:
    report = ConsoleReport()
    report.pipeline = pipeline
    return report.figures()


def test_jobs_have_a_state_and_replays_are_counted(lake: Path) -> None:
    lock = LakeLock(str(lake), clock=SystemClock())
    try:
        figures = report_of(Pipeline(lake))
    finally:
        lock.release()
    assert figures.jobs == {
        "archive": JobFigures("running", False, 12),
        "compact": JobFigures("failed", True, None),
    }
    assert {state: count for state, count in figures.replays.items() if count} == {"done": 2, "running": 1}
    assert set(figures.replays) == set(figures.job_states)


def test_no_job_runs_where_no_worker_does(lake: Path) -> None:
    figures = report_of(Pipeline(lake))
    assert figures.jobs["archive"] == JobFigures("waiting", False, 12)
    assert figures.replays["waiting"] == 1


def test_the_worker_is_off_where_it_is_switched_off(lake: Path) -> None:
    figures = report_of(Pipeline(lake))
    assert figures.worker == "off"
    assert "off" in figures.worker_states
    process = WorkerProcess(lake.parent, "http://127.0.0.1:1", token="", find_work=lambda: "")
    assert report_of(Pipeline(lake, process)).worker == process.state.word
    assert process.state.word in figures.worker_states


def test_without_a_pipeline_there_are_the_consoles_own_figures() -> None:
    class Server:
        refused_connections = {"too_many": 5}
        certificate_expires_s = 1_900_000_000.0

    report = ConsoleReport()
    assert report.figures().refused_connections == {}
    report.server = Server()
    figures = report.figures()
    assert (figures.refused_connections, figures.certificate_expires_s) == ({"too_many": 5}, 1_900_000_000.0)
    assert (figures.worker, figures.jobs, figures.notice_count) == ("", {}, 0)
    assert set(figures.failed_log_ins) == {"password", "throttled", "busy"}
