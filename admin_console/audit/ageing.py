"""Removes old audit rows: whole beginnings of the list only, each with a new row that says so.

The row `remove_old_rows` names the last removed row and keeps its hash, so that the chain can be checked from the
first row that is left. The database lets rows be removed only up to the one that such a row names (migrations/0003).
"""

import uuid
from datetime import UTC, datetime

from django.db import transaction

from admin_console.audit.chain import append
from admin_console.audit.models import VIA_SERVER, AuditRow, Phase, Verdict
from admin_console.audit.verification import AGEING

ROWS_AT_ONCE = 10_000  # one transaction of about a tenth of a second


def remove_old_rows(before_ms: int, now_ms: int) -> int:
    """Remove the rows in front of the first one that was written at `before_ms` or later; their number.

    Both times are UTC, Unix milliseconds. Raises DatabaseError; each transaction before it stays done.
    """
    removed = 0
    while count := _remove_some(before_ms, now_ms):
        removed += count
    return removed


def _remove_some(before_ms: int, now_ms: int) -> int:
    with transaction.atomic():
        kept = AuditRow.objects.filter(at_ms__gte=before_ms).order_by("id").values_list("id", flat=True).first()
        old = AuditRow.objects.order_by("id")
        if kept is not None:
            old = old.filter(id__lt=kept)
        rows = list(old.values_list("id", "hash", "at_ms", "action")[:ROWS_AT_ONCE])
        # Rows that say what was removed earlier are no reason for another removal.
        if all(action == AGEING for _, _, _, action in rows):
            return 0
        (first_id, *_), (last_id, last_hash, last_ms, _) = rows[0], rows[-1]
        last_day = datetime.fromtimestamp(last_ms / 1000, UTC).date()
        append(
            [
                AuditRow(
                    act_id=uuid.uuid4().hex,
                    phase=Phase.EVENT,
                    at_ms=now_ms,
                    actor="",
                    via=VIA_SERVER,
                    action=AGEING,
                    detail=f"{last_id} {last_hash}",
                    verdict=Verdict.DONE,
                    message=f"Removed rows {first_id:,} to {last_id:,} of this list, up to {last_day}, for their age.",
                    counts={"rows": len(rows)},
                )
            ]
        )
        AuditRow.objects.filter(id__lte=last_id).delete()
        return len(rows)
