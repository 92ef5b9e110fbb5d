"""One order to several nodes at once, with a result for each.

A delete has an order. nsqlookupds hide the topic's producers first (tombstones, which end by themselves), so that a
consumer that polls them does not make the topic again meanwhile. Then the nodes delete it. Only where all of them did,
the nsqlookupds forget it: a node that refused or gave no answer is found again once its tombstone ends.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.cluster import Cluster
from admin_console.cluster.reading.nodes import ClusterState
from admin_console.gateway.acting_nodes import ActingNode
from admin_console.gateway.gateway import DONE, FAILED, UNKNOWN, ActOrder, ActResult
from admin_console.gateway.pause_ends import End, get_pause_ends
from admin_console.gateway.sentences import act_in_words, and_list, counted, within
from admin_console.vocabulary import units
from queue_engine.vocabulary.errors import StorageError

logger = logging.getLogger(__name__)

_OF_PAUSES = frozenset(f"{verb}_{scope}" for verb in ("pause", "unpause", "delete") for scope in ("topic", "channel"))

REASONS_MAX = 5  # of nodes, in one sentence
DETAIL_LENGTH = 2_500  # of an audit row's text, where the name of the cluster stands, too


@dataclass(frozen=True, slots=True)
class NodeResult:
    """The result of an order at one node."""

    node: str
    result: ActResult


def fan_out(orders: Sequence[tuple[ActingNode, ActOrder]]) -> list[NodeResult]:
    """Have each node do its order, all at once; the results in their order. A fault at one node costs that result
    alone."""
    waits = [(node.name, _guarded(node, order)) for node, order in orders]
    return [NodeResult(name, wait()) for name, wait in waits]


def _guarded(node: ActingNode, order: ActOrder) -> Callable[[], ActResult]:
    """Begin it; neither this nor the wait raises."""
    try:
        wait = _begun(node, order)
    except Exception:
        fault = fault_of(order, node.name)
        return lambda: fault

    def finish() -> ActResult:
        try:
            return wait()
        except Exception:
            return fault_of(order, node.name)

    return finish


def fault_of(order: ActOrder, node: str = "") -> ActResult:
    """The result of an act in an `except` block: its fault goes to the log."""
    logger.exception("act failed action=%s topic=%s channel=%s node=%s", order.action, order.topic, order.channel, node)
    name = f"{order.topic}/{order.channel}" if order.channel else order.topic
    act = act_in_words(order.action)
    sentence = f"{act} of {name} may have been done: the log of this console has the fault."
    return ActResult(UNKNOWN, sentence, "INTERNAL_ERROR")


def _begun(node: ActingNode, order: ActOrder) -> Callable[[], ActResult]:
    """Begin it; a pause with an end is ended by this console where the node can't."""
    ends = get_pause_ends()
    if node.ends_pauses or order.action not in _OF_PAUSES:
        return node.begin(order)
    name = f"{order.topic}/{order.channel}".strip("/")
    now_ms = units.now_ms() if ends is None else ends.now_ms()
    for_ms = order.details.get("for_ms")
    until_ms = now_ms + for_ms if for_ms else order.details.get("until_ms", 0)
    before = ends.of(node.name, order.topic, order.channel) if ends is not None else None
    if order.action.startswith("pause_") and until_ms:
        by, reason = order.details.get("by", ""), order.details.get("reason", "")
        end = End(node.name, order.topic, order.channel, until_ms, before.since_ms if before else now_ms, by, reason)
        try:
            if ends is None:
                raise StorageError("this console is starting or stopping")
            ends.set(end)
        except StorageError as exc:
            sentence = f"Nothing was done to {name}: {node.name} can't end a pause, and {exc}."
            return lambda: ActResult(FAILED, sentence, "STORAGE_ERROR")
    wait = node.begin(order)

    def finish() -> ActResult:
        result = wait()
        if ends is None:
            return result
        if order.action.startswith("pause_"):
            if (until_ms and result.verdict == FAILED and before is None) or (for_ms == 0 and result.verdict != FAILED):
                ends.drop(node.name, order.topic, order.channel)
            elif not until_ms and result.verdict == DONE and result.created:
                # Another program resumed it: the end was of the pause before.
                ends.drop(node.name, order.topic, order.channel)
            elif until_ms and result.verdict == DONE:
                return _with(result, f" This console ends the pause at {units.moment(until_ms)} UTC.")
        elif result.verdict == DONE:
            ends.drop(node.name, order.topic, order.channel, with_channels=order.action == "delete_topic")
        return result

    return finish


def delete_in_order(
    cluster: Cluster, orders: Sequence[tuple[ActingNode, ActOrder]], *, is_everywhere: bool
) -> list[NodeResult]:
    """`fan_out` of deleting one topic, or one channel, in the order above. is_everywhere: no other node has it. A
    result says where an nsqlookupd did not take part."""
    order = orders[0][1]
    registered = _Registered(cluster, order)
    if not order.channel:
        registered.hide([node.name for node, _ in orders])
    results = fan_out(orders)
    if is_everywhere and all(_is_gone(one.result) for one in results):
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
    act = act_in_words(order.action)
    counts: dict[str, int] = {}
    for one in results:
        for key, number in one.result.counts.items():
            counts[key] = counts.get(key, 0) + number
    if not left:
        sentence = f"{act} {name}: done on {counted(len(results), 'node')}."
        is_already = all(one.result.already for one in results)
        return ActResult(DONE, sentence, counts=counts, already=is_already)
    verdict = UNKNOWN if any(one.result.verdict == UNKNOWN for one in left) else FAILED
    reasons = reasons_of(left)
    done = f"done on {len(results) - len(left)} of {counted(len(results), 'node')}"
    return ActResult(verdict, f"{act} {name}: {done}. {reasons}", left[0].result.code, counts=counts)


def reasons_of(left: Sequence[NodeResult]) -> str:
    """Of many the first ones."""
    reasons = [f"{one.node}: {one.result.message}" for one in left[:REASONS_MAX]]
    if len(left) > REASONS_MAX:
        reasons.append(f"{counted(len(left) - REASONS_MAX, 'further node')} did not do it, either.")
    return " ".join(reasons)


def by_node(results: Sequence[NodeResult]) -> str:
    """The outcome of each node, for the audit list; of many nodes a count of those that did it, and the others."""
    words = {DONE: "done", UNKNOWN: "no answer"}
    texts = [f"{one.node} {words.get(one.result.verdict) or one.result.code or 'refused'}" for one in results]
    if len(whole := "; ".join(texts)) <= DETAIL_LENGTH:
        return whole
    left = [text for text, one in zip(texts, results, strict=True) if one.result.verdict != DONE]
    done = f"{len(results) - len(left):,} of {counted(len(results), 'node')} done"
    return f"{done}; {within(left, DETAIL_LENGTH - len(done), '; ')}" if left else done


def _is_gone(result: ActResult) -> bool:
    return result.verdict == DONE or result.code in ("TOPIC_NOT_FOUND", "CHANNEL_NOT_FOUND")


def _with(result: ActResult, sentence: str) -> ActResult:
    return replace(result, message=result.message + sentence)


class _Registered:
    """A topic or channel at the nsqlookupds of the cluster. failures: those that did not take part, with the reason."""

    def __init__(self, cluster: Cluster, order: ActOrder) -> None:
        self._cluster = cluster
        self._names = {"topic": order.topic, **({"channel": order.channel} if order.channel else {})}
        self.failures: list[str] = []

    def hide(self, nodes: Sequence[str]) -> None:
        """Tombstone these nodes for the topic, where they are registered."""
        by_name: dict[str, list[HttpAddress]] = {}
        for lookupd, named in _registrations(self._cluster.state, self._names["topic"], set(nodes)):
            by_name.setdefault(named, []).append(lookupd)
        for named, lookupds in by_name.items():
            self._do(lookupds, "/topic/tombstone", {**self._names, "node": named})

    def forget(self) -> None:
        """Delete it at each nsqlookupd."""
        scope = "channel" if "channel" in self._names else "topic"
        self._do([one.address for one in self._cluster.state.lookupds], f"/{scope}/delete", self._names)

    def _do(self, lookupds: Sequence[HttpAddress], path: str, query: dict[str, str]) -> None:
        try:
            self.failures += [one.error for one in self._cluster.lookupds.act(lookupds, path, query) if one.error]
        except Exception:
            # The results of the nodes are there, or to come.
            logger.exception("nsqlookupds failed path=%s topic=%s", path, query["topic"])
            self.failures.append("the log of this console has the fault")


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
