"""All disk queues of one data directory: makes them, and syncs those that were used when it is time."""

import logging
import os
from collections import deque
from collections.abc import Callable, Generator, Sequence
from functools import partial

from queue_engine.storage.disk.background import Background, InlineBackground
from queue_engine.storage.disk.descriptor_cache import IDLE_INTERVAL_NS
from queue_engine.storage.disk.directory_syncs import DirectorySyncs
from queue_engine.storage.disk.files import Files
from queue_engine.storage.disk_queue.backup import QueueCopy, UnsyncedFiles
from queue_engine.storage.disk_queue.closing import AT_ONCE, Closing, close_queues
from queue_engine.storage.disk_queue.fifo.disk_queue import DiskQueue
from queue_engine.storage.disk_queue.fifo.format import data_file_name, meta_file_name, names_of_queue
from queue_engine.storage.disk_queue.fifo.options import DiskQueueOptions
from queue_engine.storage.disk_queue.fifo.sync import remove_file
from queue_engine.storage.disk_queue.fifo.unread import UnreadDiskQueue, reason_of
from queue_engine.storage.disk_queue.overflow_queue import OverflowQueue
from queue_engine.storage.disk_queue.room_trial import RoomTrial
from queue_engine.storage.disk_queue.run_line import MemoryLimits
from queue_engine.vocabulary.byte_budget import MemoryBudgets
from queue_engine.vocabulary.clock import Clock
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.message import STORED_HEADER_BYTES, STORED_MESSAGE_START
from queue_engine.vocabulary.message_id import MessageIds
from queue_engine.vocabulary.names import is_ephemeral
from queue_engine.vocabulary.options.options import Options
from queue_engine.vocabulary.run import Batch, Run
from queue_engine.vocabulary.stop_progress import StopProgress
from queue_engine.vocabulary.ticket import DONE, Ticket

logger = logging.getLogger(__name__)

# Bodies of at least this size are expected on disk, also under a smaller --max-msg-size: nsqd's limit when it wrote
# them is unknown.
LARGEST_MSG_SIZE_MIN = 16 << 20
# Syncs given to the worker at once. Each holds a descriptor, and other jobs of the worker wait behind them.
SYNCS_OUTSTANDING_MAX = 16
_NOT_BEGUN = "disk queue {} is not made: the files of a former one can't be set aside"
# So many disk queues close unused descriptors at once, every few ticks.
IDLE_HOLDERS_AT_ONCE = 50


class DiskQueueFolder:
    """All disk queues of one data directory: makes them, and syncs in time those that were used.

    Implements `Background` for them."""

    def __init__(
        self,
        directory: str,
        options: Options,
        files: Files,
        background: Background,
        clock: Clock,
        budgets: MemoryBudgets | None = None,
    ) -> None:
        self._directory = directory
        self._options = options
        self._files = files
        self._background = background
        self.clock = clock
        self.budgets = budgets or MemoryBudgets(options)
        self.limits = MemoryLimits(options.mem_queue_size, self.budgets.queue_bytes_max, self.budgets.queues)
        self.room = RoomTrial(directory, files, background, clock)
        self._node_id = options.effective_node_id
        self._largest_msg_size = max(options.max_msg_size, LARGEST_MSG_SIZE_MIN)
        self._used: dict[DiskQueue, None] = {}  # those that waited longest first
        self._due: deque[DiskQueue] = deque()
        self._directory_syncs = DirectorySyncs(directory, files, self)
        self._outstanding = 0  # jobs of disk queues that the worker has not done yet
        self._is_starting = False
        self._failing: set[DiskQueue] = set()  # whose last sync failed
        self._ending: list[OverflowQueue] = []
        self._close_idle_at_ns = clock.monotonic_ns() + IDLE_INTERVAL_NS

    @property
    def sync_error(self) -> StorageError | None:
        """Why some queue is not on disk as it should be by now; None when all are."""
        return next((queue.sync_error for queue in self._failing), None)

    def set_largest_msg_size(self, largest_msg_size: int) -> None:
        """Set the size of the largest body that may be on disk: a longer record is taken for damage."""
        self._largest_msg_size = max(largest_msg_size, LARGEST_MSG_SIZE_MIN)

    def batch_maker(self) -> Callable[[Sequence[bytes]], Batch]:
        """The function that makes one topic's batches."""
        ids, clock = MessageIds(self.clock, self._node_id), self.clock
        return lambda bodies: Batch(clock.time_ns(), ids.take(len(bodies)), bodies)

    def open(self, name: str) -> OverflowQueue:
        """Open the queue called `name` (a topic, or topic:channel), with its messages on disk. If they can't be read,
        messages can be put nevertheless; `unread_reason` says why none can be taken until `reopen`."""
        disk: DiskQueue | None = None
        if not is_ephemeral(name):
            try:
                disk = self._disk_queue(name, self._directory, self._files, self)
            except Exception as exc:
                make = partial(UnreadDiskQueue, reason_of(name, exc))
                disk = self._disk_queue(name, self._directory, self._files, self, make)
            if disk.is_dirty:
                self._note_used(disk)  # the recovered state is not on the disk yet, nor are removals
        return OverflowQueue(self.limits, disk, self._note_used)

    def set_aside_former(self, name: str) -> Ticket:
        """Take away the files of a former queue called `name`, before a new one begins: a kill or the disk left them
        when that one was deleted, and its messages must not come back. They are renamed to .bad and not removed, since
        they may be nsqd's as well. Done when that is durable. Raises StorageError when the disk refuses."""
        try:
            names = self._files.names_starting_with(self._directory, f"{name}.diskqueue.")
            numbers, unneeded, _ = names_of_queue(name, names)
            data = [data_file_name(name, number) for number in numbers]
            unneeded += {meta_file_name(name)}.intersection(names)
            if not data and not unneeded:
                return DONE
            for one in data + unneeded:
                remove_file(self._files, os.path.join(self._directory, one), is_bad=one in data)
        except OSError as exc:
            raise StorageError(
                f"{_NOT_BEGUN.format(name)}: {exc.strerror}. Remove {name}.diskqueue.* by hand, or move them away"
            ) from exc
        logger.warning("files of a former disk queue set aside queue=%s files=%s", name, " ".join(data) or "none")
        result = Ticket()

        def synced(done: Ticket) -> None:
            if done.error is None:
                result.resolve()
            else:
                result.reject(StorageError(f"{_NOT_BEGUN.format(name)}: syncing their directory failed: {done.error}"))

        self._directory_syncs.sync().when_done(synced)
        return result

    def abandon(self, queue: OverflowQueue) -> None:
        """Close a queue, and leave its files on the disk."""
        if queue.disk is not None:
            self._used.pop(queue.disk, None)
            queue.disk.abandon()

    def reopen(self, queue: OverflowQueue) -> None:
        """Read the files of a queue that could not be read before. Raises StorageError."""
        unread = queue.disk
        if not isinstance(unread, UnreadDiskQueue) or unread.is_readable:
            return
        try:
            disk = self._disk_queue(unread.name, self._directory, self._files, self)
        except Exception as exc:
            unread.reason = reason_of(unread.name, exc)
            raise unread.reason from exc
        if unread.is_failed:
            disk.abandon()
            raise StorageError(f"{unread.sync_error}: messages published since the start may not be on the disk")
        unread.abandon()
        queue.replace_disk(disk)

    def _disk_queue(
        self,
        name: str,
        directory: str,
        files: Files,
        background: Background,
        make: Callable[..., DiskQueue] = DiskQueue,
    ) -> DiskQueue:
        options = self._options
        return make(
            name,
            directory,
            DiskQueueOptions(
                max_bytes_per_file=options.max_bytes_per_file,
                message_bytes_min=STORED_HEADER_BYTES,
                message_bytes_max=STORED_HEADER_BYTES + self._largest_msg_size,
                sync_every=options.sync_every,
                sync_timeout_ms=options.sync_timeout_ms,
                pattern=STORED_MESSAGE_START,
            ),
            files=files,
            background=background,
            clock=self.clock,
            directory_syncs=self._directory_syncs if background is self else None,
        )

    def copy(self, queue: OverflowQueue, runs: Sequence[Run]) -> QueueCopy | None:
        """A queue for a backup, with its messages in memory; None for one that has no disk."""

        def open_queue(name: str, directory: str) -> DiskQueue:
            return self._disk_queue(name, directory, UnsyncedFiles(), InlineBackground())

        return None if queue.disk is None else QueueCopy(queue.disk, runs, open_queue)

    def close_with_others(self, queues: Sequence[OverflowQueue]) -> None:
        """Add queues that take and give nothing more, for `closing` to write."""
        self._ending += queues

    def closing(self, how: Closing) -> Generator[StopProgress, None, None]:
        """Write and close all queues that were given to `close_with_others`, as `close_queues` does."""
        self.room.call_off()
        queues, self._ending = self._ending, []
        return close_queues(queues, self._directory, self._files, self.clock, how)

    def close_only(self, queues: Sequence[OverflowQueue]) -> None:
        """Write and close some of them, in one try. Raises StorageError, naming the queues that could not be
        written."""
        self._ending = [queue for queue in self._ending if queue not in queues]
        for _ in close_queues(queues, self._directory, self._files, self.clock, AT_ONCE):
            pass

    def submit(self, job: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        """The queues' `Background`: the worker, with its jobs counted."""

        def ended(error: Exception | None) -> None:
            self._outstanding -= 1
            done(error)
            self._start_due()

        self._outstanding += 1
        self._background.submit(job, ended)

    def _note_used(self, queue: DiskQueue) -> None:
        self._used[queue] = None

    def sync_used(self, now_ns: int) -> None:
        """Sync every queue that is due by count or time: a few at once, the others as those are done."""
        self.room.tick(now_ns)
        if now_ns >= self._close_idle_at_ns:
            self._close_idle_at_ns = now_ns + IDLE_INTERVAL_NS
            self._files.budget.begin_idle_pass()
        self._files.budget.close_idle(IDLE_HOLDERS_AT_ONCE)
        self._due.clear()
        for queue in list(self._used):
            if queue.sync_error is not None:
                self._failing.add(queue)
            if queue.sync_due(now_ns):
                self._due.append(queue)
            elif not queue.is_dirty:
                del self._used[queue]
        if self._failing:
            self._failing = {queue for queue in self._failing if queue.sync_error is not None}
        self._start_due()

    def _start_due(self) -> None:
        if self._is_starting:
            return  # a job that was done at once; the loop below goes on
        self._is_starting = True
        try:
            while self._due and self._outstanding < SYNCS_OUTSTANDING_MAX:
                queue = self._due.popleft()
                if queue in self._used:
                    del self._used[queue]
                    self._used[queue] = None  # behind those that still wait
                queue.start_sync()
        finally:
            self._is_starting = False
