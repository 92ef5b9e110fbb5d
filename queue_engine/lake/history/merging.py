"""Merges the files of days that are not closed yet, so that a day has few: each file costs a reader up to three
milliseconds."""

from itertools import groupby

import pyarrow as pa
import pyarrow.parquet as pq

from queue_engine.lake.history.day_files import write_batches
from queue_engine.lake.history.history_tables import HistoryTables, WindowFile
from queue_engine.lake.history.levels import MINUTES
from queue_engine.lake.history.schema import HISTORY_ROWS, ORDER

# Files are merged when the ten minutes, the hour, the six hours that they lie in are over: so a day has at most some
# twenty files. Each row is written three times for that.
MERGED_S = (600, 3_600, 21_600)
# Merged files are read by channel: small row groups leave less to read beside the channel's rows.
MERGED_GROUP_ROWS = 8_192


def merge_closed_windows(tables: HistoryTables) -> int:
    """Merge the files of each window of MERGED_S that is over. Returns by how many the number of files fell.

    Raises PipelineError, OSError."""
    fewer = 0
    files, closed_until_s = tables.files(MINUTES), tables.closed_until_s(MINUTES)
    end_s = max((one.end_s for one in files), default=0)
    for window_s in MERGED_S:
        merged = 0
        fresh = [one for one in files if one.day_s >= closed_until_s]
        for number, group in groupby(fresh, key=lambda one: one.first_s // window_s):
            window_end_s = (number + 1) * window_s
            # A file that reaches into the next window, because a batch came late, waits for a larger window.
            parts = [one for one in group if one.end_s <= window_end_s]
            if window_end_s <= end_s and len(parts) > 1:
                merged += _merge(tables, parts)
        if merged:
            files = tables.files(MINUTES)
            fewer += merged
    return fewer


def _merge(tables: HistoryTables, parts: list[WindowFile]) -> int:
    rows = pa.concat_tables(
        pq.ParquetFile(tables.path_of(MINUTES, one.path)).read().cast(HISTORY_ROWS) for one in parts
    ).sort_by([(name, "ascending") for name in ORDER])
    files = write_batches(tables.storage, MINUTES, rows.to_batches(), row_group_rows=MERGED_GROUP_ROWS)
    return len(parts) - 1 if tables.replace(MINUTES, parts, list(files)) else 0
