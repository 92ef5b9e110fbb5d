"""nsqlookupd on its two sockets."""

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any

from queue_engine.lookup.http import LookupHttp
from queue_engine.lookup.options import LookupOptions
from queue_engine.lookup.registrations import Registrations
from queue_engine.lookup.tcp import LookupTcp
from queue_engine.vocabulary.clock import Clock, SystemClock
from queue_engine.vocabulary.errors import PenstockError
from queue_engine.vocabulary.options.addresses import split_address
from queue_engine.vocabulary.version import NSQ_VERSION

logger = logging.getLogger(__name__)

CHECK_INTERVAL_S = 1.0


class LookupServer:
    """One nsqlookupd. Everything is called on the loop's thread."""

    def __init__(self, options: LookupOptions, clock: Clock | None = None) -> None:
        clock = clock or SystemClock()
        self.tcp_address: tuple[str, int] = ("", 0)
        self.http_address: tuple[str, int] = ("", 0)
        self._options = options
        self.registrations = Registrations(
            clock,
            inactive_ms=options.inactive_producer_timeout_ms,
            tombstone_ms=options.tombstone_lifetime_ms,
            entries_max=options.max_registrations,
        )
        self._tcp = LookupTcp(self.registrations, clock, options, self._own_info)
        self._http = LookupHttp(self.registrations, clock, options)
        self._clock = clock
        self._servers: list[asyncio.Server] = []
        self._checks: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Listen on both addresses. Raises PenstockError for one that is taken, with none left open."""
        try:
            self.tcp_address = await self._listen(self._options.tcp_address, self._tcp.protocol_factory)
            self.http_address = await self._listen(self._options.http_address, self._http.protocol_factory)
        except BaseException:
            self.stop()
            raise
        self._check()

    def stop(self) -> None:
        """Stop listening and end all connections."""
        for server in self._servers:
            server.close()
        if self._checks is not None:
            self._checks.cancel()
        self._tcp.close()
        self._http.close_connections()

    async def _listen(self, address: str, factory: Callable[[], asyncio.Protocol]) -> tuple[str, int]:
        host, port = split_address(address)
        try:
            server = await asyncio.get_running_loop().create_server(factory, host or None, port, backlog=1024)
        except OSError as exc:
            raise PenstockError(f"listen ({address}) failed - {exc.strerror or exc}") from exc
        self._servers.append(server)
        name = server.sockets[0].getsockname()
        return name[0], name[1]

    def _check(self) -> None:
        self._checks = asyncio.get_running_loop().call_later(CHECK_INTERVAL_S, self._check)
        self._tcp.check()
        self._http.bodies.check(self._clock.monotonic_ns())

    def _own_info(self) -> dict[str, Any]:
        return {
            "tcp_port": self.tcp_address[1],
            "http_port": self.http_address[1],
            "version": NSQ_VERSION,
            "broadcast_address": self._options.effective_broadcast_address,
            "hostname": socket.gethostname(),
        }
