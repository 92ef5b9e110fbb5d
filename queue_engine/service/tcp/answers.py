"""What a client is still to be told, in the order of its commands.

An answer whose ticket is not done holds back those behind it. A ticket that fails is answered with the error that
ends the connection; what was to come behind it is not said any more.
"""

from collections import deque
from collections.abc import Callable

from queue_engine.protocol import frames
from queue_engine.vocabulary.errors import ProtocolError
from queue_engine.vocabulary.ticket import DONE, Ticket

# What an answer that waits costs besides the body it answers for.
WAITING_ANSWER_BYTES = 200

_Waiting = tuple[Ticket, bytes, str, int, Callable[[], None] | None]


class Answers:
    """The answers of one connection. ready: what can be said now. waiting: what waits for its ticket, and what is
    behind that, in order.

    on_settled: called when answers that waited have become ready, or their failure has.
    """

    def __init__(self, on_settled: Callable[[], None]) -> None:
        self.ready: list[bytes] = []
        self.unsettled_bytes = 0  # of bodies whose OK is not said yet, and of the answers themselves
        self.has_failed = False  # the last answer is an error that ends the connection
        self.waiting: deque[_Waiting] = deque()
        self._awaited: Ticket | None = None
        self._on_settled = on_settled

    def add(self, frame: bytes) -> None:
        """Answer behind all that was asked before."""
        if self.waiting:
            self.waiting.append((DONE, frame, "", 0, None))
        else:
            self.ready.append(frame)

    def add_ok_when(self, ticket: Ticket, verb: str, body_bytes: int, then: Callable[[], None] | None = None) -> None:
        """Say OK to `verb` once the ticket is done, and call `then` as that becomes ready.

        Raises ProtocolError when the ticket has failed already.
        """
        if ticket.done and ticket.error is not None:
            raise failed_command(verb, ticket.error)
        cost_bytes = body_bytes + WAITING_ANSWER_BYTES
        self.waiting.append((ticket, frames.OK, verb, cost_bytes, then))
        self.unsettled_bytes += cost_bytes
        # One turn's publishes share a ticket: it is listened to once.
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
            self.ready.append(frames.error_frame(failed_command(verb, ticket.error).payload))
            waiting.clear()
            self.unsettled_bytes = 0
            self.has_failed = True
        self._on_settled()


def failed_command(verb: str, error: Exception) -> ProtocolError:
    """What a client is told of a command that could not be done; fatal, as with nsqd."""
    return ProtocolError(f"E_{verb}_FAILED", f"{verb} failed {error}")
