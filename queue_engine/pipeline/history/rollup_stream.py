"""The stream that makes minutes of samples as they come: the fresh part of the history.

A minute comes out when the newest sample is two minutes past its end, and what comes later than that is left to the
compaction. Spark tells a batch again when the process ended before it heard that the batch was done: the manifest knows
the checkpoint and the last batch of it, and passes over what it has. A checkpoint that was removed begins a stream
anew, whose minutes count from where the files end.
"""

import logging
import os
from dataclasses import replace
from itertools import groupby
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from queue_engine.disk.no_follow import read_no_follow, refuse_link
from queue_engine.pipeline.history import aggregation
from queue_engine.pipeline.history.manifest import FRESH, History, HistoryFile, change_history, read_history, without
from queue_engine.pipeline.history.samples_topic import Samples, SamplesTopic
from queue_engine.pipeline.history.schema import HISTORY_ROWS, MINUTES, ORDER
from queue_engine.pipeline.history.writer import described, spark_path, stage
from queue_engine.pipeline.job.context import JobContext
from queue_engine.pipeline.lake.lake import Lake

logger = logging.getLogger(__name__)

# To change the columns or the grouping of `aggregation.minutes`, take another name here: Spark goes on from a
# checkpoint only with the state that it knows. The new stream begins where the files end, and nothing is doubled.
CHECKPOINT = "checkpoints/rollup"
# Minutes come out minutes late whatever is done, and the console shows the last quarter of an hour from its memory: to
# look oftener costs more than it shows. A batch takes Spark two seconds of a core, however little there is in it.
TRIGGER = {"processingTime": "120 seconds"}
# A stream that begins anew reads the last minutes again whose samples it has not seen.
START_BEFORE_S = 600
# Files are merged when the ten minutes, the hour, the six hours that they lie in are over: every file costs who reads a
# day a millisecond or three, and so a day is never more than some twenty of them. A row is written three times for it.
MERGED_S = (600, 3_600, 21_600)
# What is merged is looked through by channel: small groups of rows leave less to be read beside it.
_MERGED_GROUP_ROWS = 8_192


def start_rollup_stream(
    context: JobContext, *, samples: Samples | None = None, trigger: dict[str, Any] | None = None
) -> StreamingQuery:
    """Start to make minutes of the engine's samples, from where the last stream ended, and return the running query.

    trigger: of Spark's DataStreamWriter. The caller stops the query, best when no batch is under way, and holds the
    lake until it has stopped. Raises PipelineError, OSError.
    """
    lake = context.lake
    samples = samples or SamplesTopic(context.spark, context.engine)
    start_s = max(0, read_history(lake).end_s(MINUTES) - START_BEFORE_S)
    unreadable = context.spark.sparkContext.accumulator(0)
    rows = aggregation.rows_of_samples(samples.stream(start_s * 1000), lambda _: unreadable.add(1))
    batches = _Batches(lake, unreadable)
    return (
        aggregation.minutes(rows)
        .writeStream.outputMode("append")
        .queryName("rollup")
        .option("checkpointLocation", spark_path(lake, CHECKPOINT))
        .foreachBatch(batches.write)
        .trigger(**(trigger or TRIGGER))
        .start()
    )


class _Batches:
    """Takes the stream's batches, one at a time, into the history."""

    def __init__(self, lake: Lake, unreadable: Any) -> None:
        self._lake = lake
        self._unreadable = unreadable
        self._unreadable_told = 0

    def write(self, rows: DataFrame, batch: int) -> None:
        lake = self._lake
        checkpoint = checkpoint_id(lake)
        history = read_history(lake)
        if checkpoint == history.checkpoint and batch <= history.batch:
            logger.info("batch known already job=rollup batch=%d", batch)
            # Computed all the same: what the stream holds of open minutes is only kept by a batch that was.
            rows.write.format("noop").mode("overwrite").save()
            return
        # A stream of this checkpoint brings only minutes behind those that it has brought; one that begins anew, or
        # that comes behind a day that was closed meanwhile, brings known ones first.
        fresh = rows.where(rows["t"] >= history.end_s(MINUTES))
        staged = stage(lake, fresh, MINUTES, FRESH, day=None, source="stream")
        self._tell_unreadable()
        offset = samples_offset(lake, batch)
        added: tuple[HistoryFile, ...] = ()
        if staged is not None:
            lake.publish([staged.move])
            lake.remove_staged(staged.directory)
            added = (staged.file,)
        elif checkpoint == history.checkpoint:
            # Nothing to name: should it be told again, it brings nothing again.
            return

        def step(before: History) -> History:
            return replace(
                before, checkpoint=checkpoint, batch=batch, samples_offset=offset, files=(*before.files, *added)
            )

        change_history(lake, step)
        merge_closed_windows(lake)

    def _tell_unreadable(self) -> None:
        count = self._unreadable.value
        if count > self._unreadable_told:
            logger.warning("samples unreadable job=rollup count=%d", count - self._unreadable_told)
            self._unreadable_told = count


def merge_closed_windows(lake: Lake) -> int:
    """Make one file of those that lie in one of the windows of MERGED_S that is over. Returns how many files there are
    less. Raises LakeDamagedError, OSError."""
    fewer = 0
    for window_s in MERGED_S:
        history = read_history(lake)
        end_s = history.end_s(MINUTES)
        for number, files in groupby(history.of(MINUTES, FRESH), key=lambda one: one.first_s // window_s):
            window_end_s = (number + 1) * window_s
            # One that reaches into the next window, because a batch came late, waits for a larger one.
            parts = [one for one in files if one.end_s <= window_end_s]
            if window_end_s <= end_s and len(parts) > 1:
                fewer += _merge(lake, parts)
    return fewer


def _merge(lake: Lake, parts: list[HistoryFile]) -> int:
    for one in parts:
        refuse_link(lake.within(f"history/{one.path}"))
    table = pa.concat_tables(
        pq.read_table(lake.within(f"history/{one.path}")).cast(HISTORY_ROWS) for one in parts
    ).sort_by([(name, "ascending") for name in ORDER])
    name = lake.data_name(f"{FRESH}.parquet")
    staged = f"{lake.staging()}/{name}"
    pq.write_table(table, lake.within(staged), compression="zstd", row_group_size=_MERGED_GROUP_ROWS)
    merged = described(lake, staged, MINUTES, FRESH, path=f"{MINUTES}/{name}", day=None, source="stream")
    lake.publish([(staged, f"history/{merged.path}")])

    def step(before: History) -> History | None:
        kept = without(before.files, parts)
        # Meanwhile their day may have been closed, and they are gone.
        return replace(before, files=(*kept, merged)) if len(kept) == len(before.files) - len(parts) else None

    if not change_history(lake, step):
        lake.retire([f"history/{merged.path}"])
        return 0
    return len(parts) - 1


def checkpoint_id(lake: Lake) -> str:
    """The name that Spark gave the stream's checkpoint when it made it. Raises OSError."""
    first_line = read_no_follow(os.path.join(lake.within(CHECKPOINT), "metadata")).partition(b"\n")[0]
    return str(orjson.loads(first_line)["id"])


def samples_offset(lake: Lake, batch: int) -> int | None:
    """Up to where batch number `batch` has read its topic, from the checkpoint; None of a source without numbers."""
    last = read_no_follow(os.path.join(lake.within(CHECKPOINT), "offsets", str(batch))).rstrip().rsplit(b"\n", 1)[-1]
    try:
        offsets = orjson.loads(last)
    except orjson.JSONDecodeError:
        return None
    numbers = list(offsets.values()) if isinstance(offsets, dict) else []
    return numbers[0] if len(numbers) == 1 and isinstance(numbers[0], int) and "/" in next(iter(offsets)) else None
