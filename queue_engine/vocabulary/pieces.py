"""Work that would hold the engine for too long in one go: a generator that yields between short steps."""

import logging
from collections import deque
from collections.abc import Generator
from typing import TypeVar

from queue_engine.vocabulary.clock import NS_PER_MS, Clock
from queue_engine.vocabulary.errors import PenstockError
from queue_engine.vocabulary.next_turn import NextTurn
from queue_engine.vocabulary.ticket import Ticket, follow

logger = logging.getLogger(__name__)

# A turn begins no other step after so long.
PIECE_NS = 5 * NS_PER_MS

Result = TypeVar("Result")


def whole(steps: Generator[None, None, Result]) -> Result:
    """Run all steps at once; returns their result."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: Result = stop.value
            return result


class WorkInPieces:
    """A piece with each turn of the engine, a step of each work in turn. Belongs to the engine's thread."""

    def __init__(self, clock: Clock, next_turn: NextTurn) -> None:
        self._clock = clock
        self._next_turn = next_turn
        self._line: deque[tuple[Generator[None, None, Ticket], Ticket]] = deque()

    @property
    def has_rest(self) -> bool:
        return bool(self._line)

    def start(self, steps: Generator[None, None, Ticket]) -> Ticket:
        """Begin now. The ticket follows the one that the steps return, and is rejected with an error that they
        raise."""
        ticket = Ticket()
        self._line.append((steps, ticket))
        if len(self._line) == 1:
            self.turn()
        if self._line:
            self._next_turn.request()
        return ticket

    def turn(self) -> None:
        """Do the next steps."""
        deadline_ns = self._clock.monotonic_ns() + PIECE_NS
        while self._line:
            self._step()
            if self._clock.monotonic_ns() >= deadline_ns:
                return

    def finish(self) -> None:
        """Do all that is left: the engine stops."""
        while self._line:
            self._step()

    def _step(self) -> None:
        steps, ticket = self._line[0]
        try:
            next(steps)
        except StopIteration as stop:
            self._line.popleft()
            follow(stop.value, ticket)
        except Exception as exc:
            self._line.popleft()
            if not isinstance(exc, PenstockError):
                logger.exception("work in pieces failed")
            ticket.reject(exc)
        else:
            self._line.rotate(-1)
