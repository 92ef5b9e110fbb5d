"""The threads for slow disk work, each with one job after the other."""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable

logger = logging.getLogger(__name__)

_Job = tuple[Callable[[], None], Callable[[Exception | None], None]]


class BackgroundThread:
    """Implements `Background`: jobs run on a thread of their own, `done` is called on the engine's loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self._is_stopped = False

    def submit(self, job: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        if self._is_stopped:
            # The thread has ended, and the stop goes on in the engine's thread.
            try:
                job()
            except Exception as exc:
                done(exc)
            else:
                done(None)
            return
        self._jobs.put((job, done))

    def _run(self) -> None:
        while (entry := self._jobs.get()) is not None:
            job, done = entry
            error: Exception | None = None
            try:
                job()
            except Exception as exc:
                error = exc
            try:
                self._loop.call_soon_threadsafe(done, error)
            except RuntimeError:
                logger.warning("disk job ended after the loop error=%s", error)

    def finish(self) -> None:
        """Run the submitted jobs, then end the thread; later jobs run in the caller's thread."""
        self._is_stopped = True
        self._jobs.put(None)
        self._thread.join()
