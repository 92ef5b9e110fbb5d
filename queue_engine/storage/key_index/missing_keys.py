"""Reads the keys that the key index lacks from the log: a few with each tick, the newest messages first."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from queue_engine.storage.key_index.offset_ranges import without
from queue_engine.storage.key_index.topic_keys import Part, TopicKeys
from queue_engine.vocabulary.byte_budget import ByteBudget
from queue_engine.vocabulary.clock import NS_PER_S, Clock
from queue_engine.vocabulary.errors import StorageError

logger = logging.getLogger(__name__)

# A tick reads so many records at most.
SLICE_RECORDS_MAX = 500
RETRY_NS = 5 * NS_PER_S


class RecordKeys(NamedTuple):
    """A record, as far as it has keys. keys: None without. next_offset: behind it."""

    first_offset: int
    next_offset: int
    position: int
    keys: Sequence[bytes] | None


class KeyedTopic(Protocol):
    """A topic of the log, as far as its keys are read."""

    number: int
    name: str

    @property
    def oldest_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def first_unnoted_position(self) -> int | None: ...

    def first_offset_at(self, position: int) -> int:
        """The first offset whose record is not before a position of the log. Raises StorageError."""

    def record_keys(self, offset: int) -> RecordKeys | None:
        """The keys of the first record from `offset` on; None when there is none. Raises StorageError."""


@dataclass(slots=True)
class _Making:
    """A part of a missing range that is read from the log. at: the next offset; end: of the range."""

    topic: KeyedTopic
    keys: TopicKeys
    part: Part
    at: int
    end: int


class MissingKeys:
    """Belongs to the engine's thread. topics: the numbers of those that lack ranges."""

    def __init__(
        self,
        topics: Mapping[int, tuple[KeyedTopic, TopicKeys]],
        clock: Clock,
        waiting: ByteBudget,
        *,
        on_made: Callable[[TopicKeys, Part], None],
    ) -> None:
        """topics: all topics, by number. waiting: for keys without CRCs. on_made: gets each part that was read, which
        may have no keys."""
        self.topics: dict[int, None] = {}
        self._topics = topics
        self._clock = clock
        self._waiting = waiting
        self._on_made = on_made
        self._making: _Making | None = None
        self._read_at_ns = 0

    def note(self, number: int) -> None:
        """A topic has missing ranges."""
        self.topics[number] = None

    def forget(self, keys: TopicKeys) -> None:
        """The topic was deleted."""
        self.topics.pop(keys.number, None)
        if self._making is not None and self._making.keys is keys:
            self._give_up()

    def read_some(self, now_ns: int, deadline_ns: int) -> None:
        """Read some records of missing ranges. now_ns, deadline_ns: monotonic."""
        if now_ns < self._read_at_ns:
            return
        for _ in range(SLICE_RECORDS_MAX):
            one = self._making or self._next()
            if one is None:
                return
            self._making = one
            try:
                _read_record(one)
            except StorageError as exc:
                logger.warning("key index of topic %s is made anew later: %s", one.topic.name, exc)
                self._give_up()
                self.topics[one.keys.number] = self.topics.pop(one.keys.number, None)
                self._read_at_ns = now_ns + RETRY_NS
                return
            if one.at >= one.end or len(one.part) >= one.keys.part_entries:
                self._made(one)
            if self._clock.monotonic_ns() >= deadline_ns:
                return

    def _next(self) -> _Making | None:
        """The newest missing range of the first topic that is behind."""
        while self.topics:
            number = next(iter(self.topics))
            topic, keys = self._topics[number]
            if keys.missing:
                first, end = keys.missing[-1]
                logger.info("key index is made from the log topic=%s offsets=%d-%d", topic.name, first, end)
                return _Making(topic, keys, Part(first, self._waiting), first, end)
            del self.topics[number]
        return None

    def _give_up(self) -> None:
        if self._making is not None:
            self._making.part.free()
            self._making = None

    def _made(self, one: _Making) -> None:
        self._making = None
        part, keys = one.part, one.keys
        part.end = min(one.at, one.end)
        keys.missing = without(keys.missing, [(part.first, part.end)])
        self._on_made(keys, part)


def _read_record(one: _Making) -> None:
    record = one.topic.record_keys(one.at)
    if record is None or record.first_offset >= one.end:
        one.at = one.end
        return
    first, end = max(record.first_offset, one.at), min(record.next_offset, one.end)
    if record.keys is not None:
        keys = record.keys[first - record.first_offset : end - record.first_offset]
        if any(keys):
            one.part.add(first, keys, record.position)
    one.at = end
