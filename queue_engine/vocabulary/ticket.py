"""A ticket: the promise that something will be durable enough to say OK, now or later."""

import logging
from collections.abc import Callable, Sequence

from queue_engine.vocabulary.errors import OutcomeUnknownError

logger = logging.getLogger(__name__)


class Ticket:
    """Pending until `resolve` or `reject`; settled once, for good.

    Belongs to the engine's thread: other threads settle it through the engine's loop.
    """

    __slots__ = ("_callbacks", "done", "error")

    def __init__(self) -> None:
        self.done = False
        self.error: Exception | None = None
        self._callbacks: list[Callable[[Ticket], None]] = []

    def resolve(self) -> None:
        """The promise holds."""
        self._settle(None)

    def reject(self, error: Exception) -> None:
        """The promise does not hold and will not."""
        self._settle(error)

    def _settle(self, error: Exception | None) -> None:
        assert not self.done, "a ticket is settled once"
        self.done = True
        self.error = error
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback(self)
            except Exception:
                # Other callbacks wait for this ticket, too, and its owner can't mend this one.
                logger.exception("a listener of a ticket failed callback=%r", callback)

    def when_done(self, callback: Callable[["Ticket"], None]) -> None:
        """Call `callback(ticket)` once settled: at once if it already is."""
        if self.done:
            callback(self)
        else:
            self._callbacks.append(callback)


def _settled() -> Ticket:
    ticket = Ticket()
    ticket.resolve()
    return ticket


DONE = _settled()
"""The ticket of anything that is done at once; shared, since a settled ticket never changes."""


def failed(error: Exception) -> Ticket:
    """A ticket that is already rejected."""
    ticket = Ticket()
    ticket.reject(error)
    return ticket


def follow(done: Ticket, ticket: Ticket) -> None:
    """Settle `ticket` as `done` is, now or later."""
    done.when_done(lambda settled: ticket.reject(settled.error) if settled.error else ticket.resolve())


def all_done(tickets: Sequence[Ticket]) -> Ticket:
    """Done when all of them are; rejected with the first error when all are settled."""
    left = [ticket for ticket in tickets if ticket is not DONE]
    if not left:
        return DONE
    result = Ticket()
    errors: list[Exception] = []
    count = len(left)

    def settled(ticket: Ticket) -> None:
        nonlocal count
        count -= 1
        if ticket.error is not None:
            errors.append(ticket.error)
        if not count:
            result._settle(errors[0] if errors else None)

    for ticket in left:
        ticket.when_done(settled)
    return result


def after(before: Ticket, then: Callable[[], Ticket]) -> Ticket:
    """Call `then` once `before` is done; the ticket follows its ticket. It is rejected when `before` is, or with the
    error that `then` raises, which is raised here when `before` is done already."""
    if before.done:
        return before if before.error is not None else then()
    result = Ticket()

    def settled(done: Ticket) -> None:
        if done.error is not None:
            result.reject(done.error)
            return
        try:
            next_one = then()
        except Exception as exc:
            result.reject(exc)
            return
        follow(next_one, result)

    before.when_done(settled)
    return result


def or_unknown(ticket: Ticket, event: str) -> Ticket:
    """The same ticket, but rejected with OutcomeUnknownError, since the act may have been done nevertheless."""
    if ticket.done and ticket.error is None:
        return ticket
    result = Ticket()

    def settled(done: Ticket) -> None:
        if done.error is None:
            result.resolve()
        else:
            result.reject(OutcomeUnknownError(f"outcome unknown: {event} ({done.error})"))

    ticket.when_done(settled)
    return result
