"""The rates of a node: averages over its last readings, which no restart and no deletion makes negative."""

from admin_console.cluster.reading.node_rates import NO_RATES, NodeRates, Rates
from admin_console.cluster.reading.node_stats import node_stats_in
from admin_console.cluster.reading.totals import NodeSums


def sums(messages: int | None, finished: int | None = 0) -> NodeSums:
    return NodeSums(1, 0, 0, messages, 0, finished)


def test_a_rate_is_the_average_of_the_last_half_minute() -> None:
    rates = NodeRates()
    assert rates.note(0.0, 5, sums(1_000, 10)) == NO_RATES
    assert rates.note(10.0, 5, sums(1_500, 30)) == Rates(50.0, 2.0)
    for at_s in (20.0, 30.0, 40.0):
        newest = rates.note(at_s, 5, sums(1_500, 30))
    assert newest == Rates(0.0, 0.0)


def test_two_readings_are_enough_however_far_apart() -> None:
    rates = NodeRates()
    rates.note(0.0, 5, sums(0))
    rates.note(100.0, 5, sums(100))
    assert rates.note(300.0, 5, sums(1_100)).published_s == 5.0


def test_a_node_that_started_anew_has_no_rate_until_its_second_reading() -> None:
    rates = NodeRates()
    rates.note(0.0, 5, sums(9_000))
    assert rates.note(10.0, 15, sums(20)) == NO_RATES
    assert rates.note(20.0, 15, sums(120)).published_s == 10.0


def test_a_sum_that_fell_or_is_unknown_makes_its_own_rate_unknown_alone() -> None:
    rates = NodeRates()
    rates.note(0.0, 5, sums(9_000, 0))
    assert rates.note(10.0, 5, sums(8_000, 100)) == Rates(None, 10.0)
    assert rates.note(20.0, 5, sums(None, 200)) == Rates(None, 10.0)


def test_what_an_nsqd_finished_is_what_came_and_is_not_there_any_more() -> None:
    channel = {"channel_name": "c", "message_count": 100, "depth": 7, "in_flight_count": 2, "deferred_count": 1}
    topic = {"topic_name": "t", "depth": 0, "message_count": 100, "channels": [channel], "paused": True}
    stats = node_stats_in({"topics": [topic]})
    assert stats is not None
    found = NodeSums.of(stats)
    assert (found.finished, found.in_flight, found.paused) == (90, 2, 1)
    own = node_stats_in({"topics": [{**topic, "channels": [{**channel, "finish_count": 80}]}]})
    assert own is not None
    assert NodeSums.of(own).finished == 80
