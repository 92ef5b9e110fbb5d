"""Rows published once: by chunks whose keys do not change, however often their task is run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from queue_engine.pipeline.source.data_source import PenstockDataSource
from queue_engine.pipeline.source.log_client import LogClient
from queue_engine.pipeline.source.message_writer import (
    CHUNK_BYTES_MAX,
    CHUNK_ROWS_MAX,
    MessageWriter,
    WrittenPart,
    batch_key_of,
    chunks_of,
    write_part,
)
from queue_engine.pipeline.source.read_options import WriteOptions
from queue_engine.vocabulary.errors import (
    BatchConflictError,
    NotALogTopicError,
    PipelineError,
    ReadOptionError,
    TopicReplacedError,
)
from tests.support.lakes.log_topics import publish, published
from tests.support.processes.engine_process import EngineProcess


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    with EngineProcess(tmp_path_factory.mktemp("engine") / "data", options=["--storage=log"]) as engine:
        yield engine


def url_of(engine: EngineProcess) -> str:
    return f"http://127.0.0.1:{engine.http_port}"


def batches_of(bodies: list[bytes], step: int, keys: list[bytes | None] | None = None) -> Iterator[pa.RecordBatch]:
    for at in range(0, len(bodies), step):
        columns = {"body": pa.array(bodies[at : at + step], pa.binary())}
        if keys is not None:
            columns["key"] = pa.array(keys[at : at + step], pa.binary())
        yield pa.RecordBatch.from_pydict(columns)


def bodies_in(engine: EngineProcess, topic: str) -> list[bytes]:
    return [one.body for one in published(engine, topic)]


def test_chunks_end_where_rows_or_bytes_are_full_whatever_the_batches() -> None:
    bodies = [b"%d" % number for number in range(2_500)] + [b"x" * (CHUNK_BYTES_MAX // 2)] * 3
    bodies += [b"y" * (CHUNK_BYTES_MAX + 1), b"z"]
    whole = list(chunks_of(batches_of(bodies, len(bodies))))
    assert [len(some) for some, _ in whole] == [1_000, 1_000, 501, 2, 1, 1]
    assert all(len(some) <= CHUNK_ROWS_MAX for some, _ in whole)
    assert all(sum(map(len, some)) <= CHUNK_BYTES_MAX or len(some) == 1 for some, _ in whole)
    assert [body for some, _ in whole for body in some] == bodies
    for step in (1, 7, 999, 1_000, 1_001):
        assert list(chunks_of(batches_of(bodies, step))) == whole


def test_keys_go_with_their_bodies_and_null_is_none() -> None:
    keys = [b"k%d" % number if number % 3 else None for number in range(1_500)]
    chunks = list(chunks_of(batches_of([b"x"] * 1_500, 700, keys)))
    assert [key for _, some in chunks for key in some or ()] == [key or b"" for key in keys]
    with pytest.raises(PipelineError, match="a row without a body"):
        list(chunks_of(iter([pa.RecordBatch.from_pydict({"body": pa.array([None], pa.binary())})])))


def test_every_chunk_has_a_key_of_its_own() -> None:
    parts = [("job", "", 0, 0), ("job", "", 0, 1), ("job", "", 1, 0), ("job", "1", 0, 0), ("other", "", 0, 0)]
    parts += [("job", "11", 1, 1), ("job1", "1", 1, 1), ("job", "1", 11, 1), ("job", "1", 1, 11)]
    keys = [batch_key_of(*part) for part in parts]
    assert len(set(keys)) == len(keys)
    assert {len(key) for key in keys} == {16}
    assert batch_key_of(*parts[0]) == keys[0]


def test_a_part_that_is_written_again_adds_nothing(engine: EngineProcess) -> None:
    options = WriteOptions(url_of(engine), "again", "job")
    bodies = [b"%d" % number for number in range(2_500)]
    assert write_part(options, "", 3, batches_of(bodies[:1_000], 100)) == WrittenPart(1_000, 0)  # and died
    assert write_part(options, "", 3, batches_of(bodies, 999)) == WrittenPart(2_500, 1_000)
    assert bodies_in(engine, "again") == bodies
    with pytest.raises(BatchConflictError, match="batch_key="):
        write_part(options, "", 3, batches_of(bodies[1:], 999))
    assert bodies_in(engine, "again") == bodies


def test_another_topic_of_the_name_is_refused_where_a_number_is_given(engine: EngineProcess) -> None:
    publish(engine, "given", [b"first"])
    with LogClient(url_of(engine)) as client:
        number = client.topic("given").number
    options = WriteOptions(url_of(engine), "given", "job", is_replayed=True, number=number)
    write_part(options, "", 0, batches_of([b"second"], 1))
    engine.http("POST", "/topic/delete?topic=given")
    publish(engine, "given", [b"new"])
    with pytest.raises(TopicReplacedError, match="topic=given"):
        write_part(options, "", 1, batches_of([b"third"], 1))
    assert bodies_in(engine, "given") == [b"new"]


def test_a_disk_queue_cannot_be_written_once(engine: EngineProcess) -> None:
    engine.http("POST", "/topic/create?topic=fifo&storage=diskqueue")
    with pytest.raises(NotALogTopicError, match="fifo"):
        write_part(WriteOptions(url_of(engine), "fifo", "job"), "", 0, batches_of([b"x"], 1))


def test_columns_that_cannot_be_published_are_named() -> None:
    options = WriteOptions("http://127.0.0.1:4151", "orders", "job")
    body = StructField("body", BinaryType())
    MessageWriter(options, StructType([body, StructField("key", StringType())]))
    with pytest.raises(ReadOptionError, match="body, offset"):
        MessageWriter(options, StructType([body, StructField("offset", LongType())]))
    with pytest.raises(ReadOptionError, match="column body is bigint"):
        MessageWriter(options, StructType([StructField("body", LongType())]))
    with pytest.raises(ReadOptionError, match="columns key"):
        MessageWriter(options, StructType([StructField("key", BinaryType())]))


def rows_of(spark: SparkSession, engine: EngineProcess, topic: str) -> list[tuple[Any, ...]]:
    frame = spark.read.format("penstock").options(url=url_of(engine), topic=topic).load()
    return [tuple(row) for row in frame.orderBy("offset").select("key", "body", "replayed").collect()]


@pytest.mark.spark
@pytest.mark.slow(reason="runs Spark")
@pytest.mark.timeout(600)
def test_a_frame_is_written_once_with_keys_and_flags(spark: SparkSession, engine: EngineProcess) -> None:
    spark.dataSource.register(PenstockDataSource)
    frame = spark.range(0, 5_000, numPartitions=3).select(
        F.format_string("body %d", "id").alias("body"),
        F.when(F.col("id") % 2 == 0, F.encode(F.format_string("key %d", "id"), "utf-8")).alias("key"),
    )
    to = {"url": url_of(engine), "topic": "frame", "batch_key": "a frame", "replayed": "true"}
    for _ in range(2):
        frame.write.format("penstock").mode("append").options(**to).save()
        rows = rows_of(spark, engine, "frame")
        assert sorted(rows, key=lambda row: int(row[1].split()[1])) == [
            (b"key %d" % number if number % 2 == 0 else None, b"body %d" % number, True) for number in range(5_000)
        ]
    with pytest.raises(PySparkException, match="BatchConflictError"):
        frame.where("id > 0").write.format("penstock").mode("append").options(**to).save()
    with pytest.raises(PySparkException, match="option batch_key is missing"):
        frame.write.format("penstock").mode("append").options(url=url_of(engine), topic="frame").save()
    assert len(rows_of(spark, engine, "frame")) == 5_000


@pytest.mark.spark
@pytest.mark.slow(reason="runs Spark")
@pytest.mark.timeout(600)
def test_a_micro_batch_that_comes_again_is_written_once(
    spark: SparkSession, engine: EngineProcess, tmp_path: Path
) -> None:
    spark.dataSource.register(PenstockDataSource)
    publish(engine, "source", [b"%d" % number for number in range(50)])
    checkpoint = tmp_path / "checkpoint"
    stream = spark.readStream.format("penstock").options(url=url_of(engine), topic="source", max_rows_per_trigger=20)

    def run() -> None:
        writer = stream.load().select("body").writeStream.format("penstock").trigger(availableNow=True)
        to = {"url": url_of(engine), "topic": "sink", "batch_key": "a stream", "checkpointLocation": str(checkpoint)}
        query = writer.options(**to).start()
        query.awaitTermination()
        assert query.exception() is None

    run()
    assert bodies_in(engine, "sink") == [b"%d" % number for number in range(50)]
    # As if it had died before the last batch was noted as done.
    last = max(int(one.name) for one in (checkpoint / "commits").iterdir() if one.name.isdigit())
    assert last == 2
    for name in (f"{last}", f".{last}.crc"):
        (checkpoint / "commits" / name).unlink()
    publish(engine, "source", [b"50"])
    run()
    assert bodies_in(engine, "sink") == [b"%d" % number for number in range(51)]
