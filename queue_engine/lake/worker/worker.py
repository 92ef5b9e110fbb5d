"""The worker: one process with one Spark session that runs all jobs of a lake, as `serve` starts it.

    python -m queue_engine.lake.worker.worker [--master …] [--engine-url …] [--data-path …]

The engine's token comes from PENSTOCK_HTTP_TOKEN or, with --follow-stdin, as the first line of standard input. `serve`
starts the worker the second way, so the token is in no environment. Java and Spark's Python processes inherit no
secrets.

The worker takes the lake's lock; when another process has it, the worker ends and names the holder. It leaves the cores
to the engine first: its priority and its Java's memory are options (`spark/worker_limits.py`). It ends when its
standard input is closed (the process that started it is gone), when its parent changes, or on SIGTERM. Then it stops
the jobs and Java; processes left after four seconds are killed with the whole process group, and before the session is
ready all is killed at once. It also ends, without haste, when the server writes that there is no work (`pipes.py`).
Nothing is lost: every job can be killed at any moment. Exit status: 0 it ended on request, 1 it could not start or go
on, 3 another process holds the lake.

Why it ended and where its log is goes to the standard error it was started with; everything else, Java's output
included, goes to pipeline/worker.log.
"""

import argparse
import contextlib
import logging
import os
import select
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.job.archive_settings import ArchiveSettings
from queue_engine.lake.job.context import JobResources
from queue_engine.lake.job.error_sentences import sentence_of
from queue_engine.lake.job.reports import JobReports
from queue_engine.lake.jobs import (
    JOBS,
    add_common_options,
    chosen_master,
    plan_requested_replay,
    start_session,
)
from queue_engine.lake.spark.secret_variables import take_token
from queue_engine.lake.spark.worker_limits import NICE, add_option, processes_on_this_machine
from queue_engine.lake.worker import scratch
from queue_engine.lake.worker import state as worker_state
from queue_engine.lake.worker.log_file import WorkerLogFile
from queue_engine.lake.worker.pipes import REST_LINE, first_line
from queue_engine.lake.worker.scheduler import JobScheduler
from queue_engine.lake.worker.state import WorkerState, write_worker_state
from queue_engine.vocabulary import log_lines
from queue_engine.vocabulary.clock import SystemClock
from queue_engine.vocabulary.errors import LakeHeldError, PenstockError

logger = logging.getLogger(__name__)

AUTOGROUP = Path("/proc/self/autogroup")
AUTOGROUP_ATTEMPTS = 5
AUTOGROUP_AGAIN_AFTER_S = 0.15
OOM_SCORE = Path("/proc/self/oom_score_adj")
# Of 1000: counted as if it had half of the memory more than it has.
OOM_SCORE_ADDED = 500
TICK_S = 0.5
STATE_EVERY_S = 5.0
# The worker is gone at most five seconds after its parent's end; noticing that takes up to a second.
KILL_AFTER_S = 3.5
# Nothing waits for the end of a worker that rests.
REST_KILL_AFTER_S = 20.0
JOBS_END_WITHIN_S = 1.5
JAVA_ENDS_WITHIN_S = 1.5
PARENT_CHECK_S = 0.5
EXIT_FAILED = 1
EXIT_HELD = 3


class Shutdown:
    """Ends the process: on request, on a signal, to rest, or when the parent is gone."""

    def __init__(self) -> None:
        self.requested = threading.Event()
        self.reason = ""
        self.is_resting = False  # no work is the only reason so far
        self.is_ready = False  # before the session is ready nothing can be stopped in order
        self._parent = os.getppid()

    def watch(self, *, follows_stdin: bool) -> None:
        """Begin to watch for signals and for the end of the parent."""
        self.take_signals()
        threading.Thread(target=self._watch, args=(follows_stdin,), name="parent watch", daemon=True).start()

    def take_signals(self) -> None:
        """Set the signal handlers. Called again after Spark's start, which sets its own."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: self.request_end(signal.Signals(number).name))

    def request_end(self, reason: str) -> None:
        """Request the end: in order when the session is ready, else at once. Any thread may call it."""
        if self.requested.is_set() and not self.is_resting:
            return
        self.is_resting = False
        self._end(reason, KILL_AFTER_S)

    def rest(self) -> None:
        """Request the end for want of work. A later `request_end` makes haste."""
        if not self.requested.is_set():
            self.is_resting = True
            self._end("there is no work", REST_KILL_AFTER_S)

    def _end(self, reason: str, kill_after_s: float) -> None:
        self.reason = reason
        self.requested.set()
        if not self.is_ready:
            kill_group(0)
        timer = threading.Timer(kill_after_s, kill_group, (EXIT_FAILED,))
        timer.daemon = True
        timer.start()

    def _watch(self, follows_stdin: bool) -> None:
        while True:
            if follows_stdin:
                readable, _, _ = select.select([0], [], [], PARENT_CHECK_S)
                if readable:
                    # After the first line only the end follows, or a rest and then the end.
                    if os.read(0, len(REST_LINE)) == b"":
                        self.request_end("standard input ended")
                        return
                    self.rest()
            else:
                time.sleep(PARENT_CHECK_S)
            if os.getppid() != self._parent:
                self.request_end("the parent process ended")
                return


def offer_memory() -> None:
    """Have the kernel end this process or a child of it, and not the server, where memory is short."""
    # Raising its own score needs no right.
    with contextlib.suppress(OSError):
        OOM_SCORE.write_text(str(OOM_SCORE_ADDED))


def lower_priority(nice: int) -> None:
    """Give this process and its children the priority `nice`, so that the engine gets the cores first.

    With autogroups Linux shares the cores between sessions first, and looks at priorities only within a session. The
    server starts the worker in a session of its own, so the session gets the priority, too.
    """
    os.setpriority(os.PRIO_PROCESS, 0, max(nice, os.getpriority(os.PRIO_PROCESS, 0)))
    if os.getsid(0) != os.getpid():
        return  # the session of a terminal, which other processes share
    for _ in range(AUTOGROUP_ATTEMPTS):
        try:
            AUTOGROUP.write_text(str(nice))
        except BlockingIOError:
            time.sleep(AUTOGROUP_AGAIN_AFTER_S)  # the kernel accepts ten a second from all processes together
        except OSError:
            return  # the kernel has no autogroups, or refuses
        else:
            return


def kill_group(status: int) -> None:
    """Kill this process and all processes of its group at once."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    # A process that leads no group: Java sees the end of its standard input, and ends Spark's processes.
    os._exit(status)


def main(arguments: Sequence[str]) -> None:
    """Run the worker until its end is requested, then end the process."""
    given = _parse(arguments)
    token = take_token(os.environ)
    if given.follow_stdin:
        token = first_line(0)
    os.umask(0o077)
    # A copy, since descriptor 2 will be the log. The server reads this one until the process ends.
    parent_output = os.fdopen(os.dup(2), "w", buffering=1)
    if os.getpgrp() != os.getpid() and not os.isatty(0):
        os.setpgid(0, 0)
    lower_priority(given.worker_nice)
    offer_memory()
    shutdown = Shutdown()
    shutdown.watch(follows_stdin=given.follow_stdin)
    lake_path = Path(given.data_path).absolute() / "pipeline"
    lake = Lake(str(lake_path), clock=SystemClock())
    try:
        with lake.lock():
            log = WorkerLogFile(lake_path)
            log_lines.configure(os.environ)
            log_lines.log_uncaught()
            logging.getLogger("py4j").setLevel(logging.WARNING)
            parent_output.write(f"pipeline worker: process {os.getpid()}, log {log.path}\n")
            # Exits inside of the lock: the lake stays held until no thread of this process is left.
            _exit(parent_output, *_run_jobs(given, token, lake, lake_path, log, shutdown))
    except LakeHeldError as exc:
        _exit(parent_output, EXIT_HELD, str(exc))
    except (PenstockError, OSError) as exc:
        _exit(parent_output, EXIT_FAILED, str(exc))


def _exit(parent_output: TextIO, status: int, sentence: str) -> NoReturn:
    """End the process without exit hooks: those would wait for threads and processes that are gone."""
    if sentence:
        parent_output.write(f"pipeline worker: {sentence}\n")
    parent_output.flush()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _run_jobs(
    given: argparse.Namespace, token: str, lake: Lake, lake_path: Path, log: WorkerLogFile, shutdown: Shutdown
) -> tuple[int, str]:
    """Start the session and run the jobs until the end is requested. Returns the exit status and its sentence."""
    write_state = _StateFile(lake_path)
    write_state(worker_state.STARTING)
    # A killed session leaves up to a gigabyte; earlier versions left 140 MB of Java's classes.
    for leftover in scratch.TEMPORARY:
        shutil.rmtree(lake_path / scratch.DIRECTORY / leftover, ignore_errors=True)
    try:
        master = chosen_master(given.master, os.environ, processes_on_this_machine(given.worker_python_processes))
        spark = start_session("penstock-worker", lake_path, master, given.worker_memory_bytes)
    except Exception as exc:
        logger.exception("no Spark session")
        sentence = f"Spark did not start: {sentence_of(exc)}"
        write_state(worker_state.ENDED, sentence)
        return EXIT_FAILED, sentence
    shutdown.take_signals()
    shutdown.is_ready = True
    clock = SystemClock()
    reports = JobReports(lake_path, clock)
    resources = JobResources(
        spark,
        lake,
        lambda: LogClient(given.engine_url, token),
        clock,
        reports,
        given.read_from,
        ArchiveSettings.of(given),
    )
    jobs = JobScheduler(resources, JOBS, plan=plan_requested_replay)
    status, sentence = 0, ""
    try:
        jobs.start()
        write_state(worker_state.READY)
        own_files = scratch.Scratch(lake_path, clock)
        _tick(jobs, write_state, log, own_files, shutdown, is_java_alive=lambda: _java_of(spark).poll() is None)
    except Exception as exc:
        logger.exception("the worker ends")
        status, sentence = EXIT_FAILED, sentence_of(exc)
    if not shutdown.requested.is_set():
        shutdown.request_end("done")
    logger.info("ending reason=%s", shutdown.reason)
    write_state(worker_state.ENDING, sentence)
    jobs.stop()
    _end_spark_jobs(spark)
    if not jobs.wait(JOBS_END_WITHIN_S):
        logger.warning("jobs did not end in time")
    write_state(worker_state.RESTING if shutdown.is_resting else worker_state.ENDED, sentence)
    _end_java(spark)
    return status, sentence


def _tick(
    jobs: JobScheduler,
    write_state: "_StateFile",
    log: WorkerLogFile,
    own_files: scratch.Scratch,
    shutdown: Shutdown,
    *,
    is_java_alive: Callable[[], bool],
) -> None:
    while not shutdown.requested.wait(TICK_S):
        jobs.tick()
        write_state(worker_state.READY)
        log.keep_small()
        own_files.check()
        if not is_java_alive():
            raise PenstockError("Java ended by itself; worker.log may have the reason")


class _StateFile:
    """Writes worker.json: at once when the state changes, else every few seconds."""

    def __init__(self, lake_path: Path) -> None:
        self._lake_path = lake_path
        self._started_ms = time.time_ns() // 1_000_000
        self._state = ""
        self._written_s = 0.0

    def __call__(self, state: str, error: str = "") -> None:
        if state == self._state and time.monotonic() - self._written_s < STATE_EVERY_S:
            return
        self._state, self._written_s = state, time.monotonic()
        now_ms = time.time_ns() // 1_000_000
        try:
            write_worker_state(
                self._lake_path,
                WorkerState(os.getpid(), socket.gethostname(), state, self._started_ms, now_ms, error),
            )
        except OSError as exc:
            logger.warning("worker state not written error=%s", exc)


def _java_of(spark: Any) -> Any:
    """Java's process."""
    return spark.sparkContext._gateway.proc


def _end_spark_jobs(spark: Any) -> None:
    try:
        spark.sparkContext.cancelAllJobs()
    except Exception:
        logger.warning("Spark's jobs not cancelled", exc_info=True)


def _end_java(spark: Any) -> None:
    """Stop Spark and Java, and kill Java when it does not end in time."""
    java = _java_of(spark)
    try:
        spark.stop()
        spark.sparkContext._gateway.shutdown()
    except Exception:
        logger.info("Spark did not stop in order", exc_info=True)
    java.stdin.close()
    try:
        java.wait(JAVA_ENDS_WITHIN_S)
    except Exception:
        java.kill()
        java.wait()


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("penstock pipeline worker", description="Run all jobs of the data pipeline.")
    add_common_options(parser)
    add_option(parser, NICE)
    parser.add_argument(
        "--follow-stdin",
        action="store_true",
        help="take the engine's token from the first line of standard input, and end when standard input does",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
