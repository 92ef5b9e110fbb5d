"""One task of a step: reads parts of the log and writes their messages to data files of the archive's tables.

It runs in a process of Spark's, perhaps on another machine, and returns the names of its files. The driver compares
them with the step's ranges (`step_check.py`) and commits them (`archive.py`); before that none of them counts.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.archive.archive_table import DICTIONARY, FILE_COLUMNS, PARTITION, archive_path
from queue_engine.lake.source.part_reader import PartReader
from queue_engine.lake.source.read_options import ReadOptions
from queue_engine.lake.source.read_plan import Part
from queue_engine.lake.source.record_columns import MissingRange
from queue_engine.lake.tables.parquet_files import DataFile, write_data_file
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.store_errors import table_error

# So many bytes of messages are gathered before they are written; a task reads about 32 MiB of the log.
GATHERED_BYTES_MAX = 128 << 20
_US_PER_DAY = 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Runs = Any  # int64 (n, 2): ascending ranges of offsets, the end excluded


@dataclass(frozen=True, slots=True)
class StepTarget:
    """Where a step writes. topics: by their number, which the log's records have too. server: the identity of the data
    directory. include_replayed: topics of which replayed messages are archived like others."""

    storage: TableStorage
    server: str
    include_replayed: frozenset[str] = frozenset()


@dataclass(slots=True)
class TopicRows:
    """The rows of one topic in one task.

    written: runs of offsets that the files have, by file. left_out: runs of replayed messages that were not written.
    missing: messages that the log does not have, or not intact.
    """

    topic: str
    files: list[DataFile] = field(default_factory=list)
    written: list[Runs] = field(default_factory=list)
    left_out: list[Runs] = field(default_factory=list)
    missing: list[MissingRange] = field(default_factory=list)


def write_task(parts: Sequence[Part], options: ReadOptions, target: StepTarget) -> list[TopicRows]:
    """Read the parts of one task, and write their messages.

    Raises the errors of `PartReader.read`, and StoreError or its classes."""
    with LogClient(options.url, options.token) as client:
        reader = PartReader(client, options)
        found = write_batches(reader.read(parts), target)
    for one in reader.missing:
        found.setdefault(one.topic, TopicRows(one.topic)).missing.append(one)
    return list(found.values())


def write_batches(batches: Iterable[pa.RecordBatch], target: StepTarget) -> dict[str, TopicRows]:
    """In: the columns of `arrow_schemas.MESSAGES`. Out: the files and runs of each topic."""
    found: dict[str, TopicRows] = {}
    gathered: dict[str, list[pa.Table]] = {}
    gathered_bytes = 0
    for batch in batches:
        for topic, rows in _by_topic(batch):
            gathered.setdefault(topic, []).append(rows)
        gathered_bytes += batch.nbytes
        if gathered_bytes > GATHERED_BYTES_MAX:
            _write_gathered(gathered, target, found)
            gathered_bytes = 0
    _write_gathered(gathered, target, found)
    return found


def _write_gathered(gathered: dict[str, list[pa.Table]], target: StepTarget, found: dict[str, TopicRows]) -> None:
    for topic, tables in gathered.items():
        one = found.setdefault(topic, TopicRows(topic))
        rows = pa.concat_tables(tables)
        if topic not in target.include_replayed:
            replayed = rows.column("replayed")
            if pc.any(replayed).as_py():
                one.left_out.append(runs_of(rows.filter(replayed).column("offset")))
                rows = rows.filter(pc.invert(replayed))
        for day, of_day in _by_day(rows):
            one.written.append(runs_of(of_day.column("offset")))
            one.files.append(_written(topic, day, of_day, target))
    gathered.clear()


def _written(topic: str, day: int, rows: pa.Table, target: StepTarget) -> DataFile:
    server = pa.repeat(pa.scalar(target.server, pa.string()), rows.num_rows)
    columns = [*(rows.column(name) for name in FILE_COLUMNS.names[:-1]), server]
    date = (_EPOCH + timedelta(days=day)).strftime("%Y-%m-%d")
    path = archive_path(topic)
    try:
        return write_data_file(
            target.storage,
            path,
            FILE_COLUMNS,
            {PARTITION: date},
            [pa.Table.from_arrays(columns, schema=FILE_COLUMNS)],
            dictionary=DICTIONARY,
        )
    except (OSError, pa.ArrowException) as exc:
        raise table_error(exc, target.storage.at(path)) from exc


def _by_topic(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Table]]:
    """A batch's rows by topic, each in the batch's order."""
    encoded = batch.column("topic").dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    table = pa.Table.from_batches([batch])
    names: Sequence[str] = encoded.dictionary.to_pylist()
    if len(names) > 1:
        order = np.argsort(codes, kind="stable")
        table, codes = table.take(pa.array(order)), codes[order]
    begin = 0
    for code, name in enumerate(names):
        end = int(np.searchsorted(codes, code, side="right"))
        yield name, table.slice(begin, end - begin)
        begin = end


def _by_day(rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Rows by the day of publishing, as days since 1970 UTC, each in their order."""
    days = rows.column("published_at").cast(pa.int64()).to_numpy() // _US_PER_DAY
    found = np.unique(days)
    for day in found.tolist():
        yield day, rows if len(found) == 1 else rows.filter(pa.array(days == day))


def runs_of(offsets: pa.ChunkedArray) -> Runs:
    """Offsets in their order as runs of consecutive ones. Offsets that do not rise begin another run."""
    values = offsets.to_numpy()
    if not len(values):
        return np.empty((0, 2), np.int64)
    breaks = np.flatnonzero(np.diff(values) != 1)
    firsts = values[np.concatenate(([0], breaks + 1))]
    lasts = values[np.concatenate((breaks, [len(values) - 1]))]
    return np.stack((firsts, lasts + 1), axis=1)
