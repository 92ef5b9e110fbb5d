"""Fifteen minutes of figures: what is a rate, what is a gap, what survives restarts and deletions."""

from typing import Any

import pytest

from admin_console.api.series import spans
from admin_console.hub.hub import TOTAL, Hub
from admin_console.rings.figures import FINISHED_MIN, Figure
from admin_console.rings.rings import RING_BYTES_MIN, SECONDS, SPARK_BUCKET_S, SPARK_BUCKETS, Clock, Rings
from tests.support.pages.snapshots import START_S, channel, snapshot, topic


def feed(hub: Hub, second: float, messages: int, finished: int = 0, depth: int = 0, **given: object) -> None:
    orders = topic(
        "orders",
        channel("orders", "billing", message_count=messages, finish_count=finished, depth=depth, **given),
        message_count=messages,
    )
    hub.write(snapshot(orders, second=second))


def test_rate_is_growth_over_the_time_that_passed() -> None:
    hub = Hub()
    for index in range(10):
        feed(hub, START_S + index, messages=1000 + 50 * index)
    rings = hub.rings["orders", "billing"]
    assert Figure("messages", 5).rate(rings) == pytest.approx(50)
    assert Figure("messages", 60).count(rings) == 450
    assert Figure("messages", 5).rate(hub.rings[TOTAL]) == pytest.approx(50)


def test_ticks_that_come_early_or_late_keep_their_rate_and_leave_no_gap() -> None:
    hub = Hub()
    for index in range(10):
        taken_s = START_S + index + (0.0, 0.3, 0.1, 0.45)[index % 4]
        feed(hub, taken_s, messages=round((taken_s - START_S) * 100))
    series = hub.rings["orders", "billing"].series("messages")
    assert series[-9:] == pytest.approx([100] * 9)
    assert Figure("messages", 60).rate(hub.rings["orders", "billing"]) == pytest.approx(100)


def test_a_page_that_is_made_while_a_second_is_written_has_the_figures_of_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pages are made by other threads; the rings of twenty thousand topics take a second's good part to write."""
    hub, seen = Hub(), []
    for index in range(10):
        feed(hub, START_S + index, messages=1000 + 50 * index, depth=7 + index)
    write = Rings.write

    def read_and_write(rings: Rings, *args: Any) -> None:
        for one in (hub.rings["orders", "billing"], hub.rings[TOTAL]):
            seen.append((one.newest("waiting"), Figure("messages", 5).rate(one)))
        write(rings, *args)

    monkeypatch.setattr(Rings, "write", read_and_write)
    feed(hub, START_S + 10, messages=1500, depth=17)
    assert len(seen) == 6
    assert seen == [(16, pytest.approx(50))] * 6


def test_first_figures_count_from_where_they_are() -> None:
    hub = Hub()
    feed(hub, START_S, messages=1_000_000)
    rings = hub.rings["orders", "billing"]
    assert Figure("messages", 5).rate(rings) is None, "one look is no rate"
    feed(hub, START_S + 1, messages=1_000_001)
    assert Figure("messages", 5).rate(rings) == pytest.approx(1)


def test_a_new_topic_counts_from_nothing() -> None:
    hub = Hub()
    hub.write(snapshot(second=START_S))
    feed(hub, START_S + 1, messages=7)
    assert Figure("messages", 60).count(hub.rings[TOTAL]) == 7


def test_a_second_without_a_snapshot_is_a_gap_of_gauges_and_has_its_share_of_what_was_counted() -> None:
    hub = Hub()
    feed(hub, START_S, messages=0, depth=5)
    feed(hub, START_S + 1, messages=10, depth=5)
    feed(hub, START_S + 5, messages=50, depth=5)
    rings = hub.rings["orders", "billing"]
    assert rings.series("depth")[-6:] == [5, 5, None, None, None, 5]
    assert rings.series("messages")[-6:] == [None, 10, 10, 10, 10, 10]
    assert Figure("messages", 60).rate(rings) == pytest.approx(10)


def test_a_counter_that_starts_again_never_gives_a_negative_rate() -> None:
    hub = Hub()
    feed(hub, START_S, messages=5_000)
    feed(hub, START_S + 1, messages=5_100)
    feed(hub, START_S + 2, messages=20)
    feed(hub, START_S + 3, messages=40)
    assert hub.rings["orders", "billing"].series("messages")[-3:] == [100, 20, 20]


def test_deleting_a_channel_takes_nothing_from_the_sums() -> None:
    hub = Hub()
    both = (channel("orders", "a", finish_count=100), channel("orders", "b", finish_count=900))
    hub.write(snapshot(topic("orders", *both), second=START_S))
    hub.write(snapshot(topic("orders", channel("orders", "a", finish_count=110)), second=START_S + 1))
    assert FINISHED_MIN.count(hub.rings["orders", ""]) == 10
    assert FINISHED_MIN.count(hub.rings[TOTAL]) == 10
    assert ("orders", "b") not in hub.rings, "its fifteen minutes are forgotten with it"


def test_a_channel_beyond_the_limit_has_no_rings_and_its_gauges_are_in_the_totals() -> None:
    hub = Hub(rings_max=2)
    channels = [channel("orders", name, depth=5, in_flight_count=3, deferred_count=1) for name in ("a", "b", "c")]
    hub.write(snapshot(topic("orders", *channels), second=START_S))
    assert hub.rings.keys() == {("orders", "a"), ("orders", "b"), TOTAL}
    totals = {name: hub.rings[TOTAL].series(name)[-1] for name in ("waiting", "in_flight", "deferred")}
    assert totals == {"waiting": 15, "in_flight": 9, "deferred": 3}


def test_a_column_takes_the_bytes_that_its_figures_need_and_keeps_them_all() -> None:
    hub = Hub()
    depths = [7, 7, 8, 300, 70_000, 5 * 10**9, 6]
    widths = []
    for second, depth in enumerate(depths):
        feed(hub, START_S + second, messages=0, depth=depth)
        rings = hub.rings["orders", "billing"]
        widths.append((rings.bytes - RING_BYTES_MIN) // SECONDS)
        assert rings.series("depth")[-second - 1 :] == depths[: second + 1]
        assert rings.newest("depth") == rings.newest("waiting") == depth
    # Beside the depth, its jumps: nothing came or went, so an act made each of them. These have a sign.
    assert widths[:2] == [0, 0]
    assert widths[2:] == sorted(widths[2:])
    assert widths[-1] == 8 + 8


def test_a_sum_that_has_grown_for_long_starts_again_from_what_is_kept() -> None:
    hub = Hub()
    feed(hub, START_S, messages=0)
    for second in range(1, SECONDS + 60):
        feed(hub, START_S + second, messages=(1 << 32) - SECONDS - 50 + second)
        if second > SECONDS + 40:
            assert Figure("messages", 60).count(hub.rings["orders", "billing"]) == 60
            assert hub.rings["orders", "billing"].series("messages")[1:] == [1] * (SECONDS - 1)
    assert hub.rings["orders", "billing"].bytes == RING_BYTES_MIN + 2 * SECONDS, "two bytes a second, not eight"


def test_figures_beyond_eight_bytes_count_as_the_greatest_and_no_other_topic_lacks_its_second() -> None:
    """Sums over nodes may be: one node with absurd counts stopped all pages."""
    hub = Hub()
    most = (1 << 63) - 1
    for second, count in enumerate((1, most, 2, 3 * most, 5, 6)):
        channels = [channel("orders", name, depth=count, message_count=count) for name in ("a", "b", "c")]
        hub.write(
            snapshot(
                topic("orders", *channels, message_count=count), topic("sane", depth=second), second=START_S + second
            )
        )
        assert hub.live is not None
        assert hub.live.rings["sane", ""].newest("depth") == second
        assert hub.rings["orders", "a"].newest("depth") == min(count, most)
        assert hub.rings[TOTAL].newest("waiting") == min(3 * count + second, most)


def test_rings_beyond_their_budget_are_those_that_came_last() -> None:
    hub = Hub(bytes_max=4 * RING_BYTES_MIN + 100)
    names = ("a", "b", "c")
    for second in range(3):
        channels = [channel("orders", name, depth=5 + second) for name in (names if second else names[:1])]
        hub.write(snapshot(topic("orders", *channels), second=START_S + second))
        assert hub.rings_bytes <= 4 * RING_BYTES_MIN + 100
        assert sum(rings.bytes for rings in hub.rings.values()) == hub.rings_bytes
    assert TOTAL in hub.rings
    assert ("orders", "c") not in hub.rings
    assert hub.rings[TOTAL].newest("waiting") == 21, "what has no rings is counted in the totals"


def test_only_fifteen_minutes_are_kept() -> None:
    hub = Hub()
    for index in range(SECONDS + 30):
        feed(hub, START_S + index, messages=index, depth=index)
    series = hub.rings["orders", "billing"].series("depth")
    assert len(series) == SECONDS
    assert (series[0], series[-1]) == (30, SECONDS + 29)


def test_sparkline_has_a_bucket_for_fifteen_seconds() -> None:
    hub = Hub()
    for index in range(SPARK_BUCKET_S * 3):
        feed(hub, START_S + index, messages=0, depth=index)
    values = hub.rings["orders", "billing"].spark_values()
    assert len(values) == SPARK_BUCKETS
    assert values[-1] == SPARK_BUCKET_S * 3 - 1


def test_a_clock_set_back_begins_anew() -> None:
    hub = Hub()
    for index in range(5):
        feed(hub, START_S + index, messages=index * 10, depth=1)
    feed(hub, START_S - 100, messages=50, depth=2)
    series = hub.rings["orders", "billing"].series("depth")
    assert series[-1] == 2
    assert set(series[:-1]) == {None}


def test_figures_of_the_same_second_only_renew_the_reading() -> None:
    clock = Clock()
    assert clock.accept(START_S) == (START_S, range(0))
    assert clock.accept(START_S + 0.05) is None


def test_a_pause_is_a_span_of_the_seconds_that_had_it() -> None:
    hub = Hub()
    feed(hub, START_S, messages=0)
    feed(hub, START_S + 1, messages=0, paused=True)
    feed(hub, START_S + 2, messages=0, paused=True)
    feed(hub, START_S + 3, messages=0)
    series = hub.rings["orders", "billing"].series("paused")
    assert spans(series, START_S + 3) == [(START_S + 1, START_S + 3)]


def test_a_gap_neither_ends_nor_begins_a_pause() -> None:
    assert spans([0, 1, None, 1, 0, None, 1], 106) == [(101, 104), (106, 106)]
