"""A producer: each call returns once the server has stored the messages."""

import struct
from collections.abc import Sequence
from types import TracebackType

from queue_engine.client.connection import ClientIdentity, Connection, checked_name, sized

_pack_count = struct.Struct(">i").pack


class Producer:
    """Publishes over one connection; calls may overlap. `async with await Producer.open(host, port) as producer`.

    Every method raises ValueError for an impossible name, RefusedError when the server refuses (it then closes the
    connection), and DisconnectedError when the connection is gone: whether the messages are stored is then unknown.
    """

    def __init__(self, connection: Connection) -> None:
        """connection: a fresh one; the producer closes it."""
        self.connection = connection

    @classmethod
    async def open(cls, host: str, port: int, identity: ClientIdentity | None = None) -> "Producer":
        """Connect. Raises DisconnectedError or RefusedError."""
        return cls(await Connection.open(host, port, identity))

    async def publish(self, topic: str, body: bytes) -> None:
        """Publish one message; the server creates a topic that does not exist."""
        await self.connection.request(b"PUB " + checked_name(topic) + b"\n" + sized(body))

    async def publish_many(self, topic: str, bodies: Sequence[bytes]) -> None:
        """Publish several messages in one command: all of them or none. Raises ValueError for an empty sequence."""
        if not bodies:
            raise ValueError("there is nothing to publish: the server refuses an empty MPUB")
        content = _pack_count(len(bodies)) + b"".join(map(sized, bodies))
        await self.connection.request(b"MPUB " + checked_name(topic) + b"\n" + sized(content))

    async def publish_deferred(self, topic: str, body: bytes, *, defer_ms: int) -> None:
        """Publish one message that channels hold back for `defer_ms`."""
        await self.connection.request(b"DPUB " + checked_name(topic) + b" %d\n" % defer_ms + sized(body))

    async def close(self) -> None:
        """End the connection. Repeatable."""
        await self.connection.close()

    async def __aenter__(self) -> "Producer":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
