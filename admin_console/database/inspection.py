"""Inspects a database file without changing it: whether it is whole, and which migrations it has."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from admin_console.database.errors import Trouble, trouble_of
from admin_console.vocabulary.private_files import file_defect

# Checking every page of a large audit list takes longer; damage there is found when it is read.
CHECK_S_MAX = 2.0
_INSTRUCTIONS_PER_LOOK = 20_000
_NEEDED_TABLES = {"admin_console_user", "admin_console_auditrow", "django_session", "django_migrations"}


def read_only_name(path: Path) -> str:
    """The name with which SQLite reads the file as it is, on a disk that refuses writes too. A -wal file is not
    read."""
    return f"file:{quote(str(path))}?mode=ro&immutable=1"


def has_journal(path: Path) -> bool:
    """Whether a -wal file with something in it lies beside the database: the file alone is not up to date."""
    try:
        return path.with_name(f"{path.name}-wal").lstat().st_size > 0
    except FileNotFoundError:
        return False


def damage_of(path: Path, *, check_s_max: float = CHECK_S_MAX, is_thorough: bool = False) -> str:
    """The damage of the file, for a sentence; "" for a whole database, or without a file.

    Opened as the console opens it, so that a -wal file counts. is_thorough: indexes are compared with their tables,
    our tables must be there, and a check that takes too long counts as damage.
    Raises sqlite3.Error when the disk refuses to open it.
    """
    if kind := file_defect(path):
        return kind
    if not path.exists():
        return ""
    if path.stat().st_size == 0 and not has_journal(path):
        return "empty"
    deadline_s = time.monotonic() + check_s_max
    try:
        with closing(sqlite3.connect(path, timeout=5)) as database:
            database.set_progress_handler(lambda: time.monotonic() > deadline_s, _INSTRUCTIONS_PER_LOOK)
            try:
                found = database.execute(f"PRAGMA {'integrity' if is_thorough else 'quick'}_check(1)").fetchone()[0]
            except sqlite3.OperationalError as exc:
                if exc.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                    raise
                return f"not checked within {check_s_max:g} s" if is_thorough else ""
            if found != "ok":
                return f"damaged ({found})".replace("*** in database main ***\n", "")
            if is_thorough and (missing := _NEEDED_TABLES - _tables_of(database)):
                return f"without the table {min(missing)}"
    except sqlite3.DatabaseError as exc:
        if trouble_of(exc) is not Trouble.DAMAGED:
            raise
        return f"damaged ({exc})"
    return ""


def applied_migrations(path: Path) -> set[tuple[str, str]]:
    """App and name of each migration that the file has seen; none when that can't be read. Changes nothing."""
    if file_defect(path) or not path.exists() or file_defect(path.with_name(f"{path.name}-wal")):
        return set()
    name = f"file:{quote(str(path))}?mode=ro" if has_journal(path) else read_only_name(path)
    try:
        with closing(sqlite3.connect(name, uri=True, timeout=5)) as database:
            return set(database.execute("SELECT app, name FROM django_migrations"))
    except sqlite3.Error:
        return set()


def _tables_of(database: sqlite3.Connection) -> set[str]:
    return {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
