"""Refuses a table that names files which are not its own.

An account that may write to a lake can have a commit name any file (`add.path`: `../secret`, `%2e%2e/secret`, an
absolute path, a URL), or put a symbolic link into the table's directory; readers with more rights would show that file
as messages. Every reader takes the paths of a table through `check_own_files`.
"""

import os
import posixpath
import stat
from collections.abc import Iterable
from urllib.parse import unquote

from queue_engine.vocabulary.errors import ForeignFileError

_DECODED_MAX = 3


def check_own_files(place: str, paths: Iterable[str], *, is_local: bool) -> None:
    """Raises ForeignFileError for the first of `paths` that does not lie below the table at `place`.

    paths: of data files, as the table names them. is_local: whether the table is in a directory, where no link may lead
    out. A file that is missing is the business of its reader."""
    real = os.path.realpath(place) if is_local else ""
    own_directories: set[str] = set()
    for path in paths:
        directory = posixpath.dirname(path)
        if not _is_below(path):
            raise _foreign(place, path)
        if not is_local:
            continue
        if directory not in own_directories:
            if os.path.realpath(os.path.join(place, directory)) != os.path.normpath(os.path.join(real, directory)):
                raise _foreign(place, path)
            own_directories.add(directory)
        try:
            found = os.lstat(os.path.join(place, path))
        except OSError:
            continue
        if not stat.S_ISREG(found.st_mode):
            raise _foreign(place, path)


def _is_below(path: str) -> bool:
    """Whether a path is a relative one without steps upward, however often a reader decodes it."""
    for _ in range(_DECODED_MAX):
        if path.startswith("/") or ":" in path.partition("/")[0] or "\\" in path or "\0" in path:
            return False
        if ".." in path.split("/"):
            return False
        decoded = unquote(path)
        if decoded == path:
            return True
        path = decoded
    return False


def _foreign(place: str, path: str) -> ForeignFileError:
    return ForeignFileError(
        f"the table {place} names the file {path!r:.300}, which does not lie below it or is a link: another program "
        "wrote that, and nothing of the table is read. Find out which one may write there, and restore the table from "
        "a backup"
    )
