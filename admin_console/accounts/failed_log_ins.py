"""How many log-ins failed since the process started, by reason."""

import threading
from collections import Counter
from enum import StrEnum


class Reason(StrEnum):
    """Why a log-in failed."""

    PASSWORD = "password"  # noqa: S105 - a word for the count: the name or the password is wrong
    THROTTLED = "throttled"  # too early after other attempts; not checked
    BUSY = "busy"  # too many passwords wait to be hashed; not checked


class FailedLogIns:
    """Counts of this process. Thread-safe."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._counts = Counter({reason.value: 0 for reason in Reason})

    def note(self, reason: Reason) -> None:
        with self._mutex:
            self._counts[reason.value] += 1

    def counts(self) -> dict[str, int]:
        """Reason → count; reasons without a failure have 0."""
        with self._mutex:
            return dict(self._counts)


FAILED_LOG_INS = FailedLogIns()
