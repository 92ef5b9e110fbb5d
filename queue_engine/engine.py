"""The engine: all topics, every act on them, and the work of each turn. Synchronous, one thread, no sockets.

Whoever drives it (service/, or a test with a clock of its own) calls `turn` when `on_work` was called,
`scan_pass` and `tick` now and then, and tells it of clients.
"""

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Protocol

from queue_engine import cursor_acts, log_acts
from queue_engine.clock import NS_PER_MS, NS_PER_S, Clock
from queue_engine.delivery.channel import Channel
from queue_engine.delivery.consumer import Consumer
from queue_engine.delivery.stats import ClientStats, CursorStats, EngineSnapshot, InFlightStats, Outcome, TopicStats
from queue_engine.delivery.topic import Topic
from queue_engine.delivery.workload import Workload
from queue_engine.errors import (
    ChannelNotFoundError,
    ClosedError,
    InvalidChannelError,
    InvalidStorageError,
    InvalidTopicError,
    LimitError,
    ReservedTopicError,
    StorageError,
    TopicChangedError,
    TopicNotFoundError,
    TopologyError,
)
from queue_engine.names import SAMPLES_TOPIC, is_ephemeral, is_reserved, is_valid_name
from queue_engine.options import Options
from queue_engine.sampler import Sampler
from queue_engine.storage.background import Background
from queue_engine.storage.files import Files
from queue_engine.storage.log_leases import Lease
from queue_engine.storage.log_reader import Frames, MessagePage
from queue_engine.storage.log_topic_store import KIND as LOG_KIND
from queue_engine.storage.record_reader import Records
from queue_engine.storage.store import TopicStore
from queue_engine.stores import KINDS, Stores
from queue_engine.ticket import DONE, Ticket, all_of
from queue_engine.topology import ChannelEntry, TopicEntry, Topology, TopologyFile, load_topology
from queue_engine.version import VERSION

logger = logging.getLogger(__name__)

HEALTHY = "OK"
TOPOLOGY_RETRY_NS = NS_PER_S
# topology.json promises that so many numbers more than it was told of may be given.
NUMBERS_AHEAD = 65_536
# How often every channel lets go of what only costs memory, and how many do at once: 5,000 have their turn in time.
TIDY_INTERVAL_NS = 5 * NS_PER_S
TIDY_CHANNELS_MAX = 200
# Channels per slice of a snapshot: a slice of 100 takes well under a millisecond.
SNAPSHOT_SLICE_CHANNELS = 100


class Client(Protocol):
    """A connection, as the engine's figures need it."""

    @property
    def is_producer(self) -> bool: ...

    def stats(self) -> ClientStats: ...


class Engine:
    """All queue state of one process.

    on_work: called when `turn` has something to do and had nothing before.
    background: a thread for slow disk work. sync_background: one for the log's syncs alone; the same when None.
    open_store: makes a topic's store; the default is by storage kind in the data directory.
    """

    def __init__(
        self,
        options: Options,
        *,
        clock: Clock,
        files: Files,
        background: Background,
        sync_background: Background | None = None,
        on_work: Callable[[], None] = lambda: None,
        open_store: Callable[[str], TopicStore] | None = None,
    ) -> None:
        self.options = options
        self.topics: dict[str, Topic] = {}
        self.clients: dict[int, Client] = {}
        self.is_closing = False
        self._is_open = False
        self._publish_error: Exception | None = None  # of the last publish
        self.on_work = on_work
        self._clock = clock
        self.started_at_ns = clock.time_ns()
        self._stores = Stores(
            options,
            clock=clock,
            files=files,
            background=background,
            sync_background=sync_background or background,
            on_work=lambda: self.on_work(),
            on_reserve=self._reserve_offsets,
        )
        self._open_store = open_store
        self._sampler = Sampler(options, clock=clock, files=files, background=background)
        self._topology_file = TopologyFile(options.data_path, files, background, self._compose_topology)
        self._next_number = 1
        self._durable_number = 0  # numbers below it may be given
        self._is_closed = False
        self._largest_msg_size = options.max_msg_size
        self._next_client_key = 1
        self._workload = Workload(clock, on_work=lambda: self.on_work())
        self._topology_retry_ns = 0
        self._tidy_at_ns = 0
        self._untidied: Iterator[Channel] = iter(())
        self._sorted_names: list[str] | None = None
        self._sequence = 0

    @property
    def health(self) -> str:
        """ "OK", or "NOK - " and why: something that has to be on disk is not, or can't be read."""
        error = self._topology_file.error or self._stores.error or self._publish_error or self._workload.error
        return HEALTHY if error is None else f"NOK - {error}"

    # Start and stop.

    def open(self) -> None:
        """Load the topology and open every queue it names. Raises TopologyError or StorageError; then nothing on
        disk was changed, and `close` changes nothing either."""
        topology = load_topology(self.options.data_path)
        # Those that nsqd's file names have no number yet; all are durable before anything else is done.
        self._next_number = topology.next_number
        self._durable_number = self._next_number + NUMBERS_AHEAD
        self._largest_msg_size = max(self.options.max_msg_size, topology.largest_msg_size)
        self._stores.disk_queues.set_largest_msg_size(self._largest_msg_size)
        self._stores.open(topology.topics)
        for entry in topology.topics:
            topic = self._add_topic(entry.name, entry.number or self._take_number(), entry.storage)
            for channel_entry in entry.channels:
                channel = topic.open_channel(channel_entry.name, channel_entry.number or self._take_number())
                channel.paused = channel_entry.paused
            if entry.paused:
                topic.pause()
        self._is_open = True
        # Numbers and offsets are promised before they are given; larger messages may come than ever before, and
        # whoever reads the queues later must know.
        try:
            self._topology_file.write_now()
        except TopologyError as exc:
            # No room, perhaps: what there is can be consumed, and the write is tried again.
            logger.error("topology not written error=%s", exc)
            self._durable_number = self._next_number
        else:
            self._stores.remove_unknown()
        if SAMPLES_TOPIC in self.topics:
            # From before the name was reserved. Nothing of it is lost, and nothing is mixed with it.
            logger.warning(
                "topic %s is the server's own name: nobody can publish to this one or subscribe to it, and no samples "
                "are taken until it is deleted; its messages can be read meanwhile",
                SAMPLES_TOPIC,
            )
        self._sampler.open()

    def close(self) -> None:
        """Put everything on disk. Clients were disconnected before. Raises StorageError, naming what was not
        kept, after it has tried everything."""
        self.is_closing = True
        if not self._is_open:
            # What is on disk was not understood, or not all of it: it stays as it is.
            self._stores.abandon()
            return
        self.flush()
        self._sampler.close(None if SAMPLES_TOPIC in self.topics else partial(self.stats, include_clients=False))
        errors: list[str] = []
        for topic in self.topics.values():
            try:
                for channel in topic.channels.values():
                    channel.give_back_everything()
                topic.store.close()
            except Exception as exc:
                # Whatever it is, the other topics are still to be kept.
                if not isinstance(exc, StorageError):
                    logger.exception("topic not closed topic=%s", topic.name)
                errors.append(f"topic {topic.name}: {exc}")
        try:
            self._stores.close()
        except StorageError as exc:
            errors.append(str(exc))
        self._is_closed = True
        saved = self._topology_file.save()
        if saved.done and saved.error is not None:
            errors.append(str(saved.error))
        if errors:
            raise StorageError("; ".join(errors))

    # Publishing and subscribing.

    def publish(self, topic_name: str, bodies: Sequence[bytes], *, defer_ms: int = 0) -> Ticket:
        """Publish to a topic, which is created when new. All or nothing; in the store by the end of this turn.

        The ticket is done when OK may be said. Raises InvalidTopicError, LimitError or ClosedError.
        """
        topic = self.topics.get(topic_name)
        created = DONE
        if topic is None or topic.created is not DONE or self.is_closing:
            topic, created = self._topic_for(topic_name)
        if defer_ms:
            ticket = topic.publish_deferred(bodies, self._clock.monotonic_ns() + defer_ms * NS_PER_MS)
        else:
            ticket = topic.publish(bodies)
        return ticket if created is DONE else all_of((created, ticket))

    def publish_turn(self, topic_name: str, bodies: Sequence[bytes]) -> Ticket:
        """The same for what all of a turn's single messages are: they go to the store at once."""
        topic = self.topics.get(topic_name)
        if topic is None or topic.created is not DONE or self.is_closing:
            return self.publish(topic_name, bodies)
        return topic.publish_at_once(bodies)

    def publish_keyed(self, topic_name: str, body: bytes, key: bytes) -> Ticket:
        """`publish` of one message with a key; only a topic of the log keeps one. Raises InvalidStorageError, and as
        `publish`."""
        topic, created = self._log_topic_for(topic_name)
        return all_of((created, log_acts.publish_keyed(topic, body, key)))

    def write_batch(
        self,
        topic_name: str,
        bodies: Sequence[bytes],
        *,
        batch_key: bytes,
        keys: Sequence[bytes] | None = None,
        is_replayed: bool = False,
        number: int | None = None,
    ) -> tuple[log_acts.WrittenBatch, Ticket]:
        """Publish messages once per `batch_key`, 16 bytes and not zero: as one record, all or nothing. Asked again,
        it answers what the first got; the topic is created when new.

        keys: of each message, of no bytes for none. number: of the topic that is meant, None for any. Raises
        TopicChangedError when the topic has another number, BatchKeyConflictError when the key was used for other
        messages, InvalidStorageError for a disk queue, and as `publish`.
        """
        there = self.topics.get(topic_name)
        if number is not None and (there is None or there.number != number):
            now = "does not exist" if there is None else f"has number {there.number}"
            raise TopicChangedError(f"topic {topic_name} {now}, and number {number} is meant")
        topic, created = self._log_topic_for(topic_name)
        if keys is not None and not any(keys):
            keys = None
        written, ticket = log_acts.write_batch(topic, bodies, batch_key, keys, is_replayed=is_replayed)
        return written, all_of((created, ticket))

    def _log_topic_for(self, name: str) -> tuple[Topic, Ticket]:
        """As `_topic_for`, but none is created that would be a disk queue. Raises InvalidStorageError."""
        self._check_open()
        kind = self._stores.kind_of(name)
        is_known = name in self.topics or is_reserved(name)
        if not is_known and is_valid_name(name) and kind != LOG_KIND:
            raise InvalidStorageError(f"topic {name} would have storage kind {kind}: only the log keeps keys")
        topic, created = self._topic_for(name)
        log_acts.log_store_of(topic, "keeps keys")
        return topic, created

    def note_append(self, ticket: Ticket) -> None:
        """Learn from a settled append whether the disk takes what is published."""
        self._publish_error = ticket.error

    def subscribe(self, topic_name: str, channel_name: str, consumer: Consumer) -> tuple[Channel, Ticket]:
        """Make `consumer` one of the channel's; topic and channel are created when new.

        Raises InvalidTopicError, InvalidChannelError, LimitError or ClosedError.
        """
        topic, topic_created = self._topic_for(topic_name)
        channel, channel_created = self._channel_for(topic, channel_name)
        limit = self.options.max_channel_consumers
        if limit and len(channel.consumers) >= limit:
            raise LimitError(f"consumers for {topic_name}:{channel_name} exceeds limit of {limit}")
        channel.add_consumer(consumer)
        return channel, all_of((topic_created, channel_created))

    def unsubscribe(self, channel: Channel, consumer: Consumer) -> None:
        """The consumer's connection ended."""
        channel.remove_consumer(consumer, gives_back=self.options.requeue_on_disconnect and not channel.is_deleted)
        if not channel.consumers and is_ephemeral(channel.name) and not channel.is_deleted:
            self.flush()
            topic = self.topics[channel.topic_name]
            topic.delete_channel(channel.name)
            if not topic.channels and is_ephemeral(topic.name):
                self._delete(topic)

    def add_client(self, client: Client) -> int:
        """Know a connection; returns its key, which is never used again."""
        key = self._next_client_key
        self._next_client_key += 1
        self.clients[key] = client
        return key

    def remove_client(self, key: int) -> None:
        self.clients.pop(key, None)

    # Topics and channels.

    def _take_number(self) -> int:
        number = self._next_number
        if number >= self._durable_number:
            raise TopologyError(f"nothing new can be created while topology.json can't be: {self._topology_file.error}")
        self._next_number += 1
        return number

    def _reserve_offsets(self) -> None:
        self._save_topology()

    def _save_topology(self) -> Ticket:
        """Write the present state; with it, numbers and offsets are promised."""
        return self._topology_file.save()

    def _add_topic(self, name: str, number: int, storage: str) -> Topic:
        topic = Topic(
            name,
            number,
            self._open_store(name) if self._open_store is not None else self._stores.make(name, number, storage),
            deferred_max=self.options.max_deferred_per_channel,
            wake=self._workload.wake,
            schedule=self._workload.schedule,
            pump_later=self._workload.pump_later,
            flush_later=self._workload.flush_later,
            on_appended=self.note_append,
            time_ns=self._clock.time_ns,
        )
        self.topics[name] = topic
        self._sorted_names = None
        return topic

    def _check_open(self) -> None:
        if self.is_closing:
            raise ClosedError
        # What was published before comes before what is asked now, though it is the same turn.
        self.flush()

    def _topic_for(self, name: str, storage: str = "") -> tuple[Topic, Ticket]:
        """The topic `name`, created when new, and the ticket of its creation. storage: its kind if it is new; ""
        for the default."""
        self._check_open()
        if is_reserved(name):
            raise ReservedTopicError(name)
        topic = self.topics.get(name)
        if topic is not None:
            return topic, self._creation_of(topic)
        if not is_valid_name(name):
            raise InvalidTopicError(f"topic name {name!r} is not valid: 1 to 64 characters of .a-zA-Z0-9_-")
        if len(self.topics) >= self.options.max_topics:
            raise LimitError(f"topic {name} is not created: {len(self.topics)} exist and the most is --max-topics")
        topic = self._add_topic(name, self._take_number(), self._stores.kind_of(name, storage))
        if not is_ephemeral(name):
            topic.created = self._save_topology()
        return topic, topic.created

    def _channel_for(self, topic: Topic, name: str) -> tuple[Channel, Ticket]:
        """The channel `name`, created when new, and the ticket of its creation."""
        self._check_open()
        channel = topic.channels.get(name)
        if channel is not None:
            return channel, self._creation_of(channel)
        if not is_valid_name(name):
            raise InvalidChannelError(f"channel name {name!r} is not valid: 1 to 64 characters of .a-zA-Z0-9_-")
        if len(topic.channels) >= self.options.max_channels_per_topic:
            raise LimitError(
                f"channel {topic.name}/{name} is not created: {len(topic.channels)} exist "
                "and the most is --max-channels-per-topic"
            )
        topic.flush()  # what was published before is not the new channel's, unless it waits at the topic
        channel = topic.open_channel(name, self._take_number())
        if not (is_ephemeral(name) or is_ephemeral(topic.name)):
            channel.created = self._save_topology()
        return channel, channel.created

    def _creation_of(self, one: Topic | Channel) -> Ticket:
        """Whether what was created before is on disk by now; it is written once more when that failed."""
        created = one.created
        if created.done:
            one.created = DONE if created.error is None else self._save_topology()
        return one.created

    def topic(self, name: str) -> Topic:
        """The topic `name`. Raises TopicNotFoundError, or ReservedTopicError for the server's own."""
        topic = self.topics.get(name)
        if topic is None and is_reserved(name):
            raise ReservedTopicError(name)
        if topic is None:
            raise TopicNotFoundError(f"topic {name} does not exist")
        topic.flush()  # an act comes after what was published before it
        return topic

    def channel(self, topic_name: str, channel_name: str) -> Channel:
        """One channel. Raises TopicNotFoundError or ChannelNotFoundError."""
        channel = self.topic(topic_name).channels.get(channel_name)
        if channel is None:
            raise ChannelNotFoundError(f"channel {topic_name}/{channel_name} does not exist")
        return channel

    # Acts. Each returns what it did, and the ticket after which that is durable.

    def create_topic(self, topic: str, *, storage: str = "") -> tuple[Outcome, Ticket]:
        """storage: the kind of a new topic, "" for the default. Raises InvalidStorageError when there is no such
        kind, or the topic exists and has another."""
        if storage and storage not in KINDS:
            raise InvalidStorageError(f"storage kind {storage!r} does not exist: it can be {' or '.join(KINDS)}")
        is_new = topic not in self.topics
        if not is_new and storage and not is_ephemeral(topic) and self.topics[topic].store.kind != storage:
            raise InvalidStorageError(
                f"topic {topic} exists with storage kind {self.topics[topic].store.kind} and can't become {storage}"
            )
        _, ticket = self._topic_for(topic, storage)
        return Outcome(created=is_new), ticket

    def create_channel(
        self, topic: str, channel: str, *, start: log_acts.Target | None = None
    ) -> tuple[Outcome, Ticket]:
        """start: where a new channel of a log topic begins; as always when None: with what is published from now on,
        or with what waits at the topic when it is the first. Raises InvalidStorageError."""
        owner = self.topic(topic)
        is_new = channel not in owner.channels
        if start is not None:
            log_acts.log_store_of(owner)
        one, ticket = self._channel_for(owner, channel)
        if is_new and start is not None:
            while owner.pump():
                pass  # the whole topic is its to choose from
            _, sought = log_acts.seek(owner, one, start)
            ticket = all_of((ticket, sought))
        return Outcome(created=is_new), ticket

    def delete_topic(self, topic: str) -> tuple[Outcome, Ticket]:
        """Drop a topic, its channels and all their messages; their consumers are disconnected."""
        self._check_open()
        durable = Ticket()
        outcome = self._delete(self.topic(topic), durable)
        return outcome, self._saved_as(durable)

    def _saved_as(self, durable: Ticket) -> Ticket:
        """Write what was deleted out of topology.json; that is what `durable` says."""
        saved = self._save_topology()
        saved.when_done(lambda done: durable.reject(done.error) if done.error else durable.resolve())
        return saved

    def _delete(self, topic: Topic, durable: Ticket = DONE) -> Outcome:
        topic.flush()
        depth, in_flight, deferred, clients = topic.store.depth, 0, 0, 0
        channels = len(topic.channels)
        for name in list(topic.channels):
            dropped = topic.delete_channel(name, durable)
            depth += dropped.depth
            in_flight += dropped.in_flight
            deferred += dropped.deferred
            clients += dropped.clients
        topic.is_deleted = True
        self._workload.forget(topic)
        del self.topics[topic.name]
        self._sorted_names = None
        topic.store.delete()
        return Outcome(depth=depth, in_flight=in_flight, deferred=deferred, channels=channels, clients=clients)

    def delete_channel(self, topic: str, channel: str) -> tuple[Outcome, Ticket]:
        """Drop a channel with all it holds; its consumers are disconnected."""
        self._check_open()
        self.channel(topic, channel)
        owner = self.topic(topic)
        durable = Ticket()
        outcome = owner.delete_channel(channel, durable)
        if not owner.channels and is_ephemeral(topic):
            self._delete(owner)
        return outcome, self._saved_as(durable)

    def empty_topic(self, topic: str, *, channels_too: bool = False) -> tuple[Outcome, Ticket]:
        """Drop what waits at the topic itself; with `channels_too` also all that its channels hold."""
        self._check_open()
        owner = self.topic(topic)
        dropped = owner.store.empty()
        depth, in_flight, deferred, channels = dropped.depth, 0, 0, 0
        if channels_too:
            for channel in owner.channels.values():
                emptied = channel.empty()
                depth += emptied.depth
                in_flight += emptied.in_flight
                deferred += emptied.deferred
                channels += 1
        outcome = Outcome(depth=depth, in_flight=in_flight, deferred=deferred, channels=channels)
        # How far a topic of the log has come while it does not flow is known to topology.json alone.
        is_frozen = owner.store.positions().released is not None
        return outcome, all_of((self._save_topology() if is_frozen else DONE, owner.store.synced()))

    def empty_channel(self, topic: str, channel: str) -> tuple[Outcome, Ticket]:
        """Drop all that a channel holds: waiting, deferred and in flight."""
        self._check_open()
        outcome = self.channel(topic, channel).empty()
        return outcome, self.topics[topic].store.synced()

    def pause_topic(self, topic: str) -> tuple[Outcome, Ticket]:
        """Stop the flow from the topic to its channels."""
        self._check_open()
        owner = self.topic(topic)
        owner.pause()
        return Outcome(depth=owner.store.depth), self._save_topology()

    def unpause_topic(self, topic: str) -> tuple[Outcome, Ticket]:
        self._check_open()
        owner = self.topic(topic)
        owner.unpause()
        return Outcome(depth=owner.store.depth), self._save_topology()

    def pause_channel(self, topic: str, channel: str) -> tuple[Outcome, Ticket]:
        """Stop the flow from the channel to its consumers; what is in flight stays so."""
        self._check_open()
        one = self.channel(topic, channel)
        one.pause()
        return Outcome(depth=one.backlog.depth, in_flight=one.in_flight_count), self._save_topology()

    def unpause_channel(self, topic: str, channel: str) -> tuple[Outcome, Ticket]:
        self._check_open()
        one = self.channel(topic, channel)
        one.unpause()
        return Outcome(depth=one.backlog.depth, in_flight=one.in_flight_count), self._save_topology()

    def requeue_in_flight(
        self, topic: str, channel: str, *, client_key: int | None = None, message_id: str | None = None
    ) -> tuple[Outcome, Ticket]:
        """Put messages in flight back in the queue now: one, one client's, or all."""
        self._check_open()
        one = self.channel(topic, channel)
        encoded = None if message_id is None else message_id.encode("ascii", "replace")
        outcome = one.requeue_in_flight(client_key=client_key, message_id=encoded)
        return outcome, self.topics[topic].store.synced()

    def release_deferred(self, topic: str, channel: str) -> tuple[Outcome, Ticket]:
        """Let all deferred messages of a channel wait like the others now."""
        self._check_open()
        outcome = self.channel(topic, channel).release_deferred()
        return outcome, self.topics[topic].store.synced()

    # Reading and rewinding, on topics of the log.

    def _readable(self, name: str) -> Topic:
        """The topic `name` for who only reads it, the server's own included. Raises TopicNotFoundError."""
        if not is_reserved(name) or name in self.topics:
            return self.topic(name)
        if self._sampler.topic is None:
            raise TopicNotFoundError(f"topic {name} does not exist: no samples are kept (--samples-interval)")
        return self._sampler.topic

    def read_messages(self, topic: str, target: log_acts.Target, count_max: int) -> MessagePage:
        """Messages from a place of a topic on, without consuming. Raises TopicNotFoundError, InvalidStorageError,
        LimitError or StorageError."""
        return log_acts.read_page(self._readable(topic), target, count_max)

    def read_frames(self, topic: str, offset: int, bytes_max: int) -> Frames:
        """Messages in bulk, in wire form, only what is known to be on the disk. Raises as `read_messages`."""
        return log_acts.read_frames(self._readable(topic), offset, bytes_max)

    def read_records(self, topic: str, offset: int, bytes_max: int) -> Records:
        """A topic's records as the log has them, unchecked; the first may begin before `offset`. Only what is known to
        be on the disk. Raises as `read_messages`."""
        return log_acts.read_records(self._readable(topic), offset, bytes_max)

    def log_place(self, topic: str, time_ns: int | None = None) -> log_acts.LogPlace:
        """Which topic of the log it is and how far it goes; with `time_ns` (Unix) also where the messages from then
        on begin. Raises TopicNotFoundError, InvalidStorageError or StorageError."""
        return log_acts.log_place(self._readable(topic), time_ns)

    def lease_log(
        self, topic: str, offset: int, *, ttl_ms: int, segments_max: int = log_acts.LEASE_SEGMENTS_MAX
    ) -> tuple[Lease, Ticket]:
        """Keep a topic's messages from `offset` on, whoever consumes them, and tell which complete segments they are
        in. Raises TopicNotFoundError, InvalidStorageError, LimitError or StorageError."""
        self._check_open()
        return log_acts.lease(self.topic(topic), offset, ttl_ms, segments_max)

    def renew_lease(
        self, name: str, *, ttl_ms: int, offset: int | None = None, segments_max: int = log_acts.LEASE_SEGMENTS_MAX
    ) -> tuple[Lease, Ticket]:
        """Keep it longer; `offset` moves it. Raises LeaseNotFoundError when it is lost, otherwise as `lease_log`."""
        self._check_open()
        hold = self._stores.hold(name)
        topic = next((one for one in self.topics.values() if one.number == hold.topic_number), None)
        assert topic is not None, "a hold ends with its topic"
        return log_acts.renew_lease(topic, hold, hold.offset if offset is None else offset, ttl_ms, segments_max)

    def release_lease(self, name: str) -> Ticket:
        """Nothing is kept for it any more. Raises LeaseNotFoundError."""
        self._check_open()
        return self._stores.give_back(name)

    def peek_channel(self, topic: str, channel: str, count_max: int) -> MessagePage:
        """What a channel would deliver next, without consuming. Raises as `read_messages`."""
        return log_acts.peek(self.topic(topic), self.channel(topic, channel), count_max)

    def seek_preview(self, topic: str, channel: str, target: log_acts.Target) -> log_acts.SeekPreview:
        """What `seek_channel` would do. Raises as `read_messages`."""
        return log_acts.seek_preview(self.topic(topic), self.channel(topic, channel), target)

    def seek_channel(self, topic: str, channel: str, *, target: log_acts.Target) -> tuple[Outcome, Ticket]:
        """Move a channel back or forth. The outcome tells what waits then, and what was in flight. Raises as
        `read_messages`."""
        self._check_open()
        return log_acts.seek(self.topic(topic), self.channel(topic, channel), target)

    # Pipeline cursors, on topics of the log. No act on channels concerns them.

    def create_cursor(self, topic: str, *, cursor: str, start: log_acts.Target | None = None) -> tuple[Outcome, Ticket]:
        """Keep for a reader what it has not passed: everything there is unless `start` names another place. One that
        is there stays as it is. Raises TopicNotFoundError, InvalidStorageError, InvalidCursorError or LimitError."""
        self._check_open()
        owner = self.topic(topic)
        outcome, ticket = cursor_acts.create(owner, cursor, start or log_acts.Target(word=log_acts.START))
        return outcome, all_of((self._creation_of(owner), ticket))

    def move_cursor(self, topic: str, *, cursor: str, number: int, offset: int) -> tuple[CursorStats, Ticket]:
        """The reader has everything before `offset` for good; `number` is the topic's as it knows it. Raises
        TopicNotFoundError, InvalidStorageError, TopicChangedError, CursorNotFoundError or LimitError."""
        self._check_open()
        return cursor_acts.move(self.topic(topic), cursor, number, offset)

    def delete_cursor(self, topic: str, *, cursor: str) -> tuple[Outcome, Ticket]:
        """Keep nothing for it any more; the outcome tells how many messages it gives up. Raises TopicNotFoundError,
        InvalidStorageError or CursorNotFoundError."""
        self._check_open()
        return cursor_acts.delete(self.topic(topic), cursor)

    def cursor(self, topic: str, cursor: str) -> CursorStats:
        """One cursor at this moment. Raises TopicNotFoundError, InvalidStorageError or CursorNotFoundError."""
        return cursor_acts.cursor_stats(self.topic(topic), cursor)

    def cursors(self, topic: str = "") -> cursor_acts.CursorList:
        """All cursors, or one topic's, and those that are no more."""
        cursors, ended = self._stores.cursors()
        owners = [self.topics[name] for name in sorted({one.topic for one in cursors if topic in ("", one.topic)})]
        return cursor_acts.CursorList(
            tuple(stats for owner in owners for stats in cursor_acts.stats_of_topic(owner)),
            tuple(one for one in ended if topic in ("", one.cursor.topic)),
        )

    def in_flight(self, topic: str, channel: str, limit: int = 100) -> list[InFlightStats]:
        """The first messages in flight of a channel, earliest deadline first."""
        return self.channel(topic, channel).in_flight_stats(self._clock.monotonic_ns(), limit)

    # The work of each turn.

    @property
    def has_work(self) -> bool:
        return self._workload.is_waiting or self._stores.has_work

    def flush(self) -> None:
        """Append what was published in this turn; their tickets are settled now or when the store says."""
        self._workload.flush()
        self._stores.commit()

    def turn(self) -> None:
        """Append what was published and deliver what can be delivered; a bounded amount, the rest is left for the
        next turn (`has_work`)."""
        self.flush()
        self._workload.turn(delivers=not self.is_closing)
        self._stores.end_turn()

    def scan_pass(self) -> tuple[int, int]:
        """One pass of the scan loop over at most `queue_scan_selection_count` channels that have something due.

        Returns (channels handled, of these dirty). The channels are picked by earliest deadline.
        """
        return self._workload.expire_due(self.options.queue_scan_selection_count)

    def is_pass_dirty(self, handled: int, dirty: int) -> bool:
        """Whether another pass should follow at once (nsqd's dirty percent)."""
        return handled > 0 and dirty * 100 > self.options.queue_scan_dirty_percent * handled

    def tick(self) -> None:
        """Start the syncs whose time has come, and try again what the disk refused."""
        now_ns = self._clock.monotonic_ns()
        self._stores.tick(now_ns)
        if self._topology_file.error is not None and now_ns >= self._topology_retry_ns:
            self._topology_retry_ns = now_ns + TOPOLOGY_RETRY_NS
            self._save_topology()
        self._workload.retry_stalled()
        self._sampler.tick(now_ns)
        self._tidy(now_ns)

    def _tidy(self, now_ns: int) -> None:
        """Tidy every channel once per TIDY_INTERVAL_NS, a few at a time."""
        if now_ns >= self._tidy_at_ns:
            self._tidy_at_ns = now_ns + TIDY_INTERVAL_NS
            self._untidied = iter([channel for topic in self.topics.values() for channel in topic.channels.values()])
        for channel in islice(self._untidied, TIDY_CHANNELS_MAX):
            channel.tidy()

    # Figures.

    def stats(self, *, topic: str = "", channel: str = "", include_clients: bool = True) -> EngineSnapshot:
        """All figures, or those of one topic or channel, at this moment."""
        slices = self.stats_in_slices(lambda t, c: include_clients, topic=topic, channel=channel)
        while True:
            try:
                next(slices)
            except StopIteration as stop:
                snapshot: EngineSnapshot = stop.value
                return snapshot

    def stats_in_slices(
        self, wants_clients: Callable[[str, str], bool], *, topic: str = "", channel: str = ""
    ) -> Generator[None, None, EngineSnapshot]:
        """The same in short steps: yields between them, returns the snapshot.

        A channel's figures agree among themselves; those of different slices are moments apart.
        wants_clients(topic, channel): whether that channel's clients are listed.
        """
        if self._sorted_names is None:
            self._sorted_names = sorted(self.topics)
        names = self._sorted_names if not topic else [topic]
        listed: list[TopicStats] = []
        sliced = 0
        for name in names:
            one = self.topics.get(name)
            if one is None:
                continue
            channels = []
            for channel_name in sorted(one.channels):
                if channel and channel != channel_name:
                    continue
                each = one.channels.get(channel_name)
                if each is None:
                    continue  # deleted between two slices
                channels.append(each.stats(self._clients_of(each) if wants_clients(name, channel_name) else None))
                sliced += 1
                if sliced >= SNAPSHOT_SLICE_CHANNELS:
                    sliced = 0
                    yield
            if one.is_deleted:
                continue
            listed.append(one.stats(tuple(channels), cursor_acts.stats_of_topic(one)))
            sliced += 1
        producers = [client for client in self.clients.values() if client.is_producer]
        self._sequence += 1
        return EngineSnapshot(
            sequence=self._sequence,
            taken_at_ns=self._clock.time_ns(),
            started_at_ns=self.started_at_ns,
            version=VERSION,
            health=self.health,
            connection_count=len(self.clients),
            producer_count=len(producers),
            topics=tuple(listed),
            producers=tuple(client.stats() for client in producers) if wants_clients("", "") else (),
            log=self._stores.log_stats(),
        )

    def offer_sample(self, snapshot: EngineSnapshot) -> None:
        """Whoever makes snapshots of all topics hands them in, each second: from some of them samples are made."""
        if SAMPLES_TOPIC not in self.topics:
            self._sampler.offer(snapshot)

    def _clients_of(self, channel: Channel) -> tuple[ClientStats, ...]:
        return tuple(self.clients[key].stats() for key in channel.consumers if key in self.clients)

    def _compose_topology(self) -> tuple[bytes, Callable[[], None]]:
        """topology.json as of now, and what is to be called once it is on the disk: what it promises may be given."""
        entries = [
            TopicEntry(
                name=topic.name,
                paused=topic.paused,
                number=topic.number,
                storage=topic.store.kind,
                channels=tuple(
                    ChannelEntry(
                        name=channel.name,
                        paused=channel.paused,
                        number=channel.number,
                        start=positions.channel_starts.get(channel.name, 0),
                    )
                    for channel in topic.channels.values()
                    if not is_ephemeral(channel.name)
                ),
                id_base=positions.id_base,
                reserved_offset=positions.reserved_offset,
                released=positions.released,
            )
            for topic, positions in [(topic, topic.store.positions()) for topic in self.topics.values()]
            if not is_ephemeral(topic.name)
        ]
        next_number = self._next_number if self._is_closed else self._next_number + NUMBERS_AHEAD
        reserving = self._stores.reserving()

        def durable() -> None:
            self._durable_number = next_number
            self._stores.reserved(reserving)

        content = Topology(tuple(entries), next_number, self._largest_msg_size).to_json(VERSION)
        return content, durable
