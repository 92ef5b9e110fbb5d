"""Merges the newest answers of the nodes, and this server's figures, into a snapshot a second.

A topic is merged again when a node that has it was read: each reading changes the sums by its difference
(`topic_sums.py`). Topics that a page shows come first, then those that wait longest, within a budget of processor time.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.merging.failures import NodeFailures
from admin_console.cluster.merging.growth import GrowthLedger, grown
from admin_console.cluster.merging.merged import TOTAL, ClusterSnapshot, Key, TopicPlace
from admin_console.cluster.merging.node_clients import Producers
from admin_console.cluster.merging.node_figures import (
    NO_TOPIC_ROW,
    channel_row,
    lacking,
    oldest_ns,
    topic_row,
)
from admin_console.cluster.merging.topic_sums import TopicSums
from admin_console.cluster.reading.node_stats import NodeStats, NodeTopic
from admin_console.cluster.reading.nodes import ClusterState, Node
from queue_engine.delivery.stats import HEALTHY, ClientStats, EngineSnapshot, TopicStats
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S
from queue_engine.vocabulary.names import is_valid_name
from queue_engine.vocabulary.version import full_version

logger = logging.getLogger(__name__)

# Processor time of a tick; the rest waits for the next one. Less than reading and merging may take together
# (`options.Pace`), so that a longer period between the readings makes room for both.
BUDGET_S = 0.08
# All that another process has counted is growth where it started so short a time before its first reading. The
# counters of this process's engine were shown already, where other nodes are first named while it runs.
START_S_MAX = 60
# Growth of a longer time counts with its mean rate for so long: a node that was silent for an hour draws no peak.
SPREAD_S_MAX = 60
TICK_S_MAX = 10.0
# Of a node that registered topics and never answered.
TOPICS_MAX = 20_000
_OWN = None  # this server's key among the nodes
_OTHER = object()


T = TypeVar("T")


@dataclass(slots=True)
class _Readings:
    """When a node was read, Unix milliseconds; 0: it was not. born: topics that came to it since it was read first."""

    read_ms: int = 0
    before_ms: int = 0  # the reading before the newest
    born: set[str] = field(default_factory=set)

    def note(self, at_ms: int, before: Collection[str], now: Iterable[str]) -> None:
        """before, now: the topics of the reading before, and of this one."""
        if self.read_ms:
            self.born.update(name for name in now if name not in before)
        if at_ms != self.read_ms:
            self.before_ms, self.read_ms = self.read_ms, at_ms


@dataclass(slots=True)
class _Seen:
    """A node at the last tick. topics: by its last answer; None for one that is only registered."""

    node: Node
    name: str
    topics: Mapping[str, NodeTopic | None] = field(default_factory=dict)
    is_answering: bool = False
    stats: NodeStats | None = None
    before: NodeStats | None = None  # the stats before these
    readings: _Readings = field(default_factory=_Readings)


class Merger:
    """Belongs to one thread. own_name: of this server, as on the Nodes page; "" without an engine. cpu_s: processor
    time of the thread."""

    def __init__(
        self,
        own_name: Callable[[], str] = lambda: "",
        *,
        budget_s: float = BUDGET_S,
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self._own_name = own_name
        self._budget_s = budget_s
        self.left = 1.0  # which part of it the engine leaves
        self._cpu_s = cpu_s
        self._sequence = 0
        self._started_at_ns = 0
        self._taken_at_ns = 0
        self._tick_s = 1.0
        self._now_s = 0.0  # the sum of the ticks
        self._seen: dict[HttpAddress, _Seen] = {}
        self._own: Mapping[str, TopicStats] = {}
        self._own_started_s = 0
        self._own_readings = _Readings()
        # Topics to merge, those that wait longest first: topic → nodes that were read.
        self._due: dict[str, set[HttpAddress | None]] = {}
        self._sums: dict[str, TopicSums] = {}
        self._merged: dict[str, TopicStats] = {}
        self._parts: dict[str, tuple[TopicPlace, ...]] = {}
        self._names: list[str] | None = None  # of `_merged`, sorted; None: some came or went
        self._silent: Mapping[Key, tuple[str, ...]] = {}
        self._partial_total: tuple[str, ...] = ()
        self._is_silent_old = False
        self._growth = GrowthLedger()
        self._failures = NodeFailures()
        self._producers = Producers()
        self._watched: frozenset[str] = frozenset()

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
        if self._taken_at_ns and taken_at_ns > self._taken_at_ns:
            # A clock that was set is no tick.
            self._tick_s = min((taken_at_ns - self._taken_at_ns) / NS_PER_S, TICK_S_MAX)
        self._taken_at_ns = taken_at_ns
        self._now_s += self._tick_s
        self._note_own(own)
        self._note_nodes(state)
        for name in self._watched.symmetric_difference(watched):
            if name in self._merged:
                self._due.setdefault(name, set())  # with its clients from now on, or without
        self._watched = frozenset(watched)
        self._merge_due(watched)
        if self._names is None:
            self._names = sorted(self._merged)
        failing = self._with_failures()
        topics = tuple([failing.get(name) or self._merged[name] for name in self._names])
        return ClusterSnapshot(
            merged=self._snapshot(own, topics, now_ns, watched),
            state=state,
            growth=self._growth.take(),
            silent=self._silent_now(),
            partial_total=self._partial_total,
            by_topic=dict(self._parts),
            has_engine=own is not None,
        )

    def _with_failures(self) -> Mapping[str, TopicStats]:
        """The topics whose deliveries failed at other nodes; made at each tick, since a minute passes."""
        found: dict[str, TopicStats] = {}
        for name in self._failures.topics:
            if name in self._merged:
                found[name] = self._failures.added_to(self._merged[name], self._now_s)
            else:
                self._failures.forget(name)
        return found

    def _snapshot(
        self, own: EngineSnapshot | None, topics: tuple[TopicStats, ...], now_ns: int, watched: Collection[str]
    ) -> EngineSnapshot:
        producers = self._producers_of(watched)
        if own is not None:
            return replace(own, topics=topics, producers=(*own.producers, *producers) if producers else own.producers)
        return EngineSnapshot(
            sequence=self._sequence,
            taken_at_ns=now_ns,
            started_at_ns=self._started_at_ns,
            version=full_version(),
            health=HEALTHY,
            connection_count=0,
            producer_count=0,
            topics=topics,
            producers=producers,
        )

    def _producers_of(self, watched: Collection[str]) -> tuple[ClientStats, ...]:
        """Those of other nodes, as far as pages show them."""
        listed = (
            (seen.name, name, topic.producers)
            for seen in self._seen.values()
            if seen.is_answering
            for name in watched
            if (topic := seen.topics.get(name)) is not None and topic.producers
        )
        return self._producers.of(listed)

    def _note_own(self, own: EngineSnapshot | None) -> None:
        if own is None:
            return
        before, self._own = self._own, {topic.topic_name: topic for topic in own.topics}
        self._own_started_s = own.started_at_ns // NS_PER_S
        self._own_readings.note(own.taken_at_ns // NS_PER_MS, before, self._own)
        self._note_topics(_OWN, before, self._own)

    def _note_nodes(self, state: ClusterState) -> None:
        """Find the topics that changed at a node, and those that came or went."""
        there = {node.member.target: node for node in state.called}
        for target in self._seen.keys() - there.keys():
            self._note_topics(target, self._seen.pop(target).topics, {})
            self._is_silent_old = True
        for target, node in there.items():
            seen = self._seen.get(target)
            if seen is None:
                seen = self._seen[target] = _Seen(node, node.name)
            elif seen.node is node:
                continue
            topics, is_answering = _topics_of(node), node.answers.is_answering
            has_flipped = seen.is_answering != is_answering
            if topics is not seen.topics or has_flipped:
                self._note_topics(target, seen.topics, topics, has_flipped=has_flipped)
            self._is_silent_old |= has_flipped or not is_answering
            if node.stats is not None and node.stats is not seen.stats:
                self._is_silent_old |= bool(node.stats.unreadable or (seen.stats and seen.stats.unreadable))
                is_other = seen.stats is not None and seen.stats.started_s != node.stats.started_s
                is_foreign = is_other and not node.has_begun_since(seen.readings.read_ms)
                seen.before, seen.stats = seen.stats, node.stats
                # Topics of a process that ran before were not born at this address.
                seen.readings.note(node.stats.read_at_ms, topics if is_foreign else seen.topics, topics)
            seen.node, seen.topics, seen.is_answering = node, topics, is_answering

    def _note_topics(
        self,
        target: HttpAddress | None,
        before: Mapping[str, T],
        now: Mapping[str, T],
        *,
        has_flipped: bool = False,
    ) -> None:
        """has_flipped: the node began or ceased to answer."""
        changed = now if has_flipped else [name for name, topic in now.items() if before.get(name, _OTHER) is not topic]
        for name in changed:
            self._due.setdefault(name, set()).add(target)
        for name in before.keys() - now.keys():
            self._due.setdefault(name, set()).add(target)

    def _merge_due(self, watched: Collection[str]) -> None:
        began_s = self._cpu_s()
        first = [name for name in watched if name in self._due]
        is_spent = False
        for name in (*first, *[name for name in self._due if name not in first]):
            is_spent = is_spent or self._cpu_s() - began_s >= self._budget_s * self.left
            # A new topic waits for no turn: its page would not be there.
            if is_spent and name in self._merged and name not in first:
                continue
            targets = self._due.pop(name)
            try:
                self._merge(name, targets)
            except Exception:
                # A fault of ours with this topic: the others go on.
                logger.exception("topic %s can't be merged", name)

    def _merge(self, name: str, targets: Iterable[HttpAddress | None]) -> None:
        """Take the newest reading of the topic at these nodes."""
        sums = self._sums.get(name) or TopicSums(name)
        for target in targets:
            before = sums.parts.get(target)
            part = self._part_of_own(name, before) if target is _OWN else self._part_of(name, target, before)
            lacks = bool((before is not None and before.lacking) or (part is not None and part.lacking))
            never_read = part is not None and part.source is None
            self._is_silent_old |= lacks or never_read
            sums.put(target, part)
        if not sums.parts:
            self._names = None
            for held in (self._sums, self._merged, self._parts):
                held.pop(name, None)
            return
        if name not in self._sums:
            self._sums[name] = sums
            self._names = None
        self._merged[name] = sums.stats(lists_clients=name in self._watched)
        self._parts[name] = tuple(sums.parts.values())

    def _part_of_own(self, name: str, before: TopicPlace | None) -> TopicPlace | None:
        topic = self._own.get(name)
        if topic is None:
            return None
        part = TopicPlace.of_engine(self._own_name(), topic, self._own_readings.read_ms, self._own_started_s)
        self._note_growth(_OWN, before, part, self._own_readings)
        return part

    def _part_of(self, name: str, target: HttpAddress, before: TopicPlace | None) -> TopicPlace | None:
        seen = self._seen.get(target)
        if seen is None or name not in seen.topics:
            return None
        topic, stats = seen.topics[name], seen.stats
        if topic is None or stats is None:
            return TopicPlace(name, seen.name, False, False, 0, None, 0, NO_TOPIC_ROW, {}, {})
        if before is not None and before.source is topic:
            return replace(before, is_answering=seen.is_answering)
        read_at_ms = stats.topic_read_at_ms(name)
        is_same = before is not None and before.started_s == stats.started_s
        rows, ages = _rows_of(topic, read_at_ms, before if is_same else None)
        part = TopicPlace(
            name,
            seen.name,
            False,
            seen.is_answering,
            read_at_ms,
            topic,
            stats.started_s,
            topic_row(topic),
            rows,
            ages,
            topic.figures["storage"] or "",
            lacking(topic),
            seen.node.began_ms,
            _clients=before._clients if before is not None and name in self._watched else {},
        )
        # It was read again since, and had not changed.
        was_same = before is not None and seen.before is not None and seen.before.topics.get(name) is before.source
        since_ms = seen.before.topic_read_at_ms(name) if seen.before is not None and was_same else 0
        self._note_growth(target, before, part, seen.readings, since_ms)
        return part

    def _note_growth(
        self,
        target: HttpAddress | None,
        before: TopicPlace | None,
        now: TopicPlace,
        readings: _Readings,
        since_ms: int = 0,
    ) -> None:
        """since_ms: the newest reading at which the topic was as `before`, Unix; 0: `before` itself."""
        is_born = now.name in readings.born
        readings.born.discard(now.name)
        if before is not None and before.source is not None:
            since_ms = since_ms or before.read_at_ms
        elif is_born:
            since_ms = readings.before_ms
        elif not now.is_embedded and abs(now.read_at_ms - now.began_ms) <= START_S_MAX * 1000:
            since_ms = now.began_ms
        else:
            return
        found = grown(before if before is not None and before.source is not None else None, now)
        if not found:
            return
        took_s = max((now.read_at_ms - since_ms) / 1000, self._tick_s)
        ticks = round(min(took_s, SPREAD_S_MAX) / self._tick_s)
        share = min(1.0, SPREAD_S_MAX / took_s)
        self._growth.add(found, target, ticks, share)
        if target is not _OWN:
            self._failures.note(found, self._now_s, min(took_s, SPREAD_S_MAX), share)

    def _keys_left_out(self, stats: NodeStats) -> Iterable[Key]:
        """The topics that a node's answer lacks, or lacks channels of, and the channels that it may lack."""
        for name in stats.left_out & self._merged.keys():
            yield name, ""
            read = stats.topics[name].channels if name in stats.topics else {}
            yield from ((name, one.channel_name) for one in self._merged[name].channels if one.channel_name not in read)

    def _silent_now(self) -> Mapping[Key, tuple[str, ...]]:
        """Worked out where an answer changed it."""
        if not self._is_silent_old:
            return self._silent
        self._is_silent_old = False
        found: dict[Key, set[str]] = {}
        partial: set[str] = set()
        for target, seen in self._seen.items():
            if not seen.is_answering:
                found.setdefault(TOTAL, set()).add(seen.name)
                for name, topic in seen.topics.items():
                    for key in self._keys_of(name, topic):
                        found.setdefault(key, set()).add(seen.name)
                continue
            if seen.stats is not None and seen.stats.unreadable:
                partial.add(seen.name)
                for key in self._keys_left_out(seen.stats):
                    found.setdefault(key, set()).add(seen.name)
            for name in seen.topics:
                sums = self._sums.get(name)
                part = sums.parts.get(target) if sums is not None else None
                for channel in part.lacking if part is not None else ():
                    partial.add(seen.name)
                    for key in ((name, ""), (name, channel)):
                        found.setdefault(key, set()).add(seen.name)
        self._partial_total = tuple(sorted(partial))
        self._silent = {key: tuple(sorted(names)) for key, names in found.items()}
        return self._silent

    def _keys_of(self, name: str, topic: NodeTopic | None) -> Iterable[Key]:
        """The topic and its channels at a node. Of one that never answered, any channel may be there."""
        yield name, ""
        if topic is not None:
            yield from ((name, channel) for channel in topic.channels)
        elif (merged := self._merged.get(name)) is not None:
            yield from ((name, channel.channel_name) for channel in merged.channels)


def _rows_of(
    topic: NodeTopic, read_at_ms: int, before: TopicPlace | None
) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
    """The rows of its channels, and the ages of their oldest messages; a channel that is as it was has the same row."""
    rows: dict[str, tuple[int, ...]] = {}
    ages: dict[str, int] = {}
    earlier = before.source.channels if before is not None and isinstance(before.source, NodeTopic) else {}
    for name, channel in topic.channels.items():
        last, old = earlier.get(name), before.rows.get(name) if before is not None else None
        if old is not None and last is not None and last == channel:
            rows[name] = old
        else:
            rows[name] = channel_row(channel, old)
        since_ns = oldest_ns(channel.figures, read_at_ms)
        if since_ns is not None:
            ages[name] = since_ns
    since_ns = oldest_ns(topic.figures, read_at_ms)
    if since_ns is not None:
        ages[""] = since_ns
    return rows, ages


def _topics_of(node: Node) -> Mapping[str, NodeTopic | None]:
    """By its last answer; by its registration where it never answered."""
    if node.stats is not None:
        return node.stats.topics
    registered = {name for one in node.member.registrations.values() for name in one.topics}
    return dict.fromkeys(sorted(filter(is_valid_name, registered))[:TOPICS_MAX])
