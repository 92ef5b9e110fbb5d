"""The snapshot has the free bytes of the disk, how fast they go, and whether they are few; what is written for some
minutes is no trend."""

from collections.abc import Callable
from itertools import count, product
from pathlib import Path

import pytest

from queue_engine.delivery.stats import DiskSpace
from queue_engine.engine.samples.disk_watch import LOOK_EVERY_NS, WINDOWS_S, Look, disk_space, fill_bytes_per_s
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.clock import NS_PER_S
from tests.support.clock import ManualClock
from tests.support.engine import make_engine

OverTime = Callable[[float], float]
GB = 1_000_000_000
SEGMENT = 1_000_000  # of zeros ahead of the log
BEGINS_S = range(0, 2880, 197)


def looks(free_at: OverTime, seconds: int, own_at: OverTime | None = None) -> list[Look]:
    """Of a disk with `free_at(second)` free bytes, on which topics have `own_at(second)`, for so many seconds."""
    step_s = LOOK_EVERY_NS // NS_PER_S
    return [
        Look(at * NS_PER_S, round(free_at(at)), None if own_at is None else round(own_at(at)))
        for at in range(0, seconds + 1, step_s)
    ]


def rate_of(free_at: OverTime, seconds: int) -> float | None:
    return fill_bytes_per_s(looks(free_at, seconds))


def test_nothing_is_known_in_the_first_minutes() -> None:
    assert rate_of(lambda s: GB - 1000 * s, 910) is None
    assert rate_of(lambda s: GB - 1000 * s, 960) == pytest.approx(1000, rel=0.03)


def test_a_steady_fall_is_seen_after_fourteen_minutes() -> None:
    assert rate_of(lambda s: GB - 100_000 * max(s - 1200, 0), 1795) == 0
    assert rate_of(lambda s: GB - 100_000 * max(s - 1200, 0), 2100) == pytest.approx(100_000, rel=0.03)


def test_others_who_write_for_some_minutes_are_no_trend() -> None:
    for at_s, minutes in product(BEGINS_S, (1, 4, 9)):
        rate = rate_of(lambda s: GB - 500_000 * min(max(s - at_s, 0), 60 * minutes), 2880)  # noqa: B023
        assert rate == 0, (at_s, minutes)


def test_a_burst_over_a_slow_fall_leaves_the_slow_fall() -> None:
    for at_s in BEGINS_S:
        found = rate_of(lambda s: GB - 1_000 * s - 5_000_000 * min(max(s - at_s, 0), 60), 2880)  # noqa: B023
        assert found is not None
        assert 900 <= found <= 4_400, at_s


@pytest.mark.parametrize("every_s", [7, 33, 90, 300])
def test_growth_in_steps_is_seen_at_any_pace(every_s: int) -> None:
    found = rate_of(lambda s: GB - SEGMENT * (s // every_s), 2880)
    assert found is not None
    assert 0.3 * SEGMENT / every_s <= found <= 2.1 * SEGMENT / every_s


def test_an_uneven_fall_is_seen_as_no_faster_than_it_is() -> None:
    found = rate_of(lambda s: GB - 100_000 * s - 20_000 * (s % 120), 2880)
    assert found == pytest.approx(100_000, rel=0.2)


def test_a_large_file_at_once_is_no_growth() -> None:
    for at_s in BEGINS_S:
        assert rate_of(lambda s: GB - 500_000_000 * (s > at_s), 2880) == 0, at_s  # noqa: B023


def test_room_that_comes_back_is_no_growth() -> None:
    assert rate_of(lambda s: GB + 1000 * s, 2880) == 0
    assert rate_of(lambda _: GB, 2880) == 0
    # Consumed segments go: a sawtooth.
    assert rate_of(lambda s: GB - 100_000 * (s % 170), 2880) == 0


def test_what_topics_add_is_apart_from_others() -> None:
    space = disk_space(looks(lambda s: GB - 3_000 * s, 960, lambda s: 1_000 * s), 2 * GB, 0)
    assert (space.fill_bytes_per_s, space.own_bytes_per_s) == (pytest.approx(3_000, rel=0.03), pytest.approx(1_000))
    unknown = disk_space(looks(lambda s: GB - 3_000 * s, 960), 2 * GB, 0)
    assert (unknown.fill_bytes_per_s, unknown.own_bytes_per_s) == (pytest.approx(3_000, rel=0.03), None)


def test_little_room_is_the_reserve_and_ten_minutes_of_what_topics_added() -> None:
    """Seen at once, whatever the trend: on 60 MB, at 1.5 MB/s, 30 s before it is full."""
    reserve = 8 << 20
    fills = [
        disk_space(looks(lambda s: 60e6 - 1.5e6 * s, at, lambda s: 1.5e6 * s), 60_000_000, reserve) for at in (0, 5)
    ]
    assert [one.is_low for one in fills] == [False, True]
    assert [one.low_bytes for one in fills] == [reserve, reserve + 75_000_000]
    assert all(one.full_in_s is None for one in fills)
    # What topics gave back counts, and what others wrote counts for one more minute.
    gives = disk_space(looks(lambda s: 60e6 + 1.5e6 * s, 20, lambda s: 60e6 - 1.5e6 * s), 90_000_000, reserve)
    others = disk_space(looks(lambda s: 60e6 - 1.5e6 * s, 20, lambda _: 5), 60_000_000, reserve)
    assert (gives.low_bytes, others.low_bytes) == (reserve, reserve + 30_000_000)
    assert others.is_low


def test_time_to_full() -> None:
    assert DiskSpace(GB, 2 * GB, 1_000_000.0).full_in_s == 1000
    assert DiskSpace(GB, 2 * GB, 0.0).full_in_s is None
    assert DiskSpace(GB, 2 * GB, None).full_in_s is None


class FillingFiles(Files):
    """A disk from which every look finds a megabyte less."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = count(1)
        self.error: OSError | None = None

    def free_bytes(self, directory: str) -> int:
        if self.error is not None:
            raise self.error
        return GB - 1_000_000 * next(self.looks)

    def total_bytes(self, directory: str) -> int:
        return 2 * GB


def test_the_snapshot_has_it_and_says_so_while_the_disk_gives_no_answer(tmp_path: Path) -> None:
    clock, files = ManualClock(), FillingFiles()
    engine = make_engine(tmp_path, clock, files=files, samples_interval_ms=0, mem_queue_size=0)
    try:
        assert engine.stats.now().disk is None
        for _ in range(WINDOWS_S[0] // 5 + 1):
            clock.advance(ns=LOOK_EVERY_NS)
            engine.tick()
        found = engine.stats.now().disk
        assert found is not None
        assert (found.total_bytes, found.free_bytes < GB) == (2 * GB, True)
        assert found.fill_bytes_per_s is not None
        assert found.fill_bytes_per_s >= 200_000
        assert found.full_in_s == found.free_bytes / found.fill_bytes_per_s
        assert (found.own_bytes_per_s, found.own_minute_bytes) == (0, 0)
        engine.publish("orders", [b"x" * 100_000])
        engine.turn()
        clock.advance(ns=LOOK_EVERY_NS)
        engine.tick()
        found = engine.stats.now().disk
        assert found is not None
        assert 100_000 <= found.own_minute_bytes <= 110_000
        assert found.low_bytes >= 8_388_608 + 10 * found.own_minute_bytes
        files.error = OSError(5, "Input/output error")
        clock.advance(ns=LOOK_EVERY_NS)
        engine.tick()
        assert engine.stats.now().disk is None
        files.error = None
    finally:
        engine.close()
