"""Consuming: messages of one channel, each to be finished, requeued, or touched to gain time."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from queue_engine.client.connection import Connection, DisconnectedError, Identity, RefusedError, checked_name
from queue_engine.vocabulary.message import ID_BYTES, unpack_attempts, unpack_timestamp

# Within a message frame's data: the prefix of size and type is gone.
_ATTEMPTS_AT = 8
_ID_AT = 10
_BODY_AT = _ID_AT + ID_BYTES


@dataclass(frozen=True, slots=True)
class Message:
    """One delivery. timestamp_ns: publish time, Unix nanoseconds. attempts: deliveries so far, this one included."""

    id: bytes
    timestamp_ns: int
    attempts: int
    body: bytes


class Consumer:
    """Receives from one channel over one connection. `async with await Consumer.open(…) as consumer`.

    A received message is the caller's until the server's timeout: `finish` it, or `requeue` it, or `touch` it. What is
    not settled when the connection ends comes again, to whoever consumes the channel then. At most the ready count is
    out at once, so that much is what waits here.

    on_refused: gets refusals of finish, requeue and touch, whose message timed out meanwhile; else they are logged.
    """

    def __init__(self, connection: Connection) -> None:
        """connection: a fresh one, which is the consumer's from now on."""
        self.connection = connection
        self._arrived: asyncio.Queue[Message | None] = asyncio.Queue()  # None: the connection is gone
        connection.on_message = self._take
        connection.on_end = lambda: self._arrived.put_nowait(None)

    @classmethod
    async def open(
        cls, host: str, port: int, topic: str, channel: str, identity: Identity | None = None, *, ready_count: int = 1
    ) -> "Consumer":
        """Connect and subscribe; topic and channel are made where they do not exist.

        ready_count: messages that may be out at once; 0 receives nothing until `set_ready`. Raises ValueError for an
        impossible name, DisconnectedError, and RefusedError.
        """
        subscription = b"SUB " + checked_name(topic) + b" " + checked_name(channel) + b"\n"
        consumer = cls(await Connection.open(host, port, identity))
        try:
            await consumer.connection.request(subscription)
            if ready_count:
                consumer.set_ready(ready_count)
        except BaseException:
            await consumer.connection.close()
            raise
        return consumer

    @property
    def on_refused(self) -> Callable[[RefusedError], None] | None:
        return self.connection.on_refused

    @on_refused.setter
    def on_refused(self, callback: Callable[[RefusedError], None] | None) -> None:
        self.connection.on_refused = callback

    def _take(self, data: bytes) -> None:
        self._arrived.put_nowait(
            Message(
                id=data[_ID_AT:_BODY_AT],
                timestamp_ns=unpack_timestamp(data)[0],
                attempts=unpack_attempts(data, _ATTEMPTS_AT)[0],
                body=data[_BODY_AT:],
            )
        )

    async def receive(self) -> Message:
        """The next message, in order of arrival. Raises DisconnectedError once the connection is gone.

        What arrived before the end is still returned; settling it then raises too.
        """
        message = await self._arrived.get()
        if message is None:
            self._arrived.put_nowait(None)  # it stays gone for whoever asks next
            raise self.connection.end_error()
        return message

    def set_ready(self, count: int) -> None:
        """How many messages may be out at once; no more than the server allows. 0 rests. Raises DisconnectedError."""
        limit = self.connection.agreed.get("max_rdy_count", count)
        self.connection.send(b"RDY %d\n" % min(count, limit))

    def finish(self, message: Message) -> None:
        """It is done and does not come again. Raises DisconnectedError; a refusal comes later, to `on_refused`."""
        self.connection.send(b"FIN " + message.id + b"\n")

    def requeue(self, message: Message, *, delay_ms: int = 0) -> None:
        """It is to come again, after `delay_ms`. Errors as in `finish`."""
        self.connection.send(b"REQ " + message.id + b" %d\n" % delay_ms)

    def touch(self, message: Message) -> None:
        """Its timeout begins anew. Errors as in `finish`."""
        self.connection.send(b"TOUCH " + message.id + b"\n")

    async def close(self) -> None:
        """Tell the server that no more is wanted, let what was settled go out, and end the connection. Repeatable."""
        if not self.connection.is_closed:
            try:
                async with asyncio.timeout(1):
                    # The answer comes behind every FIN that was sent before: they are settled then.
                    await self.connection.request(b"CLS\n")
            except (TimeoutError, DisconnectedError, RefusedError):
                pass  # gone already, which is what was wanted
        await self.connection.close()

    async def __aenter__(self) -> "Consumer":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
