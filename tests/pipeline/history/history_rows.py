"""Samples in files instead of in a log, and the rows of a history as a reader finds them."""

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.history.files import HistoryFiles
from queue_engine.lake.job.context import JobContext
from tests.support.clock import ManualClock
from tests.support.lakes.engine_samples import Key, Row

MESSAGES = pa.schema([("offset", pa.int64()), ("published_at", pa.timestamp("us", tz="UTC")), ("body", pa.binary())])
END_OF_TIME_S = 1 << 40


class SampleFiles:
    """Messages of the samples' topic in Parquet files; a stream takes so many as a batch.

    gone_before_ms: what was published before is no longer there.
    """

    def __init__(self, spark: SparkSession | None, directory: Path) -> None:
        self.gone_before_ms = 0
        self.files_a_batch = 1
        self._spark: Any = spark
        self._directory = directory
        self._offset = 0
        directory.mkdir(exist_ok=True)

    def add(self, messages: Sequence[tuple[int, bytes]]) -> None:
        """One more file of messages, (published ms, body) each."""
        number = len(list(self._directory.iterdir()))
        columns = {
            "offset": range(self._offset, self._offset + len(messages)),
            "published_at": [at_ms * 1000 for at_ms, _ in messages],
            "body": [body for _, body in messages],
        }
        self._offset += len(messages)
        staged = self._directory / f".{number:05d}"
        pq.write_table(pa.table(columns, schema=MESSAGES), staged)
        # A stream takes files by their age, in whole milliseconds.
        os.utime(staged, (1_000_000 + number, 1_000_000 + number))
        staged.rename(self._directory / f"{number:05d}.parquet")

    def stream(self, start_ms: int) -> DataFrame:
        files = self._spark.readStream.schema("offset bigint, published_at timestamp, body binary")
        frame: DataFrame = files.option("maxFilesPerTrigger", self.files_a_batch).parquet(str(self._directory))
        return frame.where(F.col("published_at") >= F.timestamp_millis(F.lit(start_ms)))

    def read(self, start_ms: int, end_ms: int) -> DataFrame:
        frame: DataFrame = self._spark.read.parquet(str(self._directory))
        at_ms = F.unix_millis("published_at")
        return frame.where((at_ms >= max(start_ms, self.gone_before_ms)) & (at_ms < end_ms))

    def has_any(self, start_ms: int, end_ms: int) -> bool:
        times = pq.read_table(self._directory, columns=["published_at"]).column(0).cast(pa.int64()).to_pylist()
        return any(max(start_ms, self.gone_before_ms) <= at_us // 1000 < end_ms for at_us in times)

    def is_whole_from(self, start_ms: int) -> bool:
        return self.gone_before_ms < start_ms


def job_context(spark: Any, lake: Lake) -> JobContext:
    """A job's surroundings without an engine."""
    engine: Any = None
    return JobContext(spark, lake, engine, ManualClock(), threading.Event(), lambda state: None)


def read_rows(lake: Lake, level: str) -> dict[Key, Row]:
    """All rows of a level that count, as `minutes_of` gives them; none may be there twice."""
    found: dict[Key, Row] = {}
    for file in HistoryFiles(lake.path).files(level, 0, END_OF_TIME_S):
        for row in pq.ParquetFile(file.path).read().to_pylist():
            row["latency"] = [(pair["b"], pair["n"]) for pair in row["latency"]]
            key = (row["t"], row["node"], row["topic"], row["channel"])
            assert key not in found, f"{key} twice"
            found[key] = row
    return found
