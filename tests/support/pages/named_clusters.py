"""A console with an engine of its own and clusters with names beside it, each of one fake node."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from admin_console.cluster.calls.options import Addresses, ClusterOptions
from admin_console.cluster.cluster import get_cluster
from admin_console.hub.hub import get_hub
from admin_console.management.named_clusters import NamedClusters
from admin_console.vocabulary.current_cluster import in_cluster
from queue_engine.delivery.stats import ActRecord
from queue_engine.vocabulary.options.options import Options
from tests.support.fake_node import FakeNode
from tests.support.pages.cluster_console import OFTEN
from tests.support.waiting import wait_for


def _nothing(act: ActRecord) -> None:
    """Takes the end of a pause."""


def begun(
    data_path: Path, nodes: Mapping[str, FakeNode], on_act: Callable[[ActRecord], None] = _nothing
) -> NamedClusters:
    """By name; they begin to read. on_act: gets the ends of pauses."""
    given = ClusterOptions(named={name: Addresses.parse([], [node.address]) for name, node in nodes.items()})
    found = NamedClusters(given, data_path, Options(data_path=str(data_path)), OFTEN, None, on_act)
    found.start()
    return found


def end(clusters: NamedClusters, names: Iterable[str]) -> None:
    for name in names:
        with in_cluster(name):
            get_hub().forget_all()
    clusters.stop()


@contextmanager
def named_clusters(
    data_path: Path, on_act: Callable[[ActRecord], None] = _nothing, **nodes: FakeNode
) -> Iterator[NamedClusters]:
    """As `begun`; all that pages show of them is there."""
    found = begun(data_path, nodes, on_act)
    try:
        hubs = []
        for name in nodes:
            with in_cluster(name):
                cluster, hub = get_cluster(), get_hub()
            assert cluster is not None
            hub.forget_all()
            cluster.on_snapshot.append(hub.write)
            hubs.append(hub)
        for hub in hubs:
            wait_for("the figures of the cluster", lambda hub=hub: hub.live is not None and hub.live.topics)
        yield found
    finally:
        end(found, nodes)
