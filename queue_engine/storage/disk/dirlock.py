"""One process owns a data directory: an flock on the directory itself, as nsqd takes it.

So nsqd and Penstock exclude each other, too. The lock leaves no file: it ends with the process, also after a kill.
"""

import errno
import fcntl
import os

from queue_engine.vocabulary.errors import DirectoryLockedError, StorageError


class DirectoryLock:
    """Holds the directory from construction to `release`.

    Raises DirectoryLockedError when another process (or another lock in this one) holds it, with its pid where the
    system reports it, and StorageError when the directory can't be opened or locked at all.
    """

    def __init__(self, directory: str) -> None:
        try:
            fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as exc:
            raise StorageError(f"cannot open data directory {directory}: {exc.strerror}") from exc
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            pid = _holder_pid(fd)
            os.close(fd)
            if exc.errno != errno.EWOULDBLOCK:
                raise StorageError(f"cannot flock directory {directory} - {exc.strerror}") from exc
            holder = f", pid {pid}" if pid else ""
            raise DirectoryLockedError(
                f"cannot flock directory {directory} - {exc.strerror}"
                f" (possibly in use by another instance of penstock or nsqd{holder})"
            ) from exc
        self._fd: int | None = fd

    def release(self) -> None:
        """Unlock the directory; a second call does nothing."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> "DirectoryLock":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _holder_pid(fd: int) -> int | None:
    """The pid of the process that holds an flock on the file behind `fd`; None where the system does not report it.

    Read from /proc/locks, whose lines are `1: FLOCK  ADVISORY  WRITE 4711 fe:01:262145 0 EOF` with device
    numbers in hex. A holder in another pid namespace shows as 0; other systems have no /proc.
    """
    stat = os.fstat(fd)
    place = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}"
    try:
        with open("/proc/locks") as locks:
            for line in locks:
                fields = line.split()
                if len(fields) >= 6 and fields[1] == "FLOCK" and fields[5] == place:
                    return int(fields[4]) or None
    except (OSError, ValueError):
        return None
    return None
