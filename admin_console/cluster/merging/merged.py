"""The merged snapshot of the cluster: one `EngineSnapshot` over all nodes that answer, as of one engine.

Sums are over the nodes that answer. A silent node's last figures are in no sum, so that a sum is the least that there
is; `silent` names such nodes by topic and channel, and `places` has their last figures.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from admin_console.cluster.merging.differences import Difference
from admin_console.cluster.merging.node_clients import client_stats
from admin_console.cluster.merging.node_figures import (
    Row,
    derives_finished,
    row_of_channel,
    row_of_topic,
    topic_stats_of,
)
from admin_console.cluster.merging.node_windows import Latency
from admin_console.cluster.reading.node_stats import Figures, NodeTopic
from admin_console.cluster.reading.nodes import ClusterState
from queue_engine.delivery.latency_window import LatencyWindow
from queue_engine.delivery.stats import ChannelStats, ClientStats, EngineSnapshot, TopicStats

Key = tuple[str, str]
"""Topic and channel; the channel is "" for a topic, both are for the totals."""
TOTAL: Key = ("", "")
Counters = tuple[int, int, int, int]
"""Messages that came, finished, timed out, requeued."""


def sum_of(one: Counters, other: Counters) -> Counters:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3]


class Growth(NamedTuple):
    """Of the counters since the snapshot before, by node, so that a node that restarts, joins or leaves adds nothing
    that it did not do. raw: all that the readings since then brought, for jumps of a depth. spread: the same,
    over the period of the readings, for rings and rates: a node that is read every ten seconds would draw spikes.
    passed_on: of a topic, the most messages that one of its channels got at each node, summed over the nodes."""

    raw: Counters = (0, 0, 0, 0)
    spread: Counters = (0, 0, 0, 0)
    passed_on: int = 0

    def plus(self, other: "Growth") -> "Growth":
        passed_on = self.passed_on + other.passed_on
        return Growth(sum_of(self.raw, other.raw), sum_of(self.spread, other.spread), passed_on)


NO_GROWTH = Growth()
MadeClients = dict[str, tuple[tuple[Figures, ...], tuple[ClientStats, ...]]]
"""By channel: the clients as they were read, and as pages read them."""


@dataclass(frozen=True, slots=True)
class Place:
    """A topic or channel at one node. node: its name, as on the Nodes page. read_at_ms: Unix; 0 for never, as of a node
    that registered the topic and has not answered yet."""

    node: str
    is_embedded: bool
    is_answering: bool
    read_at_ms: int
    stats: TopicStats | ChannelStats


@dataclass(slots=True)
class TopicPlace:
    """A topic at one node as it was read last; it changes no more, but for its stats, which are made when they are
    needed. Fields as of `Place`.

    source: of which it was made; None where it was never read. started_s: of the node's process, Unix, by its own
    clock; began_ms: by this server's, 0 for unknown. row, rows: of the topic, and of its channels by name. oldest_ns:
    by channel, "" for the topic; absent for none or unknown.
    lacking: channels, "" for the topic, of which the node reports less than every nsqd does.
    """

    name: str
    node: str
    is_embedded: bool
    is_answering: bool
    read_at_ms: int
    source: NodeTopic | TopicStats | None
    started_s: int
    row: Row
    rows: Mapping[str, Row]
    oldest_ns: Mapping[str, int]
    storage: str = ""
    lacking: tuple[str, ...] = ()
    began_ms: int = 0
    _stats: TopicStats | None = None
    _channels: Mapping[str, ChannelStats] | None = None
    # By channel; shared with the readings before, most of which lack clients and have those of an earlier one.
    _clients: MadeClients = field(default_factory=dict)

    @property
    def stats(self) -> TopicStats:
        """Any thread; two at once make the same."""
        found = self._stats
        if found is None:
            source = self.source
            if isinstance(source, TopicStats):
                found = source
            elif source is None:
                found = _never_read(self.name)
            else:
                found = topic_stats_of(source, self.read_at_ms, self.rows, self.clients)
            self._stats = found
        return found

    @property
    def channels(self) -> Mapping[str, ChannelStats]:
        """The stats of its channels by name."""
        found = self._channels
        if found is None:
            found = self._channels = {channel.channel_name: channel for channel in self.stats.channels}
        return found

    def clients(self, channel: str) -> tuple[ClientStats, ...] | None:
        """Of a channel; None where they were not read."""
        if not isinstance(self.source, NodeTopic):
            return self.channels[channel].clients
        figures, made = self.source.channels[channel].clients, self._clients.get(channel)
        if figures is None:
            return None
        if made is None or made[0] is not figures:
            made = self._clients[channel] = figures, tuple([client_stats(self.node, one) for one in figures])
        return made[1]

    def latency(self, channel: str) -> LatencyWindow | Latency:
        """Of a channel, "" for the topic, as its node reports it."""
        if isinstance(self.source, NodeTopic):
            return self.source.channels[channel].latency if channel else self.source.latency
        return self.channels[channel].window if channel else self.stats.window

    def flown(self, channel: str) -> int | None:
        """Of a channel whose finished messages are worked out, since its node does not count them: `NodeChannel.flown`,
        which may fall where a finished count must not. None for others."""
        if not isinstance(self.source, NodeTopic):
            return None
        one = self.source.channels[channel]
        return one.flown if derives_finished(one) else None

    @classmethod
    def of_engine(cls, node: str, topic: TopicStats, read_at_ms: int, started_s: int = 0) -> "TopicPlace":
        """Of the engine of this process."""
        rows = {channel.channel_name: row_of_channel(channel) for channel in topic.channels}
        ages = {one.channel_name: one.oldest_ns for one in topic.channels if one.oldest_ns is not None}
        if topic.oldest_ns is not None:
            ages[""] = topic.oldest_ns
        row, storage = row_of_topic(topic), topic.storage
        return cls(topic.topic_name, node, True, True, read_at_ms, topic, started_s, row, rows, ages, storage)

    def of(self, channel: str, read_at_ms: int = 0) -> Place | None:
        """None where the node does not have this channel. channel: "" for the topic itself. read_at_ms: when it was
        read again and had not changed; 0: it was not."""
        found = self.channels.get(channel) if channel else self.stats
        if found is None:
            return None
        return Place(self.node, self.is_embedded, self.is_answering, read_at_ms or self.read_at_ms, found)


def _never_read(topic: str) -> TopicStats:
    return TopicStats(
        topic_name=topic,
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


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """All of the cluster at one second. growth: absent for a key that did not grow. silent: names of nodes whose part
    is unknown, sorted: those that do not answer and have it, by their last answer or their registration, and those
    whose answer lacks a count of it; absent for a key without any. At TOTAL: all nodes that do not answer.
    partial_total: names of nodes that answer without all counts, so that the totals lack a part; sorted.
    differences: between the nodes, the worst first."""

    merged: EngineSnapshot
    state: ClusterState
    growth: Mapping[Key, Growth] = field(default_factory=dict)
    silent: Mapping[Key, tuple[str, ...]] = field(default_factory=dict)
    partial_total: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    by_topic: Mapping[str, Sequence[TopicPlace]] = field(default_factory=dict)
    has_engine: bool = True  # whether this server is a node of it

    def places(self, topic: str, channel: str = "") -> tuple[Place, ...]:
        """Where a topic or channel is, silent nodes included, sorted by node."""
        stats = {node.name: node.stats for node in self.state.nodes}
        places: list[Place] = []
        for part in self.by_topic.get(topic, ()):
            newest = stats.get(part.node)
            # A topic that did not change is merged no more: it was read since.
            is_same = newest is not None and newest.topics.get(topic) is part.source
            place = part.of(channel, newest.topic_read_at_ms(topic) if newest is not None and is_same else 0)
            if place is not None:
                places.append(place)
        return tuple(sorted(places, key=attrgetter("node")))
