"""Deferred messages, by the time they are due (LMQ's and NSQ's deadline heap)."""

from collections.abc import Container, Iterable, Iterator
from heapq import heapify, heappop, heappush

from queue_engine.storage.disk_queue.run_line import cost_of
from queue_engine.vocabulary.byte_budget import ByteBudget
from queue_engine.vocabulary.heap_order import in_order
from queue_engine.vocabulary.run import Run


class DeferredMessages:
    """A heap of single messages by due time; those due at the same time leave in the order they came."""

    def __init__(self, budget: ByteBudget) -> None:
        """budget: counts the memory they take."""
        self._budget = budget
        self._heap: list[tuple[int, int, Run]] = []
        self._order = 0
        self._latest_ns = 0  # of all that were put since the heap was empty

    def __len__(self) -> int:
        return len(self._heap)

    def put(self, run: Run, due_ns: int) -> None:
        """Defer every message of `run` until `due_ns` (monotonic)."""
        self._budget.add(cost_of(run))
        if due_ns > self._latest_ns or not self._heap:
            self._latest_ns = due_ns
        for index in range(len(run)):
            self._order += 1
            heappush(self._heap, (due_ns, self._order, run.slice(index, index + 1)))

    def next_due_ns(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def latest_due_ns(self) -> int | None:
        """When the latest is due, or was, if it is not deferred any more."""
        return self._latest_ns if self._heap else None

    def pop_due(self, now_ns: int, count_max: int) -> list[tuple[int, Run]]:
        """Remove and return due messages, earliest first, at most `count_max`: (due_ns, message). O(k log n)."""
        due: list[tuple[int, Run]] = []
        while self._heap and len(due) < count_max and self._heap[0][0] <= now_ns:
            due_ns, _, run = heappop(self._heap)
            due.append((due_ns, run))
        self._free(run for _, run in due)
        return due

    def _free(self, runs: Iterable[Run]) -> None:
        cost = sum(map(cost_of, runs))
        if cost:
            self._budget.free(cost)

    def pop(self, count_max: int) -> list[tuple[int, Run]]:
        """Remove and return the earliest, due or not, at most `count_max`: (due_ns, message)."""
        count = min(count_max, len(self._heap))
        earliest = [(due_ns, run) for due_ns, _, run in (heappop(self._heap) for _ in range(count))]
        self._free(run for _, run in earliest)
        return earliest

    def earliest(self) -> Iterator[tuple[int, Run]]:
        """(due_ns, message), the earliest first; they stay here. Each costs the logarithm of those before it."""
        return ((due_ns, run) for due_ns, _, run in in_order(self._heap))

    def remove(self, ids: Container[bytes]) -> list[tuple[int, Run]]:
        """Remove and return these messages, as far as they are here: (due_ns, message). Costs a look at all."""
        removed = [(due_ns, run) for due_ns, _, run in self._heap if run.ids[0] in ids]
        if removed:
            self._heap = [entry for entry in self._heap if entry[2].ids[0] not in ids]
            heapify(self._heap)
            self._free(run for _, run in removed)
        return removed

    def runs(self) -> list[Run]:
        """All messages, earliest first; they stay here."""
        return [run for _, _, run in sorted(self._heap, key=lambda entry: entry[:2])]

    def drain(self) -> list[tuple[int, Run]]:
        """Remove everything: (due_ns, message), earliest first."""
        drained = [(due_ns, run) for due_ns, _, run in sorted(self._heap, key=lambda entry: entry[:2])]
        self._heap.clear()
        self._free(run for _, run in drained)
        return drained
