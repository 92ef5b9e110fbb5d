"""Places of files that the disk can't read, until it is healed: EIO, as a bad sector gives it."""

import errno
import os
from pathlib import Path

import pytest

from queue_engine.storage.disk.files import Files


class UnreadablePlaces:
    """Reads that touch one of the places fail, in every part of this process. Use with pytest's monkeypatch."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.failures = 0
        self._places: list[tuple[tuple[int, int], int, int]] = []
        read_at = Files.read_at

        def read(files: Files, fd: int, size: int, position: int) -> bytes:
            if self._places:
                status = os.fstat(fd)
                for bad, start, stop in self._places:
                    if (status.st_dev, status.st_ino) == bad and position < stop and position + size > start:
                        self.failures += 1
                        raise OSError(errno.EIO, os.strerror(errno.EIO))
            return read_at(files, fd, size, position)

        monkeypatch.setattr(Files, "read_at", read)

    def spoil(self, path: Path, start: int = 0, stop: int = 1 << 62) -> None:
        """Bytes `start` up to `stop` of the file can't be read; another file in its place can."""
        status = path.stat()
        self._places.append(((status.st_dev, status.st_ino), start, stop))

    def heal(self) -> None:
        self._places.clear()
