"""Leases: their expiry and their names; what they have in common with cursors is in `test_reader_registry.py`."""

import errno
from pathlib import Path

import pytest

from queue_engine.storage.disk.background import InlineBackground
from queue_engine.storage.readers.leases import Leases, decode_leases, encode_leases
from queue_engine.storage.readers.reader_registry import Reader
from queue_engine.vocabulary.errors import LeaseNotFoundError
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles

FIXTURE = Path(__file__).parent.parent / "fixtures" / "holds_v1.json"
FIXED = [Reader("lease-1", 7, 1_200, 1_800_000_000_000), Reader("archive", 9, 0, 1_900_000_000_000)]


class Bench:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = ManualClock()
        self.files = FaultyFiles()
        self.start(1, 2)

    def start(self, *topics: int) -> str:
        self.leases = Leases(str(self.directory), files=self.files, clock=self.clock, worker=InlineBackground())
        return self.leases.open(topics)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize("set_back_ms", [3_600_000, -3_600_000])
def test_a_clock_that_is_set_ends_no_lease_and_prolongs_none(bench: Bench, set_back_ms: int) -> None:
    bench.leases.take("a", 1, 30, 1_000)
    bench.clock.set_back(ms=set_back_ms)
    bench.clock.advance(ms=500)
    bench.leases.tick()
    bench.leases.renew(["a"], 1_000)
    bench.clock.advance(ms=999)
    bench.leases.tick()
    assert bench.leases.get("a").offset == 30
    bench.clock.advance(ms=1)
    bench.leases.tick()
    assert bench.leases.least_offset(1) is None


def test_a_lease_ends_when_its_time_has_come(bench: Bench) -> None:
    lease, _ = bench.leases.take("a", 1, 30, 1_000)
    assert lease.expires_ms == bench.clock.time_ns() // 1_000_000 + 1_000
    bench.clock.advance(ms=999)
    bench.leases.tick()
    assert bench.leases.get("a") == lease
    bench.clock.advance(ms=1)
    with pytest.raises(LeaseNotFoundError, match="lease a has expired"):
        bench.leases.get("a")
    assert bench.leases.least_offset(1) == 30  # until somebody looks
    bench.leases.tick()
    assert bench.leases.least_offset(1) is None
    with pytest.raises(LeaseNotFoundError):
        bench.leases.release("a")


def test_what_has_expired_keeps_nothing_though_the_file_still_names_it(bench: Bench) -> None:
    bench.leases.take("a", 1, 30, 1_000)
    bench.clock.advance(ms=1_000)
    bench.files.fail("sync", errno.ENOSPC)
    bench.leases.tick()
    assert bench.leases.error
    assert bench.leases.least_offset(1) is None, "else a full disk would stay full"
    bench.start(1)
    with pytest.raises(LeaseNotFoundError):
        bench.leases.get("a")


def test_of_two_that_the_file_may_name_both_are_kept_until_the_later_expires(bench: Bench) -> None:
    bench.leases.take("a", 1, 30, 5_000)
    bench.files.fail("sync", errno.ENOSPC, count=10)
    assert bench.leases.take("a", 1, 40, 1_000)[1].error
    bench.clock.advance(ms=1_000)
    bench.leases.tick()
    assert [one.offset for one in bench.leases.all()] == [30], "what was refused is not so"
    assert bench.leases.least_offset(1) == 30
    bench.clock.advance(ms=4_000)
    bench.leases.tick()
    assert bench.leases.least_offset(1) is None


def test_a_lease_can_go_on_with_another_topic(bench: Bench) -> None:
    bench.leases.take("a", 1, 30, 1_000)
    bench.leases.take("a", 2, 7, 1_000)
    assert (len(bench.leases), bench.leases.get("a").topic_number) == (1, 2)
    assert (bench.leases.least_offset(1), bench.leases.least_offset(2)) == (None, 7)


def test_a_topic_that_is_gone_at_a_start_took_its_leases_along(bench: Bench) -> None:
    bench.leases.take("a", 1, 30, 1_000)
    bench.leases.take("b", 2, 7, 1_000)
    bench.start(1)
    bench.leases.tick()
    bench.start(1, 2)
    assert [one.name for one in bench.leases.all()] == ["a"], "and the file forgets it, too"


def test_files_of_version_1_are_read_for_ever() -> None:
    assert decode_leases(FIXTURE.read_bytes()) == FIXED
    assert encode_leases(FIXED) == FIXTURE.read_bytes()
