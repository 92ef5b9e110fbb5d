"""The chain of hashes over the audit rows: each row's hash covers its content and the hash of the row before it.

    hash = SHA-256, in hex, of the JSON list ["penstock-audit-1", previous_hash, act_id, phase, … , counts]

The columns come in the order of COLUMNS, without spaces, the keys of `counts` sorted, all beyond ASCII escaped. The
first row of all has GENESIS as previous_hash. `id` is not part of it: a row that was moved is found by its hash.
To cover another column, add a version to the first item and keep the old one for the rows that have it.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction

from admin_console.audit.models import AuditRow

GENESIS = "0" * 64
COLUMNS = (
    "act_id",
    "phase",
    "at_ms",
    "actor",
    "role",
    "address",
    "via",
    "action",
    "topic",
    "channel",
    "detail",
    "reason",
    "verdict",
    "message",
    "counts",
)
_VERSION = "penstock-audit-1"


def hash_of(previous_hash: str, values: Mapping[str, Any]) -> str:
    """values: of each of COLUMNS, `counts` as a dictionary."""
    content = [_VERSION, previous_hash, *(values[name] for name in COLUMNS)]
    text = json.dumps(content, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def append(rows: Sequence[AuditRow]) -> None:
    """Add rows at the end of the chain, in one transaction: all or none. Raises DatabaseError.

    The transaction holds the database's write lock from its start, so no other process adds rows in between.
    """
    if not rows:
        return
    with transaction.atomic():
        newest = AuditRow.objects.order_by("-id").values_list("id", "hash").first()
        row_id, previous_hash = newest or (0, GENESIS)
        for row in rows:
            row_id += 1
            row.id = row_id
            row.previous_hash = previous_hash
            row.hash = previous_hash = hash_of(previous_hash, {name: getattr(row, name) for name in COLUMNS})
        AuditRow.objects.bulk_create(rows)
