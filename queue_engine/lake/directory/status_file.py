"""Reads and writes the small JSON files that worker and console exchange; each write replaces the whole file.

The lake's data does not depend on them, since manifests name the files that count. So a broken status file is reported
and skipped. Reading does not trust the directory: it follows no link, waits for no pipe, and takes no more than a
stated number of bytes.
"""

import os
import secrets
import stat
from pathlib import Path

import orjson

from queue_engine.vocabulary.errors import PipelineError


class BrokenStatusFileError(PipelineError):
    """A status file can't be read; the text is a sentence that names the file."""


def read_status_file(path: Path, bytes_max: int) -> dict[str, object]:
    """The object in the file. Raises BrokenStatusFileError with a sentence, FileNotFoundError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as exc:
        raise BrokenStatusFileError(f"{_named(path)} can't be read: {exc.strerror}") from exc
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise BrokenStatusFileError(f"{_named(path)} is not a plain file")
        if status.st_size > bytes_max:
            raise BrokenStatusFileError(f"{_named(path)} has {status.st_size:,} bytes; the most is {bytes_max:,}")
        data = os.read(descriptor, bytes_max + 1)
    finally:
        os.close(descriptor)
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as exc:
        raise BrokenStatusFileError(f"{_named(path)} is not JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise BrokenStatusFileError(f"{_named(path)} is not a JSON object")
    return value


def write_status_file(path: Path, value: object, *, is_durable: bool = False) -> None:
    """Replace the file, whole or not at all; its directory is made when it is missing.

    is_durable: whether file and directory are synced, so that the file outlives a power cut. Raises OSError.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(orjson.dumps(value))
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if is_durable:
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def names_in(directory: Path, count_max: int) -> list[str]:
    """The names of a directory's `.json` files in order, at most count_max; none when there is no such directory."""
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".json") and not name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return names[:count_max]


def sign_of(path: str | Path) -> tuple[int, int, int] | None:
    """Differs when a file was replaced or written; None while there is none. Costs one look. Raises OSError."""
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _named(path: Path) -> str:
    # Not the whole path: the sentence is shown on a page.
    return f"{path.parent.name}/{path.name[:120]}"
