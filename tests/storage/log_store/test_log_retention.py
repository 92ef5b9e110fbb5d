"""The log store's space: what counts as its own, which segments stay, and which go."""

import errno
from pathlib import Path

import pytest

from tests.support.stores.log_store import Bench, everything, forget_batches, take


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_disk_bytes_are_the_part_of_the_log_that_is_needed(bench: Bench) -> None:
    first, second = bench.topic.open_channel("first", 7), bench.topic.open_channel("second", 8)
    other = bench.open_topic("other", 2)
    bench.publish(b"x" * 1_000)
    bench.publish(b"y" * 1_000, topic=other)
    bench.publish(b"z" * 1_000)
    all_of_it = first.disk_bytes()
    assert 3_000 < all_of_it < 4_000
    assert bench.topic.disk_bytes() == second.disk_bytes() == all_of_it
    assert 2_000 < other.disk_bytes() < all_of_it
    take_one = take(first, 1)
    first.settle(take_one.ids)
    assert 1_000 < first.disk_bytes() < 2_000, "what lies between belongs to another topic"
    assert bench.topic.disk_bytes() == second.disk_bytes() == all_of_it
    list(everything(first))
    assert (first.disk_bytes(), bench.topic.disk_bytes()) == (0, all_of_it)
    list(everything(second))
    assert (second.disk_bytes(), bench.topic.disk_bytes()) == (0, 0)
    bench.log.leases.take("reader", 1, 1, 60_000)
    assert 1_000 < bench.topic.disk_bytes() < 2_000
    assert bench.topic.open_channel("brief#ephemeral").disk_bytes() == 0


def test_until_its_file_says_so_a_lease_keeps_what_it_kept_before_it_was_moved(tmp_path: Path) -> None:
    bench = Bench(tmp_path, segment_bytes=4_096)
    bench.log.leases.take("reader", 1, 0, 60_000)
    for number in range(50):
        bench.publish(b"%d" % number * 100)
    bench.topic.empty()
    bench.files.fail("rename", errno.ENOSPC, count=100)
    lease, ticket = bench.log.leases.take("reader", 1, bench.topic.end_offset, 60_000)
    assert (lease.offset, ticket.error is not None) == (50, True)
    assert bench.log.retention.remove_unneeded() == 0
    bench.files.heal()
    bench.log.leases.take("reader", 1, bench.topic.end_offset, 60_000)
    assert bench.log.retention.remove_unneeded() > 3


def test_what_is_finished_is_kept_for_as_long_as_it_shall_be(tmp_path: Path) -> None:
    bench = Bench(tmp_path, segment_bytes=4_096, retention_ms=10_000)
    channel = bench.topic.open_channel("c", 7)
    for number in range(50):
        bench.publish(b"%d" % number * 100)
    list(everything(channel))
    bench.clock.advance(ms=10_000)
    assert bench.log.retention.remove_unneeded() == 0
    channel.seek(0)
    assert channel.depth == 50
    list(everything(channel))
    bench.clock.advance(ms=1)
    assert bench.log.retention.remove_unneeded() > 3
    assert bench.topic.oldest_offset > 0


@pytest.mark.parametrize("when", ["while it runs", "before a start"])
def test_a_clock_far_ahead_removes_nothing_by_its_age_until_it_has_said_so_for_an_hour(
    tmp_path: Path, when: str
) -> None:
    bench = Bench(tmp_path, segment_bytes=4_096, retention_ms=100_000_000)
    channel = bench.topic.open_channel("c", 7)
    for number in range(50):
        bench.publish(b"%d" % number * 100)
    list(everything(channel))

    def tick() -> None:
        bench.log.retention.tick(bench.clock.monotonic_ns())

    tick()
    if when == "while it runs":
        bench.clock.set_back(ms=-200_000_000)
    else:
        bench.clock.set_back(ms=-200_000_000)
        bench.restart({7: 0})
    for _ in range(59):
        tick()
        bench.clock.advance(ms=60_000)
    assert bench.topic.oldest_offset == 0
    bench.clock.set_back(ms=200_000_000)
    tick()
    bench.clock.set_back(ms=-200_000_000)
    tick()
    bench.clock.advance(ms=3_599_999)
    tick()
    assert bench.topic.oldest_offset == 0
    bench.clock.advance(ms=1)
    tick()
    assert bench.topic.oldest_offset > 0


HOUR_MS = 3_600_000


class Ahead:
    """A log whose messages are all finished and younger than its retention, and whose clock then leaps by two days."""

    def __init__(self, path: Path) -> None:
        self.bench = Bench(path, segment_bytes=4_096, retention_ms=100_000_000)
        channel = self.bench.topic.open_channel("c", 7)
        for number in range(50):
            self.bench.publish(b"%d" % number * 100)
        list(everything(channel))
        assert self.tick() == 0
        self.leap(48 * HOUR_MS)
        assert self.tick() == 0

    def leap(self, ms: int) -> None:
        self.bench.clock.set_back(ms=-ms)

    def tick(self, *, after_ms: int = 0) -> int:
        """Returns the oldest offset that there is then."""
        self.bench.clock.advance(ms=after_ms)
        self.bench.log.retention.tick(self.bench.clock.monotonic_ns())
        return self.bench.topic.oldest_offset


def test_a_clock_far_ahead_is_not_believed_after_a_restart_though_messages_have_its_time(tmp_path: Path) -> None:
    ahead = Ahead(tmp_path)
    ahead.bench.publish(b"published while the clock is ahead")
    for _ in range(3):
        ahead.bench.restart({7: 0})
        assert ahead.tick(after_ms=10 * 60_000) == 0
    assert ahead.tick(after_ms=30 * 60_000 - 1) == 0
    assert ahead.tick(after_ms=1) > 0
    assert not (tmp_path / "log" / "clock.json").exists()


def test_a_clock_that_is_set_right_again_is_believed_after_a_restart(tmp_path: Path) -> None:
    ahead = Ahead(tmp_path)
    ahead.bench.restart({7: 0})
    ahead.leap(-48 * HOUR_MS)
    assert ahead.tick() == 0
    assert not (tmp_path / "log" / "clock.json").exists()
    # As old as the retention says, by a clock that is right.
    for _ in range(27):
        assert ahead.tick(after_ms=HOUR_MS) == 0
    assert ahead.tick(after_ms=HOUR_MS) > 0


@pytest.mark.parametrize("leaps_ms", [[2 * HOUR_MS], [HOUR_MS - 120_000] * 4])
def test_a_clock_that_leaps_again_has_not_said_so_for_an_hour(tmp_path: Path, leaps_ms: list[int]) -> None:
    ahead = Ahead(tmp_path)
    for ms in leaps_ms:
        ahead.leap(ms)
        assert ahead.tick(after_ms=60_000) == 0
    assert ahead.tick(after_ms=HOUR_MS) > 0


def test_a_file_about_the_clock_that_is_damaged_is_not_believed_and_stops_nothing(tmp_path: Path) -> None:
    ahead = Ahead(tmp_path)
    path = tmp_path / "log" / "clock.json"
    path.write_bytes(path.read_bytes()[:-9] + b"00000000\n")
    ahead.bench.restart({7: 0})
    assert ahead.tick() == 0, "the newest record is two days old by this clock"
    assert ahead.tick(after_ms=HOUR_MS) > 0


def test_a_disk_that_refuses_the_file_about_the_clock_is_asked_again(tmp_path: Path) -> None:
    ahead = Ahead(tmp_path)
    (tmp_path / "log" / "clock.json").unlink()
    ahead.leap(2 * HOUR_MS)
    ahead.bench.files.fail("rename", errno.ENOSPC, count=1)
    assert ahead.tick() == 0
    assert not (tmp_path / "log" / "clock.json").exists()
    assert ahead.tick() == 0
    assert (tmp_path / "log" / "clock.json").exists()


def test_what_is_finished_is_kept_until_it_is_too_much(tmp_path: Path) -> None:
    bench = Bench(tmp_path, segment_bytes=4_096, retention_bytes=10_000)
    channel = bench.topic.open_channel("c", 7)
    for number in range(50):
        bench.publish(b"%d" % number * 100)
    list(everything(channel))
    assert bench.log.retention.remove_unneeded() > 0
    sealed = [one for one in bench.log.segments.list if one.is_sealed]
    assert 5_000 < sum(one.end - one.position for one in sealed) <= 10_000
    assert bench.log.retention.remove_unneeded() == 0


def test_segments_go_when_the_slowest_channel_has_passed_them(tmp_path: Path) -> None:
    bench = Bench(tmp_path, segment_bytes=4_096)
    fast, slow = bench.topic.open_channel("fast", 7), bench.topic.open_channel("slow", 8)
    idle = bench.open_topic("idle", 2)
    idle.open_channel("c", 9)
    for number in range(50):
        bench.publish(b"%d" % number * 100)
    assert len(bench.log.segments.list) > 5
    assert len(list(everything(fast))) == 50
    assert bench.log.retention.remove_unneeded() == 0
    run = take(slow, 25)
    slow.settle(run.ids[:20])
    removed = bench.log.retention.remove_unneeded()
    assert removed >= 1
    assert len(list((tmp_path / "log" / "segments").iterdir())) == len(bench.log.segments.list)
    oldest = bench.topic.oldest_offset
    assert 0 < oldest <= 20
    position, _ = bench.topic.queue.locate(oldest) or (0, 0)
    assert bench.log.segments.list[0].position <= position < bench.log.segments.list[0].next_position
    # What is left can be read again, from the oldest there is.
    forget_batches(bench.log.batches)
    fast.seek(0)
    assert [int(one[:2]) for one in everything(fast)][:1] == [oldest]
    slow.give_back(run, run.ids[20:], counted=True)
    assert len(list(everything(slow))) == 30
    assert bench.log.retention.remove_unneeded() > 0
    bench.log.end_turn()
    bench.restart({7: 0, 8: 0})
    slow = bench.topic.open_channel("slow", 8)
    assert slow.depth == 0
    bench.publish(b"new")
    assert list(everything(slow)) == [b"new"]


def test_a_topic_without_channels_and_a_paused_one_hold_what_waits(tmp_path: Path) -> None:
    bench = Bench(tmp_path, segment_bytes=4_096)
    for _ in range(30):
        bench.publish(b"x" * 300)
    assert bench.log.retention.remove_unneeded() == 0
    bench.topic.empty()
    assert bench.log.retention.remove_unneeded() > 0
    assert bench.topic.depth == 0


def test_a_deleted_topic_holds_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path, segment_bytes=4_096)
    bench.topic.open_channel("c", 7)
    for _ in range(30):
        bench.publish(b"x" * 300)
    bench.topic.delete()
    assert bench.log.retention.remove_unneeded() > 1
    assert len(bench.log.segments.list) <= 2, "the one written to, and the one made ahead"


def test_what_can_not_be_told_to_be_unneeded_stays(tmp_path: Path) -> None:
    bench = Bench(tmp_path, segment_bytes=4_096)
    backlog = bench.topic.open_channel("c", 7)
    for _ in range(30):
        bench.publish(b"x" * 300)
    backlog.settle(take(backlog, 20).ids)
    bench.forget()
    bench.files.fail("read", errno.EIO, count=5)
    before = len(bench.log.segments.list)
    bench.clock.advance(ms=1_000)
    bench.log.tick(bench.clock.monotonic_ns())
    assert len(bench.log.segments.list) == before
    bench.files.heal()
    bench.clock.advance(ms=1_000)
    bench.log.tick(bench.clock.monotonic_ns())
    assert len(bench.log.segments.list) < before
