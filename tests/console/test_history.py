"""The past of the graphs: real tables, joined to real live seconds."""

import math
import random
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import duckdb
import numpy as np
import orjson
import pytest
from django.test import Client

from admin_console.cluster.cluster import get_cluster
from admin_console.gateway.gateway import get_gateway
from admin_console.gateway.history import HistoryUnreadableError, LakeHistory, value_ms_of
from admin_console.history.points import floats, numbered, of_all_nodes, shares_of
from admin_console.history.ranges import DAY_S, HOUR_S, Range, RangeError, range_of, worded
from admin_console.history.series import History, channel_history, overview_history, topic_history
from admin_console.history.store import HistoryStore, Part, store_of
from admin_console.history.table import table_of
from admin_console.hub.hub import Hub, LiveState
from admin_console.screens.build import Request
from admin_console.vocabulary.current_cluster import in_cluster
from admin_console.vocabulary.roles import Role
from admin_console.vocabulary.times import column_time
from queue_engine.service.runner import EngineRunner
from queue_engine.vocabulary.latency.latency_buckets import bucket_of
from tests.support.fake_nsqd import FakeNsqd
from tests.support.fake_nsqd import channel as fake_channel
from tests.support.fake_nsqd import topic as fake_topic
from tests.support.lakes.history_lake import HistoryLake, window
from tests.support.pages.clusters import OWN, HubOfCluster, nsqd
from tests.support.pages.console import client_of, console_engine, make_user, see
from tests.support.pages.snapshots import START_S, channel, snapshot, topic
from tests.support.waiting import wait_for

NOW_S = START_S // DAY_S * DAY_S + 10 * HOUR_S  # ten in the morning, UTC
ORDERS = ("orders", "billing")


@pytest.fixture
def lake(tmp_path: Path) -> HistoryLake:
    return HistoryLake(tmp_path)


@pytest.fixture
def source(tmp_path: Path) -> Iterator[LakeHistory]:
    found = LakeHistory(str(tmp_path / "pipeline"))
    yield found
    store_of(found).close()


def of_node(name: str) -> Range:
    return range_of({"range": "1h", "node": name}, NOW_S)


def shown(
    source: LakeHistory, asked: str | Range, live: LiveState | None = None, names: tuple[str, str] = ORDERS
) -> History:
    """The history of a channel over a preset or a range, as of NOW_S."""
    span = range_of({"range": asked}, NOW_S) if isinstance(asked, str) else asked
    return channel_history(source, live, *names, span)


def between(first_s: int, end_s: int) -> Range:
    return Range("", first_s, end_s, False)


def values(found: History, column: str) -> dict[int, float]:
    """Time → value, of the points that are known."""
    return {
        at: float(value) for at, value in zip(found.times, found.columns[column], strict=True) if not math.isnan(value)
    }


# Ranges.


def test_presets_end_now_and_a_span_is_taken_as_utc() -> None:
    assert range_of({}, NOW_S).is_live
    six = range_of({"range": "6h"}, NOW_S)
    assert (six.first_s, six.end_s, six.grows, six.is_live) == (NOW_S - 6 * HOUR_S, NOW_S, True, False)
    span = range_of({"from": "2025-06-10T08:00Z", "to": "2025-06-10T10:30"}, NOW_S)
    assert (span.span_s, span.grows) == (9_000, False)
    assert span == range_of({"from": "2025-06-10T10:00+02:00", "to": "2025-06-10T10:30Z"}, NOW_S)
    open_end = range_of({"from": worded(NOW_S - HOUR_S)[:16]}, NOW_S)
    assert (open_end.span_s, open_end.grows) == (HOUR_S, True)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"range": "5h"}, "range '5h' is not one of 15m, 1h, 6h, 24h, 7d, 30d"),
        ({"range": "x" * 100}, "range 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…' is not one of"),
        ({"range": "1h", "from": "2025-06-10"}, "range '1h' is given together with from or to"),
        ({"to": "2025-06-10T10:00Z"}, "to '2025-06-10T10:00Z' needs a from"),
        ({"from": "yesterday"}, "from 'yesterday' is not a time such as"),
        ({"from": "2025-06-10T10:00Z", "to": "'; DROP TABLE"}, 'to "\'; DROP TABLE" is not a time such as'),
        ({"from": "2025-06-11T10:00Z", "to": "2025-06-10T10:00Z"}, "is not before to '2025-06-10T10:00Z'"),
        ({"from": "2025-06-10T10:00Z", "to": "2025-06-10T10:00Z"}, "is not before to"),
        ({"from": "2025-06-10T10:00:00Z", "to": "2025-06-10T10:00:30Z"}, "30 s before the end: the shortest range"),
        ({"from": "2024-05-01T00:00Z", "to": "2025-06-10T00:00Z"}, "405 days before the end: the longest range is 400"),
        ({"from": "0001-01-01"}, "the longest range is 400 days"),
        ({"from": "0001-01-01T00:00+14:00", "to": "0001-01-01T00:00Z"}, "is not a time such as"),
        ({"from": "2025-06-10", "to": "9999-12-31T23:59-14:00"}, "is not a time such as"),
        ({"from": "2026-01-01T00:00Z"}, "from '2026-01-01T00:00Z' lies ahead"),
        ({"node": "x" * 301}, "node 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…' has more than 300 characters"),
    ],
)
def test_what_is_no_range_is_refused_with_its_value_and_limit(asked: dict[str, str], words: str) -> None:
    with pytest.raises(RangeError) as caught:
        range_of(asked, NOW_S)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("span_s", "level", "step_s", "points"),
    [
        (HOUR_S, "minutes", 60, 60),
        (DAY_S, "minutes", 60, 1440),
        (2 * DAY_S, "minutes", 120, 1440),
        (3 * DAY_S, "minutes", 180, 1440),
        (7 * DAY_S, "hours", HOUR_S, 168),
        (30 * DAY_S, "hours", HOUR_S, 720),
        (90 * DAY_S, "hours", 2 * HOUR_S, 1080),
        (400 * DAY_S, "hours", 7 * HOUR_S, 1372),
    ],
)
def test_a_line_has_at_most_fifteen_hundred_points(span_s: int, level: str, step_s: int, points: int) -> None:
    span = between(NOW_S - span_s, NOW_S)
    assert span.level() == level
    assert span.step_s(level) == step_s
    assert -(-span_s // step_s) == points


# Points.


def test_gauges_are_averages_with_their_least_and_most_and_counters_rates(
    lake: HistoryLake, source: LakeHistory
) -> None:
    first_s = NOW_S - HOUR_S
    rows = [window(t, *ORDERS, depth=(1, 99, 10), messages=120, finished=60) for t in range(first_s, NOW_S, 60)]
    lake.add("minutes", rows)
    found = shown(source, "1h")
    assert found.step_s == 60
    assert found.times == list(range(first_s, NOW_S, 60))
    assert set(found.columns["depth"]) == {10.0}
    low, high = found.band["depth"]
    assert (set(low), set(high)) == ({1.0}, {99.0})
    assert set(found.columns["received"]) == {2.0}
    assert set(found.columns["finished"]) == {1.0}
    assert "received" not in found.band
    assert found.notice == ""


def test_a_window_that_nobody_recorded_is_a_gap_and_never_zero(lake: HistoryLake, source: LakeHistory) -> None:
    first_s = NOW_S - HOUR_S
    kept = [t for t in range(first_s, NOW_S, 60) if not first_s + 600 <= t < first_s + 900]
    lake.add("minutes", [window(t, *ORDERS, depth=7.0, messages=60) for t in kept])
    found = shown(source, "1h")
    assert list(values(found, "depth")) == kept
    assert list(values(found, "received")) == kept
    wire = orjson.loads(orjson.dumps(found.wire(), option=orjson.OPT_SERIALIZE_NUMPY))
    assert wire["columns"]["depth"][9:16] == [7.0, None, None, None, None, None, 7.0]
    assert wire["band"]["depth"][1][10] is None
    assert len(wire["times"]) == 60, "a missing window still has its place"


def test_a_gauge_that_was_not_measured_is_unknown(lake: HistoryLake, source: LakeHistory) -> None:
    lake.add(
        "minutes", [window(NOW_S - 120, *ORDERS, depth=(None, None, None)), window(NOW_S - 60, *ORDERS, depth=4.0)]
    )
    assert values(shown(source, "1h"), "depth") == {NOW_S - 60: 4.0}


def test_windows_are_gathered_by_their_samples_and_rates_by_their_length(
    lake: HistoryLake, source: LakeHistory
) -> None:
    """Two days, two minutes a point: a minute with one sample of six weighs as one, its messages all count."""
    first_s = NOW_S - 2 * DAY_S
    lake.add(
        "minutes",
        [
            window(first_s, *ORDERS, samples=6, depth=(0, 20, 10), messages=600),
            window(first_s + 60, *ORDERS, samples=1, depth=(80, 80, 80), messages=60),
            window(first_s + 240, *ORDERS, samples=6, depth=3.0, messages=60),
        ],
    )
    found = shown(source, between(first_s, NOW_S))
    assert found.step_s == 120
    assert values(found, "depth") == {first_s: pytest.approx(20.0), first_s + 240: 3.0}
    assert [found.band["depth"][0][0], found.band["depth"][1][0]] == [0.0, 80.0]
    # Of the second point one minute was recorded: the rate is that of this minute.
    assert values(found, "received") == {first_s: pytest.approx(5.5), first_s + 240: pytest.approx(1.0)}


def test_nodes_are_added_up(lake: HistoryLake, source: LakeHistory) -> None:
    at = NOW_S - 120
    lake.add(
        "minutes",
        [
            window(at, *ORDERS, node="one", depth=(1, 5, 3), messages=60),
            window(at, *ORDERS, node="two", depth=(10, 50, 30), messages=120),
        ],
    )
    found = shown(source, "1h")
    assert values(found, "depth") == {at: 33.0}
    assert values(found, "received") == {at: 3.0}
    assert found.band["depth"][1][found.times.index(at)] == 55.0


def test_a_range_of_one_node_has_its_windows_alone(lake: HistoryLake, source: LakeHistory) -> None:
    at = NOW_S - 120
    latency = [{"b": 100, "n": 5}]
    lake.add(
        "minutes",
        [
            window(at, *ORDERS, node="here", depth=3.0, messages=60, latency=[{"b": 9, "n": 50}]),
            window(
                at, *ORDERS, node="nsq-b2:4151", depth=(10, 50, 30), messages=120, paused_samples=1, latency=latency
            ),
            window(at, "other", "channel", node="nsq-c1:4151"),
        ],
    )
    both = shown(source, "1h")
    assert (both.nodes, both.wire()["node"]) == (("here", "nsq-b2:4151"), "")
    live = live_after(60, last_s=NOW_S - 1, depth=7)
    found = shown(source, of_node("nsq-b2:4151"), live)
    assert (found.nodes, found.wire()["node"]) == (("nsq-b2:4151",), "nsq-b2:4151")
    # The live seconds are of all nodes: it has none of them.
    assert values(found, "depth") == {at: 30.0}
    assert values(found, "received") == {at: 2.0}
    assert values(found, "p50") == {at: pytest.approx(value_ms_of(100))}
    assert (found.paused, found.newest) == ([(at, at + 60)], None)
    assert not range_of({"node": "here"}, NOW_S).is_live, "its last fifteen minutes are those of the history"
    none = shown(source, of_node("' OR 1=1 --"))
    assert (values(none, "depth"), none.notice) == ({}, "nothing")


def test_a_page_of_several_nodes_has_a_line_for_each_that_goes_on_with_its_live_seconds(
    lake: HistoryLake, tmp_path: Path
) -> None:
    source = LakeHistory(str(tmp_path / "pipeline"), "here")
    until_s = NOW_S - 180
    steps = range(until_s - HOUR_S, until_s, 60)
    rows = [window(t, *ORDERS, node="here", waiting=3.0, depth=3.0, finished=60) for t in steps]
    rows += [window(t, *ORDERS, node="nsq-a:4151", waiting=40.0, depth=40.0, finished=120) for t in steps]
    lake.add("minutes", rows)
    cluster = HubOfCluster()
    cluster.hub.node_rings.watch(*ORDERS)
    for second in range(NOW_S - 200, NOW_S):
        billing = fake_channel("billing", depth=50, message_count=100)
        own = snapshot(topic("orders", channel(*ORDERS, depth=4)), second=second)
        live = cluster.see(own, nsqd("nsq-a", fake_topic("orders", billing), second=second))
    found = shown(source, "1h", live)
    assert found.graphs["depth_nodes"] == [f"waiting@{OWN}", "waiting@nsq-a:4151"]
    assert found.graphs["rate_nodes"] == [f"finished@{OWN}", "finished@nsq-a:4151"]
    assert found.labels["waiting@nsq-a:4151"] == "nsq-a:4151"
    own_line, other_line = values(found, f"waiting@{OWN}"), values(found, "waiting@nsq-a:4151")
    assert list(own_line) == list(other_line) == list(range(NOW_S - HOUR_S, NOW_S, 60))
    assert own_line == {t: 3.0 if t < until_s else 4.0 for t in own_line}
    assert other_line == {t: 40.0 if t < until_s else 50.0 for t in other_line}
    assert values(found, "depth") == {t: 43.0 if t < until_s else 54.0 for t in own_line}
    assert values(found, "finished@nsq-a:4151")[NOW_S - HOUR_S] == 2.0
    # One node alone has its own seconds, and no line for each.
    one = shown(source, of_node("nsq-a:4151"), live)
    assert values(one, "depth") == other_line
    assert "depth_nodes" not in one.graphs
    assert "depth_nodes" not in shown(source, of_node("here"), live).graphs
    assert values(shown(source, of_node("here"), live), "depth") == own_line
    store_of(source).close()


def test_beyond_eight_nodes_the_others_are_one_line_of_their_sum(lake: HistoryLake, source: LakeHistory) -> None:
    at = NOW_S - 120
    lake.add("minutes", [window(at, *ORDERS, node=f"n{n}:1", waiting=float(n), messages=60 * n) for n in range(1, 11)])
    found = shown(source, "1h")
    assert found.graphs["depth_nodes"] == [*sorted(f"waiting@n{n}:1" for n in range(3, 11)), "waiting@"]
    assert found.labels["waiting@"] == "2 others"
    assert values(found, "waiting@") == {at: 3.0}


def test_live_seconds_that_lack_a_node_s_part_are_partial(lake: HistoryLake, source: LakeHistory) -> None:
    lake.add("minutes", [window(NOW_S - 600, *ORDERS)])
    cluster = HubOfCluster()
    for second in range(NOW_S - 30, NOW_S):
        silent_since = NOW_S - 20 if second >= NOW_S - 20 else 0
        own = snapshot(topic("orders", channel(*ORDERS)), second=second)
        other = nsqd("nsq-a", fake_topic("orders", fake_channel("billing")), second=second, silent_since=silent_since)
        live = cluster.see(own, other)
    assert shown(source, "1h", live).partial == [(NOW_S - 20, NOW_S)]
    assert shown(source, of_node("nsq-a:4151"), live).partial == []


def test_of_several_nodes_counts_are_added_up_and_of_ages_the_greatest_is_taken(
    lake: HistoryLake, source: LakeHistory
) -> None:
    at = NOW_S - 120
    rows = [
        window(at, *ORDERS, node="a:1", oldest_age_ms=(5, 9, 7)),
        window(at, *ORDERS, node="b:1", oldest_age_ms=(1, 80, 70)),
        window(at, *ORDERS, node="c:1", oldest_age_ms=(None, None, None)),
        window(at + 60, *ORDERS, node="c:1", oldest_age_ms=(None, None, None)),
    ]
    lake.add("minutes", rows)
    names = ["samples", *(f"oldest_age_ms_{kind}" for kind in ("min", "max", "avg"))]
    found = store_of(source).windows(*ORDERS, names, [Part("minutes", at, NOW_S)])
    assert found is not None
    made = {name: floats(column).tolist() for name, column in of_all_nodes(found).items()}
    assert made["samples"] == [6, 6]
    assert [made[name][0] for name in names[1:]] == [5, 80, 70]
    assert math.isnan(made["oldest_age_ms_avg"][1])


@pytest.mark.parametrize("level", ["minutes", "hours"])
def test_a_node_that_comes_goes_or_has_a_new_name_within_a_window_counts_for_its_samples(
    lake: HistoryLake, source: LakeHistory, level: str
) -> None:
    step_s, whole = (60, 6) if level == "minutes" else (HOUR_S, 360)
    first_s = NOW_S // DAY_S * DAY_S - 20 * step_s
    names = (ORDERS, ("", "")) if level == "minutes" else (ORDERS,)
    rows = []
    for node, first, end, samples_first, samples_last in (
        ("stays:1", 0, 20, whole, whole),
        ("old:1", 0, 6, whole, whole // 6),
        ("new:1", 5, 20, whole - whole // 6, whole),
        ("late:1", 10, 20, whole // 3, whole),
    ):
        for index in range(first, end):
            samples = samples_first if index == first else samples_last if index == end - 1 else whole
            given: dict[str, Any] = {"samples": samples, "depth": (50, 150, 100), "messages": 10 * samples}
            rows += [window(first_s + index * step_s, *of, node=node, **given) for of in names]
    lake.add(level, rows)
    if level == "hours":
        lake.add("minutes", [window(NOW_S - HOUR_S, "other")])
    found = shown(source, between(first_s, first_s + 20 * step_s if level == "minutes" else NOW_S))
    depth = {(t - first_s) // step_s: value for t, value in values(found, "depth").items()}
    assert found.step_s == step_s
    assert depth == {
        index: pytest.approx(200.0 if index < 10 else 200.0 + 100 / 3 if index == 10 else 300.0) for index in range(20)
    }
    assert found.band["depth"][0][found.times.index(first_s + 5 * step_s)] == pytest.approx(100.0)
    received = sum(found.columns["received"][~np.isnan(found.columns["received"])] * step_s)
    assert received == pytest.approx(sum(row["messages"] for row in rows if row["topic"])), "counts are as recorded"


@pytest.mark.parametrize(
    ("samples", "depths"),
    [
        pytest.param(
            {"stays": (120, 120, 60, 120), "ends": (120, 120, 60)},
            (200, 200, 200, 100),
            id="the server was down for half of the hour in which a node ends",
        ),
        pytest.param(
            {"stays": (120, 120, 60, 120), "begins": (0, 0, 60, 120)},
            (100, 100, 200, 200),
            id="the server was down for half of the hour in which a node begins",
        ),
        pytest.param({"stays": (120,) * 3, "pod": (0, 20)}, (100, 100 + 100 / 6, 100), id="a pod of ten minutes"),
        pytest.param(
            {"stays": (120,) * 4, "pod": (0, 20, 20)},
            (100, 100 + 100 / 6, 100 + 100 / 6, 100),
            id="a pod of ten minutes in each of two hours",
        ),
        pytest.param(
            {"here": (360,) * 3, "pod": (0, 20)}, (100, 100 + 100 / 6, 100), id="a pod beside this server's own pace"
        ),
        pytest.param(
            {"here": (360, 360, 180, 360), "ends": (120, 120, 60)},
            (200, 200, 200, 100),
            id="this server was down for half of the hour in which the only other node ends",
        ),
        pytest.param({"old": (120, 20), "new": (0, 100, 120)}, (100, 100, 100), id="the only node has a new name"),
        pytest.param(
            {"old": (120, 40), "pod": (0, 40), "new": (0, 40, 120)},
            (100, 100, 100),
            id="the only node has two new names in an hour",
        ),
        pytest.param(
            {"old": (120, 20), "new": (0, 100, 120), "other-old": (120, 100), "other-new": (0, 20, 120)},
            (200, 200, 200),
            id="two nodes have new names, at other times",
        ),
        pytest.param(
            {"stays": (120, 120, 120), "old": (20,), "new": (100, 120, 120)},
            (200 + 100 / 6, 200, 200),
            id="a node ends in the first hour of the range",
        ),
        pytest.param(
            {"here": (360, 360, 60, 60), "stays": (120, 120, 60, 60), "ends": (120, 120, 30)},
            (300, 300, 250, 200),
            id="the interval of samples became longer",
        ),
        pytest.param(
            {"here-before": (360, 360, 60), "here": (0, 0, 300, 360), "stays": (120,) * 4},
            (200, 200, 200, 200),
            id="this server has a new name",
        ),
    ],
)
def test_a_node_counts_for_its_share_of_the_recorded_time(
    samples: dict[str, tuple[int, ...]], depths: tuple[float, ...]
) -> None:
    """samples: of each node in the hours of the range; 0: it has no row."""
    rows = [(hour, name, one) for name, of_node in samples.items() for hour, one in enumerate(of_node) if one]
    hours, names, counts = (np.array(column) for column in zip(*rows, strict=True))
    windows = {
        "t": hours * HOUR_S,
        "window_s": np.full(len(rows), HOUR_S),
        "samples": counts,
        "depth_avg": np.full(len(rows), 100.0),
    }
    found = of_all_nodes(windows, shares_of(windows, numbered(names)[1]))
    assert found["depth_avg"].tolist() == pytest.approx(depths)


def test_where_a_node_is_missing_between_its_windows_a_sum_is_partial(lake: HistoryLake, source: LakeHistory) -> None:
    first_s = NOW_S - HOUR_S
    steps = range(first_s, NOW_S, 60)
    silent = (first_s + 600, first_s + 660)
    rows = [window(t, *names, node="here") for t in steps for names in (ORDERS, ("", ""))]
    rows += [window(t, node="b:1") for t in steps if t not in silent]
    # It had the topic for a while: without it a node is still recorded, and misses nothing.
    rows += [window(t, *ORDERS, node="b:1") for t in steps if t not in silent and t % 300 == 0]
    # This one came late, has no such topic, and was silent, too.
    rows += [window(t, node="c:1") for t in steps if t > first_s + 1_200 and t != first_s + 1_800]
    lake.add("minutes", rows)
    found = shown(source, "1h")
    assert found.partial == [(first_s + 600, first_s + 720)]
    assert found.wire()["partial"] == found.partial
    assert shown(source, of_node("b:1")).partial == []
    everything = overview_history(source, None, range_of({"range": "1h"}, NOW_S))
    assert everything.partial == [(first_s + 600, first_s + 720), (first_s + 1_800, first_s + 1_860)]


def test_a_zoom_into_the_silence_of_a_node_is_partial_as_the_range_around_it(
    lake: HistoryLake, source: LakeHistory
) -> None:
    first_s, until_s = NOW_S - 7 * HOUR_S, NOW_S - HOUR_S
    silent = range(first_s + HOUR_S, first_s + 2 * HOUR_S)
    steps = range(first_s, until_s, 60)
    rows = [window(t, *names, node="here") for t in steps for names in (ORDERS, ("", ""))]
    rows += [window(t, *names, node="b:1") for t in steps if t not in silent for names in (ORDERS, ("", ""))]
    rows += [window(first_s - HOUR_S, node="without-the-topic:1"), window(until_s, node="without-the-topic:1")]
    lake.add("minutes", rows)
    live = see_cluster(NOW_S - 30)
    for span in (
        between(first_s, NOW_S),
        between(silent.start, silent.stop),
        between(silent.start + 600, silent.stop - 600),
        between(silent.start + 600, silent.stop + 600),
    ):
        hatched = [(max(silent.start, span.first_s), min(silent.stop, span.end_s))]
        assert shown(source, span, live).partial == hatched
        # Of the totals, in each minute, the other node is missing, too.
        assert overview_history(source, live, span).partial == [(span.first_s, min(span.end_s, until_s))]


def test_a_node_that_does_not_answer_is_missing_since_its_last_window(lake: HistoryLake, source: LakeHistory) -> None:
    first_s, until_s = NOW_S - 2 * HOUR_S, NOW_S - 600
    steps = range(first_s, until_s, 60)
    rows = [window(t, *names, node="here") for t in steps for names in (ORDERS, ("", ""))]
    for node in ("nsq-a:4151", "deleted:4151"):
        rows += [window(t, *names, node=node) for t in steps[:60] for names in (ORDERS, ("", ""))]
    lake.add("minutes", rows)
    span = between(first_s, until_s)
    assert shown(source, span, see_cluster(NOW_S - 30)).partial == []
    live = see_cluster(NOW_S - 30, silent_since=NOW_S - HOUR_S)
    assert shown(source, span, live).partial == [(first_s + HOUR_S, until_s)]


def see_cluster(second: int, *, silent_since: int = 0) -> LiveState:
    """This server's engine and an nsqd, which may be silent."""
    other = nsqd("nsq-a", fake_topic("orders", fake_channel("billing")), second=second, silent_since=silent_since)
    return HubOfCluster().see(snapshot(topic("orders", channel(*ORDERS)), second=second), other)


def test_the_channels_that_held_most_are_those_of_all_nodes_together(lake: HistoryLake, source: LakeHistory) -> None:
    at = NOW_S - 120
    rows = [window(at, "orders", name, node="a:1", waiting=50.0) for name in ("one", "two", "three", "four")]
    rows += [window(at, "orders", "spread", node=node, waiting=30.0) for node in ("a:1", "b:1")]
    lake.add("minutes", rows)
    parts = [Part("minutes", at, NOW_S)]
    assert store_of(source).deepest(1, parts) == [("orders", "spread")]
    assert store_of(source).deepest(9, parts, "b:1") == [("orders", "spread")]


def test_a_cluster_has_the_windows_of_its_own_nodes_also_where_another_has_their_names(
    lake: HistoryLake, tmp_path: Path
) -> None:
    minute_s = NOW_S - 600
    rows = []
    for node, depth in (("nsq-a:4151", 1), ("nsq-b:4151", 2), ("prod/nsq-a:4151", 10), ("prod/nsq-c:4151", 20)):
        latency = [{"b": bucket_of(1.0), "n": depth}]
        rows += [
            window(minute_s, *names, node=node, depth=depth, waiting=depth, latency=latency)
            for names in ((), ("orders",), ORDERS)
        ]
    rows.append(window(minute_s, "secret", "of-prod", node="prod/nsq-a:4151", waiting=99))
    lake.add("minutes", rows)
    lake.add("hours", [window(minute_s // HOUR_S * HOUR_S)])
    parts = (Part("minutes", minute_s, NOW_S),)
    found = {}
    for cluster in ("", "prod", "staging"):
        with in_cluster(cluster):
            source = LakeHistory(str(tmp_path / "pipeline"))
            history, one = shown(source, "1h"), shown(source, of_node("nsq-a:4151"))
            store = store_of(source)
            latencies, totals = store.latencies(*ORDERS, parts), store.windows("", "", ["node"], parts)
            assert latencies is not None
            assert totals is not None
            assert latencies[1] == {*history.nodes}
            assert {*store.nodes(*ORDERS, parts)} == {*history.nodes}
            found[cluster] = (
                history.nodes,
                float(np.nansum(history.columns["depth"])),
                float(np.nansum(one.columns["depth"])),
                [*numbered(totals["node"])[0]],
                store.deepest(5, parts),
                store.deepest(5, parts, "nsq-a:4151"),
                int(sum(latencies[0]["n"])),
            )
            store.close()
    both = [("secret", "of-prod"), ORDERS]
    assert found == {
        "": (("nsq-a:4151", "nsq-b:4151"), 3, 1, ["nsq-a:4151", "nsq-b:4151"], [ORDERS], [ORDERS], 3),
        "prod": (
            ("nsq-a:4151", "nsq-c:4151"),
            30,
            10,
            ["nsq-a:4151", "nsq-c:4151"],
            both,
            both,
            30,
        ),
        "staging": ((), 0, 0, [], [], [], 0),
    }


def test_percentiles_are_nearest_ranks_of_the_summed_histograms(lake: HistoryLake, source: LakeHistory) -> None:
    rng = random.Random(7)
    first_s = NOW_S - 2 * DAY_S
    rows, waits_ms = [], []
    for t in (first_s, first_s + 60):
        own = [rng.lognormvariate(4, 1.5) for _ in range(333)]
        counts: dict[int, int] = {}
        for ms in own:
            counts[bucket_of(round(ms * 1e6))] = counts.get(bucket_of(round(ms * 1e6)), 0) + 1
        rows.append(window(t, *ORDERS, latency=[{"b": b, "n": n} for b, n in sorted(counts.items())]))
        waits_ms += own
    lake.add("minutes", [*rows, window(first_s + 120, *ORDERS)])
    found = shown(source, between(first_s, NOW_S))
    waits_ms.sort()
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        exact = waits_ms[math.ceil(share * len(waits_ms)) - 1]
        assert values(found, name) == {first_s: pytest.approx(value_ms_of(bucket_of(round(exact * 1e6))))}
        assert values(found, name)[first_s] == pytest.approx(exact, rel=0.021)
    assert found.graphs["latency"] == ["p50", "p95", "p99"]


def test_percentiles_without_the_messages_of_an_nsqd_have_the_number_of_their_nodes(
    lake: HistoryLake, source: LakeHistory
) -> None:
    at, latency = NOW_S - 120, [{"b": 100, "n": 5}]
    lake.add("minutes", [window(at, *ORDERS, node=name, finished=5, latency=latency) for name in ("here", "there")])
    assert shown(source, "1h").labels["p50"] == "median"
    lake.add("minutes", [window(at, *ORDERS, node="nsqd:4151", finished=9), window(at, *ORDERS, node="idle:4151")])
    found = shown(source, "1h")
    assert [found.labels[name] for name in found.graphs["latency"]] == [
        "median (2 of 3 nodes)",
        "95 % (2 of 3 nodes)",
        "99 % (2 of 3 nodes)",
    ]
    assert values(found, "p50") == {at: pytest.approx(value_ms_of(100))}
    assert shown(source, of_node("here")).labels["p50"] == "median"
    page = Request("channel", Role.VIEWER, *ORDERS)
    headings = table_of(source, None, page, range_of({"range": "1h"}, NOW_S)).headings
    assert headings[-3:] == tuple(f"{name} latency (2 of 3 nodes)" for name in ("Median", "95 %", "99 %"))


def test_paused_windows_are_spans(lake: HistoryLake, source: LakeHistory) -> None:
    first_s = NOW_S - HOUR_S
    lake.add(
        "minutes",
        [window(t, *ORDERS, paused_samples=int(t in (first_s + 60, first_s + 120))) for t in range(first_s, NOW_S, 60)],
    )
    assert shown(source, "1h").paused == [(first_s + 60, first_s + 180)]


# Files and levels.


def test_a_file_that_no_commit_names_is_not_read(lake: HistoryLake, source: LakeHistory) -> None:
    lake.add("minutes", [window(NOW_S - 600, *ORDERS, depth=1.0)])
    gone = lake.add("minutes", [window(NOW_S - 300, *ORDERS, depth=2.0)])
    assert list(values(shown(source, "1h"), "depth")) == [NOW_S - 600, NOW_S - 300]
    lake.commit("minutes", remove=[gone])
    assert gone.exists()
    assert list(values(shown(source, "1h"), "depth")) == [NOW_S - 600]


def test_hours_go_on_as_minutes_where_they_end(lake: HistoryLake, source: LakeHistory) -> None:
    """The last point of seven days is an hour of which there are ten minutes."""
    day_s = NOW_S // DAY_S * DAY_S
    lake.add("hours", [window(t, *ORDERS, depth=1.0, messages=3_600) for t in range(day_s - 9 * DAY_S, day_s, HOUR_S)])
    lake.add(
        "minutes", [window(t, *ORDERS, depth=(0, 8, 5), messages=120) for t in range(day_s - 600, day_s + 4_200, 60)]
    )
    found = shown(source, "7d")
    depth, received = values(found, "depth"), values(found, "received")
    assert found.step_s == HOUR_S
    assert depth == {t: 1.0 if t < day_s else 5.0 for t in range(NOW_S - 7 * DAY_S, day_s + 4_200, HOUR_S)}
    assert received[day_s - HOUR_S] == 1.0
    assert received[day_s + HOUR_S] == 2.0, "ten minutes at two a second are two a second"


def test_what_is_older_than_minutes_is_shown_in_hours(lake: HistoryLake, source: LakeHistory) -> None:
    old_s = NOW_S - 60 * DAY_S
    lake.add("hours", [window(t, *ORDERS, depth=1.0) for t in range(old_s, NOW_S - 2 * DAY_S, HOUR_S)])
    lake.add("minutes", [window(t, *ORDERS, depth=2.0) for t in range(NOW_S - HOUR_S, NOW_S, 60)])
    assert shown(source, between(old_s + DAY_S, old_s + DAY_S + 6 * HOUR_S)).step_s == HOUR_S
    assert shown(source, "1h").step_s == 60


def test_a_name_from_outside_is_a_value_and_never_sql(lake: HistoryLake, source: LakeHistory) -> None:
    hostile = "x' OR '1'='1"
    lake.add("minutes", [window(NOW_S - 60, *ORDERS, depth=5.0), window(NOW_S - 60, hostile, hostile, depth=9.0)])
    assert values(shown(source, "1h", names=(hostile, hostile)), "depth") == {NOW_S - 60: 9.0}
    assert values(shown(source, "1h", names=("x' OR '1'='1' --", "")), "depth") == {}
    assert values(shown(source, "1h", names=("$first_0", "'; DROP")), "depth") == {}


def test_duckdb_reads_the_history_and_nothing_else(lake: HistoryLake, source: LakeHistory, tmp_path: Path) -> None:
    lake.add("minutes", [window(NOW_S - 60, *ORDERS)])
    beside = tmp_path / "beside.parquet"
    duckdb.execute(f"COPY (SELECT 1 AS a) TO '{beside}'")
    shown(source, "1h")
    connection = store_of(source)._connection
    assert connection is not None
    for forbidden in (
        f"SELECT * FROM read_parquet('{beside}')",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SET threads = 8",
        "SET memory_limit = '8GB'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
        "LOAD httpfs",
    ):
        with pytest.raises(duckdb.Error):
            connection.execute(forbidden)
    settings = dict(connection.execute("SELECT name, value FROM duckdb_settings()").fetchall())
    assert (settings["threads"], settings["autoload_known_extensions"]) == ("1", "false")


def test_a_table_that_changed_under_the_query_is_read_again(lake: HistoryLake, source: LakeHistory) -> None:
    """Compaction replaces fresh files while somebody reads: the second look finds the new ones."""
    old = lake.add("minutes", [window(NOW_S - 60, *ORDERS, depth=1.0)])

    class Late(LakeHistory):
        looks = 0

        def files(self, level: str, first_s: int, end_s: int) -> list[str]:
            self.looks += 1
            if self.looks == 1:
                before = super().files(level, first_s, end_s)
                lake.commit("minutes", remove=[old])
                old.unlink()
                lake.add("minutes", [window(NOW_S - 60, *ORDERS, depth=2.0)])
                return before
            return super().files(level, first_s, end_s)

    late = Late(str(lake.directory.parent))
    rows = HistoryStore(late).windows(*ORDERS, ["depth_avg"], [Part("minutes", NOW_S - HOUR_S, NOW_S)])
    assert rows is not None
    assert list(rows["depth_avg"]) == [2.0]
    assert late.looks == 2


def test_a_file_that_is_gone_for_good_is_told_by_its_name(lake: HistoryLake, source: LakeHistory) -> None:
    path = lake.add("minutes", [window(NOW_S - 60, *ORDERS)])
    path.unlink()
    with pytest.raises(HistoryUnreadableError, match=f"missing: its table names .*{path.name}"):
        shown(source, "1h")


def test_a_damaged_file_and_a_damaged_commit_are_told(lake: HistoryLake, source: LakeHistory) -> None:
    path = lake.add("minutes", [window(NOW_S - 60, *ORDERS)])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(HistoryUnreadableError, match=r"can't be read: .*parquet"):
        shown(source, "1h")
    lake.commit("minutes", remove=[path])
    # A name that is no text: duckdb tells of it in words that are none.
    path = lake.add("minutes", [window(NOW_S - 60, *ORDERS)])
    path.write_bytes(path.read_bytes().replace(b"depth_avg", b"\xb8epth_avg"))
    with pytest.raises(HistoryUnreadableError, match="can't be read"):
        shown(source, "1h")
    (newest,) = (lake.directory / "minutes" / "_delta_log").glob("*00003.json")
    newest.with_name(f"{4:020d}.json").write_bytes(newest.read_bytes()[:-9])
    with pytest.raises(HistoryUnreadableError, match=r"the table .*minutes can't be read: "):
        shown(source, "1h")


# The live edge.


def live_after(
    seconds: int, *, last_s: int, depth: int = 50, per_second: int = 4, paused_from_s: int | None = None
) -> LiveState:
    """What the hub knows after `seconds` seconds up to last_s."""
    hub = Hub()
    for index in range(seconds):
        at = last_s - seconds + 1 + index
        is_paused = paused_from_s is not None and at >= paused_from_s
        billing = channel(*ORDERS, depth=depth, message_count=per_second * index, paused=is_paused)
        hub.write(snapshot(topic("orders", billing, message_count=per_second * index), second=at))
    assert hub.live is not None
    return hub.live


def test_the_newest_part_comes_from_the_live_seconds(lake: HistoryLake, source: LakeHistory) -> None:
    """Recorded until three minutes ago, live for fifteen: no point has both, none is missing."""
    until_s = NOW_S - 180
    lake.add("minutes", [window(t, *ORDERS, depth=10.0, messages=60) for t in range(until_s - HOUR_S, until_s, 60)])
    live = live_after(600, last_s=NOW_S - 1)
    found = shown(source, "1h", live)
    depth, received = values(found, "depth"), values(found, "received")
    assert list(depth) == list(range(NOW_S - HOUR_S, NOW_S, 60))
    assert depth == {t: 10.0 if t < until_s else 50.0 for t in depth}
    assert received == {t: pytest.approx(1.0 if t < until_s else 4.0) for t in depth}
    assert found.newest == NOW_S - 1
    assert found.weights["depth"][-1] == 60.0


def test_a_second_that_the_server_missed_loses_nothing_that_was_counted(lake: HistoryLake, source: LakeHistory) -> None:
    """A burst keeps the server from its snapshots: 600 messages in each minute, all of them while it makes none."""
    until_s = NOW_S - 180
    lake.add("minutes", [window(t, *ORDERS, messages=600) for t in range(until_s - HOUR_S, until_s, 60)])
    hub = Hub()
    for second in range(until_s - 120, NOW_S):
        if second % 60 not in (30, 31, 32):
            count = ((second - until_s) // 60 + (second % 60 >= 30)) * 600
            hub.write(snapshot(topic("orders", channel(*ORDERS, message_count=count)), second=second))
    received = values(shown(source, "1h", hub.live), "received")
    assert received == {t: pytest.approx(10.0) for t in range(NOW_S - HOUR_S, NOW_S, 60)}


def test_a_rollup_that_lags_more_than_the_live_seconds_leaves_a_gap(lake: HistoryLake, source: LakeHistory) -> None:
    until_s = NOW_S - 1_800
    lake.add("minutes", [window(t, *ORDERS, depth=10.0) for t in range(until_s - HOUR_S, until_s, 60)])
    depth = values(shown(source, "1h", live_after(900, last_s=NOW_S - 1)), "depth")
    assert set(depth) == {*range(NOW_S - HOUR_S, until_s, 60), *range(NOW_S - 900, NOW_S, 60)}


def test_a_point_of_recorded_minutes_and_live_seconds_weighs_both_by_their_seconds(
    lake: HistoryLake, source: LakeHistory
) -> None:
    """Of the last hour forty minutes are recorded, ten are live, ten are to come."""
    hour_s = NOW_S
    now_s = hour_s + 3_000
    lake.add("minutes", [window(t, *ORDERS, depth=10.0, messages=60) for t in range(hour_s, hour_s + 2_400, 60)])
    found = shown(source, Range("7d", now_s - 7 * DAY_S, now_s, True), live_after(600, last_s=now_s - 1))
    assert values(found, "depth") == {hour_s: pytest.approx((10 * 2_400 + 50 * 600) / 3_000)}
    # The first live second has nothing before it to be a change of.
    assert values(found, "received") == {hour_s: pytest.approx((2_400 + 4 * 599) / 2_999)}
    assert found.weights["depth"][-1] == 3_000.0
    assert found.band["depth"][1][-1] == 50.0


def test_a_span_in_the_past_has_no_live_second(lake: HistoryLake, source: LakeHistory) -> None:
    live = live_after(600, last_s=NOW_S - 1)
    found = shown(source, between(NOW_S - 7_200, NOW_S - HOUR_S), live)
    assert values(found, "depth") == {}
    assert found.newest is None


def test_a_pause_goes_on_at_the_live_edge(lake: HistoryLake, source: LakeHistory) -> None:
    until_s = NOW_S - 180
    lake.add("minutes", [window(until_s - 60, *ORDERS, paused_samples=6)])
    found = shown(source, "1h", live_after(600, last_s=NOW_S - 1, paused_from_s=NOW_S - 600))
    assert found.paused == [(until_s - 60, NOW_S)]


# What there is not.


def test_without_a_history_the_live_seconds_are_shown_and_why(source: LakeHistory) -> None:
    found = shown(source, "1h", live_after(600, last_s=NOW_S - 1))
    assert found.notice == "never"
    assert list(values(found, "depth")) == list(range(NOW_S - 600, NOW_S, 60))


def test_a_range_before_the_history_says_where_it_begins(lake: HistoryLake, source: LakeHistory) -> None:
    lake.add("minutes", [window(NOW_S - 600, *ORDERS)])
    found = shown(source, between(NOW_S - 7_200, NOW_S - HOUR_S))
    assert (found.notice, found.recorded_from, found.recorded_until) == ("nothing", NOW_S - 600, NOW_S - 540)


# Overview and topic.


def test_the_overview_shows_the_channels_that_held_most_in_the_range(lake: HistoryLake, source: LakeHistory) -> None:
    rows = [
        window(t, "t", f"c{number}", waiting=(0, 10 * number if t == NOW_S - 600 else 0, 0), depth=float(number))
        for t in range(NOW_S - HOUR_S, NOW_S, 60)
        for number in range(7)
    ]
    rows += [window(t, messages=600, finished=300) for t in range(NOW_S - HOUR_S, NOW_S, 60)]
    lake.add("minutes", rows)
    found = overview_history(source, None, range_of({"range": "1h"}, NOW_S))
    assert found.graphs["waiting"] == [f"waiting:t/c{number}" for number in (3, 4, 5, 6)]
    assert set(found.columns["waiting:t/c6"]) == {6.0}
    assert set(found.columns["published"]) == {10.0}
    assert "latency" not in found.graphs


def test_the_channels_that_held_most_are_found_in_the_hours_where_there_are_some(
    lake: HistoryLake, source: LakeHistory
) -> None:
    """A day from half past nine: yesterday has hours, its first half hour and today have minutes."""
    first_s, day_s = NOW_S - DAY_S - HOUR_S // 2, NOW_S // DAY_S * DAY_S
    lake.add("hours", [window(day_s - 2 * HOUR_S, "t", "by-hour", waiting=40.0), window(day_s - 9 * DAY_S)])
    lake.add("hours", [window(day_s - HOUR_S, "t", "small", waiting=1.0)])
    # Of the hour of the range's begin only what lies in the range.
    lake.add("hours", [window(first_s // HOUR_S * HOUR_S, "t", "before", waiting=99.0)])
    lake.add("minutes", [window(day_s - 9 * DAY_S), window(first_s + 60, "t", "first", waiting=30.0)])
    lake.add("minutes", [window(day_s + 60, "t", "today", waiting=20.0), window(day_s + 120, "t", "today")])
    lake.add("minutes", [window(day_s + 60, "t", "least", waiting=0.5), window(NOW_S - 60)])
    found = overview_history(source, None, between(first_s, first_s + DAY_S))
    assert found.graphs["waiting"] == [f"waiting:t/{name}" for name in ("by-hour", "first", "small", "today")]


def test_a_topic_has_its_own_row(lake: HistoryLake, source: LakeHistory) -> None:
    lake.add(
        "minutes", [window(NOW_S - 60, "orders", waiting=12.0, depth=2.0, messages=60), window(NOW_S - 60, *ORDERS)]
    )
    found = topic_history(source, None, "orders", range_of({"range": "1h"}, NOW_S))
    assert values(found, "waiting") == {NOW_S - 60: 12.0}
    assert values(found, "depth") == {NOW_S - 60: 2.0}


# Pages and API, on the real engine.


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineRunner]:
    with console_engine(tmp_path) as runner:
        runner.calls.create_topic("orders").result(30)
        runner.calls.create_channel(*ORDERS).result(30)
        see(runner)
        yield runner


@pytest.fixture
def viewer(db: None) -> Client:
    return client_of(make_user(role=Role.VIEWER))


def recent(lake: HistoryLake, **given: Any) -> int:
    """Two hours of windows up to a few minutes ago, as of now. The last one's time."""
    now_s = int(time.time())
    last_s = now_s // 60 * 60 - 240
    rows = [
        window(t, *names, **given)
        for t in range(last_s - 7_200, last_s + 1, 60)
        for names in (ORDERS, ("orders", ""), ("", ""))
    ]
    lake.add("minutes", rows)
    return last_s


@pytest.mark.usefixtures("engine")
def test_api_answers_columns_for_every_page(lake: HistoryLake, viewer: Client) -> None:
    last_s = recent(lake, depth=3.0, messages=120)
    for path, column in (
        ("/api/history/", "published"),
        ("/api/history/orders/", "published"),
        ("/api/history/orders/billing/", "received"),
    ):
        answer = viewer.get(path, {"range": "1h"})
        assert answer.status_code == 200, answer.content
        found = answer.json()
        assert found["step_s"] == 60
        assert {len(column) for column in found["columns"].values()} == {len(found["times"])}
        assert dict(zip(found["times"], found["columns"][column], strict=True))[last_s] == 2.0
        assert {name for lines in found["graphs"].values() for name in lines} == found["columns"].keys()
        assert found["labels"].keys() == found["columns"].keys()


@pytest.mark.usefixtures("engine")
def test_api_refuses_what_is_no_range_and_tells_what_is_missing(lake: HistoryLake, viewer: Client) -> None:
    refused = viewer.get("/api/history/orders/", {"range": "1y"})
    assert refused.status_code == 400
    assert refused.json() == {
        "ok": False,
        "message": "The range is not valid: range '1y' is not one of 15m, 1h, 6h, 24h, 7d, 30d.",
    }
    assert viewer.post("/api/history/orders/").status_code in (403, 405)
    recent(lake)
    for path in lake.directory.glob("minutes/*/*.parquet"):
        path.unlink()
    missing = viewer.get("/api/history/orders/billing/", {"range": "1h"})
    assert missing.status_code == 503
    assert "A file of the history is missing" in missing.json()["message"]
    assert viewer.get("/topics/orders/billing/?range=1h").status_code == 200, "the page's own figures are there"


@pytest.mark.usefixtures("engine")
def test_pages_are_rendered_with_the_pickers_state(viewer: Client) -> None:
    for path in ("/", "/topics/orders/", "/topics/orders/billing/"):
        live_page = " ".join(viewer.get(path).content.decode().split())
        assert (
            'href="?range=15m" data-preset="15m" title="The last 15 minutes, live, a point a second" aria-current'
            in live_page
        )
        page = " ".join(viewer.get(path, {"range": "6h"}).content.decode().split())
        assert page.count('aria-current="true"') == 1
        assert 'data-preset="6h" title="The last 6 hours" aria-current="true"' in page
        span = viewer.get(path, {"from": "2025-06-10T08:00Z", "to": "2025-06-10T10:00Z"}).content.decode()
        assert "2025-06-10 08:00 UTC to 2025-06-10 10:00 UTC" in span
        assert 'name="from" value="2025-06-10T08:00"' in span
        assert "data-chosen" in span
    assert "data-ranges" not in viewer.get("/topics/").content.decode()


@pytest.mark.usefixtures("engine")
def test_a_page_asked_for_what_is_no_range_says_so_and_shows_the_live_one(viewer: Client) -> None:
    answer = viewer.get("/topics/orders/", {"from": "<script>", "to": "2025-06-10T10:00Z"})
    text = answer.content.decode()
    assert answer.status_code == 400
    assert "from &#x27;&lt;script&gt;&#x27; is not a time such as 2026-11-20T10:00Z (UTC)." in text
    assert "<script>&#x27;" not in text
    assert 'aria-current="true"' not in text


@pytest.mark.usefixtures("engine")
def test_a_range_is_read_as_a_table_without_scripts(lake: HistoryLake, viewer: Client) -> None:
    last_s = recent(lake, depth=1234.0, messages=120, latency=[{"b": 100, "n": 5}])
    page = viewer.get("/topics/orders/billing/", {"range": "1h"}).content.decode()
    assert '<a href="?range=1h&amp;as=table">This range as a table</a>' in page
    assert "The range as a table" not in page
    table = " ".join(viewer.get("/topics/orders/billing/", {"range": "1h", "as": "table"}).content.decode().split())
    row = table.split(f'<td class="name">{column_time(last_s * 1000)}</td>')[1].split("</tr>")[0]
    for part in ("minimum", "mean", "maximum"):
        assert f'<td class="number" data-label="Depth, {part}">1,234</td>' in row
    assert '<td class="number" data-label="Received, messages">120</td>' in row
    assert '<td class="number" data-label="Received, messages/s">2/s</td>' in row
    assert '<td class="number" data-label="Median latency">5 ms</td>' in row
    shutil.rmtree(lake.directory)
    empty = viewer.get("/topics/orders/billing/", {"range": "1h", "as": "table"}).content.decode()
    assert "The pipeline has written no history yet: only the last 15 minutes have data." in empty


def _has_another_node() -> bool:
    cluster = get_cluster()
    return cluster is not None and any(node.info is not None for node in cluster.state.called)


def test_beside_other_nodes_the_graphs_are_of_all_of_them_or_of_one(
    engine: EngineRunner, lake: HistoryLake, viewer: Client
) -> None:
    assert "data-node" not in viewer.get("/topics/orders/?range=1h").content.decode(), "this server stands alone"
    with FakeNsqd.of(fake_topic("orders")) as other:
        admin = client_of(make_user("grace", role=Role.ADMIN))
        admin.post("/nodes/~addresses/", {"lookupds": "", "nsqds": other.address})
        wait_for("the node's answer", _has_another_node)
        own = get_gateway().node()
        last_s = recent(lake, node=own.broadcast_address, depth=10.0, messages=60)
        lake.add("minutes", [window(last_s, *ORDERS, node=other.address, depth=4.0, messages=120)])
        page = viewer.get("/topics/orders/billing/", {"range": "6h", "node": other.address}).content.decode()
        choices = dict(re.findall(r'<a href="([^"]*)" data-node="[^"]*"[^>]*>([^<]*)</a>', page))
        assert choices == {
            "?range=6h": "All nodes",
            f"?range=6h&amp;node={quote_plus(own.broadcast_address)}": f"{own.http_address} (this server)",
            f"?range=6h&amp;node={quote_plus(other.address)}": other.address,
        }
        assert re.search(rf'data-node="{other.address}"\s+aria-current="true"', page)
        assert f'<input type="hidden" name="node" value="{other.address}">' in page, "another range is of it, too"
        for node, depth, received in ((other.address, 4, 2), (own.broadcast_address, 10, 1), ("", 14, 3)):
            query = {"range": "1h", "node": node}
            found = viewer.get("/api/history/orders/billing/", query).json()
            at = found["times"].index(last_s)
            assert (found["columns"]["depth"][at], found["columns"]["received"][at]) == (depth, received)
            table = viewer.get("/topics/orders/billing/", {**query, "as": "table"}).content.decode()
            assert f'data-label="Depth, mean">{depth}</td>' in table
        # A node that is gone is still to be read.
        gone = viewer.get("/topics/orders/billing/", {"range": "6h", "node": "gone:4151"}).content.decode()
        assert re.search(r'data-node="gone:4151"\s+aria-current="true"', gone)
