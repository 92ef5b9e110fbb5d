"""All readers of a log: leases and pipeline cursors as one."""

from collections.abc import Iterable

from queue_engine.storage.disk.background import Background
from queue_engine.storage.disk.files import Files
from queue_engine.storage.readers.cursors import Cursors
from queue_engine.storage.readers.leases import Leases
from queue_engine.vocabulary.clock import Clock
from queue_engine.vocabulary.errors import StorageError


class Readers:
    """All readers of one log. Belongs to the engine's thread."""

    def __init__(
        self, directory: str, *, files: Files, clock: Clock, worker: Background, cursor_limit_bytes: int
    ) -> None:
        """cursor_limit_bytes: how much of the log one cursor may keep, 0 for no limit."""
        self.leases = Leases(directory, files=files, clock=clock, worker=worker)
        self.cursors = Cursors(directory, files=files, clock=clock, worker=worker, limit_bytes=cursor_limit_bytes)
        self._kinds = (self.leases, self.cursors)

    def open(self, topic_numbers: Iterable[int]) -> tuple[str, ...]:
        """Read the files. Returns the path of each that was damaged and is set aside, else "". Raises OSError."""
        return tuple(kind.open(topic_numbers) for kind in self._kinds)

    def __len__(self) -> int:
        return len(self.leases) + len(self.cursors)

    @property
    def are_readable(self) -> bool:
        """Whether all files could be read."""
        return all(kind.unread is None for kind in self._kinds)

    @property
    def error(self) -> StorageError | None:
        """Why a file differs from memory; None when all agree, or will with the writes under way."""
        return self.leases.error or self.cursors.error

    def least_offset(self, topic_number: int) -> int | None:
        """The first offset of a topic that a reader needs; None when there is no reader."""
        lease, cursor = self.leases.least_offset(topic_number), self.cursors.least_offset(topic_number)
        if lease is None or cursor is None:
            return cursor if lease is None else lease
        return min(lease, cursor)

    def forget_topic(self, topic_number: int, end_offset: int) -> None:
        """The topic was deleted; it ended at `end_offset`."""
        self.leases.forget_topic(topic_number)
        self.cursors.forget_topic(topic_number, end_offset)

    def tick(self) -> None:
        """End expired readers; write again, or read again, the files that the disk refused."""
        for kind in self._kinds:
            kind.tick()

    def close(self) -> None:
        """Write unwritten changes, in this thread. Raises OSError."""
        for kind in self._kinds:
            kind.close()
