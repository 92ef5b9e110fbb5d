"""The data files that count at a version of a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from queue_engine.lake.tables.own_files import check_own_files


@dataclass(frozen=True, slots=True)
class TableFile:
    """A data file that counts at the table's version.

    path: relative to the table. size: bytes. partition: column → value, as text. minimum, maximum: column → Python
    value (int, float, str, datetime with UTC, date), of columns that have one.
    """

    path: str
    size: int
    rows: int
    partition: dict[str, str]
    minimum: dict[str, Any]
    maximum: dict[str, Any]


def table_files(delta: DeltaTable, partition_by: Sequence[str], place: str, *, is_local: bool) -> list[TableFile]:
    """The data files of the table at `place` at its version, by path. Raises ForeignFileError."""
    rows = pa.table(delta.get_add_actions(flatten=False)).to_pylist()
    check_own_files(place, (row["path"] for row in rows), is_local=is_local)
    return sorted(
        (
            TableFile(
                path=row["path"],
                size=row["size_bytes"],
                rows=row["num_records"] or 0,
                partition={name: str(row["partition"][name]) for name in partition_by},
                minimum={name: value for name, value in (row.get("min") or {}).items() if value is not None},
                maximum={name: value for name, value in (row.get("max") or {}).items() if value is not None},
            )
            for row in rows
        ),
        key=lambda one: one.path,
    )
