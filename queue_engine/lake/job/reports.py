"""Writes the states that jobs report: a job reports as often as it likes, its file is written at most once a second."""

import logging
import threading
from dataclasses import replace
from pathlib import Path

from queue_engine.lake.job.state import FAILED, JobState, write_state
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, Clock

logger = logging.getLogger(__name__)

INTERVAL_NS = NS_PER_S


class JobReports:
    """The newest state of each job, and its file. Any thread."""

    def __init__(self, lake_path: Path, clock: Clock) -> None:
        self._lake_path = lake_path
        self._clock = clock
        self._mutex = threading.Lock()
        self._newest: dict[str, JobState] = {}
        self._written: dict[str, tuple[JobState, int]] = {}  # the state in the file, and when it was written

    def report(self, state: JobState) -> None:
        """Take a job's state. A new `state` word is written at once, other changes within a second or by `flush`."""
        with self._mutex:
            before = self._written.get(state.job)
            self._newest[state.job] = state
            if (
                before is None
                or before[0].state != state.state
                or self._clock.monotonic_ns() - before[1] >= INTERVAL_NS
            ):
                self._write(state)

    def flush(self, *, is_last: bool = False) -> None:
        """Write the states that have waited a second; all that wait when is_last."""
        with self._mutex:
            now_ns = self._clock.monotonic_ns()
            for job, state in self._newest.items():
                before = self._written.get(job)
                if before is None or (before[0] != state and (is_last or now_ns - before[1] >= INTERVAL_NS)):
                    self._write(state)

    def clear_error(self, job: str) -> None:
        """Clear the error of a job that is tried again, unless it has failed meanwhile."""
        with self._mutex:
            newest = self._newest.get(job)
            if newest is not None and newest.is_in_trouble and newest.state != FAILED:
                self._newest[job] = replace(newest, error="")

    def forget(self, job: str) -> None:
        """Forget a job whose file is removed: it is not written again."""
        with self._mutex:
            self._newest.pop(job, None)
            self._written.pop(job, None)

    def newest(self, job: str) -> JobState | None:
        """The last state that a job reported."""
        with self._mutex:
            return self._newest.get(job)

    def now_ms(self) -> int:
        """Unix milliseconds."""
        return self._clock.time_ns() // NS_PER_MS

    def _write(self, state: JobState) -> None:
        self._written[state.job] = (state, self._clock.monotonic_ns())
        try:
            write_state(self._lake_path, state)
        except OSError as exc:
            # The job goes on; only the page shows an old state.
            logger.warning("job state not written job=%s error=%s", state.job, exc)
