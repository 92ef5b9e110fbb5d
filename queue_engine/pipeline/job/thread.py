"""One job of the worker in a thread of its own: run, tried again after errors, ended when asked.

waiting ──► running ──► done                    it came to an end by itself
               │  ▲
               ▼  │ 5 s, 10 s, … 5 min
             failed        stopped, cancelled   a person asked for it
"""

import logging
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from queue_engine.pipeline.job.context import JobContext, JobResources
from queue_engine.pipeline.job.error_sentences import sentence_of
from queue_engine.pipeline.job.state import CANCELLED, DONE, FAILED, RUNNING, STOPPED, WAITING, JobState
from queue_engine.vocabulary.clock import NS_PER_S
from queue_engine.vocabulary.errors import EngineUnreachableError, LeaseLostError, PenstockError

if TYPE_CHECKING:
    from queue_engine.pipeline.source.log_client import LogClient

logger = logging.getLogger(__name__)

RETRY_FIRST_S = 5.0
RETRY_MAX_S = 300.0
# A run that went well for so long has nothing to do with the failures before it.
FORGIVEN_AFTER_NS = 300 * NS_PER_S
# A run that has failed before and goes on for so long, or comes further, has got over it.
RECOVERED_AFTER_S = 60.0
# What goes away by itself. Anything else says the same of the same replay every time.
_PASSING = (EngineUnreachableError, LeaseLostError)


class JobThread:
    """A job from its start to its end; made anew for each start.

    run: does the job until it is done or context.stop is set. first_word: its state before it says one itself.
    is_retried: after any error; else only while the engine is not there.
    """

    def __init__(
        self,
        name: str,
        run: Callable[[JobContext], None],
        resources: JobResources,
        *,
        unit: str,
        first_word: str = RUNNING,
        is_retried: bool = True,
        retry_first_s: float = RETRY_FIRST_S,
    ) -> None:
        self.name = name
        self._run_job = run
        self._unit = unit
        self._first_word = first_word
        self._is_retried = is_retried
        self._resources = resources
        self._spark = resources.spark
        self._clock = resources.clock
        self._reports = resources.reports
        self._retry_first_s = retry_first_s
        self._stop = threading.Event()
        self._word_of_stop = WAITING
        self._asked_to_stop_ns = 0
        self._is_cancelled_in_spark = False
        self._trouble = ""  # why the last run failed, until one gets over it
        self._began_ns = 0  # the run that is now; 0 between runs
        self._done_first: int | None = None  # where it stood at its first report
        self._thread = threading.Thread(target=self._run, name=f"job {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def ask_to_stop(self, word: str) -> None:
        """Have it end soon. word: the state it is then in: stopped or cancelled, or waiting when the worker ends."""
        if not self._stop.is_set() or word in (STOPPED, CANCELLED):
            self._word_of_stop = word
        if not self._asked_to_stop_ns:
            self._asked_to_stop_ns = self._clock.monotonic_ns()
        self._stop.set()

    def stopping_for_s(self) -> float:
        """For how long it has been asked to stop without having done so; 0 when it was not, or has."""
        if not self._asked_to_stop_ns or not self.is_running:
            return 0.0
        return (self._clock.monotonic_ns() - self._asked_to_stop_ns) / NS_PER_S

    def cancel_in_spark(self) -> None:
        """Take away the Spark job that it waits for. Does so once; whatever a job has not finished, it can redo."""
        if self._spark is not None and not self._is_cancelled_in_spark:
            self._is_cancelled_in_spark = True
            self._spark.sparkContext.cancelJobGroup(self.name)

    def look_after(self) -> None:
        """Forget why the last run failed once this one has gone on for a while. To be called now and then."""
        began_ns = self._began_ns
        if self._trouble and began_ns and self._clock.monotonic_ns() - began_ns >= RECOVERED_AFTER_S * NS_PER_S:
            self._trouble = ""
            self._reports.forgive(self.name)

    def join(self, timeout_s: float) -> bool:
        """Wait for its end; whether it came."""
        self._thread.join(max(timeout_s, 0.0))
        return not self._thread.is_alive()

    # In the thread.

    def _run(self) -> None:
        if self._spark is not None:
            # A group, so that it can be cancelled alone; a pool, so that no job starves another.
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
                if self._clock.monotonic_ns() - began_ns > FORGIVEN_AFTER_NS:
                    wait_s = self._retry_first_s
                # Our own errors say all there is to say.
                trace = None if isinstance(exc, PenstockError) else exc
                logger.warning("job failed job=%s next_try_s=%g error=%s", self.name, wait_s, exc, exc_info=trace)
                self._trouble = sentence_of(exc)
                is_last = not self._is_retried and not isinstance(exc, _PASSING)
                next_try_ms = 0 if is_last else self._reports.now_ms() + int(wait_s * 1000)
                self._report(FAILED, error=self._trouble, rows_per_s=None, next_try_ms=next_try_ms)
                if is_last:
                    return
                if self._stop.wait(wait_s):
                    break
                wait_s = min(2 * wait_s, RETRY_MAX_S)
                self._report(self._first_word)
        self._report(self._word_of_stop, rows_per_s=None)

    def _context(self, engine: "LogClient") -> JobContext:
        return JobContext(
            spark=self._spark,
            lake=self._resources.lake,
            engine=engine,
            clock=self._clock,
            stop=self._stop,
            report=self._take_report,
            read_from=self._resources.read_from,
        )

    def _take_report(self, state: JobState) -> None:
        # A job tells of its progress; that somebody stopped it is known here, and is not taken back.
        is_told = self._stop.is_set() and self._word_of_stop != WAITING
        word = self._word_of_stop if is_told else state.state
        known = self._reports.newest(self.name)
        started_ms = state.started_ms or (known.started_ms if known else 0)
        now_ms = self._reports.now_ms()
        if self._done_first is None:
            self._done_first = state.done
        # It came further, or there is nothing left to do.
        if state.done > self._done_first or state.lag == 0 or (state.state == WAITING and not state.total):
            self._trouble = ""
        self._reports.report(
            replace(
                state,
                job=self.name,
                state=word,
                started_ms=started_ms,
                updated_ms=now_ms,
                error=state.error or self._trouble,
            )
        )

    def _report(self, word: str, **changes: Any) -> None:
        known = self._reports.newest(self.name) or JobState(self.name, word, unit=self._unit)
        now_ms = self._reports.now_ms()
        self._reports.report(replace(known, state=word, updated_ms=now_ms, **{"next_try_ms": 0, **changes}))
