"""The cluster of this process, as the rest of the console reads it."""

import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from admin_console.cluster.chosen_addresses import ChosenAddresses
from admin_console.cluster.members import Identity
from admin_console.cluster.nodes import ClusterState, NotCallingError
from admin_console.cluster.options import NO_ADDRESSES, PACE, Addresses, ClusterOptions, Pace
from queue_engine.vocabulary.errors import StorageError

if TYPE_CHECKING:
    from admin_console.cluster.node_http import NodeHttp

T = TypeVar("T")


class Reader(Protocol):
    """Reads the nodes (`reader.py`)."""

    @property
    def state(self) -> ClusterState: ...

    def change(self, addresses: Addresses) -> None: ...

    def call(self, work: "Callable[[NodeHttp], Coroutine[Any, Any, T]]") -> Future[T]: ...

    def stop(self) -> None: ...


class NotChangedError(Exception):
    """The addresses stay as they were; the text is a sentence."""


class Cluster:
    """Any thread. own: the identity of the engine of this process, None while it has none."""

    def __init__(
        self,
        options: ClusterOptions,
        chosen: ChosenAddresses,
        own: Callable[[], Identity | None],
        pace: Pace = PACE,
    ) -> None:
        self._options = options
        self._chosen = chosen
        self._own = own
        self._pace = pace
        self._lock = threading.Lock()
        self._addresses = NO_ADDRESSES
        self._reader: Reader | None = None

    def start(self) -> None:
        """Read the addresses, and begin to call them. Without any, nothing begins: most servers have no other node.
        Raises StorageError or ValueError with a sentence where a file of the options can't be used."""
        self._addresses = self._chosen.read()
        if self._addresses.has_any:
            self._reader = self._begun(self._addresses)

    def stop(self) -> None:
        with self._lock:
            if self._reader is not None:
                self._reader.stop()

    @property
    def state(self) -> ClusterState:
        """The newest one."""
        reader = self._reader
        return ClusterState(self._addresses) if reader is None else reader.state

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
        from admin_console.cluster.reader import NodeReader

        return NodeReader(self._options, addresses, self._own, self._pace)


_cluster: Cluster | None = None


def set_cluster(cluster: Cluster | None) -> None:
    """Called by `serve` once the cluster runs, and with None before it stops."""
    global _cluster
    _cluster = cluster


def get_cluster() -> Cluster | None:
    """The cluster of this process; None where `serve` is not running."""
    return _cluster
