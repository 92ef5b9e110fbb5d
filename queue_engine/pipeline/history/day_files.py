"""Writes history rows to data files of a table, one a day, in row groups that a reader can skip; without Spark."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import pairwise

import numpy as np
import pyarrow as pa

from queue_engine.pipeline.history.levels import DAY_S, date_of
from queue_engine.pipeline.history.schema import HISTORY_ROWS
from queue_engine.pipeline.tables.parquet_files import DataFile, DataFileWriter
from queue_engine.pipeline.tables.storage import TableStorage

ROW_GROUP_ROWS = 65_536


def write_batches(
    storage: TableStorage, level: str, batches: Iterable[pa.RecordBatch], *, row_group_rows: int = ROW_GROUP_ROWS
) -> Iterator[DataFile]:
    """Write rows that are sorted by day, and within a day by `ORDER`: one file a day.

    Raises OSError, pa.ArrowInvalid. A file counts when it is committed.
    """
    with ExitStack() as unfinished:
        day_s, writer, waiting = -1, None, pa.Table.from_batches([], HISTORY_ROWS)
        for batch in batches:
            table = pa.Table.from_batches([batch]).select(HISTORY_ROWS.names).cast(HISTORY_ROWS)
            for of_day_s, part in _days(table):
                if writer is not None and of_day_s != day_s:
                    yield _closed(writer, waiting, row_group_rows)
                    unfinished.pop_all()
                    writer, waiting = None, waiting.slice(0, 0)
                if writer is None:
                    day_s = of_day_s
                    partition = {"date": date_of(day_s)}
                    writer = DataFileWriter(storage, level, HISTORY_ROWS, partition, row_group_rows=row_group_rows)
                    unfinished.callback(writer.abandon)
                # Spark's batches are smaller than a row group; each write begins a new one.
                waiting = pa.concat_tables([waiting, part])
                whole = waiting.num_rows // row_group_rows * row_group_rows
                if whole:
                    writer.write(waiting.slice(0, whole))
                    waiting = waiting.slice(whole)
        if writer is not None:
            yield _closed(writer, waiting, row_group_rows)
        unfinished.pop_all()


def _closed(writer: DataFileWriter, rest: pa.Table, row_group_rows: int) -> DataFile:
    if rest.num_rows:
        writer.write(rest)
    return writer.close()


def _days(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """The table's rows by runs of one day: the day's begin in Unix seconds, and the rows."""
    days = table.column("t").to_numpy() // DAY_S
    edges = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), len(days)]
    for first, end in pairwise(edges):
        if first < end:
            yield int(days[first]) * DAY_S, table.slice(first, end - first)
