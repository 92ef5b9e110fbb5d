"""Storage kind `diskqueue`: NSQ's own. A copy of every message per channel, in memory up to a count, on disk
beyond it, in files that nsqd reads and writes too.

The promise is nsqd's: after OK a message is in memory, or written to a file that is synced later. A clean stop writes
everything to disk; kill -9 loses what was in memory, in flight or deferred.
"""

import logging
from collections import deque
from collections.abc import Callable, Container, Sequence

from queue_engine.disk_queue.backup import QueueCopy
from queue_engine.disk_queue.deferred import DeferredMessages
from queue_engine.disk_queue.due_times import DueTimes
from queue_engine.disk_queue.folder import DiskQueueFolder
from queue_engine.disk_queue.overflow_queue import OverflowQueue
from queue_engine.disk_queue.run_line import RunLine
from queue_engine.storage.most_attempts import MostAttempts
from queue_engine.storage.return_order import ReturnOrder
from queue_engine.storage.store import NO_POSITIONS, EmptyResult, StorePositions
from queue_engine.vocabulary.byte_budget import MESSAGE_COST_BYTES
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.faults import describe
from queue_engine.vocabulary.message import (
    ATTEMPTS_AT,
    FRAME_HEADER_BYTES,
    unpack_attempts,
)
from queue_engine.vocabulary.names import is_ephemeral
from queue_engine.vocabulary.run import Batch, Run, join_runs
from queue_engine.vocabulary.ticket import DONE, Ticket, all_done, failed

logger = logging.getLogger(__name__)

KIND = "diskqueue"
PUMP_BYTES_MAX = 1 << 20
# Released deferred messages are joined to runs of about this size, so that each does not cost a step of its own.
RELEASED_RUN_BYTES = 64 << 10


class DiskQueueBacklog:
    """One channel's copies. Implements `Backlog`."""

    can_reread = False  # what is taken has left the files

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
        """As `accept`, but an unexpected error is reported and stops this channel only, since other channels get the
        messages, too. They stay in memory, in their order."""
        if not self._stranded:
            try:
                self.accept(messages, due_ns)
                return
            except StorageError:
                raise
            except Exception as exc:
                self._stranded.append((messages, due_ns))
                self._on_fault("taking what was published", exc)
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
            # Some that wait go before what came back.
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
        """Nothing to note: the files know no deliveries but the attempts of what is written back."""

    def attempts_and_sizes(self, run: Run, ids: Sequence[bytes]) -> list[tuple[int, int | None]]:
        index_of = run.index()
        frames = [run.frame_at(index_of[one]) for one in ids]
        return [(unpack_attempts(one, ATTEMPTS_AT)[0], len(one) - FRAME_HEADER_BYTES) for one in frames]

    def give_back(self, run: Run, ids: Sequence[bytes], *, counted: bool, due_ns: int | None = None) -> None:
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
                # To disk; what is ephemeral is dropped and counted there when it fits in memory nowhere.
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

    def release_due(self, now_ns: int, count_max: int) -> int:
        zero_ns = self._folder.clock.time_ns() - self._folder.clock.monotonic_ns()
        due = self._deferred.pop_due(now_ns, count_max)
        self._return_joined([(zero_ns + due_ns, run) for due_ns, run in due])
        return len(due)

    def release_all_deferred(self) -> int:
        now_ns = self._folder.clock.time_ns()
        drained = self._deferred.drain()
        self._return_joined([(now_ns, run) for _, run in drained])
        return len(drained)

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


class DiskQueueStore:
    """One topic's messages. Implements `TopicStore`."""

    def __init__(self, topic_name: str, folder: DiskQueueFolder) -> None:
        self._topic_name = topic_name
        self._folder = folder
        self._queue = folder.open(topic_name)
        self.make_batch = folder.batch_maker()
        self._withheld = DeferredMessages(folder.budgets.deferred)  # deferred messages that wait for a channel
        self._channels: dict[str, DiskQueueBacklog] = {}
        self._is_flowing = False
        self._closing: list[OverflowQueue] = []
        self._dropped: dict[OverflowQueue, None] = {}  # whose dropped messages may still be on the disk

    @property
    def kind(self) -> str:
        return KIND

    @property
    def depth(self) -> int:
        return self._queue.depth + len(self._withheld)

    @property
    def backend_depth(self) -> int:
        return self._queue.backend_depth

    @property
    def deferred_count(self) -> int:
        return len(self._withheld)

    @property
    def dropped_count(self) -> int:
        return self._queue.dropped_count

    def deferral_cost(self, bodies: Sequence[bytes]) -> int:
        return sum(map(len, bodies)) + (FRAME_HEADER_BYTES + MESSAGE_COST_BYTES) * len(bodies)

    def append(self, batch: Batch, due_ns: int | None = None) -> Ticket:
        try:
            if self._is_flowing and self._channels and not self._queue.depth and not len(self._withheld):
                self._fan_out(batch, due_ns)
            elif due_ns is not None:
                self._withheld.put(batch.run(), due_ns)
            else:
                self._queue.put(batch)
        except StorageError as exc:
            return failed(exc)
        return DONE

    def _fan_out(self, messages: Batch | Run, due_ns: int | None) -> None:
        """Give messages to every channel. Raises StorageError only while no channel has them yet."""
        backlogs = list(self._channels.values())
        if len(backlogs) > 1 and due_ns is None:
            # Those that may refuse go first, the one that refused last before all.
            backlogs.sort(key=lambda backlog: (not backlog.write_failed, not backlog.needs_disk_for(messages)))
        for index, backlog in enumerate(backlogs):
            try:
                backlog.accept_somehow(messages, due_ns)
            except StorageError:
                if index == 0:
                    backlog.write_failed = True
                    raise
                # Other channels have it already, so it can't be refused any more. This channel keeps it in memory,
                # once: the next publish goes to this channel first.
                backlog.accept_in_memory(messages)

    def set_flowing(self, is_flowing: bool) -> None:
        self._is_flowing = is_flowing

    def pump(self, count_max: int) -> int:
        if not self._is_flowing or not self._channels:
            return 0
        moved = 0
        withheld = self._withheld.pop(count_max)
        try:
            for due_ns, run in withheld:
                self._fan_out(run, due_ns)
                moved += 1
        except Exception:
            for due_ns, run in withheld[moved:]:
                self._withheld.put(run, due_ns)
            raise
        bytes_left = PUMP_BYTES_MAX
        while moved < count_max and bytes_left > 0:
            taken = self._queue.take(count_max - moved, bytes_left)
            if taken is None:
                break
            bytes_left -= len(taken.frames)
            try:
                self._fan_out(taken, None)
            except Exception:
                self._queue.put_front(taken)  # some channel may get it twice, and none loses it
                raise
            moved += len(taken)
        return moved

    def plan_channel(self, name: str, start: int | None = None) -> int:
        return 0

    def unplan_channel(self, name: str) -> None:
        """Nothing to undo."""

    def open_channel(self, name: str, number: int = 0, start: int | None = None) -> DiskQueueBacklog:
        full_name = f"{self._topic_name}:{name}"
        if is_ephemeral(self._topic_name) and not is_ephemeral(name):
            full_name = f"{full_name}#ephemeral"  # nothing of an ephemeral topic touches the disk
        backlog = DiskQueueBacklog(self._folder.open(full_name), self._folder, self._note_dropped)
        self._channels[name] = backlog
        return backlog

    def delete_channel(self, name: str) -> None:
        self._channels.pop(name).delete()

    def _note_dropped(self, queue: OverflowQueue) -> None:
        """Messages of a channel were dropped. If the topic's files do not say yet that they were passed on to it, a
        start would pass them on again."""
        self._dropped[queue] = None
        self._dropped[self._queue] = None

    def synced(self) -> Ticket:
        return self.forgotten()

    def forgotten(self) -> Ticket:
        if not self._dropped:
            return DONE
        dropped, self._dropped = self._dropped, {}
        ticket = all_done([queue.durable() for queue in dropped])

        def settled(done: Ticket) -> None:
            if done.error is not None:
                self._dropped |= {queue: None for queue in dropped if not queue.is_deleted}

        ticket.when_done(settled)
        return ticket

    def positions(self) -> StorePositions:
        return NO_POSITIONS

    def disk_bytes(self) -> int:
        return self._queue.disk_bytes

    def oldest_ns(self) -> int | None:
        try:
            times = [self._queue.oldest_ns()]
        except StorageError:
            return None
        due_ns, clock = self._withheld.next_due_ns(), self._folder.clock
        if due_ns is not None and due_ns <= clock.monotonic_ns():
            times.append(clock.time_ns() - clock.monotonic_ns() + due_ns)
        return min((time_ns for time_ns in times if time_ns is not None), default=None)

    def empty(self, upto: int | None = None) -> EmptyResult:
        withheld = len(self._withheld)
        self._withheld.drain()
        dropped = self._queue.empty()
        self._dropped[self._queue] = None
        return EmptyResult(depth=dropped + withheld, deferred=0)

    def delete(self) -> None:
        for backlog in self._channels.values():
            backlog.delete()
        self._channels.clear()
        self._withheld.drain()
        self._queue.delete()
        self._dropped[self._queue] = None

    def copy(self) -> QueueCopy | None:
        """The copy for a backup of the messages that wait at the topic; None of an ephemeral topic."""
        return self._folder.copy(self._queue, [*self._queue.runs_in_memory(), *self._withheld.runs()])

    def copy_channel(self, name: str, in_flight: Sequence[Run]) -> QueueCopy | None:
        """The same of a channel. in_flight: the messages that its consumers hold."""
        return self._channels[name].copy(self._folder, in_flight)

    def begin_close(self) -> None:
        for _, run in self._withheld.drain():
            self._queue.put_in_memory(run)
        errors: list[str] = []
        self._closing = [self._queue]
        for name, backlog in self._channels.items():
            self._closing.append(backlog.queue)
            try:
                backlog.begin_close()
            except Exception as exc:
                # The other channels must be written nevertheless.
                logger.exception("channel not closed topic=%s channel=%s", self._topic_name, name)
                errors.append(f"not all of channel {self._topic_name}/{name} is kept: {describe(exc)}")
        self._folder.close_with_others(self._closing)
        if errors:
            raise StorageError("; ".join(errors))

    def let_go(self) -> None:
        """The topic is not created: close its queue, and leave files of its name as they are."""
        for queue in (self._queue, *(backlog.queue for backlog in self._channels.values())):
            self._folder.let_go(queue)

    def close(self) -> None:
        self.begin_close()
        self._folder.close_only(self._closing)

    def watch(self, on_fault: Callable[[str, Exception], object]) -> None:
        if self._queue.unread_reason is not None:
            on_fault("opening its files", self._queue.unread_reason)

    def start_over(self) -> None:
        """Open the topic's files if they could not be read before."""
        self._folder.reopen(self._queue)
