"""Finds the differences between nodes, in every snapshot of the cluster, within a budget of processor time.

A topic is compared anew once a node that has it was read, at most every COMPARE_S; the topics that wait longest first.
"""

import logging
import time
from collections.abc import Callable, Iterable

from admin_console.cluster.merging.differences import (
    LOOKUPDS,
    Difference,
    Peer,
    differences_of_nodes,
    lasting,
    lookupds_that_disagree,
)
from admin_console.cluster.merging.merged import ClusterSnapshot, TopicPlace
from admin_console.cluster.merging.topic_differences import differences_of_topic, tombstoned
from admin_console.cluster.reading.node_rates import NodeRates, OwnRates
from admin_console.cluster.reading.nodes import ClusterState
from admin_console.cluster.reading.totals import NodeSums
from admin_console.vocabulary import units
from queue_engine.delivery.stats import EngineSnapshot
from queue_engine.vocabulary.version import full_version

logger = logging.getLogger(__name__)

COMPARE_S = 5.0
BUDGET_S = 0.005  # processor time of one snapshot
# nsqlookupds are read one after another: for so long two answers may differ by a change between them.
LASTING_S = 25.0
DIFFERENCES_MAX = 500


class DifferenceFinder:
    """Belongs to one thread. own_name: of this server, as on the Nodes page; "" without an engine."""

    def __init__(
        self,
        own_name: Callable[[], str] = lambda: "",
        own_rates: OwnRates | None = None,
        *,
        now_s: Callable[[], float] = time.monotonic,
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self._own_name = own_name
        self._now_s = now_s
        self._cpu_s = cpu_s
        self._compared: dict[str, tuple[tuple[TopicPlace, ...], float]] = {}  # with when, the longest ago first
        self._of_topics: dict[str, list[Difference]] = {}
        self._of_nodes: list[Difference] = []
        self._nodes_compared_s = -COMPARE_S
        self._own_rates = own_rates or OwnRates()
        self._hidden: dict[tuple[str, str], NodeRates] = {}  # of tombstoned producers, by topic and node
        self._since_ms: dict[tuple[str, ...], int] = {}

    def find(self, snapshot: ClusterSnapshot, own: EngineSnapshot | None) -> tuple[Difference, ...]:
        """The findings of now, the worst first. own: this server's figures; None without an engine."""
        now_s = self._now_s()
        lookups = _missing_lookups(snapshot.state)
        self._compare_topics(snapshot, lookups, now_s)
        hidden = list(self._tombstones(snapshot.state))
        if now_s - self._nodes_compared_s >= COMPARE_S:
            self._nodes_compared_s = now_s
            peer = self._own_peer(own)
            self._of_nodes = differences_of_nodes(snapshot.state, peer)
            self._of_nodes += lookupds_that_disagree(snapshot.state, self._own_name())
        found = [one for differences in self._of_topics.values() for one in differences]
        taken_ms = snapshot.merged.taken_at_ns // 1_000_000
        dated = lasting([*found, *hidden, *self._of_nodes], self._since_ms, taken_ms)
        shown = [one for one in dated if one.kind != LOOKUPDS or taken_ms - one.since_ms >= LASTING_S * 1_000]
        return tuple(sorted(shown, key=lambda one: one.order)[:DIFFERENCES_MAX])

    def _compare_topics(self, snapshot: ClusterSnapshot, lookups: dict[str, str], now_s: float) -> None:
        for gone in self._compared.keys() - snapshot.by_topic.keys():
            del self._compared[gone]
            self._of_topics.pop(gone, None)
        new = [name for name in snapshot.by_topic if name not in self._compared]
        began_s = self._cpu_s()
        for name in [*new, *self._compared]:
            places = tuple(snapshot.by_topic[name])
            before, at_s = self._compared.get(name, ((), 0.0))
            if places is before or (before and now_s - at_s < COMPARE_S):
                continue
            if self._cpu_s() - began_s >= BUDGET_S:
                break
            self._compared.pop(name, None)
            self._compared[name] = (places, now_s)
            try:
                found = differences_of_topic(name, places, lookups)
            except Exception:
                # A fault of ours with this topic: the others go on.
                logger.exception("the nodes of topic %s can't be compared", name)
                found = []
            if found:
                self._of_topics[name] = found
            else:
                self._of_topics.pop(name, None)

    def _tombstones(self, state: ClusterState) -> Iterable[Difference]:
        """Of nodes that answer: messages that they take of topics of which nsqlookupds do not name them."""
        now = {
            (topic, node.name): node.stats
            for node in state.answering
            if node.stats is not None
            for registration in node.member.registrations.values()
            for topic in registration.tombstoned & node.stats.topics.keys()
        }
        self._hidden = {key: self._hidden.get(key) or NodeRates() for key in now}
        for (topic, node), stats in now.items():
            sums = NodeSums(1, None, None, stats.topics[topic].figures["message_count"])
            rates = self._hidden[topic, node].note(stats.topic_read_at_ms(topic) / 1_000, stats.started_s, sums)
            yield from tombstoned(topic, node, rates.published_s)

    def _own_peer(self, own: EngineSnapshot | None) -> Peer | None:
        if own is None:
            return None
        rates = self._own_rates.of(own, NodeSums.of_engine(own))
        return Peer(self._own_name(), f"Penstock {full_version().partition('+')[0]}", rates.published_s)


def _missing_lookups(state: ClusterState) -> dict[str, str]:
    """By node, words about its registrations, where an nsqlookupd that answers lacks it."""
    answering = [one.address for one in state.lookupds if one.answers.is_answering]
    found = {}
    for node in state.nodes:
        registered = node.member.registrations
        if registered and any(one not in registered for one in answering):
            found[node.name] = f"registered at {len(registered)} of {units.plural(len(state.lookupds), 'nsqlookupd')}"
    return found
