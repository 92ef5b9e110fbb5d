"""Logs the progress of a stop: each second, and at each further signal."""

import itertools
import logging
import queue
import signal
import threading
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

INTERVAL_S = 1.0


class StopReport:
    """Logs from a thread of its own: the main thread may be busy with the console or wait for the engine.

    how_far: a sentence. tell: gets it each second, before a line of the log does. Both are called on this thread.
    """

    def __init__(self, how_far: Callable[[], str], tell: Callable[[str], None]) -> None:
        self._how_far = how_far
        self._tell = tell
        # A signal's handler may run in the midst of anything, a put included: this queue allows that.
        self._signals: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._number = itertools.count()
        self._thread = threading.Thread(target=self._run, name="stop report", daemon=True)

    def start(self) -> None:
        """Wait for the first signal."""
        self._thread.start()

    def note(self, number: int) -> bool:
        """Note the signal `number`; whether it is the first. For signal handlers, which another one may interrupt
        anywhere: a single step decides which is the first."""
        is_first = next(self._number) == 0
        self._signals.put(number)
        return is_first

    def end(self) -> None:
        """End the thread: the stop is over."""
        self._signals.put(None)

    def _run(self) -> None:
        first = self._signals.get()
        if first is None:
            return
        logger.info("%s: stopping", signal.Signals(first).name)
        began_s = time.monotonic()
        self._tell(self._how_far())
        while True:
            try:
                number = self._signals.get(timeout=INTERVAL_S)
            except queue.Empty:
                how_far = self._how_far()
                self._tell(how_far)
                # The time makes each line another one: the log leaves out repeated lines.
                logger.info("stopping: %s (%.0f s)", how_far, time.monotonic() - began_s)
                continue
            if number is None:
                return
            logger.warning(
                "%s: the stop is under way and ends when everything is on disk: %s (%.1f s). Only SIGKILL ends it "
                "before that, and loses unwritten messages",
                signal.Signals(number).name,
                self._how_far(),
                time.monotonic() - began_s,
            )
