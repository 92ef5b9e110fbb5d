"""A log store on a test's disk, started, killed and started again, and what its channels hand out."""

import struct
from collections.abc import Iterator
from pathlib import Path

from queue_engine.storage.commit_log.options import SyncPolicy
from queue_engine.storage.commit_log.record import Record, decode_record
from queue_engine.storage.disk.background import Backgrounds, InlineBackground
from queue_engine.storage.log_store.log_backlog import LogBacklog
from queue_engine.storage.log_store.log_settings import LogSettings
from queue_engine.storage.log_store.log_store import LogOpening, LogStore
from queue_engine.storage.log_store.log_topic import TopicOpening
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.storage.log_store.logged_batch import BatchCache
from queue_engine.vocabulary.run import Run
from queue_engine.vocabulary.ticket import Ticket
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles
from tests.support.stores.background import HeldBackground

# Units of a consume queue that lead nowhere.
WRONG_UNITS = (bytes(20), b"\xff" * 20, b"\0" * 7 + b"\x40" + b"\0" * 3 + b"\xcd" + bytes(8))


class Bench:
    """A log store on a test's disk. `forget` empties its caches, so that what is read comes from files."""

    def __init__(
        self, path: Path, policy: SyncPolicy = SyncPolicy.OS, *, segment_bytes: int = 1 << 16, **options: int
    ) -> None:
        self.options = options
        self.path = path
        self.policy = policy
        self.segment_bytes = segment_bytes
        self.clock = ManualClock()
        self.start()
        self.topic = self.open_topic("t", 1)

    def start(self, *openings: TopicOpening) -> LogOpening:
        """Start a store as a process does that has read topology.json."""
        self.files = FaultyFiles()
        self.sync: InlineBackground | HeldBackground = InlineBackground()
        if self.policy is SyncPolicy.ALWAYS:
            self.sync = HeldBackground()
        settings = LogSettings(
            policy=self.policy,
            sync_interval_ms=1_000,
            sync_interval_bytes=1 << 20,
            segment_bytes=self.segment_bytes,
            memory_count_max=100,
            **self.options,
        )
        self.log = LogStore(
            str(self.path / "log"),
            settings,
            files=self.files,
            clock=self.clock,
            backgrounds=Backgrounds(InlineBackground(), self.sync, InlineBackground()),
        )
        opening = self.log.open(openings)
        self.log.reserved(self.log.reserving())
        for topic in opening.topics.values():
            topic.set_flowing(True)
        return opening

    def kill(self) -> None:
        """The process is gone: nothing is closed, nothing more is written."""
        self.files.abandon()

    def restart(self, channels: dict[int, int], *, reserved: int = 0, released: int | None = None) -> LogOpening:
        """After a kill, with topic 1 and its channels (number → start)."""
        self.kill()
        opening = self.start(TopicOpening("t", 1, 1 << 40, reserved, released, channels))
        self.topic = opening.topics[1]
        return opening

    def open_topic(self, name: str, number: int) -> LogTopicStore:
        topic = self.log.open_topic(name, number, id_base=number << 40)
        topic.set_flowing(True)
        return topic

    def publish(self, *bodies: bytes, topic: LogTopicStore | None = None, due_ms: int | None = None) -> Ticket:
        topic = topic or self.topic
        due_ns = None if due_ms is None else self.clock.monotonic_ns() + due_ms * 1_000_000
        ticket = topic.append(topic.make_batch(list(bodies)), due_ns)
        self.log.end_turn()
        return ticket

    def forget(self) -> None:
        forget_batches(self.log.batches)
        self.topic.queue.flush()

    def write_unit(self, offset: int, unit: bytes) -> bytes:
        """Put another unit in the first file of topic 1's consume queue; returns what was there."""
        self.topic.queue.flush()
        path = self.path / "log" / "queues" / "1" / f"{0:020d}.queue"
        data = path.read_bytes()
        path.write_bytes(data[: offset * 20] + unit + data[(offset + 1) * 20 :])
        return data[offset * 20 : (offset + 1) * 20]


def forget_batches(cache: BatchCache) -> None:
    """Empty it: what nobody uses for two rounds goes."""
    cache.tidy()
    cache.tidy()


def bodies(run: Run | None) -> list[bytes]:
    return [] if run is None else [run.frame_at(index)[34:] for index in range(len(run))]


def take(backlog: LogBacklog, count_max: int = 1_000) -> Run:
    run = backlog.take(count_max, 1 << 20)
    assert run is not None
    backlog.sent(run)
    return run


def everything(backlog: LogBacklog, count_max: int = 7) -> Iterator[bytes]:
    while backlog.depth:
        run = take(backlog, count_max)
        yield from bodies(run)
        backlog.settle(run.ids)


def records_in(data: bytes) -> Iterator[Record]:
    """The records in an answer of `RecordReader`."""
    at = 0
    while at < len(data):
        position, salt, size = struct.unpack_from(">QQI", data, at)
        at += 20
        yield decode_record(data[at : at + size], position=position, salt=salt)
        at += size
    assert at == len(data)
