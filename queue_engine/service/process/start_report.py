"""Reports a long start: in the log, and to the service manager, so that it waits for as long as the engine works."""

import logging
import threading
import time
from collections.abc import Callable

from queue_engine.service.process.service_manager import ServiceManager

logger = logging.getLogger(__name__)

INTERVAL_S = 5.0


class StartReport:
    """Reports every five seconds, from a thread of its own: the main thread waits for the engine.

    cpu_s: the processor time of the engine's thread, in seconds. A start that uses none, because it hangs, is logged
    and not reported, and the manager ends it. where: where the start is, in a few words.
    """

    def __init__(
        self,
        manager: ServiceManager,
        cpu_s: Callable[[], float],
        where: Callable[[], str],
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._manager = manager
        self._cpu_s = cpu_s
        self._where = where
        self._interval_s = interval_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="start report", daemon=True)

    def __enter__(self) -> None:
        self._manager.starting(f"Starting: {self._where()}")
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        began_s, seen_s = time.monotonic(), 0.0
        while not self._ended.wait(self._interval_s):
            # The time makes each line another one: the log leaves out repeated lines.
            sentence = f"{self._where()} ({time.monotonic() - began_s:.0f} s)"
            logger.info("starting: %s", sentence)
            used_s = self._cpu_s()
            if used_s > seen_s:
                seen_s = used_s
                self._manager.starting(f"Starting: {sentence}")
