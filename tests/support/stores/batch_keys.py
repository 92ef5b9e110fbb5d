"""A log store whose batches have keys: which keys it knows, and which its records have."""

from queue_engine.storage.commit_log.options import SyncPolicy
from queue_engine.storage.disk.background import Backgrounds, InlineBackground
from queue_engine.storage.disk.files import Files
from queue_engine.storage.fetch.record_reader import RecordReader
from queue_engine.storage.log_store.batch_keys import (
    digest_of,
)
from queue_engine.storage.log_store.log_settings import LogSettings
from queue_engine.storage.log_store.log_store import LogOpening, LogStore
from queue_engine.storage.log_store.log_topic import TopicOpening
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.vocabulary.ticket import Ticket
from tests.support.clock import ManualClock
from tests.support.disks.simulated_disk import SimulatedFiles
from tests.support.stores.background import HeldBackground
from tests.support.stores.log_store import records_in

SEGMENT_BYTES = 2_048
RESERVED = 1 << 30
CHECKPOINT_MS = 5_100


def key_of(number: int) -> bytes:
    return number.to_bytes(16, "big")


class KeysBench:
    """A log store, by default on a simulated disk, whose sync and worker do something when they are told to."""

    def __init__(
        self,
        files: Files,
        *topics: int,
        policy: SyncPolicy = SyncPolicy.ALWAYS,
        directory: str = "/log",
        is_held: bool = False,
        clock: ManualClock | None = None,
    ) -> None:
        self.files = files
        self.directory = directory
        self.clock = clock or ManualClock()
        self.sync: HeldBackground | InlineBackground = HeldBackground() if is_held else InlineBackground()
        self.worker: HeldBackground | InlineBackground = HeldBackground() if is_held else InlineBackground()
        settings = LogSettings(
            policy=policy,
            sync_interval_ms=100,
            sync_interval_bytes=1 << 20,
            segment_bytes=SEGMENT_BYTES,
            memory_count_max=100,
            journal_reserve_bytes=0,
            has_key_index=False,  # its messages have no keys, and its scripts count the worker's jobs
        )
        backgrounds = Backgrounds(self.worker, self.sync, self.worker)
        self.log = LogStore(directory, settings, files=files, clock=self.clock, backgrounds=backgrounds)
        openings = [TopicOpening(f"t{number}", number, number << 40, channels={number: 0}) for number in topics]
        self.opening: LogOpening = self.log.open(openings)
        self.log.reserved([(number, RESERVED) for number in topics])
        self.topics: dict[int, LogTopicStore] = dict(self.opening.topics)
        for topic in self.topics.values():
            topic.set_flowing(True)

    def make(self, number: int) -> LogTopicStore:
        topic = self.topics[number] = self.log.open_topic(f"t{number}", number, id_base=number << 40)
        topic.set_flowing(True)
        return topic

    def write(self, key: int, *bodies: bytes, topic: int = 1) -> Ticket:
        """As the engine does."""
        store = self.topics[topic]
        digest = digest_of(bodies, None)
        known = store.find_batch(key_of(key), digest, len(bodies))
        if known is not None:
            return known.ticket
        return store.append_keyed(store.make_batch(bodies), keys=None, batch_key=key_of(key), digest=digest)

    def written(self, key: int, *bodies: bytes, topic: int = 1) -> None:
        ticket = self.write(key, *bodies, topic=topic)
        self.log.end_turn()
        assert ticket.done
        assert ticket.error is None

    def checkpoint(self) -> None:
        self.clock.advance(ms=CHECKPOINT_MS)
        self.log.tick(self.clock.monotonic_ns())

    def offset(self, key: int, *bodies: bytes, topic: int = 1) -> int | None:
        """The first offset known of a key with this content."""
        known = self.topics[topic].find_batch(key_of(key), digest_of(bodies, None), len(bodies))
        return None if known is None else known.first_offset

    def in_log(self, topic: int = 1) -> dict[bytes, int]:
        """Key → first offset, as the log's records have them."""
        found: dict[bytes, int] = {}
        store, at = self.topics[topic], 0
        while True:
            answer = RecordReader(store).read(at, 1 << 30)
            if not answer.count:
                return found
            for record in records_in(answer.records):
                if any(record.header.batch_key):
                    assert record.header.batch_key not in found, "written twice"
                    found[record.header.batch_key] = record.header.first_offset
            at = answer.next_offset


def file_of(disk: Files, directory: str = "/log") -> bytes:
    return disk.read_whole(f"{directory}/batch_keys", 1 << 30) or b""


def put_file(disk: Files, data: bytes | None) -> None:
    if data is None:
        disk.unlink("/log/batch_keys")
    else:
        disk.replace("/log/batch_keys", data)


def filled() -> KeysBench:
    """Eight keyed batches, a checkpoint behind the first six, all synced."""
    bench = KeysBench(SimulatedFiles())
    bench.make(1)
    for number in range(1, 7):
        bench.written(number, b"%d" % number, b"more")
    bench.checkpoint()
    for number in (7, 8):
        bench.written(number, b"%d" % number, b"more")
    return bench


def offsets(bench: KeysBench) -> list[int | None]:
    return [bench.offset(number, b"%d" % number, b"more") for number in range(1, 9)]


EVERY_OFFSET = list(range(0, 16, 2))
