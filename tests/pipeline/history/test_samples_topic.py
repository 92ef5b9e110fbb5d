"""The samples of a real engine, through the data source: what the history's jobs ask of their topic."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.history import aggregation
from queue_engine.lake.history.checkpoint import CHECKPOINT, samples_offset
from queue_engine.lake.history.levels import MINUTES
from queue_engine.lake.history.rollup_stream import start_rollup_stream
from queue_engine.lake.history.samples_topic import SamplesTopic
from queue_engine.vocabulary.clock import NS_PER_S
from queue_engine.vocabulary.names import SAMPLES_TOPIC
from tests.pipeline.history.history_rows import job_context, read_rows
from tests.pipeline.history.sampling_process import sample_and_be_killed
from tests.support.lakes.log_topics import publish, published
from tests.support.processes.engine_process import EngineProcess
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.slow(reason="runs Spark"), pytest.mark.timeout(900)]

END_MS = 1 << 42


def url_of(engine: EngineProcess) -> str:
    return f"http://127.0.0.1:{engine.http_port}"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    """An engine that has taken three samples or more since its messages came, and goes on."""
    path = tmp_path_factory.mktemp("samples") / "data"
    with EngineProcess(path, options=["--storage=log", "--samples-interval=1s"]) as engine:
        publish(engine, "orders", [b"one", b"two"])
        with LogClient(url_of(engine)) as client:
            before = client.topic(SAMPLES_TOPIC).synced_offset
            wait_for("samples", lambda: client.topic(SAMPLES_TOPIC).synced_offset >= before + 3, timeout_s=60)
        yield engine


def test_samples_of_a_real_engine_become_minutes(spark: SparkSession, engine: EngineProcess, tmp_path: Path) -> None:
    with LogClient(url_of(engine)) as client:
        samples = SamplesTopic(spark, client)
        told = spark.sparkContext.accumulator(0)
        count = client.topic(SAMPLES_TOPIC).synced_offset
        found = [row for row in samples.read(0, END_MS).collect() if row.offset < count]
        assert [(row.offset, bytes(row.body)) for row in found] == [
            (one.offset, one.body) for one in published(engine, SAMPLES_TOPIC) if one.offset < count
        ]
        frame = samples.read(0, END_MS).where(f"offset < {count}")
        minutes = aggregation.minutes(aggregation.rows_of_samples(frame, lambda _: told.add(1))).collect()
        assert told.value == 0
        assert sum(row.samples for row in minutes if (row.topic, row.channel) == ("", "")) == count
        assert sum(row.messages for row in minutes if (row.topic, row.channel) == ("orders", "")) == 2

        middle_ms = int(found[1].published_at.timestamp() * 1000) + 1
        assert samples.has_any(0, END_MS)
        assert samples.has_any(0, middle_ms)
        assert not samples.has_any(0, 1)
        assert not samples.has_any(END_MS - 1, END_MS)
        assert samples.is_whole_from(0)
        assert samples.read(middle_ms, END_MS).first().offset == 2

        lake = Lake(str(tmp_path))
        with lake.lock():
            context = job_context(spark, lake)
            query = start_rollup_stream(context, samples=samples, trigger={"availableNow": True})
            query.awaitTermination()
            assert query.exception() is None
            offset = samples_offset(lake)
            assert offset is not None
            assert offset >= count


def test_three_kills_of_the_server_keep_no_minute_from_the_history(spark: SparkSession, tmp_path: Path) -> None:
    minute_s = 60
    first_s = int(time.time()) // minute_s * minute_s - 3_600
    for life in range(3):
        sample_and_be_killed(tmp_path / "data", (first_s + life * 3 * minute_s) * NS_PER_S, 18)
    options = ["--storage=log", "--samples-interval=1h"]
    with EngineProcess(tmp_path / "data", options=options) as engine, LogClient(url_of(engine)) as client:
        lake = Lake(str(tmp_path / "pipeline"))
        with lake.lock():
            samples = SamplesTopic(spark, client)
            often = {"processingTime": "0 seconds"}
            query = start_rollup_stream(job_context(spark, lake), samples=samples, trigger=often)
            second = Path(lake.within(f"{CHECKPOINT}/commits/1"))
            try:
                # One batch takes the samples, and the second brings the minutes that they end.
                wait_for("two batches", lambda: query.exception() or second.exists(), timeout_s=120)
            finally:
                query.stop()
            totals = {key[0]: row["samples"] for key, row in read_rows(lake, MINUTES).items() if key[2:] == ("", "")}
    # Two minutes before the last sample, at nine minutes, is where the history ends.
    assert totals == {first_s + minute * minute_s: 6 if minute else 5 for minute in range(7)}
