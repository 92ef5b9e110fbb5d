"""What a complete segment gives back to the disk while few of its messages are needed, and what a start makes of it."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from queue_engine.storage.commit_log.holes import decode_holes, encode_holes, whole_blocks
from queue_engine.storage.log_store.log_store import LogOpening
from queue_engine.storage.log_store.log_topic import TopicOpening
from queue_engine.storage.readers.leases import LEASES_NAME
from tests.support.stores.log_store import Bench, bodies, everything, take

FIXTURE = Path(__file__).parent.parent / "fixtures" / "holes_v1.json"
OLDEST = {7: 1_200, 9: 3}
SEGMENTS = {0: [(64, 40_000), (45_000, 65_000)], 65_536: [(65_600, 131_000)]}

SEGMENT_BYTES = 1 << 18
BODY = b"x" * 1_000
SLOW, BUSY = 1, 2  # channel numbers


class SlowBeside(Bench):
    """A slow channel of topic `t` beside a topic whose messages are consumed at once, over three segments and more."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, segment_bytes=SEGMENT_BYTES)
        self.busy = self.open_topic("busy", 2)
        self.slow_channel = self.topic.open_channel("slow")
        self.busy_channel = self.busy.open_channel("busy")
        for number in range(900):
            self.publish(b"%d" % number + BODY, topic=self.busy)
            if number in (40, 80, 400):
                self.publish(b"slow %d" % number)
        assert len(list(everything(self.busy_channel, 500))) == 900
        self.log.end_turn()

    def look(self) -> None:
        """The clock comes to the puncher's next look, and to the merges of the journal before it."""
        for _ in range(2):
            self.clock.advance(ms=61_000)
            self.log.tick(self.clock.monotonic_ns())

    def again(self, *, clean: bool = False) -> LogOpening:
        """The process ends, one way or the other, and another begins."""
        if clean:
            self.log.close()
        self.kill()
        opening = self.start(
            TopicOpening("t", 1, 1 << 40, 0, None, {SLOW: 0}, {"slow": 0}),
            TopicOpening("busy", 2, 2 << 40, 0, None, {BUSY: 0}, {"busy": 0}),
        )
        self.topic, self.busy = opening.topics[1], opening.topics[2]
        self.slow_channel = self.topic.open_channel("slow", SLOW)
        self.busy_channel = self.busy.open_channel("busy", BUSY)
        return opening

    def allocated_bytes(self, index: int) -> int:
        return os.stat(self.log.segments.list[index].path).st_blocks * 512

    def slow_bodies(self) -> list[bytes]:
        return list(everything(self.slow_channel))


@pytest.fixture
def beside(tmp_path: Path) -> SlowBeside:
    return SlowBeside(tmp_path)


def test_a_segment_kept_for_few_messages_gives_its_other_blocks_back(beside: SlowBeside) -> None:
    before, size_before = [beside.allocated_bytes(index) for index in range(3)], beside.log.stats().bytes
    kept_before = beside.topic.disk_bytes()
    assert min(before) > SEGMENT_BYTES * 0.9
    beside.look()
    after = [beside.allocated_bytes(index) for index in range(3)]
    assert max(after[:2]) < 24_000, "few blocks around the three messages"
    stats = beside.log.stats()
    assert stats.hole_bytes >= sum(before) - sum(after) - 3 * 4_096
    assert stats.bytes == size_before - stats.hole_bytes
    given_back = kept_before - beside.topic.disk_bytes()
    assert stats.hole_bytes * 0.9 < given_back < stats.hole_bytes, "all but what lay before its first message"
    sizes = [os.path.getsize(one.path) for one in beside.log.segments.list]
    assert sizes[0] > SEGMENT_BYTES - 2_000, "positions stay"
    assert beside.slow_bodies() == [b"slow 40", b"slow 80", b"slow 400"]


@pytest.mark.parametrize("ending", ["clean", "killed", "derived files gone"])
def test_a_start_passes_over_holes(beside: SlowBeside, ending: str) -> None:
    beside.look()
    holes = beside.log.stats().hole_bytes
    if ending == "derived files gone":
        beside.kill()
        (beside.path / "log" / "checkpoint").unlink()
        shutil.rmtree(beside.path / "log" / "queues")
    opening = beside.again(clean=ending == "clean")
    assert opening.log.damages == []
    assert (beside.busy_channel.depth, beside.slow_channel.depth) == (0, 3)
    assert beside.log.stats().hole_bytes == holes
    beside.publish(b"next", topic=beside.busy)
    assert bodies(take(beside.busy_channel)) == [b"next"]
    assert beside.slow_bodies() == [b"slow 40", b"slow 80", b"slow 400"]


def test_what_is_gone_is_not_offered_to_readers_and_to_channels_that_go_back(beside: SlowBeside) -> None:
    beside.look()
    oldest = beside.busy.oldest_offset
    assert oldest > 400
    for _ in range(2):
        beside.busy_channel.seek(0)
        beside.log.end_turn()
        again = list(everything(beside.busy_channel, 500))
        assert again[0] == b"%d" % oldest + BODY
        assert len(again) == 900 - oldest
        beside.again()


def test_a_process_that_ends_between_naming_and_giving_back_starts_the_same(beside: SlowBeside) -> None:
    beside.files.fail("punch_hole", errno.EIO)
    beside.look()
    assert beside.allocated_bytes(0) > SEGMENT_BYTES * 0.9
    opening = beside.again()
    assert opening.log.damages == []
    assert beside.slow_bodies() == [b"slow 40", b"slow 80", b"slow 400"]


def test_nothing_is_given_back_when_that_can_not_be_named(beside: SlowBeside) -> None:
    beside.files.fail("rename", errno.EIO, count=100)
    beside.look()
    assert beside.files.calls.count("punch_hole") == 0
    assert beside.log.stats().hole_bytes == 0
    beside.files.heal()
    beside.look()
    assert beside.allocated_bytes(0) < 24_000


def test_a_damaged_file_of_holes_is_told_and_costs_no_message_that_is_needed(beside: SlowBeside) -> None:
    beside.look()
    beside.kill()
    path = beside.path / "log" / "holes.json"
    path.write_bytes(path.read_bytes().replace(b'"version":1', b'"version":9'))
    (beside.path / "log" / "checkpoint").unlink()
    opening = beside.again()
    assert "no message lost; it is set aside" in opening.log.damages[-1].sentence()
    lost = [one for damage in opening.log.damages for one in damage.losses]
    assert {one.topic_number for one in lost} == {beside.busy.number}
    assert beside.slow_bodies() == [b"slow 40", b"slow 80", b"slow 400"]
    assert beside.busy_channel.depth == 0


def test_segments_that_a_reader_has_a_lease_on_stay_whole(beside: SlowBeside) -> None:
    beside.log.leases.take("reader", 2, 0, 10_000_000)
    beside.look()
    assert beside.log.stats().hole_bytes == 0
    beside.log.leases.release("reader")
    beside.look()
    assert beside.log.stats().hole_bytes > 0


def test_segments_stay_whole_while_the_file_of_holds_names_a_lease_on_them(beside: SlowBeside) -> None:
    beside.log.leases.take("reader", 1, 0, 10_000_000)
    in_the_way = beside.path / "log" / LEASES_NAME
    in_the_way.unlink()
    in_the_way.mkdir()  # the file can't be replaced
    beside.log.leases.take("reader", 1, beside.topic.end_offset, 10_000_000)
    beside.look()
    assert beside.log.stats().hole_bytes == 0, "after a kill the reader would go on at 0"
    assert "holds.json can't be written" in str(beside.log.error)
    in_the_way.rmdir()
    # What was refused is not in force: the reader moves once more.
    beside.log.leases.take("reader", 1, beside.topic.end_offset, 10_000_000)
    beside.look()
    assert beside.log.stats().hole_bytes > 0
    assert beside.log.error is None


def test_a_lease_on_a_deleted_topic_keeps_no_segment_whole(beside: SlowBeside) -> None:
    beside.log.leases.take("reader", 2, 0, 10_000_000)
    in_the_way = beside.path / "log" / LEASES_NAME
    in_the_way.unlink()
    in_the_way.mkdir()  # the file can't be replaced
    beside.busy.delete()
    beside.look()
    assert beside.log.stats().hole_bytes > 0


def test_segments_of_many_needed_messages_and_new_ones_stay_whole(tmp_path: Path) -> None:
    bench = Bench(tmp_path, segment_bytes=SEGMENT_BYTES)
    bench.topic.open_channel("slow")
    for number in range(700):
        bench.publish(*[b"%d" % number * 10] * 10)
    bench.clock.advance(ms=100_000)
    bench.log.tick(bench.clock.monotonic_ns())
    assert "punch_hole" not in bench.files.calls


@pytest.mark.parametrize("unit", [bytes(20), b"\0\0\0\0\x7f" + bytes(3) + b"\0\0\1\0" + bytes(8)])
@pytest.mark.parametrize("offset", [0, 1, 2])
def test_a_wrong_unit_gives_nothing_back_that_is_needed(beside: SlowBeside, offset: int, unit: bytes) -> None:
    beside.write_unit(offset, unit)
    for _ in range(4):
        beside.look()
    assert beside.slow_bodies() == [b"slow 40", b"slow 80", b"slow 400"]


def test_what_is_kept_for_a_topic_is_never_more_than_the_log_holds(beside: SlowBeside) -> None:
    for _ in range(3):
        # Each start that finds the log unclosed leaves the rest of a segment unused.
        beside.publish(b"more")
        beside.again()
        beside.look()
        total = beside.log.stats().bytes
        kept = beside.topic.disk_bytes()
        assert kept == beside.slow_channel.disk_bytes()
        assert 0 < kept <= total
        assert total <= sum(os.path.getsize(one.path) for one in beside.log.segments.list)
    assert kept < beside.log.log.visible_end - beside.topic.needed_position(1 << 40) - SEGMENT_BYTES


def test_a_hole_ends_with_its_segment(beside: SlowBeside) -> None:
    beside.look()
    assert beside.log.stats().hole_bytes > 0
    assert len(beside.slow_bodies()) == 3
    beside.look()
    assert beside.log.stats().hole_bytes == 0
    beside.again()
    assert beside.log.stats().hole_bytes == 0


def test_whole_blocks_lie_between_the_bytes() -> None:
    assert whole_blocks(0, 4_096) == (0, 4_096)
    assert whole_blocks(1, 8_192) == (4_096, 4_096)
    assert whole_blocks(1, 8_191) == (4_096, 0)
    assert whole_blocks(5_000, 5_100) == (8_192, 0)


def test_the_file_of_version_1_is_read_for_ever() -> None:
    assert FIXTURE.read_bytes() == encode_holes(OLDEST, SEGMENTS)
    assert decode_holes(FIXTURE.read_bytes()) == (OLDEST, SEGMENTS)


def test_any_altered_byte_is_noticed() -> None:
    data = FIXTURE.read_bytes()
    for index in range(len(data)):
        altered = data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :]
        assert decode_holes(altered) is None, index
    assert decode_holes(b"") is None
