"""Reads a disk queue's messages front to back, as the server would deliver them, and changes nothing on the disk."""

from collections.abc import Callable, Iterator

from queue_engine.storage.disk.files import Files
from queue_engine.storage.disk_queue.fifo.disk_queue import DiskQueue
from queue_engine.storage.disk_queue.fifo.format import RECORD_SIZE_MAX
from queue_engine.storage.disk_queue.fifo.options import DiskQueueOptions
from queue_engine.vocabulary.clock import SystemClock
from queue_engine.vocabulary.message import STORED_HEADER_BYTES, STORED_MESSAGE_START

TAKEN_AT_ONCE = 1_000
BYTES_AT_ONCE = 4 << 20


class _NoBackground:
    """Drops every job: a queue that is only looked at syncs, renames and removes nothing."""

    def submit(self, job: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        """Nothing."""


class QueueLook:
    """One look at the queue `name` of a directory that no process uses. Raises StorageError when it can't be read."""

    def __init__(self, name: str, directory: str, largest_msg_size: int) -> None:
        """largest_msg_size: bytes; a longer record is taken for damage, unless the lengths lead to the file's end."""
        self.name = name
        options = DiskQueueOptions(
            max_bytes_per_file=RECORD_SIZE_MAX,
            message_bytes_min=STORED_HEADER_BYTES,
            message_bytes_max=STORED_HEADER_BYTES + largest_msg_size,
            sync_every=1,
            sync_timeout_ms=1,
            pattern=STORED_MESSAGE_START,
        )
        self._queue = DiskQueue(
            name, directory, options, files=Files(), background=_NoBackground(), clock=SystemClock()
        )
        self.depth = self._queue.depth
        """The number of messages at the beginning, as counted before all are read."""

    def messages(self) -> Iterator[bytes]:
        """All messages as they are stored (`vocabulary/message.py` draws them); once."""
        while taken := self._queue.take(TAKEN_AT_ONCE, BYTES_AT_ONCE):
            yield from taken

    @property
    def damaged_files(self) -> list[str]:
        """Names of the files of which a part could not be read, so far."""
        return self._queue.damaged_files

    def close(self) -> None:
        self._queue.abandon()
