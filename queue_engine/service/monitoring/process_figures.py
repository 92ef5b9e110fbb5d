"""Linux's figures of this process and of the disk of its data directory."""

import os
import resource
import time
from functools import cache
from typing import NamedTuple

_PAGE_BYTES = resource.getpagesize()


class ProcessFigures(NamedTuple):
    """Figures of this process. cpu_s: of all its threads. start_s: Unix time."""

    cpu_s: float
    resident_bytes: int
    virtual_bytes: int
    open_descriptors: int
    descriptors_max: int
    start_s: float


class DiskRoom(NamedTuple):
    """One file system. free_bytes: bytes that this user may still write."""

    free_bytes: int
    size_bytes: int


def process_figures() -> ProcessFigures:
    """The present figures. Reads /proc; a directory entry for each open descriptor."""
    with open("/proc/self/statm", "rb") as statm:
        virtual_pages, resident_pages = map(int, statm.read().split()[:2])
    return ProcessFigures(
        cpu_s=time.process_time(),
        resident_bytes=resident_pages * _PAGE_BYTES,
        virtual_bytes=virtual_pages * _PAGE_BYTES,
        open_descriptors=len(os.listdir("/proc/self/fd")) - 1,  # without the one that lists them
        descriptors_max=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        start_s=_start_s(os.getpid()),
    )


def disk_room(path: str) -> DiskRoom | None:
    """The file system of `path`; None when it can't be read."""
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return DiskRoom(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)


@cache
def _start_s(pid: int) -> float:
    with open(f"/proc/{pid}/stat", "rb") as stat:
        # The name in parentheses may have spaces; the start, in ticks since the boot, is the 20th field behind it.
        ticks = int(stat.read().rpartition(b")")[2].split()[19])
    # /proc/stat has the time of the boot, too, but a service's or a container's /proc may lack it.
    booted_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return booted_s + ticks / os.sysconf("SC_CLK_TCK")
