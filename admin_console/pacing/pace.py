"""The queues of this process: while messages flow, requests get a third of the interpreter, unknown log-ins 4 %."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from admin_console.pacing.request_queue import RequestQueue

REQUESTS_SHARE = 1 / 3
LOG_INS_SHARE = 0.04
LOG_IN_WAIT_S_MAX = 10.0
# Of a core. An idle engine takes about a hundredth.
BUSY_SHARE = 0.05
LOOK_EVERY_S = 0.05
# The engine counts as busy between two bursts, and while requests keep it from the interpreter.
BUSY_FOR_S = 1.0


class EngineLoad:
    """Whether the engine is busy, without waiting, by the last measurement. Called by one thread at a time."""

    def __init__(self, engine_cpu_s: Callable[[], float], monotonic_s: Callable[[], float] = time.monotonic) -> None:
        """engine_cpu_s: the CPU seconds of the engine's thread."""
        self._engine_cpu_s = engine_cpu_s
        self._monotonic_s = monotonic_s
        self._looked_at_s = monotonic_s()
        self._cpu_s = engine_cpu_s()
        self._busy_until_s = 0.0

    def is_busy(self) -> bool:
        now_s = self._monotonic_s()
        elapsed_s = now_s - self._looked_at_s
        if elapsed_s >= LOOK_EVERY_S:
            cpu_s = self._engine_cpu_s()
            if cpu_s - self._cpu_s > BUSY_SHARE * elapsed_s:
                self._busy_until_s = now_s + BUSY_FOR_S
            self._looked_at_s, self._cpu_s = now_s, cpu_s
        return now_s < self._busy_until_s


class Pace:
    """A queue of all requests, and one before it for log-ins of unknown browsers. Off until `serve` runs an engine."""

    def __init__(self) -> None:
        self.is_on = False
        self._requests = RequestQueue(share=REQUESTS_SHARE)
        self._log_ins = RequestQueue(share=LOG_INS_SHARE)

    def switch_on(self, engine_cpu_s: Callable[[], float]) -> None:
        """Pace requests from now on. engine_cpu_s: the CPU seconds of the engine's thread."""
        self._requests = RequestQueue(share=REQUESTS_SHARE, is_engine_busy=EngineLoad(engine_cpu_s).is_busy)
        # A flood of log-ins is paced whether messages flow or not.
        self._log_ins = RequestQueue(share=LOG_INS_SHARE)
        self.is_on = True

    @contextmanager
    def turn(self, *, is_log_in: bool) -> Iterator[None]:
        """Compute an answer in here. Raises TurnTimeoutError for a log-in whose turn does not come in time."""
        with ExitStack() as stack:
            if self.is_on:
                if is_log_in:
                    stack.enter_context(self._log_ins.turn(LOG_IN_WAIT_S_MAX))
                stack.enter_context(self._requests.turn())
            yield

    @contextmanager
    def away(self) -> Iterator[None]:
        """Give the turn back while the request waits, for the engine or for the hashing queue: others compute."""
        with self._requests.away(), self._log_ins.away():
            yield


PACE = Pace()
