"""The connection to one nsqlookupd: made again, at growing intervals, for as long as its address is configured."""

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import cast

from queue_engine.delivery.stats import LookupdStats
from queue_engine.service.lookup_client.conversation import LookupConversation, LookupdError, LookupdInfo
from queue_engine.service.loop.name_lookups import NameLookups, SocketAddress
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, Clock
from queue_engine.vocabulary.options.addresses import split_address

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 5.0
# nsqd tries again each 15 s. The first tries come sooner: most ends are restarts.
BACKOFF_MS_MIN = 500
BACKOFF_MS_MAX = 15_000
# A connection that lasted for longer was no failed try.
PROVEN_NS = 15 * NS_PER_S
# Bytes that nsqlookupd does not read: then nothing more is sent until its replies are late.
OUTPUT_BYTES_MAX = 64 << 10

_CHANCE = secrets.SystemRandom()


class LookupPeer:
    """One nsqlookupd. Belongs to the engine's thread. address: HOST:PORT, as it was configured."""

    def __init__(
        self,
        address: str,
        clock: Clock,
        converse: Callable[[], LookupConversation],
        names: NameLookups[list[SocketAddress]],
    ) -> None:
        self.address = address
        self._names = names
        self._clock = clock
        self._converse = converse
        self._conversation: LookupConversation | None = None
        self._connection: _Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._backoff_ms = BACKOFF_MS_MIN
        self._retry_ns = clock.monotonic_ns()
        self._since_ns = 0  # monotonic, of the connection
        self._since_at_ns = clock.time_ns()  # wall time: when it was connected, or lost
        self._pinged_at_ns = 0
        self._error = ""
        self._is_closed = False

    @property
    def info(self) -> LookupdInfo | None:
        """Its answer to IDENTIFY; None while it is not connected."""
        return self._conversation.info if self._conversation is not None else None

    def stats(self) -> LookupdStats:
        conversation = self._conversation
        info = self.info
        if conversation is not None:
            self._pinged_at_ns = conversation.pinged_at_ns or self._pinged_at_ns
        return LookupdStats(
            address=self.address,
            is_connected=info is not None,
            since_ns=self._since_at_ns,
            error=self._error or (conversation.refusal if conversation is not None else ""),
            pinged_at_ns=self._pinged_at_ns,
            topic_count=conversation.topic_count if conversation is not None else 0,
            channel_count=conversation.channel_count if conversation is not None else 0,
            is_up_to_date=conversation is not None and conversation.is_up_to_date,
            version=info.version if info is not None else "",
            http_address=http_address_of(info) if info is not None else "",
        )

    def check(self) -> None:
        """Connect, send or give up, whatever is due. Called a few times a second."""
        if self._is_closed:
            return
        now_ns = self._clock.monotonic_ns()
        if self._conversation is None:
            if self._connecting is None and now_ns >= self._retry_ns:
                self._connecting = asyncio.create_task(self._connect())
            return
        late = self._conversation.overdue()
        if late:
            self._give_up(late)
            return
        if now_ns - self._since_ns > PROVEN_NS:
            self._backoff_ms = BACKOFF_MS_MIN
        self.send()

    def changed(self, topic: str) -> None:
        """The topic, or a channel of it, has come or gone. It is sent with the next `send`."""
        if self._conversation is not None:
            self._conversation.changed(topic)

    def close(self) -> None:
        """End the connection: nsqlookupd forgets this server's topics."""
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        connection, self._connection, self._conversation = self._connection, None, None
        if connection is not None:
            connection.close()

    # Called by the connection.

    def received(self, data: bytes) -> None:
        conversation = self._conversation
        if conversation is None:
            return
        was_new = conversation.info is None
        try:
            conversation.receive(data)
        except LookupdError as exc:
            self._give_up(str(exc))
            return
        if was_new and conversation.info is not None:
            self._error = ""
            logger.info("nsqlookupd %s: connected version=%s", self.address, conversation.info.version)
        self.send()

    def lost(self, error: Exception | None) -> None:
        self._give_up("it closed the connection" if error is None else str(error))

    async def _connect(self) -> None:
        try:
            await asyncio.wait_for(self._connect_to_one(), CONNECT_TIMEOUT_S)
        except TimeoutError:
            self._give_up(f"it could not be reached in {CONNECT_TIMEOUT_S:g} s")
        except OSError as exc:
            self._give_up(f"it could not be reached: {getattr(exc, 'strerror', None) or exc}")
        finally:
            self._connecting = None

    async def _connect_to_one(self) -> None:
        """Connect to the first of the host's addresses that takes it. Raises OSError."""
        host, port = split_address(self.address)
        places = await self._names.find(host or "localhost", port, CONNECT_TIMEOUT_S)
        for number, place in enumerate(places, 1):
            try:
                address: tuple[str, int] = place[4][:2]
                await asyncio.get_running_loop().create_connection(lambda: _Connection(self), *address)
                return
            except OSError:
                if number == len(places):
                    raise

    def connected(self, connection: "_Connection") -> None:
        if self._is_closed:
            connection.close()
            return
        self._connection = connection
        self._conversation = self._converse()
        self._since_ns, self._since_at_ns = self._clock.monotonic_ns(), self._clock.time_ns()
        connection.write(self._conversation.begin())

    def send(self) -> None:
        """Send waiting commands, as far as nsqlookupd takes them."""
        if self._conversation is not None and self._connection is not None and not self._connection.is_full:
            self._connection.write(self._conversation.output())

    def _give_up(self, why: str) -> None:
        """Note why, end the connection if there is one, and try again later."""
        if self._is_closed:
            return
        was_connected = self._conversation is not None
        connection, self._connection, self._conversation = self._connection, None, None
        if connection is not None:
            connection.close()
        if was_connected:
            self._since_at_ns = self._clock.time_ns()
        if why != self._error or was_connected:
            logger.warning("nsqlookupd %s: %s; trying again", self.address, why)
        self._error = why
        # Not all nsqds of a network at the same moment, after an nsqlookupd's restart.
        wait_ms = self._backoff_ms * _CHANCE.uniform(0.75, 1.25)
        self._retry_ns = self._clock.monotonic_ns() + round(wait_ms * NS_PER_MS)
        self._backoff_ms = min(2 * self._backoff_ms, BACKOFF_MS_MAX)


class _Connection(asyncio.Protocol):
    """The socket of a `LookupPeer`."""

    def __init__(self, owner: LookupPeer) -> None:
        self.is_full = False
        self._owner: LookupPeer | None = owner
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=OUTPUT_BYTES_MAX)
        if self._owner is not None:
            self._owner.connected(self)

    def data_received(self, data: bytes) -> None:
        if self._owner is not None:
            self._owner.received(data)

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.lost(exc)

    def write(self, data: bytes) -> None:
        if self._transport is not None and data:
            self._transport.write(data)

    def close(self) -> None:
        """The owner hears nothing of it any more."""
        self._owner = None
        if self._transport is not None:
            self._transport.abort()


def http_address_of(info: LookupdInfo) -> str:
    """HOST:PORT of its HTTP API; "" when it names none."""
    if not info.broadcast_address or not info.http_port:
        return ""
    host = info.broadcast_address
    return f"[{host}]:{info.http_port}" if ":" in host else f"{host}:{info.http_port}"
