"""Deadlines and a cap for the console's connections, around Daphne's protocols.

A connection is in one phase at a time, and each has its deadline; data that drips in gains no time:

    head ──► body ──► answer ──► idle ──► head …        a request that becomes a socket has deadlines of its own
      │408     │408      └─ cut when the client takes nothing    └─ closed, once all was taken

An answer that advances, such as a download over a slow line, is never cut. A client that sends requests ahead and does
not take the answers is cut at 1 MiB of them.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from twisted.internet.interfaces import ITransport
from twisted.internet.protocol import Protocol
from twisted.protocols.policies import ProtocolWrapper, TimeoutMixin, WrappingFactory
from zope.interface import directlyProvides

from admin_console.management.bounded_request import BODY_BYTES_MAX, BoundedRequest
from queue_engine.service.admission.connection_pool import ConnectionPool
from queue_engine.service.admission.refused_connections import RefusedConnections
from queue_engine.vocabulary.client_key import UNIX, ClientKeys, TrustedAddresses
from queue_engine.vocabulary.clock import SystemClock

# How long a closing connection may take to send the rest of its answer.
LINGER_S = 5.0
# Refused connections that get an answer at once, a descriptor each; the others are closed without one.
REFUSALS_MAX = 8
# Answers to requests sent ahead, which the client has not taken; beyond, it is cut.
UNTAKEN_BYTES_MAX = 1 << 20
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """connections_max: at once, and one address leaves a quarter of them to others. trusted_proxies: their addresses
    are those of many clients. request_s: for a head, and the same again for each MiB of body begun. idle_s: without a
    next request, or without progress of an answer."""

    connections_max: int
    request_s: float
    idle_s: float
    trusted_proxies: TrustedAddresses


class _Phase(Enum):
    HEAD = "head"
    BODY = "body"
    ANSWER = "answer"
    IDLE = "idle"
    SOCKET = "socket"
    CLOSING = "closing"


def _response(status: str, sentence: str) -> bytes:
    body = f"{sentence}\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body


class GuardedConnection(ProtocolWrapper, TimeoutMixin):
    """One connection. Its requests report their progress to it."""

    transport: Any  # Twisted's interfaces do not have all of a TCP connection's methods

    def __init__(self, factory: Any, wrapped: Any) -> None:
        super().__init__(factory, wrapped)
        self._limits: ConnectionLimits = factory.limits
        self._phase = _Phase.HEAD
        self._socket: Any = None  # below TLS
        self.is_tls = False
        self._has_received = False
        self._written = 0  # bytes handed to the transport
        self._sent = 0  # of them, those that the system has taken
        self._sent_when_looked = 0
        self._answer_began = 0  # bytes handed to the transport before the newest request

    # From the transport.

    def makeConnection(self, transport: Any) -> None:
        # Only this method of the socket's transport has the number of bytes that the system takes. Inside TLS they are
        # a few more than were written, so that the rest looks smaller by that.
        self._socket = transport
        while isinstance(self._socket, ProtocolWrapper):
            self._socket = self._socket.transport
        write_some = self._socket.writeSomeData

        def count(data: bytes) -> Any:
            taken = write_some(data)
            if isinstance(taken, int) and taken > 0:
                self._sent += taken
            return taken

        self._socket.writeSomeData = count
        self._enter(_Phase.HEAD, self._limits.request_s)
        super().makeConnection(transport)
        if self._socket is not transport:
            self.is_tls = True
            # Autobahn reads OpenSSL's own object from a transport that claims TLS.
            directlyProvides(self, ITransport)

    def dataReceived(self, data: bytes) -> None:
        self._has_received = True
        if self._phase is _Phase.IDLE:
            self._enter(_Phase.HEAD, self._limits.request_s)
        if self._phase is not _Phase.CLOSING:
            super().dataReceived(data)

    def connectionLost(self, reason: Any = None) -> None:
        self.setTimeout(None)
        self.factory.pool.busy(self)
        self.factory.pool.leave(self)
        del self._socket.writeSomeData  # a cycle
        super().connectionLost(reason)

    def write(self, data: bytes) -> None:
        self._written += len(data)
        super().write(data)

    def writeSequence(self, data: Any) -> None:
        parts = list(data)
        self._written += sum(map(len, parts))
        super().writeSequence(parts)

    # From its requests.

    def head_is_read(self, length: int | None) -> None:
        """length: of the body; None when it comes in chunks."""
        if self._sent < self._answer_began and self._written - self._sent > UNTAKEN_BYTES_MAX:
            # The client sends requests and reads no answers, which would all be in memory.
            self.transport.abortConnection()
        self._answer_began = self._written
        expected = min(BODY_BYTES_MAX if length is None else length, BODY_BYTES_MAX)
        self._enter(_Phase.BODY, self._limits.request_s * (1 + -(-expected // _MIB)))

    def request_is_read(self) -> None:
        self._enter(_Phase.ANSWER, self._limits.idle_s)

    def request_is_answered(self) -> None:
        self._enter(_Phase.IDLE, self._limits.idle_s)

    def is_now_a_socket(self) -> None:
        """The request became a WebSocket: pings and acknowledgements replace the deadline."""
        self._enter(_Phase.SOCKET, None)

    # Deadlines.

    def _enter(self, phase: _Phase, seconds: float | None) -> None:
        if self._phase is _Phase.CLOSING:
            return
        self._phase = phase
        pool = self.factory.pool
        if phase is _Phase.IDLE:
            pool.idle(self)
        else:
            pool.busy(self)
        self.setTimeout(seconds)

    def give_way(self) -> None:
        """End now, while no request is pending: another connection needs the place. An answer that the client has not
        taken would keep the descriptor."""
        if self._sent < self._written:
            self.transport.abortConnection()
        else:
            self._end()

    def timeoutConnection(self) -> None:
        if self._phase is _Phase.CLOSING:
            self.transport.abortConnection()
        elif self._phase is _Phase.HEAD or self._phase is _Phase.BODY:
            if self._has_received:
                self.write(_response("408 Request Timeout", "The request was not complete in time."))
            self._end()
        elif self._sent < self._written:
            if self._sent == self._sent_when_looked:
                self.transport.abortConnection()  # the client takes nothing
                return
            self._sent_when_looked = self._sent
            self.setTimeout(self._limits.idle_s)
        elif self._phase is _Phase.ANSWER:
            self.setTimeout(self._limits.idle_s)  # the answer is being made
        else:
            self._end()

    def _end(self) -> None:
        self._enter(_Phase.CLOSING, LINGER_S)
        self.loseConnection()


class GuardedConnections(WrappingFactory):
    """Makes the connections, and refuses one too many with 503, so that a browser shows why. pool: those that are
    open."""

    protocol = GuardedConnection

    def __init__(self, wrapped: Any, limits: ConnectionLimits) -> None:
        super().__init__(wrapped)
        self._keys = ClientKeys(limits.trusted_proxies)
        refused = RefusedConnections("console", limits.connections_max, SystemClock())
        self.pool: ConnectionPool[GuardedConnection] = ConnectionPool(refused, GuardedConnection.give_way)
        # Daphne's own timeout is reset by every byte.
        wrapped.timeOut = None
        self.limits = limits
        self.refusals: set[Protocol] = set()

    def buildProtocol(self, address: Any) -> Any:
        client = self._keys.of_connection(getattr(address, "host", UNIX))
        if refusal := self.pool.refusal(client):
            return _Refusal(self, refusal) if len(self.refusals) < REFUSALS_MAX else None
        connection: Any = super().buildProtocol(address)
        connection.wrappedProtocol.requestFactory = BoundedRequest
        # Counted from now on: several may be accepted before the first is made.
        self.pool.add(connection, client)
        return connection


class _Refusal(Protocol, TimeoutMixin):
    """A refused connection: answers 503 and closes."""

    transport: Any

    def __init__(self, factory: GuardedConnections, reason: str) -> None:
        self._guard = factory
        self._reason = reason

    def connectionMade(self) -> None:
        self._guard.refusals.add(self)
        self.setTimeout(LINGER_S)
        sentence = f"The console takes no more connections: {self._reason}. Try again."
        self.transport.write(_response("503 Service Unavailable", sentence))
        self.transport.loseConnection()

    def timeoutConnection(self) -> None:
        self.transport.abortConnection()

    def connectionLost(self, reason: Any = None) -> None:
        self._guard.refusals.discard(self)
        self.setTimeout(None)
