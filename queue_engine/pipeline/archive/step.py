"""One Spark job of the archive: reads ranges of topics from the log and writes them to Parquet files in staging.

In: the columns of `schemas.MESSAGES`. Out, zstd: offset long · published_at timestamp (UTC, microseconds) · message_id
string · key binary, null for none · body binary · replayed boolean; one folder for each topic, kept or not, and hour
of publishing (staging.py draws it); sorted by offset within a file.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from queue_engine.pipeline.archive.staging import MISSING, PART_HOUR, PART_KEPT, PART_TOPIC, ROWS
from queue_engine.pipeline.source.data_source import PenstockDataSource
from queue_engine.pipeline.source.log_client import LogClient
from queue_engine.pipeline.source.read_options import AUTO, ReadOptions
from queue_engine.pipeline.source.read_plan import parts_text, plan_parts
from queue_engine.pipeline.source.wanted_range import WantedRange
from queue_engine.vocabulary.errors import PipelineError

COLUMNS = ("offset", "published_at", "message_id", "key", "body", "replayed")
_US_PER_HOUR = 3_600_000_000


def write_step(
    spark: SparkSession,
    engine: LogClient,
    ranges: Sequence[WantedRange],
    directory: Path,
    *,
    include_replayed: frozenset[str],
    read_from: str = AUTO,
) -> None:
    """Write every message of `ranges`, at most one range of each topic, to `directory`, which Spark's processes share.

    include_replayed: topics whose replayed messages are kept. read_from: as in `ReadOptions`. Raises the errors of
    LogClient.lease, and Spark's error when a task fails.
    """
    spark.dataSource.register(PenstockDataSource)
    # Planned here, not by the source: so the leases can be released as soon as the Spark job has ended.
    options = ReadOptions(engine.url, tuple(one.topic for one in ranges), read_from=read_from)
    plan = plan_parts(engine, options, ranges)
    try:
        frame = (
            spark.read.format(PenstockDataSource.name())
            .option("url", engine.url)
            .option("token", engine.token)
            .option("topic", ",".join(options.topics))
            .option("read_from", read_from)
            .option("parts", parts_text(plan.parts))
            .option("damage_path", str(directory / MISSING))
            .load()
        )
        write_rows(frame, options.topics, directory, include_replayed=include_replayed)
    finally:
        for lease in plan.leases:
            # The readers have noticed a lease that was lost.
            with suppress(PipelineError):
                engine.release(lease)


def write_rows(
    frame: DataFrame, topics: Sequence[str], directory: Path, *, include_replayed: frozenset[str] = frozenset()
) -> None:
    """In: the columns of `schemas.MESSAGES`, of `topics`. Out: the files of a step in `directory`."""
    rows = with_parts(frame, topics, include_replayed)
    parts = [PART_TOPIC, PART_KEPT, PART_HOUR]
    # Sorted by the partition columns, too: else Spark sorts once more, and not by offset.
    rows.select(*COLUMNS, *parts).sortWithinPartitions(*parts, "offset").write.partitionBy(*parts).parquet(
        f"file://{directory / ROWS}", compression="zstd"
    )


def with_parts(frame: DataFrame, topics: Sequence[str], include_replayed: frozenset[str]) -> DataFrame:
    """In: topic, published_at, replayed. Out: + part_topic int, the place in `topics`; + part_kept boolean, whether the
    row is archived; + part_hour long, hours since 1970 UTC, whatever the session's time zone is."""
    places = F.create_map(*[F.lit(value) for place, topic in enumerate(topics) for value in (topic, place)])
    return frame.withColumns(
        {
            PART_TOPIC: F.element_at(places, F.col("topic")),
            PART_KEPT: ~F.col("replayed") | F.col("topic").isin(sorted(include_replayed)),
            PART_HOUR: F.floor(F.unix_micros("published_at") / _US_PER_HOUR),
        }
    )
