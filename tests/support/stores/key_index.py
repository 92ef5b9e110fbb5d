"""A log store whose messages have keys, on a simulated disk: what a look-up finds, and what it must find."""

from collections.abc import Sequence

from queue_engine.storage.commit_log.options import SyncPolicy
from queue_engine.storage.disk.background import Background, Backgrounds, InlineBackground
from queue_engine.storage.disk.files import Files
from queue_engine.storage.fetch.key_search import KeyPage, KeySearch
from queue_engine.storage.log_store.log_settings import LogSettings
from queue_engine.storage.log_store.log_store import LogStore
from queue_engine.storage.log_store.log_topic import TopicOpening
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.vocabulary.ticket import Ticket
from tests.support.clock import ManualClock

RESERVED = 1 << 30
STATE_MS = 31_000
KEYS = "/log/keys"


class IndexBench:
    """Topic 1 and others of a log store. published: by topic, the key of each offset, of no bytes for none."""

    def __init__(
        self,
        files: Files,
        *topics: int,
        policy: SyncPolicy = SyncPolicy.ALWAYS,
        segment_bytes: int = 1 << 16,
        worker: Background | None = None,
        clock: ManualClock | None = None,
    ) -> None:
        """topics: those of before this start; none for a first start, which makes topic 1."""
        self.files = files
        self.clock = clock or ManualClock()
        settings = LogSettings(
            policy=policy,
            sync_interval_ms=100,
            sync_interval_bytes=1 << 20,
            segment_bytes=segment_bytes,
            memory_count_max=100,
            journal_reserve_bytes=0,
        )
        backgrounds = Backgrounds(worker or InlineBackground(), InlineBackground(), worker or InlineBackground())
        self.log = LogStore("/log", settings, files=files, clock=self.clock, backgrounds=backgrounds)
        openings = [TopicOpening(f"t{number}", number, number << 40, released=0) for number in topics]
        self.topics: dict[int, LogTopicStore] = dict(self.log.open(openings).topics)
        self.log.reserved([(number, RESERVED) for number in topics])
        if not topics:
            self.make(1)
        for topic in self.topics.values():
            topic.set_flowing(True)

    @property
    def indexes(self):
        return self.topics[min(self.topics)].key_indexes

    def make(self, number: int) -> LogTopicStore:
        topic = self.topics[number] = self.log.open_topic(f"t{number}", number, id_base=number << 40)
        self.log.reserved([(number, RESERVED)])
        topic.set_flowing(True)
        return topic

    def publish(self, *keys: bytes, topic: int = 1) -> Ticket:
        """One batch; its bodies are its keys. Without any key it is published as one that has none."""
        store = self.topics[topic]
        batch = store.make_batch([key or b"none" for key in keys])
        ticket = store.append_keyed(batch, keys=list(keys)) if any(keys) else store.append(batch)
        self.log.end_turn()
        return ticket

    def tick(self, ms: float = 100) -> None:
        self.clock.advance(ms=ms)
        self.log.tick(self.clock.monotonic_ns())

    def settle(self, ticks: int = 20) -> None:
        """Let the index write everything, make what is missing, and note how far it is."""
        for _ in range(ticks):
            self.tick(STATE_MS)

    def find(self, key: bytes, *, topic: int = 1, count_max: int = 1_000, before: int | None = None) -> KeyPage:
        return KeySearch(self.topics[topic]).find(key, count_max, 1 << 20, before=before)

    def offsets(self, key: bytes, *, topic: int = 1) -> list[int]:
        return [one.offset for one in self.find(key, topic=topic).page.messages]

    def missing(self, topic: int = 1) -> list[tuple[int, int]]:
        return self.indexes.missing(self.topics[topic])

    def names(self, topic: int = 1) -> list[str]:
        """The files of a topic's keys."""
        try:
            return sorted(self.files.listdir(f"{KEYS}/{topic}"))
        except FileNotFoundError:
            return []


def in_log(topic: LogTopicStore) -> dict[bytes, list[int]]:
    """Key → offsets, newest first, as the log's records have them: what each look-up must answer."""
    found: dict[bytes, list[int]] = {}
    at = topic.oldest_offset
    while (record := topic.record_keys(at)) is not None:
        for index, key in enumerate(record.keys or ()):
            if key and record.first_offset + index >= topic.oldest_offset:
                found.setdefault(key, []).insert(0, record.first_offset + index)
        at = record.next_offset
    return found


def keys_of(numbers: Sequence[int]) -> list[bytes]:
    return [b"order-%d" % number for number in numbers]
