"""The upkeep thread of the audit list: checks the chain of hashes, renews `audit-head`, removes old rows.

Every second the thread checks up to 1,000 rows, and once a day it begins anew at the first. Every minute it writes the
newest row's number and hash beside the database, and measures the list. Once a day it removes rows that are older than
the retention. From a list that is larger than its limit it removes the oldest rows, 10,000 a second.
"""

import logging
import os
import sqlite3
import threading
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from django.db import DatabaseError, connection

from admin_console.audit.ageing import remove_old_rows, remove_rows_for_size
from admin_console.audit.head_file import HeadFileError, path_of, read_head, write_head
from admin_console.audit.record import now_ms
from admin_console.audit.verification import (
    ChainCheck,
    has_rows_before,
    id_of_hash,
    newest_head,
    open_to_read,
    read_rows,
    stands,
)
from admin_console.database.condition import CONDITION, Storage

logger = logging.getLogger(__name__)

TICK_S = 1.0
ROWS_A_TICK = 1_000  # about 12 ms
HEAD_EVERY_MS = 60_000
MEASURE_EVERY_MS = 60_000
CHECK_ANEW_EVERY_MS = REMOVE_EVERY_MS = 24 * 3_600_000
# Rows go until this share of the limit is left, so that they go in pieces and not one by one.
SHARE_LEFT = 0.9
_FIRST_ID = -(2**63)


@dataclass(frozen=True, slots=True)
class ChainState:
    """The newest result of the check.

    last_id: the newest row that was checked. checked_ms: when, UTC, Unix milliseconds; 0 before the first time.
    is_complete: all rows were checked since the start. faults: sentences; () while the check has found none.
    """

    row_count: int = 0
    last_id: int = 0
    checked_ms: int = 0
    is_complete: bool = False
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ListSize:
    """How large the list is.

    bytes: of the console's database in use, nearly all of it the list. file_bytes: of its file, which does not shrink
    when rows are removed. bytes_max: 0 for no limit. oldest_ms: when the oldest row was written, UTC, Unix
    milliseconds; 0 without rows.
    """

    bytes: int
    file_bytes: int
    bytes_max: int
    oldest_ms: int


_upkeep: "AuditUpkeep | None" = None


def list_size() -> ListSize | None:
    """None in a process that does not serve, and before the first measurement."""
    return _upkeep.size if _upkeep is not None else None


def chain_state() -> ChainState | None:
    """None in a process that does not serve."""
    return _upkeep.state if _upkeep is not None else None


class AuditUpkeep:
    """Started once the database is open. `state` and `size` may be read by any thread."""

    def __init__(self, data_path: Path, database_path: Path, *, retention_ms: int, bytes_max: int = 0) -> None:
        """retention_ms: older rows are removed; 0 for no removal. bytes_max: of a larger list the oldest are
        removed; 0 for no limit."""
        self._head_path = path_of(data_path)
        self._database_path = database_path
        self._retention_ms = retention_ms
        self._bytes_max = bytes_max
        self._check = ChainCheck()
        self._after_id = _FIRST_ID
        self._is_caught_up = False  # the check has come to the newest row
        self._began_check_ms = 0
        self._file_number = 0
        self._has_new_rows = True
        self._ids: dict[str, int | None] = {}
        self._row_faults: tuple[str, ...] = ()
        self._made_ms = now_ms()
        self._head_ms = 0
        self._removed_ms = 0
        self._measured_ms = 0
        self._is_too_large = False
        self._head_fault = ""
        self._head_trouble = ""  # why the file could not be written the last time
        self._logged_faults: tuple[str, ...] = ()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="audit-upkeep", daemon=True)
        self.state = ChainState()
        self.size: ListSize | None = None

    def start(self) -> None:
        global _upkeep
        _upkeep = self
        self._thread.start()

    def stop(self, timeout_s: float = 5) -> None:
        """Renew `audit-head` for the last time, then end. Called when no more rows are written."""
        global _upkeep
        _upkeep = None
        if self._thread.is_alive():
            self._stopping.set()
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stopping.wait(TICK_S):
            self._look(is_last=False)
        self._look(is_last=True)

    def _look(self, *, is_last: bool) -> None:
        if CONDITION.storage is not Storage.DISK:
            return
        try:
            self.run_once(now_ms(), is_last=is_last)
        except (OSError, sqlite3.Error, DatabaseError) as exc:
            logger.warning("the upkeep of the audit list failed: %s", exc)
        except Exception:
            logger.exception("the upkeep of the audit list failed")
        finally:
            connection.close()  # the database may be elsewhere the next time

    def run_once(self, at_ms: int, *, is_last: bool = False) -> None:
        """Do all that is due at `at_ms`, UTC, Unix milliseconds; with is_last, only renew `audit-head`.

        Raises OSError, sqlite3.Error or DatabaseError.
        """
        with closing(open_to_read(self._database_path)) as database:
            if is_last or _is_due(self._head_ms, HEAD_EVERY_MS, at_ms):
                self._head_ms = at_ms
                self._renew_head(database, at_ms)
            if is_last:
                return
            self._check_some(database, at_ms)
            if self._is_too_large or _is_due(self._measured_ms, MEASURE_EVERY_MS, at_ms):
                self._measured_ms = at_ms
                self._measure(database)
        # Rows go only after a complete check without faults, or the proof of a fault would go with them; and not in the
        # middle of a check, which has not read them yet.
        is_in_order = self.state.is_complete and self._is_caught_up and not self.state.faults
        if self._retention_ms and is_in_order and _is_due(self._removed_ms, REMOVE_EVERY_MS, at_ms):
            self._removed_ms = at_ms
            self._remove_old(at_ms)
        if self._is_too_large and is_in_order:
            self._remove_for_size(at_ms)

    def _measure(self, database: sqlite3.Connection) -> None:
        page_count, free_count, page_bytes = (
            database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
        oldest = database.execute("SELECT at_ms FROM admin_console_auditrow ORDER BY id LIMIT 1").fetchone()
        used = (page_count - free_count) * page_bytes
        # A row that was written past Penstock may have any time.
        oldest_ms = oldest[0] if oldest is not None and isinstance(oldest[0], int) else 0
        self.size = ListSize(used, page_count * page_bytes, self._bytes_max, oldest_ms)
        # Once too large, rows go until there is some room.
        share = SHARE_LEFT if self._is_too_large else 1.0
        self._is_too_large = 0 < self._bytes_max * share < used

    def _remove_for_size(self, at_ms: int) -> None:
        assert self.size is not None, "a list that is too large was measured"
        removed = remove_rows_for_size(self.size.bytes, int(self._bytes_max * SHARE_LEFT), at_ms)
        if removed:
            logger.info(
                "audit rows removed for their size count=%d bytes=%d limit=%d",
                removed,
                self.size.bytes,
                self._bytes_max,
            )
        else:
            self._is_too_large = False  # all that may go is gone; the next measurement tries again

    def _check_some(self, database: sqlite3.Connection, at_ms: int) -> None:
        if (number := os.stat(self._database_path).st_ino) != self._file_number:
            # A damaged file was set aside, and this is the new one.
            self._check, self._after_id, self._file_number = ChainCheck(), _FIRST_ID, number
            self.state = ChainState()
        if self.state.is_complete and _is_due(self._began_check_ms, CHECK_ANEW_EVERY_MS, at_ms):
            self._check, self._after_id = ChainCheck(), _FIRST_ID
        if self._after_id == _FIRST_ID:
            self._began_check_ms = at_ms
            self._ids.clear()
        rows = read_rows(database, self._after_id, ROWS_A_TICK)
        for row in rows:
            self._check.take(row)
        if rows:
            self._after_id = rows[-1].id
            self._has_new_rows = True
        self._is_caught_up = len(rows) < ROWS_A_TICK
        if self._is_caught_up:
            if self._has_new_rows:
                self._has_new_rows = False
                self._row_faults = tuple(self._check.faults(partial(self._id_of_hash, database)))
            faults = (*self._row_faults, self._head_fault) if self._head_fault else self._row_faults
            self._log_new(faults)
            self.state = ChainState(self._check.row_count, self._check.last_id, at_ms, is_complete=True, faults=faults)
        elif not self.state.is_complete:
            self.state = ChainState(self._check.row_count, self._check.last_id, at_ms)
        # While a further check is under way, the result of the last one stands.

    def _id_of_hash(self, database: sqlite3.Connection, row_hash: str) -> int | None:
        """The row with a hash. The search reads all rows, so its result is cached for a day."""
        if row_hash not in self._ids:
            self._ids[row_hash] = id_of_hash(database, row_hash)
        return self._ids[row_hash]

    def _log_new(self, faults: tuple[str, ...]) -> None:
        if new := [fault for fault in faults if fault not in self._logged_faults]:
            logger.error("the audit list is not as it was written (penstock audit verify): %s", " ".join(new[:10]))
        self._logged_faults = faults

    def _renew_head(self, database: sqlite3.Connection, at_ms: int) -> None:
        """Write the newest row's hash, unless the row that the file names is missing: then the file is the proof of
        it."""
        try:
            named = read_head(self._head_path)
        except HeadFileError as exc:
            self._head_fault = f"{exc} Move it away: the server writes a new one."
            return
        if named is not None and not stands(database, named):
            self._head_fault = (
                f"Row {named.id} is not there as {self._head_path} names it: rows at the end were removed, or the list "
                "was replaced. Move the file away: the server writes a new one."
            )
            return
        self._head_fault = ""
        newest = newest_head(database)
        if newest is None or newest == named:
            return
        if named is None and has_rows_before(database, self._made_ms):
            logger.warning(
                "%s is missing; the server writes a new one for row %d: rows behind it may have been cut off. A copy "
                "of the file from a backup or another machine proves it: penstock audit verify --head COPY",
                self._head_path,
                newest.id,
            )
        try:
            self._sync_journal()
            write_head(self._head_path, newest, at_ms)
            self._head_trouble = ""
        except OSError as exc:
            trouble = exc.strerror or str(exc)
            if trouble != self._head_trouble:
                logger.warning("%s is not renewed: %s", self._head_path, trouble)
            self._head_trouble = trouble

    def _sync_journal(self) -> None:
        """Sync the rows before the file names them: after a power cut they would count as removed. Raises OSError."""
        # SQLite syncs this file when it moves its rows over, and holds no lock on it that closing it would end.
        try:
            descriptor = os.open(f"{self._database_path}-wal", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _remove_old(self, at_ms: int) -> None:
        if removed := remove_old_rows(at_ms - self._retention_ms, at_ms):
            logger.info("audit rows removed for their age count=%d", removed)


def _is_due(last_ms: int, every_ms: int, at_ms: int) -> bool:
    """Whether `every_ms` has passed; also true when the clock was set back by that much."""
    return abs(at_ms - last_ms) >= every_ms
