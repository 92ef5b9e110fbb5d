"""A store whose appends complete when the test says so, as those of the commit log do after a sync."""

import sys
from collections import deque
from collections.abc import Callable, Container, Sequence

from queue_engine.storage.disk_queue.deferred import DeferredMessages
from queue_engine.storage.quarantine_stats import NO_QUARANTINE, QuarantineStats
from queue_engine.storage.store import NO_POSITIONS, EmptyResult, StorePositions
from queue_engine.vocabulary.byte_budget import ByteBudget
from queue_engine.vocabulary.clock import Clock, SystemClock
from queue_engine.vocabulary.flow.return_reason import ReturnReason
from queue_engine.vocabulary.message_id import MessageIds
from queue_engine.vocabulary.run import Batch, Run, join_runs
from queue_engine.vocabulary.ticket import DONE, Ticket, failed


class ListBacklog:
    """A channel's messages in a plain list of single runs: slow, obvious, complete."""

    def __init__(self) -> None:
        self.waiting: deque[Run] = deque()
        self.deferred = DeferredMessages(ByteBudget(1 << 30))
        self.message_count = 0
        self.sent_ids: list[bytes] = []
        self.settled_ids: list[bytes] = []

    @property
    def depth(self) -> int:
        return len(self.waiting)

    @property
    def backend_depth(self) -> int:
        return 0

    @property
    def deferred_count(self) -> int:
        return len(self.deferred)

    def accept(self, run: Run, due_ns: int | None) -> None:
        self.message_count += len(run)
        if due_ns is not None:
            self.deferred.put(run, due_ns)
        else:
            self.waiting.extend(run.slice(index, index + 1) for index in range(len(run)))

    def take(self, count_max: int, bytes_max: int) -> Run | None:
        taken: list[Run] = []
        while self.waiting and len(taken) < count_max:
            if taken and sum(len(one.frames) for one in taken) + len(self.waiting[0].frames) > bytes_max:
                break
            taken.append(self.waiting.popleft())
        return join_runs(taken) if taken else None

    def sent(self, run: Run) -> None:
        self.sent_ids += run.ids

    can_reread = False
    dropped_count = 0

    def stats_sign(self) -> None:
        return None

    def plain_counts(self) -> None:
        return None

    def quarantine_stats(self) -> QuarantineStats:
        return NO_QUARANTINE

    def set_max_attempts(self, max_attempts: int) -> None:
        pass

    def attempts_and_sizes(self, run: Run, ids: Sequence[bytes]) -> list[tuple[int, int | None]]:
        raise AssertionError("these tests ask for no messages in flight")

    def give_back(
        self,
        run: Run,
        ids: Sequence[bytes],
        *,
        counted: bool,
        due_ns: int | None = None,
        reason: ReturnReason = ReturnReason.UNKNOWN,
        consumer: str = "",
    ) -> None:
        wanted = set(ids)
        run = run.for_next_attempt(ids) if counted else run.select([i for i, x in enumerate(run.ids) if x in wanted])
        if due_ns is not None:
            self.deferred.put(run, due_ns)
        else:
            singles = [run.slice(index, index + 1) for index in range(len(run))]
            if counted:
                self.waiting.extend(singles)
            else:
                self.waiting.extendleft(reversed(singles))

    def settle(self, ids: Sequence[bytes]) -> None:
        self.settled_ids += ids

    def next_due_ns(self) -> int | None:
        return self.deferred.next_due_ns()

    def latest_due_ns(self) -> int | None:
        return self.deferred.latest_due_ns()

    def release_due(self, now_ns: int, count_max: int) -> int:
        due = self.deferred.pop_due(now_ns, count_max)
        self.waiting.extend(run for _, run in due)
        return len(due)

    def release_deferred(self, count_max: int = sys.maxsize) -> int:
        released = self.deferred.pop(count_max)
        self.waiting.extend(run for _, run in released)
        return len(released)

    def tidy(self) -> None:
        pass

    def disk_bytes(self) -> int:
        return 0

    def oldest_ns(self) -> int | None:
        return self.waiting[0].time_at(0) if self.waiting else None

    aged_by_due: Container[bytes] = ()

    def most_attempts(self) -> tuple[int, bytes]:
        return 0, b""

    def watch(self, on_fault: Callable[[str, Exception], object]) -> None:
        """Nothing happens here outside of calls."""

    def start_over(self) -> bool:
        return False

    def empty(self) -> EmptyResult:
        result = EmptyResult(len(self.waiting), len(self.deferred))
        self.waiting.clear()
        self.deferred.drain()
        return result


class DelayedStore:
    """Implements `TopicStore`: an append is visible, and its ticket done, when the test calls `complete`."""

    kind = "delayed"
    dropped_count = 0
    backend_depth = 0

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self.ids = MessageIds(self.clock, 1)
        self.pending: deque[tuple[Batch, int | None, Ticket]] = deque()
        self.held: list[tuple[Run, int | None]] = []
        self.channels: dict[str, ListBacklog] = {}
        self.is_flowing = False
        self.is_closed = False
        self.fail_next: Exception | None = None  # the next append fails at once with this

    @property
    def depth(self) -> int:
        return sum(len(run) for run, _ in self.held)

    @property
    def deferred_count(self) -> int:
        return sum(len(run) for run, due_ns in self.held if due_ns is not None)

    def deferral_cost(self, bodies: Sequence[bytes]) -> int:
        return sum(map(len, bodies))

    def make_batch(self, bodies: Sequence[bytes]) -> Batch:
        return Batch(self.clock.time_ns(), self.ids.take(len(bodies)), bodies)

    def append(self, batch: Batch, due_ns: int | None = None) -> Ticket:
        if self.fail_next is not None:
            error, self.fail_next = self.fail_next, None
            return failed(error)
        ticket = Ticket()
        self.pending.append((batch, due_ns, ticket))
        return ticket

    def complete(self, count: int = 1) -> None:
        """The oldest appends become durable."""
        for _ in range(count):
            batch, due_ns, ticket = self.pending.popleft()
            if self.is_flowing and self.channels:
                for backlog in self.channels.values():
                    backlog.accept(batch.run(), due_ns)
            else:
                self.held.append((batch.run(), due_ns))
            ticket.resolve()

    def fail(self, error: Exception) -> None:
        """The oldest append fails, and nothing of it is seen."""
        self.pending.popleft()[2].reject(error)

    def set_flowing(self, is_flowing: bool) -> None:
        self.is_flowing = is_flowing

    def pump(self, count_max: int) -> int:
        if not self.is_flowing or not self.channels:
            return 0
        moved = 0
        while self.held and moved < count_max:
            run, due_ns = self.held.pop(0)
            for backlog in self.channels.values():
                backlog.accept(run, due_ns)
            moved += len(run)
        return moved

    def plan_channel(self, name: str, start: int | None = None) -> int:
        return 0

    def unplan_channel(self, name: str) -> None:
        """Nothing was kept for it."""

    def open_channel(self, name: str, number: int = 0, start: int | None = None) -> ListBacklog:
        self.channels[name] = ListBacklog()
        return self.channels[name]

    def delete_channel(self, name: str) -> None:
        del self.channels[name]

    def synced(self) -> Ticket:
        return DONE

    def forgotten(self) -> Ticket:
        return DONE

    def positions(self) -> StorePositions:
        return NO_POSITIONS

    def disk_bytes(self) -> int:
        return 0

    def oldest_ns(self) -> int | None:
        return self.held[0][0].time_at(0) if self.held else None

    def empty(self, upto: int | None = None) -> EmptyResult:
        dropped = self.depth
        self.held.clear()
        return EmptyResult(dropped, 0)

    def delete(self) -> None:
        self.channels.clear()
        self.held.clear()

    def begin_close(self) -> None:
        self.is_closed = True

    def watch(self, on_fault: Callable[[str, Exception], object]) -> None:
        """Nothing happens here outside of calls."""

    def start_over(self) -> None:
        """Everything is where it was."""

    def close(self) -> None:
        self.is_closed = True
