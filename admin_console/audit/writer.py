"""The audit writer: one thread writes rows in batches: acts over the engine's HTTP API, and rows of the console
that the disk refuses.

Handing a row over touches no disk. While the disk refuses rows, the writer holds at most ROWS_MAX of them in memory and
counts further ones as lost. Repeated acts of one source are counted here, too (repeated_acts.py).
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import cast

from django.db import DatabaseError, connection

from admin_console.accounts.waiting_sessions import remove_ended
from admin_console.audit.chain import append
from admin_console.audit.engine_acts import row_of
from admin_console.audit.models import AuditRow, Phase
from admin_console.audit.record import set_row_buffer
from admin_console.audit.repeated_acts import RepeatedRows
from admin_console.database.base import DatabaseWrapper
from admin_console.database.condition import CONDITION, Storage
from admin_console.database.errors import Trouble, sqlite_error_of, trouble_of
from queue_engine.delivery.stats import ActRecord

logger = logging.getLogger(__name__)

ROWS_MAX = 10_000  # about 10 MB
# With more, the console begins no act: the rest is for the results of acts that were begun.
INTENT_ROWS_MAX = 9_500
# With more, the HTTP API begins no act: the rest is for people.
HTTP_ROWS_MAX = 9_000
BATCH_ROWS_MAX = 200
TRY_AGAIN_S = 1.0
CLOSE_EVERY_S = 1.0  # how often windows of repeated acts that are over become rows


class AuditWriter:
    """Takes rows from any thread, without waiting and without touching a disk; its own thread writes them."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._repeated = RepeatedRows()
        self._rows: deque[AuditRow] = deque()
        self._callbacks: dict[str, Callable[[bool], None]] = {}  # act_id → called when its intent is stored or lost
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="audit-writer", daemon=True)
        self.lost_count = 0
        self.refusal = ""  # why the rows wait; "" while they are written

    @property
    def waiting_count(self) -> int:
        return len(self._rows)

    def start(self) -> None:
        set_row_buffer(self)
        self._thread.start()

    @property
    def has_room(self) -> bool:
        """Whether a row about an act over the HTTP API would be stored."""
        return len(self._rows) < HTTP_ROWS_MAX

    @property
    def has_room_for_acts(self) -> bool:
        """Whether a row about an act or a look in the console would be stored."""
        return len(self._rows) < INTENT_ROWS_MAX

    # `ActGate`.

    def begin(self, record: ActRecord, then: Callable[[bool], None]) -> None:
        """Take an act's intent, and call `then` with whether it is stored: on the disk, or in memory while the disk
        refuses it. Beyond 9,000 unwritten rows it is refused. `then` runs in here or in the writer's thread."""
        row = row_of(record)
        is_written_now = self._thread.is_alive() and not self.refusal and CONDITION.storage is Storage.DISK
        if not self.has_room:
            then(False)
        elif not is_written_now:
            then(self._put(row, HTTP_ROWS_MAX))
        elif not self._put(row, HTTP_ROWS_MAX, then):
            then(False)

    def tell(self, record: ActRecord) -> None:
        """Take the result of an act of the engine. Beyond 9,000 unwritten rows, 10,000 for an act that was begun, it is
        counted as lost."""
        if not self.count_repeat(record):
            self._put(row_of(record), ROWS_MAX if record.act_id else HTTP_ROWS_MAX)

    def count_repeat(self, act: ActRecord | AuditRow) -> bool:
        """Count the act if it is one of many that become one row later (repeated_acts.py); whether it is."""
        with self._lock:
            return self._repeated.take(act, self._monotonic_s())

    def keep(self, row: AuditRow) -> bool:
        """Take a row of the console that the disk refused. False for an intent beyond 9,500 unwritten rows: the act is
        not to be done. Other rows beyond 10,000 are counted as lost."""
        if row.phase == Phase.INTENT and not self.has_room_for_acts:
            return False
        self._put(row, ROWS_MAX)
        return True

    def stop(self, timeout_s: float = 5) -> None:
        """Write the rows that wait, if the disk takes them, then end."""
        set_row_buffer(None)
        if self._thread.is_alive():
            self._stopping.set()
            self._wake.set()
            self._thread.join(timeout_s)
        if self._rows:
            logger.error("audit rows lost count=%d: the disk refused them until the end", len(self._rows))

    def _put(self, row: AuditRow, most: int, then: Callable[[bool], None] | None = None) -> bool:
        """Whether there was room; else the row is counted as lost. then: called once the row is stored; not called
        where there was no room."""
        with self._lock:
            if len(self._rows) < most:
                self._rows.append(row)
                if then is not None:
                    self._callbacks[row.act_id] = then  # under the same lock as its row: the thread takes both
                self._wake.set()
                return True
            self.lost_count += 1
            if self.lost_count & (self.lost_count - 1):
                return False  # logged at 1, 2, 4, 8 …
        logger.error(
            "audit row lost action=%s topic=%s channel=%s lost=%d: %d rows wait, which is the limit",
            row.action,
            row.topic,
            row.channel,
            self.lost_count,
            most,
        )
        return False

    def _run(self) -> None:
        try:
            while True:
                if self.refusal:
                    self._stopping.wait(TRY_AGAIN_S)  # one try a second, however many rows come
                elif not self._wake.wait(CLOSE_EVERY_S):
                    connection.close()  # reused from batch to batch: opening one costs as much as writing a row
                self._wake.clear()
                is_last = self._stopping.is_set()
                self._close_windows(is_last=is_last)
                self._write_all()
                if is_last:
                    return
        finally:
            connection.close()

    def _close_windows(self, *, is_last: bool) -> None:
        with self._lock:
            rows = self._repeated.close_windows(self._monotonic_s(), is_last=is_last)
        for row in rows:
            self._put(row, ROWS_MAX)

    def _write_all(self) -> None:
        """Write until no row waits, or the disk refuses one."""
        while batch := self._head():
            if CONDITION.storage is not Storage.DISK:
                self._refused(CONDITION.reason)
                return
            try:
                cast(DatabaseWrapper, connection).close_if_file_moved()
                append(batch)
            except Exception as exc:
                connection.close()
                # Rows that the database can't take for another reason are dropped; the thread and later rows go on.
                if trouble_of(exc) is not Trouble.NONE:
                    self._refused(str(sqlite_error_of(exc)))
                    return
                logger.exception("audit rows lost count=%d", len(batch))
                self.lost_count += len(batch)
                is_stored = False
            else:
                is_stored = True
            with self._lock:
                for _ in batch:
                    self._rows.popleft()
            for row in batch:
                if then := self._callbacks.pop(row.act_id, None):
                    then(is_stored)
            self._written(len(batch))

    def _head(self) -> list[AuditRow]:
        with self._lock:
            return [self._rows[position] for position in range(min(len(self._rows), BATCH_ROWS_MAX))]

    def _refused(self, reason: str) -> None:
        if not self.refusal:
            logger.error(
                "audit rows wait in memory, at most %d of them: the console's database refuses them: %s",
                ROWS_MAX,
                reason,
            )
        self.refusal = reason
        # Their intents wait in memory, as all rows do now: the acts go on.
        with self._lock:
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        for then in callbacks:
            then(True)

    def _written(self, count: int) -> None:
        if not self.refusal:
            return
        logger.info("audit rows are written again: %d that waited, %d lost so far", count, self.lost_count)
        self.refusal = ""
        try:
            remove_ended()
        except DatabaseError as exc:
            logger.warning("sessions that ended are still in the database: %s", exc)
