"""Reserved room on the disk: a file of zeros, removed when the disk is full, for writes that help to make room.

A start finds the file of an earlier process and does not write it again: on a full disk that would fail, and lose the
room.
"""

import errno
import os
from collections.abc import Callable

from queue_engine.storage.disk.background import Background
from queue_engine.storage.disk.background_job import BackgroundJob
from queue_engine.storage.disk.files import Files


class Reserve:
    """One file of `size` bytes; 0 for none. Belongs to the engine's thread.

    is_allowed: whether the file may be made now; not while the disk is full. on_give_up: called before it is removed,
    so that publishes do not take the room that is for acts.
    """

    def __init__(self, path: str, size: int, *, files: Files, worker: Background) -> None:
        self.is_allowed = True
        self.on_give_up: Callable[[], None] = lambda: None
        self._path = path
        self._size = size
        self._files = files
        self._worker = worker
        self._exists = False
        self._is_making = False

    def find(self) -> None:
        """Find the file of an earlier process. Raises OSError."""
        self._exists = bool(self._size) and self._files.size_of(self._path) == self._size

    def keep(self) -> None:
        """Have the worker make the file, unless it is there or less than twice its size is free."""
        if self._exists or self._is_making or not self._size or not self.is_allowed:
            return
        self._is_making = True

        def done(error: Exception | None) -> None:
            self._is_making = False
            self._exists = error is None

        BackgroundJob(self._make, then=done).start(self._worker)

    def _make(self) -> None:
        # A try that fails would take the last room from all other writers for a moment.
        free = self._files.free_bytes(os.path.dirname(self._path))
        if free < 2 * self._size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
        self._files.write_synced(self._path, bytes(self._size))

    def give_up(self) -> bool:
        """Remove the file; returns whether that freed room."""
        if not self._exists:
            return False
        self.on_give_up()
        self._exists = False
        try:
            self._files.unlink(self._path)
        except OSError:
            return False
        return True
