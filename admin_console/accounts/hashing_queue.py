"""A queue for hashing: one password at a time, known browsers (accounts/known_browser.py) first, at most 16 waiting.

Argon2 releases the interpreter's lock while it computes, but uses the processor and its caches. Two hashes at a time
would take them from the engine, and so would unknown browsers' hashes without a pause between them.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

WAIT_S_MAX = 4.0
# Of each kind; a hash takes some 40 ms.
WAITING_MAX = 8
# The largest part of the time that hashes for unknown browsers take, and the longest pause after one.
STRANGERS_SHARE = 0.1
PAUSE_S_MAX = 0.4


class TooBusyError(Exception):
    """Too many passwords wait to be hashed, or this one has waited too long."""


class HashingQueue:
    """First come, first served in each of two queues: known browsers, and strangers. Any thread.

    strangers_share: the largest part of the time that hashes for strangers take. At 1, no pause follows them.
    """

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self.strangers_share = STRANGERS_SHARE
        self._monotonic_s = monotonic_s
        self._changed = threading.Condition()
        self._strangers_from_s = 0.0  # no stranger's hash begins before
        self._known: deque[object] = deque()
        self._strangers: deque[object] = deque()
        self._is_taken = False

    @contextmanager
    def turn(self, *, is_known: bool, wait_s: float = WAIT_S_MAX) -> Iterator[None]:
        """Hash inside. is_known: before all strangers. Raises TooBusyError: at once where the queue is full, else after
        `wait_s`."""
        self._take(self._known if is_known else self._strangers, self._monotonic_s() + wait_s)
        began_s = self._monotonic_s()
        try:
            yield
        finally:
            with self._changed:
                self._is_taken = False
                now_s = self._monotonic_s()
                if not is_known:
                    pause_s = (now_s - began_s) * (1 - self.strangers_share) / self.strangers_share
                    self._strangers_from_s = now_s + min(pause_s, PAUSE_S_MAX)
                self._changed.notify_all()

    def _take(self, queue: deque[object], until_s: float) -> None:
        ticket = object()
        with self._changed:
            if len(queue) >= WAITING_MAX:
                raise TooBusyError
            queue.append(ticket)
            try:
                while not self._is_turn_of(ticket):
                    now_s = self._monotonic_s()
                    if now_s >= until_s:
                        raise TooBusyError
                    wake_s = self._strangers_from_s if now_s < self._strangers_from_s < until_s else until_s
                    self._changed.wait(wake_s - now_s)
                self._is_taken = True
            finally:
                queue.remove(ticket)
                self._changed.notify_all()

    def _is_turn_of(self, ticket: object) -> bool:
        if self._is_taken:
            return False
        if self._known:
            return self._known[0] is ticket
        return self._strangers[0] is ticket and self._monotonic_s() >= self._strangers_from_s


hashing = HashingQueue()
