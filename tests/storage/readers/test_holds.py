"""Holds: until when something is kept for whom; `test_reader_file.py` tells what holds have in common with cursors."""

import errno
from pathlib import Path

import pytest

from queue_engine.disk.background import InlineBackground
from queue_engine.readers.holds import Hold, Holds, decode_holds, encode_holds
from queue_engine.vocabulary.errors import LeaseNotFoundError
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles

FIXTURE = Path(__file__).parent.parent / "fixtures" / "holds_v1.json"
FIXED = [Hold("lease-1", 7, 1_200, 1_800_000_000_000), Hold("archive", 9, 0, 1_900_000_000_000)]


class Bench:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = ManualClock()
        self.files = FaultyFiles()
        self.start(1, 2)

    def start(self, *topics: int) -> str:
        self.holds = Holds(str(self.directory), files=self.files, clock=self.clock, worker=InlineBackground())
        return self.holds.open(topics)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize("set_back_ms", [3_600_000, -3_600_000])
def test_a_clock_that_is_set_ends_no_lease_and_prolongs_none(bench: Bench, set_back_ms: int) -> None:
    bench.holds.take("a", 1, 30, 1_000)
    bench.clock.set_back(ms=set_back_ms)
    bench.clock.advance(ms=500)
    bench.holds.tick()
    bench.holds.renew(["a"], 1_000)
    bench.clock.advance(ms=999)
    bench.holds.tick()
    assert bench.holds.get("a").offset == 30
    bench.clock.advance(ms=1)
    bench.holds.tick()
    assert bench.holds.least_offset(1) is None


def test_a_hold_ends_when_its_time_has_come(bench: Bench) -> None:
    hold, _ = bench.holds.take("a", 1, 30, 1_000)
    assert hold.expires_ms == bench.clock.time_ns() // 1_000_000 + 1_000
    bench.clock.advance(ms=999)
    bench.holds.tick()
    assert bench.holds.get("a") == hold
    bench.clock.advance(ms=1)
    with pytest.raises(LeaseNotFoundError, match="lease a has expired"):
        bench.holds.get("a")
    assert bench.holds.least_offset(1) == 30  # until somebody looks
    bench.holds.tick()
    assert bench.holds.least_offset(1) is None
    with pytest.raises(LeaseNotFoundError):
        bench.holds.give_back("a")


def test_what_has_expired_keeps_nothing_though_the_file_still_names_it(bench: Bench) -> None:
    bench.holds.take("a", 1, 30, 1_000)
    bench.clock.advance(ms=1_000)
    bench.files.fail("sync", errno.ENOSPC)
    bench.holds.tick()
    assert bench.holds.error
    assert bench.holds.least_offset(1) is None, "else a full disk would stay full"
    bench.start(1)
    with pytest.raises(LeaseNotFoundError):
        bench.holds.get("a")


def test_of_two_that_the_file_may_name_both_are_kept_until_the_later_expires(bench: Bench) -> None:
    bench.holds.take("a", 1, 30, 5_000)
    bench.files.fail("sync", errno.ENOSPC, count=10)
    assert bench.holds.take("a", 1, 40, 1_000)[1].error
    bench.clock.advance(ms=1_000)
    bench.holds.tick()
    assert [one.offset for one in bench.holds.all()] == [30], "what was refused is not so"
    assert bench.holds.least_offset(1) == 30
    bench.clock.advance(ms=4_000)
    bench.holds.tick()
    assert bench.holds.least_offset(1) is None


def test_a_hold_can_go_on_with_another_topic(bench: Bench) -> None:
    bench.holds.take("a", 1, 30, 1_000)
    bench.holds.take("a", 2, 7, 1_000)
    assert (len(bench.holds), bench.holds.get("a").topic_number) == (1, 2)
    assert bench.holds.least_offsets() == {2: 7}


def test_a_topic_that_is_gone_at_a_start_took_its_holds_along(bench: Bench) -> None:
    bench.holds.take("a", 1, 30, 1_000)
    bench.holds.take("b", 2, 7, 1_000)
    bench.start(1)
    bench.holds.tick()
    bench.start(1, 2)
    assert [one.name for one in bench.holds.all()] == ["a"], "and the file forgets it, too"


def test_files_of_version_1_are_read_for_ever() -> None:
    assert decode_holds(FIXTURE.read_bytes()) == FIXED
    assert encode_holds(FIXED) == FIXTURE.read_bytes()
