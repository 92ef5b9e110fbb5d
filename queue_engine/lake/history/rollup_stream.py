"""The stream that computes minutes of samples as they come: the fresh part of the history.

A minute is written when the newest sample is two minutes past its end; the compaction adds later samples. Spark repeats
a batch when the process ended before Spark noted that the batch was done: the table has the checkpoint and its last
batch, so a repeated one is recognized and skipped. When the checkpoint was removed, a new stream begins, and its
minutes count from where the files end.
"""

import logging
import os
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.history import aggregation
from queue_engine.lake.history.checkpoint import CHECKPOINT, checkpoint_id
from queue_engine.lake.history.history_tables import HistoryTables
from queue_engine.lake.history.levels import MINUTES
from queue_engine.lake.history.merging import merge_closed_windows
from queue_engine.lake.history.samples_topic import Samples, SamplesTopic
from queue_engine.lake.history.writer import write_rows
from queue_engine.lake.job.context import JobContext

logger = logging.getLogger(__name__)

# Minutes are minutes late in any case, and the console shows the last fifteen minutes from its memory: a shorter
# interval costs more than it shows. A batch takes two seconds of a core, however small it is.
TRIGGER = {"processingTime": "120 seconds"}
# A new stream reads the samples of the last minutes again, which may not be in the files.
START_BEFORE_S = 600


def start_rollup_stream(
    context: JobContext, *, samples: Samples | None = None, trigger: dict[str, Any] | None = None
) -> StreamingQuery:
    """Start the stream where the last one ended, and return the running query.

    trigger: as of Spark's DataStreamWriter. The caller stops the query, best while no batch runs, and holds the lake
    until the query has stopped. Raises PipelineError, OSError.
    """
    lake = context.lake
    samples = samples or SamplesTopic(context.spark, context.engine)
    tables = HistoryTables(lake)
    tables.check_converted()
    # It may be missing, or from before a power cut.
    tables.write_summary()
    start_s = max(0, tables.end_s() - START_BEFORE_S)
    unreadable = context.spark.sparkContext.accumulator(0)
    rows = aggregation.rows_of_samples(samples.stream(start_s * 1000), lambda _: unreadable.add(1))
    batches = _Batches(lake, tables, unreadable)
    return (
        aggregation.minutes(rows)
        .writeStream.outputMode("append")
        .queryName("rollup")
        .option("checkpointLocation", f"file://{os.path.abspath(lake.within(CHECKPOINT))}")
        .foreachBatch(batches.write)
        .trigger(**(trigger or TRIGGER))
        .start()
    )


class _Batches:
    """Adds the stream's batches to the history, one at a time."""

    def __init__(self, lake: Lake, tables: HistoryTables, unreadable: Any) -> None:
        self._lake = lake
        self._tables = tables
        self._unreadable = unreadable
        self._unreadable_logged = 0

    def write(self, rows: DataFrame, batch: int) -> None:
        checkpoint = checkpoint_id(self._lake)
        last = self._tables.last_batch(checkpoint)
        if last is not None and batch <= last:
            logger.info("batch already written job=rollup batch=%d", batch)
            # The batch must be computed all the same: only then Spark keeps the stream's state of open minutes.
            rows.write.format("noop").mode("overwrite").save()
            return
        # A stream that continues its checkpoint has only minutes behind the files' end. A new stream, or one behind a
        # day that was closed meanwhile, has minutes first that the files have already.
        fresh = rows.where(rows["t"] >= self._tables.end_s())
        files = write_rows(self._tables.storage, MINUTES, fresh)
        self._log_unreadable()
        self._tables.add_batch(files, checkpoint, batch)
        merge_closed_windows(self._tables)

    def _log_unreadable(self) -> None:
        count = self._unreadable.value
        if count > self._unreadable_logged:
            logger.warning("samples unreadable job=rollup count=%d", count - self._unreadable_logged)
            self._unreadable_logged = count
