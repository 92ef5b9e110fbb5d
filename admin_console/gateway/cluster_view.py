"""All nodes at one moment, the engine of this process among them, for the pages of nodes and clients."""

import threading
from dataclasses import dataclass

from admin_console.cluster.cluster import get_cluster
from admin_console.cluster.reading.node_rates import NO_RATES, NodeRates, Rates
from admin_console.cluster.reading.nodes import ClusterState
from admin_console.cluster.reading.totals import NodeSums
from admin_console.gateway.client_list import ClientList, newest_clients
from admin_console.gateway.gateway import EngineSnapshot, EngineUnavailableError, NodeInfo, get_gateway


@dataclass(frozen=True, slots=True)
class OwnNode:
    """The engine of this process, whose figures need no call. name: as of a `Node`."""

    name: str
    node: NodeInfo
    snapshot: EngineSnapshot
    sums: NodeSums
    rates: Rates


@dataclass(frozen=True, slots=True)
class ClusterView:
    """own: None without an engine, or before its first figures. clients: None where the page does not show them."""

    state: ClusterState
    own: OwnNode | None = None
    clients: ClientList | None = None


class _OwnRates:
    """Counts while pages of nodes are open: a second after the first one opened the rates are there."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rates = NodeRates()
        self._noted: EngineSnapshot | None = None
        self._newest = NO_RATES

    def of(self, snapshot: EngineSnapshot, sums: NodeSums) -> Rates:
        with self._lock:
            if snapshot is not self._noted:
                self._noted = snapshot
                self._newest = self._rates.note(snapshot.monotonic_ns / 1e9, snapshot.started_at_ns, sums)
            return self._newest


_own_rates = _OwnRates()


def cluster_view(*, with_clients: bool = False, node: str = "") -> ClusterView:
    """The newest one. with_clients: wait for the list of clients, at most as long as for any answer of the engine.
    node: the one whose clients are shown, "" for all."""
    cluster = get_cluster()
    state = ClusterState() if cluster is None else cluster.state
    try:
        gateway = get_gateway()
        clients = newest_clients(node) if with_clients else None
        snapshot, own = gateway.snapshot(), gateway.node()
    except EngineUnavailableError:
        return ClusterView(state)
    if snapshot is None:
        return ClusterView(state, clients=clients)
    sums = _sums(snapshot)
    return ClusterView(state, OwnNode(own.name, own, snapshot, sums, _own_rates.of(snapshot, sums)), clients)


def _sums(snapshot: EngineSnapshot) -> NodeSums:
    topics = snapshot.topics
    channels = [channel for topic in topics for channel in topic.channels]
    return NodeSums(
        len(topics),
        sum([channel.client_count for channel in channels]),
        sum([topic.depth for topic in topics]) + sum([channel.depth for channel in channels]),
        sum([topic.message_count for topic in topics]),
        sum([channel.in_flight_count for channel in channels]),
        sum([channel.finish_count for channel in channels]),
        sum([topic.paused for topic in topics]) + sum([channel.paused for channel in channels]),
    )
