"""Makes tables of the archives of earlier versions: their files stay, and are committed with their dates.

Of each archive, in this order:

    1. every file is seen with its size and its number of rows
    2. where the lake is elsewhere (--lake), the files are copied to it
    3. the gaps are committed to `archive_gaps`
    4. all files are committed to the topic's table, with the offset up to which they go

4 alone says that it is converted, so a conversion that was killed is run again. The manifest stays, and is not used any
more. In converted files the column `server` is null.
"""

import logging
import posixpath
from collections.abc import Callable
from datetime import UTC, datetime

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from queue_engine.disk.no_follow import refuse_link
from queue_engine.pipeline.archive.archive_gap import REPLAYED, ArchiveGap
from queue_engine.pipeline.archive.archive_table import FILE_COLUMNS, PARTITION, archive_path, archive_table
from queue_engine.pipeline.archive.archives import Archives, Commit
from queue_engine.pipeline.archive.old_manifest import OldArchive, OldFile, is_converted, old_folders, read_old_archive
from queue_engine.pipeline.lake.lake import Lake
from queue_engine.pipeline.tables.parquet_files import DataFile
from queue_engine.pipeline.tables.store_errors import table_error
from queue_engine.pipeline.tables.tables import LakeTables
from queue_engine.vocabulary.clock import Clock
from queue_engine.vocabulary.errors import LakeDamagedError, PipelineError, TableError

logger = logging.getLogger(__name__)


def convert_archives(
    lake: Lake, tables: LakeTables, server: str, clock: Clock, say: Callable[[str], None]
) -> tuple[int, int]:
    """Convert all archives of earlier versions that are not converted yet.

    server: the identity of the data directory. say: takes a sentence for each archive. Returns the number of archives
    and of their messages. Raises StoreError, OSError at once; LakeDamagedError for an archive that is not as its
    manifest says, and TableError, when the others are converted; what was converted stays.
    """
    waiting = [one for one in old_folders(lake) if not is_converted(one, tables, server)]
    if not waiting:
        return 0, 0
    archives = Archives(lake, tables, server, clock)
    rows = 0
    failure: PipelineError | None = None
    for folder in waiting:
        try:
            one = read_old_archive(lake, folder)
            _convert(lake, tables, archives, one, server)
        except (LakeDamagedError, TableError) as exc:
            say(f"{folder.path} is not converted: {exc}")
            failure = failure or exc
            continue
        rows += one.rows
        say(f"{one.folder}: {one.rows:,} messages in {len(one.files):,} files, up to offset {one.next_offset}")
    archives.summary.write(is_last=True)
    if failure is not None:
        raise failure
    return len(waiting), rows


def _convert(lake: Lake, tables: LakeTables, archives: Archives, one: OldArchive, server: str) -> None:
    files = [_data_file(lake, one, file) for file in one.files]
    _copy(lake, tables, one)
    identity = one.identity(server)
    gaps = list(one.gaps)
    if one.replayed_skipped:
        gaps.append(
            ArchiveGap(one.begin_offset, one.next_offset, REPLAYED, one.updated_ms, one.replayed_skipped),
        )
    commit = Commit(identity, one.begin_offset, one.next_offset, True, files, gaps, is_conversion=True)
    if error := archives.commit([commit])[identity]:
        raise error
    table = archive_table(tables, one.topic)
    counted = {file.path: file.rows for file in table.files()}
    found = sum(counted.get(_table_path(one, file), 0) for file in one.files)
    if found != one.rows:
        raise LakeDamagedError(f"{table.place} has {found} of {one.rows} messages of {one.folder}")


def _table_path(one: OldArchive, file: OldFile) -> str:
    """Relative to the topic's table."""
    return posixpath.join(posixpath.basename(one.folder), file.path)


def _data_file(lake: Lake, one: OldArchive, file: OldFile) -> DataFile:
    """A file as a commit names it, when it is as its manifest says."""
    path = lake.within(f"{one.folder}/{file.path}")
    try:
        refuse_link(path)
        with pq.ParquetFile(path) as parquet:
            rows = parquet.metadata.num_rows
    except (OSError, pa.ArrowException) as exc:
        raise LakeDamagedError(f"{path}, which the archive's manifest names, can't be read: {exc}") from exc
    if rows != file.rows:
        raise LakeDamagedError(f"{path} has {rows} messages, and {file.rows} by the archive's manifest")
    bounds = [
        {
            "offset": offset,
            "published_at": datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "message_id": f"{one.id_base + offset:016x}",
        }
        # The manifest has milliseconds, and a maximum must not be too small.
        for offset, time_ms in ((file.first_offset, file.first_time_ms), (file.next_offset - 1, file.last_time_ms + 1))
    ]
    nulls = {name: 0 for name in FILE_COLUMNS.names if name not in ("key", "server")} | {"server": rows}
    statistics = {"numRecords": rows, "minValues": bounds[0], "maxValues": bounds[1], "nullCount": nulls}
    return DataFile(
        path=_table_path(one, file),
        size=file.bytes,
        rows=rows,
        partition={PARTITION: file.date},
        statistics=orjson.dumps(statistics).decode(),
        modified_ms=one.updated_ms,
    )


def _copy(lake: Lake, tables: LakeTables, one: OldArchive) -> None:
    """Copy the files to a lake elsewhere; those that are there already, whole, are not copied again."""
    storage = tables.storage
    if storage.is_local and storage.place == lake.within("").rstrip("/"):
        return
    targets = [posixpath.join(archive_path(one.topic), _table_path(one, file)) for file in one.files]
    try:
        sizes = storage.sizes_of(targets)
        for file, target, size in zip(one.files, targets, sizes, strict=True):
            if size == file.bytes:
                continue
            storage.make_directory(posixpath.dirname(target))
            with (
                pa.OSFile(lake.within(f"{one.folder}/{file.path}")) as source,
                storage.filesystem.open_output_stream(storage.at_filesystem(target)) as copy,
            ):
                while piece := source.read(1 << 20):
                    copy.write(piece)
    except (OSError, pa.ArrowException) as exc:
        raise table_error(exc, storage.at(archive_path(one.topic))) from exc
