"""Writes audit rows: an act's intent and result, refusals, single events. Rows that the disk refuses wait in memory."""

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from django.db import DatabaseError
from django.http import HttpRequest

from admin_console.audit.chain import append
from admin_console.audit.models import (
    DETAIL_LENGTH_MAX,
    VIA_COMMAND_LINE,
    VIA_CONSOLE,
    AuditRow,
    Origin,
    Phase,
    Verdict,
)
from admin_console.database.condition import CONDITION, Storage
from admin_console.database.errors import Trouble, trouble_of
from admin_console.vocabulary.current_cluster import current_cluster

FOREIGN_REQUEST = "foreign_request"
_NO_ROOM = "the disk refuses the audit list, and memory has no room for more of its rows"


class NotAuditedError(DatabaseError):
    """Neither disk nor memory has room for the row of an act: the act must not be done."""


class RowBuffer(Protocol):
    """Rows in memory until the disk takes them, and the count of repeated acts: AuditWriter, which imports this module.

    refusal: why rows wait, "" when they don't.
    """

    refusal: str
    lost_count: int

    @property
    def waiting_count(self) -> int: ...

    @property
    def has_room_for_acts(self) -> bool: ...

    def keep(self, row: AuditRow) -> bool: ...

    def count_repeat(self, act: AuditRow) -> bool: ...


_row_buffer: RowBuffer | None = None


def set_row_buffer(buffer: RowBuffer | None) -> None:
    """Called by the writer when it starts, and with None when it ends."""
    global _row_buffer
    _row_buffer = buffer


_on_result: Callable[[AuditRow], None] | None = None


def set_result_listener(listener: Callable[[AuditRow], None] | None) -> None:
    """Have `listener` get the result of each act of the console; None for no listener. It must not wait."""
    global _on_result
    _on_result = listener


def _report(rows: Iterable[AuditRow]) -> None:
    for row in rows:
        if _on_result is not None and row.phase == Phase.RESULT:
            _on_result(row)


def get_row_buffer() -> RowBuffer | None:
    """None in a process that does not serve: there a row is written at once or not at all."""
    return _row_buffer


def now_ms() -> int:
    """UTC, Unix milliseconds."""
    return time.time_ns() // 1_000_000


def _add(row: AuditRow) -> None:
    """Write the row, keep it in memory or count it as a repeat. Raises DatabaseError where none of these works; the
    listener gets a result all the same."""
    _report([row])
    buffer = _row_buffer
    if buffer is not None and buffer.count_repeat(row):
        return
    if buffer is not None and (buffer.refusal or CONDITION.storage is not Storage.DISK):
        _keep(buffer, row)
        return
    try:
        append([row])
    except DatabaseError as exc:
        if buffer is None or trouble_of(exc) is Trouble.NONE:
            raise
        _keep(buffer, row)


def _keep(buffer: RowBuffer, row: AuditRow) -> None:
    if not buffer.keep(row):
        raise NotAuditedError(_NO_ROOM)


@dataclass(frozen=True, slots=True)
class ActInProgress:
    """An act whose intent is written, or waits in memory; `finish` writes its result."""

    intent: AuditRow

    def finish(
        self, verdict: Verdict, message: str, counts: Mapping[str, int] | None = None, *, detail: str = ""
    ) -> None:
        """Add the result's row, which repeats the intent so that it can be read alone. detail: instead of the
        intent's."""
        _add(self.result(verdict, message, counts, detail=detail))

    def result(
        self, verdict: Verdict, message: str, counts: Mapping[str, int] | None = None, *, detail: str = ""
    ) -> AuditRow:
        intent = self.intent
        row = AuditRow(
            act_id=intent.act_id,
            phase=Phase.RESULT,
            at_ms=now_ms(),
            actor=intent.actor,
            role=intent.role,
            address=intent.address,
            via=intent.via,
            action=intent.action,
            topic=intent.topic,
            channel=intent.channel,
            detail=_of_cluster(intent.cluster, detail) if detail else intent.detail,
            reason=intent.reason,
            verdict=verdict,
            message=message[:500],
            counts=dict(counts or {}),
        )
        row.origin, row.cluster = intent.origin, intent.cluster
        return row


def intent_of(
    request: HttpRequest, action: str, *, topic: str = "", channel: str = "", detail: str = "", reason: str = ""
) -> AuditRow:
    """The row of an act that is about to be done."""
    row = _row_of(request, action, topic=topic, channel=channel, detail=detail)
    row.phase = Phase.INTENT
    row.reason = reason[:200]
    # Not `build_absolute_uri`: a Host that is not allowed raises there, and an act is no place for it.
    host = request.META.get("HTTP_HOST") or request.META.get("SERVER_NAME", "")
    url = f"{request.scheme}://{host}{request.get_full_path()}"
    row.origin = Origin(url, request.headers.get("User-Agent", "")[:500], detail)
    return row


def begin_act(intent: AuditRow) -> ActInProgress:
    """Write the intent. Raises DatabaseError where neither disk nor memory takes the row: then the act must not be
    done."""
    _add(intent)
    return ActInProgress(intent)


def write_together(rows: Sequence[AuditRow]) -> bool:
    """Write rows of several acts at once: all or none. False where they have to be added one by one: while the disk
    refuses rows, memory may take some of them."""
    buffer = _row_buffer
    if buffer is not None and (buffer.refusal or CONDITION.storage is not Storage.DISK):
        return False
    try:
        append(rows)
    except DatabaseError:
        return False
    _report(rows)
    return True


def require_room() -> None:
    """Raises NotAuditedError where the disk refuses rows and memory has no room for more."""
    if _row_buffer is not None and not _row_buffer.has_room_for_acts:
        raise NotAuditedError(_NO_ROOM)


def record_look(
    request: HttpRequest,
    action: str,
    *,
    topic: str,
    channel: str = "",
    detail: str = "",
    verdict: Verdict = Verdict.DONE,
    message: str = "",
    counts: Mapping[str, int] | None = None,
) -> None:
    """Write that a user looked at messages, before they are shown; repeated looks are counted (repeated_acts.py).

    Raises DatabaseError where neither disk nor memory takes the row: then nothing must be shown.
    """
    require_room()
    row = _row_of(request, action, topic=topic, channel=channel, detail=detail)
    row.phase, row.verdict, row.message, row.counts = Phase.EVENT, verdict, message[:500], dict(counts or {})
    _add(row)


def record_refusal(request: HttpRequest, action: str, *, topic: str = "", channel: str = "", why: str = "") -> None:
    """Write that a user tried an act that the role does not cover."""
    row = _row_of(request, action, topic=topic, channel=channel)
    row.phase, row.verdict, row.message = Phase.REFUSED, Verdict.REFUSED, why[:500]
    _add(row)


def hand_over_refused_socket(address: str, path: str, origin: str) -> None:
    """Report that a page of a foreign origin tried to open a live socket.

    Touches no disk. In a process that does not serve, nothing is written.
    """
    buffer = _row_buffer
    if buffer is None:
        return
    row = AuditRow(
        act_id=uuid.uuid4().hex,
        phase=Phase.REFUSED,
        at_ms=now_ms(),
        actor="",
        address=address[:64],
        via=VIA_CONSOLE,
        action=FOREIGN_REQUEST,
        verdict=Verdict.REFUSED,
        message=f"A page of {origin[:200] or 'no named origin'} tried to open the socket {path[:80]}.",
    )
    if not buffer.count_repeat(row):
        buffer.keep(row)


def record_event(
    request: HttpRequest, action: str, *, actor: str = "", detail: str = "", verdict: Verdict = Verdict.DONE
) -> None:
    """Write an event, which is over at once: a log-in, a password change."""
    row = _row_of(request, action, detail=detail)
    row.phase, row.verdict = Phase.EVENT, verdict
    row.actor = (actor or row.actor)[:64]
    row.detail = detail[:DETAIL_LENGTH_MAX]  # an account is of no cluster
    _add(row)


def record_command(actor: str, action: str, *, detail: str, topic: str = "") -> None:
    """Write a command's act, or the look it is about to take: `actor` is the account of the operating system."""
    row = AuditRow(
        act_id=uuid.uuid4().hex,
        phase=Phase.EVENT,
        at_ms=now_ms(),
        actor=actor[:64],
        via=VIA_COMMAND_LINE,
        action=action,
        topic=topic[:64],
        detail=detail[:DETAIL_LENGTH_MAX],
        verdict=Verdict.DONE,
    )
    _add(row)


def begin_command(actor: str, action: str, *, detail: str, topic: str = "") -> ActInProgress:
    """Write the intent of an act of a command, whose other half is in a file. Raises DatabaseError."""
    row = AuditRow(
        act_id=uuid.uuid4().hex,
        phase=Phase.INTENT,
        at_ms=now_ms(),
        actor=actor[:64],
        via=VIA_COMMAND_LINE,
        action=action,
        topic=topic[:64],
        detail=detail[:DETAIL_LENGTH_MAX],
    )
    _add(row)
    return ActInProgress(row)


def _row_of(request: HttpRequest, action: str, *, topic: str = "", channel: str = "", detail: str = "") -> AuditRow:
    user = request.user
    cluster = current_cluster()
    row = AuditRow(
        act_id=uuid.uuid4().hex,
        at_ms=now_ms(),
        actor=user.username if user.is_authenticated else "",
        role=user.role if user.is_authenticated else "",
        address=(request.META.get("REMOTE_ADDR") or "")[:64],
        via=VIA_CONSOLE,
        action=action[:32],
        topic=topic[:64],
        channel=channel[:64],
        detail=_of_cluster(cluster, detail),
    )
    row.cluster = cluster
    return row


def _of_cluster(cluster: str, detail: str) -> str:
    """The detail of a row, the name of the cluster before it."""
    return (f"cluster {cluster}{', ' if detail else ''}{detail}" if cluster else detail)[:DETAIL_LENGTH_MAX]
