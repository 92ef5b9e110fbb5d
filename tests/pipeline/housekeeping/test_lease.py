"""One server at a time keeps house in a lake that several share."""

from pathlib import Path

from queue_engine.lake.housekeeping.lease import LEASE_S, LOG_COMMITS, HousekeepingLease
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.tables import LakeTables
from tests.support.clock import ManualClock


def lease_of(path: Path, server: str, clock: ManualClock) -> HousekeepingLease:
    return HousekeepingLease(LakeTables(TableStorage(path)), server, clock)


def test_a_second_server_waits_until_the_lease_has_ended(tmp_path: Path):
    clock = ManualClock()
    first, second = (lease_of(tmp_path, name, clock) for name in ("one", "two"))

    assert first.take() == 0
    assert second.take() == LEASE_S
    clock.advance(ms=LEASE_S * 1000)
    assert second.take() == 0
    assert first.take() == LEASE_S


def test_a_server_that_goes_on_keeps_the_lease(tmp_path: Path):
    clock = ManualClock()
    first, second = (lease_of(tmp_path, name, clock) for name in ("one", "two"))

    for _ in range(4):
        assert first.take() == 0
        clock.advance(ms=LEASE_S * 900)
    assert 0 < second.take() <= LEASE_S


def test_a_server_that_is_started_again_has_its_lease_still(tmp_path: Path):
    clock = ManualClock()

    assert lease_of(tmp_path, "one", clock).take() == 0
    assert lease_of(tmp_path, "one", clock).take() == 0
    assert lease_of(tmp_path, "two", clock).take() == LEASE_S


def test_a_clock_that_was_set_back_takes_the_lease_from_nobody(tmp_path: Path):
    clock = ManualClock()
    first, second = (lease_of(tmp_path, name, clock) for name in ("one", "two"))
    assert first.take() == 0
    clock.set_back(ms=LEASE_S * 5000)

    assert second.take() > LEASE_S
    assert first.take() == 0


def test_the_leases_of_days_leave_a_short_log(tmp_path: Path):
    clock = ManualClock()
    first, second = (lease_of(tmp_path, name, clock) for name in ("one", "two"))

    for number in range(2 * LOG_COMMITS):
        assert (first if number % 3 else second).take() == 0
        clock.advance(ms=LEASE_S * 1000)
    assert len(list((tmp_path / "archive_housekeeping/_delta_log").glob("*.json"))) < LOG_COMMITS
    assert first.take() == 0
