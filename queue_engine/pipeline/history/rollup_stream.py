"""The stream that computes minutes of samples as they come: the fresh part of the history.

A minute is written when the newest sample is two minutes past its end; the compaction adds later samples. Spark repeats
a batch when the process ended before Spark noted that the batch was done: the manifest has the checkpoint and its last
batch, so a repeated one is recognized and skipped. When the checkpoint was removed, a new stream begins, and its
minutes count from where the files end.
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
# Minutes are minutes late in any case, and the console shows the last fifteen minutes from its memory: a shorter
# interval costs more than it shows. A batch takes two seconds of a core, however small it is.
TRIGGER = {"processingTime": "120 seconds"}
# A new stream reads the samples of the last minutes again, which may not be in the files.
START_BEFORE_S = 600
# Files are merged when the ten minutes, the hour, the six hours that they lie in are over: each file costs a reader up
# to three milliseconds, and so a day has at most some twenty files. Each row is written three times for that.
MERGED_S = (600, 3_600, 21_600)
# Merged files are read by channel: small row groups leave less to read beside the channel's rows.
_MERGED_GROUP_ROWS = 8_192


def start_rollup_stream(
    context: JobContext, *, samples: Samples | None = None, trigger: dict[str, Any] | None = None
) -> StreamingQuery:
    """Start the stream where the last one ended, and return the running query.

    trigger: as of Spark's DataStreamWriter. The caller stops the query, best while no batch runs, and holds the lake
    until the query has stopped. Raises PipelineError, OSError.
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
    """Adds the stream's batches to the history, one at a time."""

    def __init__(self, lake: Lake, unreadable: Any) -> None:
        self._lake = lake
        self._unreadable = unreadable
        self._unreadable_logged = 0

    def write(self, rows: DataFrame, batch: int) -> None:
        lake = self._lake
        checkpoint = checkpoint_id(lake)
        history = read_history(lake)
        if checkpoint == history.checkpoint and batch <= history.batch:
            logger.info("batch already written job=rollup batch=%d", batch)
            # The batch must be computed all the same: only then Spark keeps the stream's state of open minutes.
            rows.write.format("noop").mode("overwrite").save()
            return
        # A stream that continues its checkpoint has only minutes behind the files' end. A new stream, or one behind a
        # day that was closed meanwhile, has minutes first that the files have already.
        fresh = rows.where(rows["t"] >= history.end_s(MINUTES))
        staged = stage(lake, fresh, MINUTES, FRESH, day=None, source="stream")
        self._log_unreadable()
        offset = samples_offset(lake, batch)
        added: tuple[HistoryFile, ...] = ()
        if staged is not None:
            lake.publish([staged.move])
            lake.remove_staged(staged.directory)
            added = (staged.file,)
        elif checkpoint == history.checkpoint:
            # Nothing to add to the manifest: if Spark repeats this batch, it is empty again.
            return

        def step(before: History) -> History:
            return replace(
                before, checkpoint=checkpoint, batch=batch, samples_offset=offset, files=(*before.files, *added)
            )

        change_history(lake, step)
        merge_closed_windows(lake)

    def _log_unreadable(self) -> None:
        count = self._unreadable.value
        if count > self._unreadable_logged:
            logger.warning("samples unreadable job=rollup count=%d", count - self._unreadable_logged)
            self._unreadable_logged = count


def merge_closed_windows(lake: Lake) -> int:
    """Merge the files of each window of MERGED_S that is over. Returns by how many the number of files fell.

    Raises LakeDamagedError, OSError."""
    fewer = 0
    for window_s in MERGED_S:
        history = read_history(lake)
        end_s = history.end_s(MINUTES)
        for number, files in groupby(history.of(MINUTES, FRESH), key=lambda one: one.first_s // window_s):
            window_end_s = (number + 1) * window_s
            # A file that reaches into the next window, because a batch came late, waits for a larger window.
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
        # When their day was closed meanwhile, the manifest no longer has them.
        return replace(before, files=(*kept, merged)) if len(kept) == len(before.files) - len(parts) else None

    if not change_history(lake, step):
        lake.retire([f"history/{merged.path}"])
        return 0
    return len(parts) - 1


def checkpoint_id(lake: Lake) -> str:
    """The id that Spark gave the stream's checkpoint when it made it. Raises OSError."""
    first_line = read_no_follow(os.path.join(lake.within(CHECKPOINT), "metadata")).partition(b"\n")[0]
    return str(orjson.loads(first_line)["id"])


def samples_offset(lake: Lake, batch: int) -> int | None:
    """The offset up to which a batch has read its topic, from the checkpoint; None for a source without offsets."""
    last = read_no_follow(os.path.join(lake.within(CHECKPOINT), "offsets", str(batch))).rstrip().rsplit(b"\n", 1)[-1]
    try:
        offsets = orjson.loads(last)
    except orjson.JSONDecodeError:
        return None
    numbers = list(offsets.values()) if isinstance(offsets, dict) else []
    return numbers[0] if len(numbers) == 1 and isinstance(numbers[0], int) and "/" in next(iter(offsets)) else None
