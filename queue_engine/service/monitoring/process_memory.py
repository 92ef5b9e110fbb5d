"""The process's memory and the collector's pauses, under the names that nsqd has for Go's."""

import gc
import resource
import sys
import time
from collections import deque

_PAGE_BYTES = resource.getpagesize()
_PAUSES_KEPT = 100


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


def memory_stats() -> dict[str, int]:
    """nsqd's memory stats, as far as Python has them.

    heap_in_use_bytes is the process's resident memory. Python has none for idle and released memory, nor for the
    next collection: these are 0.
    """
    with open("/proc/self/statm", "rb") as statm:
        resident_pages = int(statm.read().split()[1])
    return {
        "heap_objects": sys.getallocatedblocks(),
        "heap_idle_bytes": 0,
        "heap_in_use_bytes": resident_pages * _PAGE_BYTES,
        "heap_released_bytes": 0,
        "gc_pause_usec_100": COLLECTOR_PAUSES.percentile_usec(100),
        "gc_pause_usec_99": COLLECTOR_PAUSES.percentile_usec(99),
        "gc_pause_usec_95": COLLECTOR_PAUSES.percentile_usec(95),
        "next_gc_bytes": 0,
        "gc_total_runs": sum(generation["collections"] for generation in gc.get_stats()),
    }
