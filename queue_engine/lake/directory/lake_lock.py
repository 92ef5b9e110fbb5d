"""The lock of a lake: one process at a time writes to the lake, and other processes can read which one.

    pipeline/lock      {"pid": 4711, "host": "…", "started_ms": 1800000000000, "command": "…"}

The lock is an flock on the file; the kernel releases it when its process ends, in whatever way. The text names the
holder. It is written after the lock is taken and stays when the process is killed, so it is valid only while the file
is locked.
"""

import errno
import fcntl
import os
import shlex
import socket
import sys
import time
from dataclasses import dataclass

import orjson

from queue_engine.storage.disk.no_follow import open_no_follow
from queue_engine.vocabulary.clock import NS_PER_MS, Clock
from queue_engine.vocabulary.errors import LakeHeldError, StorageError

LOCK_NAME = "lock"
TEXT_BYTES_MAX = 1 << 16
# `holder_of` takes the lock for some microseconds, so a process that finds it taken tries again.
TRIES = 5
TRY_AGAIN_S = 0.02


@dataclass(frozen=True, slots=True)
class LakeHolder:
    """The process that holds a lake. While it has not written the text yet, pid is 0 and the texts are empty."""

    pid: int
    host: str
    started_ms: int
    command: str

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host} ({self.command})" if self.pid else "a process that is just starting"


class LakeLock:
    """Holds the lake in `directory` from construction to `release`.

    Raises LakeHeldError, which names the holder, and StorageError when the lock can't be opened or taken.
    """

    def __init__(self, directory: str, *, clock: Clock) -> None:
        path = os.path.join(directory, LOCK_NAME)
        try:
            os.makedirs(directory, mode=0o700, exist_ok=True)
            fd = open_no_follow(path, os.O_RDWR | os.O_CREAT)
        except OSError as exc:
            raise StorageError(f"cannot open lock {path}: {exc.strerror}") from exc
        try:
            if not _take(fd):
                raise LakeHeldError(f"the lake {directory} is held by {_read(fd)}")
            text = orjson.dumps(
                {
                    "pid": os.getpid(),
                    "host": socket.gethostname(),
                    "started_ms": clock.time_ns() // NS_PER_MS,
                    "command": shlex.join(sys.orig_argv)[:1000],
                }
            )
            os.ftruncate(fd, 0)
            os.pwrite(fd, text + b"\n", 0)
        except OSError as exc:
            os.close(fd)
            raise StorageError(f"cannot lock {path}: {exc.strerror}") from exc
        except LakeHeldError:
            os.close(fd)
            raise
        self._fd: int | None = fd

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def holder_of(directory: str) -> LakeHolder | None:
    """The process that holds the lake in `directory` now; None when none does. Raises OSError."""
    try:
        fd = open_no_follow(os.path.join(directory, LOCK_NAME), os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as exc:
        if exc.errno != errno.EWOULDBLOCK:
            raise
        return _read(fd)
    else:
        return None
    finally:
        os.close(fd)


def _take(fd: int) -> bool:
    for left in reversed(range(TRIES)):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            if exc.errno != errno.EWOULDBLOCK:
                raise
            if left:
                time.sleep(TRY_AGAIN_S)
        else:
            return True
    return False


def _read(fd: int) -> LakeHolder:
    try:
        content = orjson.loads(os.pread(fd, TEXT_BYTES_MAX, 0))
        return LakeHolder(content["pid"], content["host"], content["started_ms"], content["command"])
    except (ValueError, KeyError, TypeError):
        return LakeHolder(0, "", 0, "")
