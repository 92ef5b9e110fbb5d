"""The turns of this process: all requests have half of the interpreter, log-ins of strangers a tenth of it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from admin_console.pacing.turns import Turns

REQUESTS_SHARE = 0.5
LOG_INS_SHARE = 0.1
LOG_IN_WAIT_S_MAX = 10.0


class Pace:
    """Lets requests through as they come until `serve` switches it on: only there an engine runs beside them."""

    def __init__(self) -> None:
        self.is_on = False
        self._requests = Turns(share=REQUESTS_SHARE)
        self._log_ins = Turns(share=LOG_INS_SHARE)

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
