"""The JSON of nsqadmin's interface against answers recorded from NSQ 1.3, made from the same nodes' answers."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from admin_console.cluster.reading.node_stats import node_stats_in
from admin_console.cluster.reading.registrations import registrations_in
from admin_console.gateway.nodes_now import NodeNow
from admin_console.nsqadmin import documents
from admin_console.nsqadmin.answers import answer
from admin_console.nsqadmin.documents import Producer

RECORDED = Path(__file__).parents[1] / "data" / "nsq-1.3"
NODES = ("28011", "28021", "28031")


def recorded(name: str) -> Any:
    return orjson.loads((RECORDED / f"{name}.json").read_bytes())["body"]


def answers(suffix: str = "") -> list[NodeNow]:
    found = []
    for number, port in enumerate(NODES, 1):
        stats = node_stats_in(recorded(f"nsqd{number}-stats{suffix}"), with_clients=not suffix)
        assert stats is not None
        found.append(NodeNow(f"127.0.0.1:{port}", "vm", stats.topics))
    return found


def without(document: Any, *keys: str) -> Any:
    """The document without these keys, at any depth."""
    if isinstance(document, dict):
        return {key: without(value, *keys) for key, value in document.items() if key not in keys}
    return [without(one, *keys) for one in document] if isinstance(document, list) else document


@pytest.mark.parametrize("channel", ["billing", "archive"])
def test_a_channel_is_as_recorded(channel: str) -> None:
    made = documents.channel_document("orders", channel, answers())
    expected = recorded(f"nsqadmin-api-topics-orders-{channel}")
    del expected["message"]
    expected["nodes"].sort(key=lambda one: one["node"])
    # How long clients are connected is of the moment.
    assert without(made, "connected") == without(expected, "connected")


def test_a_topic_is_as_recorded_but_that_each_node_has_its_own_channels() -> None:
    made = documents.topic_document("orders", answers("-noclients"))
    expected = recorded("nsqadmin-api-topics-orders")
    assert without(made, "nodes", "channels") == without(expected, "nodes", "channels", "message")
    # nsqadmin writes the sums over nodes into the channels of the first node.
    assert [one["node"] for one in expected["nodes"][0]["channels"]] == ["*", "*", "*"]
    first = made["nodes"][0]["channels"]
    assert [(one["node"], one["channel_name"], one["depth"]) for one in first] == [
        ("127.0.0.1:28011", "archive", 250),
        ("127.0.0.1:28011", "billing", 235),
        ("127.0.0.1:28011", "tail#ephemeral", 100),
    ]
    assert without(made["nodes"][1], "channels") == without(expected["nodes"][1], "channels")
    # So they have that node's host name and names of latencies, too.
    of_first = ("nodes", "hostname", "e2e_processing_latency")
    assert without(made["channels"], *of_first) == without(expected["channels"], *of_first)


def test_a_node_and_the_counter_are_as_recorded() -> None:
    first = answers()[0]
    expected = recorded("nsqadmin-api-nodes-127.0.0.1_28011")
    assert without(documents.node_document(first), "connected") == without(expected, "connected", "message")
    assert documents.counter_document(answers()) == recorded("nsqadmin-api-counter")["stats"]


def test_nodes_are_as_recorded() -> None:
    registered = registrations_in(recorded("lookupd-nodes")["producers"]).nodes
    made = documents.producer_documents([Producer({"127.0.0.1:28061": one}) for one in registered])
    expected = recorded("nsqadmin-api-nodes")["nodes"]
    assert made == sorted(expected, key=lambda one: one["http_port"])


def test_percentiles_over_nodes_leave_out_those_that_finished_nothing() -> None:
    # nsqadmin takes the 0 of an idle node for the least latency.
    idle = {"count": 0, "percentiles": [{"quantile": 0.99, "value": 0}]}
    busy = {"count": 4, "percentiles": [{"quantile": 0.99, "value": 700}]}
    busier = {"count": 12, "percentiles": [{"quantile": 0.99, "value": 300}]}
    nodes = [_node_with(name, latency) for name, latency in (("a:1", idle), ("b:1", busy), ("c:1", busier))]
    over = documents.topic_document("orders", nodes)["e2e_processing_latency"]
    assert over["count"] == 16
    assert over["percentiles"] == [{"average": 400, "count": 16, "max": 700, "min": 300, "quantile": 0.99}]


def _node_with(name: str, latency: dict[str, Any]) -> NodeNow:
    topic = {"topic_name": "orders", "depth": 0, "channels": [], "e2e_processing_latency": latency}
    stats = node_stats_in({"topics": [topic]})
    assert stats is not None
    return NodeNow(name, "", stats.topics)


def test_an_older_version_is_out_of_date_and_a_penstock_of_the_same_is_not() -> None:
    entry = {"hostname": "h", "tcp_port": 4150, "tombstones": [], "topics": [], "remote_address": "1"}
    versions = {"10.0.0.1": "1.2.1", "10.0.0.2": "1.3.0", "10.0.0.3": "1.3.0+penstock.0.2.0", "10.0.0.4": "none"}
    found = registrations_in(
        [
            {**entry, "broadcast_address": host, "http_port": 4151, "version": version}
            for host, version in versions.items()
        ]
    ).nodes
    made = documents.producer_documents([Producer({"l:1": one}) for one in found])
    assert [one["out_of_date"] for one in made] == [True, False, False, True]


def test_a_sum_beyond_64_bits_is_json_as_well() -> None:
    """One node with such counts cost the answer about its topic."""
    assert answer({"depth": 3 << 63, "node": "ü"}).content == b'{"depth":27670116110564327424,"node":"\\u00fc"}'
