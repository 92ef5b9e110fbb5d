"""Finds the messages of a topic that have a key: the index names offsets, and the log says which of them have it."""

from dataclasses import dataclass

from queue_engine.fetch.log_reader import LogReader, MessagePage
from queue_engine.log_store.log_topic_store import LogTopicStore

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
    """Searches one topic. Raises StorageError when the disk refuses."""

    def __init__(self, topic: LogTopicStore) -> None:
        self._topic = topic

    def find(self, key: bytes, count_max: int, bytes_max: int, *, before: int | None = None) -> KeyPage:
        """At most `count_max` messages with this key, and `bytes_max` bytes of bodies, at offsets below `before`."""
        topic = self._topic
        end = topic.end_offset if before is None else min(before, topic.end_offset)
        found: list[int] = []
        next_before: int | None = None
        read_bytes = 0
        for looked_at, offset in enumerate(topic.key_indexes.candidates(topic, key, end)):
            if len(found) >= count_max or looked_at >= OFFSETS_MAX or read_bytes >= READ_BYTES_MAX:
                next_before = offset + 1
                break
            place = topic.queue.locate(offset)
            read_bytes += 0 if place is None else place[1]
            if self._has_key(offset, key):
                found.append(offset)
        page = LogReader(topic).these(found, bytes_max)
        shown = len(page.messages) + page.damaged_count
        if shown < len(found):
            next_before = found[shown] + 1
        missing = [(first, min(after, end)) for first, after in topic.key_indexes.missing(topic) if first < end]
        return KeyPage(
            page,
            next_before,
            min((first for first, _ in missing), default=topic.end_offset),
            sum(after - first for first, after in missing),
        )

    def _has_key(self, offset: int, key: bytes) -> bool:
        batch = self._topic.batch_at(offset)
        return batch is not None and batch.keys is not None and batch.keys[offset - batch.first] == key
