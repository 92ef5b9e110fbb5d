"""The snapshot has the free bytes of the disk, and how fast they go; one large write is no growth."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from queue_engine.delivery.stats import DiskSpace
from queue_engine.disk.files import Files
from queue_engine.samples.disk_watch import LOOK_EVERY_NS, WINDOWS_S, Look, fill_bytes_per_s
from queue_engine.vocabulary.clock import NS_PER_S
from tests.support.clock import ManualClock
from tests.support.engine import make_engine

GB = 1_000_000_000
SEGMENT = 64_000_000


def rate_of(free_at: Callable[[float], float], seconds: int) -> float | None:
    """Of a disk with `free_at(second)` free bytes, after so many seconds of looks."""
    step_s = LOOK_EVERY_NS // NS_PER_S
    return fill_bytes_per_s([Look(at * NS_PER_S, round(free_at(at))) for at in range(0, seconds + 1, step_s)])


def test_nothing_is_known_in_the_first_minute() -> None:
    assert rate_of(lambda s: GB - 1000 * s, 40) is None
    assert rate_of(lambda s: GB - 1000 * s, 60) == pytest.approx(1000)


def test_a_disk_that_fills_fast_is_seen_within_a_minute_of_a_quiet_half_hour() -> None:
    assert rate_of(lambda s: GB - 100_000 * max(s - 1740, 0), 1800) == pytest.approx(100_000)


@pytest.mark.parametrize("every_s", [7, 33, 90, 500, 850])
def test_growth_by_segments_is_seen_at_any_pace(every_s: int) -> None:
    found = rate_of(lambda s: GB - SEGMENT * (s // every_s), 1800)
    assert found is not None
    assert 0.4 * SEGMENT / every_s <= found <= 2.1 * SEGMENT / every_s


@pytest.mark.parametrize("at_s", range(0, 1800, 45))
def test_a_large_file_at_once_is_no_growth(at_s: int) -> None:
    assert rate_of(lambda s: GB - 500_000_000 * (s > at_s), 1800) == 0


def test_room_that_comes_back_is_no_growth() -> None:
    assert rate_of(lambda s: GB + 1000 * s, 1800) == 0
    assert rate_of(lambda _: GB, 1800) == 0


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
    engine = make_engine(tmp_path, clock, files=files, samples_interval_ms=0)
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
        files.error = OSError(5, "Input/output error")
        clock.advance(ns=LOOK_EVERY_NS)
        engine.tick()
        assert engine.stats.now().disk is None
        files.error = None
    finally:
        engine.close()
