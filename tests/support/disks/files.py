"""File operations that fail on demand, run out of room, or stop the world: the faulty twin of `Files`."""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakSet

from queue_engine.storage.disk.descriptors import DescriptorBudget
from queue_engine.storage.disk.files import Files


class ProcessDiedError(BaseException):
    """The process ends at this file operation: no code handles this exception, and nothing happens after it."""


@dataclass
class _Fault:
    operation: str
    error: int
    skip: int
    count: int


_begun: "WeakSet[FaultyFiles]" = WeakSet()


def close_left_open() -> None:
    """End what a test left of its processes: their descriptors are this one's."""
    for files in list(_begun):
        files.abandon()


class FaultyFiles(Files):
    """Real files in which the n-th call of an operation fails.

    It knows its open descriptors, so that a test can end a "process" without closing anything properly
    (`abandon`) and can tell that nothing leaks.
    """

    def __init__(self, budget: DescriptorBudget | None = None) -> None:
        super().__init__(budget)
        _begun.add(self)
        self.calls: list[str] = []
        self.open_fds: set[int] = set()
        self.bytes_free: int | None = None  # what may still be written; None: without end
        self.is_overwriting_free = False  # whether what is written over what is there costs none of it
        self.dies_after: int | None = None  # operations that change the disk until ProcessDiedError
        self.before_call: Callable[[str], None] | None = None
        self._faults: list[_Fault] = []

    def fail(self, operation: str, error: int = errno.EIO, *, nth: int = 1, count: int = 1) -> None:
        """Let the n-th call of `operation` from now on fail with `error`, and the `count` - 1 after it."""
        self._faults.append(_Fault(operation, error, nth - 1, count))

    def heal(self) -> None:
        """Everything works again."""
        self._faults.clear()
        self.bytes_free = None

    def abandon(self) -> None:
        """The process is gone: its descriptors are closed and nothing else happens."""
        for fd in self.open_fds:
            os.close(fd)
        self.open_fds.clear()

    def _meet(self, operation: str) -> None:
        self.calls.append(operation)
        if self.before_call is not None:
            self.before_call(operation)
        for fault in self._faults:
            if fault.operation == operation:
                if fault.skip:
                    fault.skip -= 1
                elif fault.count:
                    fault.count -= 1
                    raise OSError(fault.error, os.strerror(fault.error))

    def _change(self) -> None:
        """Called by what changes the disk: the chosen one never happens."""
        if self.dies_after is not None:
            if self.dies_after == 0:
                raise ProcessDiedError
            self.dies_after -= 1

    def open(self, path: str, flags: int) -> int:
        self._meet("open")
        if flags & os.O_CREAT:
            self._meet("create")
            self._change()
        fd = super().open(path, flags)
        self.open_fds.add(fd)
        return fd

    def dup(self, fd: int) -> int:
        self._meet("dup")
        copy = super().dup(fd)
        self.open_fds.add(copy)
        return copy

    def close(self, fd: int) -> None:
        assert fd in self.open_fds, f"descriptor {fd} is closed twice"
        self.open_fds.discard(fd)
        if self.bytes_free is not None and not (status := os.fstat(fd)).st_nlink:
            self.bytes_free += status.st_size  # the last that held a file without a name
        super().close(fd)
        self._meet("close")

    def rename(self, source: str, target: str) -> None:
        self._meet("rename")
        self._change()
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self._meet("unlink")
        self._change()
        size = self.size_of(path) or 0
        super().unlink(path)
        if self.bytes_free is not None:
            self.bytes_free += size

    def listdir(self, directory: str) -> list[str]:
        self._meet("listdir")
        return super().listdir(directory)

    def read_at(self, fd: int, size: int, position: int) -> bytes:
        self._meet("read")
        return super().read_at(fd, size, position)

    def write_at(self, fd: int, data: bytes | memoryview, position: int) -> int:
        self._meet("write")
        if self.dies_after == 0:
            super().write_at(fd, data[: len(data) // 2], position)  # a torn write
        self._change()
        if self.bytes_free is not None:
            there = max(0, min(len(data), os.fstat(fd).st_size - position)) if self.is_overwriting_free else 0
            if there + self.bytes_free == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            data = data[: there + self.bytes_free]
            self.bytes_free -= len(data) - there
        return super().write_at(fd, data, position)

    def free_bytes(self, directory: str) -> int:
        return super().free_bytes(directory) if self.bytes_free is None else self.bytes_free

    def truncate(self, fd: int, size: int) -> None:
        self._meet("truncate")
        self._change()
        super().truncate(fd, size)

    def punch_hole(self, fd: int, position: int, size: int) -> None:
        self._meet("punch_hole")
        self._change()
        super().punch_hole(fd, position, size)

    def make_directory(self, path: str) -> None:
        self._meet("make_directory")
        self._change()
        super().make_directory(path)

    def remove_directory(self, path: str) -> None:
        self._meet("remove_directory")
        self._change()
        super().remove_directory(path)

    def sync(self, fd: int) -> None:
        self._meet("sync")
        super().sync(fd)

    def sync_file_system(self, directory: str) -> None:
        self._meet("sync_file_system")
        super().sync_file_system(directory)

    def sync_data(self, fd: int) -> None:
        self._meet("sync_data")
        super().sync_data(fd)
