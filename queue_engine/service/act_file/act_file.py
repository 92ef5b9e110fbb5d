"""The file of acts: lines are added, synced and never changed.

    api-audit.log                    the newest lines (`line.py` has their form), mode 0600
    api-audit.000000000001.log       older ones, by the number of its first line

A file of FILE_BYTES_MAX gets its number, and a new one begins; the oldest beyond FILES_MAX are removed. After a crash
the last line may be torn: its bytes are cut off. Any other damage stays where it is: the file gets its number, and a
new one begins behind the last number that can be read.
"""

import logging
import os
import re

from queue_engine.delivery.stats import ActRecord
from queue_engine.service.act_file.line import decode_line, encode_line
from queue_engine.storage.disk.files import Files

logger = logging.getLogger(__name__)

NAME = "api-audit.log"
FILE_BYTES_MAX = 8 << 20
FILES_MAX = 8  # older ones, beside the newest
_OLD_NAME = re.compile(r"api-audit\.(\d{12})\.log")


class ActFile:
    """Appends to the file of one directory. Opens it with the first line. One thread at a time may call it."""

    def __init__(self, directory: str, files: Files, *, file_bytes_max: int = FILE_BYTES_MAX) -> None:
        self._directory = directory
        self._files = files
        self._file_bytes_max = file_bytes_max
        self._path = os.path.join(directory, NAME)
        self._fd: int | None = None
        self._size = 0
        self._next = 1
        self._first = 1  # number of the file's first line

    def append(self, acts: list[ActRecord]) -> None:
        """Add `shortened` acts, durably, all or none. Raises OSError; the same call may then be tried again."""
        if self._fd is None:
            self._open()
        if self._size >= self._file_bytes_max:
            self._begin_next()
        assert self._fd is not None
        lines = b"".join(encode_line(self._next + index, act) for index, act in enumerate(acts))
        # At the last good end: a try that failed half way is written over.
        self._files.write_all(self._fd, lines, self._size)
        self._files.sync_data(self._fd)
        self._size += len(lines)
        self._next += len(acts)

    def close(self) -> None:
        if self._fd is not None:
            self._files.close(self._fd)
            self._fd = None

    def _open(self) -> None:
        old = old_names(self._files.listdir(self._directory))
        data = self._files.read_whole(self._path, 2 * self._file_bytes_max + (64 << 20)) or b""
        end, number, is_torn = _readable_end(data)
        if not number and old:
            last = self._files.read_whole(os.path.join(self._directory, old[-1]), 2 * self._file_bytes_max + (64 << 20))
            number = _readable_end(last or b"")[1] or _number_in(old[-1])
        if end < len(data) and not is_torn:
            logger.error("%s has damaged lines; it stays, and a new file begins", self._path)
            self._set_aside(max(number, 1))
            end, data = 0, b""
        self._fd = self._files.open(self._path, os.O_RDWR | os.O_CREAT)
        try:
            if end < len(data):
                logger.warning("%s: the last line is torn, its %d bytes are cut off", self._path, len(data) - end)
                self._files.truncate(self._fd, end)
            self._files.sync_directory(self._directory)
        except OSError:
            self.close()
            raise
        self._size, self._next = end, number + 1
        first = decode_line(data[: data.find(b"\n")]) if data else None
        self._first = first[0] if first is not None else self._next

    def _set_aside(self, number: int) -> None:
        while self._files.status(self._path_of(number)) is not None:
            number += 1
        self._files.rename(self._path, self._path_of(number))

    def _begin_next(self) -> None:
        """Give the full file its number, and begin a new one."""
        self._set_aside(self._first)
        self.close()
        self._fd = self._files.open(self._path, os.O_RDWR | os.O_CREAT)
        self._size, self._first = 0, self._next
        self._files.sync_directory(self._directory)
        for name in old_names(self._files.listdir(self._directory))[:-FILES_MAX]:
            self._files.unlink(os.path.join(self._directory, name))

    def _path_of(self, first: int) -> str:
        return os.path.join(self._directory, f"api-audit.{first:012d}.log")


def old_names(names: list[str]) -> list[str]:
    """The names of older files, the oldest first."""
    return sorted(name for name in names if _OLD_NAME.fullmatch(name))


def _number_in(name: str) -> int:
    found = _OLD_NAME.fullmatch(name)
    return int(found[1]) if found is not None else 0


def _readable_end(data: bytes) -> tuple[int, int, bool]:
    """Where the last readable line ends, its number (0 for none), and whether the rest can be a torn write: no
    readable line, and no more than one beginning of a line."""
    end = len(data)
    while end:
        begin = data.rfind(b"\n", 0, end - 1) + 1
        if data[end - 1 : end] == b"\n":
            found = decode_line(data[begin : end - 1])
            if found is not None:
                return end, found[0], data.count(b"\n", end) == 0
        end = begin
    return 0, 0, data.count(b"\n") == 0
