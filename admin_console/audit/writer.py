"""Audit rows for acts that come over the engine's HTTP API: handed over by its thread, written by one of ours."""

import logging
import queue
import threading
import uuid
from dataclasses import dataclass, field

from django.db import DatabaseError, close_old_connections, connection

from admin_console.audit.models import AuditRow, Phase, Verdict
from admin_console.audit.record import VIA_HTTP_API, now_ms

logger = logging.getLogger(__name__)

QUEUE_ROWS_MAX = 10_000
BATCH_ROWS_MAX = 200


@dataclass(frozen=True, slots=True)
class HttpAct:
    """One act that the engine's HTTP API did or refused. `message` is the sentence, or the error's word."""

    action: str
    topic: str
    channel: str
    address: str
    is_done: bool
    message: str
    counts: dict[str, int]
    at_ms: int = field(default_factory=now_ms)


class AuditWriter:
    """One thread that writes what `submit` hands over, in batches. `submit` never waits and touches no disk."""

    def __init__(self) -> None:
        self._acts: queue.Queue[HttpAct | None] = queue.Queue(QUEUE_ROWS_MAX)
        self._thread = threading.Thread(target=self._run, name="audit-writer", daemon=True)
        self.lost_count = 0

    def start(self) -> None:
        self._thread.start()

    def submit(self, act: HttpAct) -> None:
        """Hand over one act; any thread. Beyond 10,000 unwritten ones it is counted as lost, and logged."""
        try:
            self._acts.put_nowait(act)
        except queue.Full:
            self.lost_count += 1
            logger.error("audit row lost action=%s topic=%s channel=%s", act.action, act.topic, act.channel)

    def stop(self, timeout_s: float = 5) -> None:
        """Write what was handed over before, then end."""
        if self._thread.is_alive():
            self._acts.put(None)
            self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            is_last = False
            while not is_last:
                batch, is_last = self._next_batch()
                self._write(batch)
        finally:
            connection.close()

    def _next_batch(self) -> tuple[list[HttpAct], bool]:
        """At least one act, and whatever came meanwhile; whether the end was reached."""
        batch: list[HttpAct] = []
        act = self._acts.get()
        while act is not None:
            batch.append(act)
            if len(batch) == BATCH_ROWS_MAX:
                return batch, False
            try:
                act = self._acts.get_nowait()
            except queue.Empty:
                return batch, False
        return batch, True

    def _write(self, batch: list[HttpAct]) -> None:
        if not batch:
            return
        close_old_connections()
        try:
            AuditRow.objects.bulk_create([_row_of(act) for act in batch])
        except DatabaseError:
            self.lost_count += len(batch)
            logger.exception("audit rows lost count=%d", len(batch))


def _row_of(act: HttpAct) -> AuditRow:
    return AuditRow(
        act_id=uuid.uuid4().hex,
        phase=Phase.EVENT,
        at_ms=act.at_ms,
        actor="",
        address=act.address[:64],
        via=VIA_HTTP_API,
        action=act.action[:32],
        topic=act.topic[:64],
        channel=act.channel[:64],
        verdict=Verdict.DONE if act.is_done else Verdict.FAILED,
        message=act.message[:500],
        counts=act.counts,
    )
