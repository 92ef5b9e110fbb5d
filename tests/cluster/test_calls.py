"""Calls on the cluster's thread: to nodes, and to nsqlookupds, those that the engine registers with among them."""

import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path

import pytest

from admin_console.cluster.calls import node_http
from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.calls.chosen_addresses import ChosenAddresses
from admin_console.cluster.calls.options import NO_ADDRESSES, ClientTls, ClusterOptions
from admin_console.cluster.cluster import Cluster
from admin_console.cluster.lookupds.lookupd_calls import read_report
from admin_console.cluster.reading.nodes import NotCallingError
from admin_console.gateway import nodes_now
from queue_engine.client.http_json import HttpRefusedError, UnreachableError
from tests.cluster.test_cluster import cluster_of
from tests.support.fake_node import FakeNode, Request
from tests.support.fake_nsqd import FakeNsqd, topic
from tests.support.processes.ports import free_ports
from tests.support.waiting import wait_for

CREATE = "/topic/create"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """One without addresses, whose thread begins with the first call."""
    made = Cluster(ClusterOptions(request_timeout_s=0.5), ChosenAddresses(tmp_path, NO_ADDRESSES), lambda: None)
    made.start()
    yield made
    made.stop()


def post(cluster: Cluster, address: HttpAddress) -> bytes:
    return cluster.call(lambda http: http.post_to_lookupd(address, CREATE, {"topic": "orders#ephemeral"})).result(30)


def test_an_act_arrives_with_its_names_and_is_sent_once(cluster: Cluster) -> None:
    with FakeNode() as lookup:
        lookup.answers[CREATE] = b""
        assert post(cluster, HttpAddress.parse(lookup.address)) == b""
        assert lookup.acts == [Request("POST", CREATE, {"topic": "orders#ephemeral"})]
        # It follows no redirect, which could lead anywhere.
        lookup.answers[CREATE] = (307, {"Location": f"http://{lookup.address}/other"}, b"")
        with pytest.raises(HttpRefusedError, match="answered 307"):
            post(cluster, HttpAddress.parse(lookup.address))
        assert len(lookup.acts) == 2


def test_whether_an_act_may_have_been_done_is_told_apart(cluster: Cluster) -> None:
    goes_on = threading.Event()

    def late() -> bytes:
        goes_on.wait(60)
        return b""

    with FakeNode() as lookup:
        lookup.answers[CREATE] = late
        with pytest.raises(UnreachableError, match=r"did not answer within 0\.5 s") as unknown:
            post(cluster, HttpAddress.parse(lookup.address))
        goes_on.set()
        assert unknown.value.is_sent
    (port,) = free_ports(1)
    with pytest.raises(UnreachableError, match="Connection refused") as refused:
        post(cluster, HttpAddress("127.0.0.1", port))
    assert not refused.value.is_sent


def test_an_nsqlookupd_may_have_a_name_that_leads_here(cluster: Cluster) -> None:
    """The engine registers with it: that name comes from no other program."""
    with FakeNode() as lookup:
        lookup.answers["/topics"] = {"topics": []}
        address = HttpAddress("localhost", lookup.port)
        assert cluster.call(lambda http: http.get_of_lookupd(address, "/topics")).result(30) == {"topics": []}
        other = HttpAddress("localhost", free_ports(1)[0])
        with pytest.raises(UnreachableError, match="is a loopback address"):
            cluster.call(lambda http: http.get_of_node(other, "/info")).result(30)


def test_a_node_that_wants_https_gets_the_act_there(cluster: Cluster) -> None:
    with FakeNode() as node, FakeNode() as https:
        refusal = b'{"message": "TLS_REQUIRED", "https_port": %d}' % https.port
        node.answers[CREATE] = (403, {}, refusal)
        target = HttpAddress.parse(node.address)
        with pytest.raises(UnreachableError, match=f"https://127.0.0.1:{https.port}{CREATE}"):
            cluster.call(lambda http: http.post_to_node(target, CREATE, {"topic": "a"}, b"x")).result(30)
        assert [act.body for act in node.acts] == [b"x"]


def test_calls_end_where_the_cluster_stops(cluster: Cluster) -> None:
    goes_on = threading.Event()

    def late() -> bytes:
        goes_on.wait(60)
        return b""

    with FakeNode() as node:
        node.answers["/info"] = late
        call = cluster.call(lambda http: http.get_of_node(HttpAddress.parse(node.address), "/info"))
        wait_for("the request", lambda: node.requests)
        cluster.stop()
        goes_on.set()
        with pytest.raises((CancelledError, UnreachableError)):
            call.result(30)
        with pytest.raises(NotCallingError, match="No node is called: the server is stopping"):
            cluster.call(lambda http: http.get_of_node(HttpAddress.parse(node.address), "/info"))


def test_an_nsqlookupd_that_hangs_after_its_lists_costs_two_calls(cluster: Cluster) -> None:
    goes_on = threading.Event()

    def late() -> bytes:
        goes_on.wait(60)
        return b""

    with FakeNode() as lookup:
        address = HttpAddress.parse(lookup.address)
        lookup.answers["/topics"] = {"topics": [f"t{number}" for number in range(100)]}
        lookup.answers["/nodes"], lookup.answers["/debug"] = {"producers": []}, {}
        lookup.answers["/channels"] = {"channels": ["billing"]}
        report = cluster.call(lambda http: read_report(http, address)).result(30)
        assert {one.lonely for one in report.topics} == {("billing",)}
        lookup.requests.clear()
        lookup.answers["/channels"] = late
        with pytest.raises(UnreachableError, match=r"did not answer within 0\.5 s"):
            cluster.call(lambda http: read_report(http, address)).result(30)
        goes_on.set()
        assert len([path for path, _ in lookup.requests if path.startswith("/channels")]) == 2


def test_an_act_waits_for_no_read_of_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_http, "CALLS_MAX", 5)
    cluster = Cluster(ClusterOptions(request_timeout_s=60), ChosenAddresses(tmp_path, NO_ADDRESSES), lambda: None)
    cluster.start()
    goes_on = threading.Event()

    def late() -> bytes:
        goes_on.wait(60)
        return b"{}"

    with FakeNode() as silent, FakeNode() as node:
        silent.answers["/stats"], node.answers[CREATE] = late, b""
        target = HttpAddress.parse(silent.address)
        reads = [cluster.call(lambda http: http.get_of_node(target, "/stats", purpose="page")) for _ in range(5)]
        wait_for("the reads", lambda: len(silent.requests) == 5)
        act = cluster.call(lambda http: http.post_to_node(HttpAddress.parse(node.address), CREATE, {"topic": "a"}))
        assert act.result(30) == b""
        assert not any(one.done() for one in reads)
        goes_on.set()
        assert [one.result(30) for one in reads] == [{}] * 5
    cluster.stop()


def test_reads_for_a_request_that_came_in_time_count_and_a_node_in_error_is_not_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes_now, "WAIT_S", 0.5)
    goes_on = threading.Event()

    def late() -> bytes:
        goes_on.wait(60)
        return b"{}"

    with (
        FakeNsqd.of(topic("orders")) as node,
        FakeNsqd.of(topic("orders")) as silent,
        cluster_of(tmp_path, nsqds=(node, silent)) as cluster,
    ):
        wait_for("both", lambda: len(cluster.state.answering) == 2)
        one, other = sorted(cluster.state.nodes, key=lambda each: each.member.target.port == silent.port)
        silent.failing = late
        found, none = nodes_now.read_nodes(cluster, (one, other))
        assert found.topics is not None
        assert list(found.topics) == ["orders"]
        assert (none.topics, none.error) == (None, f"{other.name} gave no answer")
        in_error = replace(one, answers=replace(one.answers, error="it is down"))
        (found,) = nodes_now.read_nodes(cluster, (in_error,), topic="orders")
        assert (found.topics, found.error) == (None, "it is down")
        assert not [path for path, _ in node.requests if "topic=orders" in path]
        goes_on.set()


def test_files_that_can_t_be_used_are_named_and_nothing_is_called(tmp_path: Path) -> None:
    options = ClusterOptions(tls=ClientTls(root_ca_file=str(tmp_path / "gone.pem")))
    cluster = Cluster(options, ChosenAddresses(tmp_path, NO_ADDRESSES), lambda: None)
    cluster.start()
    with pytest.raises(NotCallingError, match=r"gone\.pem can't be used for TLS to nodes"):
        cluster.call(lambda http: http.get_of_lookupd(HttpAddress("127.0.0.1", 1), "/topics"))
