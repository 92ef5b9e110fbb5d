"""Storage kind `diskqueue`: NSQ's own. A copy of every message per channel, in memory up to a count, on disk
beyond it, in files that nsqd reads and writes too.

The promise is nsqd's: after OK a message is in memory, or written to a file that is synced later. A clean stop writes
everything to disk; kill -9 loses messages in memory, in flight or deferred.
"""

import logging
from collections.abc import Callable, Sequence

from queue_engine.storage.disk_queue.backup import QueueCopy
from queue_engine.storage.disk_queue.deferred import DeferredMessages
from queue_engine.storage.disk_queue.disk_queue_backlog import DiskQueueBacklog
from queue_engine.storage.disk_queue.folder import DiskQueueFolder
from queue_engine.storage.disk_queue.overflow_queue import OverflowQueue
from queue_engine.storage.store import NO_POSITIONS, EmptyResult, StorePositions
from queue_engine.vocabulary.byte_budget import MESSAGE_COST_BYTES
from queue_engine.vocabulary.errors import NoRoomError, StorageError
from queue_engine.vocabulary.faults import describe
from queue_engine.vocabulary.message import FRAME_HEADER_BYTES
from queue_engine.vocabulary.names import is_ephemeral
from queue_engine.vocabulary.run import Batch, Run
from queue_engine.vocabulary.ticket import DONE, Ticket, all_done, failed

logger = logging.getLogger(__name__)

KIND = "diskqueue"
PUMP_BYTES_MAX = 1 << 20


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
            if isinstance(exc, NoRoomError):
                self._folder.room.note_refused(exc, batch.body_bytes)
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
            except NoRoomError:
                in_memory = self._pass_on_in_memory(taken)
                if not moved + in_memory:
                    raise
                return moved + in_memory
            except Exception:
                self._queue.put_front(taken)  # some channel may get it twice, and none loses it
                raise
            moved += len(taken)
        return moved

    def _pass_on_in_memory(self, taken: Run) -> int:
        """The disk is full: give every channel as many messages as fit in its memory, and put the rest back; returns
        how many were passed on. Else a channel with hungry consumers and nothing to deliver would wait for room that
        only its own deliveries can make."""
        count = min(backlog.count_that_fits(taken) for backlog in self._channels.values())
        try:
            if count:
                self._fan_out(taken.slice(0, count), None)
        except Exception:
            self._queue.put_front(taken)
            raise
        if count < len(taken):
            self._queue.put_front(taken.slice(count, len(taken)) if count else taken)
        return count

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
                errors.append(f"not all of channel {self._topic_name}/{name} is stored: {describe(exc)}")
        self._folder.close_with_others(self._closing)
        if errors:
            raise StorageError("; ".join(errors))

    def abandon(self) -> None:
        """The topic is not created: close its queue, and leave files of its name as they are."""
        for queue in (self._queue, *(backlog.queue for backlog in self._channels.values())):
            self._folder.abandon(queue)

    def close(self) -> None:
        self.begin_close()
        self._folder.close_only(self._closing)

    def watch(self, on_fault: Callable[[str, Exception], object]) -> None:
        if self._queue.unread_reason is not None:
            on_fault("opening its files", self._queue.unread_reason)

    def start_over(self) -> None:
        """Open the topic's files if they could not be read before."""
        self._folder.reopen(self._queue)
