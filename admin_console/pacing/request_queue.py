"""A queue for the interpreter: one request computes at a time; while messages flow, a pause follows each.

The engine's thread must get the interpreter's lock back from the thread that holds it. From one thread it gets it
within the switch interval; from several that pass it among themselves it does not. So requests queue before they
compute.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

# A request that takes longer waits for something, or is long: the next one begins beside it.
ALONE_S_MAX = 0.25
# After one request; a long one is not followed by a pause of the same length.
PAUSE_S_MAX = 0.1


class TurnTimeoutError(Exception):
    """The turn did not come in time."""


def thread_cpu_s() -> float:
    """CPU seconds of the calling thread."""
    return time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)


def _main_clock() -> Callable[[], float]:
    """A clock of the main thread's CPU seconds: that thread reads each request and writes its answer."""
    main = threading.main_thread().ident
    assert main is not None, "the main thread runs"
    clock = time.pthread_getcpuclockid(main)
    return lambda: time.clock_gettime(clock)


@dataclass(frozen=True, slots=True)
class Clocks:
    """All in seconds. thread_cpu_s: of the calling thread; main_cpu_s: of the main thread, which reads all requests."""

    monotonic_s: Callable[[], float]
    thread_cpu_s: Callable[[], float]
    main_cpu_s: Callable[[], float]


@dataclass(slots=True, eq=False)
class _Turn:
    called: threading.Event
    began_s: float = 0.0
    cpu_s: float = 0.0  # of its thread, when it began


class RequestQueue:
    """A queue for requests of one kind, first come, first served. Any thread."""

    def __init__(
        self, *, share: float, is_engine_busy: Callable[[], bool] = lambda: True, clocks: Clocks | None = None
    ) -> None:
        """share: the largest part of the time that these requests compute while the engine is busy."""
        self._is_engine_busy = is_engine_busy
        self._pause_per_s = (1 - share) / share
        self._clocks = clocks or Clocks(time.monotonic, thread_cpu_s, _main_clock())
        self._lock = threading.Lock()
        self._queue: deque[_Turn] = deque()
        self._running: list[_Turn] = []  # the newest last
        self._pause_ends_s = 0.0
        self._main_cpu_s = 0.0
        self._of_thread = threading.local()

    @contextmanager
    def turn(self, timeout_s: float | None = None) -> Iterator[None]:
        """Compute inside. Raises TurnTimeoutError when the turn does not come in time."""
        self._begin(timeout_s)
        try:
            yield
        finally:
            self._end()

    @contextmanager
    def away(self) -> Iterator[None]:
        """Give the turn back inside, to wait for something; others compute meanwhile. No effect without a turn."""
        if getattr(self._of_thread, "turn", None) is None:
            yield
            return
        self._end()
        try:
            yield
        finally:
            self._begin(None, goes_first=True)

    def _begin(self, timeout_s: float | None, *, goes_first: bool = False) -> None:
        clocks = self._clocks
        turn = _Turn(threading.Event())
        gives_up_s = None if timeout_s is None else clocks.monotonic_s() + timeout_s
        with self._lock:
            if goes_first:
                self._queue.appendleft(turn)
            else:
                self._queue.append(turn)
        while True:
            with self._lock:
                now_s = clocks.monotonic_s()
                wait_s = self._wait_s(now_s) if self._queue[0] is turn else None
                if wait_s is not None and wait_s <= 0:
                    self._queue.popleft()
                    turn.began_s = now_s
                    self._running.append(turn)
                    self._call_next()
                    break
                if gives_up_s is not None and now_s >= gives_up_s:
                    self._queue.remove(turn)
                    self._call_next()
                    raise TurnTimeoutError
                turn.called.clear()
            left_s = [seconds for seconds in (wait_s, gives_up_s and gives_up_s - now_s) if seconds is not None]
            turn.called.wait(min(left_s, default=None))
        turn.cpu_s = clocks.thread_cpu_s()
        self._of_thread.turn = turn

    def _end(self) -> None:
        clocks = self._clocks
        turn: _Turn = self._of_thread.turn
        self._of_thread.turn = None
        with self._lock:
            self._running.remove(turn)
            cpu_s = max(clocks.thread_cpu_s() - turn.cpu_s, 0.0)
            main_cpu_s = clocks.main_cpu_s()
            # The main thread has other work, too: at most as much of it is counted as the request itself computed.
            cpu_s += min(main_cpu_s - self._main_cpu_s, cpu_s)
            self._main_cpu_s = main_cpu_s
            pause_s = min(cpu_s * self._pause_per_s, PAUSE_S_MAX) if self._is_engine_busy() else 0.0
            self._pause_ends_s = max(self._pause_ends_s, clocks.monotonic_s() + pause_s)
            self._call_next()

    def _wait_s(self, now_s: float) -> float:
        """How long the first in the queue still waits."""
        if self._running:
            return self._running[-1].began_s + ALONE_S_MAX - now_s
        return self._pause_ends_s - now_s

    def _call_next(self) -> None:
        if self._queue:
            self._queue[0].called.set()
