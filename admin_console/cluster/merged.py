"""The merged snapshot of the cluster: one `EngineSnapshot` over all nodes that answer, as of one engine.

    messages, bytes, consumers   summed
    ages                         the greatest; None where a node's is unknown
    flags, sentences             any; a sentence that another node than this server reports begins with its name

Sums are over the nodes that answer. What a silent node had last is in no sum, so that a sum is the least that there
is; `silent` names such nodes by topic and channel, and `places` has their last figures.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, NamedTuple

from admin_console.cluster.differences import Difference
from admin_console.cluster.node_figures import CHANNEL_COUNTS, TOPIC_COUNTS
from admin_console.cluster.nodes import ClusterState
from queue_engine.delivery.stats import ChannelStats, EngineSnapshot, TopicStats
from queue_engine.storage.quarantine_stats import NO_QUARANTINE, QuarantineStats

Key = tuple[str, str]
"""Topic and channel; the channel is "" for a topic, both are for the totals."""
TOTAL: Key = ("", "")
Counters = tuple[int, int, int, int]
"""Messages that came, finished, timed out, requeued."""


def sum_of(one: Counters, other: Counters) -> Counters:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3]


class Growth(NamedTuple):
    """Of the counters since the snapshot before, by node, so that a node that restarts, joins or leaves adds nothing
    that it did not do. raw: what the readings since then brought: for jumps of a depth. spread: the same, spread over
    the period of the readings: for rings and rates, where a node that is read every ten seconds would draw spikes."""

    raw: Counters = (0, 0, 0, 0)
    spread: Counters = (0, 0, 0, 0)

    def plus(self, other: "Growth") -> "Growth":
        return Growth(sum_of(self.raw, other.raw), sum_of(self.spread, other.spread))


NO_GROWTH = Growth()


@dataclass(frozen=True, slots=True)
class Place:
    """A topic or channel at one node. node: its name, as on the Nodes page. read_at_ms: Unix; 0 for never, as of a node
    that registered the topic and has not answered yet."""

    node: str
    is_embedded: bool
    is_answering: bool
    read_at_ms: int
    stats: TopicStats | ChannelStats


@dataclass(frozen=True, slots=True)
class TopicPlace:
    """As `Place`, of a topic with its channels."""

    node: str
    is_embedded: bool
    is_answering: bool
    read_at_ms: int
    stats: TopicStats

    def of(self, channel: str) -> Place | None:
        """None where the node does not have this channel. channel: "" for the topic itself."""
        found: TopicStats | ChannelStats | None = self.stats
        if channel:
            found = next((one for one in self.stats.channels if one.channel_name == channel), None)
        return None if found is None else Place(self.node, self.is_embedded, self.is_answering, self.read_at_ms, found)


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """All of the cluster at one second. growth: absent for a key that did not grow. silent: names of nodes whose part
    is unknown, sorted: those that do not answer and have it, by their last answer or their registration, and those
    whose answer lacks a count of it; absent for a key of which all is known. At TOTAL: all nodes that do not answer.
    differences: between the nodes, the worst first."""

    merged: EngineSnapshot
    state: ClusterState
    growth: Mapping[Key, Growth] = field(default_factory=dict)
    silent: Mapping[Key, tuple[str, ...]] = field(default_factory=dict)
    by_topic: Mapping[str, Sequence[TopicPlace]] = field(default_factory=dict)
    differences: tuple[Difference, ...] = ()

    def places(self, topic: str, channel: str = "") -> tuple[Place, ...]:
        """Where a topic or channel is, silent nodes included, sorted by node."""
        found = [place.of(channel) for place in self.by_topic.get(topic, ())]
        # A topic that did not change is merged no more: it was read since.
        read_at_ms = {
            node.name: node.stats.topic_read_at_ms(topic) for node in self.state.nodes if node.stats is not None
        }
        places = [replace(one, read_at_ms=read_at_ms.get(one.node, one.read_at_ms)) for one in found if one is not None]
        return tuple(sorted(places, key=attrgetter("node")))


_topic_counts, _channel_counts = attrgetter(*TOPIC_COUNTS), attrgetter(*CHANNEL_COUNTS)


def merged_topic(name: str, places: Sequence[TopicPlace]) -> TopicStats:
    """The topic over the places that answer. A channel that only silent nodes have stays, with zeros."""
    answering = [one for one in places if one.is_answering]
    if len(answering) == len(places) == 1:
        return answering[0].stats
    channels: dict[str, list[tuple[TopicPlace, ChannelStats]]] = {}
    for place in places:
        for channel in place.stats.channels:
            listed = channels.setdefault(channel.channel_name, [])
            if place.is_answering:
                listed.append((place, channel))
    parts = [(place, place.stats) for place in answering]
    base = _base(parts)
    is_whole = len(answering) == len(places)
    return TopicStats(
        topic_name=name,
        storage=_same([part.storage for _, part in parts]),
        paused=any(part.paused for _, part in parts),
        oldest_ns=_oldest_ns([(part.oldest_ns, part.depth) for _, part in parts]) if is_whole else None,
        disk_bytes=_sum([part.disk_bytes for _, part in parts]),
        channels=tuple(merged_channel(name, one, channels[one], is_whole=is_whole) for one in sorted(channels)),
        cursors=base.cursors if base else (),
        number=base.number if base else 0,
        fenced=_text(parts, "fenced"),
        unreadable=_text(parts, "unreadable"),
        pause=_first([part.pause for _, part in parts]),
        resume_refused=_text(parts, "resume_refused"),
        **_sums(TOPIC_COUNTS, [_topic_counts(part) for _, part in parts]),
    )


def merged_channel(
    topic: str, name: str, parts: Sequence[tuple[TopicPlace, ChannelStats]], *, is_whole: bool
) -> ChannelStats:
    """parts: those that answer. is_whole: there are no others.

    What only this server's engine reports (failures, the message delivered most often, when deferred messages are due)
    is its own.
    """
    if is_whole and len(parts) == 1:
        return parts[0][1]
    base = _base(parts)
    of_base: dict[str, Any] = {}
    if base is not None:
        of_base = {one: getattr(base, one) for one in _OF_THIS_SERVER}
    clients = [part.clients for _, part in parts if part.clients is not None]
    unfinished = [
        (part.oldest_ns, part.depth + part.in_flight_count + part.deferred_count + part.quarantined_count)
        for _, part in parts
    ]
    return ChannelStats(
        topic_name=topic,
        channel_name=name,
        paused=any(part.paused for _, part in parts),
        oldest_ns=_oldest_ns(unfinished) if is_whole else None,
        next_due_ns=base.next_due_ns if base else None,
        disk_bytes=_sum([part.disk_bytes for _, part in parts]),
        ready_count=_sum([part.ready_count for _, part in parts]),
        clients=tuple([client for listed in clients for client in listed]) if clients else None,
        quarantine=_quarantine([part.quarantine for _, part in parts]),
        held_back=_text(parts, "held_back"),
        fenced=_text(parts, "fenced"),
        unreadable=_text(parts, "unreadable"),
        pause=_first([part.pause for _, part in parts]),
        resume_refused=_text(parts, "resume_refused"),
        redrive=_first([part.redrive for _, part in parts]),
        ramp=_first([part.ramp for _, part in parts]),
        **of_base,
        **_sums(CHANNEL_COUNTS, [_channel_counts(part) for _, part in parts]),
    )


_OF_THIS_SERVER = ("number", "attempts_max", "attempts_max_id", "latest_due_ns", "failures")


def _base(parts: Sequence[tuple[TopicPlace, Any]]) -> Any:
    """This server's part; None where it has none."""
    return next((part for place, part in parts if place.is_embedded), None)


def _sums(names: Sequence[str], rows: Sequence[tuple[int, ...]]) -> dict[str, Any]:
    return dict(zip(names, map(sum, zip(*rows, strict=True)), strict=True)) if rows else dict.fromkeys(names, 0)


def _sum(values: Sequence[int | None]) -> int | None:
    return None if None in values else sum([one for one in values if one is not None])


def _oldest_ns(parts: Sequence[tuple[int | None, int]]) -> int | None:
    """Of those that have messages; None where one of these is unknown. parts: with the number of messages."""
    found = [oldest_ns for oldest_ns, count in parts if count]
    known = [one for one in found if one is not None]
    return min(known, default=None) if len(known) == len(found) else None


def _same(texts: Sequence[str]) -> str:
    """The text that all have; "" where they differ."""
    return texts[0] if texts and texts.count(texts[0]) == len(texts) else ""


def _first(values: Sequence[Any]) -> Any:
    return next((one for one in values if one is not None), None)


def _text(parts: Sequence[tuple[TopicPlace, Any]], name: str) -> str:
    """The first one's sentence; with its node's name where that is another than this server."""
    for place, part in parts:
        text: str = getattr(part, name)
        if text:
            return text if place.is_embedded else f"{place.node}: {text}"
    return ""


def _quarantine(parts: Sequence[QuarantineStats]) -> QuarantineStats:
    listed = [one for one in parts if one is not NO_QUARANTINE]
    if len(listed) < 2:
        return listed[0] if listed else NO_QUARANTINE
    reasons: dict[str, int] = {}
    for one in listed:
        for reason, count in one.reasons:
            reasons[reason] = reasons.get(reason, 0) + count
    return QuarantineStats(
        max_attempts=max([one.max_attempts for one in listed]),
        count=sum([one.count for one in listed]),
        bytes=sum([one.bytes for one in listed]),
        oldest_ns=_oldest_ns([(one.oldest_ns, one.count) for one in listed]),
        full=next((one.full for one in listed if one.full), ""),
        reasons=tuple(sorted(reasons.items(), key=lambda item: -item[1])),
    )
