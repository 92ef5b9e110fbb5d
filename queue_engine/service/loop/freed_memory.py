"""Gives freed memory back to the system.

The C library keeps memory that Python frees: after large bodies hundreds of megabytes, since it keeps blocks up to
32 MiB in one heap once such a block was freed, and shortens a heap only at its end. Here it is set to keep only blocks
up to LARGE_BLOCK_BYTES in the heap, and `malloc_trim` (10 ms for 160 MB) gives free memory back when the process has
grown. A trim at every free would cost page faults; without one the process never shrinks. Only glibc has these calls;
with other libraries nothing is done.
"""

import asyncio
import ctypes
import logging
import os
from collections.abc import Callable
from pathlib import Path

logger = logging.getLogger(__name__)

# Freed memory is to be given back within 10 s: an interval may just have begun, and the machine may be busy.
LOOK_INTERVAL_S = 4.0
# Larger blocks come from the system each time and go back at once: whole bodies and records, which are few. The
# groups that turns write are smaller.
LARGE_BLOCK_BYTES = 4 << 20
# The heap is shortened once so much is free at its end. The library's default of 128 KiB, which applies once the limit
# above is set, would shorten and lengthen it all the time.
HEAP_END_BYTES = 16 << 20
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
# With less growth than this, a trim is not worth the page faults of getting the memory again.
GROWTH_BYTES_MIN = 32 << 20
# After a trim that gave back less, the next look makes none, since most of the growth is in use. No more than one is
# left out: the free bytes are unknown, and 10 s are promised.
GIVEN_BYTES_MIN = 1 << 20


class FreedMemory:
    """Gives freed memory back while the process is larger than it was at its smallest.

    used_bytes: returns the process's anonymous memory. give_back: makes the allocator give its free memory back.
    """

    def __init__(self, used_bytes: Callable[[], int], give_back: Callable[[], object]) -> None:
        self._used_bytes = used_bytes
        self._give_back = give_back
        self._least_bytes = used_bytes()
        self._rests = False  # the next look makes no trim

    def look(self) -> None:
        """Give free memory back, if the process has grown."""
        used_bytes = self._used_bytes()
        if used_bytes - self._least_bytes >= GROWTH_BYTES_MIN and not self._rests:
            self._give_back()
            before, used_bytes = used_bytes, self._used_bytes()
            self._rests = before - used_bytes < GIVEN_BYTES_MIN
        else:
            self._rests = False
        self._least_bytes = min(self._least_bytes, used_bytes)

    async def look_once(self) -> None:
        """Wait for the interval, then look, in another thread, since a trim may take a while."""
        await asyncio.sleep(LOOK_INTERVAL_S)
        try:
            await asyncio.to_thread(self.look)
        except OSError as exc:
            logger.warning("freed memory is not given back this time: %s", exc)


def of_this_process() -> FreedMemory | None:
    """The FreedMemory of this process; None where its allocator or system has no such calls."""
    try:
        library = ctypes.CDLL(None)
        trim = library.malloc_trim
        used_bytes()
    except (AttributeError, OSError):
        return None
    library.mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
    library.mallopt(_M_TRIM_THRESHOLD, HEAP_END_BYTES)
    return FreedMemory(used_bytes, lambda: trim(ctypes.c_size_t(0)))


def used_bytes() -> int:
    """Anonymous memory of this process. Raises OSError where the system does not report it."""
    resident, shared = Path("/proc/self/statm").read_text().split()[1:3]
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")
