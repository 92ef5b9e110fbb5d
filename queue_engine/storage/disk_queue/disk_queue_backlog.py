"""The backlog of one channel of a `diskqueue` topic: its own copy of each message."""

import logging
import sys
from collections import deque
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

from queue_engine.storage.disk_queue.backup import QueueCopy
from queue_engine.storage.disk_queue.deferred import DeferredMessages
from queue_engine.storage.disk_queue.due_times import DueTimes
from queue_engine.storage.disk_queue.folder import DiskQueueFolder
from queue_engine.storage.disk_queue.overflow_queue import OverflowQueue
from queue_engine.storage.disk_queue.run_line import RunLine
from queue_engine.storage.most_attempts import MostAttempts
from queue_engine.storage.quarantine_stats import NO_QUARANTINE, QuarantineStats
from queue_engine.storage.return_order import ReturnOrder
from queue_engine.storage.store import EmptyResult, PlainCounts
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.flow.return_reason import ReturnReason
from queue_engine.vocabulary.message import (
    ATTEMPTS_AT,
    FRAME_HEADER_BYTES,
    unpack_attempts,
)
from queue_engine.vocabulary.run import Batch, Run, join_runs

logger = logging.getLogger(__name__)

# Released deferred messages are joined to runs of about this size, so that each does not cost a step of its own.
RELEASED_RUN_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class MemoryMessages:
    """A channel's unfinished messages that are in memory and that no consumer holds."""

    unsent: RunLine
    returned: RunLine
    order: ReturnOrder
    queue: OverflowQueue
    deferred: DeferredMessages
    due_times: DueTimes


class DiskQueueBacklog:
    """One channel's copies. Implements `Backlog`."""

    can_reread = False  # taken messages have left the files

    def __init__(
        self, queue: OverflowQueue, folder: DiskQueueFolder, note_dropped: Callable[[OverflowQueue], None]
    ) -> None:
        """note_dropped: called when the channel's messages were dropped, with its queue."""
        limits = folder.limits  # also of messages that came back and wait in memory
        self._folder = folder
        self._queue = queue
        # Given back: the unsent at the very front, the redeliveries in a line of their own.
        self._note_dropped = note_dropped
        self._unsent = RunLine(limits)
        self._returned = RunLine(limits)
        self._order = ReturnOrder(limits.count_max)
        self._deferred = DeferredMessages(folder.budgets.deferred)
        self._due_times = DueTimes()
        self._attempts: MostAttempts[bytes] = MostAttempts()
        self.message_count = 0
        self.write_failed = False
        self._on_fault: Callable[[str, Exception], object] = lambda doing, error: None
        # Messages of the topic that could not be put anywhere, and all behind them: they wait for `start_over`.
        self._stranded: deque[tuple[Batch | Run, int | None]] = deque()

    @property
    def depth(self) -> int:
        return self._queue.depth + self._unsent.count + self._returned.count

    @property
    def backend_depth(self) -> int:
        return self._queue.backend_depth

    @property
    def deferred_count(self) -> int:
        return len(self._deferred)

    @property
    def dropped_count(self) -> int:
        return self._queue.dropped_count

    def needs_disk_for(self, messages: Batch | Run) -> bool:
        """Whether these messages would be written to disk at once."""
        return not self._queue.has_room_in_memory(messages)

    def count_that_fits(self, run: Run) -> int:
        """How many of its first messages would stay in memory."""
        return self._queue.count_that_fits(run)

    def accept(self, messages: Batch | Run, due_ns: int | None = None) -> None:
        """Take the topic's messages. Raises StorageError, with nothing taken, when the disk refuses."""
        if due_ns is not None:
            self._deferred.put(messages if isinstance(messages, Run) else messages.run(), due_ns)
        else:
            self._queue.put(messages)
            self.write_failed = False
        self.message_count += len(messages.ids)

    def accept_in_memory(self, messages: Batch | Run) -> None:
        """Take the topic's messages over the memory limit, because the disk just refused them. Never fails."""
        self._queue.put_in_memory(messages)
        self.write_failed = True
        self.message_count += len(messages)

    def accept_somehow(self, messages: Batch | Run, due_ns: int | None) -> None:
        """As `accept`, but reports an unexpected error, which stops this channel alone: other channels get the
        messages, too. The messages stay in memory, in their order."""
        if not self._stranded:
            try:
                self.accept(messages, due_ns)
                return
            except StorageError:
                raise
            except Exception as exc:
                self._stranded.append((messages, due_ns))
                self._on_fault("taking published messages", exc)
                return
        self._stranded.append((messages, due_ns))

    def watch(self, on_fault: Callable[[str, Exception], object]) -> None:
        self._on_fault = on_fault
        if self._queue.unread_reason is not None:
            on_fault("opening its files", self._queue.unread_reason)

    def start_over(self) -> bool:
        self._folder.reopen(self._queue)
        while self._stranded:
            self.accept(*self._stranded[0])
            self._stranded.popleft()
        return False

    def take(self, count_max: int, bytes_max: int) -> Run | None:
        if self._unsent:
            return self._unsent.take(count_max, bytes_max)
        if self._returned:
            if self._queue.depth == 0:
                return self._take_returned(count_max, bytes_max)
            due_count = self._order.due_count()
            if due_count:
                return self._take_returned(min(due_count, count_max), bytes_max)
            # Some waiting messages go before the returned ones.
            count_max = min(self._order.ahead_count(), count_max)
        run = self._queue.take(count_max, bytes_max)
        if run is not None:
            self._count_taken(run, self._order.took_waiting)
        elif self._returned:
            # The messages that were counted on disk are unreadable: send those that came back.
            return self._take_returned(count_max, bytes_max)
        return run

    def _take_returned(self, count_max: int, bytes_max: int) -> Run:
        run = self._returned.take(count_max, bytes_max)
        self._count_taken(run, self._order.took_returned)
        return run

    def _count_taken(self, run: Run, count: Callable[[int], None]) -> None:
        try:
            count(len(run))
        except Exception:
            self._unsent.prepend(run)  # this call returns no run
            raise

    def sent(self, run: Run) -> None:
        """Nothing to note: the files have no deliveries but the attempts of messages that are written back."""

    def attempts_and_sizes(self, run: Run, ids: Sequence[bytes]) -> list[tuple[int, int | None]]:
        index_of = run.index()
        frames = [run.frame_at(index_of[one]) for one in ids]
        return [(unpack_attempts(one, ATTEMPTS_AT)[0], len(one) - FRAME_HEADER_BYTES) for one in frames]

    def stats_sign(self) -> None:
        return None  # all of it is in memory, and as cheap as a sign

    def plain_counts(self) -> PlainCounts | None:
        queue = self._queue
        # With nothing given back or deferred all that waits is in the queue, and ages as it was published.
        if self._unsent or self._returned or len(self._deferred) or self._due_times.since or not queue.is_readable:
            return None
        depth, backend_depth, disk_bytes = queue.figures()
        oldest_ns = queue.oldest_ns() if depth else None
        return depth, backend_depth, self.message_count, oldest_ns, disk_bytes, NO_QUARANTINE

    def quarantine_stats(self) -> QuarantineStats:
        return NO_QUARANTINE  # nsqd's files can't say so

    def set_max_attempts(self, max_attempts: int) -> None:
        pass

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
        if counted:
            run = run.for_next_attempt(ids)
        elif len(ids) != len(run):
            wanted = set(ids)
            run = run.select([index for index, one in enumerate(run.ids) if one in wanted])
        if counted:
            self._note_attempts(run)
        if due_ns is not None:
            self._due_times.forget(run.ids)
            self._deferred.put(run, due_ns)
        elif counted:
            self._return(run)
        else:
            self._unsent.prepend(run, self._due_times.oldest_of_others(run))

    def _note_attempts(self, run: Run) -> None:
        """Those of a run for its next delivery."""
        start = 0
        for message_id, end in zip(run.ids, run.ends(), strict=True):
            self._attempts.note(message_id, unpack_attempts(run.frames, start + ATTEMPTS_AT)[0] - 1)
            start = end

    def _return(self, run: Run) -> None:
        oldest_ns = self._due_times.oldest_of_others(run)
        if not self._returned.has_room_for(run):
            try:
                # To disk; an ephemeral queue drops and counts messages that do not fit in memory.
                self._queue.put(run, oldest_ns)
                return
            except StorageError:
                # It was taken out of the queue, so it can't be refused: it stays in memory.
                self.write_failed = True
        self._order.came_back(len(run), self._queue.depth)
        self._returned.append(run, oldest_ns)

    def settle(self, ids: Sequence[bytes]) -> None:
        """Forget due times and attempts of finished messages; they left the files when they were taken."""
        if self._due_times.since:
            self._due_times.forget(ids)
        if self._attempts.made:
            self._attempts.forget(ids)

    def next_due_ns(self) -> int | None:
        return self._deferred.next_due_ns()

    def latest_due_ns(self) -> int | None:
        return self._deferred.latest_due_ns()

    def release_due(self, now_ns: int, count_max: int) -> int:
        zero_ns = self._folder.clock.time_ns() - self._folder.clock.monotonic_ns()
        due = self._deferred.pop_due(now_ns, count_max)
        self._return_joined([(zero_ns + due_ns, run) for due_ns, run in due])
        return len(due)

    def release_deferred(self, count_max: int = sys.maxsize) -> int:
        now_ns = self._folder.clock.time_ns()
        released = self._deferred.pop(count_max)
        self._return_joined([(now_ns, run) for _, run in released])
        return len(released)

    def _return_joined(self, due: list[tuple[int, Run]]) -> None:
        """Let messages wait that are due, each with the time since when, Unix ns."""
        group: list[Run] = []
        group_bytes = 0
        for due_ns, run in due:
            self._due_times.note(run.ids, due_ns)
            group.append(run)
            group_bytes += len(run.frames)
            if group_bytes >= RELEASED_RUN_BYTES:
                self._return(join_runs(group))
                group, group_bytes = [], 0
        if group:
            self._return(join_runs(group))

    def finish_in_memory(self, ids: Container[bytes]) -> None:
        """Finish messages that wait in memory or are deferred."""
        oldest_of = self._due_times.oldest_of_others
        if self._unsent:
            self._unsent.remove(ids, oldest_of)
        if self._returned:
            self._order.left(self._returned.remove(ids, oldest_of))
        self._queue.remove_from_memory(ids, oldest_of)
        self._deferred.remove(ids)

    def release(self, ids: Container[bytes]) -> int:
        """Let deferred messages wait like the others now; returns how many."""
        now_ns = self._folder.clock.time_ns()
        removed = self._deferred.remove(ids)
        self._return_joined([(now_ns, run) for _, run in removed])
        return len(removed)

    @property
    def places(self) -> MemoryMessages:
        return MemoryMessages(self._unsent, self._returned, self._order, self._queue, self._deferred, self._due_times)

    def tidy(self) -> None:
        self._queue.tidy()

    def disk_bytes(self) -> int:
        return self._queue.disk_bytes

    def oldest_ns(self) -> int | None:
        lines = (self._due_times, self._unsent, self._returned, self._queue)
        return min((time_ns for line in lines if (time_ns := line.oldest_ns()) is not None), default=None)

    @property
    def aged_by_due(self) -> Container[bytes]:
        return self._due_times

    def most_attempts(self) -> tuple[int, bytes]:
        most = self._attempts.most()
        return (0, b"") if most is None else (most[1], most[0])

    def empty(self) -> EmptyResult:
        deferred, beside = len(self._deferred), self._unsent.count + self._returned.count
        self._forget()
        dropped = self._queue.empty()
        self._note_dropped(self._queue)
        return EmptyResult(depth=beside + dropped, deferred=deferred)

    def _forget(self) -> None:
        """Drop all but the queue itself."""
        self._deferred.drain()
        self._due_times.forget_all()
        self._attempts.forget_all()
        self._stranded.clear()
        self._unsent.clear()
        self._returned.clear()
        self._order.clear()

    def delete(self) -> None:
        """Drop everything, files included."""
        self._forget()
        self._queue.delete()
        self._note_dropped(self._queue)

    @property
    def queue(self) -> OverflowQueue:
        """The messages that wait."""
        return self._queue

    def copy(self, folder: DiskQueueFolder, in_flight: Sequence[Run]) -> QueueCopy | None:
        """The copy for a backup, as a clean stop would leave the channel; None of an ephemeral one."""
        runs = [*self._unsent, *self._returned, *in_flight, *self._deferred.runs(), *self._queue.runs_in_memory()]
        runs += [messages if isinstance(messages, Run) else messages.run() for messages, _ in self._stranded]
        return folder.copy(self._queue, runs)

    def begin_close(self) -> None:
        """Move everything into the queue, which is closed next. Its files have no due times: deferred messages come at
        once after a restart, as with nsqd."""
        for messages, _ in self._stranded:
            self._queue.put_in_memory(messages)
        self._stranded.clear()
        for _, run in self._deferred.drain():
            self._returned.append(run)
        for run in reversed([*self._unsent.drain(), *self._returned.drain()]):
            self._queue.put_front(run)
        self._order.clear()
