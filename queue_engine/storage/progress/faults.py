"""Errors of the disk that the progress journal met since the start: pages show them after the journal has recovered."""

from dataclasses import dataclass


@dataclass(slots=True)
class ProgressFaults:
    """count: errors of the disk, want of room apart. last_error: the newest. last_ns: its time, Unix; 0 for never."""

    count: int = 0
    last_error: str = ""
    last_ns: int = 0

    def note(self, error: Exception, now_ns: int) -> None:
        self.count += 1
        self.last_error = str(error)
        self.last_ns = now_ns
