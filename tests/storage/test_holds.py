"""Holds: what is kept for whom, until when, and what of that a restart knows."""

import errno
from pathlib import Path

import pytest

from queue_engine.errors import LeaseNotFoundError
from queue_engine.storage.background import InlineBackground
from queue_engine.storage.holds import Hold, Holds, decode_holds, encode_holds
from tests.support.background import HeldBackground
from tests.support.clock import ManualClock
from tests.support.files import FaultyFiles

FIXTURE = Path(__file__).parent / "fixtures" / "holds_v1.json"
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


def test_the_least_offset_of_a_topic_counts(bench: Bench) -> None:
    assert bench.holds.least_offset(1) is None
    bench.holds.take("a", 1, 30, 1_000)
    bench.holds.take("b", 1, 20, 1_000)
    bench.holds.take("c", 2, 5, 1_000)
    assert (bench.holds.least_offset(1), bench.holds.least_offset(2)) == (20, 5)
    bench.holds.take("b", 1, 40, 1_000)
    assert bench.holds.least_offset(1) == 30
    bench.holds.give_back("a")
    assert bench.holds.least_offset(1) == 40
    bench.holds.forget_topic(1)
    assert (bench.holds.least_offset(1), bench.holds.least_offset(2)) == (None, 5)


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


def test_a_restart_knows_what_was_said_to_be_durable_and_whose_topic_is_there(bench: Bench) -> None:
    _, ticket = bench.holds.take("a", 1, 30, 1_000)
    bench.holds.take("b", 2, 7, 1_000)
    assert ticket.done
    assert bench.start(1) == ""
    assert [(one.name, one.offset) for one in bench.holds.all()] == [("a", 30)]
    assert bench.holds.least_offset(2) is None
    bench.holds.tick()
    bench.start(1, 2)
    assert len(bench.holds) == 1, "and the file forgets it, too"


def test_a_ticket_waits_for_a_write_that_has_its_hold(tmp_path: Path) -> None:
    worker = HeldBackground()
    holds = Holds(str(tmp_path), files=FaultyFiles(), clock=ManualClock(), worker=worker)
    _, first = holds.take("a", 1, 30, 1_000)
    _, second = holds.take("b", 1, 20, 1_000)
    worker.work()
    worker.answer()
    assert (first.done, second.done) == (True, False)
    worker.finish()
    assert second.done


def test_a_write_that_fails_is_told_and_tried_again(bench: Bench) -> None:
    bench.files.fail("sync", errno.ENOSPC)
    _, ticket = bench.holds.take("a", 1, 30, 60_000)
    assert "No space left" in str(ticket.error)
    assert "No space left" in str(bench.holds.error)
    assert bench.holds.least_offset(1) == 30, "what may be on the disk is kept"
    bench.holds.tick()
    assert bench.holds.error is None
    bench.start(1)
    assert bench.holds.least_offset(1) == 30


def test_every_damage_to_the_file_is_noticed_and_the_file_kept(bench: Bench) -> None:
    bench.holds.take("a", 1, 30, 1_000)
    path = bench.directory / "holds.json"
    good = path.read_bytes()
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        assert decode_holds(path.read_bytes()) is None, at
        path.write_bytes(good[:at])
        assert decode_holds(path.read_bytes()) is None, at
    assert bench.start(1) == str(path)
    assert (path.with_suffix(".json.bad").read_bytes(), path.exists()) == (good[:-1], False)
    assert bench.holds.least_offset(1) is None


def test_files_of_version_1_are_read_for_ever() -> None:
    assert decode_holds(FIXTURE.read_bytes()) == FIXED
    assert encode_holds(FIXED) == FIXTURE.read_bytes()
