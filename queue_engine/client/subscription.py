"""Receives one channel from all servers that have its topic: finds them, connects again, shares the
messages in flight."""

import asyncio
import contextlib
import logging
import math
import random
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from queue_engine.client.connection import ClientIdentity, DisconnectedError, RefusedError
from queue_engine.client.consumer import Consumer, Message
from queue_engine.client.nodes import Node, NodeSource

logger = logging.getLogger(__name__)

POLL_S = 30.0  # how often the source is read
RECONNECT_S = (0.5, 30.0)  # at first, at most
# With fewer messages in flight than servers, each server has its turn for so long.
TURN_S = 5.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message, with the connection that it came by and has to be finished on."""

    topic: str
    node: Node
    message: Message
    consumer: Consumer
    expires_at: float = math.inf  # time of the loop: until then the server waits for FIN, REQ or TOUCH

    @property
    def is_expired(self) -> bool:
        """Whether the server has given it up: it comes again, whatever is sent."""
        return asyncio.get_running_loop().time() >= self.expires_at

    def finish(self) -> None:
        """Send FIN. After the connection has ended the message comes again, and this does nothing."""
        with contextlib.suppress(DisconnectedError):
            self.consumer.finish(self.message)

    def requeue(self, delay_ms: int) -> None:
        """Send REQ. After the connection has ended the message comes again, and this does nothing."""
        with contextlib.suppress(DisconnectedError):
            self.consumer.requeue(self.message, delay_ms=delay_ms)

    def touch(self) -> None:
        """Send TOUCH, likewise."""
        with contextlib.suppress(DisconnectedError):
            self.consumer.touch(self.message)


def finish_all(deliveries: Iterable[Delivery]) -> int:
    """Send FIN for many, those of a connection together; for how many: messages of a lost connection come again."""
    by_consumer: dict[Consumer, list[Message]] = {}
    for delivery in deliveries:
        by_consumer.setdefault(delivery.consumer, []).append(delivery.message)
    finished = 0
    for consumer, messages in by_consumer.items():
        with contextlib.suppress(DisconnectedError):
            consumer.finish_many(messages)
            finished += len(messages)
    return finished


class Subscription:
    """Consumes a channel until `close`. `async with Subscription(…) as subscription`, then `receive`.

    The servers share `max_in_flight`; when another joins, those that have more out keep it until it is finished. A
    server that is gone is tried again after a while, longer each time. A server that refuses (AUTH, a bad name) is an
    error of `receive` when it was the only one; beside others it is logged and tried again, too.
    """

    def __init__(
        self,
        topic: str,
        channel: str,
        source: NodeSource,
        identity: ClientIdentity,
        max_in_flight: int,
        *,
        poll_s: float = POLL_S,
    ) -> None:
        self.topic = topic
        self.channel = channel
        self._source = source
        self._identity = identity
        self._max_in_flight = max_in_flight
        self._max_in_flight_given = max_in_flight
        self._poll_s = poll_s
        self._arrived: asyncio.Queue[Delivery | RefusedError | None] = asyncio.Queue()
        self._readers: dict[Node, asyncio.Task[None]] = {}
        self._connected: dict[Node, Consumer] = {}
        self._turn = 0
        self._finding: asyncio.Task[None] | None = None
        self._is_stopping = False

    async def __aenter__(self) -> "Subscription":
        self._finding = asyncio.create_task(self._find_forever(), name=f"servers of {self.topic}")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def node_count(self) -> int:
        """Servers that it is connected to."""
        return len(self._connected)

    async def receive(self) -> Delivery | None:
        """The next message of any server; None after `stop`. Raises RefusedError when the only server refuses.

        A message that waited here until its time-out is left out: the server delivers it again.
        """
        item = await self._arrived.get()
        while isinstance(item, Delivery) and item.is_expired:
            item = await self._arrived.get()
        if item is None:
            self._arrived.put_nowait(None)  # for the next call
        elif isinstance(item, RefusedError):
            raise item
        return item

    async def receive_all(self) -> list[Delivery]:
        """Like `receive`, and all others that have arrived; [] after `stop`."""
        first = await self.receive()
        if first is None:
            return []
        deliveries = [first]
        while not self._arrived.empty():
            item = self._arrived.get_nowait()
            if not isinstance(item, Delivery):
                self._arrived.put_nowait(item)  # for the next call
                break
            if not item.is_expired:
                deliveries.append(item)
        return deliveries

    async def __aiter__(self) -> AsyncIterator[Delivery]:
        while (delivery := await self.receive()) is not None:
            yield delivery

    def stop(self) -> None:
        """Let nothing more arrive: `receive` returns the messages that have arrived, then None. Repeatable."""
        if self._is_stopping:
            return
        self._is_stopping = True
        for consumer in list(self._connected.values()):
            with contextlib.suppress(DisconnectedError):
                consumer.set_ready(0)
        self._arrived.put_nowait(None)

    def hold(self, count: int | None) -> None:
        """Let at most `count` be in flight from now on, 0 for nothing new; None for as many as it was made with.

        Messages in flight stay so.
        """
        limit = self._max_in_flight_given if count is None else min(count, self._max_in_flight_given)
        if limit != self._max_in_flight:
            self._max_in_flight = limit
            self._share_out()

    async def close(self) -> None:
        """End all connections once the servers have every FIN; unfinished messages are delivered again. Repeatable."""
        self.stop()
        tasks = [task for task in (self._finding, *self._readers.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._readers.clear()

    async def _find_forever(self) -> None:
        while True:
            nodes = await self._source.nodes(self.topic)
            for node in nodes - self._readers.keys():
                self._readers[node] = asyncio.create_task(self._read_forever(node), name=f"{self.topic} of {node}")
            for node in self._readers.keys() - nodes:
                # A server that is still there goes on: an nsqlookupd that forgot it has restarted, perhaps.
                if node not in self._connected:
                    self._readers.pop(node).cancel()
            if self._source.changes:
                # Not all programs at the same moment, after an nsqlookupd has come back.
                turn_s = self._poll_s * random.uniform(0.8, 1.2)  # noqa: S311 - spreads polls, keeps no secret
            else:
                turn_s = TURN_S
            await self._wait_turns(turn_s)

    async def _wait_turns(self, wait_s: float) -> None:
        """Wait; where servers take turns, give the next ones theirs."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + wait_s
        while (left_s := ends_at - loop.time()) > 0:
            await asyncio.sleep(min(TURN_S, left_s))
            if len(self._connected) > self._max_in_flight:
                self._turn += 1
                self._share_out()

    async def _read_forever(self, node: Node) -> None:
        wait_s = RECONNECT_S[0]
        while True:
            try:
                consumer = await Consumer.open(
                    node.host, node.port, self.topic, self.channel, self._identity, ready_count=0
                )
            except DisconnectedError as exc:
                logger.warning("no connection server=%s error=%s retry_s=%.1f", node, exc, wait_s)
            except RefusedError as exc:
                logger.warning("refused server=%s error=%s retry_s=%.1f", node, exc, wait_s)
                if len(self._readers) == 1 and not self._source.changes:
                    self._arrived.put_nowait(exc)
            else:
                wait_s = RECONNECT_S[0]
                await self._read(node, consumer)
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, RECONNECT_S[1])

    async def _read(self, node: Node, consumer: Consumer) -> None:
        """Take the messages of one connection until it is gone."""
        logger.info("connected server=%s topic=%s channel=%s", node, self.topic, self.channel)
        self._connected[node] = consumer
        self._share_out()
        loop, timeout_s = asyncio.get_running_loop(), consumer.msg_timeout_s
        try:
            while True:
                message = await consumer.receive()
                if not self._is_stopping:  # else it comes again, by another consumer
                    self._arrived.put_nowait(Delivery(self.topic, node, message, consumer, loop.time() + timeout_s))
        except DisconnectedError as exc:
            logger.warning("connection lost %s", exc)
        finally:
            del self._connected[node]
            await consumer.close()
            self._share_out()

    def _share_out(self) -> None:
        """Send each server its RDY."""
        if self._is_stopping or not self._connected:
            return
        consumers = list(self._connected.values())
        share, rest = divmod(self._max_in_flight, len(consumers))
        for place, consumer in enumerate(consumers):
            has_more = (place - self._turn) % len(consumers) < rest
            with contextlib.suppress(DisconnectedError):
                consumer.set_ready(share + has_more)
