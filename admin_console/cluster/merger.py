"""Merges the newest answers of the nodes, and this server's figures, into a snapshot a second."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from admin_console.cluster.addresses import HttpAddress
from admin_console.cluster.growth import GrowthLedger, grown
from admin_console.cluster.merged import TOTAL, ClusterSnapshot, Key, TopicPlace, merged_topic
from admin_console.cluster.node_figures import lacking, topic_stats
from admin_console.cluster.node_stats import NodeStats, NodeTopic
from admin_console.cluster.nodes import ClusterState, Node
from queue_engine.delivery.stats import HEALTHY, EngineSnapshot, TopicStats
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S
from queue_engine.vocabulary.names import is_valid_name
from queue_engine.vocabulary.version import full_version

logger = logging.getLogger(__name__)

# Processor time of a tick for topics that no page shows.
BUDGET_S = 0.03
# All that a process has counted is growth where it started so short a time before its first reading.
START_S_MAX = 60
# Growth of a longer time counts with its mean rate for so long: a node that was silent for an hour draws no peak.
SPREAD_S_MAX = 60
TOPICS_MAX = 20_000  # of all nodes that never answered together


@dataclass(slots=True)
class _Part:
    """A topic at one node as it was merged last. source: of which its stats were made; a newer reading is another
    object."""

    source: NodeTopic | TopicStats
    started_s: int
    read_at_ms: int
    stats: TopicStats
    lacking: tuple[str, ...] = ()  # channels, "" for the topic, whose counts the node does not report in full


_NO_PARTS: Mapping[HttpAddress | None, _Part] = {}


@dataclass(slots=True)
class _Seen:
    """A node at the last tick. topics: by name; None for one that is only registered."""

    node: Node
    topics: Mapping[str, NodeTopic | None] = field(default_factory=dict)
    is_answering: bool = False


class Merger:
    """Belongs to one thread. own_name: of this server, as on the Nodes page; "" without an engine."""

    def __init__(
        self,
        own_name: Callable[[], str] = lambda: "",
        *,
        budget_s: float = BUDGET_S,
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self._own_name = own_name
        self._budget_s = budget_s
        self._cpu_s = cpu_s
        self._sequence = 0
        self._started_at_ns = 0
        self._taken_at_ns = 0
        self._seen: dict[HttpAddress, _Seen] = {}
        self._own: dict[str, TopicStats] = {}
        self._own_started_s = 0
        self._holders: Counter[str] = Counter()  # how many nodes beside this server have a topic
        self._due: dict[str, None] = {}  # topics to merge, those that wait longest first
        self._parts: dict[str, dict[HttpAddress | None, _Part]] = {}  # None: this server
        self._merged: dict[str, TopicStats] = {}
        self._places: dict[str, tuple[TopicPlace, ...]] = {}
        self._silent: Mapping[Key, tuple[str, ...]] = {}
        self._is_silent_old = False
        self._growth = GrowthLedger()

    @property
    def own_name(self) -> Callable[[], str]:
        return self._own_name

    def tick(
        self, own: EngineSnapshot | None, state: ClusterState, now_ns: int, watched: Collection[str] = ()
    ) -> ClusterSnapshot:
        """The snapshot of this second. own: this server's; None without an engine. now_ns: Unix. watched: topics that
        pages show, which are merged whatever it takes."""
        self._sequence += 1
        self._started_at_ns = self._started_at_ns or now_ns
        taken_at_ns = own.taken_at_ns if own is not None else now_ns
        self._note_nodes(state)
        self._note_own(own)
        tick_s = (taken_at_ns - self._taken_at_ns) / NS_PER_S if self._taken_at_ns else 1.0
        self._taken_at_ns = taken_at_ns
        began_s = self._cpu_s()
        due = [name for name in watched if name in self._due]
        for name in [*due, *self._due]:
            if name not in self._due:
                continue
            if name not in due and name in self._merged and self._cpu_s() - began_s >= self._budget_s:
                break
            del self._due[name]
            try:
                self._merge(name, taken_at_ns, tick_s)
            except Exception:
                # A fault of ours with this topic: the others go on.
                logger.exception("topic %s can't be merged", name)
        growth = self._growth.take()
        topics = tuple([self._merged[name] for name in sorted(self._merged)])
        return ClusterSnapshot(
            merged=self._snapshot(own, topics, now_ns),
            state=state,
            growth=growth,
            silent=self._silent_now(),
            by_topic=dict(self._places),
        )

    def _snapshot(self, own: EngineSnapshot | None, topics: tuple[TopicStats, ...], now_ns: int) -> EngineSnapshot:
        if own is not None:
            return replace(own, topics=topics)
        return EngineSnapshot(
            sequence=self._sequence,
            taken_at_ns=now_ns,
            started_at_ns=self._started_at_ns,
            version=full_version(),
            health=HEALTHY,
            connection_count=0,
            producer_count=0,
            topics=topics,
        )

    def _note_nodes(self, state: ClusterState) -> None:
        """Find the topics that changed at a node, and those that came or went."""
        there = {node.member.target: node for node in state.called}
        for target in self._seen.keys() - there.keys():
            self._note_topics(self._seen.pop(target).topics, {}, is_same=False)
            self._is_silent_old = True
        for target, node in there.items():
            seen = self._seen.get(target)
            if seen is not None and seen.node is node:
                continue
            is_answering = node.answers.is_answering
            topics = _topics_of(node)
            if seen is None:
                seen = self._seen[target] = _Seen(node)
            is_same = seen.is_answering == is_answering
            if topics is not seen.topics or not is_same:
                self._note_topics(seen.topics, topics, is_same=is_same)
            if node.stats is not None:
                self._note_unchanged(target, node.stats, seen.node.stats)
            self._is_silent_old |= not (is_same and is_answering)
            seen.node, seen.topics, seen.is_answering = node, topics, is_answering

    def _note_topics(
        self, before: Mapping[str, NodeTopic | None], now: Mapping[str, NodeTopic | None], *, is_same: bool
    ) -> None:
        """is_same: whether the node answers as it did before."""
        for name, topic in now.items():
            if name not in before:
                self._holders[name] += 1
            elif is_same and before[name] is topic:
                continue
            self._due.setdefault(name)
        for name in before.keys() - now.keys():
            self._holders[name] -= 1
            if not self._holders[name]:
                del self._holders[name]
            self._due.setdefault(name)

    def _note_unchanged(self, target: HttpAddress, stats: NodeStats, before: NodeStats | None) -> None:
        """A topic that is the same object was read again: what it grows from now on, it grows since this reading."""
        if before is None or stats is before:
            return
        if stats.read_at_ms != before.read_at_ms:
            names: Iterable[str] = stats.topics
        else:
            names = [name for name, at_ms in stats.alone_at_ms.items() if before.alone_at_ms.get(name) != at_ms]
        for name in names:
            part = self._parts.get(name, _NO_PARTS).get(target)
            if part is not None and part.source is stats.topics.get(name):
                part.read_at_ms = stats.topic_read_at_ms(name)

    def _note_own(self, own: EngineSnapshot | None) -> None:
        topics = {topic.topic_name: topic for topic in own.topics} if own is not None else {}
        self._own_started_s = own.started_at_ns // NS_PER_S if own is not None else 0
        for name in self._own.keys() | topics.keys():
            self._due.setdefault(name)
        self._own = topics

    def _merge(self, name: str, taken_at_ns: int, tick_s: float) -> None:
        parts = self._parts.setdefault(name, {})
        places: list[TopicPlace] = []
        found: set[HttpAddress | None] = set()
        own = self._own.get(name)
        if own is not None:
            found.add(None)
            self._renew(parts, None, own, self._own_started_s, taken_at_ns // NS_PER_MS, tick_s)
            places.append(TopicPlace(self._own_name(), True, True, taken_at_ns // NS_PER_MS, own))
        for target, seen in self._seen.items() if self._holders[name] else ():
            if name not in seen.topics:
                continue
            topic = seen.topics[name]
            if topic is None:
                places.append(TopicPlace(seen.node.name, False, False, 0, _unread(name)))
                self._is_silent_old = True
                continue
            found.add(target)
            stats = seen.node.stats
            read_at_ms = stats.topic_read_at_ms(name) if stats is not None else 0
            part = self._renew(parts, target, topic, stats.started_s if stats is not None else 0, read_at_ms, tick_s)
            places.append(TopicPlace(seen.node.name, False, seen.is_answering, part.read_at_ms, part.stats))
            self._is_silent_old |= bool(part.lacking)
        for gone in parts.keys() - found:
            self._is_silent_old |= bool(parts.pop(gone).lacking)
        if not places:
            for held in (self._parts, self._merged, self._places):
                held.pop(name, None)
            return
        self._merged[name] = merged_topic(name, places)
        self._places[name] = tuple(places)

    def _renew(
        self,
        parts: dict[HttpAddress | None, _Part],
        key: HttpAddress | None,
        source: NodeTopic | TopicStats,
        started_s: int,
        read_at_ms: int,
        tick_s: float,
    ) -> _Part:
        """The part of a node as it is now; what its counters have grown is noted."""
        part = parts.get(key)
        if part is not None and part.source is source:
            return part
        goes_on = part is not None and part.started_s == started_s
        before = part.stats if part is not None and goes_on else None
        lacks: tuple[str, ...] = ()
        if isinstance(source, NodeTopic):
            lacks = lacking(source)
            self._is_silent_old |= part is not None and bool(part.lacking)
            earlier = {one.channel_name: one for one in before.channels} if before is not None else None
            stats = topic_stats(source, read_at_ms, earlier)
        else:
            stats = source
        if part is not None:
            elapsed_s = (read_at_ms - part.read_at_ms) / 1000
            self._note_growth(grown(before, stats), elapsed_s, tick_s)
        made = parts[key] = _Part(source, started_s, read_at_ms, stats, lacks)
        return made

    def _note_growth(self, found: Mapping[Key, tuple[int, int, int, int]], elapsed_s: float, tick_s: float) -> None:
        if not found:
            return
        spread_s = min(max(elapsed_s, tick_s), SPREAD_S_MAX)
        share = min(1.0, SPREAD_S_MAX / elapsed_s) if elapsed_s > 0 else 1.0
        self._growth.add(found, max(1, round(spread_s / tick_s)) if tick_s > 0 else 1, share)

    def _silent_now(self) -> Mapping[Key, tuple[str, ...]]:
        """Worked out where an answer changed it."""
        if not self._is_silent_old:
            return self._silent
        self._is_silent_old = False
        found: dict[Key, set[str]] = {}
        for target, seen in self._seen.items():
            name = seen.node.name
            if not seen.is_answering:
                found.setdefault(TOTAL, set()).add(name)
                for topic_name, topic in seen.topics.items():
                    for key in self._keys_of(topic_name, topic):
                        found.setdefault(key, set()).add(name)
                continue
            for topic_name in seen.topics:
                part = self._parts.get(topic_name, {}).get(target)
                for channel in part.lacking if part is not None else ():
                    for key in ((topic_name, ""), (topic_name, channel)):
                        found.setdefault(key, set()).add(name)
        self._silent = {key: tuple(sorted(names)) for key, names in found.items()}
        return self._silent

    def _keys_of(self, name: str, topic: NodeTopic | None) -> Iterable[Key]:
        """The topic and its channels at a node. Of one that never answered, any channel may be there."""
        yield name, ""
        if topic is not None:
            yield from ((name, channel) for channel in topic.channels)
        elif (merged := self._merged.get(name)) is not None:
            yield from ((name, channel.channel_name) for channel in merged.channels)


def _topics_of(node: Node) -> Mapping[str, NodeTopic | None]:
    """By its last answer; by its registration where it never answered."""
    if node.stats is not None:
        return node.stats.topics
    registered = {name for one in node.member.registrations.values() for name in one.topics}
    return dict.fromkeys(sorted(filter(is_valid_name, registered))[:TOPICS_MAX])


def _unread(name: str) -> TopicStats:
    """A topic of a node that never answered."""
    return TopicStats(
        topic_name=name,
        storage="",
        depth=0,
        backend_depth=0,
        message_count=0,
        message_bytes=0,
        paused=False,
        oldest_ns=None,
        disk_bytes=None,
        channels=(),
    )
