"""Latencies over nodes: counts add up; of percentiles alone the worst one counts, and the page says so."""

from typing import Any

import pytest

from admin_console.cluster.merging.merger import Merger
from admin_console.cluster.merging.node_windows import NodeWindow, merged_window
from admin_console.screens import latency
from queue_engine.delivery.latency_window import NO_LATENCIES, ChannelWindow, LatencyWindow
from queue_engine.vocabulary.latency.latency_buckets import bucket_of
from queue_engine.vocabulary.latency.latency_percentiles import bucket_table
from tests.support.cluster_states import node, silent, state
from tests.support.fake_nsqd import channel, topic
from tests.support.pages.snapshots import snapshot

MS = 1_000_000
HALF_AND_MOST = (0.5, 0.99)


def penstock(*latencies_ms: int) -> dict[str, Any]:
    """As /stats has it: the messages that took so long."""
    counts: dict[int, int] = {}
    for one in latencies_ms:
        bucket = bucket_of(one * MS)
        counts[bucket] = counts.get(bucket, 0) + 1
    return {"count": len(latencies_ms), "percentiles": None, "buckets": bucket_table(counts)}


def nsqd(count: int, **percentiles: float) -> dict[str, Any]:
    """As an nsqd has it: p50=…, in milliseconds."""
    return {
        "count": count,
        "percentiles": [{"quantile": int(name[1:]) / 100, "value": ms * MS} for name, ms in percentiles.items()],
    }


def shown(window: LatencyWindow) -> list[int]:
    """Half and 99 % of the messages, in milliseconds."""
    return [round(ns / MS) for ns in window.percentiles_ns(HALF_AND_MOST)]


def test_counts_of_nodes_add_up_to_the_percentiles_of_all_messages() -> None:
    own = ChannelWindow({}, {bucket_of(10 * MS): 98})
    found = merged_window([own, penstock(1_000, 1_000)])
    assert (found.count, found.worst_of) == (100, 0)
    # Of the second node alone half would be 1,000.
    assert shown(found) == [pytest.approx(10, rel=0.02), pytest.approx(1_000, rel=0.02)]
    assert found.percentiles_ns((1.0,)) == NodeWindow(penstock(1_000)).percentiles_ns((1.0,))


def test_of_percentiles_alone_each_is_that_of_the_worst_node() -> None:
    found = merged_window([nsqd(8, p50=3, p99=70), nsqd(2, p50=9, p99=40), nsqd(0)])
    assert (found.count, found.worst_of, shown(found)) == (10, 2, [9, 70])
    mixed = merged_window([nsqd(8, p50=3, p99=70), penstock(500)])
    assert (mixed.count, mixed.worst_of) == (9, 2)
    assert shown(mixed) == [pytest.approx(500, rel=0.02)] * 2
    # One node's are exact.
    alone = merged_window([nsqd(8, p50=3, p99=70), nsqd(0)])
    assert (alone.worst_of, shown(alone)) == (0, [3, 70])


def test_a_percentile_that_a_node_does_not_report_is_the_next_above_it() -> None:
    assert shown(NodeWindow(nsqd(8, p90=20))) == [20, 20]
    assert shown(NodeWindow(nsqd(8, p95=30, p40=5))) == [30, 30]


@pytest.mark.parametrize(
    "wrong",
    [
        {"count": 3, "buckets": [[1, 2], ["x", 1], [None], 7, [100_000, -1], [[], 2], [100_000, 1 << 70], [True, 1]]},
        {"count": "3", "percentiles": 7},
        {"count": 3, "percentiles": [{"quantile": 7, "value": 1}, {"quantile": 0.5}, None, {"value": 1}]},
        {"count": 1 << 70, "percentiles": [{"quantile": 0.5, "value": float("inf")}]},
        {"count": True},
    ],
)
def test_a_latency_that_can_t_be_right_counts_as_none(wrong: Any) -> None:
    assert shown(merged_window([wrong, penstock(500)])) == [pytest.approx(500, rel=0.02)] * 2
    assert shown(NodeWindow(wrong)) == [0, 0]


def test_the_panel_names_the_worst_of_how_many_nodes() -> None:
    billing = [channel("billing", message_count=9, e2e_processing_latency=nsqd(4, p50=6, p99=60)) for _ in range(2)]
    nodes = [
        node(f"nsq-{name}:4151", topic("orders", one), read_at_ms=1) for name, one in zip("ab", billing, strict=True)
    ]
    merger = Merger()

    def texts(*given: Any) -> dict[str, str]:
        found = merger.tick(None, state(given), 10**18)
        return latency.texts(found.merged.topics[0].channels[0].window, found.merged)

    assert texts(*nodes)["latency_of"] == "of 8 messages finished lately, each of the worst of 2 nodes"
    assert "half within 6.0 ms" in texts(*nodes)["latency"]
    assert texts(nodes[0], silent(nodes[1]))["latency_of"] == "of 4 messages finished lately"
    assert latency.texts(NO_LATENCIES, snapshot())["latency"] == "unknown: no message was finished"
