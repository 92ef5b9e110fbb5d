"""NSQ's queue: up to a number of messages in memory, the rest on disk; first in, first out.

nsqd picks between memory and disk at random. Here the order stays: once messages are on disk, later ones go behind
them, until the disk has been read empty. So the disk can't starve, and memory is always older.
"""

from collections.abc import Callable, Container

from queue_engine.storage.disk_queue.fifo.disk_queue import DiskQueue
from queue_engine.storage.disk_queue.fifo.unread import UnreadDiskQueue
from queue_engine.storage.disk_queue.oldest_in_line import OldestInLine
from queue_engine.storage.disk_queue.run_line import AS_PUBLISHED, MemoryLimits, RunLine, oldest_of
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.run import Batch, Run, join_runs, run_of_stored
from queue_engine.vocabulary.ticket import DONE, Ticket

# At a stop the messages in memory are joined to writes of about this size.
WRITE_BYTES = 1 << 20
# After so many refused messages in a row the rest of a run is not tried.
REFUSED_IN_A_ROW_MAX = 16


class OverflowQueue:
    """A FIFO of messages for one topic or channel.

    disk: None for an ephemeral name: messages that do not fit in memory are dropped and counted in `dropped_count`.
    on_disk_use: called at every write and read of the disk, so that the owner can sync it in time.
    """

    def __init__(self, limits: MemoryLimits, disk: DiskQueue | None, on_disk_use: Callable[[DiskQueue], None]) -> None:
        self._memory = RunLine(limits)
        self._disk = disk
        self._on_disk_use = on_disk_use
        self._in_hand: list[bytes] = []  # taken from the disk, in its format, by a call that failed then
        self.dropped_count = 0
        self._written_count = 0  # messages that were put on disk here; earlier ones have places below 0
        self._oldest_on_disk = OldestInLine()

    @property
    def depth(self) -> int:
        disk = self._disk
        return self._memory.count if disk is None else self._memory.count + len(self._in_hand) + disk.depth

    @property
    def backend_depth(self) -> int:
        return 0 if self._disk is None else self._disk.depth

    @property
    def disk_bytes(self) -> int:
        return 0 if self._disk is None else self._disk.disk_bytes

    @property
    def is_readable(self) -> bool:
        """Whether the messages on disk can be read; True until a read fails."""
        return self._disk is None or self._disk.is_readable

    def figures(self) -> tuple[int, int, int]:
        """depth, backend_depth and disk_bytes, at once."""
        disk, in_memory = self._disk, self._memory.count
        if disk is None:
            return in_memory, 0, 0
        on_disk = disk.depth
        return in_memory + len(self._in_hand) + on_disk, on_disk, disk.disk_bytes

    def has_room_in_memory(self, messages: Batch | Run) -> bool:
        """Whether these messages would stay in memory."""
        return self._memory.has_room_for(messages) and self._is_disk_empty()

    def count_that_fits(self, run: Run) -> int:
        """How many of its first messages would stay in memory."""
        return self._memory.count_that_fits(run) if self._is_disk_empty() else 0

    def _is_disk_empty(self) -> bool:
        disk = self._disk
        return disk is None or (disk.depth == 0 and disk.is_readable and not self._in_hand)

    def put(self, messages: Batch | Run, oldest_ns: int | None = AS_PUBLISHED) -> None:
        """Add at the end. Raises StorageError when it has to go to disk and can't; then nothing was added.

        oldest_ns: the earliest time from which the age of one of them runs; None when they do not count here."""
        disk = self._disk
        if self._is_disk_empty() and self._memory.append_if_it_fits(messages, oldest_ns):
            return
        if disk is None:
            run = messages if isinstance(messages, Run) else messages.run()
            room = self._memory.count_that_fits(run)
            self.dropped_count += len(run) - room
            if room:
                self._memory.append(run.slice(0, room), oldest_ns)
            return
        records, sizes = messages.stored_records()
        disk.put(records, sizes)
        self._on_disk_use(disk)
        self._written_count += len(sizes)
        if oldest_ns is not None:
            time_ns = oldest_of(messages) if oldest_ns == AS_PUBLISHED else oldest_ns
            self._oldest_on_disk.append(self._written_count - 1, time_ns, self._head_place(disk))

    def _head_place(self, disk: DiskQueue) -> int:
        """The place of the next message that is taken from the disk."""
        return self._written_count - disk.depth - len(self._in_hand)

    def put_in_memory(self, messages: Batch | Run) -> None:
        """Add at the end of the messages in memory, over the limits if need be; never fails."""
        self._memory.append(messages if isinstance(messages, Run) else messages.run())

    def put_front(self, run: Run) -> None:
        """Put back a run that was taken and not used; it is taken next. Never fails."""
        self._memory.prepend(run)

    def take(self, count_max: int, bytes_max: int) -> Run | None:
        """Remove messages from the front: at most `count_max`, at most `bytes_max` bytes of frames but at least
        one. None when empty. Raises StorageError when the disk can't be read; no error loses a message."""
        if self._memory:
            return self._memory.take(count_max, bytes_max)
        disk = self._disk
        if disk is None or self._is_disk_empty():
            return None
        if not self._in_hand:
            # In hand until they are a run: after an error the next call returns them.
            disk.take_into(self._in_hand, count_max, bytes_max)
        self._on_disk_use(disk)
        if not self._in_hand:
            return None
        run = run_of_stored(self._in_hand)
        self._in_hand = []
        if len(run) > count_max or len(run.frames) > bytes_max:
            # They were taken by a call with a higher limit.
            self.put_front(run)
            return self._memory.take(count_max, bytes_max)
        return run

    def oldest_ns(self) -> int | None:
        """The earliest time from which the age of a message runs; None when none counts. Raises StorageError when
        the disk can't be read.

        Messages on disk before the start count as ordered by age.
        """
        times = (self._memory.oldest_ns(), self._oldest_on_disk_ns())
        return min((time_ns for time_ns in times if time_ns is not None), default=None)

    def _oldest_on_disk_ns(self) -> int | None:
        disk = self._disk
        if disk is None or self._is_disk_empty():
            self._oldest_on_disk.clear()
            return None
        if not disk.is_readable:
            disk.peek()
        head = self._head_place(disk)
        self._oldest_on_disk.pass_to(head)
        oldest = self._oldest_on_disk.first()
        if head >= 0:
            return None if oldest is None else oldest[1]
        stored = self._in_hand[0] if self._in_hand else disk.peek()
        if stored is None:
            return None
        return _published_ns(stored) if oldest is None else min(_published_ns(stored), oldest[1])

    def tidy(self) -> None:
        """Free memory that is not needed."""
        if self._disk is not None:
            self._disk.tidy()

    def empty(self) -> int:
        """Drop everything; returns how many."""
        dropped = self._memory.count + len(self._in_hand)
        self._forget()
        if self._disk is not None:
            dropped += self._disk.empty()
        return dropped

    def durable(self) -> Ticket:
        """Done when all that was taken and dropped so far is durable; as `DiskQueue.durable`."""
        return DONE if self._disk is None else self._disk.durable()

    def delete(self) -> None:
        """Drop everything, files included."""
        self._forget()
        if self._disk is not None:
            self._disk.delete()

    def _forget(self) -> None:
        self._memory.clear()
        self._in_hand = []

    @property
    def memory_count(self) -> int:
        """Messages that are in memory alone."""
        return self._memory.count + len(self._in_hand)

    @property
    def disk(self) -> DiskQueue | None:
        return self._disk

    @property
    def is_deleted(self) -> bool:
        return self._disk is not None and self._disk.is_deleted

    @property
    def unread_reason(self) -> StorageError | None:
        """Why the messages on disk can't be read; None when they can."""
        return self._disk.reason if isinstance(self._disk, UnreadDiskQueue) and not self._disk.is_readable else None

    def replace_disk(self, disk: DiskQueue) -> None:
        """The same files, opened anew."""
        self._disk = disk
        self._on_disk_use(disk)

    def runs_in_memory(self) -> list[Run]:
        """The messages in memory, in order; they stay there."""
        return [*self._memory, *([run_of_stored(self._in_hand)] if self._in_hand else [])]

    def remove_from_memory(self, ids: Container[bytes], oldest_of: Callable[[Run], int | None]) -> None:
        """Take these messages out of memory, as far as they are there, as `RunLine.remove`."""
        self._memory.remove(ids, oldest_of)

    def write_memory(self) -> None:
        """Write the messages in memory behind those on disk, since the files only grow at their end. Raises
        StorageError when the disk refuses; the messages that it refused stay in memory, and can be tried again."""
        disk = self._disk
        assert disk is not None
        refused: list[Run] = []
        reason: StorageError | None = None
        if self._in_hand:
            self.put_in_memory(run_of_stored(self._in_hand))
            self._in_hand = []
        while self._memory:
            run = self._take_joined()
            try:
                disk.put(*run.stored_records())
            except StorageError as exc:
                reason = reason or exc
                refused += self._put_apart(disk, run)
            except Exception:
                for one in (run, *reversed(refused)):
                    self.put_front(one)
                raise
        for run in refused:
            self.put_in_memory(run)
        if refused:
            assert reason is not None
            raise reason

    def _take_joined(self) -> Run:
        """Remove the first runs in memory, as many as make one write of a good size."""
        runs: list[Run] = []
        size = 0
        while size < WRITE_BYTES and (run := self._memory.pop_run()) is not None:
            runs.append(run)
            size += len(run.frames)
        return join_runs(runs)

    @staticmethod
    def _put_apart(disk: DiskQueue, run: Run) -> list[Run]:
        """Put messages one by one after the disk refused them together, and return those that it refuses: because of
        one message that is too large, or of a disk that is almost full, the others must not be lost."""
        refused: list[Run] = []
        in_a_row = 0
        for index in range(len(run)):
            if in_a_row == REFUSED_IN_A_ROW_MAX:
                return [*refused, run.slice(index, len(run))]
            one = run.slice(index, index + 1)
            try:
                disk.put(*one.stored_records())
            except StorageError:
                refused.append(one)
                in_a_row += 1
            else:
                in_a_row = 0
        return refused


def _published_ns(stored: bytes) -> int:
    return int.from_bytes(stored[:8], "big", signed=True)
