"""The registrations: topics and channels that nsqds registered, and acts on them by HTTP requests.

A registration is a topic or a channel of it, with its producers: the peers that registered it. A registration stays
when its last producer leaves, unless its name ends in #ephemeral, so that consumers and operators still see its
channels; only a delete over HTTP removes it. A tombstone hides one producer of one topic from consumers for a while.

    topics   name ─┬─ producers   peer ─ tombstoned when
                   └─ channels    name ─ peers
    peers    each has the names that it registered, so that its end costs no search
"""

import heapq
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field

from queue_engine.vocabulary.clock import NS_PER_MS, Clock
from queue_engine.vocabulary.errors import RequestError
from queue_engine.vocabulary.names import is_ephemeral


class TooManyRegistrationsError(RequestError):
    """A registration beyond the limit. The text names the limit."""


@dataclass(frozen=True, slots=True)
class PeerInfo:
    """An nsqd's own data from IDENTIFY. remote_address: HOST:PORT of its connection, seen from here."""

    remote_address: str
    hostname: str
    broadcast_address: str
    tcp_port: int
    http_port: int
    version: str
    topology_zone: str = ""
    topology_region: str = ""

    @property
    def node(self) -> str:
        """Its name in requests for a tombstone: BROADCAST_ADDRESS:HTTP_PORT."""
        return f"{self.broadcast_address}:{self.http_port}"


@dataclass(eq=False, slots=True)
class Peer:
    """A connected nsqd. heard_ns: its last PING or IDENTIFY, monotonic; heard_at_ns: the same in wall time. topics:
    those it registered, each with its channels."""

    info: PeerInfo
    heard_ns: int
    heard_at_ns: int
    topics: dict[str, set[str]] = field(default_factory=dict)


@dataclass(slots=True)
class Producer:
    """A peer as producer of one topic. tombstoned_ns: when it was tombstoned, monotonic; None: never."""

    peer: Peer
    tombstoned_ns: int | None = None
    tombstoned_at_ns: int = 0


@dataclass(slots=True)
class _Topic:
    producers: dict[Peer, Producer] = field(default_factory=dict)
    channels: dict[str, dict[Peer, None]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """It and its channels, and the producers of each."""
        return 1 + len(self.producers) + sum(1 + len(peers) for peers in self.channels.values())


@dataclass(frozen=True, slots=True)
class NodeTopic:
    """A topic of a node, and whether the node is tombstoned for it."""

    topic: str
    is_tombstoned: bool


@dataclass(frozen=True, slots=True)
class DebugRow:
    """One producer of one registration. category: "client", "topic" or "channel"."""

    category: str
    topic: str
    channel: str
    peer: Peer
    tombstoned_at_ns: int | None


# So many names are sorted, and so many entries listed, in one step: a few milliseconds.
SORTED_NAMES = 4_096
STEP_ENTRIES = 256


def _all_sorted(names: Iterable[str]) -> Generator[None, None, list[str]]:
    """Sorts a million names in steps."""
    unsorted = list(names)
    parts = []
    for at in range(0, len(unsorted), SORTED_NAMES):
        parts.append(sorted(unsorted[at : at + SORTED_NAMES]))
        if at:
            yield
    if len(parts) < 2:
        return parts[0] if parts else []
    merged: list[str] = []
    for name in heapq.merge(*parts):
        merged.append(name)
        if len(merged) % STEP_ENTRIES == 0:
            yield
    return merged


class Registrations:
    """All registrations. Belongs to one thread. Names are checked by the callers; no method blocks.

    inactive_ms: a peer that sent no PING for longer is left out of answers. tombstone_ms: how long a tombstone hides a
    producer. entries_max: the most topics, channels and producers of them together.
    """

    def __init__(self, clock: Clock, *, inactive_ms: int, tombstone_ms: int, entries_max: int) -> None:
        self._clock = clock
        self._inactive_ns = inactive_ms * NS_PER_MS
        self._tombstone_ns = tombstone_ms * NS_PER_MS
        self._entries_max = entries_max
        self._topics: dict[str, _Topic] = {}
        self._peers: dict[Peer, None] = {}
        self.entry_count = 0

    # Peers.

    def add_peer(self, info: PeerInfo) -> Peer:
        peer = Peer(info, self._clock.monotonic_ns(), self._clock.time_ns())
        self._peers[peer] = None
        return peer

    def ping(self, peer: Peer) -> None:
        peer.heard_ns, peer.heard_at_ns = self._clock.monotonic_ns(), self._clock.time_ns()

    def remove_peer(self, peer: Peer) -> None:
        """Its connection ended: it produces nothing any more."""
        for topic in list(peer.topics):
            self.unregister(peer, topic)
        self._peers.pop(peer, None)

    def register(self, peer: Peer, topic: str, channel: str = "") -> None:
        """Make `peer` a producer of the topic, and of the channel if one is given. A producer that is there stays as
        it is, its tombstone included. Raises TooManyRegistrationsError, with nothing changed."""
        registration = self._topics.get(topic)
        new_entries = (registration is None) + (topic not in peer.topics)
        if channel:
            new_entries += registration is None or channel not in registration.channels
            new_entries += channel not in peer.topics.get(topic, ())
        self._take_room(new_entries)
        entry = self._topics.setdefault(topic, _Topic())
        entry.producers.setdefault(peer, Producer(peer))
        registered = peer.topics.setdefault(topic, set())
        if channel:
            entry.channels.setdefault(channel, {})[peer] = None
            registered.add(channel)

    def unregister(self, peer: Peer, topic: str, channel: str = "") -> None:
        """The reverse of `register`: of the channel alone, or of the topic with all its channels."""
        entry = self._topics.get(topic)
        if entry is None:
            return
        for name in [channel] if channel else list(peer.topics.get(topic, ())):
            self._leave_channel(entry, peer, topic, name)
        if channel:
            return
        if entry.producers.pop(peer, None) is not None:
            del peer.topics[topic]
            self.entry_count -= 1
        if is_ephemeral(topic) and not entry.producers:
            self.delete_topic(topic)

    def _leave_channel(self, entry: _Topic, peer: Peer, topic: str, channel: str) -> None:
        peers = entry.channels.get(channel)
        if peers is None:
            return
        if peer in peers:
            del peers[peer]
            peer.topics[topic].discard(channel)
            self.entry_count -= 1
        if is_ephemeral(channel) and not peers:
            del entry.channels[channel]
            self.entry_count -= 1

    # Acts of HTTP requests.

    def create_topic(self, topic: str) -> None:
        """Raises TooManyRegistrationsError, with nothing changed."""
        if topic not in self._topics:
            self._take_room(1)
            self._topics[topic] = _Topic()

    def create_channel(self, topic: str, channel: str) -> None:
        """Its topic, too. Raises TooManyRegistrationsError, with nothing changed."""
        registration = self._topics.get(topic)
        self._take_room((registration is None) + (registration is None or channel not in registration.channels))
        self._topics.setdefault(topic, _Topic()).channels.setdefault(channel, {})

    def delete_topic(self, topic: str) -> None:
        """Forget a topic and its channels. A peer that still has it registers it again when something of it changes."""
        entry = self._topics.pop(topic, None)
        if entry is None:
            return
        self.entry_count -= entry.size
        for peer in entry.producers:
            del peer.topics[topic]

    def delete_channel(self, topic: str, channel: str) -> bool:
        """Forget a channel; returns whether it was there."""
        entry = self._topics.get(topic)
        peers = None if entry is None else entry.channels.pop(channel, None)
        if peers is None:
            return False
        self.entry_count -= 1 + len(peers)
        for peer in peers:
            peer.topics[topic].discard(channel)
        return True

    def tombstone(self, topic: str, node: str) -> int:
        """Hide the producers with this name (`PeerInfo.node`) of the topic; returns how many there are."""
        entry = self._topics.get(topic)
        found = [one for one in entry.producers.values() if one.peer.info.node == node] if entry else []
        for producer in found:
            producer.tombstoned_ns = self._clock.monotonic_ns()
            producer.tombstoned_at_ns = self._clock.time_ns()
        return len(found)

    # Reading. Every list is sorted, so that two answers can be compared.

    @property
    def peer_count(self) -> int:
        return len(self._peers)

    def topics_in_steps(self) -> Generator[None, None, list[str]]:
        """Yields between short steps, as all that may be long here; a change meanwhile may be in it or not."""
        return (yield from _all_sorted(self._topics))

    def channels(self, topic: str) -> list[str]:
        """Empty for a topic that is not there."""
        entry = self._topics.get(topic)
        return sorted(entry.channels) if entry is not None else []

    def has_topic(self, topic: str) -> bool:
        return topic in self._topics

    def producers(self, topic: str) -> list[PeerInfo]:
        """The peers that consumers of the topic should connect to: neither inactive nor tombstoned."""
        entry = self._topics.get(topic)
        now_ns = self._clock.monotonic_ns()
        found = [
            one.peer.info
            for one in (entry.producers.values() if entry is not None else ())
            if self._is_active(one.peer, now_ns) and not self._is_tombstoned(one, now_ns)
        ]
        return sorted(found, key=lambda info: (info.broadcast_address, info.tcp_port, info.remote_address))

    def nodes_in_steps(self) -> Generator[None, None, list[tuple[PeerInfo, list[NodeTopic]]]]:
        """Each active peer with its topics, tombstoned ones included."""
        now_ns = self._clock.monotonic_ns()
        active = [peer for peer in self._peers if self._is_active(peer, now_ns)]
        active.sort(key=lambda peer: (peer.info.broadcast_address, peer.info.tcp_port, peer.info.remote_address))
        nodes = []
        for peer in active:
            topics: list[NodeTopic] = []
            for topic in (yield from _all_sorted(peer.topics)):
                entry = self._topics.get(topic)
                producer = None if entry is None else entry.producers.get(peer)
                if producer is not None:
                    topics.append(NodeTopic(topic, self._is_tombstoned(producer, now_ns)))
                if len(topics) % STEP_ENTRIES == STEP_ENTRIES - 1:
                    yield
            nodes.append((peer.info, topics))
            yield
        return nodes

    def debug_rows(self) -> Generator[DebugRow | None, None, None]:
        """Every producer of every registration, inactive ones included; None where other work may come between."""
        for peer in list(self._peers):
            yield DebugRow("client", "", "", peer, None)
        for topic in (yield from _all_sorted(self._topics)):
            entry = self._topics.get(topic)
            if entry is None:
                continue
            for producer in list(entry.producers.values()):
                tombstoned_at_ns = None if producer.tombstoned_ns is None else producer.tombstoned_at_ns
                yield DebugRow("topic", topic, "", producer.peer, tombstoned_at_ns)
            for channel in (yield from _all_sorted(entry.channels)):
                for peer in list(entry.channels.get(channel, ())):
                    yield DebugRow("channel", topic, channel, peer, None)

    def _is_active(self, peer: Peer, now_ns: int) -> bool:
        return now_ns - peer.heard_ns <= self._inactive_ns

    def _is_tombstoned(self, producer: Producer, now_ns: int) -> bool:
        return producer.tombstoned_ns is not None and now_ns - producer.tombstoned_ns < self._tombstone_ns

    def _take_room(self, entries: int) -> None:
        if self.entry_count + entries > self._entries_max:
            raise TooManyRegistrationsError(
                f"{self.entry_count} topics, channels and producers are registered and the most is {self._entries_max}"
            )
        self.entry_count += entries
