"""Topics and channels without a name, removed by acts on topics of the log, until they expire.

Nothing of it is moved. A channel in the trash keeps its number and its progress
(`storage/progress/trashed_channels.py`), and the log retains its messages; `topology.json` has the reason why it has no
name, and until when (`topology/trash_entry.py`). So it survives whatever its topic survives.

    a channel is deleted     its entry in topology.json gets a `trash`; its progress stays as it is
    a channel is emptied     a new number without a name, durably; then, in one block of the journal, that number gets
                             the progress and the channel is emptied
    it is restored           where the name is gone a channel is created; then, in one block of the journal, that
                             channel gets the progress of both (`storage/progress/joining.py`) and the one in the trash
                             is emptied; then its number is deleted

A crash between two steps leaves an entry that a restore or its end deals with; no step loses messages.
"""

import logging
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from queue_engine.delivery.channel import Channel
from queue_engine.delivery.stats import Outcome, TrashTotals
from queue_engine.delivery.topic import Topic
from queue_engine.engine.catalog.topology_promises import TopologyPromises
from queue_engine.engine.topology.change_log import ChangeLog
from queue_engine.engine.topology.entries import ChannelEntry, TopicEntry
from queue_engine.engine.topology.topology import (
    Change,
    channel_created,
    channel_deleted,
    channel_redriven,
    released_upto,
    topic_deleted,
    trash_limited,
)
from queue_engine.engine.topology.trash_entry import TrashEntry
from queue_engine.storage.log_store.held_segments import HeldSegments
from queue_engine.storage.log_store.log_backlog import LogBacklog
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.storage.progress.channel_progress import ChannelProgress
from queue_engine.storage.progress.trashed_channels import TrashedChannel
from queue_engine.storage.store import TopicStore
from queue_engine.vocabulary.clock import NS_PER_MS, Clock
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.names import is_ephemeral
from queue_engine.vocabulary.options.options import Options
from queue_engine.vocabulary.pieces import WorkInPieces
from queue_engine.vocabulary.ticket import DONE, Ticket, after, or_unknown

logger = logging.getLogger(__name__)

# Each costs memory and a part of topology.json, and a program may delete a channel every second. As many as
# --max-topics, so that all topics at once have room.
ENTRIES_MAX = 10_000
# A start keeps the entries that it finds for so long at least: the clock may be wrong until the network corrects it.
LEAST_MS = 10 * 60_000


@dataclass(slots=True)
class TrashItem:
    """The entry that one act put into the trash. store: of its topic, which may have a name. channels: the numbers of
    its channels; of a topic that was deleted, none. ends_ns: monotonic. was_over: a start found it over."""

    entry: TrashEntry
    store: LogTopicStore
    channels: list[int] = field(default_factory=list)
    ends_ns: int = 0
    was_over: bool = False

    @property
    def is_topic(self) -> bool:
        return not self.channels

    @property
    def name(self) -> str:
        """orders, or orders/billing."""
        return f"{self.store.name}/{self.channel}" if self.channel else self.store.name

    @property
    def channel(self) -> str:
        """The name of the channel that was emptied or deleted; "" for a topic."""
        if self.is_topic or self.entry.act == "empty_topic":
            return ""
        return self.store.trash.all[self.channels[0]].name


class Trash:
    """Belongs to the engine's thread. items: by id, oldest first. topics: the stores of topics in the trash, by number.
    given_up_count: items that were deleted because the disk was full, or the trash too large, since the start."""

    def __init__(
        self, options: Options, clock: Clock, changes: ChangeLog, promises: TopologyPromises, pieces: WorkInPieces
    ) -> None:
        self.items: dict[int, TrashItem] = {}
        self.topics: dict[int, LogTopicStore] = {}
        self.bytes = 0  # of the log that the trash alone keeps, by the last tick
        self.given_up_count = 0
        self._age_ms = options.trash_age_ms
        self._clock = clock
        self._changes = changes
        self._promises = promises
        self._pieces = pieces
        self._unsure: list[tuple[LogTopicStore, int]] = []  # channels of acts that failed: to be deleted

    # Start.

    def open_channels(self, entry: TopicEntry, store: TopicStore) -> None:
        """Take over the channels of a topic that were in the trash before the start."""
        if not isinstance(store, LogTopicStore):
            return
        for number, channel in entry.channels.items():
            if channel.trash is not None:
                store.open_trashed(number, channel.name, channel.trash.upto)
                self._note_channel(channel.trash, store, number)

    def open_topic(self, entry: TopicEntry, store: TopicStore) -> None:
        """Take over a topic that was in the trash before the start."""
        assert entry.trash is not None
        assert isinstance(store, LogTopicStore), entry.name
        self.open_channels(entry, store)
        for number, channel in entry.channels.items():
            if channel.trash is None:
                store.open_trashed(number, channel.name, None)
        self._note_topic(entry.trash, store)

    def _note_channel(self, entry: TrashEntry, store: LogTopicStore, number: int) -> None:
        item = self.items.get(entry.id)
        if item is None:
            item = self.items[entry.id] = self._item(entry, store)
        item.channels.append(number)

    def _note_topic(self, entry: TrashEntry, store: LogTopicStore) -> None:
        store.set_in_trash(True)
        self.topics[store.number] = store
        self.items[entry.id] = self._item(entry, store)

    def _item(self, entry: TrashEntry, store: LogTopicStore) -> TrashItem:
        left_ms = entry.until_ms - self._clock.time_ns() // NS_PER_MS
        least_ms = min(LEAST_MS, entry.until_ms - entry.at_ms)
        ends_ns = self._clock.monotonic_ns() + max(left_ms, least_ms) * NS_PER_MS
        return TrashItem(entry, store, ends_ns=ends_ns, was_over=left_ms < least_ms)

    # Into the trash.

    def takes(self, topic: Topic, channel: str = "") -> bool:
        """Whether messages removed from a topic or its channel can be restored."""
        return bool(self._age_ms) and isinstance(topic.store, LogTopicStore) and not is_ephemeral(channel)

    def why_not(self, topic: Topic) -> str:
        """The reason for a topic that the trash does not take."""
        return f"it has storage kind {topic.store.kind}" if self._age_ms else "the trash is off (--trash-age 0)"

    def entry_of(self, number: int, act: str, by: str, counts: Outcome) -> TrashEntry:
        """An entry that is made now, with the id `number`."""
        now_ms = self._clock.time_ns() // NS_PER_MS
        return TrashEntry(
            number,
            act,
            by,
            now_ms,
            now_ms + self._age_ms,
            waiting=counts.depth,
            in_flight=counts.in_flight,
            deferred=counts.deferred,
            quarantined=counts.quarantined,
            channels=counts.channels,
        )

    def put_channel(self, topic: Topic, channel: Channel, entry: TrashEntry) -> int:
        """A channel was deleted, and topology.json says that it is in the trash. Returns the entry's id."""
        self._note_channel(entry, log_store(topic), channel.number)
        return entry.id

    def put_topic(self, topic: Topic, entry: TrashEntry) -> None:
        """The same of a topic, whose channels were deleted."""
        store = log_store(topic)
        store.put_away()
        self._note_topic(entry, store)

    def limits(self, topic: Topic, name: str, upto: int) -> tuple[list[Change], Callable[[], None]]:
        """A channel `name` is about to be created, and has the topic's messages from `upto` on: the changes that say so
        of those of its name in the trash, and the step that follows once they are durable."""
        store = topic.store
        open_ended = (
            [one for one in store.trash.named(name) if one.upto is None] if isinstance(store, LogTopicStore) else []
        )

        def limit() -> None:
            for one in open_ended:
                one.upto = upto

        return [trash_limited(topic.number, one.number, upto) for one in open_ended], limit

    def empty_topic(self, topic: Topic, outcome: Outcome, *, channels_too: bool, by: str = "") -> Ticket:
        """Move the messages that wait at a topic of the log into the trash; with `channels_too` also those of its
        channels."""
        channels = list(topic.channels.values()) if channels_too else []
        return self.empty_channels(topic, channels, outcome, own_too=True, act="empty_topic", by=by)

    def empty_channels(
        self,
        topic: Topic,
        channels: Sequence[Channel],
        outcome: Outcome,
        *,
        act: str,
        own_too: bool = False,
        by: str = "",
    ) -> Ticket:
        """Move the messages of channels of a topic of the log into the trash, in the act's turn. The outcome counts
        them. own_too: those that wait at the topic itself, too."""
        store = log_store(topic)
        is_frozen = store.positions().released is not None
        # Until it is done nothing more comes to the channels, so that they are emptied exactly up to `upto`.
        topic.hold()
        first, upto = store.released, store.end_offset if own_too else store.released
        lasting = [one for one in topic.channels.values() if not is_ephemeral(one.name)]
        copied = [one for one in channels if not is_ephemeral(one.name)]
        # Messages that wait at the topic would have gone to its channels, or to the first that is created.
        waited = lasting if not copied and first < upto else []
        named: list[tuple[str, Channel | None]] = [(one.name, one) for one in copied or waited]
        named = named or [("", None)]
        if not copied and first == upto:
            named = []
        copies: list[tuple[TrashedChannel, Channel | None]] = [
            (TrashedChannel(self._promises.take_number(), name, ChannelProgress(first), upto), channel)
            for name, channel in named
        ]
        backlogs = [(copy, None if one is None else channel_backlog(one)) for copy, one in copies]
        counts = Outcome(depth=store.depth if own_too else 0, channels=len(channels) if own_too else 0)
        for one in channels:
            counts.add(one.counts())
        made = replace(self.entry_of(copies[0][0].number, act, by, counts), upto=upto) if copies else None
        changes: list[Change] = [
            channel_created(
                topic.number,
                # Entries that only the journal has count once they are there; the messages that waited at the topic are
                # there.
                ChannelEntry(copy.name, number=copy.number, start=upto if one is not None else first, trash=made),
            )
            for copy, one in copies
        ]
        for copy, living in copies if copied else ():
            if living is not None and living.redrive is not None and not living.redrive.ended:
                # Its messages are in the trash now, and so is the redrive.
                changes.append(channel_redriven(topic.number, copy.number, living.redrive.redrive))
                changes.append(channel_redriven(topic.number, living.number, None))
        if own_too and is_frozen:
            # While a topic of the log does not flow, only topology.json says up to where it was passed on. It says so
            # before the journal: if that refuses, the next start passes the messages on, and none is lost.
            changes.append(released_upto(topic.number, upto))

        def prepare() -> Ticket:
            numbers = [copy.number for copy, _ in copies]
            try:
                if copied:
                    whole = [(copy, living) for copy, living in backlogs if living is not None]
                    ticket = self._pieces.start(store.trash.preparing_empty(whole, upto))
                else:
                    ticket = store.trash.prepare_range(backlogs, first, upto)
            except BaseException:
                self._forget(store, numbers)
                raise
            ticket.when_done(lambda done: self._forget(store, numbers) if done.error else None)
            if not (own_too and is_frozen):
                return ticket
            return or_unknown(ticket, "topology.json was written, the channels' progress was not")

        def in_force() -> Generator[None, None, Ticket]:
            copy_of = {living.number: copy for copy, living in backlogs if copied and living is not None}
            for copy, _ in () if copied else backlogs:
                store.trash.note_range(copy)
                if made is not None:
                    self._note_channel(made, store, copy.number)
            for one in channels:
                if (own := copy_of.get(one.number)) is not None and made is not None:
                    store.trash.untap(one.number)
                    store.quarantines.copy(one.number, own.number)
                    self._note_channel(made, store, own.number)
                if not one.is_deleted:
                    outcome.add(one.empty())
                    outcome.channels += own_too
                yield
            if own_too:
                # Behind the channels, whose copies have the messages that wait here.
                outcome.depth += store.empty(upto).depth
            outcome.trash = 0 if made is None else made.id
            return or_unknown(store.synced(), "messages were dropped, and syncing that failed")

        def begin() -> Ticket:
            # A journal that can't be written refuses the act before anything is dropped.
            ready = after(store.synced(), lambda: self._changes.append(*changes) if changes else DONE)
            return after(after(ready, prepare) if copies else ready, lambda: self._pieces.start(in_force()))

        return _resuming(topic, lambda: store.unmerged(begin))

    def _forget(self, store: LogTopicStore, numbers: Iterable[int]) -> None:
        """An act failed. Its channels go once the journal is in order: before, it may be the only record of their
        messages."""
        self._unsure += [(store, number) for number in numbers]

    # Out of the trash.

    def deletion(self, item: TrashItem) -> list[Change]:
        """The changes that delete an item for good."""
        if item.is_topic:
            return [topic_deleted(item.store.number)]
        return [channel_deleted(item.store.number, number) for number in item.channels]

    def drop(self, item: TrashItem) -> None:
        """An item is deleted for good, durably."""
        self.items.pop(item.entry.id, None)
        store = item.store
        if not item.is_topic:
            for number in item.channels:
                store.drop_trashed(number)
            return
        self.forget_topic(store)
        self.topics.pop(store.number, None)
        store.delete()

    def forget_topic(self, store: TopicStore) -> None:
        """A topic is deleted for good, with its entries in the trash."""
        for one in [one for one in self.items.values() if one.store is store]:
            del self.items[one.entry.id]

    def let_go(self, item: TrashItem) -> Ticket:
        """An item has nothing left: its messages came back, durably. When the disk refuses to write that down, it is
        tried again; until then a start finds an empty entry."""
        self.items.pop(item.entry.id, None)
        written = self._changes.append(*self.deletion(item))

        def settled(done: Ticket) -> None:
            if done.error is None:
                self.drop(item)
            else:
                self._forget(item.store, item.channels)
            ended.resolve()

        ended = Ticket()
        written.when_done(settled)
        return ended

    def take_topic(self, item: TrashItem) -> LogTopicStore:
        """A topic has a name again, durably."""
        del self.items[item.entry.id]
        store = self.topics.pop(item.store.number)
        store.set_in_trash(False)
        with_entry = {number for one in self.items.values() if one.store is store for number in one.channels}
        for number in [number for number in store.trash.all if number not in with_entry]:
            store.revive(number)
        return store

    def delete(self, item: TrashItem) -> Ticket:
        """Delete an item for good, in the act's turn."""
        written = self._changes.append(*self.deletion(item))
        written.when_done(lambda done: self.drop(item) if done.error is None else None)
        return written

    # Bytes and time.

    def tick(self) -> None:
        """Delete the remains of failed acts."""
        unsure = [(store, number) for store, number in self._unsure if not store.is_deleted]
        if not unsure or self._changes.error is not None or not all(store.is_journal_in_order for store, _ in unsure):
            return
        self._unsure = []
        for store, number in unsure:
            written = self._changes.append(channel_deleted(store.number, number))
            written.when_done(partial(self._settle, store, number))

    def _settle(self, store: LogTopicStore, number: int, done: Ticket) -> None:
        if done.error is None:
            store.drop_trashed(number)
        else:
            self._unsure.append((store, number))

    def totals(self) -> TrashTotals:
        return TrashTotals(len(self.items), self.bytes, self.given_up_count)

    def expired(self) -> list[TrashItem]:
        """Entries whose time has passed since they came here, or since the start (`vocabulary/steady_time.py`)."""
        return [item for item in self.items.values() if self._has_ended(item)]

    def _has_ended(self, item: TrashItem) -> bool:
        if item.ends_ns > self._clock.monotonic_ns():
            return False
        # Where a start found it over by a clock that was wrong, and has been set right since, it is not.
        return not item.was_over or item.entry.until_ms <= self._clock.time_ns() // NS_PER_MS

    def lasting(self) -> list[TrashItem]:
        """All but those whose time has passed, and that the next tick deletes; oldest first."""
        return [item for item in self.oldest_first() if not self._has_ended(item)]

    def surplus(self) -> list[TrashItem]:
        """The oldest items, as many as there are too many."""
        return self.oldest_first()[: max(0, len(self.items) - ENTRIES_MAX)]

    def oldest_first(self) -> list[TrashItem]:
        return sorted(self.items.values(), key=time_and_id)

    @staticmethod
    def bytes_of(item: TrashItem, held: HeldSegments) -> int:
        """How many bytes of the log an item would keep on the disk by itself, of those that the trash keeps, whole
        segments; other items may keep them, too. 0 while that can't be read."""
        store, end = item.store, held.end
        if item.is_topic:
            offsets = [store.needed_offset]
        else:
            trashed = [store.trash.all[number] for number in item.channels if number in store.trash.all]
            offsets = [one.needed_offset(store.end_offset) for one in trashed]
        try:
            return held.bytes_from(min((store.needed_position_from(offset, end) for offset in offsets), default=end))
        except StorageError:
            return 0


def time_and_id(item: TrashItem) -> tuple[int, int]:
    """The sort key of entries: the second part breaks the tie of the same millisecond."""
    return item.entry.at_ms, item.entry.id


def log_store(topic: Topic) -> LogTopicStore:
    assert isinstance(topic.store, LogTopicStore), topic.name
    return topic.store


def channel_backlog(channel: Channel) -> LogBacklog:
    assert isinstance(channel.backlog, LogBacklog), channel.name
    return channel.backlog


def _resuming(topic: Topic, act: Callable[[], Ticket]) -> Ticket:
    """Let the topic flow again when the act has ended."""
    try:
        ticket = act()
    except BaseException:
        topic.resume()
        raise
    ticket.when_done(lambda _: topic.resume())
    return ticket
