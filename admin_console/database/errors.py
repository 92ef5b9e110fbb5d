"""Sorts errors of SQLite: the database is damaged, the disk refused a write, or something else."""

import sqlite3
from enum import Enum

from django.contrib.sessions.backends.base import UpdateError
from django.db import DatabaseError


class Trouble(Enum):
    """A damaged file is replaced; a refused write is tried again later."""

    NONE = "none"  # an error of the statement
    REFUSED = "refused"  # full disk, read-only, no permission, an I/O error, held by another process for seconds
    DAMAGED = "damaged"


# Primary result codes of SQLite: https://www.sqlite.org/rescode.html
_REFUSED = {
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class NotAFileError(sqlite3.OperationalError):
    """A symbolic link or a directory stands where the database or one of its journals should be: it is not opened."""


def trouble_of(error: BaseException | None) -> Trouble:
    """The trouble that `error` reports; for an error of Django's, that of its SQLite cause."""
    found = sqlite_error_of(error)
    if found is None:
        return Trouble.NONE
    if isinstance(found, NotAFileError):
        return Trouble.DAMAGED
    code = getattr(found, "sqlite_errorcode", 0) & 0xFF
    if code in _REFUSED:
        return Trouble.REFUSED
    # Tables are missing: the file was replaced or cut while it was in use.
    if code in _DAMAGED or str(found).startswith("no such table"):
        return Trouble.DAMAGED
    return Trouble.NONE


def sqlite_error_of(error: BaseException | None) -> sqlite3.Error | None:
    """The SQLite error that `error` is or comes from; None for any other."""
    while error is not None and not isinstance(error, sqlite3.Error):
        if not isinstance(error, DatabaseError | UpdateError):
            return None
        error = error.__cause__ or error.__context__
    return error
