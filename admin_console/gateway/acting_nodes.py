"""The nodes that do acts: the engine of this process, and the remote ones."""

from collections.abc import Callable
from typing import Protocol

from admin_console.cluster.cluster import get_cluster
from admin_console.gateway.gateway import ActOrder, ActResult, Gateway, SeekPreview, Target


class ActingNode(Protocol):
    """A node that does acts: the engine of this process, or a remote one (`node_gateway.py`)."""

    @property
    def name(self) -> str: ...

    @property
    def ends_pauses(self) -> bool:
        """Whether a pause can have an end there."""
        ...

    def why_not(self, action: str) -> str:
        """Why it can't do an act or use, a sentence without its full stop; "" where it can."""
        ...

    def begin(self, order: ActOrder) -> Callable[[], ActResult]:
        """Begin an act; the function that is returned waits for its result."""
        ...

    def begin_seek_preview(self, topic: str, channel: str, target: Target) -> Callable[[], SeekPreview]:
        """Begin `Gateway.seek_preview`; it and the function that is returned raise ReadRefusedError."""
        ...


class EmbeddedNode:
    """The engine of this process, as one node of several."""

    ends_pauses = True

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.name = gateway.node().name

    def why_not(self, action: str) -> str:
        return "" if action in self._gateway.node().capabilities else f"{self.name} has no such act"

    def begin(self, order: ActOrder) -> Callable[[], ActResult]:
        """It begins when its result is waited for: until then other nodes have begun."""
        return lambda: self._gateway.acts([order])[0]

    def begin_seek_preview(self, topic: str, channel: str, target: Target) -> Callable[[], SeekPreview]:
        return lambda: self._gateway.seek_preview(topic, channel, target)


def has_engine(gateway: Gateway) -> bool:
    """Whether this process has an engine of its own."""
    return "publish" in gateway.node().capabilities


def own_names(gateway: Gateway) -> frozenset[str]:
    """Of this server as a node: its address, and those by which nsqlookupds or the options name it. Empty without an
    engine."""
    if not has_engine(gateway):
        return frozenset()
    cluster = get_cluster()
    embedded = cluster.state.embedded if cluster is not None else ()
    return frozenset({gateway.node().name, *(member.named.bare for member in embedded)})


def acting_nodes(gateway: Gateway) -> dict[str, ActingNode]:
    """Every node that acts may go to, by its name; this server first, by each name that it has."""
    cluster = get_cluster()
    state = cluster.state if cluster is not None else None
    found: dict[str, ActingNode] = {}
    if has_engine(gateway):
        own = EmbeddedNode(gateway)
        found[own.name] = own
        found.update(dict.fromkeys(own_names(gateway), own))
    if cluster is not None and state is not None and state.called:
        from admin_console.gateway.node_gateway import NodeGateway

        # An nsqlookupd may name this server before that address is read and turns out to be its own.
        found.update({node.name: NodeGateway(node, cluster) for node in state.called if node.name not in found})
    return found
