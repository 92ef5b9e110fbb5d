"""Copies files into a backup, syncs them, and reads the copies back."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from crc32c import crc32c

from queue_engine.vocabulary.errors import StorageError

STEP_BYTES = 1 << 20
THREADS = 8


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """path: in the backup. crc: CRC-32C of all its bytes."""

    path: str
    length: int
    crc: int


def copy_files(
    source: str, target: str, files: Sequence[tuple[str, int | None]], advanced: Callable[[int], None]
) -> list[CopiedFile]:
    """Copy files, each with its length (None: all of it), from one directory to another, permissions included.

    advanced: called with each number of bytes copied, by one thread at a time. Raises StorageError, which names the
    file.
    """
    lock = threading.Lock()

    def report(count: int) -> None:
        with lock:
            advanced(count)

    def copy(file: tuple[str, int | None]) -> CopiedFile:
        return _copy(source, target, *file, report)

    # Syncs that come together cost the disk little more than one.
    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(copy, files))


def _copy(source: str, target: str, path: str, length: int | None, advanced: Callable[[int], None]) -> CopiedFile:
    place = os.path.join(target, path)
    try:
        os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        with open(os.path.join(source, path), "rb", opener=_as_it_is) as reading:
            mode = os.fstat(reading.fileno()).st_mode & 0o777
            left = os.fstat(reading.fileno()).st_size if length is None else length
            size, crc = 0, 0
            with open(place, "xb", opener=_private) as writing:
                while left > size:
                    data = reading.read(min(STEP_BYTES, left - size))
                    if not data:
                        raise StorageError(f"{path} has {size} bytes, not the {left} noted: the backup is not complete")
                    writing.write(data)
                    crc = crc32c(data, crc)
                    size += len(data)
                    advanced(len(data))
                writing.flush()
                os.fchmod(writing.fileno(), mode)
                os.fsync(writing.fileno())
                # Read back from the disk, not from memory.
                os.posix_fadvise(writing.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError as exc:
        raise StorageError(f"{path} can't be copied to {target}: {exc.strerror}; the backup is not complete") from exc
    return CopiedFile(path, size, crc)


def check_files(target: str, files: Sequence[CopiedFile], advanced: Callable[[int], None]) -> None:
    """Read files of a backup and compare lengths and checksums. Raises StorageError for the first that differs."""
    for file in files:
        size, crc = 0, 0
        try:
            with open(os.path.join(target, file.path), "rb", opener=_as_it_is) as reading:
                while data := reading.read(STEP_BYTES):
                    crc = crc32c(data, crc)
                    size += len(data)
                    advanced(len(data))
        except OSError as exc:
            raise StorageError(f"{file.path} of the backup can't be read: {exc.strerror}") from exc
        if (size, crc) != (file.length, file.crc):
            raise StorageError(f"Length or checksum mismatch in {file.path} of the backup: {target} can't be relied on")


def sync_directories(target: str) -> None:
    """Sync `target` and all directories in it, which makes the files' names durable. Raises OSError."""
    for folder, _, _ in os.walk(target):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _as_it_is(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
