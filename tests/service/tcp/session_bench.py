"""An engine of the tests whose stores answer when the test says so, and sessions of it without sockets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from queue_engine.engine.engine import Engine
from queue_engine.service.admission.pending_bodies import PendingBodies
from queue_engine.service.tcp.engine_turns import EngineTurns
from queue_engine.service.tls.server_context import server_context
from queue_engine.storage.disk.background import Backgrounds
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles
from tests.support.memory_session import MemorySession
from tests.support.nsq_socket import sized
from tests.support.storage_kinds import engine_options
from tests.support.stores.background import HeldBackground
from tests.support.stores.delayed_store import DelayedStore


@dataclass
class Bench:
    """An engine whose topics are stores that wait, and whose topology file waits too."""

    path: Path
    clock: ManualClock = field(default_factory=ManualClock)
    background: HeldBackground = field(default_factory=HeldBackground)
    files: FaultyFiles = field(default_factory=FaultyFiles)
    stores: dict[str, DelayedStore] = field(default_factory=dict)
    max_msg_size: int = 1 << 20
    max_body_size: int = 5 << 20
    options: Mapping[str, Any] = field(default_factory=dict)  # further ones

    def __post_init__(self) -> None:
        self.turns = EngineTurns()
        self.engine = Engine(
            engine_options(
                data_path=str(self.path),
                max_msg_size=self.max_msg_size,
                max_body_size=self.max_body_size,
                **self.options,
            ),
            clock=self.clock,
            files=self.files,
            backgrounds=Backgrounds.of(self.background),
            on_work=self.turns.soon,
            open_store=self._open_store,
        )
        self.engine.open()
        self.turns.drive(self.engine)

    def _open_store(self, name: str) -> DelayedStore:
        self.stores[name] = DelayedStore()
        return self.stores[name]

    def client(self, *, magic: bytes = b"  V2", bodies: PendingBodies | None = None) -> MemorySession:
        tls = server_context(self.engine.options) if self.engine.options.tls_cert else None
        return MemorySession(self.engine, self.clock, self.turns, magic=magic, bodies=bodies, tls=tls)

    def finish(self) -> None:
        """The disk takes everything, and all answers go out."""
        for _ in range(3):
            self.background.finish()
            for store in self.stores.values():
                store.complete(len(store.pending))
            self.turns.run()

    def known_topic(self, topic: str) -> DelayedStore:
        """A topic whose creation is on disk."""
        self.engine.acts.create_topic(topic)
        self.background.finish()
        return self.stores[topic]


def pub(topic: str, body: bytes) -> bytes:
    return f"PUB {topic}\n".encode() + sized(body)


def dpub(topic: str, body: bytes) -> bytes:
    return f"DPUB {topic} 1000\n".encode() + sized(body)


def mpub(topic: str, body: bytes) -> bytes:
    return f"MPUB {topic}\n".encode() + sized((1).to_bytes(4, "big") + sized(body))
