"""Which jobs fail at each try, for the server's log and /readyz; found out by their state files."""

import logging
from pathlib import Path

from queue_engine.lake.job.state import read_states

logger = logging.getLogger(__name__)

# One that fails once goes on by itself at its next try.
TRIES = 2


class FailingJobs:
    """One thread calls `look`; any reads `sentences`."""

    def __init__(self, lake_path: Path) -> None:
        self._lake_path = lake_path
        self.seen: dict[str, tuple[int, int]] = {}  # job → the time of its next try, and how many were seen
        self._said: dict[str, str] = {}  # job → its error
        self.sentences: tuple[str, ...] = ()

    def look(self) -> None:
        """Read the states. A job counts from its second failed try on, until it has a state without an error."""
        states = read_states(self._lake_path).by_name
        failing: dict[str, str] = {}
        for name, state in sorted(states.items()):
            if not state.error or not state.next_try_ms:
                # Between two tries a job runs, with the error of the last one.
                if not state.error:
                    self.seen.pop(name, None)
                elif name in self._said:
                    failing[name] = state.error
                continue
            at_ms, tries = self.seen.get(name, (0, 0))
            if state.next_try_ms != at_ms:
                self.seen[name] = state.next_try_ms, tries + 1
            if self.seen[name][1] >= TRIES:
                failing[name] = state.error
        for name, error in failing.items():
            if self._said.get(name) != error:
                logger.warning("the job %s fails at each try: %s", name, error)
        self._said = failing
        self.sentences = tuple(f"the job {name} fails at each try: {error}" for name, error in failing.items())
