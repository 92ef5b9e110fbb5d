"""All connections of the cluster, in one list: read while a page shows it, once for all of its viewers.

The engine of this process lists its clients in slices; the other nodes are read with theirs while `watch_clients` is
called. Reading takes at most CPU_SHARE of a core: beyond, the list is renewed less often.
"""

import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2s
from typing import Any

from admin_console.cluster.cluster import Cluster, get_cluster
from admin_console.cluster.merging.node_clients import KEY, client_stats
from admin_console.cluster.reading.node_stats import Figures, NodeStats
from admin_console.cluster.reading.nodes import Node
from admin_console.gateway.gateway import ClientStats, Connections, EngineUnavailableError, Gateway, get_gateway
from admin_console.vocabulary import units
from admin_console.vocabulary.current_cluster import PerCluster

EVERY_S = 1.0
CPU_SHARE = 0.05
RATES_S = 10.0  # the shortest time of an average

_KEY = re.compile(KEY)


@dataclass(frozen=True, slots=True)
class ClientRates:
    """Averages of the last seconds; None where unknown: the client was listed once only, or its node counts none."""

    finished_s: float
    requeued_min: float
    timeouts_min: float | None


@dataclass(frozen=True, slots=True)
class Client:
    """One connection. key: of its page, among those of the node. topic, channel: that it consumes, "" for a producer.
    timeouts: None where the node does not count them. zone: its own; is_local: whether that is the node's, None where
    one of them has none. is_own: of the engine of this process, which can act on it."""

    node: str
    key: str
    topic: str
    channel: str
    stats: ClientStats
    timeouts: int | None = None
    zone: str = ""
    region: str = ""
    is_local: bool | None = None
    is_own: bool = False
    rates: ClientRates | None = None

    @property
    def name(self) -> str:
        return self.stats.client_id or self.stats.hostname or self.stats.remote_address or self.key

    @property
    def failed(self) -> int:
        """Messages that it gave back or let time out."""
        return self.stats.requeue_count + (self.timeouts or 0)

    @property
    def failed_share(self) -> float:
        """Of all that it ended since it connected, 0 to 1."""
        ended = self.stats.finish_count + self.failed
        return self.failed / ended if ended else 0.0

    @property
    def text(self) -> str:
        """Its words in small letters, for a search."""
        one = self.stats
        words = (one.client_id, one.hostname, one.remote_address, one.user_agent, one.auth_identity, self.node)
        topics = [name for name, _ in one.pub_counts] if not self.topic else [f"{self.topic}/{self.channel}"]
        return " ".join((*words, self.zone, *topics)).lower()


@dataclass(frozen=True, slots=True)
class ClientList:
    """All clients at one moment. lacking: nodes whose clients are unknown; by their name, since when (Unix ms) they do
    not answer, 0 where they are not read yet. every_s: how often the list is made. derived: made of it by pages."""

    clients: tuple[Client, ...] = ()
    taken_at_ms: int = 0
    node_count: int = 0
    lacking: Mapping[str, int] = field(default_factory=dict)
    every_s: float = EVERY_S
    derived: dict[object, Any] = field(default_factory=dict)

    def of(self, node: str, key: str) -> Client | None:
        return next((one for one in self.clients if one.key == key and one.node == node), None)

    def peers_of(self, client: Client) -> list[Client]:
        """The other consumers of its channel, at any node."""
        return [
            one
            for one in self.clients
            if one.topic == client.topic and one.channel == client.channel and one is not client
        ]


_Counts = tuple[int, int, int | None]  # finished, requeued, timed out
_Key = tuple[str, int]  # a client's key, and when it connected


class _NodeCounts:
    """The counters of a node's clients at two earlier readings, for rates."""

    def __init__(self) -> None:
        self._older: tuple[float, dict[_Key, _Counts]] | None = None
        self._newer: tuple[float, dict[_Key, _Counts]] | None = None

    def rated(self, at_s: float, clients: Iterable[Client]) -> list[Client]:
        """at_s: of the reading."""
        made: list[Client] = []
        before_s, before = self._older or self._newer or (at_s, {})
        took_s = at_s - before_s
        counts: dict[_Key, _Counts] = {}
        for one in clients:
            stats = one.stats
            key = (one.key, stats.connect_ts)
            now = counts[key] = (stats.finish_count, stats.requeue_count, one.timeouts)
            then = before.get(key)
            made.append(one if then is None or took_s <= 0 else _with_rates(one, now, then, took_s))
        if self._newer is None or at_s - self._newer[0] >= RATES_S:
            self._older, self._newer = self._newer or (at_s, counts), (at_s, counts)
        return made


def _with_rates(client: Client, now: _Counts, then: _Counts, took_s: float) -> Client:
    timeouts = None if now[2] is None or then[2] is None else max(0, now[2] - then[2]) * 60 / took_s
    rates = ClientRates(max(0, now[0] - then[0]) / took_s, max(0, now[1] - then[1]) * 60 / took_s, timeouts)
    # dataclasses.replace takes four times as long, for each of ten thousand.
    return Client(
        client.node, client.key, client.topic, client.channel, client.stats, client.timeouts, client.zone,
        client.region, client.is_local, client.is_own, rates,
    )  # fmt: skip


class ClientReader:
    """Any thread; one reads while the others wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: ClientList | None = None
        self._due_s = 0.0
        self._counts: dict[str, _NodeCounts] = {}
        self._source: object = None

    def newest(self, node: str) -> ClientList:
        """At most a second or two old, but for other nodes, which are read less often. node: the one whose clients are
        shown, "" for all."""
        cluster = get_cluster()
        if cluster is not None:
            cluster.watch_clients(node)
        gateway = get_gateway()
        with self._lock:
            if self._source is not gateway:
                self._source, self._newest, self._counts = gateway, None, {}
            if self._newest is None or time.monotonic() >= self._due_s:
                began_s = time.thread_time()
                made = self._made(gateway, cluster)
                # The engine's thread takes as long to list its own.
                every_s = max(EVERY_S, 2 * (time.thread_time() - began_s) / CPU_SHARE)
                self._due_s = time.monotonic() + every_s
                self._newest = ClientList(made.clients, made.taken_at_ms, made.node_count, made.lacking, every_s)
            return self._newest

    def _made(self, gateway: Gateway, cluster: Cluster | None) -> ClientList:
        lacking: dict[str, int] = {}
        found: list[Client] = []
        counts, self._counts = self._counts, {}

        def take(node: str, at_s: float, clients: Iterable[Client]) -> None:
            of_node = self._counts[node] = counts.get(node) or _NodeCounts()
            found.extend(of_node.rated(at_s, clients))

        own = gateway.node().name
        if own:
            try:
                connections = gateway.connections()
            except EngineUnavailableError:
                lacking[own] = 0
            else:
                take(own, connections.taken_at_ns / 1e9, _own_clients(own, connections))
        nodes = () if cluster is None else cluster.state.called
        for node in nodes:
            stats = node.stats
            if not node.answers.is_answering or stats is None or not stats.has_clients:
                lacking[node.name] = node.answers.failing_since_ms
            else:
                take(node.name, stats.read_at_ms / 1e3, _clients_of(node, stats))
        return ClientList(tuple(found), units.now_ms(), len(nodes) + bool(own), lacking)


def _own_clients(node: str, connections: Connections) -> Iterator[Client]:
    seen: set[int] = set()
    for topic, channel, clients in connections.consumers:
        for one in clients:
            seen.add(one.client_key)
            yield Client(node, str(one.client_key), topic, channel, one, one.timeout_count, is_own=True)
    for one in connections.producers:
        if one.client_key not in seen:
            yield Client(node, str(one.client_key), "", "", one, one.timeout_count, is_own=True)


def _clients_of(node: Node, stats: NodeStats) -> Iterator[Client]:
    seen: set[str] = set()
    zone = node.info.zone if node.info else ""

    def client(figures: Figures, topic: str, channel: str) -> Client:
        one = client_stats(node.name, figures)
        own_zone = figures.get("topology_zone") or ""
        is_local = own_zone == zone if own_zone and zone else None
        key = one.remote_address if _KEY.fullmatch(one.remote_address) else ""
        if not key or key in seen:
            key = blake2s(f"{one.remote_address} {one.connect_ts} {len(seen)}".encode(), digest_size=8).hexdigest()
        seen.add(key)
        region = figures.get("topology_region") or ""
        return Client(node.name, key, topic, channel, one, figures.get("timeout_count"), own_zone, region, is_local)

    for topic in stats.topics.values():
        for channel in topic.channels.values():
            for figures in channel.clients or ():
                yield client(figures, topic.name, channel.name)
    for figures in stats.producers or ():
        if figures.get("remote_address") not in seen:
            yield client(figures, "", "")


_readers = PerCluster(ClientReader)


def newest_clients(node: str = "") -> ClientList:
    """The newest list of the current cluster. node: the one whose clients are shown, "" for all.
    Raises EngineUnavailableError where the console starts or stops."""
    return _readers.made().newest(node)
