"""Limits the bytes of bodies that are being read at once, over TCP and HTTP together (`--max-pending-body-bytes`).

A body that does not come in one read asks for room for its whole size before more of it is read. A body with room can
always complete, so there is no deadlock. Connections without room are not read from; their clients notice a slow
network. Clients share the room (`queue_engine/vocabulary/shares.py`): one that fills its share leaves room for others.

    whose turn is it    the client that waits longest since its last turn, with its oldest body. A client whose share is
                        full is passed over; for one that holds nothing, room is gathered until its body fits.
    who has to end      while a body waits, a body with room that comes slower than a MiB in each --command-timeout, of
                        a client that holds as much as the one that waits, or more

Waiting bodies hold the bytes of their first read, up to 256 KB each, and clients share a quarter of the limit for
these. A client without a share of it is crowded: its TCP connections that are neither consumers nor within a body are
not read from, its new ones are refused, and so are its HTTP requests whose body is not there at once. Its other
requests, such as a probe's, and other clients are served.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from queue_engine.delivery.stats import PendingBodiesStats
from queue_engine.vocabulary.client_key import ClientKey
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S
from queue_engine.vocabulary.shares import Shares

logger = logging.getLogger(__name__)

# How long a body's rate is measured: longer than a lost packet takes to be sent again.
RATE_WINDOW_NS = 2 * NS_PER_S
# A wait of a second is worth a word: in the log once a minute, in /readyz while it lasts.
LONG_WAIT_NS = 1 * NS_PER_S
LOG_INTERVAL_NS = 60 * NS_PER_S
# So many bytes in the kernel show that the server is slow, not the client.
_UNREAD_BYTES = 16 << 10
_MIB = 1 << 20


class BodyReader(Protocol):
    """A connection that reads a body. heard_ns: when its last bytes came (monotonic). received_bytes: of the body, that
    have come."""

    heard_ns: int

    @property
    def received_bytes(self) -> int: ...

    def unread_bytes(self) -> int:
        """Bytes that came and are not read, as far as the kernel says."""
        ...

    def body_granted(self) -> None:
        """Read on: there is room for the body."""
        ...

    def body_stalled(self, bytes_per_s: int) -> None:
        """End the connection: its body comes slower than that while others wait."""
        ...


@dataclass(slots=True, eq=False)
class _Body:
    """size: when complete. held_bytes: received before it had room. requested_ns: when it requested the room.
    seen_bytes: received when its rate was last measured; None before that."""

    reader: BodyReader
    client: ClientKey
    size: int
    held_bytes: int
    requested_ns: int
    seen_bytes: int | None = None


class PendingBodies:
    """The bodies that are being read, and those that wait for room. Belongs to the engine's thread.

    bytes_max: of all bodies together; one alone may be larger. stall_ms: a body has to come at a MiB in each such time
    while others wait. ended_count: bodies that came slower.
    """

    def __init__(self, bytes_max: int, stall_ms: int) -> None:
        self.ended_count = 0
        self.on_crowded: list[Callable[[], None]] = []
        """Called when a client has become crowded, or no longer is."""
        self._room = Shares(bytes_max)
        self._first_reads = Shares(bytes_max // 4)  # of bodies that wait
        self._slow_bytes_per_s = _MIB * 1_000 // stall_ms
        self._granted: dict[BodyReader, _Body] = {}
        self._waiting: OrderedDict[ClientKey, OrderedDict[BodyReader, _Body]] = OrderedDict()  # the next turn's first
        self._clients: dict[BodyReader, ClientKey] = {}  # of those that wait
        self._crowded: set[str] = set()  # parts of keys
        self._is_all_crowded = False
        self._is_granting = False
        self._measured_ns: int | None = None  # since when rates are measured
        self._longest_wait_ns = 0  # of bodies that wait, by the last look
        self._next_line_ns = 0

    @property
    def used(self) -> int:
        """Bytes of the bodies with room."""
        return self._room.used

    @property
    def waiting_count(self) -> int:
        return len(self._clients)

    def request(self, reader: BodyReader, client: ClientKey, size: int, held_bytes: int) -> bool:
        """Whether `reader` may read a body of `size` bytes, of which it has `held_bytes`; if not, `body_granted` is
        called later."""
        body = _Body(reader, client, size, held_bytes, reader.heard_ns)
        if not self._waiting and self._fits(body):
            self._grant(body)
            return True
        self._waiting.setdefault(client, OrderedDict())[reader] = body
        self._clients[reader] = client
        if not self._is_granting and self._next() is body:  # those that wait have no share, and it has one
            self._take_out(reader)
            self._grant(body)
            return True
        self._first_reads.take(client, held_bytes)
        self._look_at_crowd(client)
        return False

    def _fits(self, body: _Body) -> bool:
        return not self._granted or self._room.has_share_for(body.client, body.size)

    def _grant(self, body: _Body) -> None:
        self._granted[body.reader] = body
        self._room.take(body.client, body.size)

    def _take_out(self, reader: BodyReader) -> _Body:
        """Remove a waiting body."""
        client = self._clients.pop(reader)
        queue = self._waiting[client]
        body = queue.pop(reader)
        if not queue:
            del self._waiting[client]
        return body

    def _next(self) -> _Body | None:
        """The body whose turn it is. Looks at one body of each client without a share, and at one more."""
        passed_over: set[str] = set()
        for client, queue in self._waiting.items():
            if passed_over.isdisjoint(client.parts):
                body = next(iter(queue.values()))
                if self._fits(body):
                    return body
                full_parts = self._room.full_parts(client, body.size)
                if not full_parts:
                    return None  # room is gathered for it
                passed_over.update(full_parts)
        return None

    def leave(self, reader: BodyReader) -> None:
        """Forget a body that is complete, or whose connection has ended, with or without room."""
        body = self._granted.pop(reader, None)
        if body is not None:
            self._room.give_back(body.client, body.size)
        elif reader in self._clients:
            self._no_longer_waits(self._take_out(reader))
        if self._waiting and not self._is_granting:  # else a granted body completed at once: the outer call goes on
            self._is_granting = True
            try:
                while (turn := self._next()) is not None:
                    self._take_out(turn.reader)
                    if turn.client in self._waiting:
                        self._waiting.move_to_end(turn.client)
                    self._grant(turn)
                    self._no_longer_waits(turn)
                    turn.reader.body_granted()
            finally:
                self._is_granting = False

    def _no_longer_waits(self, body: _Body) -> None:
        self._first_reads.give_back(body.client, body.held_bytes)
        if self._crowded or self._is_all_crowded:
            self._look_at_crowd(body.client)

    # Crowds.

    def is_crowded(self, client: ClientKey) -> bool:
        return self._is_all_crowded or not self._crowded.isdisjoint(client.parts)

    def _look_at_crowd(self, client: ClientKey) -> None:
        """A client is crowded once it holds more than is free, until it holds half of that; all are once nothing is
        free, until half is."""
        shares, was_all, count = self._first_reads, self._is_all_crowded, len(self._crowded)
        free = shares.size - shares.used
        for part in client.parts:
            held = shares.held_of(part)
            if held and held > free:
                self._crowded.add(part)
            elif not held or 2 * held <= free:
                self._crowded.discard(part)
        self._is_all_crowded = free < 0 or (was_all and 2 * free < shares.size)
        if (self._is_all_crowded, len(self._crowded)) != (was_all, count):
            for tell in self.on_crowded:
                tell()

    # Time.

    def check(self, now_ns: int) -> None:
        """End bodies that come too slowly while others wait, and log a long wait. Called a few times a second."""
        self._longest_wait_ns = 0
        if not self._waiting:
            self._measured_ns = None
            return
        oldest_ns = min(next(iter(queue.values())).requested_ns for queue in self._waiting.values())
        self._longest_wait_ns = now_ns - oldest_ns
        if self._measured_ns is None:
            self._measure(now_ns)
        elif now_ns - self._measured_ns >= RATE_WINDOW_NS:
            slow = self._slow_ones((now_ns - self._measured_ns) / NS_PER_S)
            self._measure(now_ns)
            for reader in slow:
                if reader in self._granted:  # ending another may have ended it
                    reader.body_stalled(self._slow_bytes_per_s)
                    self.ended_count += reader not in self._granted
        if self._longest_wait_ns >= LONG_WAIT_NS and now_ns >= self._next_line_ns:
            self._next_line_ns = now_ns + LOG_INTERVAL_NS
            logger.warning("%s", self.notice)

    def _measure(self, now_ns: int) -> None:
        self._measured_ns = now_ns
        for reader, body in self._granted.items():
            body.seen_bytes = reader.received_bytes

    def _slow_ones(self, seconds: float) -> list[BodyReader]:
        least_held = min(map(self._room.held_by, self._waiting))
        wanted = self._slow_bytes_per_s * seconds
        return [
            reader
            for reader, body in self._granted.items()
            if body.seen_bytes is not None
            and reader.received_bytes - body.seen_bytes < wanted
            and self._room.held_by(body.client) >= least_held
            and reader.unread_bytes() < _UNREAD_BYTES
        ]

    @property
    def notice(self) -> str:
        """A sentence while bodies wait for long; "" while none does."""
        if self._longest_wait_ns < LONG_WAIT_NS:
            return ""
        holder, held = self._room.largest()
        wait_s = self._longest_wait_ns / NS_PER_S
        return (
            f"unfinished bodies wait for room: {self.waiting_count}, the longest for {wait_s:.1f} s; "
            f"{self.used / _MIB:.1f} of {self._room.size / _MIB:.1f} MiB (--max-pending-body-bytes) are taken, "
            f"{held / _MIB:.1f} by {holder}"
        )

    def stats(self) -> PendingBodiesStats:
        return PendingBodiesStats(
            bytes=self.used,
            bytes_max=self._room.size,
            waiting_count=self.waiting_count,
            longest_wait_ms=self._longest_wait_ns // NS_PER_MS,
            ended_count=self.ended_count,
        )
