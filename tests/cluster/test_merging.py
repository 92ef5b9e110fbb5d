"""Snapshots on their way: from the engine and the nodes, over the cluster's thread, to what shows them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from admin_console.cluster.calls.chosen_addresses import ChosenAddresses
from admin_console.cluster.calls.options import NO_ADDRESSES, Addresses, ClusterOptions, Pace
from admin_console.cluster.cluster import Cluster
from admin_console.cluster.merging.merged import NO_GROWTH, ClusterSnapshot
from admin_console.cluster.merging.node_figures import topic_stats
from admin_console.cluster.reading.node_stats import NodeStats, node_stats_in
from admin_console.cluster.reading.totals import NodeSums
from admin_console.gateway.gateway import DONE, NO_AUTHOR, UNKNOWN, ActOrder
from admin_console.gateway.node_gateway import NodeGateway
from queue_engine.delivery.stats import EngineSnapshot
from tests.support.fake_node import Answer
from tests.support.fake_nsqd import FakeNsqd, channel, client, topic
from tests.support.pages import snapshots
from tests.support.pages.snapshots import START_S
from tests.support.waiting import wait_for

OFTEN = Pace(period_s=0.02, retry_s=0.02, retry_max_s=0.05)
BILLING = ("orders", "billing")


class Shown:
    """A cluster of an engine, and the snapshots that it passed on."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.taken: list[EngineSnapshot | ClusterSnapshot] = []
        self._second = START_S
        cluster.on_snapshot.append(self.taken.append)

    def tick(self, depth: int = 5) -> EngineSnapshot:
        """The engine takes its next snapshot, in which this many messages wait; one more was published."""
        self._second += 1
        billing = snapshots.channel(*BILLING, depth=depth)
        orders = snapshots.topic("orders", billing, message_count=self._second - START_S)
        own = snapshots.snapshot(orders, second=self._second)
        self.cluster.take(own)
        return own

    @property
    def newest(self) -> ClusterSnapshot | None:
        """None where it is not that of a cluster."""
        found = self.taken[-1] if self.taken else None
        return found if isinstance(found, ClusterSnapshot) else None

    def depth(self) -> int | None:
        """Of the channel, over all nodes, at the next snapshot; None while there is none."""
        count = len(self.taken)
        self.tick()
        wait_for("the snapshot", lambda: len(self.taken) > count)
        topics = self.newest.merged.topics if self.newest is not None else ()
        return sum(one.depth for each in topics for one in each.channels) if topics else None


@contextmanager
def shown(path: Path, *, has_engine: bool = True) -> Iterator[Shown]:
    cluster = Cluster(
        ClusterOptions(),
        ChosenAddresses(path, NO_ADDRESSES),
        lambda: None,
        OFTEN,
        own_name=lambda: "127.0.0.1:4151",
        has_engine=has_engine,
    )
    found = Shown(cluster)
    cluster.start()
    try:
        yield found
    finally:
        cluster.stop()


def billing(depth: int) -> dict[str, object]:
    return topic("orders", channel("billing", depth=depth, message_count=depth))


def test_without_addresses_the_engines_own_snapshot_goes_on_as_it_is(tmp_path: Path) -> None:
    with shown(tmp_path) as found:
        own = found.tick()
        assert found.taken == [own]
        assert found.taken[0] is own


def test_addresses_that_come_and_go_while_it_runs_begin_and_end_the_merging(tmp_path: Path) -> None:
    with shown(tmp_path) as found, FakeNsqd.of(billing(7)) as a, FakeNsqd.of(billing(100)) as b:
        found.tick()
        found.cluster.change(Addresses.parse([], [a.address, b.address]))
        wait_for("all three", lambda: found.depth() == 112)
        assert found.newest is not None
        assert [one.node for one in found.newest.places(*BILLING)] == sorted(["127.0.0.1:4151", a.address, b.address])
        found.cluster.change(NO_ADDRESSES)
        for _ in range(5):
            own = found.tick()
            assert found.taken[-1] is own
        # Named again, what the engine counted meanwhile was shown as its own.
        found.cluster.change(Addresses.parse([], [a.address]))
        before = len(found.taken)
        wait_for("both", lambda: found.depth() == 12)
        merged = [one for one in found.taken[before:] if isinstance(one, ClusterSnapshot)]
        assert sum(one.growth.get(("orders", ""), NO_GROWTH).raw[0] for one in merged) == len(merged) - 1


def test_a_node_that_dies_is_out_of_the_sums_until_it_answers_again(tmp_path: Path) -> None:
    with shown(tmp_path) as found:
        with FakeNsqd.of(billing(7)) as a:
            found.cluster.change(Addresses.parse([], [a.address]))
            wait_for("its part", lambda: found.depth() == 12)
        wait_for("its end", lambda: found.depth() == 5)
        assert found.newest is not None
        assert found.newest.silent[BILLING] == (a.address,)
        with FakeNsqd.of(billing(9), port=a.port, started_s=1_800_000_000):
            wait_for("its return", lambda: found.depth() == 14)
            assert found.newest.silent == {}


def test_a_console_without_an_engine_takes_a_snapshot_each_second_by_itself(tmp_path: Path) -> None:
    with shown(tmp_path, has_engine=False) as found, FakeNsqd.of(billing(7)) as a:
        wait_for("the first, of no node", lambda: found.newest)
        found.cluster.change(Addresses.parse([], [a.address]))
        wait_for("the node's", lambda: found.newest is not None and found.newest.merged.topics)
        assert found.newest is not None
        assert found.newest.merged.topics[0].channels[0].depth == 7


def stats_of(message_count: int, depth: int, *, started_s: int = 1, consumers: int = 0) -> NodeStats:
    document = {"start_time": started_s, "topics": [topic("orders", of_nsqd(message_count, depth, consumers))]}
    found = node_stats_in(document)
    assert found is not None
    return found


def of_nsqd(message_count: int, depth: int, consumers: int = 0) -> dict[str, Any]:
    return channel("billing", message_count=message_count, depth=depth, client_count=consumers)


def finished_in(stats: NodeStats) -> tuple[int, int | None]:
    (billing,) = topic_stats(stats.topics["orders"], 0).channels
    return billing.finish_count, NodeSums.of(stats).finished


def test_messages_that_an_nsqd_had_when_it_started_count_as_finished_once_they_are() -> None:
    first = stats_of(0, 1_000).after(None)
    assert finished_in(first) == (0, 0)
    second = stats_of(5, 700).after(first)
    assert finished_in(second) == (305, 305)
    # Also where a page reads the topic alone.
    third = second.with_topic(stats_of(5, 650), "orders", "billing")
    assert finished_in(third) == (355, 355)
    restarted = stats_of(2, 648, started_s=2).after(third)
    assert finished_in(restarted) == (0, 0)
    # The channel was deleted and made again.
    assert finished_in(stats_of(1, 0, started_s=2).after(restarted)) == (1, 1)


def test_messages_that_vanish_without_a_consumer_are_emptied_and_a_part_of_them_is_finished() -> None:
    first = stats_of(1_000, 800).after(None)
    assert finished_in(first) == (200, 200)
    emptied = stats_of(1_010, 10).after(first)
    assert finished_in(emptied) == (200, 200)
    # Only a consumer that came and went leaves a part.
    drained = stats_of(1_020, 15).after(emptied)
    assert finished_in(drained) == (205, 205)
    # One is connected at this reading.
    finished = drained.with_topic(stats_of(1_020, 0, consumers=1), "orders", "billing")
    assert finished_in(finished) == (220, 220)
    restarted = stats_of(3, 0, started_s=2).after(finished)
    assert finished_in(restarted) == (3, 3)


def test_what_an_act_removes_beside_consumers_is_not_finished_whichever_reading_shows_it() -> None:
    first = stats_of(1_000, 800, consumers=1).after(None).with_emptied("orders", "billing", 750)
    # A reading from before the act: the 20 of it are counted with the next one.
    early = stats_of(1_000, 780, consumers=1).after(first)
    assert finished_in(early) == (200, 200)
    emptied = stats_of(1_100, 0, consumers=1).after(early)
    assert finished_in(emptied) == (350, 350)
    # An act that was not done takes nothing off, and one counts for one process.
    refused = first.with_emptied("orders", "billing", -750)
    assert finished_in(stats_of(1_000, 700, consumers=1).after(refused)) == (300, 300)
    assert finished_in(stats_of(50, 0, started_s=2, consumers=1).after(first)) == (50, 50)


def consumed(depth: int, name: str = "billing") -> dict[str, Any]:
    """A channel with a consumer, that got 1,000 messages."""
    return channel(name, depth=depth, in_flight_count=5, message_count=1_000, clients=(client(),))


def test_messages_that_this_console_empties_draw_no_peak_of_finished_ones(tmp_path: Path) -> None:
    def cut(fake: FakeNsqd) -> Answer:
        """The act is done, and its answer lost."""
        fake.channel("orders", "billing").update(depth=0, in_flight_count=0)
        return (200, {"Content-Length": "10"}, b"")

    act = ActOrder("empty_channel", "orders", "billing", NO_AUTHOR, {})
    with_channels = ActOrder("empty_topic", "orders", "", NO_AUTHOR, {"channels_too": True})
    with shown(tmp_path, has_engine=False) as found, FakeNsqd.of(topic("orders", message_count=1_000)) as a:
        found.cluster.change(Addresses.parse([], [a.address]))
        wait_for("the node", lambda: found.cluster.state.answering)
        gateway = NodeGateway(found.cluster.state.nodes[0], found.cluster)

        def reading(depth: int, finished: int) -> bool:
            """Whether the newest one has so many of both."""
            found.cluster.watch("orders", clients=True)
            (node,) = found.cluster.state.nodes
            sums = node.sums
            return sums is not None and (sums.depth, sums.finished) == (depth, finished)

        a.topics["orders"]["channels"] = [consumed(795), consumed(495, "mail")]
        wait_for("what is there", lambda: reading(795 + 495, 200 + 500))
        assert gateway.begin(act)().verdict == DONE
        wait_for("it is empty", lambda: reading(495, 200 + 500))
        a.channel("orders", "mail")["depth"] -= 7
        wait_for("7 that are finished", lambda: reading(488, 200 + 507))
        assert gateway.begin(with_channels)().verdict == DONE
        wait_for("all is empty", lambda: reading(0, 200 + 507))

        a.channel("orders", "billing").update(depth=100, message_count=1_100)
        wait_for("new ones", lambda: reading(100, 200 + 507))
        a.answers["/channel/empty"] = (502, {}, b"")
        assert gateway.begin(act)().verdict == UNKNOWN
        a.channel("orders", "billing")["depth"] -= 40
        wait_for("40 that are finished", lambda: reading(60, 240 + 507))
        a.answers["/channel/empty"] = lambda: cut(a)
        assert gateway.begin(act)().verdict == DONE
        wait_for("it is empty again", lambda: reading(0, 240 + 507))
        count = len(found.taken)
        wait_for("the next snapshot", lambda: len(found.taken) > count)
        snapshots_ = [one for one in found.taken if isinstance(one, ClusterSnapshot)]
        (orders,) = snapshots_[-1].merged.topics
        assert [one.finish_count for one in orders.channels] == [240, 507]
