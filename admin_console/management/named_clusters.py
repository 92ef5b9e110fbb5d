"""The clusters that have a name, each as a console without an engine: a reader, a hub, a gateway and ends of pauses.

Users, the audit list, the history and the pace of requests are of the process.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from admin_console.cluster.calls.chosen_addresses import ChosenAddresses
from admin_console.cluster.calls.options import ClusterOptions, Pace
from admin_console.cluster.cluster import Cluster, set_cluster
from admin_console.cluster.merging.merged import ClusterSnapshot
from admin_console.gateway.cluster_only import ClusterOnlyGateway
from admin_console.gateway.gateway import set_gateway
from admin_console.gateway.pause_ends import PauseEnds, set_pause_ends, warn_of_absent_clusters
from admin_console.hub.hub import get_hub
from admin_console.vocabulary.current_cluster import in_cluster
from queue_engine.delivery.stats import ActRecord, EngineSnapshot
from queue_engine.vocabulary.options.options import Options


class NamedClusters:
    """Those that `given` names; without a name nothing begins. pace: of each. append_sample: as for `Cluster`. on_act:
    gets the end of each pause, in the context of its cluster."""

    def __init__(
        self,
        given: ClusterOptions,
        data_path: Path,
        options: Options,
        pace: Pace,
        append_sample: Callable[[bytes], None] | None,
        on_act: Callable[[ActRecord], None],
    ) -> None:
        self._data_path = data_path
        self._all = [
            _Named(name, given.of_named(name), data_path, options, pace, append_sample, on_act) for name in given.named
        ]

    def start(self) -> None:
        """Raises StorageError or ValueError with a sentence where a file can't be used."""
        warn_of_absent_clusters(self._data_path, [one.cluster.name for one in self._all])
        for one in self._all:
            one.start()

    def attach_hubs(self, loop: asyncio.AbstractEventLoop) -> None:
        """On the console's loop: their figures go to the live pages from now on."""
        for one in self._all:
            with in_cluster(one.cluster.name):
                get_hub().attach(one.cluster, loop)

    def stop(self) -> None:
        for one in self._all:
            one.stop()


class _Named:
    def __init__(
        self,
        name: str,
        given: ClusterOptions,
        data_path: Path,
        options: Options,
        pace: Pace,
        append_sample: Callable[[bytes], None] | None,
        on_act: Callable[[ActRecord], None],
    ) -> None:
        chosen = ChosenAddresses(data_path, given.addresses, cluster=name)
        self.cluster = Cluster(
            given, chosen, lambda: None, pace, has_engine=False, append_sample=append_sample, name=name
        )
        self.cluster.on_snapshot.append(self._note)
        self._snapshot: EngineSnapshot | None = None
        self._gateway = ClusterOnlyGateway(options, lambda: self._snapshot, cluster=name)

        def on_ended(act: ActRecord) -> None:
            with in_cluster(name):
                on_act(act)

        self._pause_ends = PauseEnds(data_path, self.cluster, on_ended)

    def _note(self, taken: EngineSnapshot | ClusterSnapshot) -> None:
        self._snapshot = taken.merged if isinstance(taken, ClusterSnapshot) else taken

    def start(self) -> None:
        self.cluster.start()
        with in_cluster(self.cluster.name):
            self._pause_ends.start()
            set_gateway(self._gateway)
            set_pause_ends(self._pause_ends)
            set_cluster(self.cluster)

    def stop(self) -> None:
        with in_cluster(self.cluster.name):
            set_cluster(None)
            set_pause_ends(None)
            set_gateway(None)
        self.cluster.stop()
        self._pause_ends.stop()
