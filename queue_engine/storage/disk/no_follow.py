"""Opens the files of a data directory without following symbolic links: a link in a file's place is refused.

Otherwise a user who may write into the directory could have the server read, cut or overwrite any file that the server
may. The data path itself and the directories in it may be links: that is how people move them to other disks.
"""

import errno
import os
from pathlib import Path

CREATE_MODE = 0o600


class LinkRefusedError(OSError):
    """A symbolic link stands in the place of a file of the data directory."""

    def __init__(self, path: str) -> None:
        super().__init__(
            errno.ELOOP, f"{path} is a symbolic link, which Penstock does not follow: put the file itself there"
        )

    def __str__(self) -> str:
        return self.strerror or ""


def open_no_follow(path: str | Path, flags: int, mode: int = CREATE_MODE) -> int:
    """A descriptor of `path`, never inherited. Raises OSError; for a symbolic link LinkRefusedError."""
    # A directory is opened to be synced or locked, and may be a link.
    if not flags & os.O_DIRECTORY:
        flags |= os.O_NOFOLLOW
    try:
        return os.open(path, flags | os.O_CLOEXEC, mode)
    except OSError as exc:
        if exc.errno != errno.ELOOP or not os.path.islink(path):
            raise
        raise LinkRefusedError(os.fspath(path)) from None


def read_no_follow(path: str | Path) -> bytes:
    """All of a file. Raises as `open_no_follow`."""
    with os.fdopen(open_no_follow(path, os.O_RDONLY), "rb") as file:
        return file.read()


def refuse_link(path: str | Path) -> None:
    """Check a file that a library will open by its name. Raises LinkRefusedError."""
    if os.path.islink(path):
        raise LinkRefusedError(os.fspath(path))
