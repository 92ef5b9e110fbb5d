"""Aggregates messages to rows of samples, those to minutes, and minutes to hours; for streams and batches alike."""

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from queue_engine.lake.history import schema
from queue_engine.lake.history.latency_sums import sum_lists
from queue_engine.lake.history.levels import WINDOW_S
from queue_engine.lake.history.sample_rows import sample_rows
from queue_engine.lake.history.schema import COUNTERS, GAUGES, KEYS
from queue_engine.lake.source.schemas import spark_schema

# The stream does not wait for samples that are older than this against the newest one; the compaction adds them.
WATERMARK = "2 minutes"

SAMPLE_ROWS = spark_schema(schema.SAMPLE_ROWS)
HISTORY_ROWS = spark_schema(schema.HISTORY_ROWS)


def rows_of_samples(messages: DataFrame, on_unreadable: Callable[[str], None]) -> DataFrame:
    """In: body binary, of the samples' topic; other columns are dropped. Out: `SAMPLE_ROWS`, many for each message.

    on_unreadable: called, in Spark's Python processes, with a sentence for each body that can't be decoded.
    """

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return sample_rows(batches, on_unreadable)

    return messages.select("body").mapInArrow(rows, SAMPLE_ROWS)


def minutes(samples: DataFrame) -> DataFrame:
    """In: `SAMPLE_ROWS`. Out: `HISTORY_ROWS`, one a minute, node, topic and channel.

    A stream emits a minute once, when the newest sample is WATERMARK past it.
    """
    order = F.struct("taken_at", "sequence")
    found = (
        samples.withWatermark("taken_at", WATERMARK)
        .groupBy(F.window("taken_at", f"{WINDOW_S['minutes']} seconds"), *KEYS)
        .agg(
            F.count("*").cast("int").alias("samples"),
            *(
                made
                for name in GAUGES
                for made in (
                    F.min(name).alias(f"{name}_min"),
                    F.max(name).alias(f"{name}_max"),
                    F.avg(name).alias(f"{name}_avg"),
                    F.max_by(name, order).alias(f"{name}_last"),
                )
            ),
            *_sums([*COUNTERS]),
            F.sum("paused").cast("int").alias("paused_samples"),
            F.flatten(F.collect_list("latency")).alias("latency"),
        )
    )
    in_order = found.select(F.unix_timestamp(F.col("window.start")).alias("t"), *found.columns[1:])
    return in_order.mapInArrow(_with_summed_latency, HISTORY_ROWS)


def hours(minutes: DataFrame) -> DataFrame:
    """In: `HISTORY_ROWS` of minutes; a batch, not a stream. Out: `HISTORY_ROWS` of their hours.

    An average is weighted by the samples of its minutes. Latencies are added up bucket by bucket in rows: as lists, a
    day's minutes of many channels would not fit into a small process.
    """
    of_hour = minutes.withColumn("hour", F.col("t") - F.col("t") % WINDOW_S["hours"])
    keys = ["hour", *KEYS]
    found = of_hour.groupBy(*keys).agg(
        F.sum("samples").cast("int").alias("samples"),
        *(
            made
            for name in GAUGES
            for made in (
                F.min(f"{name}_min").alias(f"{name}_min"),
                F.max(f"{name}_max").alias(f"{name}_max"),
                _weighted_average(name).alias(f"{name}_avg"),
                F.max_by(f"{name}_last", "t").alias(f"{name}_last"),
            )
        ),
        *_sums([*COUNTERS]),
        F.sum("paused_samples").cast("int").alias("paused_samples"),
    )
    latency = (
        of_hour.select(*keys, F.explode("latency").alias("pair"))
        .groupBy(*keys, F.col("pair.b").alias("b"))
        .agg(F.sum("pair.n").alias("n"))
        .groupBy(*keys)
        .agg(F.array_sort(F.collect_list(F.struct("b", "n"))).alias("latency"))
    )
    none = F.array().cast(HISTORY_ROWS["latency"].dataType)
    joined = found.join(latency, keys, "left").withColumn("latency", F.coalesce("latency", none))
    return joined.select(F.col("hour").alias("t"), *found.columns[1:], "latency")


def _sums(names: list[str]) -> list[Column]:
    return [F.sum(name).alias(name) for name in names]


def _weighted_average(name: str) -> Column:
    average = F.col(f"{name}_avg")
    return F.sum(average * F.col("samples")) / F.sum(F.when(average.isNotNull(), F.col("samples")))


def _with_summed_latency(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add up the histograms of each row, whose lists were only concatenated."""
    for batch in batches:
        at = batch.schema.get_field_index("latency")
        yield batch.set_column(at, "latency", sum_lists(batch.column(at)))
