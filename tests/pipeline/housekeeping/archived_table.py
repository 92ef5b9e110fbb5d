"""An archive table for tests: commits of a minute each, and what a reader finds in it."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq

from queue_engine.lake.archive.archive_table import FILE_COLUMNS, archive_path, archive_table
from queue_engine.lake.tables.parquet_files import DataFile, write_data_file
from queue_engine.lake.tables.table import LakeTable
from queue_engine.lake.tables.tables import LakeTables

SERVER = "5e2f6c1e-0000-4000-8000-000000000001"
ID_BASE = 0xABC000
APP_ID = f"{SERVER}/3-{ID_BASE:016x}"


def data_file(
    tables: LakeTables, topic: str, first: int, after: int, at_ms: int, bodies: Sequence[bytes] = ()
) -> DataFile:
    """A file with the messages first to after, published at at_ms. bodies: `bodies_of` them without any."""
    offsets = range(first, after)
    rows = pa.table(
        {
            "offset": offsets,
            "published_at": pa.array([at_ms * 1000] * len(offsets), pa.int64()).cast(FILE_COLUMNS.field(1).type),
            "message_id": [f"{ID_BASE + offset:016x}" for offset in offsets],
            "key": pa.nulls(len(offsets), pa.binary()),
            "body": bodies or bodies_of(first, after),
            "replayed": [False] * len(offsets),
            "server": [SERVER] * len(offsets),
        },
        schema=FILE_COLUMNS,
    )
    date = datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()
    return write_data_file(tables.storage, archive_path(topic), FILE_COLUMNS, {"date": date}, [rows])


def commit(tables: LakeTables, topic: str, first: int, after: int, at_ms: int, bodies: Sequence[bytes] = ()) -> None:
    """Archive messages, as the archive job does."""
    table = archive_table(tables, topic)
    table.commit(
        [data_file(tables, topic, first, after, at_ms, bodies)], APP_ID, after, after=table.transaction(APP_ID)
    )


def bodies(table: LakeTable) -> list[bytes]:
    """The bodies of all messages that count, by offset."""
    found: list[tuple[int, bytes]] = []
    for file in table.files():
        read = pq.read_table(table.at_filesystem(file), filesystem=table.storage.filesystem, partitioning=None)
        assert read.num_rows == file.rows
        found += zip(read.column("offset").to_pylist(), read.column("body").to_pylist(), strict=True)
    return [body for _, body in sorted(found)]


def bodies_of(first: int, after: int) -> list[bytes]:
    return [b"body %d" % offset for offset in range(first, after)]
