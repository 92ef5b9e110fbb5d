"""The files of all consume queues: few descriptors and few blocks in memory for any number of topics."""

import os
from collections import OrderedDict
from collections.abc import Container

from queue_engine.storage.disk.descriptor_cache import DescriptorCache
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.errors import StorageError

DESCRIPTORS_MAX = 32
BLOCKS_MAX = 64
# More files than these are synced with the whole file system: each of 10,000 topics has a file and a directory.
SYNC_FILES_MAX = 512
_SMALL_FILE_BYTES_MAX = 256 << 20
UNITS_SUFFIX = ".queue"
OLD_SUFFIX = ".old"


class QueueFiles:
    """Belongs to the engine's thread, but for `sync`. Caches the descriptors and blocks used last."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.descriptors = DescriptorCache(files, DESCRIPTORS_MAX)
        self._blocks: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._unsynced: dict[str, None] = {}

    # Reading.

    def read_block(self, path: str, at: int, size: int) -> bytes:
        """`size` bytes at `at`, fewer at the end of the file, none when there is no file. Raises StorageError."""
        block = self._blocks.get((path, at))
        if block is not None:
            self._blocks.move_to_end((path, at))
            return block
        try:
            block = self._files.read_at(self.descriptors.get(path, os.O_RDWR), size, at)
        except FileNotFoundError:
            return b""
        except OSError as exc:
            raise StorageError(f"{path} can't be read: {exc}") from exc
        if len(block) == size:
            # A block that is not full may grow.
            self._blocks[path, at] = block
            if len(self._blocks) > BLOCKS_MAX:
                self._blocks.popitem(last=False)
        return block

    def read_small(self, path: str) -> bytes:
        """All bytes of a file, none when there is no file. Raises StorageError."""
        try:
            return self._files.read_whole(path, _SMALL_FILE_BYTES_MAX) or b""
        except OSError as exc:
            raise StorageError(f"{path} can't be read: {exc}") from exc

    def size_of(self, path: str) -> int | None:
        """Bytes of a file; None when there is none. Raises StorageError."""
        try:
            return self._files.size_of(path)
        except OSError as exc:
            raise StorageError(f"{path} can't be read: {exc}") from exc

    # Writing. All raise OSError.

    def write(self, path: str, data: bytes, at: int) -> None:
        try:
            fd = self.descriptors.get(path, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:
            self._files.make_directory(os.path.dirname(path))
            fd = self.descriptors.get(path, os.O_RDWR | os.O_CREAT)
        self._forget_blocks(path, at, at + len(data))
        self._unsynced[path] = None
        self._files.write_all(fd, data, at)

    def truncate(self, path: str, size: int) -> None:
        try:
            fd = self.descriptors.get(path, os.O_RDWR)
        except FileNotFoundError:
            return
        self._forget_blocks(path, size, None)
        if self._files.size(fd) > size:
            self._unsynced[path] = None
            self._files.truncate(fd, size)

    def replace_small(self, path: str, data: bytes) -> None:
        """Make a file hold exactly `data`."""
        self.descriptors.close(path)
        self._forget_blocks(path, 0, None)
        self._files.replace(path, data)

    def remove(self, path: str) -> None:
        self.descriptors.close(path)
        self._forget_blocks(path, 0, None)
        self._unsynced.pop(path, None)
        try:
            self._files.unlink(path)
        except FileNotFoundError:
            pass

    def remove_all(self, directory: str) -> None:
        """Remove a directory and the files in it."""
        try:
            names = self._files.listdir(directory)
        except FileNotFoundError:
            return
        for name in names:
            self.remove(os.path.join(directory, name))
        self._files.remove_directory(directory)

    def remove_tree(self, directory: str, keep: Container[str] = ()) -> None:
        """Remove the directories of all queues but those named in `keep`."""
        for name in self._names(directory):
            if name not in keep:
                self.remove_all(os.path.join(directory, name))

    def rename_to_old(self, directory: str) -> None:
        """Rename the files of units in a queue's directory to `.old`, and remove the rest of it. Repeating this after a
        crash gives the same: a newer file never replaces an `.old` one."""
        names = self._names(directory)
        rest: list[str] = []
        for name in names:
            path = os.path.join(directory, name)
            if name.endswith(OLD_SUFFIX):
                continue
            if name.endswith(UNITS_SUFFIX) and name + OLD_SUFFIX not in names:
                self.descriptors.close(path)
                self._forget_blocks(path, 0, None)
                self._files.rename(path, path + OLD_SUFFIX)
            else:
                rest.append(path)
        if rest:
            # A power cut must not bring the units back without the due times: a start would not notice the loss.
            self._files.sync_directory(directory)
        for path in rest:
            self.remove(path)

    def has_old(self, directory: str) -> bool:
        """Whether a queue's directory has `.old` files. Raises OSError."""
        return any(name.endswith(OLD_SUFFIX) for name in self._names(directory))

    def remove_old(self, directory: str) -> None:
        """Remove the `.old` files in a queue's directory."""
        for name in self._names(directory):
            if name.endswith(OLD_SUFFIX):
                self.remove(os.path.join(directory, name))

    def _names(self, directory: str) -> list[str]:
        try:
            return self._files.listdir(directory)
        except FileNotFoundError:
            return []

    # Syncing.

    def take_unsynced(self) -> list[str]:
        """The files written since the last call, for `sync`."""
        taken, self._unsynced = list(self._unsynced), {}
        return taken

    def sync(self, paths: list[str]) -> None:
        """Make these files and their names durable; for the worker. Raises OSError."""
        if len(paths) > SYNC_FILES_MAX:
            self._files.sync_file_system(os.path.dirname(paths[0]))
            return
        for path in paths:
            try:
                fd = self._files.open(path, os.O_RDWR)
            except FileNotFoundError:
                continue  # it was removed meanwhile
            try:
                self._files.sync_data(fd)
            finally:
                self._files.close(fd)
        for directory in sorted({os.path.dirname(path) for path in paths}):
            try:
                self._files.sync_directory(directory)
            except FileNotFoundError:
                continue

    def close(self) -> None:
        self.descriptors.close_all()
        self._blocks.clear()

    def _forget_blocks(self, path: str, start: int, end: int | None) -> None:
        for key in [
            key
            for key, block in self._blocks.items()
            if key[0] == path and (end is None or key[1] < end) and key[1] + len(block) > start
        ]:
            del self._blocks[key]
