"""The dry run of a replay: Spark finds the rows that match, and divides them into batches.

Only the dry run evaluates an expression: the plan has the rows.

In: files of the archive (columns: `archive/step.py`). Out: one row for each step.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from queue_engine.pipeline.archive.manifest import ArchivedFile, ArchiveManifest, list_archives
from queue_engine.pipeline.expression.columns import spark_column
from queue_engine.pipeline.expression.expressions import Expression
from queue_engine.pipeline.job.context import JobContext
from queue_engine.pipeline.replay.plan import (
    STEP_BYTES_MAX,
    STEP_ROWS_MAX,
    ReplayPlan,
    ReplayRequest,
    ReplayStep,
    packed_rows,
    read_progress,
    read_rows,
    write_plan,
    write_rows,
)
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.errors import LakeDamagedError, PipelineError, TopicMissingError

logger = logging.getLogger(__name__)

ARCHIVED = StructType(
    [
        StructField("offset", LongType(), False, {"comment": "number of the message within its topic"}),
        StructField("published_at", TimestampType(), False, {"comment": "UTC, microseconds"}),
        StructField("message_id", StringType(), False, {"comment": "16 hex digits: id base plus offset"}),
        StructField("key", BinaryType(), True, {"comment": "the message's key, null for none"}),
        StructField("body", BinaryType(), False, {"comment": "the message's bytes"}),
        StructField("replayed", BooleanType(), False, {"comment": "whether a replay wrote it"}),
    ]
)
_US_PER_MS = 1000


def plan_replay(context: JobContext, request: ReplayRequest) -> ReplayPlan:
    """Write the plan of a replay. Nothing is published, and no topic is created.

    Raises ExpressionError, NotALogTopicError for a target that does not take batch keys, PipelineError when there is no
    such archive or the replay has begun, and Spark's errors.
    """
    expression = request.check()
    if read_progress(context.lake, request.replay_id) is not None:
        raise PipelineError(f"the replay {request.replay_id} has begun: its plan can't be changed")
    archive = _archive_of(context, request)
    # Before the rows are searched: a target that can't be used is refused at once.
    target_number, target_id_base, channels = _target(context, request.target)
    files = [one for one in archive.files if _is_in_time(one, request)]
    paths = [f"{archive.folder}/{one.path}" for one in files]
    found = steps_of(context.spark, [Path(context.lake.within(path)).absolute() for path in paths], request, expression)
    counts = Counter[int]()
    for step, _ in found:
        counts[step.file] += step.count
    # The plan names only the files with rows that match.
    places = {number: place for place, number in enumerate(sorted(counts))}
    created_ms = context.clock.time_ns() // NS_PER_MS
    write_rows(context.lake, request.replay_id, created_ms, [rows for _, rows in found])
    plan = ReplayPlan(
        request=request,
        created_ms=created_ms,
        source_number=archive.number,
        source_id_base=archive.id_base,
        target_number=target_number,
        target_id_base=target_id_base,
        channels=channels,
        files=tuple((paths[number], counts[number]) for number in places),
        steps=tuple(replace(step, file=places[step.file]) for step, _ in found),
    )
    write_plan(context.lake, plan)
    return plan


def matching_rows(context: JobContext, plan: ReplayPlan) -> list[str]:
    """Which rows of each step match, one text of `packed_rows` each.

    Plans of earlier versions have no rows.json, and the file may be damaged or larger than a manifest may be: then
    Spark finds the rows again, and the file is written again. Raises ExpressionError, PipelineError when the steps
    differ from the plan's, Spark's errors.
    """
    try:
        rows = read_rows(context.lake, plan)
    except LakeDamagedError as exc:
        logger.warning("rows are searched again replay=%s error=%s", plan.request.replay_id, exc)
        rows = None
    if rows is not None:
        return rows
    request = plan.request
    paths = [Path(context.lake.within(path)).absolute() for path, _ in plan.files]
    found = steps_of(context.spark, paths, request, request.check())
    if tuple(step for step, _ in found) != plan.steps:
        raise PipelineError(f"the archive differs from the plan of the replay {request.replay_id}: plan another one")
    rows = [rows for _, rows in found]
    write_rows(context.lake, request.replay_id, plan.created_ms, rows)
    return rows


def _archive_of(context: JobContext, request: ReplayRequest) -> ArchiveManifest:
    found = [
        one
        for one in list_archives(context.lake, request.topic)
        if request.number in (None, one.number) and request.id_base in (None, one.id_base)
    ]
    if not found:
        which = "" if request.number is None else f" with the number {request.number}"
        raise PipelineError(f"nothing is archived of a topic {request.topic}{which}")
    return max(found, key=lambda one: one.number)


def _target(context: JobContext, target: str) -> tuple[int | None, int | None, tuple[str, ...]]:
    try:
        state = context.engine.topic(target)
    except TopicMissingError:
        return None, None, ()
    return state.number, state.id_base, context.engine.channels(target)


def _is_in_time(one: ArchivedFile, request: ReplayRequest) -> bool:
    return (request.start_time_ms is None or one.last_time_ms >= request.start_time_ms) and (
        request.end_time_ms is None or one.first_time_ms < request.end_time_ms
    )


def steps_of(
    spark: SparkSession, paths: Sequence[Path], request: ReplayRequest, expression: Expression | None
) -> list[tuple[ReplayStep, str]]:
    """The steps of a replay from these files of the archive, in the order of their offsets, each with its rows as
    `packed_rows` has them."""
    if not paths:
        return []
    frame = (
        # Folders that are named like columns must not become columns.
        spark.read.schema(ARCHIVED).option("recursiveFileLookup", "true").parquet(*[f"file://{path}" for path in paths])
    )
    rate = request.rate_per_s or STEP_ROWS_MAX
    # A step of a slow replay has at most the messages of one second.
    frame = with_steps(_chosen(frame, request, expression), rows_max=max(min(rate, STEP_ROWS_MAX), 1))
    numbers = {path.name: number for number, path in enumerate(paths)}
    found = []
    # Step by step: all rows at once would take more memory than a small machine has.
    for file_name, *fields, rows in frame.toLocalIterator():
        step = ReplayStep(numbers[file_name], *fields)
        found.append((step, packed_rows(step, rows)))
    return sorted(found, key=lambda one: (one[0].first_offset, one[0].next_offset))


def _chosen(frame: DataFrame, request: ReplayRequest, expression: Expression | None) -> DataFrame:
    """In: ARCHIVED. Out: file_name string, row_index long within the file, offset long, body_bytes long, weight long:
    bytes of the message in a batch; of rows that match."""
    conditions: list[Column] = []
    if request.start_time_ms is not None:
        conditions.append(F.col("published_at") >= F.timestamp_micros(F.lit(request.start_time_ms * _US_PER_MS)))
    if request.end_time_ms is not None:
        conditions.append(F.col("published_at") < F.timestamp_micros(F.lit(request.end_time_ms * _US_PER_MS)))
    if request.key:
        conditions.append(F.col("key") == F.lit(request.key.encode()))
    if expression is not None:
        conditions.append(spark_column(expression))
    chosen = frame.withColumns(
        {
            "topic": F.lit(request.topic),
            "file_name": F.col("_metadata.file_name"),
            "row_index": F.col("_metadata.row_index"),
        }
    )
    for condition in conditions:
        chosen = chosen.where(condition)
    body_bytes = F.length("body").cast("long")
    return chosen.select(
        "file_name",
        "row_index",
        "offset",
        body_bytes.alias("body_bytes"),
        (body_bytes + F.coalesce(F.length("key"), F.lit(0))).alias("weight"),
    )


def with_steps(frame: DataFrame, *, rows_max: int, bytes_max: int = STEP_BYTES_MAX) -> DataFrame:
    """In: file_name, row_index, offset, body_bytes, weight. Out: one row a step: file_name, first_row, next_row, count,
    bytes, first_offset, next_offset, rows array<long>: each row_index, in any order. In a step are at most rows_max
    rows, and fewer than bytes_max bytes before its last one."""
    before = Window.partitionBy("file_name").orderBy("row_index")
    weight_before = F.sum("weight").over(before.rowsBetween(Window.unboundedPreceding, -1))
    return (
        frame.withColumns(
            {
                "rows_part": F.floor((F.row_number().over(before) - 1) / rows_max),
                "bytes_part": F.floor(F.coalesce(weight_before, F.lit(0)) / bytes_max),
            }
        )
        # Both only rise along a file: rows with the same of both lie side by side.
        .groupBy("file_name", "rows_part", "bytes_part")
        .agg(
            F.min("row_index").alias("first_row"),
            (F.max("row_index") + 1).alias("next_row"),
            F.count("*").alias("count"),
            F.sum("body_bytes").alias("bytes"),
            F.min("offset").alias("first_offset"),
            (F.max("offset") + 1).alias("next_offset"),
            F.collect_list("row_index").alias("rows"),
        )
        .drop("rows_part", "bytes_part")
    )
