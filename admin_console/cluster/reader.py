"""The thread that reads the cluster: an event loop with the poller."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from admin_console.cluster.members import Identity
from admin_console.cluster.node_http import NodeHttp, tls_of
from admin_console.cluster.node_tokens import NodeTokens
from admin_console.cluster.nodes import ClusterState, NotCallingError
from admin_console.cluster.options import Addresses, ClusterOptions, Pace
from admin_console.cluster.poller import ClusterPoller

logger = logging.getLogger(__name__)

T = TypeVar("T")

START_S = 10.0  # the first state is there after some milliseconds
STOP_S = 5.0


class NodeReader:
    """Reads from its making on; any thread. own: the identity of the engine of this process."""

    def __init__(
        self, options: ClusterOptions, addresses: Addresses, own: Callable[[], Identity | None], pace: Pace
    ) -> None:
        """Raises ValueError with a sentence where a file of the options can't be used."""
        self._options = options
        self._addresses = addresses
        self._own = own
        self._pace = pace
        self._tls = tls_of(options.tls)
        self._tokens = NodeTokens.followed(options.token_file)
        self._poller: ClusterPoller | None = None
        self._http: NodeHttp | None = None
        self._loop = asyncio.new_event_loop()
        self._is_stopping = asyncio.Event()
        self._is_begun = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-cluster", daemon=True)
        self._thread.start()
        self._is_begun.wait(START_S)

    @property
    def state(self) -> ClusterState:
        poller = self._poller
        return ClusterState(self._addresses) if poller is None else poller.state

    def change(self, addresses: Addresses) -> None:
        """Call these addresses from now on."""
        if self._poller is not None:
            self._loop.call_soon_threadsafe(self._poller.change, addresses)

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
        rules = self._options.rules(self._addresses)
        async with NodeHttp(self._options, rules, self._tls, self._tokens) as http:
            self._poller = ClusterPoller(self._options, self._addresses, http, own=self._own, pace=self._pace)
            self._poller.start()
            self._http = http
            self._is_begun.set()
            await self._is_stopping.wait()
            self._http = None
            await self._poller.stop()
            # Calls of acts: their threads wait for them.
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
