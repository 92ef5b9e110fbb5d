"""Decides when a worker that has no work ends, to give its memory back."""

from queue_engine.lake.worker.pending_work import HISTORY_IS_BEHIND
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, Clock

# The history is the only work of a quiet server, every ten minutes or so, and once it is written no more of it comes
# soon. A worker that ran for it alone does not wait for other work as long as one to which people or publishers came.
HISTORY_REST_S = 30


class Rest:
    """How long one worker has had no work. One thread calls it, every few seconds."""

    def __init__(self, clock: Clock, rest_ms: int, work: str) -> None:
        """rest_ms: how long the worker waits for work; 0: it never ends. work: why it was started."""
        self._clock = clock
        self._rest_ns = rest_ms * NS_PER_MS
        self._is_for_history_alone = work == HISTORY_IS_BEHIND
        self._worked_ns = clock.monotonic_ns()

    def is_due(self, work: str) -> bool:
        """Whether the worker should end now. work: the work that waits at this moment, "" for none."""
        now_ns = self._clock.monotonic_ns()
        if work:
            self._worked_ns = now_ns
            self._is_for_history_alone = self._is_for_history_alone and work == HISTORY_IS_BEHIND
        if not self._rest_ns:
            return False
        wait_ns = min(self._rest_ns, HISTORY_REST_S * NS_PER_S) if self._is_for_history_alone else self._rest_ns
        return now_ns - self._worked_ns >= wait_ns
