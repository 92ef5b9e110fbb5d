"""Runs one job of the worker in a thread of its own: tries it again after errors, stops it on request.

waiting ──► running ──► done                    the job has ended by itself
               │  ▲
               ▼  │ 5 s, 10 s, … 5 min
             failed        stopped, cancelled   an operator requested it
"""

import logging
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.job.context import JobContext, JobResources
from queue_engine.lake.job.error_sentences import is_any_of, sentence_of
from queue_engine.lake.job.state import CANCELLED, DONE, FAILED, RUNNING, STOPPED, WAITING, JobState
from queue_engine.vocabulary.clock import NS_PER_S
from queue_engine.vocabulary.errors import (
    EngineUnreachableError,
    LeaseLostError,
    PenstockError,
    StoreBusyError,
    StoreUnreachableError,
)

logger = logging.getLogger(__name__)

RETRY_FIRST_S = 5.0
RETRY_MAX_S = 300.0
# A run that fails after this time begins with the first backoff again.
BACKOFF_RESET_AFTER_NS = 300 * NS_PER_S
# The error of the last run is cleared when the next one makes progress, or has run for this time.
RECOVERED_AFTER_S = 60.0
# Errors that go away by themselves. Any other error would end the same replay again in the same way.
_PASSING = (EngineUnreachableError, LeaseLostError, StoreBusyError, StoreUnreachableError)


class JobThread:
    """Runs a job from its start to its end; each start makes a new one.

    run: does the job until it is done or context.stop is set. first_state: the state before the job reports one.
    is_retried: whether every error is followed by another try; else only those of _PASSING are.
    """

    def __init__(
        self,
        name: str,
        run: Callable[[JobContext], None],
        resources: JobResources,
        *,
        unit: str,
        first_state: str = RUNNING,
        is_retried: bool = True,
        retry_first_s: float = RETRY_FIRST_S,
    ) -> None:
        self.name = name
        self._run_job = run
        self._unit = unit
        self._first_word = first_state
        self._is_retried = is_retried
        self._resources = resources
        self._spark = resources.spark
        self._clock = resources.clock
        self._reports = resources.reports
        self._retry_first_s = retry_first_s
        self._stop = threading.Event()
        self._end_state = WAITING
        self._asked_to_stop_ns = 0
        self._is_cancelled_in_spark = False
        self._error = ""  # why the last run failed; cleared when a run has recovered
        self._began_ns = 0  # when this run began; 0 between runs
        self._done_first: int | None = None  # `done` of this run's first report
        self._thread = threading.Thread(target=self._run, name=f"job {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def request_stop(self, end_state: str) -> None:
        """Request that the job ends soon. end_state: its state then: stopped, cancelled, or waiting when the worker
        ends."""
        if not self._stop.is_set() or end_state in (STOPPED, CANCELLED):
            self._end_state = end_state
        if not self._asked_to_stop_ns:
            self._asked_to_stop_ns = self._clock.monotonic_ns()
        self._stop.set()

    def stopping_for_s(self) -> float:
        """Seconds since the request to stop, while the job still runs; 0 without a request, or when it has ended."""
        if not self._asked_to_stop_ns or not self.is_running:
            return 0.0
        return (self._clock.monotonic_ns() - self._asked_to_stop_ns) / NS_PER_S

    def cancel_in_spark(self) -> None:
        """Cancel the Spark job that this job waits for, once. A job can redo all that it has not finished."""
        if self._spark is not None and not self._is_cancelled_in_spark:
            self._is_cancelled_in_spark = True
            self._spark.sparkContext.cancelJobGroup(self.name)

    def clear_recovered_error(self) -> None:
        """Clear the last run's error when this run has gone on for RECOVERED_AFTER_S. Called twice a second."""
        began_ns = self._began_ns
        if self._error and began_ns and self._clock.monotonic_ns() - began_ns >= RECOVERED_AFTER_S * NS_PER_S:
            self._error = ""
            self._reports.clear_error(self.name)

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread's end. Returns whether it has ended."""
        self._thread.join(max(timeout_s, 0.0))
        return not self._thread.is_alive()

    # In the thread.

    def _run(self) -> None:
        if self._spark is not None:
            # A group, so that this job's Spark jobs can be cancelled; a pool, so that no job starves another.
            self._spark.sparkContext.setJobGroup(self.name, self.name)
            self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", self.name)
        wait_s = self._retry_first_s
        self._report(self._first_word, started_ms=self._reports.now_ms(), error="")
        while not self._stop.is_set():
            self._began_ns = began_ns = self._clock.monotonic_ns()
            self._done_first = None
            try:
                with closing(self._resources.make_engine()) as engine:
                    self._run_job(self._context(engine))
                if not self._stop.is_set():
                    self._report(DONE, error="")
                    return
            except Exception as exc:
                self._began_ns = 0
                if self._stop.is_set():
                    break
                if self._clock.monotonic_ns() - began_ns > BACKOFF_RESET_AFTER_NS:
                    wait_s = self._retry_first_s
                # The text of our own errors is enough; others are logged with their traceback.
                trace = None if isinstance(exc, PenstockError) else exc
                logger.warning("job failed job=%s next_try_s=%g error=%s", self.name, wait_s, exc, exc_info=trace)
                self._error = sentence_of(exc)
                is_last = not self._is_retried and not is_any_of(exc, _PASSING)
                next_try_ms = 0 if is_last else self._reports.now_ms() + int(wait_s * 1000)
                self._report(FAILED, error=self._error, rows_per_s=None, next_try_ms=next_try_ms)
                if is_last:
                    return
                if self._stop.wait(wait_s):
                    break
                wait_s = min(2 * wait_s, RETRY_MAX_S)
                self._report(self._first_word)
        self._report(self._end_state, rows_per_s=None)

    def _context(self, engine: LogClient) -> JobContext:
        return JobContext(
            spark=self._spark,
            lake=self._resources.lake,
            engine=engine,
            clock=self._clock,
            stop=self._stop,
            report=self._forward_report,
            read_from=self._resources.read_from,
            archive=self._resources.archive,
        )

    def _forward_report(self, state: JobState) -> None:
        # A job reports its progress while it stops; its state stays the one that the stop has requested.
        is_stopping = self._stop.is_set() and self._end_state != WAITING
        word = self._end_state if is_stopping else state.state
        newest = self._reports.newest(self.name)
        started_ms = state.started_ms or (newest.started_ms if newest else 0)
        now_ms = self._reports.now_ms()
        if self._done_first is None:
            self._done_first = state.done
        # The run has made progress, or nothing is left to do.
        if state.done > self._done_first or state.lag == 0 or (state.state == WAITING and not state.total):
            self._error = ""
        self._reports.report(
            replace(
                state,
                job=self.name,
                state=word,
                started_ms=started_ms,
                updated_ms=now_ms,
                error=state.error or self._error,
            )
        )

    def _report(self, word: str, **changes: Any) -> None:
        newest = self._reports.newest(self.name) or JobState(self.name, word, unit=self._unit)
        now_ms = self._reports.now_ms()
        self._reports.report(replace(newest, state=word, updated_ms=now_ms, **{"next_try_ms": 0, **changes}))
