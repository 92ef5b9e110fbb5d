"""Removes old audit rows: always the oldest rows, and each removal adds a row about itself.

Rows go for their age, or for the size of the list. The row `remove_old_rows` has the number and the hash of the last
removed row, so that the chain can be checked from the first row that is left. The database lets rows be removed only up
to the one that such a row names (migrations/0003).
"""

import uuid
from datetime import UTC, datetime

from django.db import transaction
from django.db.models import Max, Min, QuerySet

from admin_console.audit.chain import append
from admin_console.audit.models import VIA_SERVER, AuditRow, Phase, Verdict
from admin_console.audit.verification import AGEING

ROWS_AT_ONCE = 10_000  # one transaction of about a tenth of a second
# Some 10 MB. The database also has sessions and users: however much space they take, the list is never emptied.
ROWS_MIN = 10_000


def remove_old_rows(before_ms: int, now_ms: int) -> int:
    """Remove the rows in front of the first one that was written at `before_ms` or later; their number.

    Both times are UTC, Unix milliseconds. Raises DatabaseError; each transaction before it stays done.
    """
    removed = 0
    while count := _remove_some(before_ms, now_ms):
        removed += count
    return removed


def remove_rows_for_size(used_bytes: int, bytes_max: int, now_ms: int) -> int:
    """Remove the oldest rows of a list that takes `used_bytes`, until it takes some `bytes_max`; their number.

    Removes at most ROWS_AT_ONCE, and never the newest ROWS_MIN, however large they are. now_ms: UTC, Unix
    milliseconds. Raises DatabaseError; then nothing was removed.
    """
    with transaction.atomic():
        ids = AuditRow.objects.aggregate(first=Min("id"), last=Max("id"))
        if ids["first"] is None:
            return 0
        row_count = ids["last"] - ids["first"] + 1
        # Rows are of about the same size.
        count = min(row_count * (used_bytes - bytes_max) // max(used_bytes, 1) + 1, row_count - ROWS_MIN)
        old = AuditRow.objects.order_by("id")[: max(0, min(count, ROWS_AT_ONCE))]
        return _remove(old, now_ms, f"since the list took {used_bytes:,} bytes")


def _remove_some(before_ms: int, now_ms: int) -> int:
    with transaction.atomic():
        first_id_to_stay = (
            AuditRow.objects.filter(at_ms__gte=before_ms).order_by("id").values_list("id", flat=True).first()
        )
        old = AuditRow.objects.order_by("id")
        if first_id_to_stay is not None:
            old = old.filter(id__lt=first_id_to_stay)
        return _remove(old[:ROWS_AT_ONCE], now_ms, "for their age")


def _remove(old: "QuerySet[AuditRow]", now_ms: int, why: str) -> int:
    """Remove a beginning of the list, and add the row about it. why: the end of that row's sentence."""
    rows = list(old.values_list("id", "hash", "at_ms", "action"))
    # Rows about earlier removals are no reason for another removal.
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
                message=f"Removed rows {first_id:,} to {last_id:,} of this list, up to {last_day}, {why}.",
                counts={"rows": len(rows)},
            )
        ]
    )
    AuditRow.objects.filter(id__lte=last_id).delete()
    return len(rows)
