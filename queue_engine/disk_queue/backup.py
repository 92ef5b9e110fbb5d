"""One disk queue in a backup: its files as they are at the moment, and behind them what it has in memory."""

from collections.abc import Callable, Sequence

from queue_engine.disk.backup_files import Staging
from queue_engine.disk.files import Files
from queue_engine.disk_queue.disk_queue import DiskQueue
from queue_engine.disk_queue.format import data_file_name, meta_file_name
from queue_engine.vocabulary.run import Run


class UnsyncedFiles(Files):
    """For files that nobody needs after a crash."""

    def sync(self, fd: int) -> None:
        """Nothing."""

    def sync_data(self, fd: int) -> None:
        """Nothing."""


class QueueCopy:
    """open_queue: opens the queue of a name in a directory, for this alone."""

    def __init__(self, disk: DiskQueue, runs: Sequence[Run], open_queue: Callable[[str, str], DiskQueue]) -> None:
        self._name = disk.name
        self._runs = runs
        self._open_queue = open_queue
        self._meta, self._lengths = disk.place()
        self._linked: list[str] = []

    def stage(self, staging: Staging) -> None:
        """At the moment itself, on the engine's thread: the data files get a second name. Raises OSError."""
        for number, length in self._lengths.items():
            name = data_file_name(self._name, number)
            try:
                staging.link(name, length)
            except FileNotFoundError:
                continue  # nothing was written to it yet
            self._linked.append(name)

    def write(self, staging: Staging) -> None:
        """Afterwards, on any thread: the rest. Raises OSError or StorageError."""
        staging.write(meta_file_name(self._name), self._meta.encode())
        if not self._runs:
            return
        for name in self._linked:
            # What is written behind must not reach the server's own file.
            staging.part(name)
        queue = self._open_queue(self._name, staging.files_path)
        for run in self._runs:
            queue.put(*run.stored_records())
        queue.close()
        staging.note(meta_file_name(self._name))
        for number in range(self._meta.write_file, queue.place()[0].write_file + 1):
            staging.note(data_file_name(self._name, number))
