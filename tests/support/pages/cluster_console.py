"""The console of an engine of this process with other nodes beside it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from admin_console.cluster.calls.chosen_addresses import ChosenAddresses
from admin_console.cluster.calls.options import Addresses, ClusterOptions, Pace
from admin_console.cluster.cluster import Cluster, get_cluster, set_cluster
from admin_console.cluster.merging.merger import Merger
from admin_console.cluster.reading.members import Identity
from admin_console.cluster.reading.nodes import ClusterState
from admin_console.gateway.gateway import get_gateway
from admin_console.hub.hub import get_hub
from queue_engine.service.runner import EngineRunner
from queue_engine.vocabulary.clock import NS_PER_S
from tests.support.fake_node import FakeNode
from tests.support.pages.console import console_engine
from tests.support.waiting import wait_for

OFTEN = Pace(period_s=0.1, retry_s=0.05, retry_max_s=0.1)


@dataclass
class ClusterConsole:
    """engine: this server's."""

    engine: EngineRunner
    cluster: Cluster
    merger: Merger
    seen: int = 0

    @property
    def own(self) -> str:
        """This server's name among the nodes."""
        return get_gateway().node().name

    def see(self, what: str = "all nodes", is_so: Callable[[ClusterState], object] = lambda state: True) -> None:
        """Have pages show the figures of this moment, once the nodes' answers are so, as those of the next second."""
        wait_for(what, lambda: is_so(self.cluster.state))
        taken = self.engine.calls.stats(include_clients=False).result(10)
        self.seen += 1
        taken = replace(taken, taken_at_ns=taken.taken_at_ns + self.seen * NS_PER_S)
        get_hub().write(self.merger.tick(taken, self.cluster.state, taken.taken_at_ns))

    def see_topic(self, name: str, count: int) -> None:
        """`see`, once so many other nodes have the topic."""

        def has(state: ClusterState) -> bool:
            return sum(node.stats is not None and name in node.stats.topics for node in state.nodes) == count

        self.see(f"topic {name} on {count} nodes", has)


@contextmanager
def cluster_console(
    data_path: Path,
    *nodes: FakeNode,
    lookupds: Sequence[FakeNode] = (),
    timeout_s: float = 5.0,
    connect_timeout_s: float = 2.0,
    pace: Pace = OFTEN,
    http_address: str = "127.0.0.1:0",
    token_file: str = "",
) -> Iterator[ClusterConsole]:
    """timeout_s: of one call of a node; connect_timeout_s: of its connection. http_address: of this server. token_file:
    of the tokens for nodes."""
    with console_engine(data_path, http_address=http_address) as engine:
        addresses = Addresses.parse([one.address for one in lookupds], [one.address for one in nodes])
        options = ClusterOptions(
            addresses=addresses,
            request_timeout_s=timeout_s,
            connect_timeout_s=connect_timeout_s,
            token_file=token_file,
        )
        alone = get_cluster()
        own: Callable[[], Identity | None] = lambda: alone.own_identity if alone is not None else None  # noqa: E731
        cluster = Cluster(options, ChosenAddresses(data_path, addresses), own, pace)
        cluster.start()
        set_cluster(cluster)
        try:
            found = ClusterConsole(engine, cluster, Merger(lambda: get_gateway().node().name))
            found.see("all nodes", lambda state: len(state.answering) == len(nodes))
            yield found
        finally:
            set_cluster(None)
            cluster.stop()
