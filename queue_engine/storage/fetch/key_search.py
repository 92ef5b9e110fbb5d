"""Finds the messages of a topic that have a key: the index names offsets, and the log says which of them have it."""

from collections.abc import Iterator
from dataclasses import dataclass

from queue_engine.storage.fetch.log_reader import LogReader, MessagePage
from queue_engine.storage.log_store.log_topic_store import LogTopicStore

# One answer looks at so many offsets at most, and reads so many bytes of records, but at least one message.
OFFSETS_MAX = 1_000
READ_BYTES_MAX = 32 << 20


@dataclass(frozen=True, slots=True)
class KeyPage:
    """Messages with a key. page: the newest first. next_before: where to go on, for `before`; None at the end.

    indexed_upto: all messages below this offset are indexed: the topic's end when the index is complete.
    not_indexed_count: offsets from there on that are not indexed yet, so that messages with the key may lack here.
    """

    page: MessagePage
    next_before: int | None
    indexed_upto: int
    not_indexed_count: int


class KeySearch:
    """Searches one topic, for one answer. Raises StorageError when the disk refuses."""

    def __init__(self, topic: LogTopicStore) -> None:
        self._topic = topic
        self._read_bytes = 0

    def find(self, key: bytes, count_max: int, bytes_max: int, *, before: int | None = None) -> KeyPage:
        """At most `count_max` messages with this key, and `bytes_max` bytes of bodies, at offsets below `before`."""
        topic = self._topic
        end = topic.end_offset if before is None else min(before, topic.end_offset)
        found: list[int] = []
        next_before: int | None = None
        for looked_at, offset in enumerate(self.candidates(key, end)):
            if len(found) >= count_max or looked_at >= OFFSETS_MAX or self.has_read_enough:
                next_before = offset + 1
                break
            if self.has_key(offset, key):
                found.append(offset)
        page = LogReader(topic).these(found, bytes_max)
        shown = len(page.messages) + page.damaged_count
        if shown < len(found):
            next_before = found[shown] + 1
        missing = self.missing(end)
        return KeyPage(
            page,
            next_before,
            min((first for first, _ in missing), default=topic.end_offset),
            sum(after - first for first, after in missing),
        )

    def candidates(self, key: bytes, end: int) -> Iterator[int]:
        """Offsets below `end` that the index names for this key, the newest first; some may have another key."""
        return iter(self._topic.key_indexes.candidates(self._topic, key, end))

    def has_key(self, offset: int, key: bytes) -> bool:
        """Whether the log says so. Reads the message's record."""
        place = self._topic.queue.locate(offset)
        self._read_bytes += 0 if place is None else place[1]
        batch = self._topic.batch_at(offset)
        return batch is not None and batch.keys is not None and batch.keys[offset - batch.first] == key

    @property
    def has_read_enough(self) -> bool:
        """Whether one answer should read no further."""
        return self._read_bytes >= READ_BYTES_MAX

    def missing(self, end: int) -> list[tuple[int, int]]:
        """The ranges of offsets below `end` that are not indexed yet, ascending."""
        topic = self._topic
        return [(first, min(after, end)) for first, after in topic.key_indexes.missing(topic) if first < end]
