"""Reading the log of a real engine without Spark: plans, rows, and reports of missing messages."""

import socket
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.source.part_reader import PartReader
from queue_engine.lake.source.read_options import AUTO, FILES, HTTP, REPORT, ReadOptions
from queue_engine.lake.source.read_plan import (
    LEASE_TTL_MS,
    Bounds,
    HttpPart,
    ReadPlan,
    SegmentPart,
    plan_parts,
    plan_ranges,
)
from queue_engine.lake.source.record_columns import DAMAGED, MissingRange
from queue_engine.vocabulary.errors import (
    EngineRefusedError,
    EngineUnreachableError,
    LeaseLostError,
    NotALogTopicError,
    OffsetBeyondEndError,
    OffsetGoneError,
    SegmentMissingError,
    TopicMissingError,
    TopicReplacedError,
)
from queue_engine.vocabulary.names import SAMPLES_TOPIC
from tests.support.clock import ManualClock
from tests.support.lakes.log_topics import Published, publish, published
from tests.support.processes.ports import free_ports
from tests.support.processes.running_engine import RunningEngine
from tests.support.waiting import wait_for

LIMITS: dict[str, Any] = {"log_segment_bytes": 64 << 10, "max_msg_size": 2_000, "max_body_size": 4_000}
TOPICS = ("orders", "other")


def body(topic: str, number: int) -> bytes:
    return b"%s %d " % (topic.encode(), number) + b"x" * 150


def fill(engine: RunningEngine, batches: int = 40) -> None:
    """Two topics in turn, ten messages at a time: three segments, of which the last is still written to."""
    for turn in range(batches):
        for topic in TOPICS:
            publish(engine, topic, [body(topic, 10 * turn + index) for index in range(10)])


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[RunningEngine]:
    with RunningEngine(tmp_path / "data", **LIMITS) as engine:
        fill(engine)
        yield engine


@pytest.fixture
def client(engine: RunningEngine) -> Iterator[LogClient]:
    with LogClient(url_of(engine)) as client:
        yield client


@pytest.fixture
def options(engine: RunningEngine) -> ReadOptions:
    return ReadOptions(url_of(engine), TOPICS)


def url_of(engine: RunningEngine) -> str:
    return f"http://127.0.0.1:{engine.http_port}"


def plan(client: LogClient, options: ReadOptions, bounds: Bounds | None = None) -> ReadPlan:
    return plan_parts(client, options, plan_ranges(client, options, bounds or Bounds()))


def read(client: LogClient, options: ReadOptions, planned: ReadPlan) -> tuple[list[Published], list[MissingRange]]:
    """Rows of all parts, by topic and offset."""
    reader = PartReader(client, options)
    rows: list[Published] = []
    for part in planned.parts:
        for batch in reader.read([part]):
            columns = [batch.column(name) for name in ("topic", "offset", "message_id", "published_at", "body")]
            columns[3] = columns[3].cast(pa.int64())
            rows += map(Published._make, zip(*(column.to_pylist() for column in columns), strict=True))
    return sorted(rows), reader.missing


def there(engine: RunningEngine, *topics: str) -> list[Published]:
    """What the engine says it has, with times in microseconds."""
    rows = [one for topic in topics for one in published(engine, topic)]
    return sorted(one._replace(time_ns=one.time_ns // 1000) for one in rows)


def corrupt(part: SegmentPart, at: int) -> None:
    with open(part.path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 0xFF]))


def test_files_and_http_give_what_was_published(engine: RunningEngine, client: LogClient, options: ReadOptions) -> None:
    expected = there(engine, *TOPICS)
    assert [row.body for row in expected if row.topic == "orders"] == [body("orders", number) for number in range(400)]
    planned = plan(client, options)
    files = [part for part in planned.parts if isinstance(part, SegmentPart)]
    assert len(files) >= 2
    assert all(len(part.ranges) == 2 for part in files), "one scan for both topics"
    assert len(planned.parts) == len(files) + 2, "and what is in no complete segment, of each"
    assert read(client, options, planned) == (expected, [])

    over_http = replace(options, read_from=HTTP, partition_bytes=20_000)
    planned = plan(client, over_http)
    assert len(planned.parts) >= 8
    assert all(isinstance(part, HttpPart) for part in planned.parts)
    assert read(client, over_http, planned) == (expected, [])


def test_only_what_is_asked_for_is_planned(engine: RunningEngine, client: LogClient, options: ReadOptions) -> None:
    orders = there(engine, "orders")

    def rows(bounds: Bounds | None = None, **asked: Any) -> list[int]:
        narrowed = replace(options, **asked)
        planned = plan(client, narrowed, bounds)
        assert len(planned.parts) <= 2, "of four"
        rows, missing = read(client, narrowed, planned)
        assert missing == []
        assert rows == [row for row in orders if row.offset in {one.offset for one in rows}]
        return [row.offset for row in rows]

    assert rows(topics=("orders",), start_offset=3, end_offset=17) == list(range(3, 17))
    only = frozenset({"orders"})
    assert rows(Bounds(first_offset=390, topics=only)) == list(range(390, 400))
    assert rows(Bounds(first_offset=20, next_offset=25, topics=only)) == list(range(20, 25))
    assert rows(Bounds(first_offset=25, next_offset=25)) == []
    assert rows(Bounds(topics=frozenset({"none"}))) == []
    one = orders[395]
    since = rows(Bounds(start_time_ms=one.time_ns // 1000, topics=only))
    assert since == [row.offset for row in orders if row.time_ns // 1000 >= one.time_ns // 1000]
    until = rows(Bounds(end_time_ms=orders[15].time_ns // 1000, topics=only))
    assert until == [row.offset for row in orders if row.time_ns // 1000 < orders[15].time_ns // 1000]
    assert rows(topics=("orders",), end_time_ms=orders[0].time_ns // 1000) == []


def test_a_kill_leaves_no_parts_of_offsets_that_were_never_used(tmp_path: Path) -> None:
    paths = [tmp_path / f"life{number}" for number in range(4)]
    for path, following in pairwise(paths):
        with RunningEngine(path, **LIMITS) as engine:
            fill(engine, 20)
            engine.copy_as_killed(following)
    with RunningEngine(paths[-1], **LIMITS) as engine, LogClient(url_of(engine)) as client:
        fill(engine, 1)
        state = client.topic("orders")
        assert state.synced_offset > 3 << 20
        assert [after - first for first, after in state.ranges or ()] == [200, 200, 200, 10]
        for read_from in (AUTO, HTTP):
            options = ReadOptions(url_of(engine), TOPICS, read_from=read_from, partition_bytes=20_000)
            planned = plan(client, options)
            over_http = [part for part in planned.parts if isinstance(part, HttpPart)]
            assert all(part.wanted.count for part in over_http)
            # By what a message takes in the log, and not by how many offsets lie between: some 100 to a part.
            assert len(over_http) <= (20 if read_from == HTTP else 4)
            rows, missing = read(client, options, planned)
            assert (rows, missing) == (there(engine, *TOPICS), [])
            assert [row.body for row in rows if row.topic == "orders"] == [
                body("orders", number) for life in (200, 200, 200, 10) for number in range(life)
            ]


def test_a_file_that_is_not_on_this_machine_is_read_over_http(
    engine: RunningEngine, client: LogClient, options: ReadOptions
) -> None:
    planned = plan(client, options)
    parts = [replace(part, path=f"{part.path}.gone") for part in planned.parts if isinstance(part, SegmentPart)]
    wrong = [replace(part, salt=part.salt ^ 1) for part in planned.parts if isinstance(part, SegmentPart)]
    offsets = {(one.wanted.topic, one.wanted.first_offset) for part in parts for one in part.ranges}
    for elsewhere in (parts, wrong):
        rows, missing = read(client, options, ReadPlan([*elsewhere]))
        assert missing == []
        assert {(row.topic, row.offset) for row in rows} >= offsets
        assert rows == [row for row in there(engine, *TOPICS) if row in set(rows)]
        with pytest.raises(SegmentMissingError, match=r"\.log"):
            read(client, replace(options, read_from=FILES), ReadPlan([*elsewhere]))


def test_damage_is_reported_and_the_rest_comes(
    engine: RunningEngine, client: LogClient, options: ReadOptions, tmp_path: Path
) -> None:
    reporting = replace(options, damage_path=str(tmp_path / "damage"))
    planned = plan(client, reporting)
    part = next(part for part in planned.parts if isinstance(part, SegmentPart))
    # The last body of the first record.
    header = Path(part.path).read_bytes()[part.ranges[0].first_byte :][:64]
    size = 160 + int.from_bytes(header[56:60], "big") + int.from_bytes(header[60:64], "big")
    corrupt(part, part.ranges[0].first_byte + size - 81)
    expected = there(engine, *TOPICS)
    rows, missing = read(client, reporting, planned)
    wanted = part.ranges[0].wanted
    lost = (wanted.topic, wanted.number, wanted.id_base, 9, 10, DAMAGED)
    assert missing == [MissingRange(*lost)]
    assert rows == [row for row in expected if (row.topic, row.offset) != (wanted.topic, 9)]
    [report] = (tmp_path / "damage").iterdir()
    assert orjson.loads(report.read_bytes()) == {
        "topic": wanted.topic,
        "number": wanted.number,
        "id_base": wanted.id_base,
        "first_offset": wanted.first_offset,
        "next_offset": wanted.next_offset,
        "missing": [{"first_offset": 9, "next_offset": 10, "reason": DAMAGED}],
    }
    over_http = replace(reporting, read_from=HTTP)
    assert read(client, over_http, plan(client, over_http)) == (rows, missing)


def test_a_lost_lease_fails_the_part(client: LogClient, options: ReadOptions) -> None:
    planned = plan(client, options)
    for lease in planned.leases:
        client.release(lease)
    for part in planned.parts:
        with pytest.raises(LeaseLostError, match="lease-"):
            read(client, options, ReadPlan([part]))


def test_a_lease_is_renewed_while_a_part_takes_long(client: LogClient, options: ReadOptions) -> None:
    clock = ManualClock()
    small = replace(options, batch_rows_max=10)
    planned = plan(client, small)
    batches = PartReader(client, small, clock).read(planned.parts[:1])
    next(batches)
    next(batches)
    for lease in planned.leases:
        client.release(lease)
    next(batches)
    clock.advance(ms=LEASE_TTL_MS // 3)
    with pytest.raises(LeaseLostError):
        next(batches)


def test_a_topic_made_anew_is_not_taken_for_the_old_one(
    engine: RunningEngine, client: LogClient, options: ReadOptions
) -> None:
    ranges = plan_ranges(client, options, Bounds())
    planned = plan_parts(client, replace(options, read_from=HTTP), ranges)
    engine.http("POST", "/topic/delete?topic=orders")
    with pytest.raises(TopicMissingError, match="topic=orders"):
        plan_ranges(client, options, Bounds())
    publish(engine, "orders", [body("orders", number) for number in range(10)] * 2)
    with pytest.raises(TopicReplacedError, match="orders at http"):
        plan_parts(client, options, ranges)
    with pytest.raises(TopicReplacedError, match="while offset 0 was read"):
        read(client, options, ReadPlan(planned.parts[:1]))


def test_offsets_beyond_the_end_and_before_the_oldest_are_named(
    engine: RunningEngine, client: LogClient, options: ReadOptions, tmp_path: Path
) -> None:
    with pytest.raises(OffsetBeyondEndError, match=r"start_offset 401 of orders at .* beyond the synced offset, 400"):
        plan(client, replace(options, start_offset=401))
    with pytest.raises(OffsetBeyondEndError, match="end_offset 401"):
        plan(client, replace(options, end_offset=401))
    with pytest.raises(OffsetBeyondEndError, match="offset=401"):
        client.records("orders", 401)
    with pytest.raises(OffsetBeyondEndError, match="offset=401"):
        client.lease("orders", 401, ttl_ms=5_000)

    # Nothing keeps what nobody waits for: a channel that begins at the end lets all before it go.
    planned = plan(client, replace(options, read_from=HTTP))
    for lease in planned.leases:
        client.release(lease)
    for topic in TOPICS:
        engine.http("POST", f"/channel/create?topic={topic}&channel=c&start=end")
    oldest = wait_for("segments to go", lambda: client.topic("orders").oldest_offset)
    with pytest.raises(OffsetGoneError, match=rf"start_offset 0 of orders at http.* is gone: the oldest is {oldest}"):
        plan(client, replace(options, start_offset=0, topics=("orders",)))
    with pytest.raises(OffsetGoneError, match="offset=0"):
        client.lease("orders", 0, ttl_ms=5_000)
    with pytest.raises(OffsetGoneError, match="offset 0 of orders"):
        read(client, options, planned)
    told = replace(options, start_offset=0, topics=("orders",), on_gap=REPORT)
    rows, missing = read(client, told, plan(client, told))
    assert [row.offset for row in rows] == list(range(oldest, 400))
    assert missing == []


def test_a_disk_queue_is_refused_by_name(engine: RunningEngine, client: LogClient, options: ReadOptions) -> None:
    engine.http("POST", "/topic/create?topic=fifo&storage=diskqueue")
    with pytest.raises(NotALogTopicError, match="fifo has storage kind diskqueue"):
        plan(client, replace(options, topics=("fifo",)))


def test_an_engine_that_is_not_there_is_named() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # its port is no other program's meanwhile, and it does not listen
        port = nobody.getsockname()[1]
        client = LogClient(f"http://127.0.0.1:{port}")
        with client, pytest.raises(EngineUnreachableError, match=f":{port}/log/t"):
            client.topic("orders")
    with pytest.raises(EngineUnreachableError, match="is not an address"):
        LogClient("127.0.0.1:4151")


def test_the_token_is_sent_where_it_is_wanted(tmp_path: Path) -> None:
    with RunningEngine(tmp_path / "data", http_token="secret") as engine:
        with LogClient(url_of(engine), "secret") as client:
            client.write("orders", [b"one"], batch_key=b"0" * 16)
        with LogClient(url_of(engine)) as client, pytest.raises(EngineRefusedError, match="TOKEN_REQUIRED"):
            client.records("orders", 0)
        with LogClient(url_of(engine), "secret") as client:
            options = ReadOptions(url_of(engine), ("orders",))
            assert [row.body for row in read(client, options, plan(client, options))[0]] == [b"one"]


def test_whatever_jobs_do_they_do_with_the_token_and_nothing_without(tmp_path: Path) -> None:
    with RunningEngine(tmp_path / "data", http_token="secret") as engine, LogClient(url_of(engine), "secret") as client:
        client.create_topic("orders")
        written = client.write("orders", [b"one"], batch_key=b"0" * 16)
        lease = client.lease("orders", 0, ttl_ms=60_000)
        client.renew([lease.lease], ttl_ms=60_000)
        engine.http("POST", "/cursor/create?topic=orders&cursor=archive&start=start", token="secret")
        client.cursor_move("orders", "archive", number=written.number, offset=1)
        assert [cursor.offset for cursor in client.cursor_list()] == [1]
        assert client.records("orders", 0).count == 1
        with LogClient(url_of(engine)) as stranger:
            for refused in (
                lambda: stranger.create_topic("more"),
                lambda: stranger.write("orders", [b"two"], batch_key=b"1" * 16),
                lambda: stranger.lease("orders", 0, ttl_ms=60_000),
                lambda: stranger.renew([lease.lease], ttl_ms=60_000),
                lambda: stranger.release(lease.lease),
                lambda: stranger.cursor_move("orders", "archive", number=written.number, offset=1),
                lambda: stranger.cursor_list(),
            ):
                with pytest.raises(EngineRefusedError, match="TOKEN_REQUIRED"):
                    refused()
        assert [topic["depth"] for topic in engine.stats()["topics"]] == [1]
        client.release(lease.lease)


@pytest.mark.slow(reason="waits for the better part of a second")
def test_the_servers_own_samples_are_read_without_a_lease(tmp_path: Path) -> None:
    with RunningEngine(tmp_path / "data", samples_interval_ms=1_000) as engine, LogClient(url_of(engine)) as client:
        wait_for("a sample", lambda: client.topic(SAMPLES_TOPIC).synced_offset)
        options = ReadOptions(url_of(engine), (SAMPLES_TOPIC,))
        planned = plan(client, options)
        assert planned.leases == []
        rows, missing = read(client, options, planned)
        assert ([row.body[:4] for row in rows[:1]], missing) == ([b"PSMP"], [])


def test_a_connection_that_the_engine_closed_is_made_anew(tmp_path: Path) -> None:
    data, (port,) = tmp_path / "data", free_ports(1)
    with RunningEngine(data, http_address=f"127.0.0.1:{port}") as engine:
        publish(engine, "orders", [b"one"])
        client = LogClient(url_of(engine))
        assert client.topic("orders").end_offset == 1
    with RunningEngine(data, http_address=f"127.0.0.1:{port}"):
        assert client.topic("orders").end_offset == 1
    client.close()
