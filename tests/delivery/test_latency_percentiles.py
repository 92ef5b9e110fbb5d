"""Percentiles from counted latencies, against the sorted latencies themselves; and the window that they are of."""

from math import ceil
from random import Random

import pytest

from queue_engine.delivery.latency import LatencyHistogram
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S
from queue_engine.vocabulary.latency.latency_buckets import BUCKET_MAX, LEAST_MS, bucket_of
from queue_engine.vocabulary.latency.latency_percentiles import bucket_table, grown, merged, percentiles_ns
from tests.support.clock import ManualClock

QUANTILES = (1.0, 0.999, 0.99, 0.95, 0.5, 0.01, 0.000_001)
LEAST_NS = round(LEAST_MS * NS_PER_MS)
HALF_NS = 300 * NS_PER_S


def counted(latencies_ns: list[int]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for one in latencies_ns:
        counts[bucket_of(one)] = counts.get(bucket_of(one), 0) + 1
    return counts


def latencies(rng: Random, count: int) -> list[int]:
    """Between 10 µs and a day, as spread as they are in a queue that was stuck for a while."""
    middle = rng.uniform(4, 13)
    return [round(10 ** min(max(rng.gauss(middle, 1.5), 4), 13.9)) for _ in range(count)]


@pytest.mark.parametrize("seed", range(8))
def test_percentiles_of_servers_together_are_two_percent_from_those_of_all_their_messages(seed: int) -> None:
    rng = Random(seed)
    servers = [latencies(rng, rng.choice((1, 2, 99, 1_000))) for _ in range(rng.choice((1, 3, 5)))]
    found = percentiles_ns(merged(counted(one) for one in servers), QUANTILES)
    ranked = sorted(latency for one in servers for latency in one)
    for quantile, shown in zip(QUANTILES, found, strict=True):
        exact = ranked[max(ceil(quantile * len(ranked)), 1) - 1]
        assert abs(shown - exact) <= max(0.0201 * exact, LEAST_NS), (quantile, shown, exact)


def test_an_average_of_percentiles_would_be_something_else() -> None:
    """A quick server with 9,900 messages, and a slow one with 100: 1 % of all messages took a second."""
    quick, slow = counted([NS_PER_MS] * 9_900), counted([NS_PER_S] * 100)
    (together,) = percentiles_ns(merged([quick, slow]), (0.99,))
    assert together == pytest.approx(NS_PER_MS, rel=0.02)
    average = sum(percentiles_ns(one, (0.99,))[0] for one in (quick, slow)) / 2
    assert average > 400 * together


def test_nothing_finished_has_no_latency() -> None:
    assert percentiles_ns({}, QUANTILES) == [0] * len(QUANTILES)
    assert percentiles_ns({}, ()) == []


@pytest.mark.parametrize("count", [10, 100, 1_000, 10_000, 1_000_000])
def test_a_rank_is_not_pushed_up_by_a_fraction_s_last_bit(count: int) -> None:
    """0.95 of 100 messages is the 95th, and 0.07 × 100 is 7.000000000000001."""
    for percent in range(1, 100):
        rank = count * percent // 100 if count * percent % 100 == 0 else None
        if rank:
            low, high = bucket_of(NS_PER_MS), bucket_of(NS_PER_S)
            (at,) = percentiles_ns({low: rank, high: count - rank}, (percent / 100,))
            assert at < 2 * NS_PER_MS, percent


def test_buckets_are_told_with_their_ends_the_last_without_one() -> None:
    counts = {bucket_of(NS_PER_S): 2, 0: 1, BUCKET_MAX: 3}
    ((first, one), (middle, two), (last, three)) = bucket_table(counts)
    assert (first, one, two, last, three) == (LEAST_NS, 1, 2, None, 3)
    assert middle is not None
    assert NS_PER_S <= middle < 1.04 * NS_PER_S


def test_growth_has_no_zeros_and_needs_no_copy_from_nothing() -> None:
    now = {1: 5, 2: 3, 7: 1}
    assert grown(now, {1: 5, 2: 1}) == {2: 2, 7: 1}
    assert grown(now, {}) is now


class Windowed:
    """A channel's histogram that is looked at each second, as the snapshots do."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.histogram = LatencyHistogram(self.clock.time_ns)

    def counts(self) -> int:
        return sum(self.histogram.window(HALF_NS).counts().values())

    def pass_s(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.advance(ms=1_000)
            self.counts()


def test_the_window_has_the_last_half_to_whole_of_its_time() -> None:
    one = Windowed()
    one.histogram.note(NS_PER_MS, 7)
    assert one.counts() == 7
    one.pass_s(299)
    one.histogram.note(NS_PER_MS, 3)
    assert one.counts() == 10
    one.pass_s(299)
    assert one.counts() == 10, "both are less than two halves old"
    one.pass_s(2)
    assert one.counts() == 0, "the older half has gone, and with it what came at its end"
    one.histogram.note(NS_PER_MS, 1)
    assert one.counts() == 1
    one.pass_s(598)
    assert one.counts() == 1
    one.pass_s(3)
    assert one.counts() == 0


def test_a_clock_that_was_set_back_shortens_the_window_and_stops_it_not() -> None:
    one = Windowed()
    one.histogram.note(NS_PER_MS, 7)
    one.clock.set_back(ms=3_600_000)
    assert one.counts() == 7
    one.pass_s(601)
    assert one.counts() == 0


def test_a_window_is_the_same_object_while_nothing_is_finished() -> None:
    """What was worked out of it once is there the next second."""
    one = Windowed()
    one.histogram.note(NS_PER_MS, 7)
    first = one.histogram.window(HALF_NS)
    assert one.histogram.window(HALF_NS) is first
    assert first.percentiles_ns((0.5,)) is first.percentiles_ns((0.5,))
    assert first.percentiles_ns((0.5, 0.99)) == first.percentiles_ns((0.5,)) * 2
    one.histogram.note(NS_PER_S, 7)
    second = one.histogram.window(HALF_NS)
    assert second is not first
    assert (sum(first.counts().values()), sum(second.counts().values())) == (7, 14)
    one.clock.advance(ms=300_000)
    assert one.histogram.window(HALF_NS).counts() == second.counts(), "the newer half is in it"
    one.clock.advance(ms=300_000)
    assert one.histogram.window(HALF_NS).counts() == {}
