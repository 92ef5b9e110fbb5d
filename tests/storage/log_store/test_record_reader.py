"""Records as the log has them: what readers that decode them themselves get, and what is left out."""

import struct
from pathlib import Path

import pytest

from queue_engine.storage.commit_log.options import SyncPolicy
from queue_engine.storage.fetch import record_reader
from queue_engine.storage.fetch.record_reader import RecordReader, Records
from queue_engine.storage.log_store.log_topic import TopicOpening
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from tests.storage.log_store.test_hole_punching import SlowBeside
from tests.support.stores.log_store import WRONG_UNITS, Bench, records_in

EVERYTHING = 1 << 30


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path, SyncPolicy.ALWAYS, segment_bytes=4_096)
    return bench


def publish(bench: Bench, *bodies: bytes, topic: LogTopicStore | None = None) -> None:
    bench.publish(*bodies, topic=topic)
    bench.sync.finish()


def read(topic: LogTopicStore, offset: int, bytes_max: int = EVERYTHING) -> Records:
    return RecordReader(topic).read(offset, bytes_max)


def messages(data: bytes) -> list[tuple[int, bytes]]:
    return [
        (record.header.first_offset + index, record.body_at(index))
        for record in records_in(data)
        for index in range(record.header.count)
    ]


@pytest.mark.parametrize("bytes_max", [1, 700, EVERYTHING])
@pytest.mark.parametrize("window_bytes", [1, 1 << 20])
def test_all_of_interleaved_topics_comes_as_it_was_published(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, bytes_max: int, window_bytes: int
) -> None:
    monkeypatch.setattr(record_reader, "_WINDOW_BYTES_FIRST", window_bytes)
    topics = [bench.topic, bench.open_topic("u", 2), bench.open_topic("v", 3)]
    sent: dict[int, list[bytes]] = {1: [], 2: [], 3: []}
    for number in range(150):
        topic = topics[(0, 1, 2, 0, 0, 1)[number % 6] if number < 100 else 0]
        some = [b"%d-%d" % (number, index) * (number % 40) for index in range(number % 4 + 1)]
        sent[topic.number] += some
        publish(bench, *some, topic=topic)
        if number % 50 == 20:
            topic.queue.flush()
    assert len(bench.log.segments.list) > 5
    for topic in topics:
        got, at, answers = [], 0, 0
        while at < topic.end_offset:
            answer = read(topic, at, bytes_max)
            assert answer.count > 0
            assert answer.first_offset == at
            assert answer.count == 1 or len(answer.records) <= bytes_max
            assert answer.synced_offset == topic.end_offset
            for record in records_in(answer.records):
                place = topic.queue.locate(record.header.first_offset)
                assert place == (record.position, record.header.size)
            got += messages(answer.records)
            at, answers = answer.next_offset, answers + 1
        assert got == list(enumerate(sent[topic.number]))
        assert (answers == 1) == (bytes_max == EVERYTHING)


def test_the_bytes_are_those_of_the_file(bench: Bench) -> None:
    publish(bench, b"a" * 100, b"b" * 50)
    publish(bench, b"c")
    answer = read(bench.topic, 0)
    position, _, size = struct.unpack_from(">QQI", answer.records)
    segment = bench.log.segments.list[0]
    assert answer.records[20 : 20 + size] == Path(segment.path).read_bytes()[position : position + size]
    assert (answer.topic_number, answer.id_base, answer.count, answer.next_offset) == (1, 1 << 40, 2, 3)


def test_the_first_record_may_begin_before_the_offset_asked_for(bench: Bench) -> None:
    publish(bench, b"a", b"b", b"c")
    publish(bench, b"d")
    answer = read(bench.topic, 2)
    assert (answer.first_offset, answer.next_offset, answer.count) == (2, 4, 2)
    assert messages(answer.records)[0] == (0, b"a")
    assert read(bench.topic, 4).records == b""


def test_an_answer_is_of_so_many_records_at_most(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_reader, "RECORDS_MAX", 2)
    for body in (b"a", b"b", b"c"):
        publish(bench, body)
    assert messages(read(bench.topic, 0).records) == [(0, b"a"), (1, b"b")]
    assert read(bench.topic, 0).next_offset == 2


@pytest.mark.parametrize("policy", [SyncPolicy.OS, SyncPolicy.INTERVAL])
def test_nothing_is_read_before_it_is_synced(tmp_path: Path, policy: SyncPolicy) -> None:
    bench = Bench(tmp_path, policy)
    bench.publish(b"a", b"b")
    bench.publish(b"c")
    bench.topic.queue.flush()
    answer = read(bench.topic, 0)
    assert (answer.count, answer.records, answer.next_offset, answer.synced_offset) == (0, b"", 0, 0)
    if policy is SyncPolicy.INTERVAL:
        bench.clock.advance(ms=2_000)
        bench.log.tick(bench.clock.monotonic_ns())
        bench.publish(b"d")
        answer = read(bench.topic, 1)
        assert messages(answer.records) == [(0, b"a"), (1, b"b"), (2, b"c")]
        assert (answer.next_offset, answer.synced_offset) == (3, 3)


def test_offsets_that_were_never_given_are_passed_over(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.publish(b"a")
    bench.restart({}, reserved=1_000)
    bench.publish(b"b")
    bench.log.close()
    bench.kill()
    bench.topic = bench.start(TopicOpening("t", 1, 1 << 40)).topics[1]
    for offset in (0, 1, 500, 1_000):
        got = messages(read(bench.topic, offset).records)
        assert got == [(0, b"a"), (1_000, b"b")][bool(offset) :]
        assert read(bench.topic, offset).next_offset == 1_001
    reads = bench.files.calls.count("read")
    read(bench.topic, 0)
    assert bench.files.calls.count("read") - reads < 20, "a gap is not searched for offsets"


def test_what_holes_took_is_not_there_and_the_rest_is(tmp_path: Path) -> None:
    beside = SlowBeside(tmp_path)
    beside.look()
    beside.log.close()
    beside.again()
    oldest = beside.busy.oldest_offset
    assert oldest > 400
    answer = read(beside.busy, 0)
    assert (answer.oldest_offset, answer.first_offset) == (oldest, oldest)
    assert [offset for offset, _ in messages(answer.records)] == list(range(oldest, 900))
    assert [body for _, body in messages(read(beside.topic, 0).records)] == [b"slow 40", b"slow 80", b"slow 400"]


@pytest.mark.parametrize("unit", WRONG_UNITS)
def test_a_wrong_unit_costs_no_record(bench: Bench, unit: bytes) -> None:
    other = bench.open_topic("other", 2)
    for number in range(30):
        publish(bench, b"%d" % number)
        publish(bench, b"of another", topic=other)
    bench.forget()
    for offset in (0, 12, 13, 28):
        bench.write_unit(offset, unit)
    assert messages(read(bench.topic, 0).records) == [(number, b"%d" % number) for number in range(30)]


def test_a_unit_that_leads_to_another_topics_record_costs_none(bench: Bench) -> None:
    other = bench.open_topic("other", 2)
    for number in range(5):
        publish(bench, b"%d" % number)
        publish(bench, b"of another", topic=other)
    bench.forget()
    bench.write_unit(2, struct.pack(">QIQ", *(other.queue.locate(2) or (0, 0)), 0))
    assert messages(read(bench.topic, 0).records) == [(number, b"%d" % number) for number in range(5)]


def damage(bench: Bench, offset: int, start: int, size: int) -> None:
    """Zeros over `size` bytes of a record, from `start` on."""
    position, _ = bench.topic.queue.locate(offset) or (0, 0)
    path = Path(bench.log.segments.list[0].path)
    data = bytearray(path.read_bytes())
    data[position + start : position + start + size] = bytes(size)
    path.write_bytes(data)


def test_a_damaged_record_is_handed_out_as_it_is(bench: Bench) -> None:
    for one in (b"before", b"damaged", b"after"):
        publish(bench, one, one)
    damage(bench, 2, 0, 80)  # its header; the trailer tells the same
    damage(bench, 2, 80 + 16 + 34 + 2, 3)  # the first body
    answer = read(bench.topic, 0)
    assert [record.damaged for record in records_in(answer.records)] == [frozenset(), frozenset([0]), frozenset()]
    assert [body for _, body in messages(answer.records)][3:] == [b"damaged", b"after", b"after"]


def test_a_record_that_is_lost_altogether_is_left_out(bench: Bench) -> None:
    for one in (b"before", b"lost", b"after"):
        publish(bench, one, one)
    bench.forget()
    damage(bench, 2, 0, (bench.topic.queue.locate(2) or (0, 0))[1])
    answer = read(bench.topic, 0)
    assert messages(answer.records) == [(0, b"before"), (1, b"before"), (4, b"after"), (5, b"after")]
    assert (answer.count, answer.next_offset) == (2, 6)
