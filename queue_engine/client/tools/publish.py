"""Publishes its input, a message for each piece between delimiters, to every server that it is given."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from queue_engine.client.connection import DisconnectedError, RefusedError
from queue_engine.client.nodes import Node
from queue_engine.client.producer import Producer
from queue_engine.client.tools.connecting import Connecting
from queue_engine.client.tools.running import Counts, Stopping
from queue_engine.vocabulary.errors import PenstockError

READ_BYTES = 64 << 10
# One MPUB has at most so many messages and bytes: below --max-body-size, and often enough an answer.
BATCH_COUNT_MAX = 500
BATCH_BYTES_MAX = 256 << 10
MESSAGE_BYTES_MAX = 1 << 30


class PublishFailedError(PenstockError):
    """Not all of the input is published: a server did not take a message, or the stop came first. The text has
    the count of published messages, and the server that lacks the next."""


@dataclass(frozen=True, slots=True)
class PublishOptions:
    """nodes: each gets every message. rate: messages a second, 0 for as fast as they are taken. defer_ms: for each."""

    topic: str
    nodes: Sequence[Node]
    delimiter: bytes = b"\n"
    rate: float = 0.0
    defer_ms: int = 0

    def check(self) -> None:
        """Raises ValueError with a sentence."""
        if len(self.delimiter) != 1:
            raise ValueError(f"--delimiter is {self.delimiter.decode('utf-8', 'replace')[:80]!r}: it is a single byte")
        if self.rate < 0:
            raise ValueError(f"--rate is {self.rate:g}: the least is 0")


class Pieces:
    """Splits input that comes in parts at a delimiter. Empty pieces are left out: no server takes an empty message."""

    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = delimiter
        self._begun: list[bytes] = []
        self._begun_bytes = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The pieces that end in `data`. Raises ValueError for one that no server could take."""
        *ended, rest = data.split(self._delimiter)
        pieces = []
        for piece in ended:
            if self._begun:
                piece, self._begun, self._begun_bytes = b"".join((*self._begun, piece)), [], 0
            if piece:
                pieces.append(piece)
        if rest:
            self._begun.append(rest)
            self._begun_bytes += len(rest)
            if self._begun_bytes > MESSAGE_BYTES_MAX:
                raise ValueError(f"a message has more than {MESSAGE_BYTES_MAX} bytes and no delimiter")
        return pieces

    def end(self) -> list[bytes]:
        """The last piece, which needs no delimiter behind it."""
        piece = b"".join(self._begun)
        self._begun = []
        return [piece] if piece else []


async def publish(
    connecting: Connecting,
    options: PublishOptions,
    read: Callable[[int], bytes],
    counts: Counts,
    stopping: Stopping,
) -> None:
    """Publish until `read` returns b"". counts: counts "published", those that every server has taken.

    read: called in a thread; waits for at least one byte, and returns all there are. Raises PublishFailedError, also
    when the stop comes first, DisconnectedError, RefusedError and ValueError.
    """
    producers: list[Producer] = []
    identity = connecting.identity("publish", is_named=True)
    stop = asyncio.Event()
    try:
        for node in options.nodes:
            producers.append(await Producer.open(node.host, node.port, identity))
        publishing = _Publishing(options, producers, counts, stop)
        pieces = Pieces(options.delimiter)
        with stopping.calling(stop.set):
            while True:
                data = await _read_or_stop(read, stop)
                if data is None:
                    raise publishing.stopped()
                for batch in _batches(pieces.feed(data) if data else pieces.end(), options):
                    await publishing.send(batch)
                if not data:
                    return
    finally:
        for producer in producers:
            await producer.close()


async def _read_or_stop(read: Callable[[int], bytes], stop: asyncio.Event) -> bytes | None:
    """The result of `read`; None once the stop is requested."""
    loop = asyncio.get_running_loop()
    reading: asyncio.Future[bytes] = loop.create_future()

    def settle(data: bytes, error: BaseException | None) -> None:
        if reading.done():
            return
        if error is None:
            reading.set_result(data)
        else:
            reading.set_exception(error)

    def read_once() -> None:
        data, error = b"", None
        try:
            data = read(READ_BYTES)
        except Exception as exc:
            error = exc
        try:
            loop.call_soon_threadsafe(settle, data, error)
        except RuntimeError:
            pass  # the tool has ended meanwhile

    # A daemon thread, since nothing ends a read from an idle terminal.
    threading.Thread(target=read_once, name="reads standard input", daemon=True).start()
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((reading, stopped), return_when=asyncio.FIRST_COMPLETED)
        return reading.result() if reading.done() else None
    finally:
        stopped.cancel()
        reading.cancel()


def _batches(pieces: list[bytes], options: PublishOptions) -> list[list[bytes]]:
    batches: list[list[bytes]] = []
    batch_bytes = 0
    count_max = 1 if options.rate or options.defer_ms else BATCH_COUNT_MAX
    for piece in pieces:
        if not batches or len(batches[-1]) >= count_max or batch_bytes + len(piece) > BATCH_BYTES_MAX:
            batches.append([])
            batch_bytes = 0
        batches[-1].append(piece)
        batch_bytes += len(piece)
    return batches


class _Publishing:
    def __init__(
        self, options: PublishOptions, producers: Sequence[Producer], counts: Counts, stop: asyncio.Event
    ) -> None:
        self._options = options
        self._producers = producers
        self._counts = counts
        self._stop = stop
        self._next_at = 0.0

    async def send(self, batch: list[bytes]) -> None:
        """Publish a batch to every server at once. Raises PublishFailedError."""
        await self._wait_for_rate(len(batch))
        if self._stop.is_set():
            raise self.stopped()
        answers = await asyncio.gather(
            *(self._send_to(producer, batch) for producer in self._producers), return_exceptions=True
        )
        for node, answer in zip(self._options.nodes, answers, strict=True):
            if isinstance(answer, DisconnectedError | RefusedError):
                done = self._counts["published"]
                raise PublishFailedError(
                    f"{done:,} messages are published; the next {len(batch):,} may be, or not: {node}: {answer}"
                ) from answer
            if isinstance(answer, BaseException):
                raise answer
        self._counts.add("published", len(batch))

    def stopped(self) -> PublishFailedError:
        done = self._counts["published"]
        return PublishFailedError(f"stopped before the end of the input: {done:,} published, the rest not")

    async def _send_to(self, producer: Producer, batch: list[bytes]) -> None:
        topic, options = self._options.topic, self._options
        if options.defer_ms:
            await producer.publish_deferred(topic, batch[0], defer_ms=options.defer_ms)
        elif len(batch) == 1:
            await producer.publish(topic, batch[0])
        else:
            await producer.publish_many(topic, batch)

    async def _wait_for_rate(self, count: int) -> None:
        if not self._options.rate:
            return
        loop = asyncio.get_running_loop()
        wait_s = self._next_at - loop.time()
        if wait_s > 0:
            try:
                async with asyncio.timeout(wait_s):
                    await self._stop.wait()
            except TimeoutError:
                pass
        self._next_at = max(self._next_at, loop.time()) + count / self._options.rate
