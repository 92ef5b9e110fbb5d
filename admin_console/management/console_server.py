"""Daphne's server, with limits for its connections and an orderly stop."""

import asyncio
import importlib
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autobahn.websocket.compress import PerMessageDeflateOffer, PerMessageDeflateOfferAccept
from daphne.server import Server
from daphne.ws_protocol import WebSocketProtocol
from twisted.internet import defer
from twisted.internet.task import LoopingCall

from admin_console.management.console_tls import ConsoleCertificate, inside_tls
from admin_console.management.guarded_connection import ConnectionLimits, GuardedConnections
from queue_engine.vocabulary.options.options import Options

# How long requests may go on after the stop begins; an act's own deadline is 5 s.
DRAIN_S = 1.5
KILL_S = 0.5
CERTIFICATE_LOOK_S = 1.0
WEBSOCKET_BYTES_MAX = 4 << 20  # also limits sent messages
# A socket holds its compressor until its next update: 48 KiB with these, 268 KiB with zlib's own, for the same size.
DEFLATE_WINDOW_BITS = 13
DEFLATE_MEMORY_LEVEL = 5


def accept_deflate(offers: Sequence[Any]) -> PerMessageDeflateOfferAccept | None:
    """autobahn's answer to a browser that offers permessage-deflate; None: updates go out as they are.

    Each update is compressed by itself, so that a page that misses some needs none of them.
    """
    for offer in offers:
        if isinstance(offer, PerMessageDeflateOffer):
            return PerMessageDeflateOfferAccept(
                offer,
                no_context_takeover=True,
                window_bits=min(DEFLATE_WINDOW_BITS, offer.request_max_window_bits or DEFLATE_WINDOW_BITS),
                mem_level=DEFLATE_MEMORY_LEVEL,
                # Older versions of autobahn have no other limit for the inflated size of a message.
                max_message_size=WEBSOCKET_BYTES_MAX,
            )
    return None


class ConsoleServer(Server):
    """Serves one ASGI application on sockets that listen already."""

    def __init__(
        self,
        application: Any,
        sockets: Sequence[socket.socket],
        *,
        limits: ConnectionLimits,
        on_listening: Callable[[str, int], None],
        tls: Options | None = None,
    ) -> None:
        """on_listening: gets host and port of the first socket. tls: the options with the certificate, for a console
        that speaks TLS itself."""
        self._limits = limits
        self._certificate = None if tls is None else ConsoleCertificate(tls)
        self._listens_with: Any = None
        self._guarded: GuardedConnections | None = None  # made by `run`
        super().__init__(
            application,
            endpoints=["sockets"],  # Daphne wants one
            ready_callable=self._listen,
            signal_handlers=False,
            verbosity=0,
            server_name="",
            websocket_max_message_size=WEBSOCKET_BYTES_MAX,
            websocket_max_frame_size=WEBSOCKET_BYTES_MAX,
            ping_interval=10,
            ping_timeout=15,
        )
        self.endpoints: list[str] = []
        self._sockets = sockets
        self._on_listening = on_listening
        self._ports: list[Any] = []

    @property
    def http_factory(self) -> Any:
        """Daphne's listening port; None before `run`."""
        return self._listens_with

    @http_factory.setter
    def http_factory(self, factory: Any) -> None:
        self._guarded = GuardedConnections(factory, self._limits)
        self._listens_with = (
            self._guarded if self._certificate is None else inside_tls(self._guarded, self._certificate)
        )

    @property
    def refused_connections(self) -> Mapping[str, int]:
        """Since the start, by reason; empty before `run`."""
        return {} if self._guarded is None else self._guarded.pool.refused.by_reason()

    @property
    def certificate_expires_s(self) -> float | None:
        """Unix; None without TLS. May be read by any thread."""
        return None if self._certificate is None else self._certificate.watch.expiries_s().get("console")

    def read_certificate_again(self) -> None:
        """Called by any thread while the reactor runs."""
        if self._certificate is not None:
            reactor: Any = importlib.import_module("twisted.internet.reactor")
            reactor.callFromThread(self._certificate.read_again)

    def _look_at_certificate(self) -> None:
        """A replaced file is read without a connection, too: the metrics have its expiry."""
        if self._certificate is not None:
            LoopingCall(self._certificate.watch.look).start(CERTIFICATE_LOOK_S, now=False)

    def listen_success(self, port: Any) -> None:
        super().listen_success(port)
        self._ports.append(port)

    def _listen(self) -> None:
        """Have the reactor accept connections. It works on copies of the sockets."""
        self.ws_factory.setProtocolOptions(perMessageCompressionAccept=accept_deflate)
        reactor: Any = importlib.import_module("twisted.internet.reactor")
        for one in self._sockets:
            self.listen_success(reactor.adoptStreamPort(one.fileno(), one.family, self.http_factory))
        self._look_at_certificate()
        self._on_listening(*self._sockets[0].getsockname()[:2])

    def kill_all_applications(self) -> Any:
        """Before the reactor ends: accept no more, end sockets, let requests finish for a moment, cancel the rest."""
        for port in self._ports:
            port.stopListening()
        for one in self._sockets:
            one.close()
        return defer.Deferred.fromFuture(asyncio.ensure_future(self._drain()))

    async def _drain(self) -> None:
        requests: list[asyncio.Task[None]] = []
        sockets: list[asyncio.Task[None]] = []
        for protocol, details in self.connections.items():
            # A connection that waits for its next request has no application.
            task = details.get("application_instance")
            if task is not None and not task.done():
                (sockets if isinstance(protocol, WebSocketProtocol) else requests).append(task)
        for task in sockets:
            task.cancel()
        if requests:
            _, late = await asyncio.wait(requests, timeout=DRAIN_S)
            for task in late:
                task.cancel()
        if sockets or requests:
            await asyncio.wait([*sockets, *requests], timeout=KILL_S)
