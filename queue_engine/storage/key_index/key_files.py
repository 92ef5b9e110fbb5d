"""Reads the files of all topics' keys through few descriptors, and writes and removes them on the worker thread."""

import errno
import os
from collections.abc import Iterable

from queue_engine.storage.disk.descriptor_cache import DescriptorCache
from queue_engine.storage.disk.files import Files

DESCRIPTORS_MAX = 16
# A derived file is not written while the disk has less room: the log and the journal need the rest.
ROOM_BYTES_MIN = 16 << 20


class KeyFiles:
    """Reading belongs to the engine's thread, `write` and the removals to the worker."""

    def __init__(self, directory: str, files: Files) -> None:
        self.directory = directory
        self.files = files
        self.descriptors = DescriptorCache(files, DESCRIPTORS_MAX)

    def names(self, directory: str) -> list[str]:
        """The names in a directory, none when there is none. Raises OSError."""
        try:
            return self.files.listdir(directory)
        except FileNotFoundError:
            return []

    def read(self, path: str, at: int, size: int) -> bytes:
        """Bytes of a file, fewer at its end. Raises OSError."""
        return self.files.read_at(self.descriptors.get(path, os.O_RDONLY), size, at)

    def write(self, path: str, content: bytes) -> None:
        """Make a file, durably. Raises OSError."""
        directory = os.path.dirname(path)
        self.files.make_directory(directory)
        if self.files.free_bytes(directory) < ROOM_BYTES_MIN + len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        self.files.replace(path, content)

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files that may be gone already. Raises OSError."""
        for path in paths:
            try:
                self.files.unlink(path)
            except FileNotFoundError:
                pass

    def remove_directory(self, directory: str) -> None:
        """Remove a topic's directory with all that is in it. Raises OSError."""
        names = self.names(directory)
        self.remove(os.path.join(directory, name) for name in names)
        try:
            self.files.remove_directory(directory)
        except FileNotFoundError:
            pass
