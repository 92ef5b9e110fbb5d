"""The merged snapshot of the cluster: sums over the nodes that answer, and what each counter has grown."""

from dataclasses import replace
from typing import Any

from admin_console.cluster.merged import TOTAL, ClusterSnapshot
from admin_console.cluster.merger import Merger
from admin_console.cluster.nodes import Node
from queue_engine.delivery.stats import ChannelStats, EngineSnapshot
from queue_engine.vocabulary.clock import NS_PER_S
from tests.support.cluster_states import node, silent, state, unread
from tests.support.fake_nsqd import channel, topic
from tests.support.pages import snapshots
from tests.support.pages.snapshots import START_S

A, B, C = "nsq-a:4151", "nsq-b:4151", "nsq-c:4151"
OWN = "127.0.0.1:4151"
BILLING = ("orders", "billing")


class Seconds:
    """A merger and a second that goes on with each tick."""

    def __init__(self) -> None:
        self.merger = Merger(lambda: OWN)
        self.second = START_S

    @property
    def now_ms(self) -> int:
        return self.second * 1000

    def tick(self, *nodes: Node, own: EngineSnapshot | None = None) -> ClusterSnapshot:
        found = self.merger.tick(own, state(nodes), self.second * NS_PER_S)
        self.second += 1
        return found


def orders(waiting: int = 0, **billing: int) -> dict[str, Any]:
    """A topic with a channel, as an nsqd answers. waiting: at the topic itself."""
    return topic("orders", channel("billing", **billing), depth=waiting, message_count=billing.get("message_count", 0))


def channel_of(found: ClusterSnapshot, topic_name: str, name: str) -> ChannelStats:
    (one,) = [one for one in found.merged.topics if one.topic_name == topic_name]
    return next(each for each in one.channels if each.channel_name == name)


def test_counts_are_summed_over_nodes_and_this_server_and_each_place_stays_readable() -> None:
    seconds = Seconds()
    own = snapshots.snapshot(
        snapshots.topic("orders", snapshots.channel(*BILLING, depth=5, message_count=50, finish_count=45), depth=1),
        second=START_S,
    )
    a = node(A, orders(2, message_count=30, in_flight_count=3), read_at_ms=1)
    b = node(B, orders(4, message_count=20), topic("clicks"), read_at_ms=1)
    found = seconds.tick(a, b, own=own)
    assert [one.topic_name for one in found.merged.topics] == ["clicks", "orders"]
    assert found.merged.topics[1].depth == 7
    merged = channel_of(found, *BILLING)
    assert (merged.depth, merged.in_flight_count, merged.message_count) == (5, 3, 100)
    # Of an nsqd: what came less what is unfinished.
    assert merged.finish_count == 45 + 27 + 20
    assert [(one.node, one.is_embedded, one.stats.depth) for one in found.places(*BILLING)] == [
        (OWN, True, 5),
        (A, False, 0),
        (B, False, 0),
    ]
    assert [one.node for one in found.places("clicks")] == [B]
    assert found.places("none") == found.places("orders", "none") == ()
    assert found.silent == {}


def test_a_silent_node_is_in_no_sum_and_is_named_at_what_it_has() -> None:
    seconds = Seconds()
    a = node(A, orders(2, depth=7, message_count=30), read_at_ms=1)
    b = node(B, orders(4, depth=1, message_count=20), topic("clicks", channel("all", depth=9)), read_at_ms=1)
    seconds.tick(a, b)
    found = seconds.tick(a, silent(b), unread(C, "mails"))
    assert channel_of(found, *BILLING).depth == 7
    # What it alone has stays, so that its page and its graphs do.
    assert channel_of(found, "clicks", "all").depth == 0
    assert found.silent == {
        TOTAL: (B, C),
        ("orders", ""): (B,),
        BILLING: (B,),
        ("clicks", ""): (B,),
        ("clicks", "all"): (B,),
        ("mails", ""): (C,),
    }
    assert [(one.node, one.is_answering, one.stats.depth) for one in found.places(*BILLING)] == [
        (A, True, 7),
        (B, False, 1),
    ]
    assert [(one.node, one.read_at_ms) for one in found.places("mails")] == [(C, 0)]
    assert seconds.tick(a, b).silent == {}


def test_a_topic_that_did_not_change_for_long_grows_since_its_newest_reading() -> None:
    seconds = Seconds()

    def read(messages: int, before: Node | None = None) -> Node:
        found = node(A, orders(message_count=messages), read_at_ms=seconds.now_ms)
        assert found.stats is not None
        return found if before is None else replace(found, stats=found.stats.after(before.stats))

    first = idle = read(100)
    seconds.tick(first)
    for _ in range(5):
        for _ in range(9):
            seconds.tick(idle)
        newer = read(100, idle)
        assert newer.stats is not None
        assert idle.stats is not None
        assert newer.stats.topics["orders"] is idle.stats.topics["orders"], "it would be merged for nothing"
        idle = newer
        found = seconds.tick(idle)
        (place,) = found.places(*BILLING)
        assert place.read_at_ms == seconds.now_ms - 1000
    for _ in range(9):
        seconds.tick(idle)
    found = seconds.tick(read(200, idle))
    assert found.growth["orders", ""].raw[0] == 100
    assert found.growth["orders", ""].spread[0] == 10, "of ten seconds, not of the whole minute"
