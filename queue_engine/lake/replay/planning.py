"""The dry run of a replay: Spark finds the messages that match, and the driver divides them into batches.

Only the dry run evaluates an expression: the plan has the offsets. Tasks read the archive's files by pyarrow, wherever
the lake is; Java sees only the columns that an expression needs.

In: files of the archive (columns: `archive/archive_table.py`). Out: one step for each batch.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from queue_engine.lake.archive.archive_files import (
    ArchiveFile,
    file_error,
    files_of,
    offset_bounds,
)
from queue_engine.lake.archive.archive_table import ArchivedIdentity, archive_path, archive_table
from queue_engine.lake.expression.columns import spark_column
from queue_engine.lake.expression.expressions import Expression
from queue_engine.lake.job.context import JobContext
from queue_engine.lake.replay.path_check import PathCheck
from queue_engine.lake.replay.plan import (
    STEP_BYTES_MAX,
    STEP_ROWS_MAX,
    ReplayPlan,
    ReplayStep,
    packed_offsets,
    read_progress,
    read_rows,
    write_plan,
    write_rows,
)
from queue_engine.lake.replay.request import ReplayRequest
from queue_engine.lake.replay.sources import (
    archived_identities,
    chosen_rows,
    left_out_of,
    sampled_bodies,
    source_of,
)
from queue_engine.lake.source.schemas import MESSAGES
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.errors import LakeDamagedError, PipelineError, TopicMissingError

logger = logging.getLogger(__name__)

# The columns that Spark gets of each message that may match: its size, and the columns that an expression can name.
_SIZES = [
    StructField("body_bytes", LongType(), False, {"comment": "of the body"}),
    StructField("weight", LongType(), False, {"comment": "bytes of the message in a batch: body and key"}),
]
_FOUND = StructType([MESSAGES["offset"], *_SIZES])
_SEARCHED = StructType([*MESSAGES.fields, *_SIZES])
# Messages whose offsets lie in one such range come to the driver together.
_RANGE_OFFSETS = 1_000
_BATCH_ROWS = 4_096


def plan_replay(context: JobContext, request: ReplayRequest) -> ReplayPlan:
    """Write the plan of a replay. Nothing is published, and no topic is created.

    Raises ExpressionError, also for a path in place of an empty plan, NotALogTopicError for a target that does not take
    batch keys, PipelineError when there is no such archive, the replay has begun or context.stop is set, and Spark's
    errors.
    """
    expression = request.check()
    if read_progress(context.lake, request.replay_id) is not None:
        raise PipelineError(f"the replay {request.replay_id} has begun: its plan can't be changed")
    tables = context.open_tables()
    archived = archived_identities(context, tables, request)
    source = source_of(context, archived, request)
    # Before the messages are searched: a target that can't be used is refused at once.
    target_number, target_id_base, channels = _target(context, request.target)
    table = archive_table(tables, source.topic)
    table.refresh()
    found = _steps(context, tables, source, request, expression)
    if not found and expression is not None and expression.paths:
        PathCheck(expression.paths, sampled_bodies(tables, source, request)).refuse_unmatched()
    _check_wanted(context)
    steps = tuple(step for step, _ in found)
    created_ms = context.clock.time_ns() // NS_PER_MS
    write_rows(context.lake, request.replay_id, created_ms, [rows for _, rows in found])
    plan = ReplayPlan(
        request=request,
        created_ms=created_ms,
        source=source,
        table_version=table.version,
        target_number=target_number,
        target_id_base=target_id_base,
        channels=channels,
        files=files_with(table.files(), steps),
        steps=steps,
        left_out=left_out_of(table, archived, source),
    )
    write_plan(context.lake, plan)
    return plan


def matching_rows(context: JobContext, tables: LakeTables, plan: ReplayPlan) -> list[str]:
    """Which offsets of each step match, one text of `packed_offsets` each.

    The file may be damaged or larger than a manifest may be: then Spark finds the messages again, in the files of now,
    and the file is written again. Raises ExpressionError, PipelineError when the steps differ from the plan's, Spark's
    errors.
    """
    try:
        rows = read_rows(context.lake, plan)
    except LakeDamagedError as exc:
        logger.warning("messages are searched again replay=%s error=%s", plan.request.replay_id, exc)
        rows = None
    if rows is not None:
        return rows
    request = plan.request
    found = _steps(context, tables, plan.source, request, request.check())
    if tuple(step for step, _ in found) != plan.steps:
        raise PipelineError(f"the archive differs from the plan of the replay {request.replay_id}: plan another one")
    rows = [rows for _, rows in found]
    write_rows(context.lake, request.replay_id, plan.created_ms, rows)
    return rows


def _target(context: JobContext, target: str) -> tuple[int | None, int | None, tuple[str, ...]]:
    try:
        state = context.engine.topic(target)
    except TopicMissingError:
        return None, None, ()
    return state.number, state.id_base, context.engine.channels(target)


def files_with(files: Sequence[Any], steps: Sequence[ReplayStep]) -> tuple[str, ...]:
    """The paths of the files that may have messages of these steps."""
    begins = np.array([step.first_offset for step in steps])
    ends = np.array([step.next_offset for step in steps])
    with_steps = [
        one.path
        for one in files
        # The first step that does not end before the file begins.
        if (at := int(np.searchsorted(ends, offset_bounds(one)[0], side="right"))) < len(steps)
        and begins[at] <= offset_bounds(one)[1]
    ]
    return tuple(with_steps)


def _steps(
    context: JobContext,
    tables: LakeTables,
    source: ArchivedIdentity,
    request: ReplayRequest,
    expression: Expression | None,
) -> list[tuple[ReplayStep, str]]:
    """The steps of a replay by the table's version of now, in the order of their offsets, each with its offsets as
    `packed_offsets` has them. They do not depend on which file has which message."""
    table = archive_table(tables, source.topic)
    table.refresh()
    files = files_of(table, source, start_time_ms=request.start_time_ms, end_time_ms=request.end_time_ms)
    if not files:
        return []
    frame = found_messages(context.spark, tables.storage, source, [one.path for one in files], request, expression)
    rate = request.rate_per_s or STEP_ROWS_MAX
    # A step of a slow replay has at most the messages of one second.
    arrays = _until_stopped(context, _in_ranges(frame))
    return list(cut_steps(arrays, rows_max=max(min(rate, STEP_ROWS_MAX), 1)))


def _until_stopped(context: JobContext, arrays: Iterable[Any]) -> Iterator[Any]:
    """Raises PipelineError when context.stop is set: Spark cancels only the stage that it computes at that moment."""
    for array in arrays:
        yield array
        _check_wanted(context)


def _check_wanted(context: JobContext) -> None:
    if context.stop.is_set():
        raise PipelineError("the plan was stopped before it was complete")


def found_messages(
    spark: SparkSession,
    storage: TableStorage,
    source: ArchivedIdentity,
    paths: Sequence[str],
    request: ReplayRequest,
    expression: Expression | None,
) -> DataFrame:
    """The messages that match, from data files: offset, body_bytes and weight."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch.column("path").to_pylist():
                yield from candidates(storage, source, path, request, has_expression=expression is not None)

    places = spark.createDataFrame(
        [(path,) for path in paths], StructType([StructField("path", StringType(), False)])
    ).repartition(min(len(paths), 4 * spark.sparkContext.defaultParallelism))
    if expression is None:
        return places.mapInArrow(read, _FOUND)
    return places.mapInArrow(read, _SEARCHED).where(spark_column(expression)).select(*_FOUND.names)


def candidates(
    storage: TableStorage, source: ArchivedIdentity, path: str, request: ReplayRequest, *, has_expression: bool
) -> Iterator[pa.RecordBatch]:
    """The messages of a data file that time and key allow, with the columns of _SEARCHED, or without has_expression of
    _FOUND. Raises StoreError, TableError."""
    names = _SEARCHED.names if has_expression else _FOUND.names
    columns = ("published_at", "message_id", "key", "body", "replayed")
    try:
        file = ArchiveFile(storage, source, path)
        try:
            for group in range(file.group_count):
                rows = chosen_rows(file.rows(group, columns), request)
                sizes = pc.binary_length(rows.column("body")).cast(pa.int64())
                keys = pc.fill_null(pc.binary_length(rows.column("key")), 0).cast(pa.int64())
                rows = rows.append_column("topic", pa.array([source.topic] * len(rows), pa.string()))
                rows = rows.append_column("body_bytes", sizes).append_column("weight", pc.add(sizes, keys))
                yield from rows.select(names).to_batches(_BATCH_ROWS)
        finally:
            file.close()
    except (OSError, pa.ArrowException) as exc:
        raise file_error(exc, storage.at(archive_path(source.topic)), path) from exc


def _in_ranges(frame: DataFrame) -> Iterator[Any]:
    """The messages as arrays (offset, body_bytes, weight) of int64, (n, 3), ascending by offset from array to array."""
    ranges = (
        frame.groupBy(F.floor(F.col("offset") / _RANGE_OFFSETS).alias("range"))
        .agg(F.sort_array(F.collect_list(F.struct(*_FOUND.names))).alias("messages"))
        .orderBy("range")
    )
    # Range by range: all messages at once would take more memory than a small machine has.
    for _, messages in ranges.toLocalIterator():
        yield np.array(messages, np.int64).reshape(-1, 3)


def cut_steps(
    arrays: Iterable[Any], *, rows_max: int, bytes_max: int = STEP_BYTES_MAX
) -> Iterator[tuple[ReplayStep, str]]:
    """Cut messages, arrays (offset, body_bytes, weight) ascending by offset, into steps. In a step are at most rows_max
    messages, and fewer than bytes_max bytes before its last one."""
    left = np.empty((0, 3), np.int64)
    for array in arrays:
        left = np.concatenate([left, array])
        while (count := _step_length(left, rows_max, bytes_max)) < len(left):
            yield _step_of(left[:count])
            left = left[count:]
    if len(left):
        yield _step_of(left)


def _step_length(messages: Any, rows_max: int, bytes_max: int) -> int:
    """How many of the messages fit into one step."""
    ends = np.cumsum(messages[:rows_max, 2])
    return min(int(np.searchsorted(ends, bytes_max, side="left")) + 1, len(ends))


def _step_of(messages: Any) -> tuple[ReplayStep, str]:
    offsets = messages[:, 0]
    step = ReplayStep(int(offsets[0]), int(offsets[-1]) + 1, len(offsets), int(messages[:, 1].sum()))
    return step, packed_offsets(offsets)
