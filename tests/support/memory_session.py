"""A real session on a transport in memory: what comes out, when, and whether it reads, without a socket."""

import asyncio
import ssl
from typing import Any

from queue_engine.engine.engine import Engine
from queue_engine.service.admission.pending_bodies import PendingBodies
from queue_engine.service.identity.gate import Gate
from queue_engine.service.tcp.engine_turns import EngineTurns
from queue_engine.service.tcp.heartbeat_timer import HeartbeatTimer
from queue_engine.service.tcp.session import Session, SessionOwner
from queue_engine.service.tcp.stranger_turns import StrangerTurns
from queue_engine.vocabulary.client_key import ClientKeys
from tests.support.clock import ManualClock
from tests.support.nsq_socket import FRAME_ERROR, FRAME_MESSAGE


class MemoryTransport(asyncio.Transport):
    """Keeps what is written. `is_full` makes it a peer that does not read."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_reading = True
        self.is_closed = False
        self.is_aborted = False
        self.is_full = False
        self._high_bytes = 64 << 10
        self._kept_bytes = 0
        self._is_paused = False
        self.session: asyncio.Protocol
        self.socket: Any = None  # where a test says what has come and is not read

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "socket":
            return self.socket
        return ("192.0.2.1", 4321) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_bytes = 64 << 10 if high is None else high

    def get_write_buffer_size(self) -> int:
        return self._kept_bytes

    def write(self, data: Any) -> None:
        assert not self.is_closed, "nothing may be written to a closed transport"
        self.written += bytes(data)
        if self.is_full:
            self._kept_bytes += len(data)
            if self._kept_bytes > self._high_bytes and not self._is_paused:
                self._is_paused = True
                self.session.pause_writing()

    def drain(self) -> None:
        """The peer reads everything."""
        self.is_full = False
        self._kept_bytes = 0
        if self._is_paused:
            self._is_paused = False
            self.session.resume_writing()

    def pause_reading(self) -> None:
        assert self.is_reading
        assert not self.is_closed
        self.is_reading = False

    def resume_reading(self) -> None:
        assert not self.is_reading
        assert not self.is_closed, "uvloop raises here"
        self.is_reading = True

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self.session = protocol

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True


class MemorySession:
    """One client of an engine. Every `send` is one read of the session's; the test runs the turns."""

    def __init__(
        self,
        engine: Engine,
        clock: ManualClock,
        turns: EngineTurns,
        *,
        magic: bytes = b"  V2",
        bodies: PendingBodies | None = None,
        owner: SessionOwner | None = None,
        gate: Gate | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.engine = engine
        self.clock = clock
        self.turns = turns
        self.heartbeats = HeartbeatTimer(clock)
        self.pubs = turns.pubs
        self.gate = gate or Gate()
        self.client_keys = ClientKeys()
        self.strangers = StrangerTurns()
        self.tls = tls
        self.bodies = bodies or PendingBodies(engine.options.max_pending_body_bytes, engine.options.command_timeout_ms)
        self.transport = MemoryTransport()
        self.session = Session(engine, clock, owner or self)
        self.transport.session = self.session
        self.session.connection_made(self.transport)
        if magic:
            self.send(magic)

    # What a session asks of its owner.

    def opened(self, session: Session) -> str:
        return ""

    def identified(self, session: Session) -> str:
        return ""

    def closed(self, session: Session) -> None:
        pass

    def flush_soon(self, session: Session) -> None:
        self.turns.flush_soon(session)

    # What a test does.

    def send(self, data: bytes) -> None:
        self.transport.session.data_received(data)

    def turn(self) -> None:
        """Whatever is to be done is done and written."""
        self.turns.run()
        while self.engine.has_work:
            self.turns.run()

    def check_after(self, ms: int) -> None:
        """Time goes by, and the session is looked after."""
        self.clock.advance(ms=ms)
        self.heartbeats.run()
        self.session.check(self.clock.monotonic_ns())

    @property
    def frames(self) -> list[str]:
        """The frames sent so far: answers and errors as their text, messages as "message BODY"."""
        data = self.transport.written
        found = []
        at = 0
        while at < len(data):
            size = int.from_bytes(data[at : at + 4], "big")
            kind = int.from_bytes(data[at + 4 : at + 8], "big")
            payload = data[at + 8 : at + 4 + size]
            found.append(f"message {payload[26:].decode()}" if kind == FRAME_MESSAGE else payload.decode())
            assert kind != FRAME_ERROR or payload.startswith(b"E_")
            at += 4 + size
        assert at == len(data), "the last frame is torn"
        return found

    def leave(self) -> None:
        """The connection is gone."""
        self.transport.close()
        self.transport.session.connection_lost(None)
