"""Messages that must not be delivered yet, by the time they are due (LMQ's and NSQ's deadline heap)."""

from heapq import heappop, heappush

from queue_engine.run import Run


class DeferredMessages:
    """A heap of single messages by due time; those due at the same time leave in the order they came."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Run]] = []
        self._order = 0

    def __len__(self) -> int:
        return len(self._heap)

    def put(self, run: Run, due_ns: int) -> None:
        """Defer every message of `run` until `due_ns` (monotonic)."""
        for index in range(len(run)):
            self._order += 1
            heappush(self._heap, (due_ns, self._order, run.slice(index, index + 1)))

    def next_due_ns(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ns: int, count_max: int) -> list[Run]:
        """Remove and return what is due, earliest first, at most `count_max`. O(k log n)."""
        due: list[Run] = []
        while self._heap and len(due) < count_max and self._heap[0][0] <= now_ns:
            due.append(heappop(self._heap)[2])
        return due

    def pop(self, count_max: int) -> list[tuple[int, Run]]:
        """Remove and return the earliest, due or not, at most `count_max`: (due_ns, message)."""
        count = min(count_max, len(self._heap))
        return [(due_ns, run) for due_ns, _, run in (heappop(self._heap) for _ in range(count))]

    def drain(self) -> list[tuple[int, Run]]:
        """Remove everything: (due_ns, message), earliest first."""
        drained = [(due_ns, run) for due_ns, _, run in sorted(self._heap, key=lambda entry: entry[:2])]
        self._heap.clear()
        return drained
