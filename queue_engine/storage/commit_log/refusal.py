"""Why the commit log takes no records: it is not open, the disk is full, it has failed, or it is closed."""

import errno
import logging

from queue_engine.storage.commit_log.open_segment import is_passing
from queue_engine.storage.commit_log.options import LogOptions
from queue_engine.storage.commit_log.segment import LogSegments
from queue_engine.vocabulary.byte_sizes import byte_count
from queue_engine.vocabulary.clock import NS_PER_S, Clock
from queue_engine.vocabulary.errors import NoRoomError, StorageError

logger = logging.getLogger(__name__)

PROBE_INTERVAL_NS = NS_PER_S


class Refusal:
    """Whether and why one log refuses records. Belongs to the engine's thread, but for `check_room`.

    text: the reason that a publish gets; None while records are taken. is_full: the disk has no room, for now.
    refused_bytes: the size of the record or group that found no room. error: the error that stopped the log for
    good.
    """

    __slots__ = (
        "_clock",
        "_is_closed",
        "_options",
        "_probe_at_ns",
        "_segments",
        "error",
        "is_full",
        "refused_bytes",
        "text",
    )

    def __init__(self, segments: LogSegments, options: LogOptions, clock: Clock) -> None:
        self._segments = segments
        self._options = options
        self._clock = clock
        self.text: str | None = "commit log: not open"
        self.is_full = False
        self.refused_bytes = 0
        self.error: StorageError | None = None
        self._probe_at_ns = 0
        self._is_closed = False

    def exception(self) -> StorageError:
        """The error that a publish gets now."""
        assert self.text is not None
        return NoRoomError(self.text) if self.is_full else StorageError(self.text)

    def end(self) -> None:
        """Records are taken again, unless the log is closed."""
        self.is_full = False
        self.text = "commit log: closed" if self._is_closed else None

    def close(self) -> None:
        """Refuse all records from now on; an earlier reason stays."""
        self._is_closed = True
        self.text = self.text or "commit log: closed"

    def fail(self, error: Exception, position: int) -> StorageError:
        """Refuse for good, because of `error`; the log keeps its records before `position`. Returns the error that
        every later publish gets."""
        logger.error("commit log failed position=%d error=%s", position, error)
        self.text = f"commit log: takes nothing more until the next start: {error}"
        self.error = StorageError(self.text)
        self.error.__cause__ = error
        self.is_full = False
        return self.error

    # A full disk.

    def fill_up(self, error: Exception, refused_bytes: int, position: int) -> None:
        """Refuse, since the disk had no room for `refused_bytes` at `position`, and probe it in a second."""
        was_full, self.is_full = self.is_full, True
        self.refused_bytes = refused_bytes
        self.refuse(error)
        if not was_full:
            logger.warning(
                "commit log refuses for want of room position=%d directory=%s: %s error=%s",
                position, self._segments.directory, self.text, error,
            )  # fmt: skip

    def refuse(self, error: Exception) -> None:
        """Give `error` as the reason, and probe the disk in a second."""
        self._probe_at_ns = self._clock.monotonic_ns() + PROBE_INTERVAL_NS
        goes_on = "Finishing, emptying and deleting go on; publishing goes on by itself once there is room"
        if not is_disk_full(error):
            self.text = f"publish refused: {error}. Nothing was stored. {goes_on}."
            return
        files, directory = self._segments.files, self._segments.directory
        try:
            free, total = files.free_bytes(directory), files.total_bytes(directory)
        except OSError:
            how_full = ""
        else:
            how_full = f" ({byte_count(free)} of {byte_count(total)} free)"
        if self._options.room_bytes_min:
            goes_on += f" ({byte_count(self._options.room_bytes_min)})"
        self.text = f"publish refused, the disk is full{how_full}. Nothing was stored. {goes_on}."

    def is_probe_due(self, now_ns: int) -> bool:
        """Whether it is time to try again if the disk has room. now_ns: monotonic."""
        return self.is_full and now_ns >= self._probe_at_ns

    def check_room(self) -> None:
        """Raises OSError when less is free than `room_bytes_min`. For any thread."""
        wanted = self._options.room_bytes_min
        free = self._segments.files.free_bytes(self._segments.directory) if wanted else 0
        if free < wanted:
            raise OSError(errno.ENOSPC, f"{byte_count(free)} are free, {byte_count(wanted)} must be")


def is_disk_full(error: Exception) -> bool:
    """Whether `error` says that the disk or a quota has no room."""
    cause = error if isinstance(error, OSError) else error.__cause__
    return isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT) and is_passing(error)
