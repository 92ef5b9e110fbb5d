"""What differs between nodes: each finding from states that nodes can have, and from the merger's snapshots."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.calls.node_clock import ClockOffset
from admin_console.cluster.merging.difference_finder import LASTING_S, DifferenceFinder
from admin_console.cluster.merging.differences import (
    Difference,
    Peer,
    clocks,
    lasting,
    lookupds_that_disagree,
    shares,
    versions,
)
from admin_console.cluster.merging.merged import TopicPlace
from admin_console.cluster.merging.merger import Merger
from admin_console.cluster.merging.topic_differences import differences_of_topic
from admin_console.cluster.reading.members import Identity, Member
from admin_console.cluster.reading.node_info import NodeInfo
from admin_console.cluster.reading.node_stats import node_stats_in
from admin_console.cluster.reading.nodes import Answers, ClusterState, Lookupd, Node
from admin_console.cluster.reading.registrations import Registration
from tests.support.pages.snapshots import channel, topic

NOW_MS = 1_800_000_000_000
A, B = HttpAddress("lookup-a", 4161), HttpAddress("lookup-b", 4161)


def places(**channels_by_node: Any) -> list[TopicPlace]:
    """The topic invoices at nodes: its channels, or its figures with `channels` among them."""
    found = []
    for node, given in channels_by_node.items():
        figures = dict(given) if isinstance(given, dict) else {"channels": given}
        stats = topic("invoices", *figures.pop("channels"), **figures)
        found.append(TopicPlace.of_engine(node, stats, NOW_MS))
    return found


def said(found: Sequence[Difference]) -> list[str]:
    return [f"{one.title} {one.text}".strip() for one in found]


def node(
    name: str,
    *topics: dict[str, Any],
    at: Sequence[HttpAddress] = (),
    version: str = "1.3.0",
    tombstoned: frozenset[str] = frozenset(),
    lists: Sequence[str] | None = None,
    second: float = 0,
    **given: Any,
) -> Node:
    """A node that answered. at: the nsqlookupds that name it, each with all its topics, or with those of `lists`."""
    address = HttpAddress(name, 4151)
    names = tuple(one["topic_name"] for one in topics) if lists is None else tuple(lists)
    registration = Registration(address, name, 4150, version, f"{name}:1", names, tombstoned)
    answered_ms = NOW_MS + int(second * 1000)
    document = {"version": version, "health": "OK", "start_time": 1, "topics": list(topics)}
    stats = node_stats_in(document, read_at_ms=answered_ms)
    return Node(
        Member(address, address, True, dict.fromkeys(at, registration)),
        Answers(answered_ms, 3),
        NodeInfo(Identity(name, name, 4150, 4151, 1), version),
        stats,
        **given,
    )


def counted(name: str, messages: int) -> dict[str, Any]:
    figures = dict.fromkeys(("depth", "backend_depth", "message_bytes"), 0)
    return {"topic_name": name, "message_count": messages, "channels": [], "paused": False, **figures}


def state(*nodes: Node, lookupds: Sequence[HttpAddress] = ()) -> ClusterState:
    return ClusterState(lookupds=tuple(Lookupd(one, Answers(NOW_MS)) for one in lookupds), nodes=nodes)


def test_a_channel_that_some_nodes_lack_is_named_with_them() -> None:
    found = differences_of_topic(
        "invoices",
        places(a=[channel("invoices", "pdf")], b=[channel("invoices", "pdf")], c={"message_count": 70, "channels": ()}),
    )
    assert said(found) == [
        ("invoices/pdf exists on 2 of 3 nodes that have invoices. Not on c: messages published there miss it.")
    ]
    assert [(one.kind, one.topic, one.channel, one.node) for one in found] == [("channel", "invoices", "pdf", "c")]


def test_an_ephemeral_channel_is_where_its_consumers_are() -> None:
    assert (
        differences_of_topic("invoices", places(a=[channel("invoices", "tail#ephemeral", client_count=1)], b=[])) == []
    )


def test_a_pause_on_some_nodes_is_named_with_those_that_go_on() -> None:
    found = differences_of_topic(
        "invoices",
        places(
            a={"paused": True, "channels": (channel("invoices", "pdf", paused=True),)},
            b=[channel("invoices", "pdf", paused=True)],
            c=[channel("invoices", "pdf")],
        ),
    )
    assert said(found) == [
        "invoices is paused on 1 of 3 nodes. Not on b and c: messages go on to its channels there.",
        "invoices/pdf is paused on 2 of 3 nodes. Not on c: messages are delivered there.",
    ]
    whole = {"paused": True, "channels": (channel("invoices", "pdf", paused=True),)}
    assert differences_of_topic("invoices", places(a=whole, b=whole)) == []


def test_consumers_that_miss_a_node_are_named_with_what_waits_there() -> None:
    """The classic outage: a node that an nsqlookupd does not name gets no consumer."""
    found = differences_of_topic(
        "invoices",
        places(
            a=[channel("invoices", "pdf", client_count=4)],
            b=[channel("invoices", "pdf", client_count=4)],
            c=[channel("invoices", "pdf", depth=640)],
        ),
        {"c": "registered at 1 of 2 nsqlookupds"},
    )
    assert said(found) == [
        (
            "invoices/pdf: consumers are connected to 2 of 3 nodes. None on c, which is registered at 1 of 2 "
            "nsqlookupds. 640 messages wait there."
        )
    ]
    assert (found[0].node, found[0].weight) == ("c", 640)
    deepest = [
        differences_of_topic(
            "invoices",
            places(
                a=[channel("invoices", "pdf", client_count=4)],
                b=[channel("invoices", "pdf", depth=depth)],
                c=[channel("invoices", "pdf", depth=640)],
            ),
        )[0]
        for depth in (639, 641)
    ]
    assert [one.node for one in deepest] == ["c", "b"]
    assert deepest[0].key == deepest[1].key, "its time goes on when another node has the most messages"
    without_any = differences_of_topic(
        "invoices", places(a=[channel("invoices", "pdf")], b=[channel("invoices", "pdf")])
    )
    assert without_any == []


def test_a_silent_node_is_compared_with_none() -> None:
    there, silent = places(a=[channel("invoices", "pdf", client_count=1)], b=[channel("invoices", "pdf")])
    assert differences_of_topic("invoices", [there, replace(silent, is_answering=False)]) == []


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        (
            (940.0, 60.0, 0.0),
            ["a gets 94 % of all messages. The 2 other nodes get 60/s: producers may name a alone."],
        ),
        ((300.0, 300.0, 300.0), []),
        ((0.5, 0.0, 0.0), []),  # of one message more
        ((940.0, 0.0, None), []),  # what the third gets is unknown
        ((940.0,), []),
    ],
)
def test_a_node_that_gets_nearly_all_is_named(rates: Sequence[float | None], expected: list[str]) -> None:
    assert said(shares([Peer(name, "nsqd 1.3.0", rate) for name, rate in zip("abc", rates, strict=False)])) == expected


def test_versions_are_compared_within_a_program() -> None:
    peers = [Peer("a", "Penstock 0.4.1"), Peer("b", "nsqd 1.3.0"), Peer("c", "nsqd 1.3.0"), Peer("d", "")]
    assert versions(peers) == []
    assert said(versions([*peers, Peer("e", "nsqd 1.2.1")])) == [
        "3 versions: nsqd 1.3.0 on 2 nodes, Penstock 0.4.1 on 1 node and nsqd 1.2.1 on 1 node."
    ]


def test_a_clock_that_is_off_is_named_and_that_of_all_others_is_ours() -> None:
    off = [node("a", clock=ClockOffset(3_100, 3_900)), node("b", clock=ClockOffset(-4_000, -2_500)), node("c")]
    near = node("d", clock=ClockOffset(-900, 2_000))
    assert said(clocks(state(*off, near))) == [
        "a:4151's clock is 3.1 s ahead. Ages and latencies of its messages are off by as much.",
        "b:4151's clock is 2.5 s behind. Ages and latencies of its messages are off by as much.",
    ]
    all_ahead = [node(name, clock=ClockOffset(60_000 + number, 61_000)) for number, name in enumerate("abc")]
    assert said(clocks(state(*all_ahead))) == [
        "This server's clock is 60.0 s behind those of all 3 other nodes. Ages on all pages are off by as much."
    ]


def test_nsqlookupds_that_lack_a_node_or_a_topic_are_named() -> None:
    clicks, orders = counted("clicks", 1), counted("orders", 1)
    a = node("a", clicks, orders, at=(A, B))
    registration = a.member.registrations[A]
    partly = {A: registration, B: replace(registration, topics=("clicks",))}
    a = replace(a, member=replace(a.member, registrations=partly))
    c = node("c", clicks, at=(A,))
    assert said(lookupds_that_disagree(state(a, c, lookupds=(A, B)), "")) == [
        (
            "lookup-b:4161 does not name c:4151. c:4151 is registered at another nsqlookupd: consumers that use "
            "lookup-b:4161 alone do not find it."
        ),
        "lookup-b:4161 lacks topic orders of a:4151. Another nsqlookupd lists orders there.",
    ]
    third = HttpAddress("lookup-z", 4161)
    of_two = lookupds_that_disagree(state(c, lookupds=(A, B, third)), "")
    assert len({one.key for one in of_two}) == len(of_two) == 2, "a row of the page each"
    more = lookupds_that_disagree(state(node("b", clicks, at=(A,)), c, lookupds=(A, B)), "")
    assert [one.key for one in more] == [of_two[0].key], "one that lacks a second node lacks the first as long"
    silent = ClusterState(lookupds=(Lookupd(A, Answers(NOW_MS)), Lookupd(B, Answers(NOW_MS, 0, "x"))), nodes=(a, c))
    assert lookupds_that_disagree(silent, "") == []


def test_a_finding_has_its_time_until_it_ends() -> None:
    since: dict[tuple[str, ...], int] = {}
    one = Difference("clock", "x", node="a")
    assert [found.since_ms for found in lasting([one], since, 1_000)] == [1_000]
    assert [found.since_ms for found in lasting([replace(one, title="y")], since, 5_000)] == [1_000]
    assert lasting([], since, 6_000) == []
    assert [found.since_ms for found in lasting([one], since, 7_000)] == [7_000]


class Watched:
    """A finder over the merger's snapshots, a second at a time."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.cpu_s = 0.0
        self._merger = Merger()
        self.finder = DifferenceFinder(now_s=lambda: self.now_s, cpu_s=lambda: self.cpu_s)

    def find(self, found: ClusterState, after_s: float = 10) -> list[str]:
        self.now_s += after_s
        snapshot = self._merger.tick(None, found, NOW_MS * 1_000_000 + int(self.now_s * 1e9))
        return [one.kind for one in self.finder.find(snapshot, None)]


def test_a_tombstoned_node_that_takes_messages_is_found_at_its_next_reading() -> None:
    watched = Watched()
    hidden = frozenset({"clicks"})
    assert watched.find(state(node("c", counted("clicks", 100), at=(A,), tombstoned=hidden))) == []
    takes = node("c", counted("clicks", 3_100), at=(A,), tombstoned=hidden, second=10)
    assert watched.find(state(takes)) == ["tombstone"]
    snapshot = watched._merger.tick(None, state(takes), NOW_MS * 1_000_000)
    (found,) = watched.finder.find(snapshot, None)
    assert found.title == "c:4151 still takes 300/s for clicks, where it is tombstoned."
    # It takes none any more, and then its tombstone ends.
    assert watched.find(state(node("c", counted("clicks", 3_100), at=(A,), tombstoned=hidden, second=50)), 40) == []
    assert watched.find(state(node("c", counted("clicks", 9_000), at=(A,), second=60))) == []


def test_two_answers_of_nsqlookupds_that_differ_for_a_moment_are_no_finding() -> None:
    watched = Watched()
    apart = state(node("c", counted("clicks", 1), at=(A,)), lookupds=(A, B))
    assert watched.find(apart) == []
    assert watched.find(state(node("c", counted("clicks", 1), at=(A, B)), lookupds=(A, B))) == []
    assert watched.find(apart) == []
    assert watched.find(apart, LASTING_S) == ["nsqlookupds"]


def test_topics_beyond_the_budget_are_compared_with_the_next_snapshots() -> None:
    watched = Watched()

    def cpu_s() -> float:
        watched.cpu_s += 0.002
        return watched.cpu_s

    watched.finder = DifferenceFinder(now_s=lambda: watched.now_s, cpu_s=cpu_s)
    paused = [{**counted(f"t{number}", 1), "paused": True} for number in range(7)]
    going = [counted(f"t{number}", 1) for number in range(7)]
    cluster = state(node("a", *paused), node("b", *going))
    counts = [len(watched.find(cluster, 1)) for _ in range(5)]
    assert counts == sorted(counts)
    assert 0 < counts[0] < 7 == counts[-1]
