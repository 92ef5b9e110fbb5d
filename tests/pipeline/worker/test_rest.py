"""When a worker without work ends, by a clock that the test moves."""

import pytest

from queue_engine.lake.worker.pending_work import HISTORY_IS_BEHIND
from queue_engine.lake.worker.rest import HISTORY_REST_S, Rest
from tests.support.clock import ManualClock

REST_MS = 300_000
MESSAGES = "messages wait to be archived"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_a_worker_rests_when_it_had_no_work_for_as_long_as_the_option_says(clock: ManualClock) -> None:
    rest = Rest(clock, REST_MS, MESSAGES)
    assert not rest.is_due(MESSAGES)
    clock.advance(ms=REST_MS - 1)
    assert not rest.is_due("")
    clock.advance(ms=1)
    assert rest.is_due("")


def test_work_in_between_puts_the_rest_off(clock: ManualClock) -> None:
    rest = Rest(clock, REST_MS, MESSAGES)
    for _ in range(5):
        clock.advance(ms=REST_MS - 1)
        assert not rest.is_due("a request waits")
    clock.advance(ms=REST_MS - 1)
    assert not rest.is_due("")
    clock.advance(ms=1)
    assert rest.is_due("")


def test_work_that_comes_in_the_same_moment_is_done_first(clock: ManualClock) -> None:
    rest = Rest(clock, REST_MS, MESSAGES)
    clock.advance(ms=2 * REST_MS)
    assert not rest.is_due(MESSAGES)


def test_zero_means_that_the_worker_stays(clock: ManualClock) -> None:
    rest = Rest(clock, 0, HISTORY_IS_BEHIND)
    clock.advance(ms=100 * REST_MS)
    assert not rest.is_due("")


def test_a_worker_that_wrote_the_history_alone_does_not_wait_for_other_work(clock: ManualClock) -> None:
    rest = Rest(clock, REST_MS, HISTORY_IS_BEHIND)
    clock.advance(ms=60_000)
    assert not rest.is_due(HISTORY_IS_BEHIND)
    clock.advance(ms=HISTORY_REST_S * 1000)
    assert rest.is_due("")


def test_once_it_had_other_work_it_waits_for_more(clock: ManualClock) -> None:
    rest = Rest(clock, REST_MS, HISTORY_IS_BEHIND)
    assert not rest.is_due(MESSAGES)
    clock.advance(ms=HISTORY_REST_S * 1000)
    assert not rest.is_due("")


def test_no_worker_waits_longer_than_the_option_says(clock: ManualClock) -> None:
    rest = Rest(clock, 1_000, HISTORY_IS_BEHIND)
    clock.advance(ms=1_000)
    assert rest.is_due("")
