"""The turns of this process: while messages flow, requests have a third of the interpreter, unknown log-ins 4 %."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from admin_console.pacing.engine_load import EngineLoad
from admin_console.pacing.turns import Turns

REQUESTS_SHARE = 1 / 3
LOG_INS_SHARE = 0.04
LOG_IN_WAIT_S_MAX = 10.0


class Pace:
    """Lets requests through as they come until `serve` switches it on: only there an engine runs beside them."""

    def __init__(self) -> None:
        self.is_on = False
        self._requests = Turns(share=REQUESTS_SHARE)
        self._log_ins = Turns(share=LOG_INS_SHARE)

    def switch_on(self, engine_cpu_s: Callable[[], float]) -> None:
        """From now on. engine_cpu_s: what the engine's thread has computed, in seconds."""
        self._requests = Turns(share=REQUESTS_SHARE, is_engine_busy=EngineLoad(engine_cpu_s).is_busy)
        # A flood of them does not end with the messages.
        self._log_ins = Turns(share=LOG_INS_SHARE)
        self.is_on = True

    @contextmanager
    def turn(self, *, is_log_in: bool) -> Iterator[None]:
        """Compute an answer in here. Raises TooManyTurnsError for a log-in whose turn does not come in time."""
        with ExitStack() as stack:
            if self.is_on:
                if is_log_in:
                    stack.enter_context(self._log_ins.turn(LOG_IN_WAIT_S_MAX))
                stack.enter_context(self._requests.turn())
            yield

    @contextmanager
    def away(self) -> Iterator[None]:
        """In here a request waits, for the engine or for its turn at hashing, and others compute."""
        with self._requests.away(), self._log_ins.away():
            yield


PACE = Pace()
