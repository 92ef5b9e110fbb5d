"""A Delta table as an Arrow dataset for duckdb, which hands it the columns and filters of each query.

Filters on the date leave out whole folders, those on other columns leave out files by the statistics of the table: a
file is not opened for a query that none of its rows can match.
"""

import os
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyarrow import fs

from queue_engine.lake.tables.log_files import check_commits, last_checkpoint
from queue_engine.lake.tables.own_files import check_own_files
from queue_engine.lake.tables.storage import TableStorage

# pyarrow reads so much ahead for each scan: with its own values, 4 files of 16 batches of 131,072 rows, large messages
# take gigabytes.
_FILES_AHEAD = 1
_BATCHES_AHEAD = 2
_BATCH_ROWS = 8_192


class LeanDataset(ds.FileSystemDataset):
    """A dataset whose scans read little ahead. duckdb calls `scanner` of the class, with columns and a filter.

    is_on_disk: whether its files are on a disk of this machine.
    """

    is_on_disk = True

    def scanner(self, **given: Any) -> Any:
        # One request to a store for all columns of a row group; on a disk that would only hold more in memory.
        options = ds.ParquetFragmentScanOptions(pre_buffer=not self.is_on_disk, use_buffered_stream=self.is_on_disk)
        return super().scanner(
            **{
                "batch_size": _BATCH_ROWS,
                "batch_readahead": _BATCHES_AHEAD,
                "fragment_readahead": _FILES_AHEAD,
                "fragment_scan_options": options,
                **given,
            }
        )


def open_dataset(storage: TableStorage, table: str) -> LeanDataset | None:
    """The table at the path `table` as it is now; None where there is none. Raises OSError, delta-rs's errors, and
    TableDamagedError and ForeignFileError, StoreError of an object store."""
    if storage.is_local and not os.path.isdir(storage.at(f"{table}/_delta_log")):
        return None
    try:
        delta = DeltaTable(storage.at(table), storage_options=storage.options)
    except TableNotFoundError:
        return None
    if not storage.is_local:
        last = delta.version()
        check_commits(storage, table, range(last_checkpoint(storage, table, last) + 1, last + 1))
    paths = pa.table(delta.get_add_actions(flatten=True)).column("path").to_pylist()
    check_own_files(storage.at(table), paths, is_local=storage.is_local)
    place = fs.SubTreeFileSystem(storage.at_filesystem(table), storage.filesystem)
    whole = delta.to_pyarrow_dataset(filesystem=place)
    lean = LeanDataset(list(whole.get_fragments()), whole.schema, whole.format, place)
    lean.is_on_disk = storage.is_local
    return lean
