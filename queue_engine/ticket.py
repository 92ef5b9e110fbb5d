"""A ticket: the promise that something will be durable enough to say OK, now or later."""

from collections.abc import Callable, Iterable


class Ticket:
    """Pending until `resolve` or `reject`; settled once, for good.

    Belongs to the engine's thread: whoever settles it from elsewhere comes through the engine's loop.
    """

    __slots__ = ("_callbacks", "done", "error")

    def __init__(self) -> None:
        self.done = False
        self.error: Exception | None = None
        self._callbacks: list[Callable[[Ticket], None]] = []

    def resolve(self) -> None:
        """What was promised holds."""
        self._settle(None)

    def reject(self, error: Exception) -> None:
        """What was promised does not hold and will not."""
        self._settle(error)

    def _settle(self, error: Exception | None) -> None:
        assert not self.done, "a ticket is settled once"
        self.done = True
        self.error = error
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

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
"""The ticket of whatever needs no waiting; shared, since a settled ticket never changes."""


def failed(error: Exception) -> Ticket:
    """A ticket that is already rejected."""
    ticket = Ticket()
    ticket.reject(error)
    return ticket


def all_of(tickets: Iterable[Ticket]) -> Ticket:
    """Done when all are done; rejected with the first error among them, once all are settled."""
    waiting = [ticket for ticket in tickets if not (ticket.done and ticket.error is None)]
    if not waiting:
        return DONE
    if len(waiting) == 1:
        return waiting[0]
    result = Ticket()
    left = len(waiting)

    def one_settled(_: Ticket) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            error = next((ticket.error for ticket in waiting if ticket.error is not None), None)
            if error is None:
                result.resolve()
            else:
                result.reject(error)

    for ticket in waiting:
        ticket.when_done(one_settled)
    return result
