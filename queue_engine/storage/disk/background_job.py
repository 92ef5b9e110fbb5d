"""Slow work in steps, done once: by a background, or by the engine's thread when it can't wait any longer."""

import threading
from collections.abc import Callable, Sequence

from queue_engine.storage.disk.background import Background


class BackgroundJob:
    """Steps that a background does in order. The engine's thread may do them instead, or call them off.

    Only one thread does them; another that calls `run`, `finish` or `call_off` meanwhile waits for its end. So a stop
    needs no answer from the background, and never works beside it. steps_done: how many steps succeeded; after an error
    it is the index of the step that failed.
    """

    def __init__(
        self, *steps: Callable[[], object], then: Callable[[Exception | None], None] = lambda error: None
    ) -> None:
        """then: called once on the engine's thread when the job has ended, with its error or None; not when it was
        called off."""
        self._steps: Sequence[Callable[[], object]] | None = steps
        self._then: Callable[[Exception | None], None] | None = then
        self._lock = threading.Lock()
        self.steps_done = 0
        self.error: Exception | None = None

    @property
    def is_over(self) -> bool:
        """Done, failed or called off."""
        return self._steps is None

    def start(self, background: Background) -> None:
        """Have the background do the steps, and call `then`."""
        background.submit(self.run, self.ended)

    def ended(self, error: Exception | None) -> None:
        """Call `then`, unless it was called before or the job was called off. On the engine's thread."""
        then, self._then = self._then, None
        if then is not None:
            then(error)

    def run(self) -> None:
        """Do the steps, unless they were done or called off. Raises a step's error, also when another thread did it."""
        with self._lock:
            if self._steps is not None:
                try:
                    for step in self._steps:
                        step()
                        self.steps_done += 1
                except Exception as exc:
                    self.error = exc
                finally:
                    self._steps = None
        if self.error is not None:
            raise self.error

    def finish(self) -> Exception | None:
        """Do the steps now, or wait for their end; returns a step's error, or None. `then` is not called."""
        try:
            self.run()
        except Exception as exc:
            return exc
        return None

    def call_off(self) -> None:
        """End the job: no thread begins it from here on. A thread that is at it is waited for."""
        with self._lock:
            self._steps = self._then = None
