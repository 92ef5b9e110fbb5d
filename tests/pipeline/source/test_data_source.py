"""The data source `penstock` in a real Spark, reading a real engine: what comes equals what was published."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from queue_engine.lake.source.data_source import PenstockDataSource
from queue_engine.lake.source.schemas import MESSAGES
from tests.support.lakes.log_topics import Published, publish, published
from tests.support.processes.engine_process import EngineProcess
from tests.support.processes.running_lookup import RunningLookup
from tests.support.waiting import wait_for

# Session, workers and engine take their time on a busy machine.
pytestmark = [pytest.mark.spark, pytest.mark.slow(reason="runs Spark"), pytest.mark.timeout(300)]

DATA = Path(__file__).resolve().parent.parent.parent / "data"
TEN = tuple(f"ten{number}" for number in range(10))
ALL = ("earthquakes", "flights", "random", *TEN)
PARTITION_BYTES = 128 << 10


def lines_of(name: str) -> list[bytes]:
    return (DATA / f"{name}.jsonl").read_bytes().splitlines()


def random_bodies() -> list[bytes]:
    source = random.Random(7)
    sizes = [1, 2, 1 << 20, 100, 65_537, *(source.randrange(1, 3_000) for _ in range(200))]
    return [source.randbytes(size) for size in sizes]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    """Real lines, random bytes and ten topics in turn, most of it in complete segments, the rest behind them."""
    with EngineProcess(
        tmp_path_factory.mktemp("engine") / "data", options=["--storage=log", "--broadcast-address=127.0.0.1"]
    ) as engine:
        bodies = {name: lines_of(name) for name in ("earthquakes", "flights")} | {"random": random_bodies()}
        for turn in range(24):
            if turn in (10, 20):
                engine.restart()  # what was written is complete now
            for name, all_of_them in bodies.items():
                step = -(-len(all_of_them) // 24)
                if some := all_of_them[turn * step : (turn + 1) * step]:
                    publish(engine, name, some)
            for topic in TEN:
                publish(engine, topic, [b"%s %d %d" % (topic.encode(), turn, index) for index in range(8)])
        yield engine


@pytest.fixture
def read(spark: SparkSession, engine: EngineProcess) -> Callable[..., DataFrame]:
    """A frame of the engine's topics, read by several tasks though there is not much in them."""
    spark.dataSource.register(PenstockDataSource)

    def frame(*topics: str, **options: Any) -> DataFrame:
        given = {"url": url_of(engine), "topic": ",".join(topics), "partition_bytes": PARTITION_BYTES} | options
        return spark.read.format("penstock").options(**given).load()

    return frame


def url_of(engine: EngineProcess) -> str:
    return f"http://127.0.0.1:{engine.http_port}"


def rows_of(frame: DataFrame) -> list[Published]:
    """In order; times in microseconds."""
    columns = frame.select("topic", "offset", "message_id", F.unix_micros("published_at"), "body", "key", "replayed")
    rows = columns.collect()
    assert all(row.key is None and row.replayed is False for row in rows)
    return sorted(Published(row[0], row[1], row[2], row[3], bytes(row.body)) for row in rows)


def there(engine: EngineProcess, *topics: str) -> list[Published]:
    """What the engine's own reading endpoint has."""
    rows = [one for topic in topics for one in published(engine, topic)]
    return sorted(one._replace(time_ns=one.time_ns // 1000) for one in rows)


@pytest.mark.parametrize("read_from", ["auto", "files", "http"])
def test_a_batch_equals_what_was_published(
    read: Callable[..., DataFrame], engine: EngineProcess, read_from: str
) -> None:
    rows = rows_of(read(*ALL, read_from=read_from))
    assert rows == there(engine, *ALL)
    for name in ("earthquakes", "flights"):
        assert [row.body for row in rows if row.topic == name] == lines_of(name)
    assert [row.body for row in rows if row.topic == "random"] == random_bodies()
    assert all(row.body.startswith(row.topic.encode()) for row in rows if row.topic in TEN)


def test_an_nsqlookupd_names_the_server(
    read: Callable[..., DataFrame], engine: EngineProcess, spark: SparkSession
) -> None:
    with RunningLookup() as lookup:
        engine.http("PUT", "/config/nsqlookupd_tcp_addresses", b'["%s"]' % lookup.tcp_address.encode())
        wait_for("its registration", lambda: lookup.producer_ports("flights") == [engine.tcp_port])
        frame = spark.read.format("penstock").options(lookupd=lookup.http_address, topic="flights").load()
        assert rows_of(frame) == there(engine, "flights")
        engine.http("PUT", "/config/nsqlookupd_tcp_addresses", b"[]")


def test_the_schema_is_the_one_that_is_written_down(read: Callable[..., DataFrame]) -> None:
    schema = read("earthquakes").schema
    assert schema == MESSAGES
    assert [one.name for one in schema if one.nullable] == ["key"]
    assert schema["published_at"].metadata["comment"].startswith("when the engine took the message, UTC")


def test_pushed_filters_read_only_their_ranges(read: Callable[..., DataFrame], engine: EngineProcess) -> None:
    everything = read("earthquakes", "ten3")
    parts = everything.rdd.getNumPartitions()
    assert parts == 3  # two files, and what is behind them
    some = everything.where("offset >= 1690 and offset < 1700 and topic = 'earthquakes'")
    assert some.rdd.getNumPartitions() == 1
    assert "Filter (" not in some._jdf.queryExecution().executedPlan().toString()
    assert rows_of(some) == [row for row in there(engine, "earthquakes") if 1690 <= row.offset < 1700]

    times = [row.time_ns for row in there(engine, "ten3")]
    since = everything.where(F.col("published_at") > F.timestamp_micros(F.lit(times[170])))
    late = [row for row in there(engine, "earthquakes", "ten3") if row.time_ns > times[170]]
    assert rows_of(since) == late
    assert since.rdd.getNumPartitions() < parts
    assert rows_of(everything.where("offset < 0")) == []


class Stream:
    """Runs a stream to the end of what there is, again and again from one checkpoint."""

    def __init__(self, spark: SparkSession, engine: EngineProcess, path: Path, *topics: str, **options: Any) -> None:
        self.rows: list[Published] = []
        self.batch_counts: list[int] = []
        self._path = path
        self._reader = spark.readStream.format("penstock").options(
            url=url_of(engine), topic=",".join(topics), **options
        )

    def _take(self, frame: DataFrame, batch_id: int) -> None:
        rows = rows_of(frame)
        self.batch_counts.append(len(rows))
        self.rows += rows

    def run(self, take: Callable[[DataFrame, int], None] | None = None) -> Any:
        """The last progress. Raises what the query ended with."""
        writer = self._reader.load().writeStream.foreachBatch(take or self._take)
        query = writer.option("checkpointLocation", str(self._path)).trigger(availableNow=True).start()
        query.awaitTermination()
        assert query.exception() is None
        return query.lastProgress


@pytest.fixture
def stream(spark: SparkSession, engine: EngineProcess, tmp_path: Path) -> Callable[..., Stream]:
    spark.dataSource.register(PenstockDataSource)
    return lambda *topics, **options: Stream(spark, engine, tmp_path / "checkpoint", *topics, **options)


def test_a_stream_equals_what_was_published_over_its_restarts(
    stream: Callable[..., Stream], engine: EngineProcess
) -> None:
    publish(engine, "grows", [b"%d" % number for number in range(250)])
    one = stream("grows", *TEN[:2], max_rows_per_trigger=200)
    progress = one.run()
    assert sorted(one.rows) == there(engine, "grows", *TEN[:2])
    assert one.batch_counts[:3] == [200, 200, 200]
    assert sum(one.batch_counts) == 634
    assert progress["sources"][0]["latestOffset"] == progress["sources"][0]["endOffset"]
    one.run()
    assert len(one.rows) == 634
    publish(engine, "grows", [b"more"])
    one.run()
    assert sorted(one.rows) == there(engine, "grows", *TEN[:2])


def test_a_topic_made_anew_in_the_midst_of_a_batch_fails_it_and_is_a_series_of_its_own(
    stream: Callable[..., Stream], engine: EngineProcess, tmp_path: Path
) -> None:
    publish(engine, "anew", [b"old %d" % number for number in range(100)])
    one = stream("anew", max_rows_per_trigger=60)

    def replaced(frame: DataFrame, batch_id: int) -> None:
        if batch_id == 1:
            engine.http("POST", "/topic/delete?topic=anew")
            publish(engine, "anew", [b"new %d" % number for number in range(70)])
        one._take(frame, batch_id)

    with pytest.raises(PySparkException, match=r"TopicReplacedError|LeaseLostError"):
        one.run(replaced)
    assert [row.body for row in one.rows] == [b"old %d" % number for number in range(60)]
    with pytest.raises(PySparkException, match=r"TopicReplacedError.*topic anew \(number .* offsets 60 to 99 were not"):
        one.run()
    one = stream("anew", max_rows_per_trigger=60, damage_path=tmp_path / "damage", on_gap="report")
    one.run()
    assert [row.body for row in one.rows] == [b"new %d" % number for number in range(70)]
    [report] = (tmp_path / "damage").iterdir()
    assert '"first_offset":60,"next_offset":100,"reason":"replaced"' in report.read_text()
    engine.http("POST", "/topic/delete?topic=anew")
    with pytest.raises(PySparkException, match=r"TopicMissingError.*topic anew \(number .* from offset 70 on were not"):
        stream("anew").run()


def test_what_cannot_be_read_stops_with_its_name(
    read: Callable[..., DataFrame], stream: Callable[..., Stream], engine: EngineProcess
) -> None:
    engine.http("POST", "/topic/create?topic=fifo&storage=diskqueue")
    with pytest.raises(PySparkException, match=r"NotALogTopicError.*fifo has storage kind diskqueue"):
        read("fifo").count()
    with pytest.raises(PySparkException, match="NotALogTopicError"):
        stream("fifo").run()
    with pytest.raises(PySparkException, match=r"OffsetBeyondEndError.*start_offset 99999 of flights"):
        stream("flights", start_offset=99_999).run()
    with pytest.raises(PySparkException, match=r"TopicMissingError.*topic=nowhere"):
        read("nowhere").count()
