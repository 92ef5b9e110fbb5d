"""Functions that make a table smaller: merge small files, remove files that nothing needs, shorten the log.

Each of these may be cut off anywhere and called again. None removes files of a version within the retention, files
that count now, or the commits since then.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from queue_engine.lake.tables.log_files import LOG, commit_path, log_listing, log_path
from queue_engine.lake.tables.log_mending import is_readable_checkpoint
from queue_engine.lake.tables.missing_files import missing_file_error
from queue_engine.lake.tables.parquet_files import DATA_FILE_NAME, DataFile, DataFileWriter
from queue_engine.lake.tables.table import LakeTable
from queue_engine.lake.tables.table_files import TableFile
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.errors import DataFileMissingError

COMPACTION_APP = "penstock/compaction"
# So much of a file is in memory at once: rows, and bytes beyond one row.
BATCH_ROWS = 1_024
BATCH_BYTES = 32 << 20

_OWN_FILE = re.compile(rf"(?:[^/=]+=[^/]+/)*{DATA_FILE_NAME.pattern}")


@dataclass(frozen=True, slots=True)
class Vacuum:
    """The counts of a `vacuum`: files that had counted, files that no commit ever named, and the bytes of both."""

    replaced: int
    unnamed: int
    bytes: int


def merge(
    table: LakeTable,
    files: Sequence[TableFile],
    *,
    dictionary: bool | Sequence[str] = True,
    should_stop: Callable[[], bool] = lambda: False,
) -> DataFile | None:
    """Make one file of data files of one partition, with their rows in this order, by one commit that changes no data.

    Returns the new file; None when should_stop, called between pieces, returned True. A merge is given up, and
    nothing is changed, when another writer has replaced one of its files meanwhile: DataFileMissingError or
    TableTransactionError. Raises the errors of `LakeTable.commit`.
    """
    file_schema = pa.schema([one for one in table.schema if one.name not in table.partition_by])
    partition = files[0].partition
    with DataFileWriter(table.storage, table.path, file_schema, partition, dictionary=dictionary) as writer:
        for batch in _batches_of(table, files, file_schema):
            if should_stop():
                writer.abandon()
                return None
            writer.write(batch)
        merged = writer.close()
        if merged.rows != sum(file.rows for file in files):
            raise DataFileMissingError(
                f"{table.place}: {len(files)} files of {partition} have {merged.rows} rows, and their commits have"
                f" {sum(file.rows for file in files)}: they are not merged"
            )
    version = table.transaction(COMPACTION_APP)
    table.commit(
        [merged],
        COMPACTION_APP,
        (version or 0) + 1,
        after=version,
        remove=[file.path for file in files],
        changes_data=False,
    )
    return merged


def vacuum(table: LakeTable, *, retention_ms: int, unnamed_age_ms: int) -> Vacuum:
    """Remove data files that do not count any longer since `retention_ms`, and files older than `unnamed_age_ms` that
    no commit ever named: those of writers that were killed.

    Files of other names than `DataFileWriter` gives stay, unless they had counted. unnamed_age_ms: more than the age at
    which `LakeTable.commit` refuses a file. Raises the errors of the class LakeTable.
    """
    # Listed first: files committed meanwhile then count below.
    listed = {one.path: one for one in table.storage.list_files(table.path)}
    table.refresh()
    table.make_durable()
    expired, recent = table.replaced_files(retention_ms)
    needed = recent | {file.path for file in table.files()}
    now_ms = table.clock.time_ns() // NS_PER_MS
    cut = len(table.path) + 1
    replaced, unnamed, removed_bytes = [], [], 0
    for path, one in listed.items():
        name = path[cut:]
        if name in needed or name.startswith(f"{LOG}/"):
            continue
        if name in expired:
            replaced.append(path)
        elif _OWN_FILE.fullmatch(name) and now_ms - one.modified_ms > unnamed_age_ms:
            unnamed.append(path)
        else:
            continue
        removed_bytes += one.size
    table.storage.remove([*replaced, *unnamed])
    return Vacuum(len(replaced), len(unnamed), removed_bytes)


def clean_log(table: LakeTable, *, keep_ms: int) -> int:
    """Remove commits and checkpoints that a checkpoint stands for, when they are older than `keep_ms`; and unfinished
    files. Writes a checkpoint first. Returns how many files it removed."""
    table.checkpoint()
    with table.storage.locked(posixpath.join(table.path, LOG)):
        storage = table.storage
        listed = {posixpath.basename(one.path): one for one in storage.list_files(posixpath.join(table.path, LOG))}
        listing = log_listing(list(listed))
        oldest_ms = table.clock.time_ns() // NS_PER_MS - keep_ms
        young = (
            one
            for one in sorted(listing.commits)
            if listed[posixpath.basename(commit_path("", one))].modified_ms >= oldest_ms
        )
        needed = next(young, listing.last)
        readable = (
            one
            for one in sorted(listing.checkpoints, reverse=True)
            if one <= needed and is_readable_checkpoint(storage, table.path, listing.checkpoints[one])
        )
        base = next(readable, -1)
        if base >= 0:
            # A process may have died between writing these and their sync.
            table.make_durable()
            storage.sync(log_path(table.path, name) for name in listing.checkpoints[base])
        names = [posixpath.basename(commit_path("", one)) for one in listing.commits if one < base]
        names += [name for one, found in listing.checkpoints.items() if one < base for name in found]
        names += [name for name in listing.left if listed[name].modified_ms < oldest_ms]
        # The oldest first: a log that is cut off here has no gap.
        return storage.remove(log_path(table.path, name) for name in sorted(names))


def _batches_of(table: LakeTable, files: Sequence[TableFile], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of data files, in pieces. A column that a file does not have is null."""
    for file in files:
        try:
            with (
                table.storage.sentences(),
                table.storage.filesystem.open_input_file(table.at_filesystem(file)) as source,
            ):
                for piece in pieces_of(source):
                    have = set(piece.schema.names)
                    columns = [
                        piece.column(one.name).cast(one.type) if one.name in have else pa.nulls(len(piece), one.type)
                        for one in schema
                    ]
                    yield pa.record_batch(columns, schema=schema)
        except FileNotFoundError as exc:
            raise missing_file_error(table.place, file.path) from exc
        except (OSError, pa.ArrowException) as exc:
            raise DataFileMissingError(f"{table.at(file)} counts in the table, and can't be read: {exc}") from exc


def pieces_of(source: Any, bytes_max: int = BATCH_BYTES) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file, in pieces of at most BATCH_ROWS and about bytes_max, of one row at the least.

    A value of a dictionary has its bytes once, however many rows have it: such columns stay as they are until the
    pieces are cut.
    """
    metadata = pq.read_metadata(source)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(metadata.num_columns)]
    repeated = {one.path_in_schema for one in chunks if one.physical_type == "BYTE_ARRAY" and one.has_dictionary_page}
    with pq.ParquetFile(source, metadata=metadata, read_dictionary=sorted(repeated)) as parquet:
        for number, group in enumerate(groups):
            rows = max(bytes_max * group.num_rows // max(group.total_byte_size, 1), 1)
            for batch in parquet.iter_batches(min(rows, BATCH_ROWS), row_groups=[number]):
                ends = np.cumsum(_repeated_bytes(batch))
                first = 0
                while first < len(batch):
                    room = bytes_max + (ends[first - 1] if first else 0)
                    after = max(int(np.searchsorted(ends, room, side="right")), first + 1)
                    yield batch.slice(first, after - first)
                    first = after


def _repeated_bytes(batch: pa.RecordBatch) -> Any:
    """Of each row, the bytes of its values that stand in a dictionary."""
    found = np.zeros(len(batch), np.int64)
    for column in batch.columns:
        if isinstance(column, pa.DictionaryArray):
            lengths = pc.binary_length(column.dictionary).take(column.indices)
            found += pc.fill_null(lengths, 0).to_numpy(zero_copy_only=False)
    return found
