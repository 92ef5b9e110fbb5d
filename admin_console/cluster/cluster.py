"""The cluster of this process, as the rest of the console reads it."""

import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.calls.chosen_addresses import ChosenAddresses
from admin_console.cluster.calls.options import NO_ADDRESSES, PACE, Addresses, ClusterOptions, Pace
from admin_console.cluster.lookupds.lookupds import Lookupds
from admin_console.cluster.merging.merged import ClusterSnapshot
from admin_console.cluster.reading.members import Identity
from admin_console.cluster.reading.node_rates import OwnRates
from admin_console.cluster.reading.nodes import ClusterState, NotCallingError
from admin_console.cluster.reading.watches import Watch
from admin_console.vocabulary.current_cluster import PerCluster, in_cluster
from queue_engine.delivery.stats import EngineSnapshot
from queue_engine.vocabulary.errors import StorageError

if TYPE_CHECKING:
    from admin_console.cluster.calls.node_http import NodeHttp
    from admin_console.cluster.samples.node_samples import NodeSampler

T = TypeVar("T")


class Reader(Protocol):
    """Reads the nodes (`reader.py`)."""

    @property
    def state(self) -> ClusterState: ...

    def change(self, addresses: Addresses) -> None: ...

    def watch(self, watch: Watch) -> None: ...

    def watch_clients(self, node: str) -> None: ...

    def note_emptied(self, target: HttpAddress, topic: str, channel: str, count: int) -> None: ...

    def read_soon(self, target: HttpAddress) -> None: ...

    def call(self, work: "Callable[[NodeHttp], Coroutine[Any, Any, T]]") -> Future[T]: ...

    def merge(self, own: EngineSnapshot) -> None: ...

    def stop(self) -> None: ...


class NotChangedError(Exception):
    """The addresses stay as they were; the text is a sentence."""


class Cluster:
    """Any thread. own: the identity of the engine of this process, None while it has none. own_name: its name among the
    nodes. has_engine: False for a console by itself, whose snapshots come every second without `take`. append_sample:
    writes a node's sample (`node_samples.py`); None where no samples are stored. name: of the cluster, "" for the
    unnamed one.

    on_snapshot: called with each snapshot, on the thread that made it: the engine's own while no other node is read.
    """

    def __init__(
        self,
        options: ClusterOptions,
        chosen: ChosenAddresses,
        own: Callable[[], Identity | None],
        pace: Pace = PACE,
        *,
        own_name: Callable[[], str] = lambda: "",
        has_engine: bool = True,
        append_sample: Callable[[bytes], None] | None = None,
        name: str = "",
    ) -> None:
        self.name = name
        self.on_snapshot: list[Callable[[EngineSnapshot | ClusterSnapshot], None]] = []
        self._options = options
        self._chosen = chosen
        self._own = own
        self._pace = pace
        self._own_name = own_name
        self._has_engine = has_engine
        self._lock = threading.Lock()
        self._addresses = NO_ADDRESSES
        self._reader: Reader | None = None
        self._append_sample = append_sample
        self._sampler: NodeSampler | None = None
        self.lookupds = Lookupds(self.call)
        self.own_rates = OwnRates()

    def start(self) -> None:
        """Read the addresses, and begin to call them. Without any, nothing begins beside an engine: most servers have
        no other node.
        Raises StorageError or ValueError with a sentence where a file of the options can't be used."""
        self._addresses = self._chosen.read()
        if self._addresses.has_any or not self._has_engine:
            self._reader = self._begun(self._addresses)

    def stop(self) -> None:
        with self._lock:
            if self._sampler is not None:
                self._sampler.stop()
            if self._reader is not None:
                self._reader.stop()

    @property
    def state(self) -> ClusterState:
        """The newest one."""
        reader = self._reader
        return ClusterState(self._addresses) if reader is None else reader.state

    def take(self, own: EngineSnapshot) -> None:
        """Pass on a snapshot of this process's engine, merged with the figures of the other nodes where there are any:
        on the cluster's thread. Called by the engine's thread."""
        reader = self._reader
        if reader is not None and self._addresses.has_any:
            reader.merge(own)
            return
        self._hand_over(own)

    def _hand_over(self, snapshot: EngineSnapshot | ClusterSnapshot) -> None:
        for hand_over in self.on_snapshot:
            hand_over(snapshot)

    @property
    def addresses(self) -> Addresses:
        """Those of now; `state` has them once the reader took them in."""
        return self._addresses

    @property
    def has_engine(self) -> bool:
        return self._has_engine

    @property
    def has_any(self) -> bool:
        """Whether it has a node, or may have one: an engine, or addresses."""
        return self._has_engine or self._addresses.has_any

    @property
    def own_identity(self) -> Identity | None:
        """Of the engine of this process; None while it has none."""
        return self._own()

    @property
    def request_timeout_s(self) -> float:
        """Of one call of a node."""
        return self._options.request_timeout_s

    def watch(self, topic: str, channel: str = "", *, clients: bool = False) -> None:
        """Have this topic, or this channel of it, read every second for the next seconds, at the nodes that have it.
        clients: with those of the channel; without a channel those of all its channels and its producers, which come
        every five seconds."""
        reader = self._reader
        if reader is not None:
            reader.watch(Watch(topic, channel, clients))

    def watch_clients(self, node: str = "") -> None:
        """Have all topics read with their clients and producers for the next seconds, at this node (`Node.name`), or
        at all; each period has them then (`NodeStats.has_clients`, `read_at_ms`)."""
        reader = self._reader
        if reader is not None:
            reader.watch_clients(node)

    def note_emptied(self, target: HttpAddress, topic: str, channel: str, count: int) -> None:
        """Note that an act removes so many messages of a channel at the node with this address, before it is sent: an
        nsqd does not count finished messages, and these would count among them. Negative: it was not done."""
        reader = self._reader
        if reader is not None:
            reader.note_emptied(target, topic, channel, count)

    def read_soon(self, target: HttpAddress) -> None:
        """Have the node with this address read before its period is over: an act changed it."""
        reader = self._reader
        if reader is not None:
            reader.read_soon(target)

    def call(self, work: "Callable[[NodeHttp], Coroutine[Any, Any, T]]") -> Future[T]:
        """Have the cluster's thread make calls beside its reading, such as those of an act. The thread begins with the
        first of them where no address is configured: the engine may register with an nsqlookupd. The future is
        cancelled when the server stops. Raises NotCallingError."""
        with self._lock:
            try:
                if self._reader is None:
                    self._reader = self._begun(self._addresses)
            except ValueError as exc:
                raise NotCallingError(f"{exc}.") from exc
            reader = self._reader
        return reader.call(work)

    def change(self, addresses: Addresses) -> None:
        """Call these addresses from now on, also after a restart. Raises NotChangedError."""
        with self._lock:
            try:
                if self._reader is None:
                    self._reader = self._begun(self._addresses)
                self._chosen.write(addresses)
            except (StorageError, ValueError) as exc:
                raise NotChangedError(f"{exc}.") from exc
            self._addresses = addresses
            self._reader.change(addresses)

    def _begun(self, addresses: Addresses) -> Reader:
        # Here: a server without other nodes starts without an HTTP client.
        from admin_console.cluster.merging.merger import Merger
        from admin_console.cluster.reader import NodeReader
        from admin_console.cluster.samples.node_samples import NodeSampler

        with in_cluster(self.name):
            reader = NodeReader(
                self._options,
                addresses,
                self._own,
                self._pace,
                merger=Merger(self._own_name),
                on_snapshot=self._hand_over,
                has_engine=self._has_engine,
                own_rates=self.own_rates,
            )
            if self._append_sample is not None:
                self._sampler = NodeSampler(
                    lambda: reader.state, self._append_sample, interval_s=self._pace.sample_s, cluster=self.name
                )
                self._sampler.start()
        return reader


_clusters = PerCluster[Cluster]()


def set_cluster(cluster: Cluster | None) -> None:
    """Called by `serve` once the cluster runs, and with None before it stops."""
    _clusters.put(cluster)


def get_cluster() -> Cluster | None:
    """The one that the running code works for; None where `serve` is not running."""
    return _clusters.get()


def cluster_names() -> tuple[str, ...]:
    """Of all that run, "" for the unnamed one."""
    return _clusters.names
