"""What was freed goes back to the system.

The C library keeps what Python frees for the next time: after large bodies that is hundreds of megabytes, since it
keeps blocks up to 32 MiB in one heap once it has seen such freed, and shortens a heap at its end alone. So it is told
to keep only blocks up to LARGE_BLOCK_BYTES there, and to give back what is free (`malloc_trim`, 10 ms for 160 MB) when
the process has become larger than it was. Asked for at every free it would cost page faults; never asked, the process
stays as large as it ever was. Only glibc has these calls; elsewhere nothing is done.
"""

import asyncio
import ctypes
import logging
import os
from collections.abc import Callable
from pathlib import Path

logger = logging.getLogger(__name__)

# What is no longer needed is to be gone within 10 s: an interval may just have begun, and the machine may be busy.
LOOK_INTERVAL_S = 4.0
# Blocks above it come from the system each time and go back at once: whole bodies and records, which are few. What
# turns write together is smaller.
LARGE_BLOCK_BYTES = 4 << 20
# A heap is shortened once so much is free at its end; the library's own 128 KiB, which stand as soon as the above is
# set, would have it shortened and lengthened all the time.
HEAP_END_BYTES = 16 << 20
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
# Below that much above the least, giving back is not worth the page faults of getting it again.
GROWTH_BYTES_MIN = 32 << 20
# What is in use can't be given back: after a try that gave back less, every other look goes by without one. No more
# go by, since what is free can't be told from what is not, and 10 s are promised.
GIVEN_BYTES_MIN = 1 << 20


class FreedMemory:
    """Has freed memory given back while the process is larger than at its least.

    used_bytes: the process' anonymous memory. give_back: makes the allocator let go of what is free.
    """

    def __init__(self, used_bytes: Callable[[], int], give_back: Callable[[], object]) -> None:
        self._used_bytes = used_bytes
        self._give_back = give_back
        self._least_bytes = used_bytes()
        self._rests = False  # the next look goes by

    def look(self) -> None:
        """Give back what is free, if the process has grown."""
        used_bytes = self._used_bytes()
        if used_bytes - self._least_bytes >= GROWTH_BYTES_MIN and not self._rests:
            self._give_back()
            before, used_bytes = used_bytes, self._used_bytes()
            self._rests = before - used_bytes < GIVEN_BYTES_MIN
        else:
            self._rests = False
        self._least_bytes = min(self._least_bytes, used_bytes)

    async def look_once(self) -> None:
        """Wait a moment, and look; in another thread, since the allocator may take a while."""
        await asyncio.sleep(LOOK_INTERVAL_S)
        try:
            await asyncio.to_thread(self.look)
        except OSError as exc:
            logger.warning("freed memory is not given back this time: %s", exc)


def of_this_process() -> FreedMemory | None:
    """For this process; None where its allocator or system can't do it."""
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
    """Anonymous memory of this process. Raises OSError where the system does not tell."""
    resident, shared = Path("/proc/self/statm").read_text().split()[1:3]
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")
