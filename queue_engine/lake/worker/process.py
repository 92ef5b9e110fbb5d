"""The worker as the server sees it: a child process that is started when there is work, and ended with the server.

A thread of the server looks every two seconds whether work waits (`pending_work.py`), and starts the worker then. When
there was no work for a while (`rest.py`), the thread requests the worker's end, and looks again once it is gone: work
that came meanwhile is still there, in files or as messages before a cursor, and starts the next worker. A worker that
ends by itself is started again after a backoff of 1 s, 2 s … 5 min; a run of ten minutes resets the backoff.
`state` has the worker's last line, or the part that this machine lacks. This module imports no Spark.
"""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from queue_engine.lake.job.archive_settings import ArchiveSettings
from queue_engine.lake.spark.java import find_java
from queue_engine.lake.spark.packages import complaint_about_packages
from queue_engine.lake.spark.secret_variables import without_secrets
from queue_engine.lake.spark.worker_limits import DEFAULT, WorkerLimits
from queue_engine.lake.variables import MASTER_VARIABLE
from queue_engine.lake.worker.failing_jobs import FailingJobs
from queue_engine.lake.worker.pipes import ErrorLine, send_rest, send_token
from queue_engine.lake.worker.rest import Rest
from queue_engine.vocabulary.clock import NS_PER_S, Clock, SystemClock
from queue_engine.vocabulary.errors import JavaMissingError

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 2.0
RESTART_FIRST_S = 1.0
RESTART_MAX_S = 300.0
BACKOFF_RESET_AFTER_S = 600.0
BLOCKED_AGAIN_AFTER_S = 60.0
# The worker ends itself within four seconds; after this it is killed.
STOP_TIMEOUT_S = 4.5
# A worker that rests gets longer to end its jobs in order: nothing waits for it.
REST_TIMEOUT_S = 30.0

IDLE = "idle"  # nothing to do, none started
RUNNING = "running"
RESTING = "resting"  # it had no work for a while, and ended; it is started when there is work
WAITING = "waiting"  # died, and is started again after a while
BLOCKED = "blocked"  # something is missing on this machine
STATES = (IDLE, RUNNING, RESTING, WAITING, BLOCKED)

_ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True)
class WorkerProcessState:
    """The worker as the server sees it. word: one of the five above. problem: a sentence, or "" when all is well; the
    sentence about an end stays while the worker is started again. Times: Unix milliseconds; 0 for never."""

    word: str
    pid: int = 0
    started_ms: int = 0
    reason: str = ""  # why it was started
    problem: str = ""
    next_try_ms: int = 0
    restart_count: int = 0
    resting_since_ms: int = 0


class WorkerProcess:
    """Starts, watches and ends one worker. `start` and `stop` once, from one thread; `state` and `wake` from any."""

    def __init__(
        self,
        data_path: Path,
        engine_url: str,
        *,
        token: str,
        find_work: Callable[[], str],
        limits: WorkerLimits = DEFAULT,
        archive: ArchiveSettings | None = None,
        environment: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """find_work: returns the work that waits, "" for none; called on this object's thread every two seconds, as
        `failing` is brought up to date.
        archive: its options; None for their defaults."""
        self._data_path = data_path
        self._engine_url = engine_url
        self._find_work = find_work
        self.failing = FailingJobs(data_path / "pipeline")
        self._limits = limits
        self._archive = archive or ArchiveSettings()
        self._token = token
        self._environment = without_secrets(os.environ if environment is None else environment)
        self._clock = clock or SystemClock()
        self._end = threading.Event()
        self._alarm = threading.Event()  # set by `wake` and `stop`
        self._mutex = threading.Lock()
        self._state = WorkerProcessState(IDLE)
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._run, name="pipeline watch", daemon=True)

    @property
    def state(self) -> WorkerProcessState:
        return self._state

    @property
    def master(self) -> str:
        """Spark's master, as the environment names it; "" where the worker takes its default."""
        return self._environment.get(MASTER_VARIABLE, "")

    def start(self) -> None:
        """Start the thread that looks for work."""
        self._thread.start()

    def wake(self) -> None:
        """Look for work now, not within two seconds."""
        self._alarm.set()

    def stop(self) -> None:
        """End the worker, and kill it when it does not end in time. Returns when it and all its children are gone."""
        with self._mutex:
            self._end.set()
            self._alarm.set()
            process = self._process
        if process is not None:
            assert process.stdin is not None
            with contextlib.suppress(OSError):
                process.stdin.close()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                logger.warning("the pipeline's worker did not end in time: killed")
            _kill_group(process)
        if self._thread.is_alive():
            self._thread.join(1.0)

    # In the thread.

    def _run(self) -> None:
        wait_s = RESTART_FIRST_S
        restarts = 0
        work = ""
        while not self._end.is_set():
            # A worker that died is started again, whether its work is still there or not: it reports the fault.
            work = work or self._look()
            if not work:
                self._sleep()
                continue
            if problem := self._missing():
                self._block(problem)
                self._end.wait(BLOCKED_AGAIN_AFTER_S)
                continue
            began_ns = self._clock.monotonic_ns()
            problem = self._work(work, restarts)
            if self._end.is_set():
                return
            if not problem:
                logger.info("the pipeline's worker rests; it is started again when there is work")
                self._state = WorkerProcessState(RESTING, restart_count=restarts, resting_since_ms=self._now_ms())
                wait_s, work = RESTART_FIRST_S, ""
                continue
            if self._clock.monotonic_ns() - began_ns > BACKOFF_RESET_AFTER_S * NS_PER_S:
                wait_s = RESTART_FIRST_S
            restarts += 1
            logger.warning("the pipeline's worker ended: %s; next start in %g s", problem, wait_s)
            self._state = WorkerProcessState(
                WAITING,
                reason=work,
                problem=problem,
                next_try_ms=self._now_ms() + int(wait_s * 1000),
                restart_count=restarts,
            )
            self._end.wait(wait_s)
            wait_s = min(2 * wait_s, RESTART_MAX_S)

    def _sleep(self) -> None:
        self._alarm.wait(LOOK_EVERY_S)
        self._alarm.clear()

    def _look(self) -> str:
        try:
            self.failing.look()
            return self._find_work()
        except Exception:
            logger.exception("looking for pending work failed")
            return ""

    def _missing(self) -> str:
        """The part that this machine lacks for the worker, with the command that installs it; "" for none."""
        if complaint := complaint_about_packages():
            return complaint
        try:
            find_java(self._environment, self._data_path / "pipeline" / "scratch" / "java")
        except (JavaMissingError, OSError) as exc:
            return str(exc)
        return ""

    def _block(self, problem: str) -> None:
        if self._state.word != BLOCKED:
            logger.warning("the pipeline's worker is not started: %s", problem)
        next_try_ms = self._now_ms() + int(BLOCKED_AGAIN_AFTER_S * 1000)
        self._state = WorkerProcessState(BLOCKED, problem=problem, next_try_ms=next_try_ms)

    def _work(self, work: str, restarts: int) -> str:
        """Run the worker until it ends. Returns why it ended; "" when it rests."""
        arguments = ["--engine-url", self._engine_url, "--data-path", str(self._data_path), "--follow-stdin"]
        arguments += [*self._limits.arguments(), *self._archive.arguments()]
        with self._mutex:
            if self._end.is_set():
                return ""
            try:
                process = self._process = subprocess.Popen(  # noqa: S603 - this interpreter, and addresses of our own
                    [sys.executable, "-m", "queue_engine.lake.worker.worker", *arguments],
                    cwd=_ROOT,
                    env=self._environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",
                    # A group of its own, which is killed as a whole; and Ctrl-C in the terminal is for the server.
                    start_new_session=True,
                )
            except OSError as exc:
                return f"it could not be started: {exc}"
            send_token(process, self._token)
        logger.info("the pipeline's worker is started pid=%d because %s", process.pid, work)
        self._state = WorkerProcessState(
            RUNNING,
            pid=process.pid,
            started_ms=self._now_ms(),
            reason=work,
            problem=self._state.problem if self._state.word == WAITING else "",
            restart_count=restarts,
        )
        last_line = ErrorLine(process)
        is_resting = self._watch(process, last_line, Rest(self._clock, self._limits.rest_ms, work))
        # The process is not waited for yet, so no other process has its number, and none its group's.
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            _kill_group(process)
        status = process.wait()
        if is_resting:
            return ""
        if status < 0:
            return f"it was ended by {_signal_name(-status)}"
        if status == 0:
            return "it ended by itself"
        return (
            last_line.text.removeprefix("pipeline worker: ")
            or f"it ended with status {status}; pipeline/worker.log may have the reason"
        )

    def _watch(self, process: "subprocess.Popen[str]", last_line: ErrorLine, rest: Rest) -> bool:
        """Wait until the worker ends, and request its end when a rest is due. Returns whether that was requested."""
        kill_ns = 0
        while not last_line.wait(LOOK_EVERY_S):
            if kill_ns:
                if self._clock.monotonic_ns() >= kill_ns:
                    logger.warning("the pipeline's worker did not rest in time: killed")
                    _kill_group(process)
            elif rest.is_due(self._look()):
                kill_ns = self._clock.monotonic_ns() + int(REST_TIMEOUT_S * NS_PER_S)
                with self._mutex:
                    # A stop closes standard input; the worker then ends sooner.
                    if not self._end.is_set():
                        send_rest(process)
        return kill_ns > 0

    def _now_ms(self) -> int:
        return self._clock.time_ns() // 1_000_000


def _kill_group(process: "subprocess.Popen[str]") -> None:
    # Its children usually end with it; a Java that does not must not write into the lake beside the next worker's.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
