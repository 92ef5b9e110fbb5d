"""The end of a disk queue where messages are put: one write a batch, files rolled before they exceed their limit."""

import logging
import os
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

from queue_engine.storage.disk_queue.fifo.disk_queue_files import DiskQueueFiles
from queue_engine.storage.disk_queue.fifo.sync import QueueGeneration, WrittenFile

logger = logging.getLogger(__name__)

# Full files that wait for the worker to sync them, each with its descriptor. One more, and `append` syncs the oldest
# itself: a disk that can't keep up slows its producers instead of eating descriptors.
WRITTEN_FILES_MAX = 3


class DiskQueueWriter:
    """Writes records at the end.

    file, position: the write file's number and valid length. is_dirty: whether it has bytes that no sync has begun to
    write to the disk. written: earlier files, to be synced. ends: the valid length of files before the write file that
    this process wrote; the reader drops those it has passed.
    """

    def __init__(
        self,
        own: DiskQueueFiles,
        generation: QueueGeneration,
        *,
        file: int,
        position: int,
        unsynced: Sequence[int],
        max_bytes_per_file: int,
        want_sync: Callable[[], None],
    ) -> None:
        self._own = own
        self._generation = generation
        self._max_bytes_per_file = max_bytes_per_file
        self._want_sync = want_sync
        self.file = file
        self.position = position
        self.fd: int | None = None
        self.is_dirty = False
        self.ends: dict[int, int] = {}
        self.written = [WrittenFile(number, None) for number in unsynced]

    def bytes_from(self, number: int) -> int:
        """Valid bytes of file `number` and those behind it."""
        full = [self.ends.get(one, self._max_bytes_per_file) for one in range(number, self.file)]
        return sum(full) + self.position

    def append(self, records: bytes, sizes: Sequence[int]) -> list[tuple[int, int]]:
        """Write a batch, all or nothing; returns (file, messages) of its parts. Raises OSError."""
        fd = self._writable()
        if self.position + len(records) > self._max_bytes_per_file:
            return self._append_rolling(fd, records, sizes)
        try:
            self._write(fd, records)
        except OSError:
            self._cut_back(fd)
            raise
        return [(self.file, len(sizes))]

    def _writable(self) -> int:
        """The descriptor of the write file, which ends exactly where the next record goes."""
        fd = self.fd
        if fd is None:
            fresh = os.O_TRUNC if self.position == 0 else 0
            fd = self.fd = self._own.open(self.file, os.O_RDWR | os.O_CREAT | fresh)
        size = self._own.files.size(fd)
        if size == self.position:
            return fd
        # Longer: bytes of a failed write that could not be cut off. Shorter: the file was cut from outside. Nothing is
        # appended to either.
        logger.warning("write file left path=%s size=%d expected=%d", self._own.path(self.file), size, self.position)
        self.roll(self.position if size > self.position else None)
        return self._writable()

    def _write(self, fd: int, records: bytes | memoryview) -> None:
        self.is_dirty = True
        self._own.files.write_all(fd, records, self.position)
        self.position += len(records)

    def _cut_back(self, fd: int) -> None:
        """Remove the bytes of a failed write behind the last good record."""
        try:
            self._own.files.truncate(fd, self.position)
        except OSError:
            # A later sync tries again; until then the bytes stay behind the file's valid end.
            self.roll(self.position)

    def roll(self, cut_to: int | None = None) -> None:
        """Leave the write file: the worker syncs and closes it. Writing goes on in the next one."""
        number, fd = self.file, self.fd
        self.ends[number] = self.position
        if fd is not None:
            if self.is_dirty or cut_to is not None:
                self.written.append(WrittenFile(number, fd, cut_to))
            else:
                self._own.files.close_quietly(fd)
        self.file, self.position, self.fd = number + 1, 0, None
        self.is_dirty = False
        self._want_sync()
        self.sync_written()

    def _append_rolling(self, fd: int, records: bytes, sizes: Sequence[int]) -> list[tuple[int, int]]:
        """Spread a batch over as many files as it takes; all of it is undone when one of them fails."""
        first, first_position = self.file, self.position
        full: list[WrittenFile] = []
        counts: list[tuple[int, int]] = []
        view = memoryview(records)
        try:
            for count, start, stop in self._pieces(sizes):
                if counts:
                    leaving = WrittenFile(self.file, self.fd)
                    full.append(leaving)
                    self.ends[leaving.number] = self.position
                    self.file, self.position, self.fd = leaving.number + 1, 0, None
                    if len(full) > WRITTEN_FILES_MAX:
                        self._sync_here(leaving)
                if count:
                    self._write(self._writable(), view[start:stop])
                counts.append((self.file, count))
        except OSError:
            self._undo(first, first_position, fd, full)
            raise
        self.written += [file for file in full if file.fd is not None]
        self._want_sync()
        self.sync_written()
        return counts

    def sync_written(self, count_max: int = WRITTEN_FILES_MAX) -> None:
        """Sync the oldest full files in this thread when more than `count_max` wait for the worker."""
        waiting = [file for file in self.written if file.fd is not None]
        for file in waiting[: max(0, len(waiting) - count_max)]:
            try:
                self._sync_here(file)
            except OSError as exc:
                self._generation.data_failed(exc, self._generation.number)
                logger.error("data not synced path=%s error=%s", self._own.path(file.number), exc)
            if file.cut_to is None:
                self.written.remove(file)

    def _pieces(self, sizes: Sequence[int]) -> list[tuple[int, int, int]]:
        """How a batch is spread over files: messages, first byte and end of each piece. The first piece is for the
        present write file and may be empty; a record larger than a file may be has a file to itself."""
        ends = list(accumulate(sizes))
        pieces: list[tuple[int, int, int]] = []
        index = start = 0
        used = self.position
        while index < len(ends):
            after = bisect_right(ends, start + self._max_bytes_per_file - used, index)
            if after == index and used == 0:
                after += 1
            stop = ends[after - 1] if after else 0
            pieces.append((after - index, start, stop))
            index, start, used = after, stop, 0
        return pieces

    def _undo(self, first: int, first_position: int, first_fd: int, full: list[WrittenFile]) -> None:
        """Make a batch that was partly written undone: go back to `first`, drop the files behind it."""
        spoiled = [file.fd for file in full[1:]]
        if self.file != first:
            spoiled.append(self.fd)
        for fd in spoiled:
            if fd is not None:
                self._own.files.close_quietly(fd)
        for number in range(first + 1, self.file + 1):
            self.ends.pop(number, None)
            try:
                self._own.files.unlink(self._own.path(number))
            except OSError:
                pass  # it is truncated before it is written again
        self.ends.pop(first, None)
        self.file, self.position, self.fd = first, first_position, first_fd
        self._cut_back(first_fd)

    def _sync_here(self, file: WrittenFile) -> None:
        """Sync and close a full file in this thread. Raises OSError; it is closed nevertheless."""
        assert file.fd is not None
        fd, file.fd = file.fd, None
        try:
            self._own.files.sync_data(fd)
        finally:
            self._own.files.close_quietly(fd)

    def drop_written(self, number: int) -> None:
        """Forget file `number`: its bytes need no sync any more."""
        for file in self.written:
            if file.number == number and file.fd is not None:
                self._own.files.close_quietly(file.fd)
        self.written = [file for file in self.written if file.number != number]
        self.ends.pop(number, None)

    def take_dirty(self) -> WrittenFile | None:
        """The write file for a sync, under a descriptor of its own; None when it needs none. Raises OSError."""
        if self.fd is None or not self.is_dirty:
            return None
        copy = WrittenFile(self.file, self._own.files.dup(self.fd))
        self.is_dirty = False
        return copy

    def release(self, *, is_forced: bool) -> bool:
        """Close synced files; returns whether none is open any more. is_forced: sync the rest first, here."""
        if is_forced:
            self.sync_written(0)
            if self.fd is not None and self.is_dirty:
                self.is_dirty = False
                self.written.append(WrittenFile(self.file, self.fd))
                self.fd = None
                self.sync_written(0)
        if self.fd is not None and not self.is_dirty:
            self._own.files.close_quietly(self.fd)
            self.fd = None
        return self.fd is None and all(file.fd is None for file in self.written)

    def hand_over(self) -> list[WrittenFile]:
        """Hand over everything that needs a sync, descriptors included, and close the rest: the queue closes."""
        written, self.written = self.written, []
        if self.fd is not None:
            if self.is_dirty:
                written.append(WrittenFile(self.file, self.fd))
            else:
                self._own.files.close_quietly(self.fd)
            self.fd = None
        return written

    def restart(self) -> None:
        """All files are to go: close everything unsynced and go on in a new file."""
        for fd in [self.fd, *(file.fd for file in self.written)]:
            if fd is not None:
                self._own.files.close_quietly(fd)
        self.file, self.position, self.fd = self.file + 1, 0, None
        self.is_dirty = False
        self.written = []
        self.ends.clear()
