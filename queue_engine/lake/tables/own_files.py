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

_FORMS_MAX = 3


def check_own_files(place: str, paths: Iterable[str], *, is_local: bool) -> None:
    """Raises ForeignFileError for the first of `paths` that does not lie below the table at `place`.

    paths: of data files, as the table names them. is_local: whether the table is in a directory, where no link may lead
    out. A file that is missing is the business of its reader."""
    real = os.path.realpath(place) if is_local else ""
    own_directories: set[str] = set()
    for path in paths:
        # Readers decode a path before they open it, so a link may have any of its forms for a name.
        forms = _decoded(path)
        if not forms or not all(map(_is_below, forms)):
            raise _foreign(place, path)
        if is_local and any(_is_link(place, real, form, own_directories) for form in forms):
            raise _foreign(place, path)


def _decoded(path: str) -> list[str]:
    """The path as it is written, and decoded until it stays the same; empty where that takes too long."""
    forms = [path]
    while (decoded := unquote(forms[-1])) != forms[-1]:
        if len(forms) == _FORMS_MAX:
            return []
        forms.append(decoded)
    return forms


def _is_below(path: str) -> bool:
    """Whether a path is a relative one without steps upward."""
    if path.startswith("/") or ":" in path.partition("/")[0] or "\\" in path or "\0" in path:
        return False
    return ".." not in path.split("/")


def _is_link(place: str, real: str, path: str, own_directories: set[str]) -> bool:
    """Whether a path leads through a link, or to no regular file. own_directories: checked before, and no links."""
    directory = posixpath.dirname(path)
    if directory not in own_directories:
        if os.path.realpath(os.path.join(place, directory)) != os.path.normpath(os.path.join(real, directory)):
            return True
        own_directories.add(directory)
    try:
        return not stat.S_ISREG(os.lstat(os.path.join(place, path)).st_mode)
    except OSError:
        return False


def _foreign(place: str, path: str) -> ForeignFileError:
    return ForeignFileError(
        f"the table {place} names the file {path!r:.300}, which does not lie below it or is a link: another program "
        "wrote that, and nothing of the table is read. Find out which one may write there, and restore the table from "
        "a backup"
    )
