"""The answers that a client still waits for, in the order of its commands.

An answer whose ticket is not done holds back those behind it. A failed ticket is answered with an error that ends the
connection; answers behind it are dropped.
"""

from collections import deque
from collections.abc import Callable

from queue_engine.vocabulary.errors import ProtocolError
from queue_engine.vocabulary.ticket import DONE, Ticket
from queue_engine.wire.protocol import frames

# Memory of a waiting answer, beside the body that it answers.
WAITING_ANSWER_BYTES = 200

_Waiting = tuple[Ticket, bytes, str, int, Callable[[], None] | None]


class Answers:
    """The answers of one connection. ready: those that can leave now. waiting: those that wait for a ticket, and those
    behind them, in order.

    on_settled: called when waiting answers have become ready, errors included. on_refused: called with each error that
    answers a command whose ticket failed.
    """

    def __init__(self, on_settled: Callable[[], None], on_refused: Callable[[ProtocolError], None]) -> None:
        self.ready: list[bytes] = []
        self.unsettled_bytes = 0  # of bodies that wait for their OK, and of the answers themselves
        self.has_failed = False  # the last answer is an error that ends the connection
        self.waiting: deque[_Waiting] = deque()
        self._awaited: Ticket | None = None
        self._on_settled = on_settled
        self._on_refused = on_refused

    def add(self, frame: bytes, then: Callable[[], None] | None = None) -> None:
        """Answer, behind the answers to earlier commands. then: called when it is ready, with all before it."""
        if self.waiting:
            self.waiting.append((DONE, frame, "", 0, then))
            return
        self.ready.append(frame)
        if then is not None:
            then()

    def add_ok_when(self, ticket: Ticket, verb: str, body_bytes: int, then: Callable[[], None] | None = None) -> None:
        """Answer OK to `verb` once the ticket is done, and call `then` when the OK is ready.

        Raises ProtocolError when the ticket has failed already.
        """
        if ticket.done and ticket.error is not None:
            raise failed_command(verb, ticket.error)
        cost_bytes = body_bytes + WAITING_ANSWER_BYTES
        self.waiting.append((ticket, frames.OK, verb, cost_bytes, then))
        self.unsettled_bytes += cost_bytes
        # One turn's publishes share a ticket: one callback is enough.
        if ticket is not self._awaited or ticket.done:
            self._awaited = ticket
            ticket.when_done(self._settle)

    def _settle(self, _: Ticket) -> None:
        waiting = self.waiting
        while waiting and waiting[0][0].done:
            ticket, frame, verb, cost_bytes, then = waiting.popleft()
            self.unsettled_bytes -= cost_bytes
            if ticket.error is None:
                self.ready.append(frame)
                if then is not None:
                    then()
                continue
            error = failed_command(verb, ticket.error)
            self._on_refused(error)
            self.ready.append(frames.error_frame(error.payload))
            waiting.clear()
            self.unsettled_bytes = 0
            self.has_failed = True
        self._on_settled()


def failed_command(verb: str, error: Exception, *, fatal: bool = True) -> ProtocolError:
    """The error frame's error for a command that failed; fatal, as with nsqd. Its cause is `error`."""
    failure = ProtocolError(f"E_{verb}_FAILED", f"{verb} failed {error}", fatal=fatal)
    failure.__cause__ = error
    return failure
