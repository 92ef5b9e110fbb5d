"""A hub that sees clusters: what nodes answered, merged by the real merger, for screens."""

from collections.abc import Collection
from typing import Any

from admin_console.cluster.merging.merger import Merger
from admin_console.cluster.reading.nodes import Node
from admin_console.hub.hub import Hub, LiveState
from queue_engine.delivery.stats import EngineSnapshot
from tests.support import cluster_states
from tests.support.pages.snapshots import START_S

OWN = "here:4151"


def nsqd(
    name: str, *topics: dict[str, Any], second: float = START_S, silent_since: float = 0, started_s: int = 1
) -> Node:
    """A node that answered with these topics at a second. silent_since: since when it does not answer; its last answer
    is a second older."""
    read_at_ms = int((silent_since - 1 if silent_since else second) * 1000)
    found = cluster_states.node(f"{name}:4151", *topics, read_at_ms=read_at_ms, started_s=started_s, with_clients=True)
    if not silent_since:
        return found
    return cluster_states.silent(found)


class HubOfCluster:
    """Takes a merged snapshot at a time."""

    def __init__(self) -> None:
        self.hub = Hub()
        self._merger = Merger(lambda: OWN)

    def see(self, own: EngineSnapshot, *nodes: Node, watched: Collection[str] = ()) -> LiveState:
        """own: this server's figures; its second is that of the snapshot. watched: topics that pages show."""
        state = cluster_states.state(sorted(nodes, key=lambda node: node.name))
        self.hub.write(self._merger.tick(own, state, own.taken_at_ns, watched))
        assert self.hub.live is not None
        return self.hub.live
