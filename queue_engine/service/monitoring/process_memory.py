"""The process's memory and the collector's pauses, under the names that nsqd has for Go's."""

import gc
import resource
import sys
import time
from collections import deque
from collections.abc import Callable

_PAGE_BYTES = resource.getpagesize()
_PAUSES_KEPT = 100
COUNT_STAYS_S = 60


class CollectorPauses:
    """Measures the pauses of Python's cyclic garbage collector, and keeps the latest hundred."""

    def __init__(self) -> None:
        self._started_ns = 0
        self._pauses_ns: deque[int] = deque(maxlen=_PAUSES_KEPT)

    def watch(self) -> None:
        """Begin to measure. A process needs one instance."""
        if self._note not in gc.callbacks:
            gc.callbacks.append(self._note)

    def _note(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._started_ns = time.perf_counter_ns()
        elif self._started_ns:
            self._pauses_ns.append(time.perf_counter_ns() - self._started_ns)

    def percentile_usec(self, percent: int) -> int:
        """A percentile of the latest pauses, in microseconds; 0 when there was none."""
        pauses = sorted(self._pauses_ns)
        return pauses[max(-(-len(pauses) * percent // 100) - 1, 0)] // 1000 if pauses else 0


COLLECTOR_PAUSES = CollectorPauses()


class HeapObjects:
    """How many blocks of memory Python's objects take. Counting them looks at each page of the heap, which stops the
    engine for milliseconds where no reader has looked at them for a while: so a count stays for a minute. now_s:
    monotonic."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._count = 0
        self._counted_s: float | None = None

    def count(self, *, anew: bool = False) -> int:
        """The count of a minute ago at the most. anew: of now."""
        now_s = self._now_s()
        if anew or self._counted_s is None or now_s - self._counted_s >= COUNT_STAYS_S:
            self._count, self._counted_s = sys.getallocatedblocks(), now_s
        return self._count


_HEAP_OBJECTS = HeapObjects()


def memory_stats(*, counts_anew: bool = False) -> dict[str, int]:
    """nsqd's memory stats, as far as Python has them.

    counts_anew: whether heap_objects is counted now; else once a minute. heap_in_use_bytes is the process's resident
    memory. Python has none for idle and released memory, nor for the next collection: these are 0.
    """
    with open("/proc/self/statm", "rb") as statm:
        resident_pages = int(statm.read().split()[1])
    return {
        "heap_objects": _HEAP_OBJECTS.count(anew=counts_anew),
        "heap_idle_bytes": 0,
        "heap_in_use_bytes": resident_pages * _PAGE_BYTES,
        "heap_released_bytes": 0,
        "gc_pause_usec_100": COLLECTOR_PAUSES.percentile_usec(100),
        "gc_pause_usec_99": COLLECTOR_PAUSES.percentile_usec(99),
        "gc_pause_usec_95": COLLECTOR_PAUSES.percentile_usec(95),
        "next_gc_bytes": 0,
        "gc_total_runs": sum(generation["collections"] for generation in gc.get_stats()),
    }
