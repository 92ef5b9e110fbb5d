"""One order to several nodes: what each answers, and the order of a delete."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from admin_console.cluster.calls.options import ClusterOptions
from admin_console.cluster.cluster import Cluster
from admin_console.gateway.acting_nodes import ActingNode
from admin_console.gateway.fan_out import NodeResult, by_node, delete_in_order, fan_out, summary
from admin_console.gateway.gateway import DONE, FAILED, NO_AUTHOR, UNKNOWN, ActOrder, ActResult
from admin_console.gateway.node_gateway import NodeGateway
from tests.cluster.test_cluster import cluster_of
from tests.support.fake_node import Answer, FakeNode
from tests.support.fake_nsqd import FakeNsqd, channel, topic
from tests.support.waiting import wait_for

PAUSE = ActOrder("pause_channel", "orders", "billing", NO_AUTHOR, {"by": "ada"})
NORMAL = ClusterOptions()
QUICK = ClusterOptions(request_timeout_s=1.0)


def orders_node(depth: int = 3) -> FakeNsqd:
    return FakeNsqd.of(topic("orders", channel("billing", depth=depth)))


@contextmanager
def nodes_of(
    path: Path, *fakes: FakeNode, lookupds: Sequence[FakeNode] = (), options: ClusterOptions = NORMAL
) -> Iterator[tuple[Cluster, list[ActingNode]]]:
    """The cluster once all have answered, and a gateway for each of `fakes`."""
    with cluster_of(path, lookupds=tuple(lookupds), nsqds=fakes, options=options) as cluster:
        wait_for("all nodes", lambda: len(cluster.state.answering) == len(fakes))
        wait_for("all nsqlookupds", lambda: all(one.answers.is_answering for one in cluster.state.lookupds))
        by_port = {node.member.target.port: node for node in cluster.state.nodes}
        yield cluster, [NodeGateway(by_port[fake.port], cluster) for fake in fakes]


def to_each(nodes: Sequence[ActingNode], order: ActOrder = PAUSE) -> list[NodeResult]:
    return fan_out([(node, order) for node in nodes])


def test_each_node_has_its_result_and_the_sum_names_those_that_did_not_do_it(tmp_path: Path) -> None:
    with ExitStack() as stack:
        done, refuses = (stack.enter_context(orders_node(depth)) for depth in (3, 4))
        until_now = stack.enter_context(ExitStack())
        stopped = until_now.enter_context(orders_node(5))
        with nodes_of(tmp_path, done, refuses, stopped) as (_, nodes):
            del refuses.topics["orders"]
            until_now.close()
            results = to_each(nodes)
            assert [one.node for one in results] == [node.name for node in nodes]
            assert [(one.result.verdict, one.result.code) for one in results] == [
                (DONE, ""),
                (FAILED, "TOPIC_NOT_FOUND"),
                (FAILED, "UNREACHABLE"),
            ]
            assert done.channel("orders", "billing")["paused"] is True
            both = summary(PAUSE, results)
            assert (both.verdict, both.code, both.counts) == (FAILED, "TOPIC_NOT_FOUND", {"depth": 3})
            assert both.message.startswith(
                f"Pause channel orders/billing: done on 1 of 3 nodes. {refuses.address}: Nothing was done to "
                f"orders/billing: {refuses.address} has no such topic. {stopped.address}: "
            )
            assert by_node(results) == (
                f"{done.address} done; {refuses.address} TOPIC_NOT_FOUND; {stopped.address} UNREACHABLE"
            )
            left = to_each(nodes[:1])
            assert summary(PAUSE, left).message == "Pause channel orders/billing: done on 1 node."


def test_no_answer_in_mid_act_is_read_back_and_said(tmp_path: Path) -> None:
    """The answer is lost: the act was done, was not, or the node is gone afterwards."""

    def lost(fake: FakeNsqd, *, is_done: bool) -> Answer:
        def answer() -> Answer:
            if is_done:
                fake.channel("orders", "billing")["paused"] = True
            return (200, {"Content-Length": "10"}, b"")  # it ends before its body

        return answer

    with orders_node() as done, orders_node() as not_done, orders_node() as endless:
        for fake, is_done in ((done, True), (not_done, False)):
            fake.answers["/channel/pause"] = lost(fake, is_done=is_done)
        endless.answers["/channel/pause"] = (200, {}, (b"x" * (1 << 20) for _ in range(200)))
        with nodes_of(tmp_path, done, not_done, endless) as (_, nodes):
            first, second, third = (one.result for one in to_each(nodes))
            assert (third.verdict, "answered with more than 33554432 bytes" in third.message) == (UNKNOWN, True)
            assert first.verdict == DONE
            assert first.message.startswith("Paused orders/billing: ")
            assert f"{done.address} did not confirm it (" in first.message
            assert first.message.endswith("; its figures show it.")
            assert (second.verdict, second.code) == (UNKNOWN, "OUTCOME_UNKNOWN")
            assert second.message.startswith("Pause channel of orders/billing may have been done: ")
            assert second.message.endswith("; its figures do not show it so far.")
            not_done.answers["/stats"] = (500, {}, b"")
            assert [len([one for one in fake.acts if one.path == "/channel/pause"]) for fake in (done, not_done)] == [
                1,
                1,
            ]


def test_an_error_of_the_node_is_a_refusal_unless_its_figures_show_the_act(tmp_path: Path) -> None:
    with orders_node() as a, orders_node() as b:
        a.answers["/channel/pause"] = b.answers["/channel/pause"] = (500, {}, b'{"message":"INTERNAL_ERROR"}')
        b.channel("orders", "billing")["paused"] = True
        with nodes_of(tmp_path, a, b) as (_, nodes):
            first, second = (one.result for one in to_each(nodes))
            assert (first.verdict, first.code) == (FAILED, "INTERNAL_ERROR")
            assert first.message.endswith("answered 500: INTERNAL_ERROR; its figures do not show it.")
            assert second.verdict == DONE


def test_an_answer_of_a_proxy_or_messages_that_are_left_do_not_say_that_nothing_was_done(tmp_path: Path) -> None:
    empty = replace(PAUSE, action="empty_channel")
    with orders_node() as a, nodes_of(tmp_path, a) as (_, nodes):
        for order, status, verdict in ((PAUSE, 502, UNKNOWN), (PAUSE, 504, UNKNOWN), (empty, 500, UNKNOWN)):
            a.answers = {"/channel/pause": (status, {}, b""), "/channel/empty": (status, {}, b"")}
            (found,) = to_each(nodes, order)
            assert (found.result.verdict, "Nothing was done" in found.result.message) == (verdict, False)


def publish(*bodies: bytes, key: bytes = b"") -> ActOrder:
    return ActOrder("publish", "orders", "", NO_AUTHOR, {"bodies": bodies, "key": key})


def test_an_act_of_several_requests_says_how_many_were_done(tmp_path: Path) -> None:
    with orders_node() as a, nodes_of(tmp_path, a) as (_, nodes):
        # An empty body is refused.
        (found,) = to_each(nodes, publish(b"1", b"2", b"", b"4"))
        assert (found.result.verdict, a.channel("orders", "billing")["depth"]) == (UNKNOWN, 5)
        assert found.result.message == (
            "Publish of orders may have been done: 2 of its 4 requests were done, then "
            f"{a.address} refused it: MSG_EMPTY."
        )
        (found,) = to_each(nodes, publish(b""))
        assert found.result.verdict == FAILED
        empty = ActOrder("empty_topic", "orders", "", NO_AUTHOR, {"channels_too": True})
        a.answers["/channel/empty"] = (403, {}, b'{"message":"NOT_ALLOWED"}')
        (found,) = to_each(nodes, empty)
        assert found.result.verdict == UNKNOWN
        assert "1 of its 2 requests was done, then" in found.result.message
        # The channel was deleted meanwhile.
        a.answers["/channel/empty"] = (404, {}, b'{"message":"CHANNEL_NOT_FOUND"}')
        (found,) = to_each(nodes, empty)
        assert found.result.verdict == DONE


def test_a_fault_at_one_node_leaves_the_others_their_results(tmp_path: Path) -> None:
    class Faulty:
        name = "nsq-x:4151"
        ends_pauses = True

        def __init__(self, *, is_at_begin: bool) -> None:
            self._is_at_begin = is_at_begin

        def why_not(self, action: str) -> str:
            return ""

        def begin(self, order: ActOrder) -> Callable[[], ActResult]:
            if self._is_at_begin:
                self._fail()
            return self._fail

        def _fail(self) -> ActResult:
            raise RuntimeError("Session is closed")

    with orders_node() as a, nodes_of(tmp_path, a) as (_, nodes):
        results = to_each([Faulty(is_at_begin=True), Faulty(is_at_begin=False), *nodes])
        assert [one.result.code for one in results] == ["INTERNAL_ERROR", "INTERNAL_ERROR", ""]
        assert results[0].result.verdict == UNKNOWN
        assert results[0].result.message == (
            "Pause channel of orders/billing may have been done: the log of this console has the fault."
        )
        (found,) = to_each(nodes, publish(b"1", key=b"\xff"))
        assert (found.result.verdict, found.result.code) == (FAILED, "INVALID_KEY")
        assert "its key is not UTF-8" in found.result.message
        assert a.channel("orders", "billing")["depth"] == 3


def test_a_slow_node_costs_its_own_result_alone(tmp_path: Path) -> None:
    with (
        orders_node() as slow,
        orders_node() as quick,
        nodes_of(tmp_path, slow, quick, options=QUICK) as (_, nodes),
    ):
        slow.delay_s = 30
        first, second = (one.result for one in to_each(nodes))
        # Its figures did not come: the act was not sent.
        assert (first.verdict, first.code, second.verdict) == (FAILED, "UNREACHABLE", DONE)
        assert "did not answer within 1 s" in first.message
        assert slow.acts == []


def delete(topic_name: str = "orders", channel_name: str = "") -> ActOrder:
    action = "delete_channel" if channel_name else "delete_topic"
    return ActOrder(action, topic_name, channel_name, NO_AUTHOR, {"by": "ada", "expected": 3})


class Journal:
    """What nodes and nsqlookupds were sent, in order."""

    def __init__(self, **fakes: FakeNode) -> None:
        self.lines: list[str] = []
        for name, fake in fakes.items():
            self._note(name, fake)

    def _note(self, name: str, fake: FakeNode) -> None:
        answer_to = fake.answer_to

        def noted(request: Any) -> Answer:
            if request.method == "POST":
                about = request.query.get("node") or request.query.get("channel") or request.query["topic"]
                self.lines.append(f"{name} {request.path} {about}")
            return answer_to(request)

        vars(fake)["answer_to"] = noted


def lookupd(*nodes: FakeNode) -> FakeNode:
    fake = FakeNode()
    fake.answers |= dict.fromkeys(("/topic/tombstone", "/topic/delete", "/channel/delete"), b"")
    fake.answer_as_lookupd(*nodes, topics=("orders",))
    return fake


def test_a_topic_is_hidden_first_then_deleted_then_forgotten(tmp_path: Path) -> None:
    with orders_node() as a, orders_node() as b, lookupd(a, b) as lookup:
        journal = Journal(a=a, b=b, lookup=lookup)
        with nodes_of(tmp_path, a, b, lookupds=[lookup]) as (cluster, nodes):
            results = delete_in_order(cluster, [(node, delete()) for node in nodes], is_everywhere=True)
            assert [one.result.verdict for one in results] == [DONE, DONE]
            assert sorted(journal.lines[:2]) == sorted(f"lookup /topic/tombstone {one.address}" for one in (a, b))
            assert sorted(journal.lines[2:4]) == ["a /topic/delete orders", "b /topic/delete orders"]
            assert journal.lines[4:] == ["lookup /topic/delete orders"]


def test_a_node_that_refuses_a_delete_stays_at_the_nsqlookupds(tmp_path: Path) -> None:
    with orders_node() as a, orders_node() as b, lookupd(a, b) as lookup:
        b.answers["/topic/delete"] = (403, {}, b'{"message":"TOKEN_NOT_ALLOWED"}')
        journal = Journal(lookup=lookup)
        with nodes_of(tmp_path, a, b, lookupds=[lookup]) as (cluster, nodes):
            results = delete_in_order(cluster, [(node, delete()) for node in nodes], is_everywhere=True)
            assert [one.result.code for one in results] == ["", "TOKEN_NOT_ALLOWED"]
            # Its tombstone ends by itself; nothing else hides it.
            assert sorted(journal.lines) == sorted(f"lookup /topic/tombstone {one.address}" for one in (a, b))
            del b.answers["/topic/delete"]
            (again,) = delete_in_order(cluster, [(nodes[1], delete())], is_everywhere=True)
            assert (again.result.verdict, journal.lines[-1]) == (DONE, "lookup /topic/delete orders")


def test_a_channel_is_forgotten_once_the_nodes_deleted_it(tmp_path: Path) -> None:
    with orders_node() as a, lookupd(a) as lookup, FakeNode() as deaf:
        deaf.answer_as_lookupd(a, topics=("orders",))
        journal = Journal(a=a, lookup=lookup)
        with nodes_of(tmp_path, a, lookupds=[lookup, deaf]) as (cluster, nodes):
            deaf.failing = (500, {}, b"")
            (found,) = delete_in_order(cluster, [(nodes[0], delete("orders", "billing"))], is_everywhere=True)
            assert journal.lines == ["a /channel/delete billing", "lookup /channel/delete billing"]
            assert found.result.verdict == DONE
            assert found.result.message == (
                "Deleted orders/billing: removed 3 messages. At nsqlookupds it may still be listed: "
                f"http://{deaf.address}/channel/delete answered 500."
            )


def test_a_fault_at_the_nsqlookupds_leaves_the_nodes_their_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("Session is closed")

    with orders_node() as a, lookupd(a) as lookup, nodes_of(tmp_path, a, lookupds=[lookup]) as (cluster, nodes):
        monkeypatch.setattr(type(cluster.lookupds), "act", fail)
        (found,) = delete_in_order(cluster, [(nodes[0], delete())], is_everywhere=True)
        assert (found.result.verdict, a.topics) == (DONE, {})
        assert found.result.message.endswith("it may still be listed: the log of this console has the fault.")
