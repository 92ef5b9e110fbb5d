"""Opening the console's database at start, and again when it is damaged or the disk takes it back.

No fault of the file ends the process: messages flow on. A damaged file is set aside and a new one
made; a whole one that can't be written is read as it is; where no file can be made, the tables are in memory.

    disk ──damaged──► NAME.bad-N, a new file ──► disk
      │                        └─the disk refuses it─► memory ──the disk takes it──► disk
      └─can't be written─► read-only ──the disk takes it──► disk
"""

import io
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from django.core.management import call_command
from django.db import DatabaseError, connections
from django.db.migrations.loader import MigrationLoader

from admin_console.database.condition import DatabaseCondition, Storage
from admin_console.database.errors import Trouble, sqlite_error_of, trouble_of
from admin_console.database.inspection import applied_migrations, damage_of, has_journal, read_only_name
from admin_console.database.journals import JOURNALS, remove_with_journals, set_aside_false_journals
from admin_console.vocabulary.private_files import set_aside

logger = logging.getLogger(__name__)

MEMORY_NAME = "file:/penstock-console?vfs=memdb"
CHECK_AGAIN_S = 2.0
# How often sessions that have expired are removed. A session lives for twelve hours.
SESSIONS_EVERY_S = 3_600.0
# A -shm file takes 32 KiB, and so does a small -wal.
FULL_BYTES = 64 << 10
# How long a check of every page may take, after an error at run time reported damage.
THOROUGH_CHECK_S_MAX = 30.0

_PLAIN_PRAGMAS = "PRAGMA busy_timeout=5000; PRAGMA foreign_keys=ON"


class ConsoleDatabase:
    """The database of this process. `open` once, then `watch` until `close`.

    make_admin: makes the first admin where there is no user, and returns the lines about the log-in. Raises
    ValueError when the environment's name or password can't be used. print_line: to the terminal or the journal.
    companion: a file about this database's rows; it is set aside together with a damaged database.
    """

    def __init__(
        self,
        path: Path,
        condition: DatabaseCondition,
        make_admin: Callable[[], list[str]],
        print_line: Callable[[str], None],
        companion: Path,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._companion = companion
        self._monotonic_s = monotonic_s
        self._sessions_s = monotonic_s()
        self._condition = condition
        self._make_admin = make_admin
        self._print = print_line
        self._disk_pragmas = connections["default"].settings_dict["OPTIONS"]["init_command"]
        # Held open all the time: SQLite removes the -wal and -shm files with the last connection, and could not make
        # them anew on a full disk; and the tables in memory end with it.
        self._held: sqlite3.Connection | None = None
        self._keeper: threading.Thread | None = None
        self._closing = threading.Event()
        self._is_open = False

    def open(self) -> None:
        """Open it, wherever that is possible. Raises ValueError as make_admin does."""
        try:
            self._open_on_disk()
        except (OSError, sqlite3.Error, DatabaseError) as exc:
            self._open_elsewhere(_reason_of(exc, self._path))
        self._is_open = True

    def watch(self) -> None:
        """Start the thread that watches the database."""
        self._keeper = threading.Thread(target=self._keep, name="console-database", daemon=True)
        self._keeper.start()

    def close(self) -> None:
        self._closing.set()
        self._condition.damage_seen.set()
        if self._keeper is not None:
            self._keeper.join(CHECK_AGAIN_S)
        self._release()

    # Opening.

    def _open_on_disk(self) -> None:
        """Raises OSError or an error of the database when the disk refuses it; nothing new is left behind then."""
        self._rename_links()
        if damage := damage_of(self._path):
            self._set_aside(damage)
        try:
            self._make_tables_on_disk()
        except (sqlite3.Error, DatabaseError) as exc:
            if trouble_of(exc) is Trouble.REFUSED:
                raise
            # The check found no damage, and yet the file can't be used.
            self._set_aside(f"damaged ({sqlite_error_of(exc) or exc})")
            self._make_tables_on_disk()

    def _make_tables_on_disk(self) -> None:
        is_new = not os.path.lexists(self._path)
        self._use(str(self._path), self._disk_pragmas)
        try:
            _migrate()
            _remove_expired_sessions()
            lines = self._admin_lines()
            self._hold(str(self._path))
        except BaseException:
            self._release()
            connections["default"].close()
            if is_new:
                remove_with_journals(self._path)
            raise
        self._condition.is_now(Storage.DISK)
        for line in lines:
            self._print(line)

    def _open_elsewhere(self, reason: str) -> None:
        if self._can_be_read():
            self._use(read_only_name(self._path), _PLAIN_PRAGMAS)
            self._release()
            self._condition.is_now(Storage.READ_ONLY, f"{self._path}: {reason}")
            logger.error("the console's database can't be written: %s: %s", self._path, reason)
            return
        self._use(MEMORY_NAME, _PLAIN_PRAGMAS)
        self._hold(MEMORY_NAME)
        _migrate()
        self._condition.is_now(Storage.MEMORY, f"{self._path} can't be made: {reason}")
        logger.error("the console's database is in memory: %s can't be made: %s", self._path, reason)
        for line in self._admin_lines():
            self._print(line)

    def _admin_lines(self) -> list[str]:
        try:
            return self._make_admin()
        except ValueError as exc:
            if not self._is_open:
                raise
            return [f"No admin was made: {exc} Make one with: penstock user add NAME --role admin"]

    def _can_be_read(self) -> bool:
        """Whether the file alone is a whole database of this version."""
        if not self._path.is_file() or self._path.is_symlink() or has_journal(self._path):
            return False
        own_migrations = set(MigrationLoader(None, ignore_no_migrations=True).disk_migrations)
        return own_migrations <= applied_migrations(self._path)

    def _set_aside(self, damage: str) -> None:
        self._release()
        if os.path.lexists(self._companion):
            set_aside(self._companion)
        if os.path.lexists(self._path):
            aside = set_aside(self._path, JOURNALS)
            text = f"{self._path} was {damage}. It is now {aside.name}, with the users and the audit list that it held."
        else:
            text = f"{self._path} was removed while it was in use, with the users and the audit list that it held."
        text += " A new, empty one replaces it. Messages are not affected."
        logger.error("%s", text)
        self._print(text)
        self._print("Add users with: penstock user add NAME --role ROLE")
        self._condition.add_incident("The console's database was damaged and is replaced.", text)

    def _rename_links(self) -> None:
        for text in set_aside_false_journals(self._path):
            logger.error("%s", text)
            self._print(text)
            self._condition.add_incident("A journal of the console's database was no file.", text)

    def _use(self, name: str, pragmas: str) -> None:
        """Send new connections of every thread to `name`."""
        connection = connections["default"]
        connection.close()
        connection.settings_dict["NAME"] = name
        connection.settings_dict["OPTIONS"]["init_command"] = pragmas

    def _hold(self, name: str) -> None:
        if self._held is None:
            self._held = sqlite3.connect(name, uri=name.startswith("file:"), timeout=5, check_same_thread=False)
            # Reading makes SQLite open the files.
            self._held.execute("SELECT count(*) FROM sqlite_master").fetchone()

    def _release(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    # Watching.

    def _keep(self) -> None:
        while True:
            is_damaged = self._condition.damage_seen.wait(CHECK_AGAIN_S)
            if self._closing.is_set():
                return
            try:
                if is_damaged:
                    self._look_at_damage()
                elif self._condition.storage is not Storage.DISK:
                    self._try_disk()
                elif self._monotonic_s() - self._sessions_s >= SESSIONS_EVERY_S:
                    self._sessions_s = self._monotonic_s()
                    _remove_expired_sessions()
            except Exception:
                logger.exception("watching the console's database failed")
            finally:
                connections.close_all()

    def _look_at_damage(self) -> None:
        try:
            self._rename_links()
            damage = damage_of(self._path, check_s_max=THOROUGH_CHECK_S_MAX, is_thorough=True)
            if not damage and self._condition.storage is Storage.DISK and os.path.lexists(self._path):
                logger.warning("%s: an error reported damage; a check of all its pages finds none", self._path)
                self._closing.wait(CHECK_AGAIN_S)  # many errors cost one check every few seconds
                return
            self._set_aside(damage)
            self._make_tables_on_disk()
        except (OSError, sqlite3.Error, DatabaseError) as exc:
            self._open_elsewhere(_reason_of(exc, self._path))
        finally:
            # Requests that came in between saw no tables.
            self._condition.damage_seen.clear()

    def _try_disk(self) -> None:
        """Back to the disk, if that takes it now."""
        try:
            if damage := damage_of(self._path):
                self._set_aside(damage)
            if self._path.exists():
                _write_something(self._path)
            else:
                self._write_memory()
            self._release()
            self._make_tables_on_disk()
        except (OSError, sqlite3.Error, DatabaseError):
            return
        logger.info("the console's database is on the disk again: %s", self._path)

    def _write_memory(self) -> None:
        """Write the tables in memory to a new file. Raises OSError or sqlite3.Error; nothing is left behind then."""
        temporary = self._path.with_name(f"{self._path.name}.tmp")
        temporary.unlink(missing_ok=True)
        try:
            with closing(sqlite3.connect(MEMORY_NAME, uri=True)) as memory, closing(sqlite3.connect(temporary)) as file:
                memory.backup(file)
            temporary.rename(self._path)
        finally:
            temporary.unlink(missing_ok=True)


def _migrate() -> None:
    call_command("migrate", interactive=False, verbosity=0, stdout=io.StringIO())


def _remove_expired_sessions() -> None:
    """Remove the rows of sessions whose users did not log out. Raises DatabaseError."""
    call_command("clearsessions", stdout=io.StringIO())


def _write_something(path: Path) -> None:
    """Write a page as it was. Raises sqlite3.Error when the disk refuses it."""
    with closing(sqlite3.connect(path, timeout=1)) as database:
        (version,) = database.execute("PRAGMA user_version").fetchone()
        database.execute(f"PRAGMA user_version = {version:d}")


def _reason_of(error: BaseException, path: Path) -> str:
    # SQLite calls it an I/O error when there is no room for its -shm file.
    space = os.statvfs(path.parent)
    if (free := space.f_bavail * space.f_frsize) < FULL_BYTES:
        return f"the disk is full, {free:,} bytes are free"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(sqlite_error_of(error) or error)
