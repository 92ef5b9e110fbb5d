"""Room on the disk that is set apart, and given up when the disk is full, for whatever helps to make room.

A file of zeros. What an earlier process set apart is found again and not written anew: on a full disk that would fail,
and the room would be gone.
"""

import errno
import os

from queue_engine.disk.background import Background
from queue_engine.disk.files import Files


class Reserve:
    """One file of `size` bytes; 0 for none. Belongs to the engine's thread.

    is_allowed: whether it may be made now; not while the disk is full.
    """

    def __init__(self, path: str, size: int, *, files: Files, worker: Background) -> None:
        self.is_allowed = True
        self._path = path
        self._size = size
        self._files = files
        self._worker = worker
        self._is_there = False
        self._is_making = False

    def find(self) -> None:
        """Learn whether an earlier process left it. Raises OSError."""
        self._is_there = bool(self._size) and self._files.size_of(self._path) == self._size

    def keep(self) -> None:
        """Have the worker make it, unless it is there or the disk has not twice the room."""
        if self._is_there or self._is_making or not self._size or not self.is_allowed:
            return
        self._is_making = True

        def done(error: Exception | None) -> None:
            self._is_making = False
            self._is_there = error is None

        self._worker.submit(self._make, done)

    def _make(self) -> None:
        # To try and fail would take the last room from everybody else for a moment.
        free = self._files.free_bytes(os.path.dirname(self._path))
        if free < 2 * self._size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
        self._files.write_synced(self._path, bytes(self._size))

    def give_up(self) -> bool:
        """Whether there is more room now."""
        if not self._is_there:
            return False
        self._is_there = False
        try:
            self._files.unlink(self._path)
        except OSError:
            return False
        return True
