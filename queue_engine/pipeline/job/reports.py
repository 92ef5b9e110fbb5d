"""What jobs say of themselves on its way to the disk: as often as they like in, at most once a second out."""

import logging
import threading
from dataclasses import replace
from pathlib import Path

from queue_engine.pipeline.job.state import FAILED, JobState, write_state
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
        self._written: dict[str, tuple[JobState, int]] = {}  # what the file says, and when it was put there

    def report(self, state: JobState) -> None:
        """Take a state; a changed word reaches the disk at once, a changed figure within a second or at `flush`."""
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
        """Write what waited its second; everything that waits when there will be no other flush."""
        with self._mutex:
            now_ns = self._clock.monotonic_ns()
            for job, state in self._newest.items():
                before = self._written.get(job)
                if before is None or (before[0] != state and (is_last or now_ns - before[1] >= INTERVAL_NS)):
                    self._write(state)

    def forgive(self, job: str) -> None:
        """Forget the error of a job that is tried again, unless it has failed meanwhile."""
        with self._mutex:
            known = self._newest.get(job)
            if known is not None and known.is_in_trouble and known.state != FAILED:
                self._newest[job] = replace(known, error="")

    def newest(self, job: str) -> JobState | None:
        """The last state that was reported of a job."""
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
            # The job goes on: it is its page that lacks the news.
            logger.warning("job state not written job=%s error=%s", state.job, exc)
