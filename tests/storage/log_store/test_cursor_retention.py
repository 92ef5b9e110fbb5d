"""What of the log is kept for pipeline cursors, and how it is given up when that becomes too much: told, and no more
than has to be."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from queue_engine.storage.fetch.log_reader import LogReader
from queue_engine.storage.log_store.cursor_retention import POSTPONED_TICKS
from queue_engine.storage.log_store.log_store import LogOpening
from queue_engine.storage.log_store.log_topic import TopicOpening
from queue_engine.storage.readers import cursors
from queue_engine.storage.readers.cursors import DELETED, LOST, RETENTION, TOPIC_DELETED, Cursor
from queue_engine.storage.readers.reader_registry import Maker
from tests.storage.log_store.test_hole_punching import SEGMENT_BYTES as PUNCHED_SEGMENT_BYTES
from tests.storage.log_store.test_hole_punching import SlowBeside
from tests.support.stores.log_store import Bench, everything, forget_batches

SEGMENT_BYTES = 1 << 16
LIMIT_BYTES = 150_000
BODY = b"x" * 1_000


class CursorBench(Bench):
    """A topic whose messages no channel needs, and the cursor `archive` from its first one on."""

    def __init__(self, path: Path, *, limit_bytes: int = LIMIT_BYTES) -> None:
        super().__init__(path, segment_bytes=SEGMENT_BYTES, pipeline_retention_bytes=limit_bytes)
        self.create()

    def create(self, offset: int = 0) -> None:
        topic = self.topic
        assert self.log.cursors.create(topic.name, topic.number, topic.id_base, "archive", offset).done

    def fill(self, count: int) -> None:
        for _ in range(count):
            self.publish(b"%d " % self.topic.end_offset + BODY)
        self.topic.empty()

    def tick(self) -> None:
        self.clock.advance(ms=1_100)
        self.log.tick(self.clock.monotonic_ns())

    def again(self) -> LogOpening:
        self.kill()
        opening = self.start(TopicOpening("t", 1, 1 << 40))
        self.topic = opening.topics[1]
        return opening

    @property
    def cursor(self) -> Cursor:
        cursor = self.log.cursors.get(1, "archive")
        assert cursor is not None
        return cursor

    def gaps(self) -> list[tuple[int, int, str]]:
        return [(one.first_offset, one.next_offset, one.reason) for one in self.cursor.gaps]

    def readable(self, offset: int) -> list[int]:
        page = LogReader(self.topic).page(offset, 1_000, 1 << 30)
        return [int(one.body.split()[0]) for one in page.messages]

    def all_kept_bytes(self) -> list[int]:
        """What the log holds from the record of each offset on, by the log's own word."""
        records = [self.topic.confirmed_record(offset) for offset in range(self.topic.end_offset)]
        return [self.log.bytes_from(record[0]) for record in records if record is not None]


@pytest.fixture
def bench(tmp_path: Path) -> CursorBench:
    return CursorBench(tmp_path, limit_bytes=0)


@pytest.fixture
def limited(tmp_path: Path) -> CursorBench:
    return CursorBench(tmp_path)


def test_the_log_keeps_what_a_cursor_has_not_passed_and_nothing_more(bench: CursorBench) -> None:
    bench.fill(300)
    bench.tick()
    assert bench.topic.oldest_offset == 0
    assert bench.readable(0) == list(range(300))
    bench.log.cursors.move(bench.cursor, 150)
    bench.tick()
    assert 64 < bench.topic.oldest_offset <= 150
    assert bench.readable(150) == list(range(150, 300))
    bench.log.cursors.delete(bench.cursor, bench.topic.end_offset)
    bench.tick()
    assert bench.topic.oldest_offset > 150


def test_a_cursor_keeps_what_it_needs_over_a_kill(bench: CursorBench) -> None:
    bench.fill(200)
    bench.log.cursors.move(bench.cursor, 70)
    bench.again()
    bench.topic.empty()
    bench.tick()
    assert bench.cursor.offset == 70
    assert bench.readable(70) == list(range(70, 200))


def test_a_deleted_topic_takes_its_cursors_along(bench: CursorBench) -> None:
    bench.fill(200)
    bench.log.cursors.move(bench.cursor, 70)
    bench.topic.delete()
    (ended,) = bench.log.cursors.ended
    assert (ended.cursor.topic, ended.cursor.topic_number, ended.cursor.offset) == ("t", 1, 70)
    assert (ended.next_offset, ended.reason) == (200, TOPIC_DELETED)
    bench.tick()
    assert len(bench.log.segments.list) <= 2, "what is written to, and what is made ahead"


def test_beyond_its_limit_it_gives_up_the_oldest_and_no_more_than_has_to_be(limited: CursorBench) -> None:
    limited.fill(110)
    limited.tick()
    assert limited.gaps() == []
    limited.fill(190)
    kept = limited.all_kept_bytes()
    assert kept[0] > LIMIT_BYTES
    limited.tick()
    offset = limited.cursor.offset
    assert limited.gaps() == [(0, offset, RETENTION)]
    assert kept[offset] <= LIMIT_BYTES < kept[offset - 1]
    assert limited.readable(offset) == list(range(offset, 300))
    assert 0 < limited.topic.oldest_offset <= offset, "and its segments go"
    limited.fill(30)
    limited.tick()
    assert limited.gaps() == [(0, limited.cursor.offset, RETENTION)]
    assert limited.cursor.offset > offset
    gaps = limited.gaps()
    limited.again()
    assert limited.gaps() == gaps


def test_one_message_is_given_up_when_that_is_enough(limited: CursorBench) -> None:
    while not limited.gaps():
        limited.fill(1)
        limited.tick()
    assert limited.gaps() == [(0, 1, RETENTION)]


def test_records_of_many_messages_are_given_up_whole(limited: CursorBench) -> None:
    for _ in range(60):
        limited.publish(*[b"0 " + BODY] * 7)
    limited.topic.empty()
    kept = limited.all_kept_bytes()
    limited.tick()
    ((_, offset, _),) = limited.gaps()
    assert offset % 7 == 0
    assert kept[offset] <= LIMIT_BYTES < kept[offset - 1]


def test_other_topics_messages_count_since_their_blocks_are_kept_too(tmp_path: Path) -> None:
    bench = CursorBench(tmp_path)
    other = bench.open_topic("other", 2)
    bench.fill(10)
    for _ in range(300):
        bench.publish(BODY, topic=other)
    bench.fill(2)
    bench.tick()
    assert bench.gaps() == [(0, 10, RETENTION)]


def test_what_it_kept_is_given_up_only_once_that_is_told_on_the_disk(limited: CursorBench) -> None:
    limited.fill(300)
    limited.files.fail("rename", count=100)
    limited.tick()
    assert limited.gaps() != []
    assert limited.topic.oldest_offset == 0
    assert limited.log.error is not None
    limited.again()
    assert limited.cursor.offset == 0
    assert limited.gaps() == []
    assert limited.readable(0) == list(range(300))


@pytest.mark.parametrize("unit", [bytes(20), b"\0\0\0\0\x7f" + bytes(3) + b"\0\0\1\0" + bytes(8)])
def test_a_wrong_unit_makes_nothing_be_given_up_that_fits(tmp_path: Path, unit: bytes) -> None:
    bench = CursorBench(tmp_path)
    bench.fill(100)
    for offset in (0, 1, 50):
        bench.write_unit(offset, unit)
    bench.tick()
    assert bench.gaps() == []
    bench.fill(200)
    kept = bench.all_kept_bytes()
    for offset in (75, 150, 155, 160, 180, 225):
        bench.write_unit(offset, unit)
    bench.tick()
    ((_, offset, _),) = bench.gaps()
    assert kept[offset] <= LIMIT_BYTES < kept[offset - 1]
    assert bench.readable(offset) == list(range(offset, 300))


@contextmanager
def damaged_header(bench: CursorBench, offset: int) -> Iterator[None]:
    """The record of an offset has neither a header nor a trailer that holds, for a while."""
    place = bench.topic.queue.locate(offset)
    assert place is not None
    segment = bench.log.segments.segment_of(place[0])
    assert segment is not None
    at = place[0] - segment.position
    fd = os.open(segment.path, os.O_RDWR)
    try:
        record = os.pread(fd, place[1], at)
        os.pwrite(fd, bytes(16), at)
        os.pwrite(fd, bytes(16), at + place[1] - 16)
        yield
        os.pwrite(fd, record, at)
    finally:
        os.close(fd)


def test_while_its_place_can_not_be_told_nothing_is_given_up(
    limited: CursorBench, caplog: pytest.LogCaptureFixture
) -> None:
    limited.fill(300)
    with damaged_header(limited, 0):
        limited.tick()
        limited.tick()
        assert (limited.cursor.offset, limited.topic.oldest_offset) == (0, 0)
        told = [one.getMessage() for one in caplog.records if "not moved" in one.getMessage()]
        assert told == [
            "cursor beyond its limit not moved topic=t cursor=archive why=the record of offset 0 is not found"
        ]
    for _ in range(POSTPONED_TICKS):
        limited.tick()
    assert limited.cursor.offset > 0


def test_what_once_could_not_be_told_and_fits_is_not_given_up(limited: CursorBench) -> None:
    limited.log.cursors.create("t", 1, 1 << 40, "other", 0)  # keeps the beginning where a wrong unit leads to
    limited.fill(100)
    limited.log.cursors.move(limited.cursor, 100)
    limited.fill(100)
    with damaged_header(limited, 100):
        limited.write_unit(100, limited.write_unit(0, bytes(20)))
        limited.log.cursors.move(limited.cursor, 100)
        assert limited.topic.cursor_lag_bytes(limited.cursor) > LIMIT_BYTES
        limited.tick()
    for _ in range(POSTPONED_TICKS):
        limited.tick()
    assert limited.gaps() == []


def test_what_could_not_be_written_is_refused_and_the_next_tick_mends_the_error(bench: CursorBench) -> None:
    bench.fill(10)
    bench.files.fail("rename")
    assert bench.log.cursors.move(bench.cursor, 7).error
    assert bench.log.error is not None
    bench.tick()
    assert bench.log.error is None
    bench.again()
    assert bench.cursor.offset == 0, "what was refused is not so"


def test_it_is_warned_of_once_before(limited: CursorBench, caplog: pytest.LogCaptureFixture) -> None:
    def warnings() -> int:
        return sum("cursor keeps much of the log" in one.getMessage() for one in caplog.records)

    caplog.set_level(logging.WARNING)
    limited.fill(90)
    limited.tick()
    assert warnings() == 0
    limited.fill(15)
    lag_bytes = limited.topic.cursor_lag_bytes(limited.cursor)
    assert LIMIT_BYTES * 0.8 < lag_bytes < LIMIT_BYTES
    assert limited.log.cursors.is_warned(limited.cursor, lag_bytes)
    assert not limited.log.cursors.is_warned(limited.cursor, LIMIT_BYTES * 8 // 10)
    for _ in range(3):
        limited.tick()
    assert warnings() == 1
    limited.log.cursors.move(limited.cursor, 95)
    limited.tick()
    limited.fill(95)
    limited.tick()
    assert warnings() == 2, "it was far from it in between"
    assert limited.gaps() == []


def test_without_a_limit_nothing_is_given_up_and_nothing_said(
    bench: CursorBench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.fill(400)
    bench.tick()
    assert bench.gaps() == []
    assert not bench.log.cursors.is_warned(bench.cursor, 1 << 60)
    assert caplog.records == []


def test_what_is_not_in_the_log_any_more_at_a_start_is_a_gap(bench: CursorBench) -> None:
    bench.fill(300)
    first = bench.log.segments.list[0]
    bench.kill()
    os.unlink(first.path)
    opening = bench.again()
    oldest = opening.topics[1].oldest_offset
    assert oldest > 0
    assert bench.gaps() == [(0, oldest, LOST)]


def test_a_damaged_file_is_told_by_the_start(bench: CursorBench) -> None:
    bench.kill()
    path = bench.path / "log" / "cursors.json"
    path.write_bytes(path.read_bytes().replace(b'"version":2', b'"version":9'))
    opening = bench.again()
    assert opening.damaged_cursors == str(path)
    assert bench.log.cursors.all() == []


def test_a_clean_stop_writes_what_could_not_be_written(bench: CursorBench) -> None:
    bench.fill(10)
    bench.files.fail("rename")
    bench.log.cursors.give_up(bench.cursor, 7, LOST)
    assert bench.log.cursors.error
    bench.log.close()
    bench.again()
    assert bench.cursor.offset == 7


def test_holes_are_made_around_what_a_cursor_needs_and_not_in_it(tmp_path: Path) -> None:
    beside = SlowBeside(tmp_path)
    assert len(beside.slow_bodies()) == 3
    topic = beside.topic
    beside.log.cursors.create(topic.name, topic.number, topic.id_base, "archive", 0)
    beside.look()
    stats = beside.log.stats()
    assert stats.hole_bytes > PUNCHED_SEGMENT_BYTES, "of what the busy topic's channel has finished"
    forget_batches(beside.log.batches)
    page = LogReader(topic).page(0, 10, 1 << 20)
    assert [one.body for one in page.messages] == [b"slow 40", b"slow 80", b"slow 400"]
    cursor = beside.log.cursors.get(1, "archive")
    assert cursor is not None
    assert topic.cursor_lag_bytes(cursor) <= stats.bytes
    beside.log.cursors.move(cursor, 2)
    beside.look()
    assert [one.body for one in LogReader(topic).page(2, 10, 1 << 20).messages] == [b"slow 400"]
    beside.log.cursors.delete(beside.log.cursors.all()[0], 3)
    beside.look()
    assert topic.oldest_offset == 3
    assert list(everything(beside.slow_channel)) == []


def test_a_cursor_of_everything_keeps_segments_whole(tmp_path: Path) -> None:
    beside = SlowBeside(tmp_path)
    beside.log.cursors.create("busy", 2, 2 << 40, "archive", 0)
    beside.look()
    beside.look()
    assert LogReader(beside.busy).page(0, 1_000, 1 << 30).next_offset == 900
    found = LogReader(beside.busy).page(0, 1_000, 1 << 30).messages
    assert len(found) == 900
    ended = beside.log.cursors.get(2, "archive")
    assert ended is not None
    beside.log.cursors.delete(ended, 900)
    assert beside.log.cursors.ended[0].reason == DELETED
    beside.look()
    assert beside.log.stats().hole_bytes > 0


def test_a_cursor_of_a_token_to_consume_is_moved_on_sooner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursors, "CONSUMER_CURSOR_BYTES", LIMIT_BYTES)
    bench = CursorBench(tmp_path, limit_bytes=0)
    maker, topic = Maker("token copier", is_limited=True), bench.topic
    assert bench.log.cursors.create(topic.name, topic.number, topic.id_base, "copy", 0, maker).done
    bench.fill(300)
    bench.tick()
    assert bench.cursor.offset == 0, "without --pipeline-retention-bytes the archive has no limit"
    copy = bench.log.cursors.get(1, "copy")
    assert copy is not None
    assert [gap.reason for gap in copy.gaps] == [RETENTION]
    assert topic.cursor_lag_bytes(copy) <= LIMIT_BYTES
