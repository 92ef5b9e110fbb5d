"""Passwords are hashed one at a time; browsers that are known go first, and few wait.

Argon2 leaves the interpreter's lock alone while it computes, but not the processor: a hash beside another would take it
from the engine.
"""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

WAIT_S_MAX = 4.0
# Of each kind; a hash takes some 40 ms.
WAITING_MAX = 8


class TooBusyError(Exception):
    """Too many passwords wait to be hashed, or this one has waited too long."""


class HashingTurns:
    """Turns for hashing, first come, first served in each of two queues. Any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._known: deque[object] = deque()
        self._strangers: deque[object] = deque()
        self._is_taken = False

    @contextmanager
    def turn(self, *, is_known: bool, wait_s: float = WAIT_S_MAX) -> Iterator[None]:
        """Hold the turn. is_known: goes before all who are not. Raises TooBusyError, at once where the queue is full,
        else after `wait_s`."""
        self._take(self._known if is_known else self._strangers, wait_s)
        try:
            yield
        finally:
            with self._changed:
                self._is_taken = False
                self._changed.notify_all()

    def _take(self, queue: deque[object], wait_s: float) -> None:
        ticket = object()
        with self._changed:
            if len(queue) >= WAITING_MAX:
                raise TooBusyError
            queue.append(ticket)
            try:
                if not self._changed.wait_for(lambda: self._is_turn_of(ticket), wait_s):
                    raise TooBusyError
                self._is_taken = True
            finally:
                queue.remove(ticket)
                self._changed.notify_all()

    def _is_turn_of(self, ticket: object) -> bool:
        queue = self._known or self._strangers
        return not self._is_taken and queue[0] is ticket


hashing = HashingTurns()
