"""Writes the messages of topics to files, and finishes them once they are on the disk."""

import asyncio
import contextlib
import errno
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from queue_engine.client.consumer import Consumer
from queue_engine.client.http_json import UnreachableError
from queue_engine.client.nodes import LookedUpNodes, NodeSource
from queue_engine.client.subscription import Delivery, Subscription, finish_all
from queue_engine.client.tools.connecting import Connecting
from queue_engine.client.tools.left_files import finish_left_files
from queue_engine.client.tools.running import Counts, Stopping, together
from queue_engine.client.tools.topic_file import FileLayout, TopicFile

# A sync begins when a server could send nothing more before it, which is when so much of max_in_flight is out.
_FULL = 0.85
# The file of a topic to which nothing comes is over, too, when its time is.
LOOK_S_MIN = 1.0


@dataclass(frozen=True, slots=True)
class ToFileOptions:
    """topic_pattern: also write topics of the nsqlookupds that match as a whole; "" for none.

    sync_interval_s: the longest that a message waits for its sync.
    """

    topics: Sequence[str]
    channel: str
    layout: FileLayout
    topic_pattern: str = ""
    topic_refresh_s: float = 60.0
    max_in_flight: int = 200
    sync_interval_s: float = 30.0


class ToFile:
    """One run of the tool."""

    def __init__(self, connecting: Connecting, options: ToFileOptions, print_line: Callable[[str], None]) -> None:
        self._connecting = connecting
        self._options = options
        self._print_line = print_line
        self.counts = Counts("received", "finished")
        self._writing: dict[str, asyncio.Task[None]] = {}

    async def run(self, stopping: Stopping) -> None:
        """Write until the stop. Raises OSError when a file can't be written: unfinished messages come again."""
        for path in await asyncio.to_thread(finish_left_files, self._options.layout, self._is_written):
            self._print_line(f"{path} is finished, which a run left that was killed")
        async with self._connecting.source() as source:
            works = [self._write_topic(topic, source, stopping) for topic in self._options.topics]
            if self._options.topic_pattern:
                assert isinstance(source, LookedUpNodes)
                works.append(self._follow_pattern(source, stopping))
            await together(works)

    def _is_written(self, topic: str) -> bool:
        """Whether this run writes the topic, or would."""
        pattern = self._options.topic_pattern
        return topic in self._options.topics or bool(pattern and re.fullmatch(pattern, topic))

    async def _follow_pattern(self, source: LookedUpNodes, stopping: Stopping) -> None:
        matches = re.compile(self._options.topic_pattern).fullmatch
        stop = asyncio.Event()
        with stopping.calling(stop.set):
            async with asyncio.TaskGroup() as group:
                started = set(self._options.topics)
                while not stop.is_set():
                    try:
                        found = [name for name in await source.topics() if matches(name) and name not in started]
                    except UnreachableError as exc:
                        self._print_line(str(exc))
                        found = []
                    for topic in found:
                        started.add(topic)
                        self._print_line(f"topic {topic} matches {self._options.topic_pattern}")
                        group.create_task(self._write_topic(topic, source, stopping))
                    try:
                        async with asyncio.timeout(self._options.topic_refresh_s):
                            await stop.wait()
                    except TimeoutError:
                        pass

    async def _write_topic(self, topic: str, source: NodeSource, stopping: Stopping) -> None:
        options = self._options
        subscription = Subscription(
            topic,
            options.channel,
            source,
            self._connecting.identity("to_file"),
            options.max_in_flight,
            poll_s=self._connecting.poll_s,
        )
        unsynced = _Unsynced(TopicFile(topic, options.layout, lambda: datetime.now(UTC)), self.counts)
        async with subscription:
            with stopping.calling(subscription.stop), _naming(unsynced.file, options.layout):
                receiving = asyncio.ensure_future(subscription.receive_all())
                try:
                    while True:
                        wait_s = unsynced.due_in_s(options.sync_interval_s)
                        done, _ = await asyncio.wait((receiving,), timeout=wait_s)
                        if not done:
                            await unsynced.finish()
                            await asyncio.to_thread(unsynced.file.close_if_over)
                            continue
                        deliveries = receiving.result()
                        if not deliveries:
                            break
                        receiving = asyncio.ensure_future(subscription.receive_all())
                        if unsynced.take(deliveries):
                            await unsynced.finish()
                finally:
                    receiving.cancel()
                await unsynced.finish()
                await asyncio.to_thread(unsynced.file.close)


@contextlib.contextmanager
def _naming(file: TopicFile, layout: FileLayout) -> Iterator[None]:
    """Have an error of the disk name the file, and the effect on the messages. Leaves no file open."""
    try:
        yield
    except OSError as exc:
        path = exc.filename or file.path or layout.output_dir
        raise OSError(
            exc.errno or errno.EIO,
            f"{exc.strerror or exc}. Messages that were not synced are not finished: they come again at the next start",
            path,
        ) from exc
    finally:
        file.abandon()


class _Unsynced:
    """The messages that are written and not yet synced."""

    def __init__(self, file: TopicFile, counts: Counts) -> None:
        self.file = file
        self._counts = counts
        self._deliveries: list[Delivery] = []
        self._by_consumer: Counter[Consumer] = Counter()
        self._oldest_at = 0.0
        self._sync_before = math.inf

    def due_in_s(self, interval_s: float) -> float | None:
        """When the next sync is due, or the next look at whether the file is over; None while there is no file. At the
        latest a sync is due after half of the time that the server still waits: else each message would come, and be
        written, again."""
        if not self._deliveries:
            return max(interval_s, LOOK_S_MIN) if self.file.path else None
        due_at = min(self._oldest_at + interval_s, self._sync_before)
        return max(0.0, due_at - asyncio.get_running_loop().time())

    def take(self, deliveries: list[Delivery]) -> bool:
        """Write messages; returns whether it is time to sync."""
        now = asyncio.get_running_loop().time()
        if not self._deliveries:
            self._oldest_at, self._sync_before = now, math.inf
        is_time = False
        for delivery in deliveries:
            self.file.write(delivery.message.body)
            consumer = delivery.consumer
            self._sync_before = min(self._sync_before, (now + delivery.expires_at) / 2)
            self._by_consumer[consumer] += 1
            is_time |= self._by_consumer[consumer] >= max(1.0, consumer.ready_count * _FULL)
        self._deliveries += deliveries
        self._counts.add("received", len(deliveries))
        return is_time

    async def finish(self) -> None:
        """Sync, then finish the messages written before."""
        if not self._deliveries:
            return
        await asyncio.to_thread(self.file.sync)
        self._counts.add("finished", finish_all(self._deliveries))
        self._deliveries.clear()
        self._by_consumer.clear()
