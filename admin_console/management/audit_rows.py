"""The audit list for a query: the console's rows, and those of the engine's own file, as Arrow batches."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from admin_console.audit.chain import COLUMNS
from admin_console.audit.engine_acts import file_rows, has_file_rows
from admin_console.audit.verification import all_rows, open_to_read

_TEXTS = (
    "actor", "role", "address", "via", "action", "topic", "channel", "detail", "reason", "verdict", "message", "phase",
    "act_id",
)  # fmt: skip
SCHEMA = pa.schema(
    [
        pa.field("at", pa.timestamp("ms", tz="UTC")),
        *(pa.field(name, pa.string()) for name in _TEXTS),
        pa.field("counts", pa.string()),
        pa.field("list", pa.string()),
        pa.field("row", pa.int64()),
    ]
)
"""counts: JSON. list: "console", or "file" for acts over the HTTP API while no console ran. row: its number there."""

_BATCH_ROWS = 2_000
_FILE_PAGE_ROWS = 500
_TIME_MS_MAX = 253_402_300_799_999


def audit_batches(database: Path, directory: Path) -> Iterator[pa.RecordBatch]:
    """All rows of both lists. database: the console's, which need not exist. directory: the data directory, with the
    engine's own file. Raises sqlite3.Error, OSError."""
    rows = _all(database, directory)
    while batch := list(islice(rows, _BATCH_ROWS)):
        yield pa.RecordBatch.from_pylist(batch, schema=SCHEMA)


def _all(database: Path, directory: Path) -> Iterator[dict[str, Any]]:
    if os.path.lexists(database):
        with closing(open_to_read(database)) as connection:
            connection.execute("BEGIN")
            for row in all_rows(connection):
                yield _plain(row.values, "console", row.id)
    before = 0
    while has_file_rows(directory):
        found, has_older = file_rows(directory, before=before, count=_FILE_PAGE_ROWS)
        numbers = []
        for one in found:
            if one.number is not None:
                numbers.append(one.number)
                yield _plain({name: getattr(one.row, name) for name in COLUMNS}, "file", one.number)
        if not has_older or not numbers:
            break
        before = min(numbers)


def _plain(values: Mapping[str, Any], audit_list: str, number: int) -> dict[str, Any]:
    """values: of the list's columns. Rows that were written past Penstock may have anything in them."""
    return {
        **{name: _text(values[name]) for name in _TEXTS},
        "at": _time_ms(values["at_ms"]),
        "counts": json.dumps(values["counts"]),
        "list": audit_list,
        "row": number,
    }


def _text(value: object) -> str:
    return str(value if value is not None else "").encode("utf-8", "replace").decode()


def _time_ms(value: object) -> int | None:
    return value if isinstance(value, int) and 0 <= value <= _TIME_MS_MAX else None
