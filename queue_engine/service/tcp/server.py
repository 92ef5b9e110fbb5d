"""The TCP server: all connections of NSQ clients, up to a limit, and their deadlines."""

import asyncio
import ssl
from collections.abc import Callable

from queue_engine.engine.engine import Engine
from queue_engine.service.admission.connection_pool import ConnectionPool
from queue_engine.service.admission.pending_bodies import PendingBodies
from queue_engine.service.admission.refused_connections import Reason, RefusedConnections
from queue_engine.service.identity.gate import Gate
from queue_engine.service.tcp.engine_turns import EngineTurns
from queue_engine.service.tcp.heartbeat_timer import HeartbeatTimer
from queue_engine.service.tcp.session import Session
from queue_engine.service.tcp.stranger_turns import StrangerTurns
from queue_engine.service.tcp.write_room import UNSENT_BYTES_MAX
from queue_engine.vocabulary.client_key import ClientKeys
from queue_engine.vocabulary.clock import Clock

# How often deadlines are checked: a client that is silent, stuck or too slow has so much more time at most.
CHECK_INTERVAL_S = 0.2
# Sessions checked before other work of the loop.
CHECK_SLICE = 100


class TcpServer:
    """All connections of NSQ clients. Implements `SessionOwner`. unsent_bytes_max: of one, in the kernel."""

    unsent_bytes_max = UNSENT_BYTES_MAX

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        turns: EngineTurns,
        connections_max: int,
        bodies: PendingBodies,
        gate: Gate | None = None,
        client_keys: ClientKeys | None = None,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        """gate: decides the permissions of clients; None lets all of them do everything. client_keys: None trusts no
        proxy. tls: for each client that asks for it."""
        self._engine = engine
        self._clock = clock
        self.flush_soon = turns.flush_soon
        self.heartbeats = HeartbeatTimer(clock)
        self.pubs = turns.pubs
        self.bodies = bodies
        self.gate = gate or Gate()
        self.client_keys = client_keys or ClientKeys()
        self.strangers = StrangerTurns()
        self._tls = tls
        bodies.on_crowded.append(self._hold_reading)
        refused = RefusedConnections("tcp", connections_max, clock, engine.stats.refused_connections)
        self._pool: ConnectionPool[Session] = ConnectionPool(refused)
        self._sessions: dict[Session, None] = {}

    @property
    def tls(self) -> ssl.SSLContext | None:
        return None if self._tls is None else self._tls()

    def make_session(self) -> Session:
        """The protocol of a new connection."""
        return Session(self._engine, self._clock, self)

    def opened(self, session: Session) -> str:
        if self.bodies.is_crowded(session.client_key):
            # uvloop starts reading behind connection_made, whatever is paused in it: each new connection would bring
            # the bytes of a first read.
            self._pool.refused.note(Reason.BODIES_CROWDED)
            return "too many unfinished bodies: connect again later"
        refusal = self._pool.enter(session, session.connection_key)
        if not refusal:
            self._sessions[session] = None
        return refusal

    def identified(self, session: Session) -> str:
        return self._pool.identified(session, session.connection_key)

    def closed(self, session: Session) -> None:
        self._sessions.pop(session, None)
        self._pool.leave(session)

    def _hold_reading(self) -> None:
        for session in list(self._sessions):
            session.hold_reading(self.bodies.is_crowded(session.client_key))

    async def check_once(self) -> None:
        """Wait for the interval, then check every session."""
        await asyncio.sleep(CHECK_INTERVAL_S)
        now_ns = self._clock.monotonic_ns()
        self.bodies.check(now_ns)
        for index, session in enumerate(list(self._sessions)):
            try:
                session.check(now_ns)
            except Exception as exc:
                session.fail(exc)
            if index % CHECK_SLICE == CHECK_SLICE - 1:
                await asyncio.sleep(0)

    async def close_sessions(self, timeout_s: float) -> None:
        """End every connection once its answers are out; cut those that take longer than `timeout_s`."""
        loop = asyncio.get_running_loop()
        for session in list(self._sessions):
            session.close()
        ends_at = loop.time() + timeout_s
        while self._sessions and loop.time() < ends_at:
            await asyncio.sleep(0.01)
        for session in list(self._sessions):
            session.abort()
        while self._sessions and loop.time() < ends_at + 1:
            await asyncio.sleep(0.01)
