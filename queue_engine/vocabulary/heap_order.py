"""The entries of a heap in their order, while they stay in it."""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Any, TypeVar

EntryT = TypeVar("EntryT", bound=tuple[Any, ...])


def in_order(heap: Sequence[EntryT]) -> Iterator[EntryT]:
    """The entries of a list that `heapq` keeps, the least first. Each costs the logarithm of those before it, so that
    the first of a million cost no sort. The heap must not change meanwhile.

    It goes down the tree: an entry is compared once those above it were returned.
    """
    front = [(heap[0], 0)] if heap else []
    while front:
        entry, index = heappop(front)
        for child in (2 * index + 1, 2 * index + 2):
            if child < len(heap):
                heappush(front, (heap[child], child))
        yield entry
