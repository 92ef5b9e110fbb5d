"""Runs acts on one name one after the other: each begins when the one before it has taken effect or was refused.

So no act sees another half done: a channel is not created on a topic that is being deleted, and a pause and its end
keep their order. Acts on different names don't wait for each other.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from queue_engine.vocabulary.errors import PenstockError
from queue_engine.vocabulary.ticket import Ticket

logger = logging.getLogger(__name__)

Act = Callable[[], Ticket]
"""Begins an act; its ticket is done when it has taken effect. May raise PenstockError."""


class ActsInTurn:
    """The acts of one engine that are under way, by name. Belongs to the engine's thread."""

    def __init__(self) -> None:
        self._lines: dict[str, deque[tuple[Act, Ticket]]] = {}
        self._guard: Callable[[], None] | None = None

    @contextmanager
    def guarding(self, guard: Callable[[], None]) -> Iterator[None]:
        """Acts that are brought meanwhile, and have to wait, begin only when `guard` raises no PenstockError then."""
        self._guard = guard
        try:
            yield
        finally:
            self._guard = None

    def is_busy(self, name: str) -> bool:
        """Whether an act on this name is under way."""
        return name in self._lines

    def run(self, name: str, act: Act) -> Ticket:
        """Begin `act` now, or when those before it have ended. An error is raised here when it begins now; otherwise
        the ticket is rejected with it."""
        line = self._lines.get(name)
        if line is not None:
            ticket = Ticket()
            line.append((act if self._guard is None else partial(_guarded, self._guard, act), ticket))
            return ticket
        line = self._lines[name] = deque()
        try:
            begun = act()
        except BaseException:
            self._next(name)
            raise
        if begun.done:
            self._next(name)
            return begun
        # The waiters of this act run before the next act begins.
        ticket = Ticket()
        begun.when_done(partial(self._ended, name, ticket))
        return ticket

    def _next(self, name: str) -> None:
        line = self._lines[name]
        while line:
            act, ticket = line.popleft()
            try:
                begun = act()
            except Exception as exc:
                if not isinstance(exc, PenstockError):
                    logger.exception("act failed name=%s", name)
                ticket.reject(exc)
                continue
            if not begun.done:
                begun.when_done(partial(self._ended, name, ticket))
                return
            _settle(ticket, begun)
        del self._lines[name]

    def _ended(self, name: str, ticket: Ticket, done: Ticket) -> None:
        try:
            _settle(ticket, done)
        finally:
            self._next(name)


def _guarded(guard: Callable[[], None], act: Act) -> Ticket:
    guard()
    return act()


def _settle(ticket: Ticket, like: Ticket) -> None:
    if like.error is None:
        ticket.resolve()
    else:
        ticket.reject(like.error)
