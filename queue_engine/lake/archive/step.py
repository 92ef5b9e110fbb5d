"""One Spark job of the archive: its tasks read ranges of topics from the log and write them to data files.

Each task reads and writes in one process of Python (`step_writer.py`): no message passes through Java.
"""

from collections.abc import Sequence
from contextlib import suppress

from pyspark.sql import SparkSession

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.archive.step_check import WrittenRange, checked_ranges
from queue_engine.lake.archive.step_writer import StepTarget, TopicRows, write_task
from queue_engine.lake.source.read_options import AUTO, ReadOptions
from queue_engine.lake.source.read_plan import Part, plan_parts, tasks_of
from queue_engine.lake.source.wanted_range import WantedRange
from queue_engine.vocabulary.errors import PipelineError


def write_step(
    spark: SparkSession,
    engine: LogClient,
    ranges: Sequence[WantedRange],
    target: StepTarget,
    *,
    read_from: str = AUTO,
) -> list[WrittenRange]:
    """Write every message of `ranges`, at most one range of each topic, to data files, and check them.

    read_from: as in `ReadOptions`. Raises ArchiveMismatchError, the errors of LogClient.lease, and Spark's error when a
    task fails.
    """
    # Planned here: so the leases can be released as soon as the Spark job has ended.
    options = ReadOptions(engine.url, tuple(one.topic for one in ranges), token=engine.token, read_from=read_from)
    plan = plan_parts(engine, options, ranges)
    try:
        tasks = tasks_of(plan.parts, options.partition_bytes)

        def written(parts: list[Part]) -> list[TopicRows]:
            return write_task(parts, options, target)

        found = spark.sparkContext.parallelize(tasks, len(tasks)).flatMap(written).collect() if tasks else []
    finally:
        for lease in plan.leases:
            # The readers have noticed a lease that was lost.
            with suppress(PipelineError):
                engine.release(lease)
    return checked_ranges(ranges, found)
