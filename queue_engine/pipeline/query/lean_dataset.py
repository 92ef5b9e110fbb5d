"""A Delta table as an Arrow dataset for duckdb, which hands it the columns and filters of each query.

Filters on the date leave out whole folders, those on other columns leave out files by the statistics of the table: a
file is not opened for a query that none of its rows can match.
"""

import os
from typing import Any

import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyarrow import fs

from queue_engine.pipeline.tables.storage import TableStorage

# pyarrow reads so much ahead for each scan: with its own values, 4 files of 16 batches of 131,072 rows, large messages
# take gigabytes.
_FILES_AHEAD = 1
_BATCHES_AHEAD = 2
_BATCH_ROWS = 8_192


class LeanDataset(ds.FileSystemDataset):
    """A dataset whose scans read little ahead. duckdb calls `scanner` of the class, with columns and a filter."""

    def scanner(self, **given: Any) -> Any:
        given.setdefault("batch_size", _BATCH_ROWS)
        given.setdefault("batch_readahead", _BATCHES_AHEAD)
        given.setdefault("fragment_readahead", _FILES_AHEAD)
        return super().scanner(**given)


def open_dataset(storage: TableStorage, table: str) -> LeanDataset | None:
    """The table at the path `table` as it is now; None where there is none. Raises OSError and delta-rs's errors."""
    if storage.is_local and not os.path.isdir(storage.at(f"{table}/_delta_log")):
        return None
    try:
        delta = DeltaTable(storage.at(table), storage_options=storage.options)
    except TableNotFoundError:
        return None
    place = fs.SubTreeFileSystem(storage.at_filesystem(table), storage.filesystem)
    # A store is asked for all columns of a row group at once; on a disk that would only hold more in memory.
    options = ds.ParquetFragmentScanOptions(
        pre_buffer=not storage.is_local, use_buffered_stream=storage.is_local, thrift_string_size_limit=64 << 20
    )
    whole = delta.to_pyarrow_dataset(filesystem=place)
    form = ds.ParquetFileFormat(default_fragment_scan_options=options)
    fragments = [
        form.make_fragment(one.path, filesystem=place, partition_expression=one.partition_expression)
        for one in whole.get_fragments()
    ]
    return LeanDataset(fragments, whole.schema, form, place)
