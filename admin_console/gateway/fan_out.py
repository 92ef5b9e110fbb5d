"""One order to several nodes at once, with a result for each.

A delete has an order. nsqlookupds hide the topic's producers first (tombstones, which end by themselves), so that a
consumer that polls them does not make the topic again meanwhile. Then the nodes delete it. Only where all of them did,
the nsqlookupds forget it: a node that refused or gave no answer is found again once its tombstone ends.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from admin_console.cluster.addresses import HttpAddress
from admin_console.cluster.cluster import Cluster
from admin_console.cluster.nodes import ClusterState, NotCallingError
from admin_console.gateway.gateway import DONE, FAILED, UNKNOWN, ActOrder, ActResult, Gateway
from admin_console.gateway.sentences import and_list, counted
from queue_engine.vocabulary.errors import PenstockError

if TYPE_CHECKING:
    from admin_console.cluster.node_http import NodeHttp

logger = logging.getLogger(__name__)

_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class NodeResult:
    """The result of an order at one node."""

    node: str
    result: ActResult


class ActingNode(Protocol):
    """A node that does acts: the engine of this process, or a remote one (`node_gateway.py`)."""

    @property
    def name(self) -> str: ...

    def why_not(self, action: str) -> str:
        """Why it can't do an act or use, a sentence without its full stop; "" where it can."""
        ...

    def begin(self, order: ActOrder) -> Callable[[], ActResult]:
        """Begin an act; the function that is returned waits for its result."""
        ...


class EmbeddedNode:
    """The engine of this process, as one node of several."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.name = gateway.node().http_address

    def why_not(self, action: str) -> str:
        return "" if action in self._gateway.node().capabilities else f"{self.name} has no such act"

    def begin(self, order: ActOrder) -> Callable[[], ActResult]:
        """It begins when its result is waited for: until then other nodes have begun."""
        return lambda: self._gateway.acts([order])[0]


def fan_out(orders: Sequence[tuple[ActingNode, ActOrder]]) -> list[NodeResult]:
    """Have each node do its order, all at once; the results in their order."""
    waits = [(node.name, node.begin(order)) for node, order in orders]
    return [NodeResult(name, wait()) for name, wait in waits]


def delete_everywhere(cluster: Cluster, orders: Sequence[tuple[ActingNode, ActOrder]]) -> list[NodeResult]:
    """`fan_out` of deleting one topic, or one channel, in the order above. A result says where an nsqlookupd did not
    take part."""
    order = orders[0][1]
    registered = _Registered(cluster, order)
    if not order.channel:
        registered.hide([node.name for node, _ in orders])
    results = fan_out(orders)
    if all(_is_gone(one.result) for one in results):
        registered.forget()
    if not registered.failures:
        return results
    sentence = f" At nsqlookupds it may still be listed: {and_list(sorted(set(registered.failures)))}."
    return [*results[:-1], NodeResult(results[-1].node, _with(results[-1].result, sentence))]


def summary(order: ActOrder, results: Sequence[NodeResult]) -> ActResult:
    """All of them as one: done where each is, unknown where one is, else failed. The sentence names the nodes that did
    not do it, each with its reason."""
    left = [one for one in results if one.result.verdict != DONE]
    name = f"{order.topic}/{order.channel}" if order.channel else order.topic
    act = order.action.replace("_", " ").capitalize()
    counts: dict[str, int] = {}
    for one in results:
        for key, number in one.result.counts.items():
            counts[key] = counts.get(key, 0) + number
    if not left:
        sentence = f"{act} {name}: done on {counted(len(results), 'node')}."
        is_already = all(one.result.already for one in results)
        return ActResult(DONE, sentence, counts=counts, already=is_already)
    verdict = UNKNOWN if any(one.result.verdict == UNKNOWN for one in left) else FAILED
    reasons = " ".join(f"{one.node}: {one.result.message}" for one in left)
    done = f"done on {len(results) - len(left)} of {counted(len(results), 'node')}"
    return ActResult(verdict, f"{act} {name}: {done}. {reasons}", left[0].result.code, counts=counts)


def by_node(results: Sequence[NodeResult]) -> str:
    """The outcome of each node, for the audit list."""
    words = {DONE: "done", UNKNOWN: "no answer"}
    return "; ".join(f"{one.node} {words.get(one.result.verdict) or one.result.code or 'refused'}" for one in results)


def _is_gone(result: ActResult) -> bool:
    return result.verdict == DONE or result.code in ("TOPIC_NOT_FOUND", "CHANNEL_NOT_FOUND")


def _with(result: ActResult, sentence: str) -> ActResult:
    return ActResult(
        result.verdict, result.message + sentence, result.code, result.counts, result.results, trash=result.trash
    )


class _Registered:
    """A topic or channel at the nsqlookupds of the cluster. failures: those that did not take part, with the reason."""

    def __init__(self, cluster: Cluster, order: ActOrder) -> None:
        self._cluster = cluster
        self._topic = order.topic
        self._channel = order.channel
        self.failures: list[str] = []

    def hide(self, nodes: Sequence[str]) -> None:
        """Tombstone these nodes for the topic, where they are registered."""
        state = self._cluster.state
        self._post(
            [
                (lookupd, "/topic/tombstone", {"topic": self._topic, "node": named})
                for lookupd, named in _registrations(state, self._topic, set(nodes))
            ]
        )

    def forget(self) -> None:
        """Delete it at each nsqlookupd."""
        scope = "channel" if self._channel else "topic"
        query = {"topic": self._topic, **({"channel": self._channel} if self._channel else {})}
        self._post([(one.address, f"/{scope}/delete", query) for one in self._cluster.state.lookupds])

    def _post(self, calls: Sequence[tuple[HttpAddress, str, dict[str, str]]]) -> None:
        if not calls:
            return

        async def post_all(http: "NodeHttp") -> list[str]:
            return list(filter(None, await asyncio.gather(*(_posted(http, *call) for call in calls))))

        try:
            self.failures += self._cluster.call(post_all).result(2 * self._cluster.request_timeout_s + 1)
        except (NotCallingError, TimeoutError) as exc:
            self.failures.append(str(exc) or "no answer in time")


async def _posted(http: "NodeHttp", address: HttpAddress, path: str, query: dict[str, str]) -> str:
    """Why the nsqlookupd did not do it; "" where it did, or has no such topic or channel."""
    try:
        await http.post_to_lookupd(address, path, query)
    except PenstockError as exc:
        return "" if getattr(exc, "status", 0) == _NOT_FOUND else str(exc)
    return ""


def _registrations(state: ClusterState, topic: str, nodes: set[str]) -> list[tuple[HttpAddress, str]]:
    """nsqlookupd and the name by which a node is registered there, of these nodes that have registered the topic. The
    engine of this process is registered by other names than its own."""
    members = [node.member for node in state.nodes if node.name in nodes]
    if nodes - {node.name for node in state.nodes}:
        members += state.embedded
    return [
        (lookupd, registration.address.bare)
        for member in members
        for lookupd, registration in member.registrations.items()
        if topic in registration.topics
    ]
