"""A segment that the commit log writes to: its descriptors, and which thread writes where.

Two threads write to one file. The writer puts records behind each other; the filler puts zeros ahead of them, so
that a sync of records finds its blocks allocated and the file's size unchanged. Neither writes over the other: the
writer claims its range first, the filler begins behind all claimed ranges, and a writer that has caught up with the
filler waits for the end of the filler's step.

Each has a descriptor of its own, by an `open` of its own: the system reports an error of writing back once per open
file, so a sync by one of them can't take an error from the other.
"""

import errno
import os
import threading

from queue_engine.storage.commit_log.segment import SegmentInfo
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.errors import StorageError

# The disk, a quota or the process has no room for now: that passes, and stored bytes are not affected.
_PASSING_ERRORS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM, errno.EMFILE, errno.ENFILE},
)

FILL_STEP_BYTES = 1 << 20
_ZEROS = bytes(FILL_STEP_BYTES)


class UnsyncedError(StorageError):
    """A sync or a close failed: written bytes may not be on the disk, and the system reports that only once.

    Final, whatever the cause: a second sync of the same descriptor succeeds without writing them.
    """


def is_passing(error: Exception) -> bool:
    """Whether an operation that failed with `error` may be tried again later."""
    if isinstance(error, UnsyncedError):
        return False
    cause = error if isinstance(error, OSError) else error.__cause__
    return isinstance(cause, OSError) and cause.errno in _PASSING_ERRORS


class OpenSegment:
    """The file of one segment; all positions are positions in the log.

    `write`, `take_back`, `sync` and `close` belong to the log's writer, one thread at a time; `fill` may run beside
    them. Errors are the system's own OSError, but UnsyncedError for a sync or close.
    """

    def __init__(self, info: SegmentInfo, files: Files) -> None:
        """Raises OSError; then no descriptor stays open."""
        self.info = info
        self.start = info.start  # where the first record goes
        self.stop = info.position + info.segment_bytes
        self._files = files
        self._fd = files.open(info.path, os.O_RDWR)
        try:
            self._fill_fd = files.open(info.path, os.O_RDWR)
        except OSError:
            files.close_quietly(self._fd)
            raise
        self._touched_end = self.start  # the writer wrote no byte behind it, zeros apart
        self._claimed_end = self.start
        self.filled_end = self.start
        self._filling_from: int | None = None
        self._claims = threading.Lock()  # guards the three above; never held during an operation of the system
        self._step = threading.Lock()  # held while zeros are written
        self._filler = threading.Lock()  # held while the filler uses its descriptor
        self._is_closed = False

    def write(self, data: bytes, position: int, *, is_last: bool) -> None:
        """Put records at `position`. is_last: the segment is sealed by them.

        Raises OSError; then part of the data may be in the file, until `take_back`.
        """
        end = position + len(data)
        assert self.start <= position
        assert end <= self.stop
        with self._claims:
            self._claimed_end = max(self._claimed_end, self.stop if is_last else end)
            meets_filler = self._filling_from is not None and end > self._filling_from
        if meets_filler:
            with self._step:
                pass
        view = memoryview(data)
        written = 0
        while written < len(data):
            # A short write is no error yet: the next call goes on, or raises the reason.
            step = self._write_at(view[written:], position + written)
            written += step
            self._touched_end = max(self._touched_end, position + written)

    def take_back(self, end: int) -> None:
        """Put zeros over all bytes written behind `end`, the end of the valid records. Not synced.

        Raises OSError; call it again before anything else is written to the segment.
        """
        end = max(end, self.start)
        while self._touched_end > end:
            start = max(end, self._touched_end - FILL_STEP_BYTES)
            self._zero(start, self._touched_end)
            self._touched_end = start
        with self._claims:
            self._claimed_end = end

    def sync(self) -> None:
        """Sync all written records. Raises UnsyncedError."""
        self._sync(self._fd)

    def has_room_ahead(self, end: int) -> bool:
        """Whether zeros reach up to `end`, or to the end of the segment."""
        return self.filled_end >= min(end, self.stop)

    def fill(self, size_max: int) -> None:
        """Put zeros behind all claimed and filled ranges, at most `size_max` bytes, and sync them.

        size_max: at most FILL_STEP_BYTES. Raises OSError; zeros written in part do no harm.
        """
        with self._filler:
            if self._is_closed:
                return
            with self._step:
                with self._claims:
                    start = max(self.filled_end, self._claimed_end)
                    stop = min(start + size_max, self.stop)
                    if start < stop:
                        self._filling_from = start
                try:
                    if start < stop:
                        self._fill(start, stop)
                        self.filled_end = stop
                finally:
                    with self._claims:
                        self._filling_from = None
            if start < stop:
                self._sync(self._fill_fd)

    def give_back_room(self, end: int) -> None:
        """Cut the file behind `end` and behind all filled and claimed ranges; after an error it only stays longer."""
        with self._filler:
            if self._is_closed:
                return
            with self._claims:
                end = max(end, self.filled_end, self._claimed_end, self._touched_end)
            self._truncate_quietly(end)

    def cut_off(self, end: int) -> None:
        """Cut off the zeros behind the seal, which ends at `end`. They are never read: an error does no harm."""
        with self._filler:
            self._truncate_quietly(end)

    def close(self) -> None:
        """Close both descriptors, after the filler's step under way. Raises UnsyncedError."""
        with self._filler:
            if self._is_closed:
                return
            self._is_closed = True
            try:
                try:
                    self._files.close(self._fd)
                finally:
                    self._files.close(self._fill_fd)
            except OSError as exc:
                raise UnsyncedError(f"{self.info.path}: close: {exc.strerror}") from exc

    def close_quietly(self) -> None:
        """Close a segment that is unused, or of a failed log: an error changes nothing."""
        try:
            self.close()
        except UnsyncedError:
            pass

    def _sync(self, fd: int) -> None:
        try:
            self._files.sync_data(fd)
        except OSError as exc:
            raise UnsyncedError(f"{self.info.path}: sync: {exc.strerror}") from exc

    def _fill(self, start: int, stop: int) -> None:
        view = memoryview(_ZEROS)[: stop - start]
        base = self.info.position
        self._files.write_all(self._fill_fd, view, start - base)

    def _zero(self, start: int, stop: int) -> None:
        while start < stop:
            start += self._write_at(memoryview(_ZEROS)[: stop - start], start)

    def _write_at(self, view: memoryview, position: int) -> int:
        written = self._files.write_at(self._fd, view, position - self.info.position)
        if written <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return written

    def _truncate_quietly(self, end: int) -> None:
        try:
            self._files.truncate(self._fd, end - self.info.position)
        except OSError:
            pass
