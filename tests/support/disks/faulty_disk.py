"""A simulated disk on which one operation fails, or all from it on; reading, opening and closing count, too."""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.support.disks.simulated_disk import SimulatedFiles

# What needs room on the disk, and what needs a descriptor.
TAKES_ROOM = frozenset({"create", "write", "rename", "make_directory"})
TAKES_DESCRIPTOR = frozenset({"open", "create", "listdir", "dup"})
ANY = frozenset(
    {
        *TAKES_ROOM,
        *TAKES_DESCRIPTOR,
        "read",
        "stat",
        "close",
        "unlink",
        "truncate",
        "sync",
        "sync_directory",
        "remove_directory",
    }
)


@dataclass(frozen=True, slots=True)
class FaultKind:
    """name: of this kind. error: an errno; 0 for a write that takes half of what it is given, and is no error.
    operations: those that can meet it. is_once: false for every one from then on, until the disk is healed."""

    name: str
    error: int
    operations: frozenset[str]
    is_once: bool


FAULT_KINDS = (
    FaultKind("EIO once", errno.EIO, ANY, True),
    FaultKind("EIO from then on", errno.EIO, ANY, False),
    FaultKind("ENOSPC once", errno.ENOSPC, TAKES_ROOM, True),
    FaultKind("ENOSPC until there is room", errno.ENOSPC, TAKES_ROOM, False),
    FaultKind("a short write", 0, frozenset({"write"}), True),
    FaultKind("EMFILE once", errno.EMFILE, TAKES_DESCRIPTOR, True),
    FaultKind("EMFILE until descriptors are free", errno.EMFILE, TAKES_DESCRIPTOR, False),
)


class FaultyDisk(SimulatedFiles):
    """met: the operations so far, by name. on_failed: called with each that meets the fault, and with its path.

    What a failed sync leaves in the cache is never written by a later one, as on Linux. A write that fails may have
    written a part; with EIO it has.
    """

    def __init__(self) -> None:
        super().__init__()
        self.met: list[str] = []
        self.on_failed: Callable[[str, str], None] = lambda operation, path: None
        self._kind: FaultKind | None = None
        self._at = -1
        self._paths: dict[int, str] = {}
        self._rng = Random(0)

    def fail(self, kind: FaultKind, at: int) -> None:
        """Let operation number `at` from now on meet this fault."""
        self._kind, self._at = kind, len(self.met) + at

    def heal(self) -> None:
        self._kind = None

    def _fault(self, operation: str, path: str) -> FaultKind | None:
        """Count this operation. Returns the fault that it meets."""
        self.met.append(operation)
        kind, number = self._kind, len(self.met) - 1
        if (
            kind is None
            or operation not in kind.operations
            or number < self._at
            or (kind.is_once and number > self._at)
        ):
            return None
        self.on_failed(operation, path)
        return kind

    def _meet(self, operation: str, path: str) -> None:
        kind = self._fault(operation, path)
        if kind is not None:
            raise OSError(kind.error, os.strerror(kind.error), path)

    def _begin(self, operation: str) -> None:
        """Met by name below, where the path is known."""

    # By path.

    def open(self, path: str, flags: int) -> int:
        if path in self._names:
            self._meet("open", path)
        elif flags & os.O_CREAT and os.path.dirname(path) in self._directories:
            self._meet("create", path)
        fd = super().open(path, flags)
        self._paths[fd] = path
        return fd

    def rename(self, source: str, target: str) -> None:
        self._meet("rename", target)
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        if path in self._names:
            self._meet("unlink", path)
        super().unlink(path)

    def size_of(self, path: str) -> int | None:
        self._meet("stat", path)
        return super().size_of(path)

    def make_directory(self, path: str) -> None:
        if path not in self._directories:
            self._meet("make_directory", path)
        super().make_directory(path)

    def remove_directory(self, path: str) -> None:
        self._meet("remove_directory", path)
        super().remove_directory(path)

    def listdir(self, directory: str) -> list[str]:
        self._meet("listdir", directory)
        return super().listdir(directory)

    def sync_directory(self, directory: str) -> None:
        self._meet("open", directory)
        self._meet("sync_directory", directory)
        super().sync_directory(directory)

    # By descriptor.

    def read_at(self, fd: int, size: int, position: int) -> bytes:
        self._meet("read", self._paths[fd])
        return super().read_at(fd, size, position)

    def write_at(self, fd: int, data: bytes | memoryview, position: int) -> int:
        kind = self._fault("write", self._paths[fd])
        if kind is None:
            return super().write_at(fd, data, position)
        written = super().write_at(fd, data[: len(data) // 2], position) if kind.error != errno.ENOSPC else 0
        if kind.error:
            raise OSError(kind.error, os.strerror(kind.error), self._paths[fd])
        return written

    def truncate(self, fd: int, size: int) -> None:
        self._meet("truncate", self._paths[fd])
        super().truncate(fd, size)

    def sync(self, fd: int) -> None:
        try:
            self._meet("sync", self._paths[fd])
        except OSError:
            self._descriptors[fd].fail_to_sync(self._rng)
            raise
        super().sync(fd)

    def dup(self, fd: int) -> int:
        self._meet("dup", self._paths[fd])
        copy = super().dup(fd)
        self._paths[copy] = self._paths[fd]
        return copy

    def close(self, fd: int) -> None:
        super().close(fd)
        self._meet("close", self._paths.pop(fd))
