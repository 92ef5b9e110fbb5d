"""The thread that reads the cluster: an event loop with the poller."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.calls.node_http import NodeHttp, tls_of
from admin_console.cluster.calls.node_tokens import NodeTokens
from admin_console.cluster.calls.options import Addresses, ClusterOptions, Pace
from admin_console.cluster.merging.difference_finder import DifferenceFinder
from admin_console.cluster.merging.merged import ClusterSnapshot
from admin_console.cluster.merging.merger import Merger
from admin_console.cluster.reading.members import Identity
from admin_console.cluster.reading.node_rates import OwnRates
from admin_console.cluster.reading.nodes import ClusterState, NotCallingError
from admin_console.cluster.reading.poller import ClusterPoller
from admin_console.cluster.reading.watches import Watch
from admin_console.vocabulary.current_cluster import in_this_cluster
from queue_engine.delivery.stats import EngineSnapshot

logger = logging.getLogger(__name__)

T = TypeVar("T")

NAMES_MAX = 64  # looked up at once
START_S = 10.0  # the first state is there after some milliseconds
STOP_S = 5.0
TICK_S = 1.0  # without an engine, which has a tick of its own


class NodeReader:
    """Reads from its making on, for the cluster that its maker works for; any thread. own: the identity of the engine
    of this process. on_snapshot: called on the reader's thread. has_engine: whether snapshots of an engine come, each
    of which is merged; otherwise a snapshot is made each second."""

    def __init__(
        self,
        options: ClusterOptions,
        addresses: Addresses,
        own: Callable[[], Identity | None],
        pace: Pace,
        *,
        merger: Merger,
        on_snapshot: Callable[[EngineSnapshot | ClusterSnapshot], None],
        has_engine: bool,
        own_rates: OwnRates,
    ) -> None:
        """Raises ValueError with a sentence where a file of the options can't be used."""
        self._options = options
        self._addresses = addresses
        self._own = own
        self._pace = pace
        self._merger = merger
        self._finder = DifferenceFinder(merger.own_name, own_rates)
        self._on_snapshot = on_snapshot
        self._has_engine = has_engine
        self._newest: EngineSnapshot | None = None
        self._engine_s = (0.0, 0.0)  # monotonic, and processor time of the engine's thread, at the newest snapshot
        self._engine_share = 0.0
        self._tls = tls_of(options.tls)
        self._tokens = NodeTokens.followed(options.token_file)
        self._poller: ClusterPoller | None = None
        self._http: NodeHttp | None = None
        self._loop = asyncio.new_event_loop()
        self._is_stopping = asyncio.Event()
        self._is_begun = threading.Event()
        self._thread = threading.Thread(target=in_this_cluster(self._run), name="penstock-cluster", daemon=True)
        self._thread.start()
        self._is_begun.wait(START_S)

    @property
    def state(self) -> ClusterState:
        poller = self._poller
        return ClusterState(self._addresses) if poller is None else poller.state

    def change(self, addresses: Addresses) -> None:
        """Call these addresses from now on."""
        if self._poller is not None:
            self._loop.call_soon_threadsafe(self._change, self._poller, addresses)

    def _change(self, poller: ClusterPoller, addresses: Addresses) -> None:
        poller.change(addresses)
        if not addresses.has_any:
            # The engine's figures go to the pages unmerged from now on: their growth is counted there.
            self._merger = Merger(self._merger.own_name)

    def merge(self, own: EngineSnapshot) -> None:
        """Merge a snapshot of this process's engine. One that a newer one overtakes is skipped. Called by the engine's
        thread."""
        self._newest = own
        before_s, self._engine_s = self._engine_s, (time.monotonic(), time.thread_time())
        took_s = self._engine_s[0] - before_s[0]
        self._engine_share = (self._engine_s[1] - before_s[1]) / took_s if took_s > 0 else 0.0
        with contextlib.suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self._merge, own)

    def _merge(self, own: EngineSnapshot) -> None:
        is_overtaken = own is not self._newest
        if not is_overtaken and self._poller is not None and self._poller.state.addresses.has_any:
            self._poller.stretch.note_engine(self._engine_share)
            self._merger.left = self._poller.stretch.left
            self._tick(own)

    def _tick(self, own: EngineSnapshot | None) -> None:
        if self._poller is None:
            return
        try:
            snapshot = self._merger.tick(own, self._poller.newest(), time.time_ns(), self._poller.watched)
        except Exception:
            logger.exception("the nodes' figures can't be merged")
            # This server's pages go on.
            self._hand_over(own)
            return
        try:
            snapshot = replace(snapshot, differences=self._finder.find(snapshot, own))
        except Exception:
            logger.exception("the nodes can't be compared")
        self._hand_over(snapshot)

    def _hand_over(self, snapshot: EngineSnapshot | ClusterSnapshot | None) -> None:
        if snapshot is None:
            return
        try:
            self._on_snapshot(snapshot)
        except Exception:
            logger.exception("a snapshot can't be passed on")

    async def _tick_alone(self) -> None:
        while True:
            self._tick(None)
            await asyncio.sleep(TICK_S)

    def watch(self, watch: Watch) -> None:
        """A page shows it."""
        self._on_loop(lambda poller: poller.watch(watch))

    def watch_clients(self, node: str) -> None:
        """A page shows all clients of a node, of all nodes for ""."""
        self._on_loop(lambda poller: poller.watch_clients(node))

    def note_emptied(self, target: HttpAddress, topic: str, channel: str, count: int) -> None:
        """As `Cluster.note_emptied`."""
        self._on_loop(lambda poller: poller.note_emptied(target, topic, channel, count))

    def read_soon(self, target: HttpAddress) -> None:
        """As `Cluster.read_soon`."""
        self._on_loop(lambda poller: poller.read_soon(target))

    def _on_loop(self, note: Callable[[ClusterPoller], None]) -> None:
        if self._poller is not None:
            with contextlib.suppress(RuntimeError):  # its loop is closed
                self._loop.call_soon_threadsafe(note, self._poller)

    def call(self, work: Callable[[NodeHttp], Coroutine[Any, Any, T]]) -> Future[T]:
        """Make calls on the thread. Raises NotCallingError."""
        http = self._http
        if http is None:
            raise NotCallingError("No node is called: the server is stopping.")
        started = work(http)
        try:
            return asyncio.run_coroutine_threadsafe(started, self._loop)
        except RuntimeError as exc:  # its loop is closed
            started.close()
            raise NotCallingError("No node is called: the server is stopping.") from exc

    def stop(self) -> None:
        """Give up all calls. Returns once the thread has ended, STOP_S at most."""
        with contextlib.suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self._is_stopping.set)
        self._thread.join(STOP_S)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except Exception:
            logger.exception("the cluster's nodes are not read any more")
        finally:
            self._is_begun.set()
            self._loop.close()

    async def _serve(self) -> None:
        # A name whose look-up hangs takes a thread with it: names of others are not to wait for one of five.
        self._loop.set_default_executor(ThreadPoolExecutor(NAMES_MAX, "penstock-names"))
        rules = self._options.rules(self._addresses)
        async with NodeHttp(self._options, rules, self._tls, self._tokens) as http:
            self._poller = ClusterPoller(self._options, self._addresses, http, own=self._own, pace=self._pace)
            self._poller.start()
            alone = None if self._has_engine else asyncio.create_task(self._tick_alone(), name="tick")
            self._http = http
            self._is_begun.set()
            await self._is_stopping.wait()
            if alone is not None:
                alone.cancel()
            self._http = None
            await self._poller.stop()
            # Calls of acts: their threads wait for them.
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
