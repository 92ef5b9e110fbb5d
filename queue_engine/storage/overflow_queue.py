"""NSQ's queue: so many messages in memory, what is beyond them on disk; first in, first out.

nsqd picks between memory and disk at random. Here the order is kept: once something is on disk, what comes
later goes behind it, until the disk has been read empty. So the disk can't starve, and memory is always older.
"""

from collections import deque
from collections.abc import Callable

from queue_engine.errors import StorageError
from queue_engine.run import Batch, Run, join_runs, run_of_stored
from queue_engine.storage.disk_queue import DiskQueue


class OverflowQueue:
    """A FIFO of messages for one topic or channel.

    disk: None for an ephemeral name: what does not fit in memory is dropped and counted in `dropped_count`.
    on_disk_use: told of every write and read of the disk, so that the owner can sync it in time.
    """

    def __init__(self, memory_count_max: int, disk: DiskQueue | None, on_disk_use: Callable[[DiskQueue], None]) -> None:
        self._memory_count_max = memory_count_max
        self._memory: deque[Run] = deque()
        self._head_at = 0  # messages of the first run that were taken already
        self._memory_count = 0
        self._disk = disk
        self._on_disk_use = on_disk_use
        self.dropped_count = 0

    @property
    def depth(self) -> int:
        disk = self._disk
        return self._memory_count if disk is None else self._memory_count + disk.depth

    @property
    def backend_depth(self) -> int:
        return 0 if self._disk is None else self._disk.depth

    @property
    def disk_bytes(self) -> int:
        return 0 if self._disk is None else self._disk.disk_bytes

    @property
    def holds_on_disk(self) -> bool:
        """Whether it has a disk to write to."""
        return self._disk is not None

    def has_room_in_memory(self, count: int) -> bool:
        """Whether `count` more messages would stay in memory."""
        return self._memory_count + count <= self._memory_count_max and (self._disk is None or self._disk.depth == 0)

    def put(self, messages: Batch | Run) -> None:
        """Add at the end. Raises StorageError when it has to go to disk and can't; then nothing was added."""
        count = len(messages.ids)
        disk = self._disk
        if self._memory_count + count <= self._memory_count_max and self.has_room_in_memory(count):
            self.put_in_memory(messages)
            return
        if disk is None:
            room = max(0, self._memory_count_max - self._memory_count)
            self.dropped_count += count - room
            if room:
                run = messages if isinstance(messages, Run) else messages.run()
                self.put_in_memory(run.slice(0, room))
            return
        records, sizes = messages.stored_records()
        disk.put(records, sizes)
        self._on_disk_use(disk)

    def put_in_memory(self, messages: Batch | Run) -> None:
        """Add at the end of what is in memory, over the limit if need be; never fails."""
        run = messages if isinstance(messages, Run) else messages.run()
        self._memory.append(run)
        self._memory_count += len(run)

    def put_front(self, run: Run) -> None:
        """Put back what was taken and not used; it is the next to be taken. Never fails."""
        if self._head_at:
            head = self._memory.popleft()
            self._memory.appendleft(head.slice(self._head_at, len(head)))
            self._head_at = 0
        self._memory.appendleft(run)
        self._memory_count += len(run)

    def take(self, count_max: int, bytes_max: int) -> Run | None:
        """Remove messages from the front: at most `count_max`, at most `bytes_max` bytes of frames but at least
        one. None when empty. Raises StorageError when the disk can't be read; nothing is lost."""
        memory = self._memory
        if not memory:
            disk = self._disk
            if disk is None or disk.depth == 0:
                return None
            stored = disk.take(count_max, bytes_max)
            self._on_disk_use(disk)
            return run_of_stored(stored) if stored else None
        runs: list[Run] = []
        count_left, bytes_left = count_max, bytes_max
        while memory and count_left > 0:
            run = memory[0]
            start = self._head_at
            count = len(run) - start
            if count > count_left or (start or len(run.frames) > bytes_left):
                count = min(count, count_left, run.count_within(start, bytes_left))
                if count == 0:
                    if runs:
                        break
                    count = 1
            part = run.slice(start, start + count)
            runs.append(part)
            count_left -= count
            bytes_left -= len(part.frames)
            if start + count == len(run):
                memory.popleft()
                self._head_at = 0
            else:
                self._head_at = start + count
                break
        self._memory_count -= count_max - count_left
        return join_runs(runs)

    def oldest_ns(self) -> int | None:
        """Publish time of the message at the front; None when empty or unreadable."""
        if self._memory:
            return self._memory[0].timestamp_ns_at(self._head_at)
        if self._disk is None or self._disk.depth == 0:
            return None
        try:
            stored = self._disk.peek()
        except StorageError:
            return None
        return None if stored is None else int.from_bytes(stored[:8], "big", signed=True)

    def empty(self) -> int:
        """Drop everything; returns how many."""
        dropped = self._memory_count
        self._memory.clear()
        self._memory_count = self._head_at = 0
        if self._disk is not None:
            dropped += self._disk.empty()
        return dropped

    def delete(self) -> None:
        """Drop everything, files included."""
        self._memory.clear()
        self._memory_count = self._head_at = 0
        if self._disk is not None:
            self._disk.delete()

    def close(self) -> None:
        """Write what is in memory to disk, sync and close it. Raises StorageError, saying how many messages could
        not be kept and why, after it has tried all of them.

        What was in memory comes behind what was on disk: the files only grow at their end.
        """
        if self._disk is None:
            return
        refused = 0
        reason = ""
        while (run := self.take_from_memory()) is not None:
            for part in self._kept_apart(run):
                try:
                    self._disk.put(*part.stored_records())
                except StorageError as exc:
                    refused += len(part)
                    reason = reason or str(exc)
        try:
            self._disk.close()
        except StorageError as exc:
            reason = f"{reason}; {exc}" if reason else str(exc)
        if refused:
            raise StorageError(f"{refused} messages of {self._disk.name} could not be kept: {reason}")
        if reason:
            raise StorageError(reason)

    def _kept_apart(self, run: Run) -> list[Run]:
        """The run, or its messages one by one where the disk refuses it as a whole: one that is too large, or a
        disk that is almost full, must not take the others with it."""
        assert self._disk is not None
        try:
            self._disk.put(*run.stored_records())
        except StorageError:
            return [run.slice(index, index + 1) for index in range(len(run))]
        return []

    def take_from_memory(self) -> Run | None:
        """Remove the first run of what is in memory; None when there is none."""
        if not self._memory:
            return None
        run = self._memory.popleft()
        if self._head_at:
            run = run.slice(self._head_at, len(run))
            self._head_at = 0
        self._memory_count -= len(run)
        return run
