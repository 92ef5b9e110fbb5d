"""Messages that wait in memory for one topic or channel, and how much memory they may take."""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass

from queue_engine.storage.disk_queue.oldest_in_line import OldestInLine
from queue_engine.vocabulary.byte_budget import MESSAGE_COST_BYTES, ByteBudget
from queue_engine.vocabulary.message import FRAME_HEADER_BYTES
from queue_engine.vocabulary.run import Batch, Run, join_runs


def cost_of(messages: Batch | Run) -> int:
    """The memory that messages take as a run, bytes."""
    count = len(messages.ids)
    if isinstance(messages, Run):
        return len(messages.frames) + MESSAGE_COST_BYTES * count
    return messages.body_bytes + (FRAME_HEADER_BYTES + MESSAGE_COST_BYTES) * count


# As `oldest_ns` of a run that joins a line: the age of each message runs from its publication.
AS_PUBLISHED = -1


def oldest_of(messages: Batch | Run) -> int:
    """The earliest publish time among them, Unix ns."""
    if isinstance(messages, Batch):
        return messages.timestamp_ns
    return messages.times().span()[0] if messages.published_ns is None else messages.published_ns


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """The limits of one line: messages, bytes, and the rest of `budget`, which all lines share."""

    count_max: int
    bytes_max: int
    budget: ByteBudget


class RunLine:
    """Runs in a line, front to back. A run counts whole until its last message is taken: it is there so long."""

    def __init__(self, limits: MemoryLimits) -> None:
        self.count = 0
        self._limits = limits
        self._bytes = 0
        self._runs: deque[Run] = deque()
        self._costs: deque[int] = deque()  # of each run
        self._head_at = 0  # messages of the first run that were taken already
        self._head_place = 0  # numbers the runs: of the first one
        self._oldest = OldestInLine()

    def __bool__(self) -> bool:
        return self.count > 0

    def __iter__(self) -> Iterator[Run]:
        """The runs, front to back; the first without its taken messages."""
        runs = iter(self._runs)
        if self._head_at:
            head = next(runs)
            yield head.slice(self._head_at, len(head))
        yield from runs

    def has_room_for(self, messages: Batch | Run) -> bool:
        """Whether they fit within the limits."""
        limits = self._limits
        cost = cost_of(messages)
        return (
            self.count + len(messages.ids) <= limits.count_max
            and self._bytes + cost <= limits.bytes_max
            and limits.budget.has_room_for(cost)
        )

    def append_if_it_fits(self, messages: Batch | Run, oldest_ns: int | None = AS_PUBLISHED) -> bool:
        """Add at the end unless that exceeds the limits; returns whether it was added. oldest_ns: as of `append`."""
        limits = self._limits
        budget = limits.budget
        count, cost = len(messages.ids), cost_of(messages)
        if (
            self.count + count > limits.count_max
            or self._bytes + cost > limits.bytes_max
            or budget.used + cost > budget.bytes_max
        ):
            return False
        run = messages if isinstance(messages, Run) else messages.run()
        if oldest_ns is not None:
            self._note_last(run, oldest_ns)
        self._runs.append(run)
        self._costs.append(cost)
        self.count += count
        self._bytes += cost
        budget.used += cost
        return True

    def count_that_fits(self, run: Run) -> int:
        """How many of its first messages fit within the limits."""
        limits = self._limits
        bytes_left = min(limits.bytes_max - self._bytes, limits.budget.bytes_max - limits.budget.used)
        ends = run.ends()
        counts = range(1, 1 + max(0, min(len(run), limits.count_max - self.count)))
        return bisect_right(counts, bytes_left, key=lambda count: ends[count - 1] + MESSAGE_COST_BYTES * count)

    def append(self, run: Run, oldest_ns: int | None = AS_PUBLISHED) -> None:
        """Add at the end, over the limits if need be. oldest_ns: the earliest time from which the age of one of its
        messages runs; None when they do not count here."""
        if oldest_ns is not None:
            self._note_last(run, oldest_ns)
        self._runs.append(run)
        self._costs.append(self._add(run))

    def _note_last(self, run: Run, oldest_ns: int) -> None:
        """`run` joins the end."""
        if oldest_ns == AS_PUBLISHED:
            oldest_ns = run.oldest_ns() if run.published_ns is None else run.published_ns
        head = self._head_place
        self._oldest.append(head + len(self._runs), oldest_ns, head)

    def prepend(self, run: Run, oldest_ns: int | None = AS_PUBLISHED) -> None:
        """Add at the front, over the limits if need be. oldest_ns: as of `append`."""
        if self._head_at:
            head = self._runs.popleft()
            rest = head.slice(self._head_at, len(head))
            self._head_at = 0
            self._runs.appendleft(rest)
            self._free(self._costs[0] - cost_of(rest))
            self._costs[0] = cost_of(rest)
        self._runs.appendleft(run)
        self._costs.appendleft(self._add(run))
        self._oldest.pass_to(self._head_place)
        self._head_place -= 1
        if oldest_ns is not None:
            self._oldest.prepend(self._head_place, run.oldest_ns() if oldest_ns == AS_PUBLISHED else oldest_ns)

    def _add(self, run: Run) -> int:
        cost = cost_of(run)
        self.count += len(run.ids)
        self._bytes += cost
        self._limits.budget.add(cost)
        return cost

    def _free(self, cost: int) -> None:
        self._bytes -= cost
        self._limits.budget.free(cost)

    def take(self, count_max: int, bytes_max: int) -> Run:
        """Remove from the front of a line that is not empty: at most `count_max` messages, at most `bytes_max` bytes of
        frames but at least one message."""
        runs = self._runs
        run = runs[0]
        count = len(run.ids)
        is_all = count == count_max or (count < count_max and len(runs) == 1)
        if is_all and not self._head_at and (len(run.frames) <= bytes_max or count == 1):
            # As mostly: one run, as it is.
            runs.popleft()
            self._head_place += 1
            self.count -= count
            self._free(self._costs.popleft())
            return run
        taken: list[Run] = []
        count_left, bytes_left = count_max, bytes_max
        while runs and count_left > 0 and (bytes_left > 0 or not taken):
            run = runs[0]
            start = self._head_at
            count = len(run) - start
            if count > count_left or start or len(run.frames) > bytes_left:
                count = min(count, count_left, run.count_within(start, bytes_left))
                if count == 0:
                    if taken:
                        break
                    count = 1
            part = run.slice(start, start + count)
            taken.append(part)
            count_left -= count
            bytes_left -= len(part.frames)
            if start + count == len(run):
                runs.popleft()
                self._head_place += 1
                self._head_at = 0
                self._free(self._costs.popleft())
            else:
                self._head_at = start + count
                break
        self.count -= count_max - count_left
        return self._joined(taken)

    def _joined(self, taken: list[Run]) -> Run:
        """The taken runs joined into one; where that fails, they stand at the front again."""
        try:
            return join_runs(taken)
        except Exception:
            for run in reversed(taken):
                self.prepend(run)
            raise

    def pop_run(self) -> Run | None:
        """Remove the first run, or the rest of it; None when the line is empty."""
        if not self._runs:
            return None
        run = self._runs.popleft()
        self._head_place += 1
        self._free(self._costs.popleft())
        if self._head_at:
            run = run.slice(self._head_at, len(run))
            self._head_at = 0
        self.count -= len(run)
        return run

    def remove(self, ids: Container[bytes], oldest_of: Callable[[Run], int | None]) -> list[int]:
        """Take out these messages, as far as they are here; returns their places in the line before that, ascending.
        oldest_of: `oldest_ns` of `append` for the rest of a run. Costs a look at all messages."""
        places: list[int] = []
        at = 0
        for run in self.drain():
            remaining = [index for index, one in enumerate(run.ids) if one not in ids]
            if len(remaining) < len(run):
                places += [at + index for index, one in enumerate(run.ids) if one in ids]
            at += len(run)
            if remaining:
                rest = run if len(remaining) == len(run) else run.select(remaining)
                self.append(rest, oldest_of(rest))
        return places

    def drain(self) -> list[Run]:
        """Remove all runs."""
        drained: list[Run] = []
        while (run := self.pop_run()) is not None:
            drained.append(run)
        return drained

    def oldest_ns(self) -> int | None:
        """The earliest time from which the age of a message in the line runs; None when none counts."""
        self._oldest.pass_to(self._head_place)
        oldest = self._oldest.first()
        if oldest is None:
            return None
        place, time_ns = oldest
        if self._head_at and place == self._head_place:
            head = self._runs[0]
            if head.published_ns is None and head.times().span()[0] == time_ns:
                # The oldest of a run of several ages may have left before the others.
                rest_ns = min(time for _, time in head.times().between(self._head_at, len(head)))
                behind_ns = self._oldest.second_ns()
                return rest_ns if behind_ns is None else min(rest_ns, behind_ns)
        return time_ns

    def clear(self) -> None:
        """Drop everything."""
        self._runs.clear()
        self._oldest.clear()
        self._costs.clear()
        self._head_at = self.count = 0
        self._free(self._bytes)
