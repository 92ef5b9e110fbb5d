"""Rings, trends and diagnosis of a cluster: growth by node, jumps where nodes come and go."""

from collections.abc import Callable
from typing import Any

from admin_console.cluster.merging.merger import Merger
from admin_console.cluster.reading.nodes import Node
from admin_console.hub.hub import TOTAL, Hub, LiveState
from admin_console.rings.figures import ARRIVED, FINISHED, GROWTH
from admin_console.rings.rings import DEPTH_JUMPS
from queue_engine.vocabulary.clock import NS_PER_S
from tests.support.cluster_states import node, silent, state
from tests.support.fake_nsqd import channel, topic
from tests.support.pages import snapshots
from tests.support.pages.snapshots import START_S

A, B = "nsq-a:4151", "nsq-b:4151"
BILLING = ("orders", "billing")


class Seconds:
    """A hub that gets the merged snapshots of these nodes, a second each."""

    def __init__(self) -> None:
        self.hub = Hub()
        self.merger = Merger(lambda: "127.0.0.1:4151")
        self.second = START_S

    def tick(self, *nodes: Node, **own: Any) -> LiveState:
        snapshot = None
        if own:
            billing = snapshots.channel(*BILLING, **own)
            snapshot = snapshots.snapshot(
                snapshots.topic("orders", billing, message_count=billing.message_count), second=self.second
            )
        self.hub.write(self.merger.tick(snapshot, state(nodes), self.second * NS_PER_S))
        self.second += 1
        assert self.hub.live is not None
        return self.hub.live

    def node(self, name: str, message_count: int, depth: int) -> Node:
        document = topic("orders", channel("billing", depth=depth, message_count=message_count, client_count=1))
        return node(name, {**document, "message_count": message_count}, read_at_ms=self.second * 1000)


def test_rates_of_a_cluster_are_those_of_its_nodes_together() -> None:
    seconds = Seconds()
    for second in range(61):
        count = 100 * second
        live = seconds.tick(
            seconds.node(A, 1_000 + count, 10),
            seconds.node(B, count, 2 * second),
            message_count=7_000 + 50 * second,
            finish_count=7_000 + 50 * second,
        )
    rings = live.rings_of(*BILLING)
    assert ARRIVED.rate(rings) == 250
    assert FINISHED.rate(rings) == 248
    assert GROWTH.rate(rings) == 2
    assert ARRIVED.rate(live.rings_of(*TOTAL)) == ARRIVED.rate(live.rings_of("orders")) == 250
    assert live.cluster is not None


def test_a_node_that_is_read_every_ten_seconds_grows_as_one_that_is_read_each() -> None:
    seconds = Seconds()
    read = seconds.node(A, 0, 0)
    for second in range(121):
        if second % 10 == 0:
            read = seconds.node(A, 200 * second, 100 * second)
        live = seconds.tick(read)
    rings = live.rings_of(*BILLING)
    assert (GROWTH.rate(rings), ARRIVED.rate(rings), FINISHED.rate(rings)) == (100, 200, 100)


def test_an_nsqd_that_counts_while_it_answers_draws_no_jump() -> None:
    seconds = Seconds()
    for came, depth in ((1_000, 100), (1_000, 130), (1_100, 150)):
        live = seconds.tick(seconds.node(A, came, depth))
    change = GROWTH.change(live.rings_of(*BILLING))
    assert change is not None
    assert change[0] == 50


def test_a_depth_that_comes_and_goes_with_a_node_is_no_trend() -> None:
    seconds = Seconds()
    for _ in range(5):
        seconds.tick(seconds.node(A, 100, 10))
    live = seconds.tick(seconds.node(A, 100, 10), seconds.node(B, 9_000, 4_000))
    assert live.channels[BILLING].depth == 4_010
    assert GROWTH.rate(live.rings_of(*BILLING)) == 0
    assert ARRIVED.rate(live.rings_of(*BILLING)) == 0
    live = seconds.tick(seconds.node(A, 100, 10))
    assert live.channels[BILLING].depth == 10
    assert GROWTH.rate(live.rings_of(*BILLING)) == 0
    assert GROWTH.rate(live.rings_of(*TOTAL)) == 0


def test_messages_that_nodes_pass_on_to_different_channels_are_no_jump() -> None:
    seconds = Seconds()

    def passing_on(name: str, of: str, count: int) -> Node:
        document = topic("orders", channel(of, depth=count, message_count=count), depth=100 - count)
        return node(name, {**document, "message_count": 100}, read_at_ms=seconds.second * 1000)

    for count in (0, 40):
        live = seconds.tick(passing_on(A, "billing", count), passing_on(B, "mail", count))
    change = GROWTH.change(live.rings_of("orders"))
    # None was lost, and none came.
    assert change is not None
    assert change[0] == 0
    jumps = live.rings["orders", ""].change(DEPTH_JUMPS, 30)
    assert jumps is not None
    assert jumps[0] == 0


def test_consumers_at_a_silent_node_are_not_said_to_be_missing() -> None:
    seconds = Seconds()

    def at(name: str, consumers: int, ready: int = 1) -> Node:
        one = channel("billing", depth=10, message_count=10, client_count=consumers, ready_count=ready)
        return node(name, topic("orders", one, message_count=10), read_at_ms=seconds.second * 1000)

    def findings(*nodes: Callable[[], Node]) -> set[str]:
        for _ in range(12):
            live = seconds.tick(*(make() for make in nodes))
        return {one.finding.chip for one in live.diagnoses[BILLING].states}

    assert "no consumers" in findings(lambda: at(A, 0))
    # A node that stays silent does not hide them: what the others have needs attention.
    found = findings(lambda: at(A, 0), lambda: silent(at(B, 3)))
    assert ("consumers unknown" in found, "no consumers" in found) == (True, False)
    # So it is with RDY 0: the silent node may have others.
    assert "RDY 0" in findings(lambda: at(A, 2, 0))
    found = findings(lambda: at(A, 2, 0), lambda: silent(at(B, 3)))
    assert ("RDY 0, others unknown" in found, "RDY 0" in found) == (True, False)


def test_growth_is_unknown_while_a_node_that_has_the_channel_is_silent() -> None:
    seconds = Seconds()
    for _ in range(5):
        seconds.tick(seconds.node(A, 100, 10), seconds.node(B, 100, 10))
    live = seconds.tick(seconds.node(A, 100, 10), silent(seconds.node(B, 100, 10)))
    assert live.silent_of(*BILLING) == live.silent_of("orders") == live.silent_of("") == (B,)
    assert GROWTH.rate(live.rings_of(*BILLING)) is None
    live = seconds.tick(seconds.node(A, 100, 10), seconds.node(B, 100, 10))
    assert live.silent_of(*BILLING) == ()
    assert GROWTH.rate(live.rings_of(*BILLING)) == 0


def test_a_second_snapshot_of_one_second_loses_no_growth() -> None:
    seconds = Seconds()
    seconds.tick(seconds.node(A, 100, 0))
    seconds.tick(seconds.node(A, 110, 0))
    seconds.second -= 1
    seconds.tick(seconds.node(A, 117, 0))
    last = seconds.node(A, 120, 0)
    for _ in range(5):
        live = seconds.tick(last)
    change = ARRIVED.change(live.rings_of(*BILLING))
    assert change is not None
    assert change[0] == 20


def test_counters_are_compared_again_once_no_node_is_left() -> None:
    """An admin took the addresses away: the snapshots are the engine's own again."""
    seconds = Seconds()
    seconds.tick()  # so that the birth of what comes is seen
    for second in range(3):
        seconds.tick(seconds.node(A, 100, 0), message_count=1_000 + second, finish_count=1_000 + second)
    for second in range(3, 6):
        billing = snapshots.channel(*BILLING, message_count=1_000 + second, finish_count=1_000 + second)
        seconds.hub.write(snapshots.snapshot(snapshots.topic("orders", billing), second=seconds.second))
        seconds.second += 1
    live = seconds.hub.live
    assert live is not None
    assert live.cluster is None
    change = ARRIVED.change(live.rings_of(*BILLING))
    assert change is not None
    # What was counted in the second of the change is in no rate.
    assert change[0] == 4


def test_consumers_of_an_nsqd_whose_rdy_is_unknown_do_not_back_off() -> None:
    seconds = Seconds()
    for _ in range(20):
        # What is quarantined has all rules look at the channel.
        live = seconds.tick(seconds.node(A, 5_000, 5_000), quarantined_count=1, message_count=1)
    assert live.channels[BILLING].ready_count is None
    assert "backing off" not in [state.finding.kind.name for state in live.diagnoses[BILLING].states]
