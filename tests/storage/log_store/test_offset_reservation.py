"""How many offsets are promised at a time, and when more are asked for."""

import pytest

from queue_engine.storage.log_store.offset_reservation import OFFSETS_MAX, OFFSETS_MIN, OffsetReservation
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S

STALL_S = 3


def new_topic() -> OffsetReservation:
    return OffsetReservation(next_offset=0, reserved_offset=OFFSETS_MIN, wanted_offset=OFFSETS_MIN, now_ns=0)


def test_a_quiet_topic_asks_for_the_least_when_a_quarter_is_gone() -> None:
    reservation = new_topic()
    quarter = OFFSETS_MIN // 4
    assert quarter <= reservation.enough_upto
    assert quarter + 1 > reservation.enough_upto
    assert reservation.request(quarter + 1, 3600 * NS_PER_S)
    assert reservation.wanted_offset == quarter + 1 + OFFSETS_MIN
    assert not reservation.request(quarter + 2, 3601 * NS_PER_S), "one promise is on its way"
    reservation.promised(reservation.wanted_offset)
    assert not reservation.is_requested
    assert quarter + 2 <= reservation.enough_upto


@pytest.mark.parametrize("rate_per_s", [10_000, 200_000, 1_000_000, 2_000_000])
def test_a_topic_that_publishes_fast_has_enough_for_seconds_of_a_stalled_disk(rate_per_s: int) -> None:
    """Once two promises were written, which a disk in order takes 50 ms for."""
    reservation = new_topic()
    asked: list[int] = []
    due_ms: int | None = None
    for now_ms in range(0, 60_000, 10):
        next_offset = rate_per_s * now_ms // 1000
        if due_ms is not None and now_ms >= due_ms:
            reservation.promised(reservation.wanted_offset)
            due_ms = None
        if next_offset > reservation.enough_upto and reservation.request(next_offset, now_ms * NS_PER_MS):
            asked.append(now_ms)
            due_ms = now_ms + (50 if len(asked) <= 2 else STALL_S * 1000)
        assert next_offset <= reservation.reserved_offset, f"nothing is left after {now_ms} ms"
    assert len(asked) <= 30, "topology.json is not written all the time"
    assert reservation.wanted_offset - next_offset <= OFFSETS_MAX


def test_a_topic_that_became_quiet_asks_for_less_again() -> None:
    reservation = new_topic()
    assert reservation.request(1_000_000, NS_PER_S)
    reservation.promised(reservation.wanted_offset)
    assert reservation.reserved_offset == 11_000_000
    assert not reservation.request(4_000_000, 3600 * NS_PER_S), "there is more than it would ask for"
    assert reservation.enough_upto >= 4_000_001
    next_offset = 11_000_000 - OFFSETS_MIN * 3 // 4 + 1
    assert next_offset > reservation.enough_upto
    assert reservation.request(next_offset, 7200 * NS_PER_S)
    assert reservation.wanted_offset == next_offset + OFFSETS_MIN


def test_a_promise_that_came_late_takes_nothing_back() -> None:
    reservation = new_topic()
    reservation.promised(5)
    assert reservation.reserved_offset == OFFSETS_MIN
