"""The processes that have not ended, as /proc shows them."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_THREADS_AT = 17  # in /proc/PID/stat, counted from the state on


@dataclass(frozen=True, slots=True)
class LiveProcess:
    """A process, its group and its session."""

    pid: int
    group: int
    session: int


def live_processes() -> Iterator[LiveProcess]:
    """All of the machine."""
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (found := live_process(int(entry))):
            yield found


def live_process(pid: int) -> LiveProcess | None:
    """None once it has ended, also while nobody has asked after it."""
    try:
        # Behind the name, which may have any character: state, parent, group, session.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # A process whose first thread has ended is shown as a zombie while its other threads still end. Until the last one
    # has, its files are open and its locks are held.
    if fields[0] in "ZX" and int(fields[_THREADS_AT]) <= 1:
        return None
    return LiveProcess(pid, int(fields[2]), int(fields[3]))
