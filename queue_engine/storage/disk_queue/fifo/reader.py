"""The front of a disk queue: takes messages, with one read for each chunk, and skips damage."""

import logging
import os
from collections.abc import Callable

from queue_engine.storage.disk_queue.fifo.counts import FileCounts
from queue_engine.storage.disk_queue.fifo.disk_queue_files import DiskQueueFiles
from queue_engine.storage.disk_queue.fifo.disk_queue_recovery import read_fully
from queue_engine.storage.disk_queue.fifo.format import (
    LENGTH_BYTES,
    RECORD_SIZE_MAX,
    data_file_name,
    diagnose,
    length_at,
    walk,
)
from queue_engine.storage.disk_queue.fifo.options import DiskQueueOptions
from queue_engine.storage.disk_queue.fifo.writer import DiskQueueWriter

logger = logging.getLogger(__name__)

READ_CHUNK_BYTES = 256 << 10
PEEK_CHUNK_BYTES = 4 << 10


class DiskQueueReader:
    """Reads the next messages.

    file, position: the read file's number and where in it the next record begins. passed, set_aside: names of
    files that were read to their end, to be removed or renamed to .bad once the meta file no longer needs them.
    """

    def __init__(
        self,
        own: DiskQueueFiles,
        writer: DiskQueueWriter,
        counts: FileCounts,
        options: DiskQueueOptions,
        *,
        file: int,
        position: int,
        want_sync: Callable[[], None],
    ) -> None:
        self._own = own
        self._writer = writer
        self._counts = counts
        self._size_min = options.message_bytes_min
        self._size_max = options.message_bytes_max
        self._pattern = options.pattern
        self._want_sync = want_sync
        self.file = file
        self.position = position
        self.passed: list[str] = []
        self.set_aside: list[str] = []
        self.is_damaged = False  # whether the read file is to be set aside
        self._fd: int | None = None
        self._chunk = b""  # bytes of the file, from `_chunk_at` on
        self._chunk_at = 0
        self._gap: tuple[int, int] | None = None  # a damaged stretch of the file: from, to

    @property
    def is_at_end(self) -> bool:
        """Whether nothing more waits, by the positions."""
        return self.file == self._writer.file and self.position >= self._writer.position

    def take_from_chunk(self, taken: list[bytes], count_max: int, bytes_left: int, size: int) -> int:
        """Slice messages out of the chunk, the first of `size` bytes being certain; returns the rest of `bytes_left`.
        Each is only taken when the length behind it is plausible, too: a damaged length shows there. They are added to
        `taken` when they are removed, all of them at once."""
        chunk, base = self._chunk, self._chunk_at
        barrier = self._barrier() - base
        limit = min(len(chunk), barrier)
        size_min, size_max = self._size_min, self._size_max
        at = self.position - base
        found: list[bytes] = []
        count_max -= len(taken)
        while True:
            stop = at + LENGTH_BYTES + size
            following = -1
            if stop + LENGTH_BYTES <= limit:
                following = length_at(chunk, stop)[0]
                if following < size_min or following > size_max or stop + LENGTH_BYTES + following > barrier:
                    break
            elif stop != barrier:
                break
            found.append(chunk[at + LENGTH_BYTES : stop])
            bytes_left -= size
            at = stop
            size = following
            if size < 0 or size > bytes_left or len(found) >= count_max or at + LENGTH_BYTES + size > limit:
                break
        self.position = base + at
        taken += found
        self._counts.take(len(found))  # a wrong count shows at the file's end
        return bytes_left

    def front(self, chunk_bytes: int = READ_CHUNK_BYTES) -> int | None:
        """The size of the message at the front, once its record is in the chunk and is certain: it ends where the
        file does, or before a plausible length. None when nothing is left. Raises OSError.

        chunk_bytes: how much to read when something has to be read.
        """
        while True:
            if self._gap is not None and self.position == self._gap[0]:
                self.position = self._gap[1]
                self._gap = None
            position = self.position
            if self.is_at_end:
                self._counts.settle(self._writer.file)
                self._chunk, self._chunk_at = b"", 0
                return None
            try:
                if position >= self._barrier():
                    self.pass_file()
                    continue
                if not self._load(LENGTH_BYTES, chunk_bytes):
                    continue
                size: int = length_at(self._chunk, position - self._chunk_at)[0]
                stop = position + LENGTH_BYTES + size
                barrier = self._barrier()
                if not self._size_min <= size <= self._size_max or stop > barrier:
                    self._damaged(f"invalid message read size ({size})")
                    continue
                if not self._load(LENGTH_BYTES + size + (LENGTH_BYTES if stop < barrier else 0), chunk_bytes):
                    continue
                if stop == barrier:
                    return size
                following = length_at(self._chunk, stop - self._chunk_at)[0]
                if self._size_min <= following <= self._size_max and stop + LENGTH_BYTES + following <= barrier:
                    return size
                self._damaged(f"invalid message read size ({following})")
            except FileNotFoundError:
                self._lose_file()

    def _barrier(self) -> int:
        """Where the chain of records that is being read has to end: the file's end, or a damaged stretch."""
        if self._gap is not None:
            return self._gap[0]
        if self.file == self._writer.file:
            return self._writer.position
        end = self._writer.ends.get(self.file)
        if end is None:
            end = self._writer.ends[self.file] = self._own.files.size(self._readable())
        return end

    def _readable(self) -> int:
        if self._fd is None:
            self._fd = self._own.open(self.file, os.O_RDONLY)
        return self._fd

    def _load(self, size: int, chunk_bytes: int) -> bool:
        """Load `size` bytes from the read position on into the chunk. False when the file ends before: then the damage
        was handled, and the caller tries again."""
        position = self.position
        at = position - self._chunk_at
        if at >= 0 and at + size <= len(self._chunk):
            return True
        left = self._barrier() - position
        if size <= left:
            want = min(max(size, chunk_bytes), left)
            chunk = self._own.files.read_at(self._readable(), want, position)
            while len(chunk) < size and (
                more := self._own.files.read_at(self._readable(), want, position + len(chunk))
            ):
                chunk += more
            self._chunk, self._chunk_at = chunk, position
            if len(chunk) >= size:
                return True
        self._damaged("file ends within a record")
        return False

    def _damaged(self, reason: str) -> None:
        """The record at the read position is in doubt: find out which of the file's rest is readable."""
        position, number = self.position, self.file
        self._gap = None
        end = self._barrier()
        data = read_fully(self._own.files, self._readable(), position, end)
        whole = walk(lambda size, at: data[at : at + size], 0, len(data), self._size_min, RECORD_SIZE_MAX)
        if whole.count and whole.stop == len(data) == end - position:
            # Every length leads to the next one and the last to the end: messages from a time when larger ones
            # were allowed.
            self._size_max = RECORD_SIZE_MAX
            return
        if number == self._writer.file:
            self._writer.roll()
        judged = diagnose(data, self._size_min, self._size_max, self._pattern)
        self._writer.ends[number] = position + len(data)
        self._gap = (position + judged.lost_from, position + judged.resume)
        self.is_damaged = True
        logger.error(
            "disk queue damaged path=%s position=%d lost_bytes=%d reason=%s",
            *(self._own.path(number), self._gap[0], self._gap[1] - self._gap[0], reason),
        )
        if judged.next_doubt is None:
            self._counts.correct(number, int(judged.is_first_intact) + judged.count_after)

    def damaged_file(self) -> list[str]:
        """The name of the read file where it is damaged."""
        return [data_file_name(self._own.name, self.file)] if self.is_damaged else []

    def pass_file(self) -> None:
        """Go on to the next file. The read file was read to its end; it is removed once the meta file does not need
        it."""
        number = self.file
        name = data_file_name(self._own.name, number)
        if self.is_damaged:
            self.set_aside.append(name)
        else:
            self.passed.append(name)
        self.forget()
        self._writer.drop_written(number)
        self._counts.settle(number)
        self.file = number + 1
        self.position = 0
        self._want_sync()

    def _lose_file(self) -> None:
        """The read file was removed by someone else: go on with the next one that exists."""
        number = self.file
        logger.error("disk queue file missing path=%s", self._own.path(number))
        if number == self._writer.file:
            self._writer.roll()
        numbers = self._own.numbers()
        self.pass_file()
        self.file = min((one for one in numbers if number < one < self._writer.file), default=self._writer.file)
        self._counts.settle(self.file - 1)

    def message(self, size: int) -> bytes:
        """The message at the front, of which `front` just gave the size."""
        start = self.position - self._chunk_at + LENGTH_BYTES
        return self._chunk[start : start + size]

    def leave_finished_file(self) -> None:
        """Go on to the next file at a full one's end: nsqd takes a meta file that points there for damage."""
        if self.file < self._writer.file and self.position == self._writer.ends.get(self.file):
            self.pass_file()

    def release(self) -> None:
        """Close the file and drop the chunk; the next read loads them again."""
        if self._fd is not None:
            self._own.files.close_quietly(self._fd)
            self._fd = None
        self.drop_chunk()

    def drop_chunk(self) -> None:
        """Free the bytes that were read ahead; the next read loads them again."""
        self._chunk, self._chunk_at = b"", 0

    def forget(self) -> None:
        """Forget the read file."""
        self.release()
        self._gap = None
        self.is_damaged = False

    def restart(self) -> None:
        """All files are removed: go on where the writer does."""
        self.forget()
        self.file, self.position = self._writer.file, self._writer.position
