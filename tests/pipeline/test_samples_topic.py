"""The samples of a real engine, through the data source: what the history's jobs ask of their topic."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from queue_engine.names import SAMPLES_TOPIC
from queue_engine.pipeline import transforms
from queue_engine.pipeline.lake import Lake
from queue_engine.pipeline.log_client import LogClient
from queue_engine.pipeline.rollup_stream import samples_offset, start_rollup_stream
from queue_engine.pipeline.samples_topic import SamplesTopic
from tests.pipeline.history_rows import job_context
from tests.support.engine_process import EngineProcess
from tests.support.log_topics import publish, published
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

END_MS = 1 << 42


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    """It has taken three samples or more, and goes on."""
    path = tmp_path_factory.mktemp("samples") / "data"
    with EngineProcess(path, options=["--storage=log", "--samples-interval=1s"]) as engine:
        publish(engine, "orders", [b"one", b"two"])
        with LogClient(f"http://127.0.0.1:{engine.http_port}") as client:
            wait_for("samples", lambda: client.topic(SAMPLES_TOPIC).synced_offset >= 3, timeout_s=60)
        yield engine


def test_samples_of_a_real_engine_become_minutes(spark: SparkSession, engine: EngineProcess, tmp_path: Path) -> None:
    with LogClient(f"http://127.0.0.1:{engine.http_port}") as client:
        samples = SamplesTopic(spark, client)
        told = spark.sparkContext.accumulator(0)
        count = client.topic(SAMPLES_TOPIC).synced_offset
        found = [row for row in samples.read(0, END_MS).collect() if row.offset < count]
        assert [(row.offset, bytes(row.body)) for row in found] == [
            (one.offset, one.body) for one in published(engine, SAMPLES_TOPIC) if one.offset < count
        ]
        frame = samples.read(0, END_MS).where(f"offset < {count}")
        minutes = transforms.minutes(transforms.rows_of_samples(frame, lambda _: told.add(1))).collect()
        assert told.value == 0
        assert sum(row.samples for row in minutes if (row.topic, row.channel) == ("", "")) == count
        assert sum(row.messages for row in minutes if (row.topic, row.channel) == ("orders", "")) == 2

        middle_ms = int(found[1].published_at.timestamp() * 1000) + 1
        assert samples.has_any(0, END_MS)
        assert samples.has_any(0, middle_ms)
        assert not samples.has_any(0, 1)
        assert not samples.has_any(END_MS - 1, END_MS)
        assert samples.is_whole_from(0)
        assert samples.read(middle_ms, END_MS).first().offset == 2  # type: ignore[union-attr]

        lake = Lake(str(tmp_path))
        with lake.lock():
            context = job_context(spark, lake)
            query = start_rollup_stream(context, samples=samples, trigger={"availableNow": True})
            query.awaitTermination()
            assert query.exception() is None
            offset = samples_offset(lake, 0)
            assert offset is not None
            assert offset >= count
