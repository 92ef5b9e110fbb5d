"""Writes history rows to data files of a table, one a day, in row groups that a reader can skip; without Spark."""

from collections.abc import Iterable, Iterator
from itertools import chain, groupby, pairwise
from operator import itemgetter

import numpy as np
import pyarrow as pa

from queue_engine.lake.history.levels import DAY_S, date_of
from queue_engine.lake.history.schema import HISTORY_ROWS
from queue_engine.lake.tables.parquet_files import DataFile, write_data_file
from queue_engine.lake.tables.storage import TableStorage

ROW_GROUP_ROWS = 65_536


def write_batches(
    storage: TableStorage, level: str, batches: Iterable[pa.RecordBatch], *, row_group_rows: int = ROW_GROUP_ROWS
) -> Iterator[DataFile]:
    """Write rows that are sorted by day, and within a day by `ORDER`: one file a day.

    Raises OSError, pa.ArrowInvalid. A file counts when it is committed.
    """
    tables = (pa.Table.from_batches([batch]).select(HISTORY_ROWS.names).cast(HISTORY_ROWS) for batch in batches)
    for day_s, parts in groupby(chain.from_iterable(map(_days, tables)), key=itemgetter(0)):
        rows = (part for _, part in parts)
        partition = {"date": date_of(day_s)}
        yield write_data_file(storage, level, HISTORY_ROWS, partition, rows, row_group_rows=row_group_rows)


def _days(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """The table's rows by runs of one day: the day's begin in Unix seconds, and the rows."""
    days = table.column("t").to_numpy() // DAY_S
    edges = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), len(days)]
    for first, end in pairwise(edges):
        if first < end:
            yield int(days[first]) * DAY_S, table.slice(first, end - first)
