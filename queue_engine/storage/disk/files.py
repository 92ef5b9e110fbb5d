"""The one seam between the engine and the file system: every operation on a file is a method here.

Tests put another `Files` in its place that fails the n-th call, writes short, or records the calls. All methods raise
the plain OSError of the system; callers turn it into an error of `vocabulary/errors.py`.
"""

import ctypes
import errno
import itertools
import os
import stat
from bisect import bisect_left

from queue_engine.storage.disk.descriptors import DescriptorBudget
from queue_engine.storage.disk.no_follow import open_no_follow

# fallocate(2) punches holes; Python's os module has no call for that.
_fallocate = ctypes.CDLL(None, use_errno=True).fallocate
_fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong]
_PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01
_syncfs = ctypes.CDLL(None, use_errno=True).syncfs
_syncfs.argtypes = [ctypes.c_int]

# No two writers of a process share a temporary name, on any thread.
_temporary_numbers = itertools.count()


def temporary_name(path: str) -> str:
    """A name beside `path`, unique in this process."""
    return f"{path}.{next(_temporary_numbers)}.tmp"


def is_no_fault_of_disk(error: BaseException) -> bool:
    """Whether a file can't be read though its disk is sound: the process lacks descriptors or memory, or a symbolic
    link stands in its place.

    error: an OSError, or an error raised from one."""
    cause = error if isinstance(error, OSError) else error.__cause__
    return isinstance(cause, OSError) and cause.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ELOOP)


class NameNotSyncedError(OSError):
    """A file was replaced, and syncing its directory failed: a power cut may bring the old file back."""


class Files:
    """File operations by descriptor and by path. Descriptors are never inherited by child processes.

    One instance serves the engine's thread and its backgrounds. `budget` and the cached listings belong to the engine's
    thread.
    """

    def __init__(self, budget: DescriptorBudget | None = None) -> None:
        self.budget = budget or DescriptorBudget()
        # Each value is given out once, so an equal number means that nothing changed in between.
        self._stamps = itertools.count(1)
        self._stamp = 0
        self._listings: dict[str, tuple[int, int, list[str]]] = {}

    # By path.

    def open(self, path: str, flags: int) -> int:
        """A descriptor of `path`; a new file is for its owner alone to read and write. Symbolic links are refused."""
        fd = open_no_follow(path, flags)
        if flags & os.O_CREAT:
            self._stamp = next(self._stamps)
        return fd

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)
        self._stamp = next(self._stamps)

    def unlink(self, path: str) -> None:
        os.unlink(path)
        self._stamp = next(self._stamps)

    def size_of(self, path: str) -> int | None:
        """Bytes of the file at `path`, None when there is none."""
        try:
            return os.lstat(path).st_size
        except FileNotFoundError:
            return None

    def free_bytes(self, directory: str) -> int:
        """Bytes free on the file system of `directory`, without regard to quotas."""
        found = os.statvfs(directory)
        return found.f_bavail * found.f_frsize

    def total_bytes(self, directory: str) -> int:
        """Size of the file system of `directory`."""
        found = os.statvfs(directory)
        return found.f_blocks * found.f_frsize

    def status(self, path: str) -> os.stat_result | None:
        """The status of `path` itself, be it a file, a directory or a symbolic link; None when it does not exist."""
        try:
            return os.lstat(path)
        except FileNotFoundError:
            return None

    def close_to_others(self, path: str) -> bool:
        """Take the rights of other accounts away from a file of ours; whether they had any. Raises OSError."""
        fd = self.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            found = os.fstat(fd)
            if not found.st_mode & 0o077 or found.st_uid != os.geteuid():
                return False
            os.fchmod(fd, found.st_mode & 0o700)
            return True
        finally:
            self.close(fd)

    def modified_ns(self, path: str) -> int | None:
        """When the file at `path` was last written, Unix ns; None when there is none."""
        try:
            return os.lstat(path).st_mtime_ns
        except FileNotFoundError:
            return None

    def make_directory(self, path: str) -> None:
        """Make the directory `path` with its parents, open to its owner alone, unless it is there."""
        if not os.path.isdir(path):
            os.makedirs(path, mode=0o700, exist_ok=True)
            self._stamp = next(self._stamps)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        os.rmdir(path)
        self._stamp = next(self._stamps)

    def listdir(self, directory: str) -> list[str]:
        return os.listdir(directory)

    def sync_directory(self, directory: str) -> None:
        """Make creations, renames and removals in `directory` durable."""
        fd = self.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.sync(fd)
        finally:
            self.close(fd)

    def sync_file_system(self, directory: str) -> None:
        """Sync the whole file system of `directory`, names included: cheaper than syncing thousands of files one by
        one."""
        fd = self.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if _syncfs(fd) != 0:
                error = ctypes.get_errno()
                raise OSError(error, os.strerror(error))
        finally:
            self.close(fd)

    # By descriptor.

    def read_at(self, fd: int, size: int, position: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file or when the system gives fewer."""
        return os.pread(fd, size, position)

    def write_at(self, fd: int, data: bytes | memoryview, position: int) -> int:
        """Bytes written: may be fewer than given, as when the disk fills up."""
        return os.pwrite(fd, data, position)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def is_regular(self, fd: int) -> bool:
        """Whether it is no FIFO or device. A directory counts as regular: reading it raises the system's error."""
        return stat.S_ISREG(mode := os.fstat(fd).st_mode) or stat.S_ISDIR(mode)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        """Data and metadata to the disk."""
        os.fsync(fd)

    def sync_data(self, fd: int) -> None:
        """Data to the disk, and the metadata needed to read it back, such as the size."""
        os.fdatasync(fd)

    def punch_hole(self, fd: int, position: int, size: int) -> None:
        """Give the blocks of this range back to the disk; it reads as zeros, and the file keeps its size."""
        if _fallocate(fd, _PUNCH_HOLE_KEEP_SIZE, position, size) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))

    def dup(self, fd: int) -> int:
        return os.dup(fd)

    def close(self, fd: int) -> None:
        os.close(fd)

    # Made of the above.

    def names_starting_with(self, directory: str, prefix: str) -> list[str]:
        """The names in `directory` that start with `prefix`, sorted.

        The listing is cached until the directory changes (through this object, or by its modification time), since a
        start opens thousands of queues of one directory.
        """
        stamp, modified_ns = self._stamp, os.stat(directory).st_mtime_ns
        cached = self._listings.get(directory)
        if cached is None or cached[0] != stamp or cached[1] != modified_ns:
            cached = self._listings[directory] = (stamp, modified_ns, sorted(self.listdir(directory)))
        names = cached[2]
        first = last = bisect_left(names, prefix)
        while last < len(names) and names[last].startswith(prefix):
            last += 1
        return names[first:last]

    def read_whole(self, path: str, size_max: int) -> bytes | None:
        """The bytes of a small file, at most `size_max` of them; None when there is no such file. Raises OSError, also
        when it is no regular file: reading a FIFO would wait for ever."""
        try:
            fd = self.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        try:
            if not self.is_regular(fd):
                raise OSError(errno.EINVAL, "it is no regular file", path)
            # Not size_max at once: the system would have to find memory for it.
            return self.read_at(fd, min(size_max, self.size(fd)), 0)
        except OSError as exc:
            exc.filename = exc.filename or path  # the system's error names only the descriptor
            raise
        finally:
            self.close(fd)

    def write_synced(self, path: str, data: bytes) -> None:
        """Make `path` a file of exactly `data`, and sync it, but not its name. A failure leaves no file."""
        fd = self.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            try:
                self.write_all(fd, data, 0)
                self.sync(fd)
            finally:
                self.close(fd)
        except OSError:
            self.unlink_quietly(path)
            raise

    def replace(self, path: str, data: bytes) -> None:
        """Replace the content of `path` by `data`, durably, or leave it as it was: readers, also after a crash, get the
        old content or the new one, never a mixture. Raises OSError; NameNotSyncedError when readers get the new one."""
        temporary = temporary_name(path)
        self.write_synced(temporary, data)
        try:
            self.rename(temporary, path)
        except OSError:
            self.unlink_quietly(temporary)
            raise
        try:
            self.sync_directory(os.path.dirname(path) or ".")
        except OSError as exc:
            raise NameNotSyncedError(exc.errno, exc.strerror) from exc

    def write_all(self, fd: int, data: bytes | memoryview, position: int) -> None:
        """Write all of `data`. Raises OSError; then part of it may be written."""
        written = self.write_at(fd, data, position)
        if written == len(data):
            return
        # A short write: the next call goes on, or raises the reason.
        view = memoryview(data)
        while written < len(data):
            step = self.write_at(fd, view[written:], position + written)
            if step <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written += step

    def close_quietly(self, fd: int) -> None:
        """Close a descriptor whose data is synced, read only, or not needed: an error changes nothing."""
        try:
            self.close(fd)
        except OSError:
            pass

    def unlink_quietly(self, path: str) -> None:
        """Remove the file of a failed write; the caller raises the write's error, not one of this."""
        try:
            self.unlink(path)
        except OSError:
            pass
