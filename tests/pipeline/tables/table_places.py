"""A small table for tests: its columns, files of it, and the offsets that count in it."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from queue_engine.lake.tables.parquet_files import DataFile, write_data_file
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.table import LakeTable

PATH = "archive/orders"
DATE = "2026-11-22"
APP = "server/1-00000000000f4240"
FILE_SCHEMA = pa.schema([("offset", pa.int64()), ("published_at", pa.timestamp("us", "UTC")), ("body", pa.binary())])
SCHEMA = FILE_SCHEMA.append(pa.field("date", pa.date32()))


def rows(first: int, after: int) -> pa.Table:
    """Rows of the offsets first to after."""
    numbers = range(first, after)
    return pa.table(
        {
            "offset": list(numbers),
            "published_at": pa.array(numbers, pa.timestamp("us", "UTC")),
            "body": [b"body %d" % number for number in numbers],
        },
        schema=FILE_SCHEMA,
    )


def data_file(storage: TableStorage, first: int, after: int, *, path: str = PATH, date: str = DATE) -> DataFile:
    """A written file with the offsets first to after."""
    return write_data_file(storage, path, FILE_SCHEMA, {"date": date}, [rows(first, after)])


def offsets_of(table: LakeTable) -> list[int]:
    """All offsets that count, sorted; each as often as it does."""
    found: list[int] = []
    for file in table.files():
        read = pq.read_table(table.at_filesystem(file), filesystem=table.storage.filesystem, partitioning=None)
        assert read.num_rows == file.rows
        found += read.column("offset").to_pylist()
    return sorted(found)


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())
