"""A job that fails at each try is said in the log and in /readyz, until it has gone on."""

from dataclasses import replace
from pathlib import Path

import pytest

from admin_console.gateway.pipeline import Pipeline
from admin_console.management.console_report import ConsoleReport
from queue_engine.lake.job.reports import JobReports
from queue_engine.lake.job.state import FAILED, RUNNING, WAITING, JobState
from queue_engine.lake.worker.failing_jobs import FailingJobs
from queue_engine.lake.worker.process import WorkerProcess
from queue_engine.vocabulary.clock import SystemClock
from tests.support.waiting import wait_for

FAILED_ONCE = JobState("archive", FAILED, error="The table is gone.", next_try_ms=5_000)


def write(lake: Path, *states: JobState) -> None:
    reports = JobReports(lake, SystemClock())
    for state in states:
        reports.report(state)
    reports.flush(is_last=True)


def test_a_job_counts_from_its_second_failed_try_until_it_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = FailingJobs(tmp_path)
    jobs.look()
    for state, is_failing in (
        (FAILED_ONCE, False),
        (FAILED_ONCE, False),
        (replace(FAILED_ONCE, state=RUNNING, next_try_ms=0), False),
        (replace(FAILED_ONCE, next_try_ms=15_000), True),
        (replace(FAILED_ONCE, state=RUNNING, next_try_ms=0), True),
        (replace(FAILED_ONCE, state=WAITING, next_try_ms=35_000), True),
        (replace(FAILED_ONCE, state=RUNNING, next_try_ms=0, error=""), False),
        (FAILED_ONCE, False),
    ):
        write(tmp_path, state)
        jobs.look()
        assert jobs.sentences == (("the job archive fails at each try: The table is gone.",) if is_failing else ())
    assert [one.message for one in caplog.records if one.levelname == "WARNING"] == [
        "the job archive fails at each try: The table is gone."
    ]


def test_readyz_names_it_while_the_server_watches_the_worker(tmp_path: Path) -> None:
    lake = tmp_path / "pipeline"
    write(lake, FAILED_ONCE)
    process = WorkerProcess(tmp_path, "http://127.0.0.1:1", token="", find_work=lambda: "")
    report = ConsoleReport()
    report.pipeline = Pipeline(lake, process)
    process.start()
    try:
        wait_for("the first look", lambda: "archive" in process.failing.seen)
        assert report.notices() == []
        write(lake, replace(FAILED_ONCE, next_try_ms=15_000))
        process.wake()
        wait_for(
            "its line",
            lambda: report.notices() == ["pipeline: the job archive fails at each try: The table is gone."],
        )
    finally:
        process.stop()
