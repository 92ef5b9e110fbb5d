"""Which topics and channels there are: found by name, made when new, dropped, and told to topology.json.

Numbers and offsets are given only as far as topology.json, on the disk, promises that they may have been.
"""

import logging
from collections.abc import Callable

from queue_engine import log_acts
from queue_engine.clock import NS_PER_S, Clock
from queue_engine.delivery.channel import Channel
from queue_engine.delivery.stats import Outcome
from queue_engine.delivery.topic import Topic
from queue_engine.delivery.workload import Workload
from queue_engine.errors import (
    ChannelNotFoundError,
    InvalidChannelError,
    InvalidStorageError,
    InvalidTopicError,
    LimitError,
    ReservedTopicError,
    TopicNotFoundError,
    TopologyError,
)
from queue_engine.names import is_ephemeral, is_reserved, is_valid_name
from queue_engine.options import Options
from queue_engine.storage.background import Background
from queue_engine.storage.files import Files
from queue_engine.storage.log_topic_store import KIND as LOG_KIND
from queue_engine.storage.store import TopicStore
from queue_engine.stores import Stores
from queue_engine.ticket import DONE, Ticket
from queue_engine.topology import ChannelEntry, TopicEntry, Topology, TopologyFile, load_topology
from queue_engine.version import VERSION

logger = logging.getLogger(__name__)

RETRY_NS = NS_PER_S
# topology.json promises that so many numbers more than it was told of may be given.
NUMBERS_AHEAD = 65_536


class Catalog:
    """The topics of one engine, and their channels.

    topics: by name. check_open: raises ClosedError when nothing may be created; what was published before is
    appended by it. on_appended: told of each settled append. open_store: makes a topic's store; None: by storage kind.
    """

    def __init__(
        self,
        options: Options,
        *,
        clock: Clock,
        files: Files,
        background: Background,
        stores: Stores,
        workload: Workload,
        check_open: Callable[[], None],
        on_appended: Callable[[Ticket], None],
        open_store: Callable[[str], TopicStore] | None,
    ) -> None:
        self.topics: dict[str, Topic] = {}
        self._options = options
        self._clock = clock
        self._stores = stores
        self._workload = workload
        self.check_open = check_open
        self._on_appended = on_appended
        self._open_store = open_store
        self._file = TopologyFile(options.data_path, files, background, self._compose)
        self._retry_ns = 0
        self._next_number = 1
        self._durable_number = 0  # numbers below it may be given
        self._is_closed = False
        self._largest_msg_size = options.max_msg_size
        self._sorted_names: list[str] | None = None

    @property
    def error(self) -> TopologyError | None:
        """Why topology.json could not be written last; None when it was."""
        return self._file.error

    # Start and stop.

    def open(self) -> None:
        """Load the topology and open every queue it names. Raises TopologyError or StorageError; then nothing on
        disk was changed."""
        topology = load_topology(self._options.data_path)
        # Those that nsqd's file names have no number yet; all are durable before anything else is done.
        self._next_number = topology.next_number
        self._durable_number = self._next_number + NUMBERS_AHEAD
        self._largest_msg_size = max(self._options.max_msg_size, topology.largest_msg_size)
        self._stores.disk_queues.set_largest_msg_size(self._largest_msg_size)
        self._stores.open(topology.topics)
        for entry in topology.topics:
            topic = self._add_topic(entry.name, entry.number or self._take_number(), entry.storage)
            for channel_entry in entry.channels:
                channel = topic.open_channel(channel_entry.name, channel_entry.number or self._take_number())
                channel.paused = channel_entry.paused
            if entry.paused:
                topic.pause()

    def begin(self) -> None:
        """Everything is open: promise what may be given from now on."""
        # Numbers and offsets are promised before they are given; larger messages may come than ever before, and
        # whoever reads the queues later must know.
        try:
            self._file.write_now()
        except TopologyError as exc:
            # No room, perhaps: what there is can be consumed, and the write is tried again.
            logger.error("topology not written error=%s", exc)
            self._durable_number = self._next_number
        else:
            self._stores.remove_unknown()

    def close(self) -> Ticket:
        """Write what there is for the last time, with no numbers ahead."""
        self._is_closed = True
        return self._file.save()

    def tick(self, now_ns: int) -> None:
        """Try again what the disk refused. now_ns: monotonic."""
        if self._file.error is not None and now_ns >= self._retry_ns:
            self._retry_ns = now_ns + RETRY_NS
            self.save()

    # What there is.

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

    def sorted_names(self) -> list[str]:
        """Of all topics; the same list until there are others."""
        if self._sorted_names is None:
            self._sorted_names = sorted(self.topics)
        return self._sorted_names

    # What is made.

    def topic_for(self, name: str, storage: str = "") -> tuple[Topic, Ticket]:
        """The topic `name`, created when new, and the ticket of its creation. storage: its kind if it is new; ""
        for the default."""
        self.check_open()
        if is_reserved(name):
            raise ReservedTopicError(name)
        topic = self.topics.get(name)
        if topic is not None:
            return topic, self.creation_of(topic)
        if not is_valid_name(name):
            raise InvalidTopicError(f"topic name {name!r} is not valid: 1 to 64 characters of .a-zA-Z0-9_-")
        if len(self.topics) >= self._options.max_topics:
            raise LimitError(f"topic {name} is not created: {len(self.topics)} exist and the most is --max-topics")
        topic = self._add_topic(name, self._take_number(), self._stores.kind_of(name, storage))
        if not is_ephemeral(name):
            topic.created = self.save()
        return topic, topic.created

    def log_topic_for(self, name: str) -> tuple[Topic, Ticket]:
        """As `topic_for`, but none is created that would be a disk queue. Raises InvalidStorageError."""
        self.check_open()
        kind = self._stores.kind_of(name)
        is_known = name in self.topics or is_reserved(name)
        if not is_known and is_valid_name(name) and kind != LOG_KIND:
            raise InvalidStorageError(f"topic {name} would have storage kind {kind}: only the log keeps keys")
        topic, created = self.topic_for(name)
        log_acts.log_store_of(topic, "keeps keys")
        return topic, created

    def channel_for(self, topic: Topic, name: str) -> tuple[Channel, Ticket]:
        """The channel `name`, created when new, and the ticket of its creation."""
        self.check_open()
        channel = topic.channels.get(name)
        if channel is not None:
            return channel, self.creation_of(channel)
        if not is_valid_name(name):
            raise InvalidChannelError(f"channel name {name!r} is not valid: 1 to 64 characters of .a-zA-Z0-9_-")
        if len(topic.channels) >= self._options.max_channels_per_topic:
            raise LimitError(
                f"channel {topic.name}/{name} is not created: {len(topic.channels)} exist "
                "and the most is --max-channels-per-topic"
            )
        topic.flush()  # what was published before is not the new channel's, unless it waits at the topic
        channel = topic.open_channel(name, self._take_number())
        if not (is_ephemeral(name) or is_ephemeral(topic.name)):
            channel.created = self.save()
        return channel, channel.created

    def creation_of(self, one: Topic | Channel) -> Ticket:
        """Whether what was created before is on disk by now; it is written once more when that failed."""
        created = one.created
        if created.done:
            one.created = DONE if created.error is None else self.save()
        return one.created

    def _add_topic(self, name: str, number: int, storage: str) -> Topic:
        topic = Topic(
            name,
            number,
            self._open_store(name) if self._open_store is not None else self._stores.make(name, number, storage),
            deferred_max=self._options.max_deferred_per_channel,
            wake=self._workload.wake,
            schedule=self._workload.schedule,
            pump_later=self._workload.pump_later,
            flush_later=self._workload.flush_later,
            on_appended=self._on_appended,
            time_ns=self._clock.time_ns,
        )
        self.topics[name] = topic
        self._sorted_names = None
        return topic

    def _take_number(self) -> int:
        number = self._next_number
        if number >= self._durable_number:
            raise TopologyError(f"nothing new can be created while topology.json can't be: {self._file.error}")
        self._next_number += 1
        return number

    # What is dropped.

    def drop(self, topic: Topic, durable: Ticket = DONE) -> Outcome:
        """Drop a topic, its channels and all their messages. durable: when topology.json does not name it any more."""
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

    # topology.json.

    def save(self) -> Ticket:
        """Write the present state; with it, numbers and offsets are promised."""
        return self._file.save()

    def reserve_offsets(self) -> None:
        """A topic of the log needs more of them."""
        self.save()

    def save_as(self, durable: Ticket) -> Ticket:
        """Write what was deleted out of topology.json; that is what `durable` says."""
        saved = self.save()
        saved.when_done(lambda done: durable.reject(done.error) if done.error else durable.resolve())
        return saved

    def _compose(self) -> tuple[bytes, Callable[[], None]]:
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
