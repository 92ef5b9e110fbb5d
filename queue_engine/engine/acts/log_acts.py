"""Reads, leases, keyed writes and the preview of a rewind, which only topics of the log have.

The rewind itself is an act of `topic_acts.py`.

Raises InvalidStorageError for a topic of another storage kind.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from queue_engine.delivery.channel import Channel
from queue_engine.delivery.topic import Topic
from queue_engine.engine.catalog.catalog import Catalog
from queue_engine.engine.catalog.stores import Stores
from queue_engine.engine.samples.sampler import Sampler
from queue_engine.storage.fetch.key_search import KeyPage, KeySearch
from queue_engine.storage.fetch.log_leases import Lease, leased_segments
from queue_engine.storage.fetch.log_reader import Frames, LogReader, MessagePage
from queue_engine.storage.fetch.record_reader import RecordReader, Records
from queue_engine.storage.log_store.batch_keys import digest_of
from queue_engine.storage.log_store.log_backlog import LogBacklog
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.storage.readers.reader_registry import ANY_MAKER, Maker, Reader
from queue_engine.vocabulary.acts.parameters import END, START
from queue_engine.vocabulary.acts.table import check, why_not
from queue_engine.vocabulary.errors import (
    InvalidStorageError,
    OffsetTooHighError,
    OffsetTooLowError,
    TopicChangedError,
    TopicNotFoundError,
)
from queue_engine.vocabulary.names import is_reserved, is_valid_name
from queue_engine.vocabulary.run import Batch
from queue_engine.vocabulary.ticket import Ticket, after
from queue_engine.wire.batch import WrittenBatch
from queue_engine.wire.topic_state import TopicState

# Of a message's key, given by a person or over HTTP.
KEY_BYTES_MAX = 255
READ_MESSAGES_MAX = 1_000
READ_BYTES_MAX = 8 << 20
READ_RECORDS_BYTES = 2 << 20  # the default
RANGES_MAX = 1_000
LEASE_TTL_MS_MIN = 1_000
LEASE_TTL_MS_MAX = 3_600_000
LEASE_SEGMENTS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Target:
    """A place in a topic: one of an offset, a publish time (Unix ns), or the words "start" and "end"."""

    offset: int | None = None
    time_ns: int | None = None
    word: str = ""


@dataclass(frozen=True, slots=True)
class SeekPreview:
    """The preview of a seek. offset: where the cursor would stand. next_offset: from here on nothing was delivered or
    finished, by consumers or by hand; going there or beyond repeats nothing. depth: messages from `offset` on
    (delivered again or for the first time); depth_now: those that wait, are deferred or in flight now."""

    offset: int
    next_offset: int
    oldest_offset: int
    end_offset: int
    depth: int
    depth_now: int


def log_store_of(topic: Topic, act: str = "read_messages") -> LogTopicStore:
    """The topic's store, for an act or use of `vocabulary/acts/table.py` that only the log can do. Raises
    InvalidStorageError for another kind."""
    check(act, topic.store.kind, topic.name)
    assert isinstance(topic.store, LogTopicStore), act
    return topic.store


def channel_log(topic: Topic, channel: Channel) -> tuple[LogTopicStore, LogBacklog]:
    """The topic's store, and the channel's messages in it. Raises InvalidStorageError."""
    store = log_store_of(topic, "rewind_channel")
    assert isinstance(channel.backlog, LogBacklog)
    return store, channel.backlog


def resolved(store: LogTopicStore, target: Target, *, is_exact: bool = False) -> int:
    """The offset of a place. is_exact: an offset that the log has removed is refused. Raises LimitError or
    StorageError."""
    if target.word == START:
        return store.oldest_offset
    if target.word == END:
        return store.end_offset
    if target.time_ns is not None:
        return LogReader(store).offset_at(target.time_ns)
    assert target.offset is not None
    if target.offset > store.end_offset:
        raise OffsetTooHighError(f"offset {target.offset} of {store.name} is beyond its end, {store.end_offset}")
    if is_exact and target.offset < store.oldest_offset:
        raise OffsetTooLowError(f"offset {target.offset} of {store.name} is gone: the oldest is {store.oldest_offset}")
    return target.offset


class LogActs:
    """Reads, leases and keyed writes of one engine. sampler: has the server's own topic."""

    def __init__(self, catalog: Catalog, stores: Stores, sampler: Sampler) -> None:
        self.topics = catalog.topics
        self._catalog = catalog
        self._stores = stores
        self._sampler = sampler

    # Reading.

    def _readable(self, name: str, act: str = "read_messages") -> LogTopicStore:
        """The store of topic `name` for reading, the server's own topic included. Raises TopicNotFoundError."""
        if not is_reserved(name) or name in self.topics:
            return log_store_of(self._catalog.topic(name), act)
        if self._sampler.topic is None:
            raise TopicNotFoundError(f"topic {name} does not exist: no samples are stored (--samples-interval)")
        return log_store_of(self._sampler.topic)

    def read_messages(self, topic: str, target: Target, count_max: int) -> MessagePage:
        """Messages from a place of a topic on, without consuming. Raises TopicNotFoundError, InvalidStorageError,
        LimitError or StorageError."""
        store = self._readable(topic)
        return LogReader(store).page(resolved(store, target), min(count_max, READ_MESSAGES_MAX), READ_BYTES_MAX)

    def find_key(self, topic: str, key: bytes, count_max: int, *, before: int | None = None) -> KeyPage:
        """The messages of a topic with this key, newest first, without consuming; those at offsets below `before`.
        Raises TopicNotFoundError, InvalidStorageError or StorageError."""
        store = self._readable(topic, "find_key")
        return KeySearch(store).find(key, min(count_max, READ_MESSAGES_MAX), READ_BYTES_MAX, before=before)

    def read_frames(self, topic: str, offset: int, bytes_max: int) -> Frames:
        """Messages in bulk, in wire form, up to the synced offset. Raises as `read_messages`."""
        store = self._readable(topic)
        return LogReader(store).frames(resolved(store, Target(offset)), min(bytes_max, READ_BYTES_MAX))

    def read_records(self, topic: str, offset: int, bytes_max: int) -> Records:
        """A topic's records as the log has them, unchecked; the first may begin before `offset`. Up to the
        synced offset. Raises as `read_messages`."""
        store = self._readable(topic)
        return records_of(store, offset, bytes_max)

    def topic_state(self, topic: str, time_ns: int | None = None, *, from_offset: int = 0) -> TopicState:
        """Which topic of the log it is, how far it goes, and which offsets from `from_offset` on have messages; with
        `time_ns` (Unix) also where the messages from then on begin. Raises TopicNotFoundError, InvalidStorageError or
        StorageError."""
        return state_of(self._readable(topic), time_ns, from_offset)

    def peek_channel(self, topic: str, channel: str, count_max: int) -> MessagePage:
        """The messages that a channel would deliver next, without consuming. Raises as `read_messages`."""
        store, backlog = channel_log(self._catalog.topic(topic), self._catalog.channel(topic, channel))
        return LogReader(store).these(backlog.places.heads(min(count_max, READ_MESSAGES_MAX)), READ_BYTES_MAX)

    def seek_preview(self, topic: str, channel: str, target: Target) -> SeekPreview:
        """The preview of rewinding a channel. Raises as `read_messages`."""
        one = self._catalog.channel(topic, channel)
        store, backlog = channel_log(self.topics[topic], one)
        offset = min(max(resolved(store, target), store.oldest_offset), store.released)
        return SeekPreview(
            offset,
            backlog.next_offset,
            store.oldest_offset,
            store.end_offset,
            store.queue.count_between(offset, store.released),
            backlog.depth + backlog.deferred_count + one.in_flight_count,
        )

    # Leases.

    def lease(
        self,
        topic: str,
        offset: int,
        *,
        ttl_ms: int,
        segments_max: int = LEASE_SEGMENTS_MAX,
        maker: Maker = ANY_MAKER,
    ) -> tuple[Lease, Ticket]:
        """Keep a topic's messages from `offset` on, also consumed ones, and list the complete segments that they are
        in. The ticket is done when that is durable. Raises TopicNotFoundError, InvalidStorageError, LimitError or
        StorageError."""
        self._catalog.check_open()
        store = log_store_of(self._catalog.topic(topic), "lease_messages")
        return _leased(store, f"lease-{secrets.token_hex(8)}", offset, ttl_ms, segments_max, maker)

    def renew_lease(
        self, name: str, *, ttl_ms: int, offset: int | None = None, segments_max: int = LEASE_SEGMENTS_MAX
    ) -> tuple[Lease, Ticket]:
        """Renew a lease; `offset` moves it: the log may remove messages before it. Raises LeaseNotFoundError when
        it is lost, otherwise as `lease`."""
        self._catalog.check_open()
        reader = self._stores.leases_with(name).get(name)
        store = log_store_of(self._topic_of(reader))
        return _leased(store, name, reader.offset if offset is None else offset, ttl_ms, segments_max)

    def topic_of_lease(self, name: str) -> str:
        """The topic that it keeps. Raises LeaseNotFoundError."""
        return self._topic_of(self._stores.leases_with(name).get(name)).name

    def check_owns_lease(self, name: str, maker: Maker) -> None:
        """Raises NotOwnReaderError where a limited maker names another's lease, and LeaseNotFoundError."""
        maker.check_owns(self._stores.leases_with(name).get(name), f"lease {name}")

    def _topic_of(self, reader: Reader) -> Topic:
        topic = next((one for one in self.topics.values() if one.number == reader.topic_number), None)
        assert topic is not None, "a lease ends with its topic"
        return topic

    def renew_leases(self, names: Sequence[str], *, ttl_ms: int) -> Ticket:
        """Keep leases, one at least, as they are: all, or none. Raises LeaseNotFoundError for the first lost one."""
        self._catalog.check_open()
        return self._stores.leases_with(names[0]).renew(names, ttl_ms)

    def release_lease(self, name: str) -> Ticket:
        """End a lease: the log may remove its messages. Raises LeaseNotFoundError."""
        self._catalog.check_open()
        return self._stores.leases_with(name).release(name)

    # Writing.

    def topic_ready(self, name: str) -> Ticket:
        """Done when a topic that keeps keys is there, created when new. Raises InvalidTopicError, InvalidStorageError,
        LimitError or ClosedError."""
        self._catalog.check_open()
        kind = self._stores.kind_of(name)
        is_known = name in self.topics or is_reserved(name)
        reason = why_not("publish_keyed", kind, name)
        if not is_known and is_valid_name(name) and reason:
            raise InvalidStorageError(reason.replace(" has ", " would have ", 1))
        ready = self._catalog.topic_ready(name)
        if name in self.topics:
            log_store_of(self.topics[name], "publish_keyed")
        return ready

    def publish_keyed(self, topic: str, body: bytes, key: bytes) -> Ticket:
        """Publish one message with a key. Raises as `topic_ready`."""

        def publish() -> Ticket:
            owner = self.topics[topic]
            store = log_store_of(owner)
            return owner.publish_alone([body], lambda batch: store.append_keyed(batch, keys=[key]))

        return after(self.topic_ready(topic), publish)

    def write_batch(
        self,
        topic: str,
        bodies: Sequence[bytes],
        *,
        batch_key: bytes,
        keys: Sequence[bytes] | None = None,
        is_replayed: bool = False,
        number: int | None = None,
    ) -> tuple[WrittenBatch, Ticket]:
        """Publish messages once per `batch_key`, 16 bytes and not zero: as one record, all or nothing. A repeated call
        returns the result of the first. The ticket is done when they are as durable as any publish. A new topic is
        created first where that is done at once; otherwise TopicNotFoundError is raised (`topic_ready`).

        keys: of each message, of no bytes for none. number: of the topic that is meant, None for any. Raises
        TopicChangedError when the topic has another number, BatchKeyConflictError when the key was used for other
        messages, and as `topic_ready`.
        """
        there = self.topics.get(topic)
        if number is not None and (there is None or there.number != number):
            now = "does not exist" if there is None else f"has number {there.number}"
            raise TopicChangedError(f"topic {topic} {now}, and number {number} is meant")
        ready = self.topic_ready(topic)
        if ready.done and ready.error is not None:
            raise ready.error
        if keys is not None and not any(keys):
            keys = None
        owner = self._catalog.topic(topic)
        store = log_store_of(owner)
        digest = digest_of(bodies, keys)
        earlier = store.find_batch(batch_key, digest, len(bodies))
        if earlier is not None:
            written = WrittenBatch(store.name, store.number, store.id_base, earlier.first_offset, earlier.count, True)
            return written, earlier.ticket

        def append(batch: Batch) -> Ticket:
            return store.append_keyed(batch, keys=keys, batch_key=batch_key, digest=digest, is_replayed=is_replayed)

        owner.flush()  # its messages have the offsets before
        written = WrittenBatch(store.name, store.number, store.id_base, store.next_offset, len(bodies), False)
        return written, owner.publish_alone(bodies, append)


def _leased(
    store: LogTopicStore, name: str, offset: int, ttl_ms: int, segments_max: int, maker: Maker = ANY_MAKER
) -> tuple[Lease, Ticket]:
    resolved(store, Target(offset))
    if offset < store.oldest_offset:
        raise OffsetTooLowError(f"offset {offset} of {store.name} is gone: the oldest is {store.oldest_offset}")
    segments = leased_segments(store, offset, segments_max)
    reader, ticket = store.readers.leases.take(name, store.number, offset, ttl_ms, maker)
    next_offset = segments[-1].next_offset if segments else offset
    return (
        Lease(
            reader,
            store.name,
            store.id_base,
            store.oldest_offset,
            offset,
            next_offset,
            store.queue.count_between(offset, next_offset),
            store.end_offset,
            tuple(segments),
        ),
        ticket,
    )


def state_of(store: LogTopicStore, time_ns: int | None, from_offset: int) -> TopicState:
    """As `LogActs.topic_state`. Raises StorageError."""
    reader = LogReader(store)
    synced_offset = reader.synced_offset(store.synced_position)
    ranges = tuple(store.ranges_between(max(from_offset, store.oldest_offset), synced_offset, RANGES_MAX))
    return TopicState(
        topic=store.name,
        number=store.number,
        id_base=store.id_base,
        storage=store.kind,
        oldest_offset=store.oldest_offset,
        synced_offset=synced_offset,
        end_offset=store.end_offset,
        ranges=ranges,
        ranges_end=ranges[-1][1] if len(ranges) == RANGES_MAX else synced_offset,
        time_offset=None if time_ns is None else reader.offset_at(time_ns),
    )


def records_of(store: LogTopicStore, offset: int, bytes_max: int) -> Records:
    """As `LogActs.read_records`. Raises OffsetTooHighError, OffsetTooLowError or StorageError."""
    return RecordReader(store).read(resolved(store, Target(offset)), min(bytes_max, READ_BYTES_MAX))
