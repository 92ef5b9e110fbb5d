"""An archive for tests of queries: a table as the archive job writes it, a row a second."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from queue_engine.lake.archive.archive_table import COLUMNS, FILE_COLUMNS
from queue_engine.lake.query.child import Task, checked_relation, locked_database
from queue_engine.lake.query.limits import QueryLimits
from queue_engine.lake.query.query import Query
from queue_engine.lake.query.views import View, views_of
from queue_engine.lake.tables.parquet_files import write_data_file
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.tables import LakeTables

BEGIN = datetime(2026, 10, 1, tzinfo=UTC)


def archive_days(lake: str, topic: str, days: int, rows: int, bodies: list[bytes] | None = None) -> list[str]:
    """Archive `rows` messages of each day, in one file a day. Returns the paths of the files, by day."""
    storage = TableStorage(lake)
    path = f"archive/{topic}"
    files = []
    for day in range(days):
        offsets = range(day * rows, (day + 1) * rows)
        times = [BEGIN + timedelta(days=day, seconds=number, microseconds=999_999) for number in range(rows)]
        table = pa.table(
            {
                "offset": list(offsets),
                "published_at": times,
                "message_id": [f"{offset:016x}" for offset in offsets],
                "key": [None] * rows,
                "body": [
                    (bodies or [b'{"magnitude": %d}' % (offset % 10)])[offset % len(bodies or [b""])]
                    for offset in offsets
                ],
                "replayed": [False] * rows,
                "server": ["a"] * rows,
            },
            schema=FILE_COLUMNS,
        )
        files.append(write_data_file(storage, path, FILE_COLUMNS, {"date": times[0].date().isoformat()}, [table]))
    LakeTables(storage).open(path, COLUMNS).commit(files, "a/1-0000000000000000", days * rows, after=None)
    return [f"{path}/{one.path}" for one in files]


def views(lake: str, *, may_read_bodies: bool = True) -> list[View]:
    storage = TableStorage(lake)
    return views_of(storage, TableStorage(str(Path(lake) / "history")), may_read_bodies=may_read_bodies)


def ask(sql: str, known: list[View], limits: QueryLimits | None = None) -> list[dict[str, object]]:
    """The rows of a query that runs in its own process."""
    with Query(sql, known, limits or QueryLimits()) as query:
        return [row for batch in query.batches() for row in batch.to_pylist()]


def rows_of(lake: Path, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query, without a process of its own."""
    known = [one for one in views(str(lake)) if one.is_named_in(sql)]
    task = Task(sql, 0, 256 << 20, 1_000, 2, known)
    connection = locked_database(task)
    return list(checked_relation(connection, sql).fetchall())
