"""The place of the archive's tables (--lake): a directory, or the URL of an object store."""

import os
import re

from queue_engine.vocabulary.errors import StorePlaceError

_MISTAKEN = re.compile(r"%[0-9A-Fa-f]{2}|[\\\[\]|<>^\x00-\x1f\x7f]")


def absolute_lake(place: str) -> str:
    """A value of --lake for a process that begins in another directory: a path from the root on; a URL, and "", as they
    are."""
    return place if not place or "://" in place else os.path.abspath(place)


def check_directory(place: str) -> None:
    """Raises StorePlaceError for a directory where delta-rs (1.6) would write to another one: it decodes an escape such
    as %20, also one of a URL that escapes it, takes a backslash for a slash, and ends its thread at other characters.
    It follows links first."""
    real = os.path.realpath(place)
    if found := _MISTAKEN.search(real):
        raise StorePlaceError(
            f"no table can lie below {real}: the library for Delta tables takes {found[0]!r} in its path for something "
            "else, and would read and write another directory. Rename that directory, or name another one with --lake "
            "or --data-path"
        )
