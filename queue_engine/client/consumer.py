"""A consumer of one channel: it receives messages and finishes, requeues or touches them."""

import asyncio
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType

from queue_engine.client.connection import ClientIdentity, Connection, DisconnectedError, RefusedError, checked_name
from queue_engine.vocabulary.message import ID_BYTES, unpack_attempts, unpack_timestamp

# Offsets in a message frame's data, which begins behind size and type.
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

    The caller holds a received message until the server's timeout: `finish`, `requeue` or `touch` it. When the
    connection ends, the server delivers messages in flight again, to any consumer of the channel. At most the ready
    count is in flight, so at most as many messages wait here.

    on_refused: gets refusals of finish, requeue and touch for messages that timed out; without it they are logged.
    """

    def __init__(self, connection: Connection) -> None:
        """connection: a fresh one; the consumer closes it."""
        self.connection = connection
        self.ready_count = 0  # as last sent
        self._arrived: asyncio.Queue[Message | None] = asyncio.Queue()  # None: the connection is gone
        connection.on_message = self._take
        connection.on_end = lambda: self._arrived.put_nowait(None)

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        topic: str,
        channel: str,
        identity: ClientIdentity | None = None,
        *,
        ready_count: int = 1,
    ) -> "Consumer":
        """Connect and subscribe; the server creates a topic or channel that does not exist.

        ready_count: messages that may be in flight at once; 0 receives nothing until `set_ready`. Raises ValueError
        for an impossible name, DisconnectedError, and RefusedError.
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

    @property
    def msg_timeout_s(self) -> float:
        """How long the server waits for FIN, REQ or TOUCH, as it has agreed; infinite without an agreement."""
        timeout_ms = self.connection.agreed.get("msg_timeout")
        return timeout_ms / 1000 if isinstance(timeout_ms, int) and timeout_ms > 0 else math.inf

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

        Messages that arrived before the end are still returned; to finish, requeue or touch one then raises too.
        """
        message = await self._arrived.get()
        if message is None:
            self._arrived.put_nowait(None)  # for the next call
            raise self.connection.end_error()
        return message

    def set_ready(self, count: int) -> None:
        """Allow `count` messages in flight, but no more than the server does; 0 pauses. Raises DisconnectedError."""
        limit = self.connection.agreed.get("max_rdy_count")
        self.ready_count = min(count, limit) if isinstance(limit, int) and limit > 0 else count
        self.connection.send(b"RDY %d\n" % self.ready_count)

    def finish(self, message: Message) -> None:
        """Send FIN: the message does not come again. Raises DisconnectedError; `on_refused` gets a later refusal."""
        self.connection.send(b"FIN " + message.id + b"\n")

    def finish_many(self, messages: Iterable[Message]) -> None:
        """Send FIN for each, in one write. Errors as in `finish`."""
        self.connection.send(b"".join([b"FIN " + message.id + b"\n" for message in messages]))

    def requeue(self, message: Message, *, delay_ms: int = 0) -> None:
        """Send REQ: the message is delivered again after `delay_ms`. Errors as in `finish`."""
        self.connection.send(b"REQ " + message.id + b" %d\n" % delay_ms)

    def touch(self, message: Message) -> None:
        """Send TOUCH: the message's timeout begins anew. Errors as in `finish`."""
        self.connection.send(b"TOUCH " + message.id + b"\n")

    async def close(self) -> None:
        """Send CLS, wait until the server has taken every FIN and REQ before it, and end the connection. Repeatable."""
        if not self.connection.is_closed:
            try:
                async with asyncio.timeout(1):
                    # The server answers CLS after it has handled the commands before it.
                    await self.connection.request(b"CLS\n")
            except (TimeoutError, DisconnectedError, RefusedError):
                pass  # the connection is gone already
        await self.connection.close()

    async def __aenter__(self) -> "Consumer":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
