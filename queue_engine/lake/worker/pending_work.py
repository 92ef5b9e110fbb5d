"""Finds out without Spark whether the pipeline has work: the server starts a worker only then."""

import os
from collections.abc import Callable
from pathlib import Path

from queue_engine.lake.directory.lake import CONVERTING_COMMIT
from queue_engine.lake.directory.status_file import read_status_file
from queue_engine.lake.history.levels import OLD_MANIFEST, SUMMARY
from queue_engine.lake.job.requests import has_requests
from queue_engine.lake.job.state import PLAN_PREFIX, REPLAY_PREFIX, RUNNING, STOPPED, WAITING, read_states
from queue_engine.vocabulary.clock import NS_PER_S, Clock
from queue_engine.vocabulary.errors import PipelineError

# A worker is started for the history only when it lags this far behind the samples: servers that run for a moment,
# as in tests and first tries, never start a Java, and the graphs' last fifteen minutes need no history. A worker that
# runs brings the lag below this limit, two or three minutes being the least.
HISTORY_LAG_MAX_S = 300
# Samples of this server may wait longer, so that a quiet server's worker rests most of the time: the pages
# have fifteen minutes in memory, and of those three are left to start a worker and write the history.
HISTORY_GATHER_S = 720
HISTORY_IS_BEHIND = "the history is behind"
SUMMARY_BYTES_MAX = 1 << 12


class PendingWork:
    """Reads the lake's small files and the engine's newest stats. One thread calls it, every few seconds.

    archive_depth: returns how many messages wait for the cursors named `archive`. has_samples: returns whether the
    engine writes samples.
    """

    def __init__(
        self, lake_path: Path, clock: Clock, *, archive_depth: Callable[[], int], has_samples: Callable[[], bool]
    ) -> None:
        self._lake_path = lake_path
        self._clock = clock
        self._archive_depth = archive_depth
        self._has_samples = has_samples
        self._began_ns = clock.monotonic_ns()
        self._history_lag_max_s = HISTORY_LAG_MAX_S

    def find(self) -> str:
        """The work that waits, in words; "" when there is none."""
        if has_requests(self._lake_path):
            return "a request waits"
        states = read_states(self._lake_path).by_name
        replays = [
            state
            for state in states.values()
            if state.job.startswith((REPLAY_PREFIX, PLAN_PREFIX)) and state.state in (WAITING, RUNNING)
        ]
        if replays:
            return f"{replays[0].job} has not ended"
        compact = states.get("compact")
        if compact is not None and compact.state == RUNNING:
            return "the job compact has not ended"
        stopped = {state.job for state in states.values() if state.state == STOPPED}
        if "archive" not in stopped and self._archive_depth():
            return "messages wait to be archived"
        rollup = states.get("rollup")
        # A history of before there were tables waits for the operator once the job has reported it.
        is_said = rollup is not None and CONVERTING_COMMIT in rollup.error
        waits_for_operator = is_said and os.path.lexists(self._lake_path / OLD_MANIFEST) and not self._has_summary()
        if "rollup" not in stopped and not waits_for_operator and self._is_history_late():
            return HISTORY_IS_BEHIND
        return ""

    def _is_history_late(self) -> bool:
        up_s = (self._clock.monotonic_ns() - self._began_ns) / NS_PER_S
        if up_s < HISTORY_LAG_MAX_S or not self._has_samples():
            return False
        lag_s = self._clock.time_ns() / NS_PER_S - self._history_end_s()
        if lag_s > self._history_lag_max_s:
            # From now on it is late until a worker has brought it up to date.
            self._history_lag_max_s = HISTORY_LAG_MAX_S
            return True
        # By now this server runs for longer than that: samples that are not written are in the memory of the pages.
        if lag_s <= HISTORY_LAG_MAX_S:
            self._history_lag_max_s = HISTORY_GATHER_S
        return False

    def _has_summary(self) -> bool:
        return (self._lake_path / SUMMARY).exists()

    def _history_end_s(self) -> float:
        """0 when there is none: the job writes it when it starts."""
        try:
            found = read_status_file(self._lake_path / SUMMARY, SUMMARY_BYTES_MAX).get("end_s")
        except (FileNotFoundError, PipelineError):
            return 0
        return found if isinstance(found, int | float) else 0
