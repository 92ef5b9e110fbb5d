"""Work that is done once, by whoever comes first: the background, or the engine when it can't wait any longer."""

import threading
from collections.abc import Callable


class Errand:
    """A job for `Background` that the engine's thread may do, or call off, itself.

    Whoever comes second waits for the end of the first. So a stop needs no answer of a thread, and never works
    beside it.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work: Callable[[], None] | None = work
        self._lock = threading.Lock()
        self.error: Exception | None = None

    @property
    def is_over(self) -> bool:
        """Done, failed or called off."""
        return self._work is None

    def run(self) -> None:
        """Do the work unless that has happened. Raises what the work raised, whoever did it."""
        with self._lock:
            if self._work is not None:
                try:
                    self._work()
                except Exception as exc:
                    self.error = exc
                finally:
                    self._work = None
        if self.error is not None:
            raise self.error

    def finish(self) -> Exception | None:
        """Do the work now, or wait for its end; returns what it raised."""
        try:
            self.run()
        except Exception as exc:
            return exc
        return None

    def call_off(self) -> None:
        """From here on nobody does it; when somebody is at it, wait for the end."""
        with self._lock:
            self._work = None
