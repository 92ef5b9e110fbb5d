"""Finds topics and channels by name, creates and drops them, and has topology.json say so.

Creating, deleting and pausing come into force once the change is on the disk (`topology/change_log.py`), and not at all
when the disk refuses it. Until then a new topic or channel can't be found, and an old one goes on as it was; so the log
never has a record of a topic number that topology.json did not know first.
"""

import logging
import os
from collections.abc import Callable, Generator, Sequence

from queue_engine.delivery.channel import Channel
from queue_engine.delivery.consumer import Consumer
from queue_engine.delivery.fences import Fences
from queue_engine.delivery.stats import Outcome, Totals
from queue_engine.delivery.topic import Topic
from queue_engine.delivery.workload import Workload
from queue_engine.engine.catalog.acts_in_turn import ActsInTurn
from queue_engine.engine.catalog.stores import Stores
from queue_engine.engine.catalog.topology_promises import TopologyPromises
from queue_engine.engine.catalog.trash import Trash, TrashItem, log_store
from queue_engine.engine.topology.change_log import ChangeLog
from queue_engine.engine.topology.entries import ChannelEntry, TopicEntry
from queue_engine.engine.topology.log_guard import LogGuard
from queue_engine.engine.topology.topology import (
    Change,
    Topology,
    channel_created,
    channel_deleted,
    channel_trashed,
    released_upto,
    topic_created,
    topic_deleted,
    topic_restored,
    topic_trashed,
)
from queue_engine.engine.topology.trash_entry import TrashEntry
from queue_engine.storage.consume_queue.set_aside import set_aside
from queue_engine.storage.disk.background import Background
from queue_engine.storage.disk.files import Files
from queue_engine.storage.store import TopicStore
from queue_engine.vocabulary.clock import Clock
from queue_engine.vocabulary.errors import (
    ChannelNotFoundError,
    ClosedError,
    InvalidChannelError,
    InvalidTopicError,
    LimitError,
    ReservedTopicError,
    SegmentUnreadableError,
    StorageError,
    TopicNotFoundError,
    TopologyError,
    TrashConflictError,
)
from queue_engine.vocabulary.names import is_ephemeral, is_reserved, is_valid_name
from queue_engine.vocabulary.options.options import Options
from queue_engine.vocabulary.pieces import WorkInPieces, whole
from queue_engine.vocabulary.start_progress import StartProgress
from queue_engine.vocabulary.ticket import DONE, Ticket, after, all_done, or_unknown

logger = logging.getLogger(__name__)


class Catalog:
    """The topics of one engine, and their channels.

    topics: by name. trash: those without one. is_closing: publishes and acts are refused. pieces: does long work.
    open_store: makes a topic's store; None: by storage kind. progress: of the start.
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
        fences: Fences,
        pieces: WorkInPieces,
        progress: StartProgress,
        open_store: Callable[[str], TopicStore] | None,
    ) -> None:
        self.topics: dict[str, Topic] = {}
        self.on_names: Callable[[str], None] = lambda topic: None
        """Called with a topic's name when the topic, or a channel of it, has come or gone."""
        self.find_channels: Callable[[str], tuple[Ticket, Sequence[str]] | None] = lambda topic: None
        """Looks for the channels that a new topic has on other nodes; their names are there when the ticket, which is
        never rejected, is done. None: there is nowhere to look."""
        self.gone = Totals()  # of topics and channels deleted since the start
        self.is_closing = False
        self._options = options
        self._clock = clock
        self._files = files
        self._stores = stores
        self._workload = workload
        self._fences = fences
        self._pieces = pieces
        self._progress = progress
        self._open_store = open_store
        self._changes = ChangeLog(options.data_path, files, background)
        self._changes.make_room = stores.make_room
        self._guard = LogGuard(options.data_path, files)
        self._promises = TopologyPromises(options, clock, stores, self._changes, self._guard)
        self.trash = Trash(options, clock, self._changes, self._promises, pieces)
        self.acts_in_turn = ActsInTurn()
        self._creating = 0  # new topics whose change is not on the disk yet
        self._sorted_names: list[str] | None = None

    @property
    def error(self) -> TopologyError | None:
        """Why topology.json could not be written last; None when it was."""
        return self._changes.error

    @property
    def identity(self) -> str:
        """The identity of the data directory."""
        return self._changes.state.identity

    @property
    def latency_window_ms(self) -> int:
        """The longest time that the latency percentiles cover."""
        return self._options.e2e_processing_latency_window_time_ms

    @property
    def latency_percentiles(self) -> tuple[float, ...]:
        """The percentiles of the option, the largest first, as nsqd has them."""
        return tuple(sorted(set(self._options.e2e_processing_latency_percentile), reverse=True))

    @property
    def pause_limit_ms(self) -> int:
        """After how long a pause without an end has outlived its time; 0: never."""
        return self._options.pause_limit_ms

    # Start and stop.

    def open(self) -> None:
        """Load the topology and open every queue it names. Raises TopologyError or StorageError; then nothing on
        disk was changed."""
        found = self._changes.read()
        for warning in found.warnings:
            logger.warning("%s", warning)
        state = found.state
        if self._options.set_aside_segment:
            names = {topic.number: topic.name for topic in state.log_topics}
            set_aside(self._guard.directory, self._files, self._options.set_aside_segment, names)
        try:
            self._open_with(state, found.source)
        except SegmentUnreadableError as exc:
            name = os.path.basename(exc.path)
            raise StorageError(
                f"{exc}. Nothing was changed. When the disk can't be mended, --set-aside-segment {name} reports what "
                "would be lost without this file, and how to start without it"
            ) from exc

    def _open_with(self, state: Topology, source: str) -> None:
        self._promises.check(state, source)
        self._stores.disk_queues.set_largest_msg_size(max(self._options.max_msg_size, state.largest_msg_size))
        self._stores.open(list(state.topics.values()), on_reserve=self._promises.reserve_offsets)
        total, opened = sum(1 + len(entry.channels) for entry in state.topics.values()), 0
        for entry in state.topics.values():
            self._progress.at(f"topic {entry.name}", opened, total)
            opened += 1 + len(entry.channels)
            if entry.trash is not None:
                self.trash.open_topic(entry, self._stores.make(entry.name, entry.number, entry.storage))
                continue
            topic = self._make_topic(entry.name, entry.number, entry.storage)
            self.trash.open_channels(entry, topic.store)
            self._open_topic(topic, entry, opened - len(entry.channels), total)

    def _open_topic(self, topic: Topic, entry: TopicEntry, opened: int = 0, total: int = 0) -> None:
        """opened, total: how many topics and channels are open at a start, and how many there are."""
        self._add(topic)
        for place, channel_entry in enumerate(entry.channels.values(), opened):
            if channel_entry.trash is not None:
                continue
            self._progress.at(f"channel {entry.name}/{channel_entry.name}", place, total)
            channel = topic.open_channel(channel_entry.name, channel_entry.number)
            if channel_entry.paused:
                channel.set_paused(channel_entry.pause)
            elif channel_entry.ramp is not None:
                channel.set_running(channel_entry.ramp)
            channel.set_quarantine(channel_entry.max_attempts, channel_entry.redrive)
        if entry.paused:
            topic.set_paused(entry.pause)

    def begin(self) -> None:
        """Everything is open: reserve the numbers and offsets that may be given from now on."""
        self._promises.begin()

    def close(self) -> None:
        """Write topology.json for the last time, with nothing promised ahead. Raises TopologyError."""
        self._changes.close(self._finish)

    def _finish(self, state: Topology) -> None:
        self._promises.finish(state)
        for topic in self.topics.values():
            entry = state.topics.get(topic.number)
            if entry is not None and entry.id_base:
                positions = topic.store.positions()
                entry.reserved_offset, entry.released = positions.reserved_offset, positions.released

    def abandon(self) -> None:
        """Close all files, and change nothing on the disk."""
        self._changes.abandon()

    def tick(self, now_ns: int) -> None:
        """Retry writes that the disk refused. now_ns: monotonic."""
        self._changes.tick(now_ns)
        self._promises.tick(now_ns)
        self.trash.tick()

    # Finding.

    def topic(self, name: str) -> Topic:
        """The topic `name`. Raises TopicNotFoundError, or ReservedTopicError for the server's own."""
        topic = self.topics.get(name)
        if topic is None and is_reserved(name):
            raise ReservedTopicError(name)
        if topic is None:
            raise TopicNotFoundError(f"topic {name} does not exist")
        topic.flush()  # an act comes after the messages published before it
        return topic

    def channel(self, topic_name: str, channel_name: str) -> Channel:
        """One channel. Raises TopicNotFoundError or ChannelNotFoundError."""
        channel = self.topic(topic_name).channels.get(channel_name)
        if channel is None:
            raise ChannelNotFoundError(f"channel {topic_name}/{channel_name} does not exist")
        return channel

    def entry_of(self, topic: Topic, number: int) -> ChannelEntry:
        """The entry of a channel in topology.json, also of one in the trash."""
        return self._changes.state.topics[topic.number].channels[number]

    def sorted_names(self) -> list[str]:
        """The names of all topics; the same list until a topic is created or deleted."""
        if self._sorted_names is None:
            self._sorted_names = sorted(self.topics)
        return self._sorted_names

    # Creating.

    def check_open(self) -> None:
        """Append the messages published before the act that follows, though both are of one turn.
        Raises ClosedError while the engine stops."""
        if self.is_closing:
            raise ClosedError
        self.append_published()

    def append_published(self) -> None:
        """Append the messages published in this turn; the store settles each ticket now or later."""
        self._workload.flush()
        if self._stores.log is not None:
            self._stores.log.commit()

    def act(self, topic: str, begin: Callable[[Outcome], Ticket]) -> tuple[Outcome, Ticket]:
        """Begin an act on a topic or one of its channels when the earlier acts on that topic have ended; `begin` fills
        the outcome. Raises ClosedError."""
        self.check_open()
        outcome = Outcome()
        return outcome, self.acts_in_turn.run(topic, lambda: begin(outcome))

    def topic_ready(self, name: str, storage: str = "") -> Ticket:
        """Done when the topic exists, created when new. storage: its kind if it is new; "" for the default. Raises
        InvalidTopicError, LimitError or ClosedError."""
        self.check_open()
        if is_reserved(name):
            raise ReservedTopicError(name)
        return DONE if name in self.topics else self.acts_in_turn.run(name, lambda: self.create_topic(name, storage))

    def create_topic(self, name: str, storage: str = "", *, channel: str = "") -> Ticket:
        """Create the topic `name` when it is new, and with it a channel, in the act's turn. The ticket is done when
        they exist. A new topic begins with the channels that `find_channels` finds, so that each gets all messages."""
        if name in self.topics:
            return self.create_channel(self.topics[name], channel) if channel else DONE
        self._check_new_topic(name, channel)
        found = self.find_channels(name)
        if found is None:
            return self._create_topic(name, storage, [channel] if channel else [])
        looked, names = found

        def create() -> Ticket:
            self._check_new_topic(name, channel)
            lasting = [one for one in names if is_valid_name(one) and not is_ephemeral(one)]
            channels = list(dict.fromkeys([channel, *lasting] if channel else lasting))
            return self._create_topic(name, storage, channels[: self._options.max_channels_per_topic])

        return after(looked, create)

    def _check_new_topic(self, name: str, channel: str) -> None:
        self.check_open()
        if is_reserved(name):
            raise ReservedTopicError(name)
        if not is_valid_name(name):
            raise InvalidTopicError(f"topic name {name!r} is not valid: 1 to 64 characters of .a-zA-Z0-9_-")
        if channel:
            _check_channel_name(channel)
        count = len(self.topics) + self._creating
        if count >= self._options.max_topics:
            raise LimitError(f"topic {name} is not created: {count} exist and the most is --max-topics")

    def _create_topic(self, name: str, storage: str, channels: Sequence[str]) -> Ticket:
        kind = self._stores.kind_of(name, storage)
        queues = [name, *(f"{name}:{channel}" for channel in channels)]
        return after(
            self._stores.set_aside_former(name, kind, queues), lambda: self._create_on_free_names(name, kind, channels)
        )

    def _create_on_free_names(self, name: str, kind: str, channels: Sequence[str]) -> Ticket:
        self._check_new_topic(name, "")
        topic = self._make_topic(name, self._promises.take_number(), kind)
        if is_ephemeral(name):
            self._add(topic)
            return all_done([self.create_channel(topic, channel) for channel in channels])
        positions = topic.store.positions()
        entry = TopicEntry(
            name,
            number=topic.number,
            storage=topic.store.kind,
            id_base=positions.id_base,
            reserved_offset=positions.reserved_offset,
            released=positions.released,
        )
        changes = [*self._promises.join_log(), topic_created(entry)]
        numbers = {channel: self._promises.take_number() for channel in channels}
        lasting = {channel: number for channel, number in numbers.items() if not is_ephemeral(channel)}
        changes += [
            channel_created(topic.number, ChannelEntry(channel, number=number)) for channel, number in lasting.items()
        ]
        if lasting:
            changes += released_change(topic, None)
        self._creating += 1
        created = self._changes.append(*changes)

        def settled(done: Ticket) -> None:
            self._creating -= 1
            if done.error is not None:
                self._stores.discard(topic.store)
                return
            self._add(topic)
            for channel, number in numbers.items():
                topic.open_channel(channel, number)

        created.when_done(settled)
        return created

    def create_channel(self, topic: Topic, name: str, start: int | None = None) -> Ticket:
        """Create the channel `name` when it is new, in the act's turn. start: the offset it begins at; None: it gets
        messages published from now on, and as the first channel those that wait at the topic. The ticket is done when
        it exists."""
        if name in topic.channels:
            return DONE
        self.check_open()
        _check_channel_name(name)
        if len(topic.channels) >= self._options.max_channels_per_topic:
            raise LimitError(
                f"channel {topic.name}/{name} is not created: {len(topic.channels)} exist "
                "and the most is --max-channels-per-topic"
            )
        free = self._stores.set_aside_former(topic.name, topic.store.kind, [f"{topic.name}:{name}"])
        return after(free, lambda: self._create_channel(topic, name, start))

    def _create_channel(self, topic: Topic, name: str, start: int | None) -> Ticket:
        self.check_open()
        topic.flush()  # the new channel gets earlier messages only if they wait at the topic
        number = self._promises.take_number()
        begins = topic.store.plan_channel(name, start)
        if is_ephemeral(name) or is_ephemeral(topic.name):
            topic.open_channel(name, number, begins)
            return DONE
        limits, limit_trash = self.trash.limits(topic, name, begins)
        changes = [channel_created(topic.number, ChannelEntry(name, number=number, start=begins)), *limits]
        if not topic.paused and not has_lasting_channels(topic):
            changes += released_change(topic, None)
        created = self._changes.append(*changes)

        def settled(done: Ticket) -> None:
            if done.error is None:
                limit_trash()
                topic.open_channel(name, number, begins)
            else:
                topic.store.unplan_channel(name)

        created.when_done(settled)
        return created

    def subscribe(self, topic_name: str, channel_name: str, consumer: Consumer) -> tuple[Channel | None, Ticket]:
        """Make `consumer` one of the channel's; topic and channel are created when new. The channel is None until
        the ticket is done."""
        self.check_open()
        if is_reserved(topic_name):
            raise ReservedTopicError(topic_name)

        def attach() -> Ticket:
            self._attach(self.channel(topic_name, channel_name), consumer)
            return DONE

        topic = self.topics.get(topic_name)
        if topic is not None and channel_name in topic.channels and not self.acts_in_turn.is_busy(topic_name):
            ticket = attach()
        else:
            ticket = self.acts_in_turn.run(
                topic_name, lambda: after(self.create_topic(topic_name, channel=channel_name), attach)
            )
        topic = self.topics.get(topic_name)
        return topic.channels.get(channel_name) if topic is not None and ticket.done else None, ticket

    def _attach(self, channel: Channel, consumer: Consumer) -> None:
        limit = self._options.max_channel_consumers
        if limit and len(channel.consumers) >= limit:
            raise LimitError(f"consumers for {channel.topic_name}:{channel.name} exceeds limit of {limit}")
        channel.add_consumer(consumer)
        if consumer.is_closing:
            # Its connection ended while the channel was being created.
            self.leave(channel, consumer)

    def leave(self, channel: Channel, consumer: Consumer) -> None:
        """Remove a consumer whose connection ended. An ephemeral channel or topic is dropped with its last consumer."""
        gives_back = self._options.requeue_on_disconnect and not channel.is_deleted
        channel.remove_consumer(consumer)
        if gives_back:
            self._pieces.start(channel.taking_back(consumer))
        if not channel.consumers and is_ephemeral(channel.name) and not channel.is_deleted:
            self.append_published()
            topic = self.topics[channel.topic_name]
            self._drop_ephemeral_channel(topic, channel.name)
            if not topic.channels and is_ephemeral(topic.name) and not self.acts_in_turn.is_busy(topic.name):
                self._drop(topic)

    def _make_topic(self, name: str, number: int, storage: str, store: TopicStore | None = None) -> Topic:
        if store is None:
            open_store = self._open_store
            store = self._stores.make(name, number, storage) if open_store is None else open_store(name)
        topic = Topic(
            name,
            number,
            store,
            budgets=self._stores.budgets,
            workload=self._workload,
            clock=self._clock,
            fences=self._fences,
        )
        topic.on_channels = lambda: self.on_names(name)
        return topic

    def _add(self, topic: Topic) -> None:
        self.topics[topic.name] = topic
        self._sorted_names = None
        self.on_names(topic.name)

    # Deleting.

    def delete_topic(self, topic: Topic, outcome: Outcome, by: str = "") -> Ticket:
        """Delete a topic, in the act's turn. The outcome counts the messages that are lost, or can be restored. by: who
        deletes it."""
        if is_ephemeral(topic.name):
            return self._pieces.start(self._dropping(topic, outcome))
        if self.trash.takes(topic):
            # From here on messages wait at the topic. The change says up to which offset they were passed on.
            topic.hold()
            trashed, changes = self._trashing(topic, by)
            written = self._changes.append(*changes)
            written.when_done(lambda done: topic.resume() if done.error else None)
            return after(written, lambda: self._pieces.start(self._dropping(topic, outcome, trashed)))
        return after(
            self._changes.append(topic_deleted(topic.number)),
            lambda: self._pieces.start(self._dropping(topic, outcome)),
        )

    def _trashing(self, topic: Topic, by: str) -> tuple[TrashEntry, list[Change]]:
        trashed = self.trash.entry_of(topic.number, "delete_topic", by, topic.counts())
        released = released_change(topic, topic.store.positions().released)
        return trashed, [topic_trashed(topic.number, trashed), *released]

    def restore_topic(self, item: TrashItem, name: str, outcome: Outcome, *, swaps: bool, by: str = "") -> Ticket:
        """Give a topic in the trash the name `name`, in the act's turn. swaps: the topic of that name goes to the
        trash. The outcome counts the messages that come back. Raises LimitError or TrashConflictError."""
        self.check_open()
        living = self.topics.get(name) if swaps else None
        count = len(self.topics) + self._creating
        if living is None and count >= self._options.max_topics:
            raise LimitError(f"topic {name} is not restored: {count} exist and the most is --max-topics")
        if living is not None and not self.trash.takes(living):
            reason = self.trash.why_not(living)
            raise TrashConflictError(f"the topic {name} that exists now can't go to the trash: {reason}")
        changes: list[Change] = []
        trashed: TrashEntry | None = None
        if living is not None:
            living.hold()
            trashed, changes = self._trashing(living, by)
        number = item.store.number
        entry = self._changes.state.topics[number]
        changes.append(topic_restored(number, name))
        if not entry.paused and any(one.trash is None for one in entry.channels.values()):
            changes.append(released_upto(number, None))
        written = self._changes.append(*changes)

        def in_force() -> Generator[None, None, Ticket]:
            if living is not None:
                yield from self._dropping(living, Outcome(), trashed)
            store = self.trash.take_topic(item)
            store.name = name
            topic = self._make_topic(name, number, store.kind, store)
            self._open_topic(topic, entry)
            outcome.add(topic.counts())
            outcome.name = name
            outcome.trash = 0 if trashed is None else trashed.id
            return DONE

        written.when_done(lambda done: living.resume() if done.error and living is not None else None)
        return after(written, lambda: self._pieces.start(in_force()))

    def _drop(self, topic: Topic) -> None:
        """Drop an ephemeral topic that has no channels."""
        whole(self._dropping(topic, Outcome()))

    def _dropping(
        self, topic: Topic, outcome: Outcome, trashed: TrashEntry | None = None
    ) -> Generator[None, None, Ticket]:
        """Drop a topic, its channels, one after the other, and all their messages; topology.json does not name it any
        more. Its name goes last: until then messages published to it are dropped, too. trashed: all of it goes into the
        trash. The outcome counts the dropped messages."""
        topic.flush()
        dropped = Outcome()
        try:
            dropped.depth = topic.store.depth
        except Exception as exc:
            logger.error("topic deleted uncounted topic=%s error=%s", topic.name, exc)
        dropped.channels = len(topic.channels)
        for name in list(topic.channels):
            if name not in topic.channels:
                continue  # an ephemeral one, whose last consumer left
            try:
                dropped.add(self._drop_channel(topic, name, to_trash=trashed is not None))
            except Exception:
                logger.exception("channel deletion incomplete topic=%s channel=%s", topic.name, name)
            yield
        topic.flush()
        topic.is_deleted = True
        self.gone.add_topic(topic)
        self.gone.deletion_count += 1
        self._workload.forget(topic)
        self._fences.lift(topic)
        del self.topics[topic.name]
        self._sorted_names = None
        self.on_names(topic.name)
        outcome.add(dropped)
        if trashed is not None:
            self.trash.put_topic(topic, trashed)
            outcome.trash = trashed.id
            return DONE
        self.trash.forget_topic(topic.store)
        try:
            topic.store.delete()
        except Exception:
            # It has no name any more. Its messages in the log go at the next start; files of a disk queue are
            # set aside when a new one takes their name.
            logger.exception("topic deletion incomplete topic=%s", topic.name)
        return or_unknown(topic.store.forgotten(), "the topic is deleted, and syncing its files' removal failed")

    def delete_channel(self, channel: Channel, outcome: Outcome, by: str = "") -> Ticket:
        """Delete a channel, in the act's turn. The outcome counts the messages that are lost, or can be restored. by:
        who deletes it."""
        topic = self.topics[channel.topic_name]
        if is_ephemeral(channel.name) or is_ephemeral(topic.name):
            outcome.add(self._drop_ephemeral_channel(topic, channel.name))
            if not topic.channels and is_ephemeral(topic.name):
                self._drop(topic)
            return _forgotten(topic)
        trashed: TrashEntry | None = None
        if self.trash.takes(topic, channel.name):
            trashed = self.trash.entry_of(channel.number, "delete_channel", by, channel.counts())
        changes = [
            channel_deleted(topic.number, channel.number)
            if trashed is None
            else channel_trashed(topic.number, channel.number, trashed)
        ]
        if not topic.paused and not has_lasting_channels(topic, besides=channel):
            # From here on messages wait at the topic. The change says up to which offset they were passed on.
            topic.hold()
            changes += released_change(topic, topic.store.positions().released)
        written = self._changes.append(*changes)

        written.when_done(lambda done: topic.resume() if done.error else None)

        def in_force() -> Ticket:
            try:
                outcome.add(self._drop_channel(topic, channel.name, to_trash=trashed is not None))
                if trashed is not None:
                    outcome.trash = self.trash.put_channel(topic, channel, trashed)
            finally:
                topic.resume()
            return _forgotten(topic)

        return after(written, in_force)

    def _drop_channel(self, topic: Topic, name: str, *, to_trash: bool = False) -> Outcome:
        self.gone.add_channels([topic.channels[name].figures.stats(None)])
        self.gone.deletion_count += 1
        keep = log_store(topic).trash_channel if to_trash and not is_ephemeral(name) else None
        return topic.delete_channel(name, keep=keep)

    def _drop_ephemeral_channel(self, topic: Topic, name: str) -> Outcome:
        outcome = self._drop_channel(topic, name)
        if not topic.channels and not topic.paused and not is_ephemeral(topic.name):
            # The next channel does not get the messages of the last one. If this change is lost, it does.
            self._changes.append(*released_change(topic, topic.store.positions().released))
        return outcome

    def write(self, *changes: Change) -> Ticket:
        """Append changes to topology.json's, all or none; done when they are durable."""
        return self._changes.append(*changes)

    def released(self, topic: Topic, offset: int) -> Ticket:
        """Note that a topic of the log that does not flow goes on at `offset`; done when that is durable."""
        return self._changes.append(*released_change(topic, offset))


def _forgotten(topic: Topic) -> Ticket:
    return or_unknown(topic.store.forgotten(), "the channel is deleted, and syncing its messages' removal failed")


def _check_channel_name(name: str) -> None:
    if not is_valid_name(name):
        raise InvalidChannelError(f"channel name {name!r} is not valid: 1 to 64 characters of .a-zA-Z0-9_-")


def has_lasting_channels(topic: Topic, besides: Channel | None = None) -> bool:
    """Whether topology.json names a channel of the topic."""
    return any(one is not besides and not is_ephemeral(one.name) for one in topic.channels.values())


def released_change(topic: Topic, offset: int | None) -> list[Change]:
    """The change that says up to which offset a topic of the log passed messages on; None: they flow. Nothing for
    another kind."""
    return [released_upto(topic.number, offset)] if topic.store.positions().id_base else []
