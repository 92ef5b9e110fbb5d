"""One disk queue in a backup: its files as of one moment, and behind them its messages in memory."""

from collections.abc import Callable, Sequence

from queue_engine.storage.disk.backup_files import Staging
from queue_engine.storage.disk.files import Files
from queue_engine.storage.disk_queue.fifo.disk_queue import DiskQueue
from queue_engine.storage.disk_queue.fifo.format import data_file_name, meta_file_name
from queue_engine.vocabulary.run import Run


class UnsyncedFiles(Files):
    """For files that need not survive a crash."""

    def sync(self, fd: int) -> None:
        """Nothing."""

    def sync_data(self, fd: int) -> None:
        """Nothing."""


class QueueCopy:
    """open_queue: opens the queue of a name in a directory, for this copy alone."""

    def __init__(self, disk: DiskQueue, runs: Sequence[Run], open_queue: Callable[[str, str], DiskQueue]) -> None:
        self._name = disk.name
        self._runs = runs
        self._open_queue = open_queue
        self._meta, self._lengths = disk.place()
        self._linked: list[str] = []

    def stage(self, staging: Staging) -> None:
        """Link the data files, on the engine's thread, while nothing else writes. Raises OSError."""
        for number, length in self._lengths.items():
            name = data_file_name(self._name, number)
            try:
                staging.link(name, length)
            except FileNotFoundError:
                continue  # nothing was written to it yet
            self._linked.append(name)

    def write(self, staging: Staging) -> None:
        """Write the messages in memory behind them, afterwards and on any thread. Raises OSError or StorageError."""
        staging.write(meta_file_name(self._name), self._meta.encode())
        if not self._runs:
            return
        for name in self._linked:
            # Messages that are appended to the copy must not reach the server's own file.
            staging.part(name)
        queue = self._open_queue(self._name, staging.files_path)
        for run in self._runs:
            queue.put(*run.stored_records())
        queue.close()
        staging.note(meta_file_name(self._name))
        for number in range(self._meta.write_file, queue.place()[0].write_file + 1):
            staging.note(data_file_name(self._name, number))
