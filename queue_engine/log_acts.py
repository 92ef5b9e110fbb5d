"""What only a topic of the log can do: be read without consuming, be leased, have channels rewound, and keep keys."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from queue_engine.delivery.channel import Channel
from queue_engine.delivery.stats import Outcome
from queue_engine.delivery.topic import Topic
from queue_engine.log_store.batch_keys import digest_of
from queue_engine.log_store.log_backlog import LogBacklog
from queue_engine.log_store.log_leases import Lease, leased_segments
from queue_engine.log_store.log_reader import Frames, LogReader, MessagePage
from queue_engine.log_store.log_topic_store import LogTopicStore
from queue_engine.log_store.record_reader import Records
from queue_engine.readers.holds import Hold
from queue_engine.vocabulary.errors import InvalidStorageError, LimitError
from queue_engine.vocabulary.run import Batch
from queue_engine.vocabulary.ticket import Ticket, after, or_unknown

READ_MESSAGES_MAX = 1_000
READ_BYTES_MAX = 8 << 20
READ_RECORDS_BYTES = 2 << 20  # unless asked for another number
RANGES_MAX = 1_000
LEASE_TTL_MS_MIN = 1_000
LEASE_TTL_MS_MAX = 3_600_000
LEASE_SEGMENTS_MAX = 1_000
START = "start"
END = "end"


@dataclass(frozen=True, slots=True)
class Target:
    """A place in a topic: one of an offset, a publish time (Unix ns), or the words "start" and "end". is_exact: an
    offset that the log has removed is refused; otherwise the oldest one stands for it."""

    offset: int | None = None
    time_ns: int | None = None
    word: str = ""
    is_exact: bool = False


@dataclass(frozen=True, slots=True)
class SeekPreview:
    """What a seek would do. offset: where the cursor would stand; next_offset: where it stands now. depth: messages
    from there on (delivered again or for the first time); depth_now: those that wait, are deferred or in flight now."""

    offset: int
    next_offset: int
    oldest_offset: int
    end_offset: int
    depth: int
    depth_now: int


@dataclass(frozen=True, slots=True)
class LogPlace:
    """Which topic of the log it is, and how far it goes.

    number, id_base: its identity. synced_offset: where the part ends that is known to be on the disk. ranges: which
    offsets of that part have messages, each (first, next), ascending, RANGES_MAX at most; offsets between them have
    none: they were reserved and never used, or lost before this start. ranges_end: up to where `ranges` say it.
    time_offset: the first offset published at the time asked for, or later.
    """

    topic: str
    number: int
    id_base: int
    storage: str
    oldest_offset: int
    synced_offset: int
    end_offset: int
    ranges: tuple[tuple[int, int], ...]
    ranges_end: int
    time_offset: int | None = None


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """What a batch got that was written under a key, and to which topic: number and id_base are its identity. is_known:
    it was written before, or is just being written."""

    topic: str
    number: int
    id_base: int
    first_offset: int
    count: int
    is_known: bool


def log_store_of(topic: Topic, what: str = "can be read and rewound") -> LogTopicStore:
    """The topic's store. what: only the log can do. Raises InvalidStorageError for another kind."""
    if not isinstance(topic.store, LogTopicStore):
        raise InvalidStorageError(f"topic {topic.name} has storage kind {topic.store.kind}: only the log {what}")
    return topic.store


def write_batch(
    topic: Topic, bodies: Sequence[bytes], batch_key: bytes, keys: Sequence[bytes] | None, *, is_replayed: bool
) -> tuple[WrittenBatch, Ticket]:
    """Publish messages as one record, once per key. The ticket is done when they are as durable as any publish. Raises
    InvalidStorageError, or BatchKeyConflictError when the key was used for another content."""
    store = log_store_of(topic)
    digest = digest_of(bodies, keys)
    known = store.known_batch(batch_key, digest, len(bodies))
    if known is not None:
        written = WrittenBatch(store.name, store.number, store.id_base, known.first_offset, known.count, True)
        return written, known.ticket

    def append(batch: Batch) -> Ticket:
        return store.append_keyed(batch, keys=keys, batch_key=batch_key, digest=digest, is_replayed=is_replayed)

    topic.flush()  # its messages have the offsets before
    written = WrittenBatch(store.name, store.number, store.id_base, store.next_offset, len(bodies), False)
    return written, topic.publish_alone(bodies, append)


def publish_keyed(topic: Topic, body: bytes, key: bytes) -> Ticket:
    """Publish one message with a key. Raises InvalidStorageError."""
    store = log_store_of(topic)
    return topic.publish_alone([body], lambda batch: store.append_keyed(batch, keys=[key]))


def resolved(store: LogTopicStore, target: Target) -> int:
    """The offset of a place. Raises LimitError or StorageError."""
    if target.word == START:
        return store.oldest_offset
    if target.word == END:
        return store.end_offset
    if target.time_ns is not None:
        return LogReader(store).offset_at(target.time_ns)
    assert target.offset is not None
    if target.offset > store.end_offset:
        raise LimitError(f"offset {target.offset} of {store.name} is beyond its end, {store.end_offset}")
    if target.is_exact and target.offset < store.oldest_offset:
        raise LimitError(f"offset {target.offset} of {store.name} is gone: the oldest is {store.oldest_offset}")
    return target.offset


def read_page(topic: Topic, target: Target, count_max: int) -> MessagePage:
    """Messages from a place on, without consuming. Raises InvalidStorageError, LimitError or StorageError."""
    store = log_store_of(topic)
    return LogReader(store).page(resolved(store, target), min(count_max, READ_MESSAGES_MAX), READ_BYTES_MAX)


def read_frames(topic: Topic, offset: int, bytes_max: int) -> Frames:
    """Messages in bulk. Raises InvalidStorageError, LimitError or StorageError."""
    store = log_store_of(topic)
    return LogReader(store).frames(resolved(store, Target(offset)), min(bytes_max, READ_BYTES_MAX))


def read_records(topic: Topic, offset: int, bytes_max: int) -> Records:
    """Whole records as the log has them, unchecked. Raises InvalidStorageError, LimitError or StorageError."""
    store = log_store_of(topic)
    return store.record_reader().read(resolved(store, Target(offset)), min(bytes_max, READ_BYTES_MAX))


def log_place(topic: Topic, time_ns: int | None, from_offset: int) -> LogPlace:
    """time_ns: Unix. from_offset: where `ranges` begin. Raises InvalidStorageError or StorageError."""
    store = log_store_of(topic)
    reader = LogReader(store)
    synced_offset = reader.synced_offset(store.synced_position)
    ranges = tuple(store.ranges_between(max(from_offset, store.oldest_offset), synced_offset, RANGES_MAX))
    return LogPlace(
        store.name,
        store.number,
        store.id_base,
        store.kind,
        store.oldest_offset,
        synced_offset,
        store.end_offset,
        ranges,
        ranges[-1][1] if len(ranges) == RANGES_MAX else synced_offset,
        None if time_ns is None else reader.offset_at(time_ns),
    )


def lease(topic: Topic, offset: int, ttl_ms: int, segments_max: int) -> tuple[Lease, Ticket]:
    """Hold a topic's messages from `offset` on for `ttl_ms`, and tell which complete segments they are in.

    The ticket is done when the hold is durable. Raises InvalidStorageError, LimitError or StorageError.
    """
    store = log_store_of(topic)
    return _leased(store, f"lease-{secrets.token_hex(8)}", offset, ttl_ms, segments_max)


def renew_lease(topic: Topic, hold: Hold, offset: int, ttl_ms: int, segments_max: int) -> tuple[Lease, Ticket]:
    """Keep a hold for `ttl_ms` from now on, and go on at `offset`: what lies before it is not held any more. Raises
    as `lease`."""
    return _leased(log_store_of(topic), hold.name, offset, ttl_ms, segments_max)


def _leased(store: LogTopicStore, name: str, offset: int, ttl_ms: int, segments_max: int) -> tuple[Lease, Ticket]:
    resolved(store, Target(offset))
    if offset < store.oldest_offset:
        raise LimitError(f"offset {offset} of {store.name} is gone: the oldest is {store.oldest_offset}")
    segments = leased_segments(store, offset, segments_max)
    hold, ticket = store.holds.take(name, store.number, offset, ttl_ms)
    next_offset = segments[-1].next_offset if segments else offset
    return (
        Lease(
            hold,
            store.name,
            store.id_base,
            store.oldest_offset,
            offset,
            next_offset,
            store.count_between(offset, next_offset),
            store.end_offset,
            tuple(segments),
        ),
        ticket,
    )


def peek(topic: Topic, channel: Channel, count_max: int) -> MessagePage:
    """What a channel would deliver next, without consuming."""
    store, backlog = _both(topic, channel)
    return LogReader(store).these(backlog.heads(min(count_max, READ_MESSAGES_MAX)), READ_BYTES_MAX)


def _both(topic: Topic, channel: Channel) -> tuple[LogTopicStore, LogBacklog]:
    store = log_store_of(topic)
    assert isinstance(channel.backlog, LogBacklog)
    return store, channel.backlog


def seek_preview(topic: Topic, channel: Channel, target: Target) -> SeekPreview:
    store, backlog = _both(topic, channel)
    offset = min(max(resolved(store, target), store.oldest_offset), store.released)
    return SeekPreview(
        offset,
        backlog.next_offset,
        store.oldest_offset,
        store.end_offset,
        store.count_between(offset, store.released),
        backlog.depth + backlog.deferred_count + channel.in_flight_count,
    )


def seek(topic: Topic, channel: Channel, target: Target, outcome: Outcome, *, keep_finished: bool) -> Ticket:
    """Move a channel's cursor: all from there on is delivered (again), all before it is done. What is in flight is
    taken from its consumers; their FIN comes too late. Nothing of it is done before it is durable.

    keep_finished: skip what is before the offset, and deliver nothing behind it that is finished, again."""
    store, backlog = _both(topic, channel)
    offset = resolved(store, target)

    def in_force() -> Ticket:
        outcome.in_flight = channel.in_flight_count
        channel.forget_in_flight()
        if keep_finished:
            backlog.skip_before(offset)
        else:
            backlog.seek(offset)
        channel.has_moved()
        outcome.depth, outcome.deferred = backlog.depth, backlog.deferred_count
        return or_unknown(store.synced(), "the channel was moved, and syncing that failed")

    prepared = backlog.prepare_skip(offset) if keep_finished else backlog.prepare_seek(offset)
    return after(prepared, in_force)
