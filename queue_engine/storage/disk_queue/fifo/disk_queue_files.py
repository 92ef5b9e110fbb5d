"""One disk queue's files by number: their paths, and opening them within the budget of descriptors."""

import errno
import os

from queue_engine.storage.disk.descriptors import DescriptorHolder
from queue_engine.storage.disk.files import Files
from queue_engine.storage.disk_queue.fifo.format import data_file_name, names_of_queue


class DiskQueueFiles:
    """The files that reader, writer and queue share. holder: gives descriptors back when other queues need them."""

    def __init__(self, name: str, directory: str, files: Files, holder: DescriptorHolder) -> None:
        self.name = name
        self.directory = directory
        self.files = files
        self._holder = holder

    def path(self, number: int) -> str:
        return os.path.join(self.directory, data_file_name(self.name, number))

    def numbers(self) -> list[int]:
        """The numbers of the data files that there are, ascending."""
        names = self.files.names_starting_with(self.directory, f"{self.name}.diskqueue.")
        return names_of_queue(self.name, names)[0]

    def open(self, number: int, flags: int) -> int:
        """A descriptor of a data file. When the process has none left, idle queues give theirs back first."""
        budget = self.files.budget
        budget.opens(self._holder)
        try:
            return self.files.open(self.path(number), flags)
        except OSError as exc:
            if exc.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            budget.release_all()
            return self.files.open(self.path(number), flags)
