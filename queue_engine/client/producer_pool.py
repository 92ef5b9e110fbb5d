"""Publishes to several servers, each message to one of them: the next that works."""

import asyncio
import logging
from collections.abc import Sequence

from queue_engine.client.connection import ClientIdentity, DisconnectedError, RefusedError
from queue_engine.client.nodes import Node
from queue_engine.client.producer import Producer
from queue_engine.vocabulary.errors import PenstockError

logger = logging.getLogger(__name__)

REST_S = (1.0, 30.0)  # how long a server rests that failed: at first, at most


class NoServerError(PenstockError):
    """No server takes the message now; the text has the reason of each. is_lost: one was lost while it had it."""

    def __init__(self, text: str, *, is_lost: bool = False) -> None:
        super().__init__(text)
        self.is_lost = is_lost


class _Server:
    def __init__(self, node: Node) -> None:
        self.node = node
        self.producer: Producer | None = None
        self.opening = asyncio.Lock()
        self.rests_until = 0.0  # time of the loop
        self.rest_s = REST_S[0]
        self.reason = ""


class ProducerPool:
    """Publishes in turn to the servers that work. Belongs to one event loop; end it with `close`."""

    def __init__(self, nodes: Sequence[Node], identity: ClientIdentity) -> None:
        self._identity = identity
        self._servers = [_Server(node) for node in nodes]
        self._next = 0

    async def publish(self, topic: str, body: bytes) -> Node:
        """Publish to the next server that works; returns which. After an error a server rests for a while.

        Raises NoServerError when all failed or rest, RefusedError when a server refuses this message. A server that was
        lost before its OK may have the message all the same: then another one has it, too.
        """
        loop = asyncio.get_running_loop()
        first, self._next = self._next, self._next + 1
        is_lost = False
        for step in range(len(self._servers)):
            server = self._servers[(first + step) % len(self._servers)]
            if loop.time() < server.rests_until:
                continue
            producer = None
            try:
                producer = await self._producer(server)
                await producer.publish(topic, body)
            except DisconnectedError as exc:
                is_lost |= producer is not None
                self._rest(server, str(exc))
                continue
            except RefusedError as exc:
                # The server closes the connection behind it. A bad message is bad for all servers.
                await self._drop(server)
                if exc.code in ("E_BAD_MESSAGE", "E_BAD_TOPIC", "E_INVALID"):
                    raise
                self._rest(server, str(exc))
                continue
            server.rest_s = REST_S[0]
            return server.node
        raise NoServerError("; ".join(f"{server.node}: {server.reason}" for server in self._servers), is_lost=is_lost)

    async def _producer(self, server: _Server) -> Producer:
        async with server.opening:
            if server.producer is None or server.producer.connection.is_closed:
                await self._drop(server)
                server.producer = await Producer.open(server.node.host, server.node.port, self._identity)
            return server.producer

    def _rest(self, server: _Server, reason: str) -> None:
        now = asyncio.get_running_loop().time()
        server.reason = reason
        if now < server.rests_until:
            return  # calls that were under way fail together
        logger.warning("server fails server=%s reason=%r rest_s=%g", server.node, reason, server.rest_s)
        server.rests_until = now + server.rest_s
        server.rest_s = min(server.rest_s * 2, REST_S[1])

    async def _drop(self, server: _Server) -> None:
        producer, server.producer = server.producer, None
        if producer is not None:
            await producer.close()

    async def close(self) -> None:
        """End all connections. Repeatable."""
        for server in self._servers:
            await self._drop(server)
