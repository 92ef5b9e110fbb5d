"""What pages show is read every second at the nodes that have it, and the clients only where a page shows them."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from admin_console.cluster.calls.chosen_addresses import ChosenAddresses
from admin_console.cluster.calls.node_clock import ClockOffset
from admin_console.cluster.calls.options import Addresses, ClusterOptions, Pace
from admin_console.cluster.cluster import Cluster, set_cluster
from admin_console.cluster.reading.node_stats import NodeStats, NodeTopic
from admin_console.cluster.reading.watches import WATCH_S, Watch, Watches
from admin_console.gateway.gateway import DONE
from admin_console.gateway.node_gateway import NodeGateway
from admin_console.hub.hub import Hub, LiveState
from admin_console.live.broadcast import Broadcast
from admin_console.screens.build import Request
from admin_console.vocabulary.roles import Role
from tests.support.fake_node import FakeNode
from tests.support.fake_nsqd import FakeNsqd, channel, client, topic
from tests.support.pages.snapshots import snapshot
from tests.support.waiting import wait_for, wait_for_async

# All topics are read once and, as far as these tests see, never again.
_OPTIONS = ClusterOptions()
RARE = Pace(period_s=600, watched_s=0.02, retry_s=0.02, retry_max_s=0.05)


@contextmanager
def cluster_of(
    path: Path, *nsqds: FakeNode, lookup: FakeNode | None = None, pace: Pace = RARE, options: ClusterOptions = _OPTIONS
) -> Iterator[Cluster]:
    addresses = Addresses.parse([lookup.address] if lookup else [], [one.address for one in nsqds])
    cluster = Cluster(replace(options, addresses=addresses), ChosenAddresses(path, addresses), lambda: None, pace)
    cluster.start()
    try:
        wait_for("all nodes", lambda: all(one.stats or one.answers.error for one in cluster.state.nodes))
        yield cluster
    finally:
        cluster.stop()


def stats_of(cluster: Cluster, fake: FakeNode) -> NodeStats:
    (node,) = (one for one in cluster.state.nodes if one.member.target.port == fake.port)
    assert node.stats is not None
    return node.stats


def watched(look: Callable[[], Any], *notes: Callable[[], None]) -> Callable[[], Any]:
    """As a page: notes what it shows with each look."""

    def noted() -> Any:
        for note in notes:
            note()
        return look()

    return noted


def queries(fake: FakeNode) -> list[str]:
    return [path.partition("?")[2] for path, _ in fake.requests if path.startswith("/stats")]


def test_a_topic_that_a_page_shows_is_read_alone_at_the_nodes_that_have_it(tmp_path: Path) -> None:
    with (
        FakeNsqd.of(topic("orders", channel("billing")), topic("clicks")) as a,
        FakeNsqd.of(topic("clicks")) as b,
        cluster_of(tmp_path, a, b) as cluster,
    ):
        clicks = stats_of(cluster, a).topics["clicks"]
        a.topics["orders"]["depth"] = a.topics["clicks"]["depth"] = 7
        a.topics["orders"]["channels"].append(channel("mail", depth=3))
        show = lambda: cluster.watch("orders")  # noqa: E731
        wait_for("its depth", watched(lambda: stats_of(cluster, a).topics["orders"].figures["depth"] == 7, show))
        stats = stats_of(cluster, a)
        assert stats.topics["orders"].channels["mail"].figures["depth"] == 3
        # The sums of the node go with it.
        (node,) = (one for one in cluster.state.nodes if one.member.target.port == a.port)
        assert node.sums is not None
        assert (node.sums.topics, node.sums.depth, node.sums.messages) == (2, 7 + 3, 0)
        # The others are as they were when all were read, the same objects.
        assert stats.topics["clicks"] is clicks
        assert stats.topic_read_at_ms("orders") > stats.topic_read_at_ms("clicks") == stats.read_at_ms
        assert len(queries(b)) == 1
        assert {query for query in queries(a) if "topic=" in query} == {
            "format=json&include_mem=false&include_buckets=true&include_clients=false&topic=orders"
        }
        unchanged = stats.topics["orders"]
        seen = len(queries(a))
        wait_for("more readings", watched(lambda: len(queries(a)) > seen + 2, show))
        assert stats_of(cluster, a).topics["orders"] is unchanged
        del a.topics["orders"]
        wait_for("its end", watched(lambda: "orders" not in stats_of(cluster, a).topics, show))


def test_clients_of_a_channel_are_read_while_a_page_shows_them_and_dropped_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pace = Pace(period_s=0.2, watched_s=0.02)
    with (
        FakeNsqd.of(topic("orders", channel("billing", clients=(client(),)), channel("mail"))) as a,
        cluster_of(tmp_path, a, pace=pace) as cluster,
    ):

        def clients() -> Any:
            return stats_of(cluster, a).topics["orders"].channels["billing"].clients

        assert clients() is None
        show = lambda: cluster.watch("orders", "billing", clients=True)  # noqa: E731
        (found,) = wait_for("its client", watched(clients, show))
        assert (found["client_id"], found["tls"], found["timeout_count"]) == ("billing-1", False, None)
        assert (
            "format=json&include_mem=false&include_buckets=true&include_clients=true&topic=orders&channel=billing"
            in (queries(a))
        )
        before = sum("topic=" not in query for query in queries(a))

        def never_missing() -> bool:
            assert clients() is not None, "a reading of all topics has dropped them"
            return sum("topic=" not in query for query in queries(a)) > before + 2

        wait_for("readings of all topics", watched(never_missing, show))
        a.topics["orders"]["channels"][0].update(clients=[], client_count=0)
        wait_for("its end", watched(lambda: clients() == (), show))
        monkeypatch.setattr("admin_console.cluster.reading.watches.WATCH_S", 0.05)
        show()
        wait_for("the end of the watch", lambda: clients() is None)


def test_a_page_of_all_clients_has_them_at_once_and_from_every_node(tmp_path: Path) -> None:
    sends = client("shop-1", pub_counts=[{"topic": "orders", "count": 5}, {"topic": "../x", "count": 1}])
    with (
        FakeNsqd.of(topic("orders", channel("billing", clients=(client(),))), producers=[sends]) as a,
        FakeNsqd.of(topic("orders", channel("billing"))) as b,
        cluster_of(tmp_path, a, b) as cluster,
    ):
        show = cluster.watch_clients
        wait_for("both", watched(lambda: stats_of(cluster, a).has_clients and stats_of(cluster, b).has_clients, show))
        stats = stats_of(cluster, a)
        assert stats.topics["orders"].channels["billing"].clients is not None
        assert [(one["client_id"], one["pub_counts"]) for one in stats.producers or ()] == [("shop-1", {"orders": 5})]
        # A topic's page beside it does not drop them.
        a.topics["orders"]["depth"] = 7
        topic_of = lambda: stats_of(cluster, a).topics["orders"]  # noqa: E731
        wait_for("its depth", watched(lambda: topic_of().figures["depth"] == 7, show, lambda: cluster.watch("orders")))
        assert topic_of().channels["billing"].clients


def test_the_clients_of_one_node_are_read_there_alone(tmp_path: Path) -> None:
    with FakeNsqd.of(topic("orders")) as a, FakeNsqd.of(topic("orders")) as b, cluster_of(tmp_path, a, b) as cluster:
        show = lambda: cluster.watch_clients(a.address)  # noqa: E731
        wait_for("them", watched(lambda: stats_of(cluster, a).has_clients, show))
        assert len(queries(b)) == 1


def test_a_topic_s_page_has_its_producers(tmp_path: Path) -> None:
    sends = client("shop-1", pub_counts=[{"topic": "orders", "count": 5}])
    with FakeNsqd.of(topic("orders"), topic("clicks"), producers=[sends]) as a, cluster_of(tmp_path, a) as cluster:
        found: NodeTopic = wait_for(
            "them",
            watched(
                lambda: (one := stats_of(cluster, a).topics["orders"]).producers and one,
                lambda: cluster.watch("orders", clients=True),
            ),
        )
        assert [one["client_id"] for one in found.producers or ()] == ["shop-1"]
        assert stats_of(cluster, a).topics["clicks"].producers is None


def test_messages_of_an_earlier_process_count_as_finished_in_the_sums_of_an_nsqd(tmp_path: Path) -> None:
    orders = topic("orders", channel("billing", depth=1_000))
    with FakeNsqd.of(orders) as a, cluster_of(tmp_path, a, pace=replace(RARE, period_s=0.02)) as cluster:

        def finished() -> int | None:
            (node,) = cluster.state.nodes
            return node.sums.finished if node.sums is not None else None

        a.channel("orders", "billing")["depth"] = 400
        wait_for("600 finished", lambda: finished() == 600)
        wait_for("their rate", lambda: cluster.state.nodes[0].rates.finished_s)
        # A page shows the topic: its readings change the sums, which the readings of all topics do not take back.
        a.channel("orders", "billing")["depth"] = 300
        show = lambda: cluster.watch("orders", "billing")  # noqa: E731
        wait_for("its own reading", watched(lambda: any("topic=orders" in path for path, _ in a.requests), show))
        wait_for("700 finished", lambda: finished() == 700)
        whole = stats_of(cluster, a).read_at_ms
        wait_for("a further reading", lambda: stats_of(cluster, a).read_at_ms > whole)
        assert finished() == 700


def test_a_node_that_restarts_under_a_page_is_read_whole_at_once(tmp_path: Path) -> None:
    with (
        FakeNsqd.of(topic("orders", message_count=70), topic("clicks", message_count=9)) as a,
        cluster_of(tmp_path, a) as cluster,
    ):
        a.restart()
        show = lambda: cluster.watch("orders")  # noqa: E731
        wait_for("its start", watched(lambda: stats_of(cluster, a).started_s == a.started_s, show))
        assert [one.figures["message_count"] for one in stats_of(cluster, a).topics.values()] == [0, 0]
        (node,) = cluster.state.nodes
        assert node.info is not None
        assert node.info.identity.started_s == a.started_s


def test_what_an_act_changed_is_read_before_its_period(tmp_path: Path) -> None:
    with FakeNsqd.of(topic("orders")) as a, FakeNsqd() as b, cluster_of(tmp_path, a, b) as cluster:
        (node,) = (one for one in cluster.state.nodes if one.member.target.port == a.port)
        gateway, before = NodeGateway(node, cluster), len(queries(b))
        assert gateway.act("create_topic", "clicks").verdict == DONE
        wait_for("the topic", lambda: "clicks" in stats_of(cluster, a).topics)
        assert gateway.act("create_channel", "clicks", "all").verdict == DONE
        wait_for("the channel", lambda: "all" in stats_of(cluster, a).topics["clicks"].channels)
        assert gateway.act("publish", "clicks", bodies=[b"m"]).verdict == DONE
        figures = lambda: stats_of(cluster, a).topics["clicks"].channels["all"].figures  # noqa: E731
        wait_for("the message", lambda: figures()["depth"] == 1)
        assert gateway.act("delete_topic", "clicks").verdict == DONE
        wait_for("its end", lambda: "clicks" not in stats_of(cluster, a).topics)
        assert len(queries(b)) == before, "the other node was not read"


def test_a_node_that_dies_under_a_page_is_silent_long_before_its_period(tmp_path: Path) -> None:
    with FakeNsqd.of(topic("orders")) as a, FakeNsqd.of(topic("orders")) as b, cluster_of(tmp_path, a, b) as cluster:
        show = lambda: cluster.watch("orders")  # noqa: E731
        a.failing = (500, {}, b"")
        wait_for("its silence", watched(lambda: len(cluster.state.answering) == 1, show))
        seen = len(queries(b))
        wait_for("the other one", watched(lambda: len(queries(b)) > seen + 2, show))
        a.failing = None
        wait_for("its return", watched(lambda: len(cluster.state.answering) == 2, show))


def test_twenty_silent_nodes_do_not_take_the_turns_of_one_that_answers(tmp_path: Path) -> None:
    pace = Pace(period_s=0.02, watched_s=0.02, retry_s=0.02, retry_max_s=0.02)
    with ExitStack() as stack:
        a, *dead = (stack.enter_context(FakeNsqd.of(topic("orders"))) for _ in range(21))
        options = ClusterOptions(request_timeout_s=1.0)
        cluster = stack.enter_context(cluster_of(tmp_path, a, *dead, pace=pace, options=options))
        for one in dead:
            one.delay_s = 60  # each call takes its whole deadline from now on
        wait_for("their silence", lambda: len(cluster.state.answering) == 1)
        seen = len(queries(a))
        wait_for("ten readings in the time of some", lambda: len(queries(a)) > seen + 10, timeout_s=5)


def test_two_hundred_silent_nodes_that_an_nsqlookupd_names_at_once_take_no_turns_of_others(tmp_path: Path) -> None:
    """Each of them took a turn of all nodes for its first call: the others were not read for minutes."""
    pace = Pace(period_s=0.02, watched_s=0.02, retry_s=0.02, retry_max_s=0.02)
    with ExitStack() as stack:
        a = stack.enter_context(FakeNsqd.of(topic("orders")))
        lookup = stack.enter_context(FakeNode({"/nodes": {"producers": []}}))
        options = ClusterOptions(request_timeout_s=1.0)
        cluster = stack.enter_context(cluster_of(tmp_path, a, lookup=lookup, pace=pace, options=options))
        # They take connections, and answer nothing.
        port = stack.enter_context(socket.create_server(("127.0.0.2", 0))).getsockname()[1]
        hosts = [f"127.0.1.{number}" for number in range(1, 201)]
        for host in hosts:
            stack.enter_context(socket.create_server((host, port)))
        lookup.answers["/nodes"] = {"producers": [{"broadcast_address": host, "http_port": port} for host in hosts]}
        wait_for("their names", lambda: len(cluster.state.nodes) > len(hosts))
        seen = len(queries(a))
        wait_for("ten readings in the time of some", lambda: len(queries(a)) > seen + 10, timeout_s=5)
        lookup.answers["/nodes"] = {"producers": []}
        wait_for("their end", lambda: len(cluster.state.nodes) == 1)


def test_one_topic_is_one_reading_however_many_pages_show_it() -> None:
    now_s = 0.0
    watches = Watches(lambda: now_s)
    assert watches.note(Watch("orders", "billing", clients=True))
    assert not watches.note(Watch("orders", "billing", clients=True))
    assert watches.topics() == [Watch("orders", "billing", clients=True)]
    now_s = 1
    watches.note(Watch("orders"))
    watches.note(Watch("clicks"))
    assert watches.topics() == [Watch("orders", "", clients=True), Watch("clicks")]
    now_s = WATCH_S
    assert watches.topics() == [Watch("orders"), Watch("clicks")]
    now_s = WATCH_S + 1
    assert watches.topics() == []


@pytest.mark.parametrize(("clock_s", "expected"), [(3600, 3600), (-3600, -3600), (0, 0)])
def test_how_far_a_node_s_clock_is_from_this_one_s_is_measured(clock_s: int, expected: int, tmp_path: Path) -> None:
    with FakeNsqd.of(topic("orders"), clock_s=clock_s) as a, cluster_of(tmp_path, a) as cluster:
        clock = cluster.state.nodes[0].clock
        assert clock is not None
        assert clock.least_ms <= expected * 1000 <= clock.most_ms
        # To the second, and what the answers took.
        assert abs(clock.differs_ms - expected * 1000) < 30_000
        assert (clock.differs_ms > 0) - (clock.differs_ms < 0) == (expected > 0) - (expected < 0)


def test_a_clock_s_difference_is_narrowed_by_each_answer_until_it_is_set() -> None:
    date = "Tue, 14 Nov 2023 22:13:20 GMT"  # 1_700_000_000
    first = ClockOffset.of(date, 1_699_999_999_100, 1_699_999_999_200)
    assert first == ClockOffset(800, 1_900)
    second = ClockOffset.of(date, 1_699_999_998_700, 1_699_999_998_800)
    assert second is not None
    assert first.narrowed(second) == ClockOffset(1_200, 1_900)
    assert first.narrowed(ClockOffset(9_000, 10_000)) == ClockOffset(9_000, 10_000)
    assert (ClockOffset(-5, 900).differs_ms, ClockOffset(-900, -5).differs_ms) == (0, -5)
    assert ClockOffset.of("", 1, 2) is None
    assert ClockOffset.of("Tue, 99 Nov 99999999999 22:13:20 GMT", 1, 2) is None


async def test_an_open_page_has_its_topic_read_at_the_nodes(tmp_path: Path) -> None:
    with FakeNsqd.of(topic("orders", channel("billing"))) as a, cluster_of(tmp_path, a) as cluster:
        set_cluster(cluster)
        try:
            request = Request("channel", Role.VIEWER, topic="orders", channel="billing")
            live = LiveState(snapshot(), {})
            await Broadcast(Hub()).build_update(request, live)
            await wait_for_async("it", lambda: any("channel=billing" in query for query in queries(a)))
        finally:
            set_cluster(None)
