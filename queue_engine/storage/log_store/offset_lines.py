"""Offsets that wait in a line, stored as ranges: a million messages that follow each other cost one entry."""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain

from queue_engine.vocabulary.byte_budget import ByteBudget
from queue_engine.vocabulary.heap_order import in_order

Range = tuple[int, int]
"""(first offset, count), the count above 0."""


class OffsetLine:
    """A line of offsets, front to back."""

    __slots__ = ("_ranges", "count")

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

    def found_in(self, wanted: Sequence[int]) -> set[int]:
        """The offsets of `wanted`, ascending, that are in the line. Costs a look at each range."""
        found = set[int]()
        for _, first, count in self._ranges_with(wanted):
            found.update(wanted[bisect_left(wanted, first) : bisect_left(wanted, first + count)])
        return found

    def _ranges_with(self, wanted: Sequence[int]) -> list[tuple[int, int, int]]:
        """(place among the ranges, first, count) of those that may have some of `wanted`."""
        # There may be a million ranges, nearly all of them single offsets that came back: a look must cost little.
        chosen = set(wanted)
        return [
            (place, *one) for place, one in enumerate(self._ranges if chosen else ()) if one[0] in chosen or one[1] > 1
        ]

    def remove(self, wanted: Sequence[int]) -> list[int]:
        """Take those of `wanted`, ascending, out of the line; returns their places in the line before that,
        ascending. Costs a look at each range."""
        places: list[int] = []
        rest: list[Range] = []
        ranges = list(self._ranges)
        at = copied = 0
        for place, first, count in self._ranges_with(wanted):
            end = first + count
            found = wanted[bisect_left(wanted, first) : bisect_left(wanted, end)]
            if not found:
                continue
            passed = ranges[copied:place]
            rest += passed
            at += sum([length for _, length in passed])
            copied = place + 1
            for offset in found:
                places.append(at + count - (end - offset))
                if offset > first:
                    rest.append((first, offset - first))
                first = offset + 1
            if first < end:
                rest.append((first, end - first))
            at += count
        if places:
            rest += ranges[copied:]
            self._ranges = deque(rest)
            self.count -= len(places)
        return places

    def clear(self) -> deque[Range]:
        """Forget all; returns the containers, for the caller to free."""
        ranges, self._ranges, self.count = self._ranges, deque(), 0
        return ranges


# Memory of a deferred offset: here, in the channel's progress and in the consume queue.
OFFSET_COST_BYTES = 256
# Entries are put into a heap one by one, unless they are more than this share of it.
_HEAPIFY_SHARE = 8


class DueOffsets:
    """Offsets by the time they are due (monotonic ns): a heap of ranges. budget: counts the memory they take."""

    __slots__ = ("_budget", "_heap", "_latest_ns", "_withdrawn", "count")

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self._heap: list[tuple[int, int, int]] = []
        self._latest_ns = 0  # of all that were put since the heap was empty
        self.count = 0
        # Withdrawn one by one: their entries stay in the heap until they are due.
        self._withdrawn: set[int] = set()

    def put(self, first: int, count: int, due_ns: int) -> None:
        if self._withdrawn and not self._withdrawn.isdisjoint(range(first, first + count)):
            self._purge()
        if due_ns > self._latest_ns or not self._heap:
            self._latest_ns = due_ns
        heappush(self._heap, (due_ns, first, count))
        self.count += count
        self._budget.add(OFFSET_COST_BYTES * count)

    def put_all(self, entries: Iterable[tuple[int, int, int]]) -> None:
        """(due_ns, first, count) of many at once: cheaper than one by one."""
        added = list(entries)
        if len(added) * _HEAPIFY_SHARE <= len(self._heap):
            for due_ns, first, count in added:
                self.put(first, count, due_ns)
            return
        self._purge()
        before = len(self._heap)
        self._heap += added
        count = sum([count for _, _, count in added])
        latest_ns = max([due_ns for due_ns, _, _ in added])
        self._latest_ns = max(latest_ns, self._latest_ns) if before else latest_ns
        self.count += count
        self._budget.add(OFFSET_COST_BYTES * count)
        heapify(self._heap)

    def withdraw(self, offset: int) -> None:
        """Take out one offset, which must be here."""
        self._withdrawn.add(offset)
        self._free(1)
        if len(self._withdrawn) > self.count:
            self._purge()

    def _purge(self) -> None:
        """Drop the entries of withdrawn offsets."""
        if self._withdrawn:
            heap = self._heap
            self._heap = [(due_ns, *part) for due_ns, first, count in heap for part in self._left_of(first, count)]
            heapify(self._heap)
            self._withdrawn.clear()

    def _left_of(self, first: int, count: int) -> list[Range]:
        """A range without its withdrawn offsets, which are forgotten."""
        withdrawn = self._withdrawn
        taken = [offset for offset in range(first, first + count) if offset in withdrawn] if withdrawn else []
        if not taken:
            return [(first, count)]
        withdrawn.difference_update(taken)
        left: list[Range] = []
        for offset in [*taken, first + count]:
            if offset > first:
                left.append((first, offset - first))
            first = offset + 1
        return left

    def earliest(self) -> Iterator[tuple[int, int]]:
        """(offset, due_ns), the earliest first; nothing moves. Each costs the logarithm of those before it."""
        withdrawn = self._withdrawn
        for due_ns, first, count in in_order(self._heap):
            yield from ((offset, due_ns) for offset in range(first, first + count) if offset not in withdrawn)

    def next_due_ns(self) -> int | None:
        heap = self._heap
        while heap and self._withdrawn and self._withdrawn.issuperset(range(heap[0][1], sum(heap[0][1:]))):
            self._withdrawn.difference_update(range(heap[0][1], sum(heap[0][1:])))
            heappop(heap)
        return heap[0][0] if heap else None

    def latest_due_ns(self) -> int | None:
        """When the latest is due, or was, if it is not deferred any more."""
        return self._latest_ns if self._heap else None

    def pop_due(self, now_ns: int, count_max: int) -> list[tuple[int, int, int]]:
        """Remove and return due ranges, earliest first, at most `count_max` offsets: (due_ns, first, count)."""
        due: list[tuple[int, int, int]] = []
        heap = self._heap
        while heap and count_max > 0 and heap[0][0] <= now_ns:
            due_ns, first, count = heappop(heap)
            taken = min(count, count_max)
            if taken < count:
                heappush(heap, (due_ns, first + taken, count - taken))
            due += [(due_ns, *part) for part in self._left_of(first, taken)]
            count_max -= taken
        self._free(sum(taken for _, _, taken in due))
        return due

    def _free(self, count: int) -> None:
        self.count -= count
        if count:
            self._budget.free(OFFSET_COST_BYTES * count)

    def clear(self) -> list[tuple[int, int, int]]:
        """Forget all; returns the containers, for the caller to free."""
        heap, self._heap = self._heap, []
        self._withdrawn = set()
        self._free(self.count)
        return heap
