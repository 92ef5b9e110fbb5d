"""A rate is kept over batches of any size, by a clock that is handed in."""

from queue_engine.lake.replay.rate_limit import RateLimit
from tests.support.clock import ManualClock


def test_the_first_goes_at_once_and_each_waits_for_those_before_it() -> None:
    clock = ManualClock()
    limit = RateLimit(clock, 100)
    assert limit.wait_ns() == 0
    limit.spend(50)
    assert limit.wait_ns() == 500_000_000
    clock.advance(ms=499)
    assert limit.wait_ns() == 1_000_000
    clock.advance(ms=1)
    assert limit.wait_ns() == 0


def test_time_in_which_nobody_asked_is_not_made_up_for() -> None:
    clock = ManualClock()
    limit = RateLimit(clock, 10)
    limit.spend(1)
    clock.advance(ms=60_000)
    limit.spend(10)
    assert limit.wait_ns() == 1_000_000_000


def test_what_is_sent_late_is_paid_for_from_then_on() -> None:
    clock = ManualClock()
    limit = RateLimit(clock, 10)
    limit.spend(10)
    limit.spend(10)
    assert limit.wait_ns() == 2_000_000_000


def test_without_a_rate_nothing_waits() -> None:
    limit = RateLimit(ManualClock(), None)
    limit.spend(1 << 40)
    assert limit.wait_ns() == 0
