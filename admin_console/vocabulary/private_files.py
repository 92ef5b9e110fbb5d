"""Small files of the console in the data directory: read, written and set aside, never through a symbolic link."""

import errno
import os
import secrets
import stat
from pathlib import Path


def make_private_directory(path: Path) -> None:
    """Make `path` where it does not exist, and close it to everybody but its owner. It may be a link to a directory."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.stat()
    if status.st_mode & 0o077 and status.st_uid == os.geteuid():
        path.chmod(0o700)


def write_private_file(path: Path, content: str | bytes) -> None:
    """Replace `path` by `content`, readable by its owner only; whole or not at all. Raises OSError."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        # On a full disk, the remains of each attempt would take more space.
        temporary.unlink(missing_ok=True)
        raise


def close_to_others(path: Path) -> None:
    """Take the rights of other accounts away from a file of ours. Raises OSError."""
    status = path.stat(follow_symlinks=False)
    if stat.S_ISREG(status.st_mode) and status.st_mode & 0o077 and status.st_uid == os.geteuid():
        path.chmod(stat.S_IMODE(status.st_mode) & 0o700)


def read_private_file(path: Path, size_max: int) -> bytes:
    """The first `size_max` bytes. Raises OSError; for a symbolic link, and for all else that is no regular file, with a
    sentence."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a file")
        return file.read(size_max)


def file_defect(path: Path) -> str:
    """Why `path` can't be one of our files, for a sentence ("a symbolic link"); "" for a file and for nothing there."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return ""
    if stat.S_ISREG(mode):
        return ""
    if stat.S_ISLNK(mode):
        return f"a symbolic link (to {os.readlink(path)}), which Penstock does not follow"
    return "a directory" if stat.S_ISDIR(mode) else "no regular file"


def set_aside(path: Path, companions: tuple[str, ...] = ()) -> Path:
    """Rename `path` to `NAME.bad-N`, N the first free number, and with it the files of the same name with `companions`
    behind it. A link is renamed itself: its target is not touched. Returns the new path. Raises OSError."""
    number = 1
    while os.path.lexists(target := path.with_name(f"{path.name}.bad-{number}")):
        number += 1
    # The companions first: a crash in between leaves no journal of the old file beside a new one.
    for ending in companions:
        companion = path.with_name(path.name + ending)
        if os.path.lexists(companion):
            companion.rename(target.with_name(target.name + ending))
    path.rename(target)
    return target
