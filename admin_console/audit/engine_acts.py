"""Rows of acts that the engine reports: over its HTTP API, of a client, or by itself at their time.

The engine hands an act over as an `ActRecord`. It goes to the audit list while a console runs, else to the engine's own
file (`queue_engine/service/act_file`), of which `file_rows` makes the same rows.
"""

import logging
import uuid
from dataclasses import dataclass
from pathlib import Path

from admin_console.audit.models import CLAIM, VIA_HTTP_API, VIA_SERVER, AuditRow, Phase, Verdict
from admin_console.audit.record import FOREIGN_REQUEST, now_ms
from admin_console.gateway.act_sentences import sentence_of
from admin_console.gateway.sentences import outcome_counts
from queue_engine.delivery.stats import VIA_HTTP, VIA_TIMER, ActRecord
from queue_engine.service.act_file import act_reader

logger = logging.getLogger(__name__)

ENGINE_ACTOR = "penstock"
_VIA = {VIA_HTTP: VIA_HTTP_API, VIA_TIMER: VIA_SERVER}  # the engine's word → the list's


def row_of(act: ActRecord) -> AuditRow:
    """The row of an act, not stored yet. Where the act's sentence fails, the row has no message, and the log has the
    error."""
    try:
        message = _message(act)
    except Exception:
        logger.exception("audit row without message action=%s topic=%s channel=%s", act.action, act.topic, act.channel)
        message = ""
    return _row_with(message, act)


def _row_with(message: str, act: ActRecord) -> AuditRow:
    counts = {} if act.outcome is None or act.error else outcome_counts(act.outcome)
    return AuditRow(
        act_id=act.act_id or uuid.uuid4().hex,
        phase=Phase.INTENT if act.is_intent else Phase.RESULT if act.act_id else Phase.EVENT,
        at_ms=act.at_ms or now_ms(),
        actor=(ENGINE_ACTOR if act.via == VIA_TIMER else act.actor)[:64],
        address=act.remote_address[:64],
        via=_VIA.get(act.via, act.via),
        action=act.action[:32],
        topic=act.topic[:64],
        channel=act.channel[:64],
        detail=_detail(act),
        reason=str(act.details.get("reason") or "")[:200] if act.is_done else "",
        verdict=_verdict(act),
        message=message[:500],
        counts=counts | ({"times": act.times} if act.times > 1 else {}),
    )


def _detail(act: ActRecord) -> str:
    if act.on_behalf_of:
        return f"{CLAIM}{act.on_behalf_of[:64]}"
    # Of a pause on a node of a named cluster, which this console ended.
    return f"cluster {act.details['cluster']}" if "cluster" in act.details else ""


def _verdict(act: ActRecord) -> Verdict:
    if act.is_intent:
        return Verdict.PENDING
    if act.is_done:
        return Verdict.DONE
    return Verdict.REFUSED if act.action == FOREIGN_REQUEST else Verdict.FAILED


def _message(act: ActRecord) -> str:
    if act.error or act.outcome is None:
        return act.error
    return sentence_of(act.action, act.topic, act.channel, act.details, act.outcome)


@dataclass(frozen=True, slots=True)
class FileRow:
    """One line of the engine's file, and its row, which no database has. Both are None where the line is damaged."""

    number: int | None
    row: AuditRow | None = None


def has_file_rows(directory: Path) -> bool:
    return act_reader.has_entries(directory)


def file_rows(directory: Path, *, before: int, count: int) -> tuple[list[FileRow], bool]:
    """Up to `count` lines with numbers below `before` (0: the newest), newest first; and whether there are older ones.
    Raises OSError."""
    page = act_reader.read_page(directory, before=before, count=count)
    return [_file_row(one) for one in page.acts], page.has_older


def _file_row(line: act_reader.NumberedAct) -> FileRow:
    if line.act is None:
        return FileRow(None)
    try:
        message = _message(line.act)
    except Exception:  # a line has those details that are JSON, and may be of another version
        message = ""
    row = _row_with(message, line.act)
    row.act_id = line.act.act_id  # the same at each reading
    return FileRow(line.number, row)
