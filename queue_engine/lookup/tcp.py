"""nsqlookupd's TCP side: the connections of nsqds, up to a limit, and their deadlines."""

import asyncio
import logging
import struct
from collections.abc import Callable
from typing import Any, cast

from queue_engine.lookup.options import LookupOptions
from queue_engine.lookup.registrations import Registrations
from queue_engine.lookup.session import LookupSession
from queue_engine.service.admission.connection_pool import ConnectionPool
from queue_engine.service.admission.refused_connections import RefusedConnections
from queue_engine.vocabulary.client_key import ClientKey
from queue_engine.vocabulary.clock import Clock

logger = logging.getLogger(__name__)

# A silent peer stays registered, but inactive, for --inactive-producer-timeout and as long again; at least so long.
SILENCE_MS_MIN = 60_000
# Replies that a peer does not read.
OUTPUT_BYTES_MAX = 64 << 10
# How long a peer may leave its replies unread.
WRITE_TIMEOUT_S = 10.0


class LookupTcp:
    """Makes the connections (`protocol_factory`) and checks their deadlines. Belongs to the loop's thread."""

    def __init__(
        self,
        registrations: Registrations,
        clock: Clock,
        options: LookupOptions,
        own_info: Callable[[], dict[str, Any]],
    ) -> None:
        self._registrations = registrations
        self._clock = clock
        self._own_info = own_info
        self._silence_ms = max(2 * options.inactive_producer_timeout_ms, SILENCE_MS_MIN)
        refused = RefusedConnections("tcp", options.max_connections, clock)
        self._connections: ConnectionPool[LookupConnection] = ConnectionPool(refused)

    def protocol_factory(self) -> "LookupConnection":
        return LookupConnection(self)

    def opened(self, connection: "LookupConnection", host: str, remote_address: str) -> LookupSession | None:
        """The session of a new connection; None when there are too many."""
        if self._connections.enter(connection, ClientKey.of(host)):
            return None
        return LookupSession(
            self._registrations, self._clock, remote_address, self._own_info, silence_ms=self._silence_ms
        )

    def closed(self, connection: "LookupConnection") -> None:
        self._connections.leave(connection)

    def check(self) -> None:
        """Cut the connections that are overdue. Called each second."""
        for connection in self._connections:
            connection.check()

    def close(self) -> None:
        """End every connection. nsqds connect again to the next process that listens here."""
        for connection in self._connections:
            connection.close()


class LookupConnection(asyncio.Protocol):
    """The socket of one `LookupSession`."""

    def __init__(self, owner: LookupTcp) -> None:
        self._owner = owner
        self._session: LookupSession | None = None
        self._transport: asyncio.Transport | None = None
        self._unread_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=OUTPUT_BYTES_MAX)
        peer = transport.get_extra_info("peername")
        host, port = (peer[0], peer[1]) if isinstance(peer, tuple) else ("", 0)
        self._session = self._owner.opened(self, host, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        if self._session is None:
            text = b"E_INVALID too many connections: connect again later"
            self._transport.write(struct.pack(">i", len(text)) + text)
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        if self._session is not None:
            self._send(self._session.receive(data))

    def eof_received(self) -> bool:
        if self._session is not None:
            self._send(self._session.end_of_input())
        return False  # the transport closes once all is written

    def _send(self, replies: bytes) -> None:
        assert self._transport is not None
        assert self._session is not None
        if replies:
            self._transport.write(replies)
        if self._session.is_over:
            self.close()

    def pause_writing(self) -> None:
        assert self._transport is not None
        self._transport.pause_reading()
        if self._unread_timer is None:
            self._unread_timer = asyncio.get_running_loop().call_later(WRITE_TIMEOUT_S, self._transport.abort)

    def resume_writing(self) -> None:
        self._clear_timer()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def check(self) -> None:
        if self._session is not None and self._transport is not None and (why := self._session.overdue()):
            logger.warning("client(%s) cut: %s", self._session.remote_address, why)
            self._transport.abort()

    def close(self) -> None:
        """Close once the replies are out; a peer that does not read them is cut."""
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.close()
        if self._unread_timer is None:
            self._unread_timer = asyncio.get_running_loop().call_later(WRITE_TIMEOUT_S, self._transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear_timer()
        self._transport = None
        self._owner.closed(self)
        if self._session is not None:
            self._session.closed()

    def _clear_timer(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None
