"""Offsets that wait in a line, kept as ranges: a million messages that follow each other cost one entry."""

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import chain

from queue_engine.vocabulary.byte_budget import ByteBudget

Range = tuple[int, int]
"""(first offset, count), the count above 0."""


class OffsetLine:
    """A line of offsets, front to back."""

    def __init__(self) -> None:
        self._ranges: deque[Range] = deque()
        self.count = 0

    def __bool__(self) -> bool:
        return self.count > 0

    def append(self, first: int, count: int) -> None:
        """Add behind all others."""
        ranges = self._ranges
        if ranges and sum(ranges[-1]) == first:
            ranges[-1] = (ranges[-1][0], ranges[-1][1] + count)
        else:
            ranges.append((first, count))
        self.count += count

    def prepend(self, first: int, count: int) -> None:
        """Add before all others."""
        self._ranges.appendleft((first, count))
        self.count += count

    def first(self) -> Range:
        """The range in front. The line must not be empty."""
        return self._ranges[0]

    def drop(self, count: int) -> None:
        """Remove `count` offsets from the range in front, which has at least so many."""
        first, length = self._ranges[0]
        assert 0 < count <= length
        if count == length:
            self._ranges.popleft()
        else:
            self._ranges[0] = (first + count, length - count)
        self.count -= count

    def offsets(self) -> Iterator[int]:
        """All offsets, front to back."""
        return chain.from_iterable(range(first, first + count) for first, count in self._ranges)

    def clear(self) -> None:
        self._ranges.clear()
        self.count = 0


# Memory of a deferred offset: here, in the channel's progress and in the consume queue.
OFFSET_COST_BYTES = 256


class DueOffsets:
    """Offsets by the time they are due (monotonic ns): a heap of ranges. budget: counts the memory they take."""

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self._heap: list[tuple[int, int, int]] = []
        self._latest_ns = 0  # of all that were put since the heap was empty
        self.count = 0

    def put(self, first: int, count: int, due_ns: int) -> None:
        if due_ns > self._latest_ns or not self._heap:
            self._latest_ns = due_ns
        heappush(self._heap, (due_ns, first, count))
        self.count += count
        self._budget.add(OFFSET_COST_BYTES * count)

    def put_all(self, entries: Iterable[tuple[int, int, int]]) -> None:
        """(due_ns, first, count) of many at once: cheaper than one by one."""
        before = len(self._heap)
        self._heap += entries
        added = self._heap[before:]
        count = sum([count for _, _, count in added])
        latest_ns = max([due_ns for due_ns, _, _ in added], default=0)
        self._latest_ns = max(latest_ns, self._latest_ns) if before else latest_ns
        self.count += count
        self._budget.add(OFFSET_COST_BYTES * count)
        heapify(self._heap)

    def next_due_ns(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def latest_due_ns(self) -> int | None:
        """When the latest is due, or was, if it is not deferred any more."""
        return self._latest_ns if self._heap else None

    def pop_due(self, now_ns: int, count_max: int) -> list[tuple[int, int, int]]:
        """Remove and return what is due, earliest first, at most `count_max` offsets: (due_ns, first, count)."""
        due: list[tuple[int, int, int]] = []
        heap = self._heap
        while heap and count_max > 0 and heap[0][0] <= now_ns:
            due_ns, first, count = heappop(heap)
            taken = min(count, count_max)
            if taken < count:
                heappush(heap, (due_ns, first + taken, count - taken))
            due.append((due_ns, first, taken))
            count_max -= taken
        self._free(sum(taken for _, _, taken in due))
        return due

    def _free(self, count: int) -> None:
        self.count -= count
        if count:
            self._budget.free(OFFSET_COST_BYTES * count)

    def drain(self) -> list[Range]:
        """Remove everything, earliest first."""
        drained = [(first, count) for _, first, count in sorted(self._heap)]
        self._heap.clear()
        self._free(self.count)
        return drained
