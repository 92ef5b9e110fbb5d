"""A disk queue whose files can't be read: new messages go to a new file behind them, and no other file is changed.

So its directory looks as after a kill, with data files that the meta file does not know yet. Once the files can be
read, `DiskQueue` opens all of them, in order.
"""

from typing import Any

from queue_engine.storage.disk.files import is_no_fault_of_disk
from queue_engine.storage.disk_queue.fifo.disk_queue import DiskQueue
from queue_engine.storage.disk_queue.fifo.disk_queue_recovery import RecoveredDiskQueue
from queue_engine.storage.disk_queue.fifo.format import Meta
from queue_engine.storage.disk_queue.fifo.sync import SyncJob, WrittenFile
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.faults import describe


class UnreadDiskQueue(DiskQueue):
    """reason: why it can't be read. Messages can be put, but not taken until `empty` has removed the files.

    `depth` counts the messages put since; the number before them is unknown.
    """

    def __init__(self, reason: StorageError, *args: Any, **kwargs: Any) -> None:
        self.reason = reason
        self.is_readable = False
        super().__init__(*args, **kwargs)

    def _recovered(self) -> RecoveredDiskQueue:
        return self._recovery.behind_all()

    def take_into(self, taken: list[bytes], count_max: int, bytes_max: int) -> None:
        if not self.is_readable:
            raise self.reason
        super().take_into(taken, count_max, bytes_max)

    def peek(self) -> bytes | None:
        if not self.is_readable:
            raise self.reason
        return super().peek()

    def place(self) -> tuple[Meta, dict[int, int | None]]:
        if not self.is_readable:
            raise self.reason
        return super().place()

    def _sync_job(self, written: list[WrittenFile]) -> SyncJob:
        job = super()._sync_job(written)
        if not self.is_readable:
            job.leave_meta()
        return job

    def _remove_files(self) -> None:
        super()._remove_files()
        self.is_readable = not self._has_files


def reason_of(name: str, error: Exception) -> StorageError:
    """Why queue `name` can't be read. Raises `error` when it is not a fault of the disk, such as too few
    descriptors."""
    if is_no_fault_of_disk(error):
        raise error
    if isinstance(error, StorageError):
        return error
    reason = StorageError(f"opening disk queue {name} failed unexpectedly: {describe(error)}; nothing was changed")
    reason.__cause__ = error
    return reason
