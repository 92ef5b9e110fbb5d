"""Reads the data files of a topic's table: the rows of one topic; their ids separate topics of one name.

A file may have rows of several topics of one name, and its rows may be in any order: compaction joins files.
"""

import errno
import posixpath
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from queue_engine.lake.archive.archive_table import ArchivedIdentity, archive_path
from queue_engine.lake.archive.summary import ArchivedIncarnation
from queue_engine.lake.source.record_columns import hex_column
from queue_engine.lake.tables.missing_files import missing_file_error
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.store_errors import table_error
from queue_engine.lake.tables.table import LakeTable
from queue_engine.lake.tables.table_files import TableFile
from queue_engine.storage.disk.no_follow import refuse_link
from queue_engine.vocabulary.errors import PipelineError

_IDENTIFYING = ("offset", "message_id", "server")
_OFFSET_MAX = (1 << 62) - 1
_FEW_ROWS = 16


def files_of(
    table: LakeTable,
    identity: ArchivedIdentity,
    *,
    start_time_ms: int | None = None,
    end_time_ms: int | None = None,
) -> list[TableFile]:
    """The files at the table's version that may have rows of this topic and time, in the order of their offsets."""
    found = []
    for file in table.files():
        low, high = file.minimum, file.maximum
        if not _may_have(file, identity):
            continue
        oldest, newest = low.get("published_at"), high.get("published_at")
        if start_time_ms is not None and newest and newest.timestamp() * 1000 < start_time_ms:
            continue
        if end_time_ms is not None and oldest and oldest.timestamp() * 1000 >= end_time_ms:
            continue
        found.append(file)
    return sorted(found, key=lambda file: (offset_bounds(file), file.path))


def offset_bounds(file: TableFile) -> tuple[int, int]:
    """The least and the greatest offset that a file may have: another program's file may be without statistics."""
    return file.minimum.get("offset", 0), file.maximum.get("offset", _OFFSET_MAX)


def row_counts(table: LakeTable, identities: Collection[ArchivedIdentity]) -> dict[ArchivedIdentity, int]:
    """How many rows of each topic are in the table at its version. A file that is of one topic by its statistics is
    not opened; of others the columns are read that identify a row. Raises StoreError, TableError."""
    counts = dict.fromkeys(identities, 0)
    for file in table.files():
        if owner := owner_of(file, identities):
            counts[owner] += file.rows
            continue
        for one in identities:
            if _may_have(file, one):
                counts[one] += sum(len(rows) for rows in _rows_in(table, file, one))
    return counts


def owner_of(file: TableFile, identities: Collection[ArchivedIdentity]) -> ArchivedIdentity | None:
    """The topic of which all rows of a file are, by its statistics; None where they do not show it."""
    owners = [one for one in identities if _may_have(file, one)]
    if len(owners) == 1 and file.rows and {"offset", "message_id"} <= file.minimum.keys() & file.maximum.keys():
        return owners[0]
    return None


def offsets_in(table: LakeTable, file: TableFile, identity: ArchivedIdentity) -> pa.ChunkedArray:
    """The offsets of the topic's rows in a file. Raises StoreError, TableError."""
    pieces = [rows.column("offset").combine_chunks() for rows in _rows_in(table, file, identity)]
    return pa.chunked_array(pieces, pa.int64())


def _may_have(file: TableFile, identity: ArchivedIdentity) -> bool:
    first, last = (_id(identity, offset) for offset in offset_bounds(file))
    if file.minimum.get("message_id", first) > last or file.maximum.get("message_id", last) < first:
        return False
    # Null in files of earlier versions.
    low, high = file.minimum.get("server"), file.maximum.get("server")
    return low is None or high is None or low <= identity.server <= high


def _rows_in(table: LakeTable, file: TableFile, identity: ArchivedIdentity) -> list[pa.Table]:
    try:
        opened = ArchiveFile(table.storage, identity, file.path)
        try:
            return [opened.rows(group, ()) for group in range(opened.group_count)]
        finally:
            opened.close()
    except (OSError, pa.ArrowException) as exc:
        raise file_error(exc, table.place, file.path) from exc


def file_error(error: OSError | pa.ArrowException, place: str, path: str) -> PipelineError:
    """The error of a reader of the data file at `path` of the table at `place`."""
    if isinstance(error, FileNotFoundError):
        return missing_file_error(place, path)
    return table_error(error, posixpath.join(place, path))


def newest_first(counts: Mapping[ArchivedIdentity, int], server: str) -> tuple[ArchivedIncarnation, ...]:
    """The topics of one name as a summary lists them: those of `server` first."""
    ordered = sorted(counts, key=lambda one: (one.server == server, one.server, one.number), reverse=True)
    return tuple(ArchivedIncarnation(one.number, one.id_base, one.server, counts[one]) for one in ordered)


def _id(identity: ArchivedIdentity, offset: int) -> str:
    return f"{identity.id_base + offset:016x}"


class ArchiveFile:
    """One data file, opened. path: relative to the topic's table."""

    def __init__(self, storage: TableStorage, identity: ArchivedIdentity, path: str) -> None:
        """Raises FileNotFoundError, with the path for its filename, when it is gone, and other OSErrors."""
        self._identity = identity
        whole_path = posixpath.join(archive_path(identity.topic), path)
        if storage.is_local:
            refuse_link(storage.at(whole_path))
        try:
            self._source = storage.filesystem.open_input_file(storage.at_filesystem(whole_path))
        except FileNotFoundError as exc:
            raise FileNotFoundError(errno.ENOENT, "there is no such file", path) from exc
        self._file = pq.ParquetFile(self._source)
        self._has_server = "server" in self._file.schema_arrow.names

    def close(self) -> None:
        self._file.close()
        self._source.close()

    def groups_between(self, first_offset: int, next_offset: int) -> Iterator[int]:
        """The row groups that may have rows with these offsets."""
        metadata = self._file.metadata
        names = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
        column = names.index("offset")
        for group in range(metadata.num_row_groups):
            bounds = metadata.row_group(group).column(column).statistics
            if bounds is None or not bounds.has_min_max or (bounds.min < next_offset and bounds.max >= first_offset):
                yield group

    @property
    def group_count(self) -> int:
        return int(self._file.metadata.num_row_groups)

    def rows(self, group: int, columns: Sequence[str]) -> pa.Table:
        """The topic's rows of a row group, by offset; with `offset` and these columns."""
        return self._own(self._file.read_row_group(group, columns=self._read(columns)), columns)

    def first_rows(self, count: int, body_bytes: int, columns: Sequence[str]) -> pa.Table:
        """Those of the file's first `count` rows that are the topic's, as `rows` returns them, with `body`. Bodies of
        body_bytes are enough; the last one of them may be longer."""
        columns = (*columns, "body")
        read = self._read(columns)
        taken: list[pa.RecordBatch] = []
        # Few at a time: each body may be of the greatest length.
        for batch in self._file.iter_batches(batch_size=_FEW_ROWS, columns=read):
            sizes = pc.fill_null(pc.binary_length(batch.column("body")), 0).to_numpy(zero_copy_only=False)
            fitting = int(np.searchsorted(np.cumsum(sizes, dtype=np.int64), body_bytes)) + 1
            taken.append(batch.slice(0, min(fitting, count)))
            count -= len(batch)
            body_bytes -= int(sizes.sum())
            if count <= 0 or body_bytes <= 0:
                break
        return self._own(pa.Table.from_batches(taken) if taken else self._file.read(read), columns)

    def _read(self, columns: Sequence[str]) -> list[str]:
        """The columns to be read for these."""
        return [one for one in dict.fromkeys((*_IDENTIFYING, *columns)) if one != "server" or self._has_server]

    def _own(self, found: pa.Table, columns: Sequence[str]) -> pa.Table:
        mask = pc.equal(found.column("message_id"), _ids_of(self._identity, found.column("offset")))
        if self._has_server:
            # Null in files of earlier versions, which were this server's; compaction keeps it.
            own = pc.fill_null(pc.equal(found.column("server"), self._identity.server), True)
            mask = pc.and_(mask, own)
        if not pc.all(mask).as_py():
            found = found.filter(mask)
        return found.select([*dict.fromkeys(("offset", *columns))]).sort_by("offset")


def _ids_of(identity: ArchivedIdentity, offsets: pa.ChunkedArray) -> pa.Array:
    numbers: Any = offsets.to_numpy().astype("uint64") + identity.id_base
    return hex_column(numbers)
