"""What keeps a table small: few files instead of many, none that nothing needs, a short log.

Each of these may be cut off anywhere and called again. They never remove what a reader of a kept version needs:
files that count now, or at a protected version, or did so within the retention; and commits since the oldest of these.
"""

import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from queue_engine.pipeline.tables.log_files import LOG, commit_path, log_listing, log_path
from queue_engine.pipeline.tables.log_mending import is_readable_checkpoint
from queue_engine.pipeline.tables.parquet_files import DATA_FILE_NAME, DataFileWriter
from queue_engine.pipeline.tables.table import LakeTable
from queue_engine.pipeline.tables.table_files import TableFile
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.errors import DataFileMissingError

COMPACTION_APP = "penstock/compaction"
MS_PER_HOUR = 3_600_000
TARGET_BYTES = 128 << 20
# A file is merged while it has less than this part of the target.
SMALL_PART = 0.5

_OWN_FILE = re.compile(rf"(?:[^/=]+=[^/]+/)*{DATA_FILE_NAME.pattern}")


@dataclass(frozen=True, slots=True)
class Compaction:
    """What `compact` did. files_before files became files_after; rows and bytes are those of the new files."""

    files_before: int = 0
    files_after: int = 0
    rows: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Vacuum:
    """What `vacuum` removed: files that had counted, files that no commit ever named, and the bytes of both."""

    replaced: int
    unnamed: int
    bytes: int


def compact(
    table: LakeTable,
    *,
    is_closed: Callable[[TableFile], bool],
    order_by: Sequence[str],
    target_bytes: int = TARGET_BYTES,
    files_min: int = 2,
    sorts_rows: bool = False,
    dictionary: bool | Sequence[str] = True,
    should_stop: Callable[[], bool] = lambda: False,
) -> Compaction:
    """Merge small files of each partition into files of about `target_bytes`; each merge is one commit.

    is_closed: whether a file may be merged: nothing more is written into its hour, say. order_by: columns; files are
    joined in the order of their smallest values. files_min: fewer are not merged. sorts_rows: whether the rows of a
    merge are sorted by `order_by`, in memory. should_stop: asked before each merge.

    A merge is given up, and nothing is changed, when another writer has replaced one of its files meanwhile: then
    DataFileMissingError or TableTransactionError. Raises the errors of `LakeTable.commit`.
    """
    table.refresh()
    done = Compaction()
    for files in _merges(table.files(), is_closed, order_by, target_bytes, files_min):
        if should_stop():
            break
        file_schema = pa.schema([one for one in table.schema if one.name not in table.partition_by])
        with DataFileWriter(
            table.storage, table.path, file_schema, files[0].partition, dictionary=dictionary
        ) as writer:
            if sorts_rows:
                whole = pa.concat_tables(one for file in files for one in _tables_of(table, file, file_schema))
                writer.write(whole.sort_by([(name, "ascending") for name in order_by]))
            else:
                for file in files:
                    for one in _tables_of(table, file, file_schema):
                        writer.write(one)
            merged = writer.close()
            if merged.rows != sum(file.rows for file in files):
                raise DataFileMissingError(
                    f"{table.place}: {len(files)} files of {files[0].partition} have {merged.rows} rows, and their"
                    f" commits say {sum(file.rows for file in files)}: they are not merged"
                )
        known = table.transaction(COMPACTION_APP)
        table.commit(
            [merged],
            COMPACTION_APP,
            (known or 0) + 1,
            after=known,
            remove=[file.path for file in files],
            changes_data=False,
        )
        done = Compaction(
            done.files_before + len(files), done.files_after + 1, done.rows + merged.rows, done.bytes + merged.size
        )
    return done


def vacuum(
    table: LakeTable, *, retention_ms: int, unnamed_age_ms: int, protected_versions: Collection[int] = ()
) -> Vacuum:
    """Remove data files that do not count any longer since `retention_ms`, and files older than `unnamed_age_ms` that
    no commit ever named: those of writers that were killed.

    protected_versions: versions whose files stay. Files of other names than `DataFileWriter` gives stay, unless they
    had counted. unnamed_age_ms: more than the age at which `LakeTable.commit` refuses a file. Raises the errors of the
    class LakeTable.
    """
    # Listed first: what is committed meanwhile then counts below.
    listed = {one.path: one for one in table.storage.list_files(table.path)}
    table.refresh()
    expired, recent = table.replaced_files(retention_ms, protected_versions)
    kept = recent | {file.path for file in table.files()}
    for version in protected_versions:
        kept |= {file.path for file in table.files_at(version)}
    now_ms = table.clock.time_ns() // NS_PER_MS
    cut = len(table.path) + 1
    replaced, unnamed, removed_bytes = [], [], 0
    for path, one in listed.items():
        name = path[cut:]
        if name in kept or name.startswith(f"{LOG}/"):
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


def clean_log(table: LakeTable, *, keep_ms: int, protected_versions: Collection[int] = ()) -> int:
    """Remove commits and checkpoints that a checkpoint stands for, when they are older than `keep_ms` and no protected
    version needs them; and unfinished files. Writes a checkpoint first. Returns how many files it removed."""
    table.checkpoint()
    with table.storage.locked(posixpath.join(table.path, LOG)):
        return _clean_log(table, keep_ms, protected_versions)


def _clean_log(table: LakeTable, keep_ms: int, protected_versions: Collection[int]) -> int:
    storage = table.storage
    listed = {posixpath.basename(one.path): one for one in storage.list_files(posixpath.join(table.path, LOG))}
    listing = log_listing(list(listed))
    oldest_ms = table.clock.time_ns() // NS_PER_MS - keep_ms
    young = (
        one
        for one in sorted(listing.commits)
        if listed[posixpath.basename(commit_path("", one))].modified_ms >= oldest_ms
    )
    needed = min([*protected_versions, next(young, listing.last)])
    readable = (
        one
        for one in sorted(listing.checkpoints, reverse=True)
        if one <= needed and is_readable_checkpoint(storage, table.path, listing.checkpoints[one])
    )
    base = next(readable, -1)
    names = [posixpath.basename(commit_path("", one)) for one in listing.commits if one < base]
    names += [name for one, found in listing.checkpoints.items() if one < base for name in found]
    names += [name for name in listing.left if listed[name].modified_ms < oldest_ms]
    # The oldest first: a log that is cut off here has no gap.
    return storage.remove(log_path(table.path, name) for name in sorted(names))


def _merges(
    files: list[TableFile],
    is_closed: Callable[[TableFile], bool],
    order_by: Sequence[str],
    target_bytes: int,
    files_min: int,
) -> Iterator[list[TableFile]]:
    """The files of each merge."""
    by_partition: dict[tuple[str, ...], list[TableFile]] = {}
    for file in files:
        if file.size < target_bytes * SMALL_PART and is_closed(file):
            by_partition.setdefault(tuple(file.partition.values()), []).append(file)
    for _, small in sorted(by_partition.items()):
        small.sort(key=lambda file: [(file.minimum.get(name) is not None, file.minimum.get(name)) for name in order_by])
        taken: list[TableFile] = []
        size = 0
        for file in small:
            taken.append(file)
            size += file.size
            if size >= target_bytes:
                if len(taken) >= files_min:
                    yield taken
                taken, size = [], 0
        if len(taken) >= files_min:
            yield taken


def _tables_of(table: LakeTable, file: TableFile, schema: pa.Schema) -> Iterator[Any]:
    """The rows of a data file, in pieces. A column that it does not have yet is null."""
    try:
        with (
            table.storage.sentences(),
            table.storage.filesystem.open_input_file(table.at_filesystem(file)) as source,
            pq.ParquetFile(source) as parquet,
        ):
            for batch in parquet.iter_batches():
                have = set(batch.schema.names)
                yield pa.table(
                    [
                        batch.column(one.name).cast(one.type) if one.name in have else pa.nulls(len(batch), one.type)
                        for one in schema
                    ],
                    schema=schema,
                )
    except FileNotFoundError as exc:
        raise DataFileMissingError(
            f"{table.at(file)} counts in the table, and is not there: restore it from a backup, or remove it from the"
            " table (delta-rs: DeltaTable.repair)"
        ) from exc
    except (OSError, pa.ArrowException) as exc:
        raise DataFileMissingError(f"{table.at(file)} counts in the table, and can't be read: {exc}") from exc
