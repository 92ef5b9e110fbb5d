"""The jobs of the pipeline by name, and one of them run by a command.

    penstock pipeline run archive --once
    python -m queue_engine.lake.jobs archive --engine-url http://127.0.0.1:4151 --data-path .penstock
    python -m zipfile -c penstock.zip queue_engine queue_engine/lake/pyspark_penstock.py
    spark-submit --master spark://HOST:7077 --py-files penstock.zip queue_engine/lake/jobs.py archive …

No job names a master. `chosen_master` takes it from --master, else from PENSTOCK_SPARK_MASTER, else from the
spark-submit that started this process; else it is local[N], with N processes as --worker-python-processes says.

A job's module is imported when the job runs: processes without Spark import this module, too.
"""

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.directory.status_file import sign_of
from queue_engine.lake.history.rollup_progress import RollupProgress
from queue_engine.lake.job.archive_settings import OPTIONS, ArchiveSettings
from queue_engine.lake.job.context import JobContext, JobResources
from queue_engine.lake.job.reports import JobReports
from queue_engine.lake.job.requests import read_replay_request
from queue_engine.lake.job.state import FAILED, REPLAY_PREFIX, RUNNING, WAITING, JobState, is_job_name
from queue_engine.lake.job.thread import JobThread
from queue_engine.lake.source.read_options import AUTO, READ_FROM_WORDS
from queue_engine.lake.spark.secret_variables import take_token
from queue_engine.lake.spark.worker_limits import (
    DEFAULT,
    MEMORY,
    PYTHON_PROCESSES,
    add_option,
    processes_on_this_machine,
)
from queue_engine.lake.variables import (
    ARCHIVE_REPLAYED_VARIABLE,
    ENGINE_URL_VARIABLE,
    MASTER_VARIABLE,
    READ_FROM_VARIABLE,
)
from queue_engine.vocabulary import log_lines
from queue_engine.vocabulary.clock import NS_PER_S, Clock, SystemClock
from queue_engine.vocabulary.errors import NotConvertedError, PenstockError, PipelineError
from queue_engine.vocabulary.names import ARCHIVE_CURSOR

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

ENGINE_URL_DEFAULT = "http://127.0.0.1:4151"
DATA_PATH_DEFAULT = ".penstock"

ARCHIVE_LOOK_S = 3.0
# As often as a quiet topic has ten small files more.
HOUSEKEEPING_EVERY_S = 600.0
HOUSEKEEPING_LOOK_S = 3.0
HOUSEKEEPING_BEGINS_AFTER_S = 60.0
# A day is compacted some minutes after its end, so that late samples count; nothing waits for it.
COMPACT_INTERVAL_S = 120.0
# Replaced files stay for an hour.
CLEAN_INTERVAL_S = 3600.0
# Java is slow at first, and two jobs that begin together each take half as long again. So the archive begins alone;
# the rollups are minutes behind in any case.
ROLLUP_BEGINS_AFTER_S = 10.0
ROLLUP_LOOK_S = 2.0
ROLLUP_REPORT_S = 10.0
ROLLUP_ONCE_LOOK_S = 0.5
ROLLUP_BATCH_ENDS_WITHIN_S = 1.0

_ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True, slots=True)
class Job:
    """One kind of job.

    run: takes (context, replay id, once) and works until context.stop is set or, with once, until the job is up to
    date. is_service: the job runs as long as the worker does; other jobs end, and are tried again only after errors
    that go away by themselves. first_state: the state before the job reports one.
    """

    name: str
    sentence: str
    unit: str
    run: Callable[[JobContext, str, bool], None]
    is_service: bool = True
    first_state: str = WAITING


def run_job(
    name: str,
    *,
    lake_path: Path,
    engine_url: str,
    token: str = "",
    master: str | None,
    once: bool,
    read_from: str = AUTO,
    archive: ArchiveSettings | None = None,
    memory_bytes: int = DEFAULT.memory_bytes,
    stop: threading.Event | None = None,
) -> JobState | None:
    """Hold the lake, run one job in a session of its own, and return when the job has ended: the last state that it
    reported, None for none.

    name: rollup, compact, archive, housekeeping, or replay-<id>. master: None where spark-submit has given one. once:
    end when the job is up to date. read_from: as in `ReadOptions`. archive: None for the defaults. memory_bytes: as in
    `make_session`. Raises PipelineError, among them LakeHeldError while the worker or another command has the lake.
    """
    job, replay_id = job_of(name)
    stop = stop or threading.Event()
    clock = SystemClock()
    lake = Lake(str(lake_path), clock=clock)
    with lake.lock():
        reports = JobReports(lake_path, clock)
        spark = start_session(f"penstock-{name}", lake_path, master, memory_bytes)
        try:
            failures: list[BaseException] = []

            def run(context: JobContext) -> None:
                try:
                    job.run(context, replay_id, once)
                except Exception as exc:
                    failures.append(exc)
                    raise

            thread = JobThread(
                name,
                run,
                JobResources(
                    spark,
                    lake,
                    lambda: LogClient(engine_url, token),
                    clock,
                    reports,
                    read_from,
                    archive or ArchiveSettings(),
                ),
                unit=job.unit,
                first_state=job.first_state,
            )
            thread.start()
            while thread.is_running:
                if stop.wait(0.2) or (once and failures):
                    thread.request_stop(FAILED if failures else WAITING)
                if thread.stopping_for_s() > 2.0:
                    thread.cancel_in_spark()
                thread.clear_recovered_error()
                reports.flush()
                thread.join(0.2)
            reports.flush(is_last=True)
        finally:
            spark.stop()
    if once and failures:
        raise failures[-1]
    return reports.newest(name)


def end_of_run(name: str, last: JobState | None, *, is_stopped: bool) -> str:
    """The result of a run of a job until it is up to date, as a sentence. last: the state that it reported."""
    done = f": {last.done:,} {last.unit} in all" if last is not None and last.done else ""
    return f"{name} {'was stopped before it was' if is_stopped else 'is'} up to date{done}"


def job_of(name: str) -> tuple[Job, str]:
    """The job of that name, and the replay's id. Raises PipelineError for an unknown name."""
    if name.startswith(REPLAY_PREFIX) and is_job_name(name):
        return JOBS["replay"], name.removeprefix(REPLAY_PREFIX)
    if name in JOBS and name != "replay":
        return JOBS[name], ""
    names = [job for job in JOBS if job != "replay"]
    raise PipelineError(f"there is no job {name[:80]!r}; jobs are {', '.join(names)} and replay-ID")


def chosen_master(given: str | None, environment: Mapping[str, str], python_processes: int) -> str | None:
    """The master to run on; None when the spark-submit that started this process has named one.

    python_processes: of a worker on this machine; Spark runs each task of such a master in one of its own."""
    chosen = given or environment.get(MASTER_VARIABLE)
    if chosen:
        return chosen
    return None if "PYSPARK_GATEWAY_PORT" in environment else f"local[{python_processes}]"


def start_session(app_name: str, lake_path: Path, master: str | None, memory_bytes: int) -> "SparkSession":
    """A session whose Python processes find this package, whatever the working directory is. Raises PipelineError."""
    from queue_engine.lake.spark.session import make_session

    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH", "")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    return make_session(
        app_name,
        scratch=lake_path / "scratch",
        master=master,
        memory_bytes=memory_bytes,
        extra={"spark.scheduler.mode": "FAIR"},
    )


def plan_requested_replay(context: JobContext, replay_id: str) -> None:
    """Do the dry run of the replay that was requested under that id."""
    from queue_engine.lake.replay.planning import plan_replay
    from queue_engine.lake.replay.request import ReplayRequest

    request = read_replay_request(Path(context.lake.path), replay_id)
    try:
        made = ReplayRequest(replay_id=replay_id, **request)
    except TypeError as exc:
        raise PipelineError(f"the request of the replay {replay_id} has other fields than it should: {exc}") from exc
    plan_replay(context, made)


# The jobs.


def _run_rollup(context: JobContext, _: str, once: bool) -> None:
    from queue_engine.lake.history.rollup_stream import start_rollup_stream

    if not once and context.stop.wait(ROLLUP_BEGINS_AFTER_S):
        return
    if not _is_history_converted(context, JobState("rollup", WAITING, unit="samples"), once):
        return
    # New samples come all the time: with once, the stream reads those that exist at its start.
    query = start_rollup_stream(context, trigger={"availableNow": True} if once else None)
    progress = RollupProgress(context)
    try:
        if once:
            while not query.awaitTermination(ROLLUP_ONCE_LOOK_S) and not context.stop.is_set():
                pass
            progress.report(query.lastProgress)
            return
        reported_ns = 0
        while query.isActive and not context.stop.wait(ROLLUP_LOOK_S):
            if context.clock.monotonic_ns() - reported_ns >= ROLLUP_REPORT_S * NS_PER_S:
                reported_ns = context.clock.monotonic_ns()
                progress.report(query.lastProgress)
        if not context.stop.is_set():
            raise query.exception() or PipelineError("the stream of the rollups ended without an error")
        _wait_for_batch(query, context.clock)
    finally:
        query.stop()


def _is_history_converted(context: JobContext, state: JobState, once: bool) -> bool:
    """Waits while the history is one of before there were tables. Returns False when the job has to end. Raises
    NotConvertedError instead with `once`."""
    from queue_engine.lake.history.history_tables import HistoryTables

    while not context.stop.is_set():
        try:
            HistoryTables(context.lake).check_converted()
        except NotConvertedError as exc:
            if once:
                raise
            context.report(replace(state, error=str(exc)))
            context.stop.wait(ROLLUP_BEGINS_AFTER_S)
        else:
            return True
    return False


def _wait_for_batch(query: Any, clock: Clock) -> None:
    """Give the running batch a moment to end: then the next run need not do it again."""
    until_ns = clock.monotonic_ns() + int(ROLLUP_BATCH_ENDS_WITHIN_S * NS_PER_S)
    pause = threading.Event()
    while query.isActive and query.status["isTriggerActive"] and clock.monotonic_ns() < until_ns:
        pause.wait(0.05)


def _run_compact(context: JobContext, _: str, once: bool) -> None:
    from queue_engine.lake.history.compaction import compact
    from queue_engine.lake.history.history_tables import HistoryTables

    if not _is_history_converted(context, JobState("compact", WAITING, unit="windows"), once):
        return
    clean_ns = 0
    while True:
        did_something = compact(context, context.clock.time_ns() // NS_PER_S)
        if not did_something and context.clock.monotonic_ns() >= clean_ns:
            HistoryTables(context.lake).clean_up()
            clean_ns = context.clock.monotonic_ns() + int(CLEAN_INTERVAL_S * NS_PER_S)
        context.report(JobState("compact", WAITING, unit="windows"))
        if context.stop.is_set() or (once and not did_something):
            return
        if not did_something and context.stop.wait(COMPACT_INTERVAL_S):
            return


def _run_archive(context: JobContext, _: str, once: bool) -> None:
    from queue_engine.lake.archive.archive import Archiver
    from queue_engine.lake.archive.rounds import BUSY_MESSAGES, ArchiveRounds
    from queue_engine.lake.housekeeping.report import ChangedTopics

    archiver: Archiver | None = None
    rounds = ArchiveRounds(context.clock)
    changed = ChangedTopics(Path(context.lake.path))
    while not context.stop.is_set():
        # The depth is read before Spark starts a job: an idle archive costs one small request.
        cursors = [one for one in context.engine.cursor_list() if one.cursor == ARCHIVE_CURSOR]
        topics = rounds.due(cursors, is_once=once)
        rows = 0
        tidied = changed.look()
        if cursors or tidied:
            archiver = archiver or Archiver(context, include_replayed=replayed_topics(os.environ))
            archiver.archives.sum_up_again(tidied)
            lost = archiver.archives.lost_topics()
            # An operator has made the cursor anew.
            archiver.resting.forget({one.topic for one in cursors if one.topic in lost and not one.lake})
            topics |= archiver.due_topics(cursors, is_once=once)
        if archiver and (topics or tidied or archiver.resting.topics):
            rows = archiver.run(topics) if once else archiver.run_round(topics, {one.topic for one in cursors})
        if once and not rows:
            return
        if not once and rows < BUSY_MESSAGES:
            context.stop.wait(ARCHIVE_LOOK_S)


def _run_housekeeping(context: JobContext, _: str, once: bool) -> None:
    from queue_engine.lake.housekeeping.housekeeping import Housekeeping
    from queue_engine.lake.housekeeping.limits import FILE_NAME

    # The archive begins alone: a start after a rest has messages to archive.
    if not once and context.stop.wait(HOUSEKEEPING_BEGINS_AFTER_S):
        return
    housekeeping = Housekeeping(context, context.open_tables())
    limits = context.lake.within(FILE_NAME)
    while not context.stop.is_set():
        limits_sign = sign_of(limits)
        housekeeping.run()
        if once:
            return
        until_ns = context.clock.monotonic_ns() + int(HOUSEKEEPING_EVERY_S * NS_PER_S)
        while context.clock.monotonic_ns() < until_ns and sign_of(limits) == limits_sign:
            if context.stop.wait(HOUSEKEEPING_LOOK_S):
                return


def replayed_topics(environment: Mapping[str, str]) -> frozenset[str]:
    """Topics whose replayed messages are archived again; from the environment."""
    named = environment.get(ARCHIVE_REPLAYED_VARIABLE, "").split(",")
    return frozenset(name.strip() for name in named if name.strip())


def _run_replay(context: JobContext, replay_id: str, _: bool) -> None:
    from queue_engine.lake.replay.replay import run_replay

    run_replay(context, replay_id)


JOBS: Mapping[str, Job] = {
    job.name: job
    for job in (
        Job(
            "rollup",
            "turns the engine's samples into the history of the graphs",
            "samples",
            _run_rollup,
            first_state=RUNNING,
        ),
        Job("compact", "recomputes each closed day of the history", "windows", _run_compact),
        Job("archive", "writes the messages of archived topics to Delta tables", "messages", _run_archive),
        Job(
            "housekeeping",
            "merges small files of the archive, and removes messages beyond its limits",
            "tables",
            _run_housekeeping,
        ),
        Job(
            "replay",
            "publishes archived messages again",
            "messages",
            _run_replay,
            is_service=False,
            first_state=RUNNING,
        ),
    )
}


# The command.


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line of this module and of `penstock pipeline run`."""
    return command_line().parse_args(arguments)


def command_line() -> argparse.ArgumentParser:
    """The parser of `penstock pipeline run`."""
    parser = argparse.ArgumentParser("penstock pipeline run", description="Run one job of the data pipeline.")
    parser.add_argument("job", metavar="JOB", help="rollup, compact, archive, housekeeping, or replay-ID")
    parser.add_argument("--once", action="store_true", help="end when it is up to date, instead of going on")
    add_common_options(parser)
    return parser


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every process of the pipeline. The engine's token comes by the environment only."""
    parser.add_argument("--master", help=f"Spark's master (default: ${MASTER_VARIABLE}, else this machine)")
    parser.add_argument(
        "--engine-url",
        default=os.environ.get(ENGINE_URL_VARIABLE, ENGINE_URL_DEFAULT),
        help=f"the engine's HTTP API (default: ${ENGINE_URL_VARIABLE}, else {ENGINE_URL_DEFAULT})",
    )
    add_data_path(parser)
    for name in OPTIONS:
        add_option(parser, name)
    add_option(parser, MEMORY)
    add_option(parser, PYTHON_PROCESSES)
    parser.add_argument(
        "--read-from",
        type=_read_from,
        default=os.environ.get(READ_FROM_VARIABLE) or AUTO,
        metavar="|".join(READ_FROM_WORDS),
        help="messages are read from the log's files where a process finds them (auto), only from files "
        f"(files), or only from the engine (http) (default: ${READ_FROM_VARIABLE}, else {AUTO})",
    )


def add_data_path(parser: argparse.ArgumentParser) -> None:
    """Add the option of the data directory."""
    parser.add_argument(
        "--data-path",
        default=os.environ.get("PENSTOCK_DATA_PATH") or DATA_PATH_DEFAULT,
        help=f"the data directory (default: $PENSTOCK_DATA_PATH, else {DATA_PATH_DEFAULT})",
    )


def _read_from(text: str) -> str:
    # argparse checks `choices` only for arguments; this checks the environment's value, too.
    if text not in READ_FROM_WORDS:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} can be {' or '.join(READ_FROM_WORDS)}")
    return text


def main(arguments: Sequence[str]) -> int:
    """Run one job until it is done or a signal stops it. Returns the exit status."""
    log_lines.configure(os.environ)
    given = parse(arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    os.umask(0o077)
    try:
        last = run_job(
            given.job,
            lake_path=Path(given.data_path).absolute() / "pipeline",
            engine_url=given.engine_url,
            token=take_token(os.environ),
            master=chosen_master(given.master, os.environ, processes_on_this_machine(given.worker_python_processes)),
            once=given.once,
            read_from=given.read_from,
            archive=ArchiveSettings.of(given),
            memory_bytes=given.worker_memory_bytes,
            stop=stop,
        )
    except (PenstockError, OSError, ModuleNotFoundError) as exc:
        sys.stderr.write(f"penstock: {exc}\n")
        return 2
    if given.once:
        sys.stdout.write(f"{end_of_run(given.job, last, is_stopped=stop.is_set())}\n")
    return 0


if __name__ == "__main__":
    log_lines.log_uncaught()
    sys.exit(main(sys.argv[1:]))
