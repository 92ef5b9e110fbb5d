"""A disk in memory that gives its content after the end of the process, or after a power cut.

What is written lies in the cache until its file is synced; what is created, renamed or removed, until its directory
is. `after_kill` keeps the cache. `after_power_cut` keeps what was synced, and a random part of the rest: each
write whole, not at all, or some of its sectors; each change of a name or not. So writes are lost, torn and out of
order, as on a disk. Directories themselves are there as soon as they are made.
"""

import errno
import os
from collections.abc import Callable, Mapping
from random import Random
from typing import Self

from queue_engine.storage.disk.files import Files

SECTOR_BYTES = 512

_Change = tuple[str, int, bytes]  # "write", position, data; "truncate", size, b""
_NameChange = tuple[str, str, "Inode | None"]  # path, its new file or None; a rename is two of them at once


class Inode:
    """A file's content: in the cache, on the disk, and what leads from this to that."""

    __slots__ = ("cached", "changes", "durable")

    def __init__(self, content: bytes = b"") -> None:
        self.cached = bytearray(content)
        self.durable = bytes(content)
        self.changes: list[_Change] = []

    def change(self, change: _Change) -> None:
        self.changes.append(change)
        _apply(self.cached, change)

    def sync(self) -> None:
        if self.changes:
            content = bytearray(self.durable)
            for change in self.changes:
                _apply(content, change)
            self.durable = bytes(content)
            self.changes.clear()

    def fail_to_sync(self, rng: Random) -> None:
        """Chance decides what came to the disk. The rest stays in the cache, and no later sync writes it."""
        self.durable = self.survivor(rng)
        self.changes.clear()

    def survivor(self, rng: Random) -> bytes:
        """The disk's content after a power cut."""
        if not self.changes:
            return self.durable
        content = bytearray(self.durable)
        keep = rng.random()  # some cuts come early, others late
        for change in self.changes:
            if rng.random() >= keep:
                continue
            kind, at, data = change
            if kind == "write" and rng.random() < 0.3:
                for start, part in _sectors(at, data):
                    if rng.random() < 0.6:
                        _apply(content, ("write", start, part))
            else:
                _apply(content, change)
        return bytes(content)


def _apply(content: bytearray, change: _Change) -> None:
    kind, at, data = change
    if kind == "truncate":
        if at < len(content):
            del content[at:]
        else:
            content.extend(bytes(at - len(content)))
        return
    if at > len(content):
        content.extend(bytes(at - len(content)))
    content[at : at + len(data)] = data


def _sectors(at: int, data: bytes) -> list[tuple[int, bytes]]:
    parts: list[tuple[int, bytes]] = []
    done = 0
    while done < len(data):
        step = min(len(data) - done, SECTOR_BYTES - (at + done) % SECTOR_BYTES)
        parts.append((at + done, data[done : done + step]))
        done += step
    return parts


class SimulatedFiles(Files):
    """`Files` on such a disk.

    before_operation: called with the name of every operation that changes something, before it does; it may raise
    OSError. bytes_free: what may still be written beyond the files' present ends; None without end.
    """

    def __init__(self) -> None:
        super().__init__()
        self.before_operation: Callable[[str], None] = lambda operation: None
        self.bytes_free: int | None = None
        self.operations = 0
        self._names: dict[str, Inode] = {}
        self._durable_names: dict[str, Inode] = {}
        self._name_changes: dict[str, list[list[_NameChange]]] = {}  # by directory
        self._directories: set[str] = set()
        self._descriptors: dict[int, Inode] = {}
        self._next_descriptor = 1_000

    # What is left.

    def after_kill(self) -> Self:
        """The disk as the next process finds it when this one just ends: the cache outlives it."""
        return self._copy({path: (bytes(one.cached), one) for path, one in self._names.items()})

    def after_power_cut(self, rng: Random) -> Self:
        """The disk after a power cut now."""
        names = dict(self._durable_names)
        for changes in self._name_changes.values():
            keep = rng.random()
            for change in changes:
                if rng.random() < keep:
                    for path, inode in change:
                        if inode is None:
                            names.pop(path, None)
                        else:
                            names[path] = inode
        return self._copy({path: (one.survivor(rng), None) for path, one in names.items()})

    def _copy(self, contents: dict[str, tuple[bytes, Inode | None]]) -> Self:
        copy = type(self)()
        copy._directories = set(self._directories)
        for path, (content, inode) in contents.items():
            one = Inode(content)
            if inode is not None:
                # Killed, not cut off: what was not synced still is not.
                one.durable = inode.durable
                one.changes = list(inode.changes)
            copy._names[path] = one
            # A name that outlived the removal of its directory keeps that, too: a real one is removed after it.
            copy.make_directory(os.path.dirname(path))
            if inode is None or self._durable_names.get(path) is inode:
                copy._durable_names[path] = one
            else:
                if path in self._durable_names:
                    # Replaced, but not durably.
                    copy._durable_names[path] = self._durable_names[path]
                copy._note_names([(path, one)])
        if any(inode is not None for _, inode in contents.values()):
            for path in self._durable_names.keys() - self._names.keys():
                # Removed, but not durably.
                copy._durable_names[path] = self._durable_names[path]
                copy._note_names([(path, None)])
        return copy

    @classmethod
    def holding(cls, contents: Mapping[str, bytes]) -> Self:
        """A disk with these files, all of them durable."""
        return cls()._copy({path: (content, None) for path, content in contents.items()})

    def contents(self) -> dict[str, bytes]:
        return {path: bytes(one.cached) for path, one in sorted(self._names.items())}

    # Files, by path.

    def _begin(self, operation: str) -> None:
        self.operations += 1
        self.before_operation(operation)

    def _note_names(self, change: list[_NameChange]) -> None:
        self._name_changes.setdefault(os.path.dirname(change[0][0]), []).append(change)

    def open(self, path: str, flags: int) -> int:
        inode = self._names.get(path)
        if inode is None:
            if not flags & os.O_CREAT or os.path.dirname(path) not in self._directories:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            self._begin("create")
            inode = self._names[path] = Inode()
            self._note_names([(path, inode)])
        elif flags & os.O_TRUNC and inode.cached:
            self._begin("truncate")
            inode.change(("truncate", 0, b""))
        self._next_descriptor += 1
        self._descriptors[self._next_descriptor] = inode
        return self._next_descriptor

    def rename(self, source: str, target: str) -> None:
        self._begin("rename")
        inode = self._names.pop(source)
        self._names[target] = inode
        self._note_names([(source, None), (target, inode)])

    def unlink(self, path: str) -> None:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self._begin("unlink")
        del self._names[path]
        self._note_names([(path, None)])

    def size_of(self, path: str) -> int | None:
        inode = self._names.get(path)
        return None if inode is None else len(inode.cached)

    def free_bytes(self, directory: str) -> int:
        return 1 << 40 if self.bytes_free is None else self.bytes_free

    def modified_ns(self, path: str) -> int | None:
        return None if path not in self._names else 0

    def make_directory(self, path: str) -> None:
        while path and path not in self._directories:
            self._directories.add(path)
            path = os.path.dirname(path)

    def remove_directory(self, path: str) -> None:
        self._directories.discard(path)

    def listdir(self, directory: str) -> list[str]:
        if directory not in self._directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), directory)
        inside = [*self._names, *self._directories]
        return [os.path.basename(path) for path in inside if os.path.dirname(path) == directory and path != directory]

    def names_starting_with(self, directory: str, prefix: str) -> list[str]:
        return sorted(name for name in self.listdir(directory) if name.startswith(prefix))

    def sync_directory(self, directory: str) -> None:
        self._begin("sync_directory")
        for change in self._name_changes.pop(directory, []):
            for path, inode in change:
                if inode is None:
                    self._durable_names.pop(path, None)
                else:
                    self._durable_names[path] = inode

    def sync_file_system(self, directory: str) -> None:
        self._begin("sync_file_system")
        for inode in self._names.values():
            inode.sync()
        for changed in list(self._name_changes):
            self.sync_directory(changed)

    # Files, by descriptor.

    def read_at(self, fd: int, size: int, position: int) -> bytes:
        return bytes(self._descriptors[fd].cached[position : position + size])

    def write_at(self, fd: int, data: bytes | memoryview, position: int) -> int:
        self._begin("write")
        inode = self._descriptors[fd]
        content = bytes(data)
        if self.bytes_free is not None:
            room = max(0, len(inode.cached) - position) + self.bytes_free
            if room <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            content = content[:room]
            self.bytes_free -= max(0, position + len(content) - len(inode.cached))
        inode.change(("write", position, content))
        return len(content)

    def is_regular(self, fd: int) -> bool:
        return True

    def size(self, fd: int) -> int:
        return len(self._descriptors[fd].cached)

    def truncate(self, fd: int, size: int) -> None:
        self._begin("truncate")
        self._descriptors[fd].change(("truncate", size, b""))

    def sync(self, fd: int) -> None:
        self._begin("sync")
        self._descriptors[fd].sync()

    def sync_data(self, fd: int) -> None:
        self.sync(fd)

    def punch_hole(self, fd: int, position: int, size: int) -> None:
        self._begin("punch_hole")
        inode = self._descriptors[fd]
        size = min(size, len(inode.cached) - position)
        if size > 0:
            inode.change(("write", position, bytes(size)))

    def dup(self, fd: int) -> int:
        self._next_descriptor += 1
        self._descriptors[self._next_descriptor] = self._descriptors[fd]
        return self._next_descriptor

    def close(self, fd: int) -> None:
        del self._descriptors[fd]
