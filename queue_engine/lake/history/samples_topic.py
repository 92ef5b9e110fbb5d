"""Reads the topic that an engine writes its samples to, as a stream and as a batch."""

from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.source.data_source import PenstockDataSource
from queue_engine.vocabulary.names import SAMPLES_TOPIC

# Almost three hours of an engine's samples: after a long pause a batch still fits into a small process.
STREAM_ROWS = 1_000


class Samples(Protocol):
    """Where samples come from. Frames have the columns of messages; times are Unix milliseconds of publishing."""

    def stream(self, start_ms: int) -> DataFrame:
        """A streaming frame from the first sample at start_ms or later; a checkpoint's offsets go before start_ms."""
        ...

    def read(self, start_ms: int, end_ms: int) -> DataFrame:
        """The samples of [start_ms, end_ms) that the log still has."""
        ...

    def has_any(self, start_ms: int, end_ms: int) -> bool:
        """Whether there are samples of [start_ms, end_ms)."""
        ...

    def is_whole_from(self, start_ms: int) -> bool:
        """Whether every sample that was published at start_ms or later is still there."""
        ...


class SamplesTopic:
    """The samples of the engine behind a client. Raises, and its frames raise, PipelineError."""

    def __init__(self, spark: SparkSession, engine: LogClient) -> None:
        self._spark = spark
        self._engine = engine
        self._options = {
            "url": engine.url,
            "token": engine.token,
            "topic": SAMPLES_TOPIC,
            # The samples' log can't be leased; samples that it has removed are a gap in the graphs.
            "read_from": "http",
            "on_gap": "report",
        }
        spark.dataSource.register(PenstockDataSource)

    def stream(self, start_ms: int) -> DataFrame:
        reader = self._spark.readStream.format(PenstockDataSource.name()).options(**self._options)
        return reader.options(start_time_ms=str(start_ms), max_rows_per_trigger=str(STREAM_ROWS)).load()

    def read(self, start_ms: int, end_ms: int) -> DataFrame:
        reader = self._spark.read.format(PenstockDataSource.name()).options(**self._options)
        return reader.options(start_time_ms=str(start_ms), end_time_ms=str(end_ms)).load()

    def has_any(self, start_ms: int, end_ms: int) -> bool:
        return self._offset_of(start_ms) < self._offset_of(end_ms)

    def is_whole_from(self, start_ms: int) -> bool:
        oldest = self._engine.topic(SAMPLES_TOPIC).oldest_offset
        # The log removes its oldest samples first: while it has one from before start_ms, it has all later ones.
        return oldest == 0 or self._offset_of(start_ms) > oldest

    def _offset_of(self, time_ms: int) -> int:
        found = self._engine.topic(SAMPLES_TOPIC, time_ms=time_ms).time_offset
        assert found is not None
        return found
