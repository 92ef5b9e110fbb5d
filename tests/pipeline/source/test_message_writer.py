"""Rows published once, by chunks whose keys do not change, however often and in how many partitions they come."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.source.data_source import PenstockDataSource
from queue_engine.lake.source.message_writer import (
    CHUNK_BYTES_MAX,
    CHUNK_ROWS_MAX,
    MessageWriter,
    batch_key_of,
    chunks_of,
    publish_parts,
)
from queue_engine.lake.source.read_options import WriteOptions
from queue_engine.lake.source.staged_rows import StagedRows, stage
from queue_engine.vocabulary.errors import (
    BatchConflictError,
    NotALogTopicError,
    PipelineError,
    ReadOptionError,
    TopicReplacedError,
)
from tests.support.lakes.log_topics import publish, published
from tests.support.processes.engine_process import EngineProcess

ROOT = Path(__file__).parents[3]
BODY = StructType([StructField("body", BinaryType())])


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


def test_every_chunk_has_a_key_of_its_own() -> None:
    chunks = [("job", "", 0), ("job", "", 1), ("job", "1", 0), ("other", "", 0), ("job", "11", 1), ("job1", "1", 1)]
    chunks += [("job", "1", 11), ("job", "1", 1)]
    keys = [batch_key_of(*chunk) for chunk in chunks]
    assert len(set(keys)) == len(keys)
    assert {len(key) for key in keys} == {16}
    assert batch_key_of(*chunks[0]) == keys[0]


def cut(bodies: list[bytes], parts: int) -> list[StagedRows]:
    """The bodies in so many partitions, the first of them empty, half of them in a file."""
    size = -(-len(bodies) // (parts - 1 or 1))
    cuts = [bodies] if parts == 1 else [[], *(bodies[at : at + size] for at in range(0, len(bodies), size))]
    return [
        stage(batches_of(one, 999), "" if number % 2 else os.environ["SPARK_LOCAL_DIRS"])
        for number, one in enumerate(cuts)
    ]


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory such as Spark names to its Python processes."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("parts", [1, 2, 4])
@pytest.mark.parametrize("done", [0, 1_000, 2_000, 6_500])
def test_rows_that_come_again_in_any_cut_are_published_once(engine: EngineProcess, parts: int, done: int) -> None:
    topic = f"cut-{parts}-{done}"
    options = WriteOptions(url_of(engine), topic, "job")
    bodies = [b"%d" % number for number in range(6_500)]
    if done:  # a run of three partitions that ended here
        assert publish_parts(options, "", cut(bodies[:done], 3)) == (done, 0)
    assert publish_parts(options, "", cut(bodies, parts)) == (6_500, done)
    assert publish_parts(options, "", cut(bodies, 7)) == (6_500, 6_500)
    assert bodies_in(engine, topic) == bodies


@pytest.mark.parametrize("done", [1_000, 6_500])
def test_other_rows_and_another_order_are_refused_and_add_nothing(engine: EngineProcess, done: int) -> None:
    topic = f"other-{done}"
    options = WriteOptions(url_of(engine), topic, "job")
    bodies = [b"%d" % number for number in range(6_500)]
    publish_parts(options, "", cut(bodies[:done], 2))
    for others in (bodies[1:], bodies[3_000:] + bodies[:3_000]):
        with pytest.raises(BatchConflictError, match=r"rows 0 to 999 are others .* batch_key=job before"):
            publish_parts(options, "", cut(others, 3))
    assert bodies_in(engine, topic) == bodies[:done]
    publish_parts(options, "7", cut(bodies[:10], 1))
    with pytest.raises(BatchConflictError, match="batch_key=job, micro-batch 7 before"):
        publish_parts(options, "7", cut(bodies[1:11], 1))


def test_rows_are_compressed_in_a_file_or_in_memory_and_removed(directory: Path) -> None:
    bodies = [b"%d " % number * 100 for number in range(2_000)]
    in_file, in_memory = stage(batches_of(bodies, 999), str(directory)), stage(batches_of(bodies, 999), "/elsewhere")
    assert (in_file.data, in_memory.path) == (b"", "")
    assert max(Path(in_file.path).stat().st_size, len(in_memory.data)) < sum(map(len, bodies)) // 5
    for staged in (in_file, in_memory):
        assert [body for batch in staged.batches() for body in batch.column("body").to_pylist()] == bodies
    writer = MessageWriter(WriteOptions("http://127.0.0.1:4151", "orders", "job"), BODY)
    writer.abort([in_memory, None, in_file])
    assert list(directory.iterdir()) == []
    assert stage(batches_of([], 1), str(directory)) == StagedRows()
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize(("body", "words"), [(None, "no body"), (b"", "an empty body")])
def test_a_row_that_is_no_message_ends_its_task_before_anything_is_published(
    directory: Path, body: bytes | None, words: str
) -> None:
    rows = pa.RecordBatch.from_pydict({"body": pa.array([b"x", body], pa.binary())})
    for place in (str(directory), ""):
        with pytest.raises(PipelineError, match=rf"a row has {words}.*nothing was published"):
            stage(iter([rows]), place)
    assert list(directory.iterdir()) == []


def test_another_topic_of_the_name_is_refused_where_a_number_is_given(engine: EngineProcess) -> None:
    publish(engine, "given", [b"first"])
    with LogClient(url_of(engine)) as client:
        number = client.topic("given").number
    options = WriteOptions(url_of(engine), "given", "job", is_replayed=True, number=number)
    publish_parts(options, "0", cut([b"second"], 1))
    engine.http("POST", "/topic/delete?topic=given")
    publish(engine, "given", [b"new"])
    with pytest.raises(TopicReplacedError, match="topic=given"):
        publish_parts(options, "1", cut([b"third"], 1))
    assert bodies_in(engine, "given") == [b"new"]


def test_a_disk_queue_cannot_be_written_once(engine: EngineProcess) -> None:
    engine.http("POST", "/topic/create?topic=fifo&storage=diskqueue")
    with pytest.raises(NotALogTopicError, match="fifo"):
        publish_parts(WriteOptions(url_of(engine), "fifo", "job"), "", cut([b"x"], 1))


def test_columns_that_cannot_be_published_are_named() -> None:
    options = WriteOptions("http://127.0.0.1:4151", "orders", "job")
    body = BODY["body"]
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
def test_a_frame_in_any_number_of_partitions_is_written_once_with_keys_and_flags(
    spark: SparkSession, engine: EngineProcess
) -> None:
    spark.dataSource.register(PenstockDataSource)
    body = F.format_string("body %d", "id").alias("body")
    key = F.when(F.col("id") % 2 == 0, F.encode(F.format_string("key %d", "id"), "utf-8")).alias("key")
    to = {"url": url_of(engine), "topic": "frame", "batch_key": "a frame", "replayed": "true"}
    wanted = [(b"key %d" % number if number % 2 == 0 else None, b"body %d" % number, True) for number in range(6_000)]
    for partitions in (1, 3):
        frame = spark.range(0, 6_000, numPartitions=partitions).select(body, key)
        frame.write.format("penstock").mode("append").options(**to).save()
        assert rows_of(spark, engine, "frame") == wanted
    with pytest.raises(PySparkException, match="BatchConflictError"):
        frame.where("body <> 'body 0'").write.format("penstock").mode("append").options(**to).save()
    with pytest.raises(PySparkException, match="option batch_key is missing"):
        frame.write.format("penstock").mode("append").options(url=url_of(engine), topic="frame").save()
    assert rows_of(spark, engine, "frame") == wanted


@pytest.mark.spark
@pytest.mark.slow(reason="runs Spark")
@pytest.mark.timeout(600)
def test_other_cores_and_tasks_that_fail_write_once(engine: EngineProcess, tmp_path: Path) -> None:
    bodies = [b"body %d" % number for number in range(6_000)]
    options = WriteOptions(url_of(engine), "cores", "job")
    publish_parts(options, "", cut(bodies[:2_000], 1))  # a run on one core, which ended here
    command = [sys.executable, "-m", "tests.pipeline.source.sink_run", "local[3,4]"]
    command += [options.url, options.topic, options.batch_key, "6000", "5", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "attempts 6\n"), done.stderr
    assert bodies_in(engine, "cores") == bodies


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
