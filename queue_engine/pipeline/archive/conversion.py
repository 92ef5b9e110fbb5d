"""Makes tables of the archives of earlier versions: their files stay, and are committed with their dates.

Of each archive, in this order:

    1. every file is seen with its size and its number of rows, and copied where the lake is elsewhere (--lake)
    2. the gaps are committed to `archive_gaps`
    3. all files are committed to the topic's table, with the offset up to which they go

3 alone says that it is converted, so a conversion that was killed is run again. The manifest stays, and is not used any
more. In converted files the column `server` is null.
"""

import posixpath
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from queue_engine.disk.no_follow import refuse_link
from queue_engine.pipeline.archive.archive_gap import REPLAYED, ArchiveGap
from queue_engine.pipeline.archive.archive_table import FILE_COLUMNS, PARTITION, ArchivedIdentity, archive_path
from queue_engine.pipeline.archive.archives import Archives, Commit
from queue_engine.pipeline.archive.old_manifest import OldArchive, OldFile, is_converted, old_folders, read_old_archive
from queue_engine.pipeline.lake.lake import Lake
from queue_engine.pipeline.tables.parquet_files import DataFile, existing_data_file
from queue_engine.pipeline.tables.storage import TableStorage
from queue_engine.pipeline.tables.store_errors import table_error
from queue_engine.pipeline.tables.tables import LakeTables
from queue_engine.vocabulary.clock import NS_PER_MS, Clock
from queue_engine.vocabulary.errors import LakeDamagedError, PipelineError, TableError


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
            files = [_data_file(lake, tables.storage, one, file) for file in one.files]
            # However long the copying took: no vacuum takes these for leftovers, since they have other names.
            files = [replace(file, modified_ms=clock.time_ns() // NS_PER_MS) for file in files]
            _commit(archives, one, one.identity(server), files)
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


def _commit(archives: Archives, one: OldArchive, identity: ArchivedIdentity, files: list[DataFile]) -> None:
    gaps = list(one.gaps)
    if one.replayed_skipped:
        gaps.append(
            ArchiveGap(one.begin_offset, one.next_offset, REPLAYED, one.updated_ms, one.replayed_skipped),
        )
    commit = Commit(identity, one.begin_offset, one.next_offset, True, files, gaps)
    if error := archives.commit([commit])[identity]:
        raise error


def _data_file(lake: Lake, storage: TableStorage, one: OldArchive, file: OldFile) -> DataFile:
    """A file in the lake as a commit names it, when it is as its manifest says."""
    source, table = TableStorage(lake.path), archive_path(one.topic)
    path = posixpath.join(posixpath.basename(one.folder), file.path)
    place = lake.within(f"{one.folder}/{file.path}")
    try:
        refuse_link(place)
        made = existing_data_file(source, table, path, FILE_COLUMNS, {PARTITION: file.date})
    except (OSError, pa.ArrowException) as exc:
        raise LakeDamagedError(f"{place}, which the archive's manifest names, can't be read: {exc}") from exc
    if (made.rows, made.size) != (file.rows, file.bytes):
        raise LakeDamagedError(
            f"{place} has {made.rows} messages in {made.size} bytes, and {file.rows} in {file.bytes} by the archive's"
            " manifest"
        )
    if storage.place != source.place:
        _copy(place, storage, posixpath.join(table, path), made.size)
    return made


def _copy(source: str, storage: TableStorage, target: str, size: int) -> None:
    """Copy a file to a lake elsewhere, unless it is there as a whole."""
    try:
        if storage.size_of(target) == size:
            return
        storage.make_directory(posixpath.dirname(target))
        with (
            pa.OSFile(source) as file,
            storage.filesystem.open_output_stream(storage.at_filesystem(target)) as copy,
        ):
            while piece := file.read(1 << 20):
                copy.write(piece)
    except (OSError, pa.ArrowException) as exc:
        raise table_error(exc, storage.at(target)) from exc
