"""All nodes at one moment, the engine of this process among them, for the pages of nodes and clients."""

from dataclasses import dataclass

from admin_console.cluster.cluster import get_cluster
from admin_console.cluster.reading.node_rates import NO_RATES, Rates
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
    sums = NodeSums.of_engine(snapshot)
    rates = NO_RATES if cluster is None else cluster.own_rates.of(snapshot, sums)
    return ClusterView(state, OwnNode(own.name, own, snapshot, sums, rates), clients)
