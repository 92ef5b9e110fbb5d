"""A FIFO of messages in numbered files: go-diskqueue's, byte for byte, so that nsqd's data can be taken over.

Everything is in bulk, because Python pays per call and not per byte: `put` is one write, `take` slices what one
read brought. It belongs to the engine's thread; syncs happen on the worker (see disk_queue_sync.py). The format,
and what is promised, are in the README beside this file.
"""

import errno
import logging
import os
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import accumulate

from queue_engine.clock import NS_PER_MS, Clock
from queue_engine.errors import ClosedError, StorageError
from queue_engine.storage.background import Background
from queue_engine.storage.disk_queue_format import (
    LENGTH_BYTES,
    RECORD_SIZE_MAX,
    Meta,
    data_file_name,
    diagnose,
    length_at,
    meta_file_name,
    names_of_queue,
    walk,
)
from queue_engine.storage.disk_queue_recovery import Recovery, read_fully
from queue_engine.storage.disk_queue_sync import Fence, SyncJob, WrittenFile
from queue_engine.storage.files import Files

logger = logging.getLogger(__name__)

READ_CHUNK_BYTES = 256 << 10
# Full files that wait for the worker to sync them, each with its descriptor. One more, and `put` syncs the oldest
# itself: a disk that can't keep up slows its producers instead of eating descriptors.
WRITTEN_FILES_MAX = 3


class DiskQueue:
    """Messages in order, each put once and taken once.

    name: the files' prefix, a valid topic or `topic:channel`. pattern: what every message starts with, where
    that is known; it only serves to find the next message behind damaged bytes.
    """

    def __init__(
        self,
        name: str,
        directory: str,
        *,
        files: Files,
        background: Background,
        clock: Clock,
        max_bytes_per_file: int,
        message_bytes_min: int,
        message_bytes_max: int,
        sync_every: int,
        sync_timeout_ms: int,
        pattern: re.Pattern[bytes] | None = None,
    ) -> None:
        """Opens what is there and changes nothing on disk. Raises StorageError when it can't be read."""
        self.name = name
        self._directory = directory
        self._files = files
        self._background = background
        self._clock = clock
        self._max_bytes_per_file = max_bytes_per_file
        self._size_min = message_bytes_min
        self._size_max = message_bytes_max
        self._sync_every = sync_every
        self._sync_timeout_ns = sync_timeout_ms * NS_PER_MS
        self._pattern = pattern

        # Figures.
        self.bad_file_count = 0  # files set aside
        self.lost_count = 0  # messages that were counted and turned out unreadable
        self.found_count = 0  # messages found at opening that the meta file did not count
        self.sync_error: StorageError | None = None  # why the last sync failed; None after one that did not

        try:
            self._recovery = Recovery(name, directory, files, message_bytes_min, message_bytes_max, pattern)
            state = self._recovery.run()
        except OSError as exc:
            raise StorageError(f"cannot open disk queue {name} in {directory}: {exc.strerror}") from exc
        self.depth = state.depth
        self.lost_count = state.lost_count
        self.found_count = state.found_count
        self._has_files = state.has_files
        self._closed = False

        # Where reading goes on. `_chunk` holds what was read of the file from `_chunk_at` on.
        self._read_file = state.read_file
        self._read_position = state.read_position
        self._read_fd: int | None = None
        self._chunk = b""
        self._chunk_at = 0
        self._read_size_max = message_bytes_max
        self._gap: tuple[int, int] | None = None  # a damaged stretch of the read file: from, to
        self._is_damaged = False  # whether the read file is to be set aside

        # Where writing goes on.
        self._write_file = state.write_file
        self._write_position = state.write_position
        self._write_fd: int | None = None
        self._is_write_file_dirty = False
        self._ends: dict[int, int] = {}  # valid length of files before the write file, where known

        # Messages by file, [last file, count]: what a file turns out to lack is known when it has been passed.
        self._counts: deque[list[int]] = deque([number, count] for number, count in state.counts)

        # What the next sync has to do.
        self._fence = Fence()
        self._written = [WrittenFile(number, None) for number in state.unsynced]
        self._passed: list[str] = state.leftover
        self._set_aside: list[str] = []
        self._change_count = 0  # messages put and taken since the last sync began
        self._changed_at_ns = clock.monotonic_ns() if state.is_dirty else 0
        self._is_sync_wanted = state.is_dirty
        self._retry_at_ns = 0
        self._job: SyncJob | None = None

    # Putting.

    def put(self, records: bytes, sizes: Sequence[int]) -> None:
        """Add messages at the end, all or none.

        records: one record behind the other, each with its 4-byte length; sizes: the bytes of each, length
        included. They are in the file when this returns, and on the disk after the next sync.
        Raises StorageError for a size out of range or when the disk refuses; ClosedError after close.
        """
        if self._closed:
            raise ClosedError
        if not sizes:
            return
        self._check_sizes(sizes)
        if self._fence.data_error is not None:
            reason = self._fence.data_error.strerror
            raise StorageError(f"disk queue {self.name} takes nothing more, a sync of its data failed: {reason}")
        try:
            fd = self._writable()
            if self._write_position + len(records) <= self._max_bytes_per_file:
                self._append(fd, records)
                self._count_put(self._write_file, len(sizes))
            else:
                self._append_rolling(fd, records, sizes)
        except OSError as exc:
            path = self._path(self._write_file)
            raise StorageError(f"cannot write {len(records)} bytes to {path}: {exc.strerror}") from exc
        self._changed(len(sizes))

    def _check_sizes(self, sizes: Sequence[int]) -> None:
        for size in (min(sizes) - LENGTH_BYTES, max(sizes) - LENGTH_BYTES):
            if not self._size_min <= size <= self._size_max:
                raise StorageError(
                    f"invalid message write size ({size}) minMsgSize={self._size_min} maxMsgSize={self._size_max}"
                )

    def _writable(self) -> int:
        """The descriptor of the write file, which ends exactly where the next record goes."""
        fd = self._write_fd
        if fd is None:
            fresh = os.O_TRUNC if self._write_position == 0 else 0
            fd = self._write_fd = self._open(self._path(self._write_file), os.O_RDWR | os.O_CREAT | fresh)
            self._has_files = True
        size = self._files.size(fd)
        if size == self._write_position:
            return fd
        # Longer: bytes of a failed write that could not be cut off. Shorter: somebody cut the file. Nothing is
        # appended behind either.
        logger.warning("write file left path=%s size=%d expected=%d", self._path(), size, self._write_position)
        self._roll(self._write_position if size > self._write_position else None)
        return self._writable()

    def _append(self, fd: int, records: bytes) -> None:
        """One write at the end of the write file; when it fails the file is as before."""
        try:
            self._write(fd, records)
        except OSError:
            self._cut_back(fd)
            raise

    def _write(self, fd: int, records: bytes | memoryview) -> None:
        self._is_write_file_dirty = True
        self._files.write_all(fd, records, self._write_position)
        self._write_position += len(records)

    def _cut_back(self, fd: int) -> None:
        """Remove what a failed write left behind the last good record."""
        try:
            self._files.truncate(fd, self._write_position)
        except OSError:
            # A later sync tries again; until then the bytes stay behind the file's known end.
            self._roll(self._write_position)

    def _roll(self, cut_to: int | None = None) -> None:
        """Leave the write file: the worker syncs and closes it. Writing goes on in the next one."""
        number, fd = self._write_file, self._write_fd
        self._ends[number] = self._write_position
        if fd is not None:
            if self._is_write_file_dirty or cut_to is not None:
                self._written.append(WrittenFile(number, fd, cut_to))
            else:
                self._files.close_quietly(fd)
        self._write_file, self._write_position, self._write_fd = number + 1, 0, None
        self._is_write_file_dirty = False
        self._want_sync()
        self._limit_written()

    def _append_rolling(self, fd: int, records: bytes, sizes: Sequence[int]) -> None:
        """Spread a batch over as many files as it takes; all of it is undone when one of them fails."""
        first, first_position = self._write_file, self._write_position
        full: list[WrittenFile] = []
        counts: list[tuple[int, int]] = []
        view = memoryview(records)
        try:
            for count, start, stop in self._pieces(sizes):
                if counts:
                    leaving = WrittenFile(self._write_file, self._write_fd)
                    full.append(leaving)
                    self._ends[leaving.number] = self._write_position
                    self._write_file, self._write_position, self._write_fd = leaving.number + 1, 0, None
                    if len(full) > WRITTEN_FILES_MAX:
                        self._sync_here(leaving)
                if count:
                    self._write(self._writable(), view[start:stop])
                counts.append((self._write_file, count))
        except OSError:
            self._undo(first, first_position, fd, full)
            raise
        self._written += [file for file in full if file.fd is not None]
        self._want_sync()
        for number, count in counts:
            self._count_put(number, count)
        self._limit_written()

    def _limit_written(self, count_max: int = WRITTEN_FILES_MAX) -> None:
        """Sync the oldest full files in this thread when more than `count_max` wait for the worker."""
        waiting = [file for file in self._written if file.fd is not None]
        for file in waiting[: max(0, len(waiting) - count_max)]:
            try:
                self._sync_here(file)
            except OSError as exc:
                self._fence.data_error = self._fence.data_error or exc
                self._sync_failed(exc)
            if file.cut_to is None:
                self._written.remove(file)

    def _pieces(self, sizes: Sequence[int]) -> list[tuple[int, int, int]]:
        """How a batch is spread over files: messages, first byte and end of each piece. The first piece is for the
        present write file and may be empty; a record larger than a file may be has a file to itself."""
        ends = list(accumulate(sizes))
        pieces: list[tuple[int, int, int]] = []
        index = start = 0
        used = self._write_position
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
        if self._write_file != first:
            spoiled.append(self._write_fd)
        for fd in spoiled:
            if fd is not None:
                self._files.close_quietly(fd)
        for number in range(first + 1, self._write_file + 1):
            self._ends.pop(number, None)
            try:
                self._files.unlink(self._path(number))
            except OSError:
                pass  # it is truncated before it is written again
        self._ends.pop(first, None)
        self._write_file, self._write_position, self._write_fd = first, first_position, first_fd
        self._cut_back(first_fd)

    def _sync_here(self, file: WrittenFile) -> None:
        """Sync and close a full file in this thread. Raises OSError; it is closed all the same."""
        assert file.fd is not None
        fd, file.fd = file.fd, None
        try:
            self._files.sync_data(fd)
        finally:
            self._files.close_quietly(fd)

    def _count_put(self, number: int, count: int) -> None:
        if not count:
            return
        if self._counts and self._counts[-1][0] >= number:
            self._counts[-1][1] += count
        else:
            self._counts.append([number, count])
        self.depth += count

    # Taking.

    def take(self, count_max: int, bytes_max: int) -> list[bytes]:
        """Remove messages from the front: at most `count_max`, at most `bytes_max` bytes of them but at least one.

        Empty when nothing is left, also when what was counted turned out unreadable. Raises StorageError when
        the system refuses to read (nothing is lost, a later call goes on), ClosedError after close.
        """
        if self._closed:
            raise ClosedError
        taken: list[bytes] = []
        bytes_left = bytes_max
        while len(taken) < count_max:
            try:
                size = self._front()
            except OSError as exc:
                if taken:
                    break  # what is in hand goes out; the next call tells
                raise self._read_error(exc) from exc
            if size is None or (taken and size > bytes_left):
                break
            bytes_left = self._take_from_chunk(taken, count_max, bytes_left, size)
        if taken:
            self._changed(len(taken))
            if self.depth == 0:
                self._check_drained()
        return taken

    def _take_from_chunk(self, taken: list[bytes], count_max: int, bytes_left: int, size: int) -> int:
        """Slice messages out of the chunk, the first of `size` bytes being certain; returns what `bytes_left` is
        then. Each is only taken when the length behind it is plausible too: a damaged length shows there."""
        chunk, base = self._chunk, self._chunk_at
        barrier = self._barrier() - base
        limit = min(len(chunk), barrier)
        size_min, size_max = self._size_min, self._read_size_max
        at = self._read_position - base
        before = len(taken)
        while True:
            stop = at + LENGTH_BYTES + size
            following = -1
            if stop + LENGTH_BYTES <= limit:
                following = length_at(chunk, stop)[0]
                if following < size_min or following > size_max or stop + LENGTH_BYTES + following > barrier:
                    break
            elif stop != barrier:
                break
            taken.append(chunk[at + LENGTH_BYTES : stop])
            bytes_left -= size
            at = stop
            size = following
            if size < 0 or size > bytes_left or len(taken) >= count_max or at + LENGTH_BYTES + size > limit:
                break
        self._read_position = base + at
        self._count_taken(len(taken) - before)
        return bytes_left

    def peek(self) -> bytes | None:
        """The message at the front, which stays there; None when nothing is left. Raises as `take` does."""
        if self._closed:
            raise ClosedError
        try:
            size = self._front()
        except OSError as exc:
            raise self._read_error(exc) from exc
        if size is None:
            return None
        start = self._read_position - self._chunk_at + LENGTH_BYTES
        return self._chunk[start : start + size]

    def _front(self) -> int | None:
        """The size of the message at the front, once its record is in the chunk and is certain: it ends where the
        file does, or before a plausible length. None when nothing is left. Raises OSError."""
        while True:
            if self._gap is not None and self._read_position == self._gap[0]:
                self._read_position = self._gap[1]
                self._gap = None
            position = self._read_position
            if self._read_file == self._write_file and position >= self._write_position:
                self._settle_counts(self._write_file)
                self._chunk, self._chunk_at = b"", 0
                return None
            try:
                if position >= self._barrier():
                    self._pass_file()
                    continue
                if not self._load(LENGTH_BYTES):
                    continue
                size: int = length_at(self._chunk, position - self._chunk_at)[0]
                stop = position + LENGTH_BYTES + size
                barrier = self._barrier()
                if not self._size_min <= size <= self._read_size_max or stop > barrier:
                    self._damaged(f"invalid message read size ({size})")
                    continue
                if not self._load(LENGTH_BYTES + size + (LENGTH_BYTES if stop < barrier else 0)):
                    continue
                if stop == barrier:
                    return size
                following = length_at(self._chunk, stop - self._chunk_at)[0]
                if self._size_min <= following <= self._read_size_max and stop + LENGTH_BYTES + following <= barrier:
                    return size
                self._damaged(f"invalid message read size ({following})")
            except FileNotFoundError:
                self._lose_file()

    def _barrier(self) -> int:
        """Where the chain of records that is being read has to end: the file's end, or a damaged stretch."""
        if self._gap is not None:
            return self._gap[0]
        if self._read_file == self._write_file:
            return self._write_position
        end = self._ends.get(self._read_file)
        if end is None:
            end = self._ends[self._read_file] = self._files.size(self._readable())
        return end

    def _readable(self) -> int:
        if self._read_fd is None:
            self._read_fd = self._open(self._path(self._read_file), os.O_RDONLY)
        return self._read_fd

    def _open(self, path: str, flags: int) -> int:
        budget = self._files.budget
        budget.opens(self)
        try:
            return self._files.open(path, flags)
        except OSError as exc:
            if exc.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            budget.release_all()
            return self._files.open(path, flags)

    def _load(self, size: int) -> bool:
        """See to it that `size` bytes from the read position on are in the chunk. False when the file ends before:
        then that was dealt with, and the caller looks again."""
        position = self._read_position
        at = position - self._chunk_at
        if at >= 0 and at + size <= len(self._chunk):
            return True
        left = self._barrier() - position
        if size <= left:
            want = min(max(size, READ_CHUNK_BYTES), left)
            chunk = self._files.read_at(self._readable(), want, position)
            while len(chunk) < size and (more := self._files.read_at(self._readable(), want, position + len(chunk))):
                chunk += more
            self._chunk, self._chunk_at = chunk, position
            if len(chunk) >= size:
                return True
        self._damaged("file ends within a record")
        return False

    def _damaged(self, what: str) -> None:
        """The record at the read position is in doubt: find out what of the file's rest is readable."""
        position, number = self._read_position, self._read_file
        self._gap = None
        end = self._barrier()
        data = read_fully(self._files, self._readable(), position, end)
        whole = walk(lambda size, at: data[at : at + size], 0, len(data), self._size_min, RECORD_SIZE_MAX)
        if whole.count and whole.stop == len(data) == end - position:
            # Every length leads to the next one and the last to the end: messages from a time when larger ones
            # were allowed.
            self._read_size_max = RECORD_SIZE_MAX
            return
        if number == self._write_file:
            self._roll()
        judged = diagnose(data, self._size_min, self._size_max, self._pattern)
        self._ends[number] = position + len(data)
        self._gap = (position + judged.lost_from, position + judged.resume)
        self._is_damaged = True
        logger.error(
            "disk queue damaged path=%s position=%d lost_bytes=%d reason=%s",
            *(self._path(number), self._gap[0], self._gap[1] - self._gap[0], what),
        )
        if self._counts and self._counts[0][0] == number and judged.next_doubt is None:
            left = int(judged.is_first_intact) + judged.count_after
            self._count_lost(self._counts[0][1] - left)
            self._counts[0][1] = left

    def _pass_file(self) -> None:
        """The read file was read to its end: go on to the next; it is removed once the meta file says so."""
        number = self._read_file
        name = data_file_name(self.name, number)
        if self._is_damaged:
            self._set_aside.append(name)
            self.bad_file_count += 1
        else:
            self._passed.append(name)
        self._forget_read_file()
        for file in self._written:
            if file.number == number and file.fd is not None:
                self._files.close_quietly(file.fd)  # nobody needs its bytes any more
        self._written = [file for file in self._written if file.number != number]
        self._ends.pop(number, None)
        self._settle_counts(number)
        self._read_file = number + 1
        self._read_position = 0
        self._want_sync()

    def _lose_file(self) -> None:
        """The read file is not there, by somebody's hand: go on with the next one that is."""
        number = self._read_file
        logger.error("disk queue file missing path=%s", self._path(number))
        if number == self._write_file:
            self._roll()
        numbers, _, _ = names_of_queue(self.name, self._names())
        self._pass_file()
        self._read_file = min((one for one in numbers if number < one < self._write_file), default=self._write_file)
        self._settle_counts(self._read_file - 1)

    def _forget_read_file(self) -> None:
        if self._read_fd is not None:
            self._files.close_quietly(self._read_fd)
            self._read_fd = None
        self._chunk, self._chunk_at = b"", 0
        self._gap = None
        self._is_damaged = False

    def _count_taken(self, count: int) -> None:
        if self._counts:
            known = min(count, self._counts[0][1])
            self._counts[0][1] -= known
            self.depth -= known

    def _count_lost(self, count: int) -> None:
        """`count` messages that were counted are not there; below 0, there are more than were counted."""
        self.depth -= count
        if count > 0:
            self.lost_count += count
            logger.error("disk queue lost messages queue=%s count=%d depth=%d", self.name, count, self.depth)

    def _settle_counts(self, number: int) -> None:
        """Everything up to file `number` was read: what was counted there and did not come is lost."""
        while self._counts and self._counts[0][0] <= number:
            count = self._counts.popleft()[1]
            if count:
                self._count_lost(count)

    def _check_drained(self) -> None:
        """All that was counted was taken. If there is more, the count was wrong (nsqd's may be): count again."""
        try:
            if self._front() is not None:
                place = (self._read_file, self._read_position)
                self._counts = deque([number, count] for number, count in self._recovery.count_from(place))
                self.depth = sum(count for _, count in self._counts)
                self.found_count += self.depth
        except OSError:
            pass  # the next call meets it again and tells

    def _read_error(self, exc: OSError) -> StorageError:
        return StorageError(f"cannot read {self._path(self._read_file)} at {self._read_position}: {exc.strerror}")

    # Syncing.

    @property
    def is_dirty(self) -> bool:
        """Whether something is not yet on the disk, or about to be."""
        return self._change_count > 0 or self._is_sync_wanted or self._job is not None

    def sync_due(self, now_ns: int) -> bool:
        """Whether `start_sync` has something to do: so many changes, so long ago, or a file to roll or remove."""
        if self._closed or self._job is not None or now_ns < self._retry_at_ns:
            return False
        if self._is_sync_wanted or self._change_count >= self._sync_every:
            return True
        return self._change_count > 0 and now_ns - self._changed_at_ns >= self._sync_timeout_ns

    def start_sync(self) -> None:
        """Begin to make the present state durable, on the worker. Does nothing while a sync is under way, or when
        the disk has everything."""
        if self._closed or self._job is not None or not self.is_dirty:
            return
        self._leave_finished_file()
        written = self._written
        if self._is_write_file_dirty and self._write_fd is not None:
            try:
                written = [*written, WrittenFile(self._write_file, self._files.dup(self._write_fd))]
            except OSError as exc:
                self._sync_failed(exc)
                return
        job = self._job = self._sync_job(written)
        self._written = []
        self._is_write_file_dirty = False
        self._is_sync_wanted = False
        self._change_count = 0
        self._background.submit(job.run, lambda error: self._synced(job, error))

    def _leave_finished_file(self) -> None:
        """nsqd would take a meta file that points at the end of a full file for damage."""
        if self._read_file < self._write_file and self._read_position == self._ends.get(self._read_file):
            self._pass_file()

    def _sync_job(self, written: list[WrittenFile]) -> SyncJob:
        return SyncJob(
            self.name,
            self._directory,
            self._files,
            self._fence,
            meta=Meta(self.depth, self._read_file, self._read_position, self._write_file, self._write_position),
            written=written,
            passed=list(self._passed),
            set_aside=list(self._set_aside),
        )

    def _synced(self, job: SyncJob, error: Exception | None) -> None:
        if self._job is job:
            self._job = None
        if job.generation != self._fence.generation:
            return  # emptied, deleted or closed meanwhile
        self._passed = [name for name in self._passed if name not in job.removed]
        self._set_aside = [name for name in self._set_aside if name not in job.removed]
        self._written = job.unsynced + self._written
        if error is not None:
            self._sync_failed(error)
        elif self._fence.data_error is None:
            self.sync_error = None

    def _sync_failed(self, error: Exception) -> None:
        """Say so, and try again when the timeout has passed; data that failed to sync stays an error for good."""
        self.sync_error = StorageError(f"cannot sync disk queue {self.name}: {error}")
        logger.error("disk queue not synced queue=%s error=%s", self.name, error)
        self._retry_at_ns = self._clock.monotonic_ns() + self._sync_timeout_ns
        self._is_sync_wanted = True

    def _changed(self, count: int) -> None:
        if self._change_count == 0:
            self._changed_at_ns = self._clock.monotonic_ns()
        self._change_count += count

    def _want_sync(self) -> None:
        self._is_sync_wanted = True

    # Ending.

    def release_descriptors(self, *, is_forced: bool = False) -> bool:
        """Close what an idle queue need not hold; returns whether nothing is held any more. What is closed opens
        again by itself. An unsynced file stays open, unless forced: then it is synced first, in this thread."""
        if self._read_fd is not None:
            self._files.close_quietly(self._read_fd)
            self._read_fd = None
        self._chunk, self._chunk_at = b"", 0
        if is_forced:
            self._limit_written(0)
            self._sync_write_file()
        if self._write_fd is not None and not self._is_write_file_dirty:
            self._files.close_quietly(self._write_fd)
            self._write_fd = None
        return self._write_fd is None and all(file.fd is None for file in self._written)

    def _sync_write_file(self) -> None:
        if self._write_fd is None or not self._is_write_file_dirty:
            return
        self._is_write_file_dirty = False
        try:
            self._files.sync_data(self._write_fd)
        except OSError as exc:
            self._fence.data_error = self._fence.data_error or exc
            self._sync_failed(exc)

    def empty(self) -> int:
        """Drop every message and remove all files, the meta file last; returns how many were dropped."""
        if self._closed:
            raise ClosedError
        dropped = self.depth
        self._fence.raise_wall()
        if self._has_files:
            self._remove_files()
        return dropped

    def delete(self) -> None:
        """Drop every message, remove all files, and close. Files that were set aside as .bad stay."""
        if self._closed:
            return
        self._fence.raise_wall()
        if self._has_files:
            self._remove_files()
        self._files.budget.forget(self)
        self._closed = True

    def _remove_files(self) -> None:
        if self._is_damaged:
            self._set_aside.append(data_file_name(self.name, self._read_file))
            self.bad_file_count += 1
        self._forget_read_file()
        for fd in [self._write_fd, *(file.fd for file in self._written)]:
            if fd is not None:
                self._files.close_quietly(fd)
        left: list[str] = []
        numbers, temporary, _ = names_of_queue(self.name, self._names())
        names = [data_file_name(self.name, number) for number in numbers]
        for name in [*names, meta_file_name(self.name), *temporary]:
            path = os.path.join(self._directory, name)
            try:
                if name in self._set_aside:
                    self._files.rename(path, f"{path}.bad")
                else:
                    self._files.unlink(path)
            except FileNotFoundError:
                pass
            except OSError as exc:
                logger.error("disk queue file not removed path=%s error=%s", path, exc)
                left.append(name)
        self.depth = 0
        self._counts.clear()
        self._ends.clear()
        self._read_file = self._write_file = self._write_file + 1
        self._read_position = self._write_position = 0
        self._write_fd = None
        self._is_write_file_dirty = False
        self._written = []
        self._set_aside = []
        # A file that would not go is below the read position: the next meta file says so, and it is tried again.
        self._passed = [name for name in left if name != meta_file_name(self.name)]
        self._is_sync_wanted = self._has_files = bool(left)
        self._change_count = 0
        self._fence.data_error = None
        self.sync_error = None
        self._background.submit(lambda: self._files.sync_directory(self._directory), self._directory_synced)

    def _directory_synced(self, error: Exception | None) -> None:
        if error is not None:
            logger.error("directory not synced after removal queue=%s error=%s", self.name, error)

    def close(self) -> None:
        """Sync everything, in this thread, and let go of the files. Raises StorageError when that fails."""
        if self._closed:
            return
        self._leave_finished_file()
        running = self._job
        is_dirty = self.is_dirty
        self._fence.raise_wall()
        self._closed = True
        written = self._written
        if self._write_fd is not None:
            if self._is_write_file_dirty:
                written = [*written, WrittenFile(self._write_file, self._write_fd)]
            else:
                self._files.close_quietly(self._write_fd)
            self._write_fd = None
        if running is not None:
            # What the worker has begun to sync is not yet known to be on the disk.
            written = written + [WrittenFile(file.number, None) for file in running.written]
        try:
            if is_dirty:
                self._sync_job(written).run()
        except OSError as exc:
            raise StorageError(f"cannot sync disk queue {self.name} at close: {exc.strerror}") from exc
        finally:
            self._forget_read_file()
            self._files.budget.forget(self)
        if self._fence.data_error is not None:
            reason = self._fence.data_error.strerror
            raise StorageError(f"disk queue {self.name} may lose messages, a sync of its data failed: {reason}")

    def _names(self) -> list[str]:
        return self._files.names_starting_with(self._directory, f"{self.name}.diskqueue.")

    def _path(self, number: int | None = None) -> str:
        number = self._write_file if number is None else number
        return os.path.join(self._directory, data_file_name(self.name, number))
