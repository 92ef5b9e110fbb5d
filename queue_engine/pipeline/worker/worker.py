"""The worker: one process with one Spark session that runs all jobs of a lake, as `serve` keeps one.

    python -m queue_engine.pipeline.worker.worker [--master …] [--engine-url …] [--data-path …]

The engine's token comes from PENSTOCK_HTTP_TOKEN or, with --follow-stdin, as the first line of standard input, which is
how `serve` starts it: so the token is in no environment. Java and Spark's Python processes inherit no secrets.

It takes the lake's lock and ends, naming the holder, when another process has it. It gives way to the engine beside it:
its priority and its Java's memory are options (worker_limits.py). It ends when its standard input does (whoever started
it is gone, however that went), when its parent is another than at first, or on SIGTERM: jobs are asked to end, Java is
told, and whatever is left after four seconds, or was never ready, is killed with the process's whole group. Nothing is
lost by that: jobs are made to be killed. Exit status: 0 asked to end, 1 it could not start or go on, 3 the lake is
held.

What it has to say to who started it (why it ended, where its log is) goes to its first standard error; all else,
Java's words too, to pipeline/worker.log.
"""

import argparse
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

from queue_engine.pipeline.job.context import JobResources
from queue_engine.pipeline.job.error_sentences import sentence_of
from queue_engine.pipeline.job.reports import JobReports
from queue_engine.pipeline.jobs import (
    JOBS,
    add_common_options,
    chosen_master,
    plan_requested_replay,
    start_session,
)
from queue_engine.pipeline.lake.lake import Lake
from queue_engine.pipeline.source.log_client import LogClient
from queue_engine.pipeline.spark.secret_variables import take_token
from queue_engine.pipeline.spark.worker_limits import NICE, add_option
from queue_engine.pipeline.worker import state as worker_state
from queue_engine.pipeline.worker.jobs import WorkerJobs
from queue_engine.pipeline.worker.log import WorkerLog
from queue_engine.pipeline.worker.state import WorkerState, write_worker_state
from queue_engine.vocabulary.clock import SystemClock
from queue_engine.vocabulary.errors import LakeHeldError, PenstockError

logger = logging.getLogger(__name__)

AUTOGROUP = Path("/proc/self/autogroup")
AUTOGROUP_ATTEMPTS = 5
AUTOGROUP_AGAIN_AFTER_S = 0.15
TICK_S = 0.5
STATE_EVERY_S = 5.0
# Five seconds are promised from the end of the parent; noticing takes up to one.
KILL_AFTER_S = 3.5
JOBS_END_WITHIN_S = 1.5
JAVA_ENDS_WITHIN_S = 1.5
LOOK_AT_PARENT_S = 0.5
EXIT_FAILED = 1
EXIT_HELD = 3


class Ending:
    """Why and when the process has to end, and that it does."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.reason = ""
        self.is_ready = False  # before, there is nothing that could be ended in order
        self._parent = os.getppid()

    def watch(self, *, follows_stdin: bool) -> None:
        """From now on signals and the end of the parent end this process."""
        self.take_signals()
        threading.Thread(target=self._watch, args=(follows_stdin,), name="parent watch", daemon=True).start()

    def take_signals(self) -> None:
        """Called again after Spark has put in a handler of its own."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: self.ask(signal.Signals(number).name))

    def ask(self, reason: str) -> None:
        """End soon, in order where that is possible. Any thread."""
        if self.asked.is_set():
            return
        self.reason = reason
        self.asked.set()
        if not self.is_ready:
            kill_group(0)
        timer = threading.Timer(KILL_AFTER_S, kill_group, (EXIT_FAILED,))
        timer.daemon = True
        timer.start()

    def _watch(self, follows_stdin: bool) -> None:
        while True:
            if follows_stdin:
                readable, _, _ = select.select([0], [], [], LOOK_AT_PARENT_S)
                # Nothing follows the first line: readable means that the other end is closed.
                if readable and not os.read(0, 4096):
                    self.ask("standard input ended")
                    return
            else:
                time.sleep(LOOK_AT_PARENT_S)
            if os.getppid() != self._parent:
                self.ask("the parent process ended")
                return


def give_way(nice: int) -> None:
    """Give this process, and whatever it starts, the priority `nice`, so that the engine beside it has the cores first.

    Linux may share cores between sessions before it looks at priorities within one (autogroups), and the server starts
    the worker in a session of its own, which then gets as much as the engine's whatever its priority: so the session
    gets one, too.
    """
    os.setpriority(os.PRIO_PROCESS, 0, max(nice, os.getpriority(os.PRIO_PROCESS, 0)))
    if os.getsid(0) != os.getpid():
        return  # somebody's terminal: not ours alone
    for _ in range(AUTOGROUP_ATTEMPTS):
        try:
            AUTOGROUP.write_text(str(nice))
        except BlockingIOError:
            time.sleep(AUTOGROUP_AGAIN_AFTER_S)  # the kernel takes ten a second, of all processes together
        except OSError:
            return  # no such kernel, or none that lets us
        else:
            return


def kill_group(status: int) -> None:
    """End this process and all that it started, at once."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    # Not the leader of a group: Java sees the end of its standard input, and takes Spark's processes with it.
    os._exit(status)


def main(arguments: Sequence[str]) -> None:
    """Work until told to end, then end the process."""
    given = _parse(arguments)
    token = take_token(os.environ)
    if given.follow_stdin:
        token = _first_line(0)
    os.umask(0o077)
    # A copy of its own: descriptor 2 goes to the log, and whoever reads this one sees its end with the process.
    told = os.fdopen(os.dup(2), "w", buffering=1)
    if os.getpgrp() != os.getpid() and not os.isatty(0):
        os.setpgid(0, 0)
    give_way(given.worker_nice)
    ending = Ending()
    ending.watch(follows_stdin=given.follow_stdin)
    lake_path = Path(given.data_path).absolute() / "pipeline"
    lake = Lake(str(lake_path), clock=SystemClock())
    try:
        with lake.lock():
            log = WorkerLog(lake_path)
            logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
            logging.getLogger("py4j").setLevel(logging.WARNING)
            told.write(f"pipeline worker: process {os.getpid()}, log {log.path}\n")
            # Leaves from within: the lake is held until no thread of this process is left.
            _leave(told, *_hold(given, token, lake, lake_path, log, ending))
    except LakeHeldError as exc:
        _leave(told, EXIT_HELD, str(exc))
    except (PenstockError, OSError) as exc:
        _leave(told, EXIT_FAILED, str(exc))


def _first_line(descriptor: int) -> str:
    """What stands before the first line's end; it takes no byte more, so that the rest can be waited for."""
    line = b""
    while (byte := os.read(descriptor, 1)) not in (b"", b"\n"):
        line += byte
    return os.fsdecode(line)


def _leave(told: TextIO, status: int, sentence: str) -> NoReturn:
    """End the process without the hooks that would wait for what is killed already."""
    if sentence:
        told.write(f"pipeline worker: {sentence}\n")
    told.flush()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _hold(
    given: argparse.Namespace, token: str, lake: Lake, lake_path: Path, log: WorkerLog, ending: Ending
) -> tuple[int, str]:
    """Start the session and run the jobs until the end is asked for; exit status and what is to be said."""
    say = _StateFile(lake_path)
    say(worker_state.STARTING)
    # A killed session leaves up to a gigabyte, and earlier versions left 140 MB of Java's classes.
    for leftover in ("spark", "warehouse", "classes"):
        shutil.rmtree(lake_path / "scratch" / leftover, ignore_errors=True)
    try:
        master = chosen_master(given.master, os.environ)
        spark = start_session("penstock-worker", lake_path, master, given.worker_memory_bytes)
    except Exception as exc:
        logger.exception("no Spark session")
        sentence = f"Spark did not start: {sentence_of(exc)}"
        say(worker_state.ENDED, sentence)
        return EXIT_FAILED, sentence
    ending.take_signals()
    ending.is_ready = True
    clock = SystemClock()
    reports = JobReports(lake_path, clock)
    resources = JobResources(spark, lake, lambda: LogClient(given.engine_url, token), clock, reports, given.read_from)
    jobs = WorkerJobs(resources, JOBS, plan=plan_requested_replay)
    status, sentence = 0, ""
    try:
        jobs.start()
        say(worker_state.READY)
        _tick(jobs, say, log, ending, is_java_alive=lambda: _java_of(spark).poll() is None)
    except Exception as exc:
        logger.exception("the worker ends")
        status, sentence = EXIT_FAILED, sentence_of(exc)
    ending.ask("done")
    logger.info("ending reason=%s", ending.reason)
    say(worker_state.ENDING, sentence)
    jobs.stop()
    _end_spark_jobs(spark)
    if not jobs.wait(JOBS_END_WITHIN_S):
        logger.warning("jobs did not end in time")
    say(worker_state.ENDED, sentence)
    _end_java(spark)
    return status, sentence


def _tick(
    jobs: WorkerJobs,
    say: "_StateFile",
    log: WorkerLog,
    ending: Ending,
    *,
    is_java_alive: Callable[[], bool],
) -> None:
    while not ending.asked.wait(TICK_S):
        jobs.tick()
        say(worker_state.READY)
        log.keep_small()
        if not is_java_alive():
            raise PenstockError("Java ended by itself; worker.log may tell why")


class _StateFile:
    """worker.json: at once when the word changes, else every few seconds."""

    def __init__(self, lake_path: Path) -> None:
        self._lake_path = lake_path
        self._started_ms = time.time_ns() // 1_000_000
        self._word = ""
        self._written_s = 0.0

    def __call__(self, word: str, error: str = "") -> None:
        if word == self._word and time.monotonic() - self._written_s < STATE_EVERY_S:
            return
        self._word, self._written_s = word, time.monotonic()
        now_ms = time.time_ns() // 1_000_000
        try:
            write_worker_state(
                self._lake_path,
                WorkerState(os.getpid(), socket.gethostname(), word, self._started_ms, now_ms, error),
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
    """Tell Java to end and see that it does; the timer of the ending kills what stays."""
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
    parser = argparse.ArgumentParser("pipeline worker", description="Run all jobs of the data pipeline.")
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
