"""Acts on the trash: restore, delete for good; and deletions by the server itself.

An entry goes when its time is over, when the trash has more than ENTRIES_MAX or holds more of the log than
`--trash-max-bytes`, and when the disk is full: the oldest first, as many as are needed, after retention has removed
segments.
"""

import logging
from bisect import bisect_left
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from functools import partial

from queue_engine.delivery.channel import Channel
from queue_engine.delivery.stats import VIA_TIMER, ActRecord, Outcome
from queue_engine.delivery.topic import Topic
from queue_engine.engine.acts.pauses import Pauses
from queue_engine.engine.catalog.catalog import Catalog, released_change
from queue_engine.engine.catalog.stores import Stores
from queue_engine.engine.catalog.trash import ENTRIES_MAX, Trash, TrashItem, channel_backlog, log_store, time_and_id
from queue_engine.engine.topology.topology import Change, channel_paused, channel_redriven, max_attempts_set
from queue_engine.storage.log_store.channel_restore import ChannelRestore
from queue_engine.storage.log_store.held_segments import HeldSegments
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.storage.progress.trashed_channels import TrashedChannel
from queue_engine.vocabulary.acts.table import check
from queue_engine.vocabulary.clock import NS_PER_S, Clock
from queue_engine.vocabulary.errors import PenstockError, StorageError, TrashConflictError, TrashNotFoundError
from queue_engine.vocabulary.flow.redrive import RedriveState
from queue_engine.vocabulary.names import NAME_LENGTH_MAX, is_ephemeral
from queue_engine.vocabulary.options.options import Options
from queue_engine.vocabulary.pieces import WorkInPieces
from queue_engine.vocabulary.ticket import DONE, Ticket, after, all_done, or_unknown
from queue_engine.wire.trash import FreedBytes, TrashPage, TrashStats

logger = logging.getLogger(__name__)

TICK_NS = NS_PER_S
# On a full disk the next entry is given up when the room of the last one was not enough: the segments are removed and
# the disk is tried again within so long.
GIVE_UP_INTERVAL_NS = 5 * NS_PER_S
# The name of a topic that is restored while another has its name ends so, and further ones with a number behind it.
RESTORED_SUFFIX = ".restored"
RESTORED_NAMES_MAX = 99


class TrashActs:
    """Belongs to the engine's thread. on_act: gets the deletions by the server itself, for the audit list."""

    def __init__(
        self, catalog: Catalog, stores: Stores, pauses: Pauses, options: Options, clock: Clock, pieces: WorkInPieces
    ) -> None:
        self.topics = catalog.topics
        self.on_act: Callable[[ActRecord], None] = lambda record: None
        self._catalog = catalog
        self._trash: Trash = catalog.trash
        self._stores = stores
        self._pauses = pauses
        self._bytes_max = options.trash_max_bytes
        self._clock = clock
        self._pieces = pieces
        self._tick_at_ns = 0
        self._give_up_at_ns = 0
        self._bytes_before = 0  # of the trash when the last entry was given up
        self._is_deleting = False

    # Questions.

    @property
    def bytes(self) -> int:
        """Bytes of the log that the trash alone needs, by the last tick."""
        return self._trash.bytes

    def list(self) -> tuple[TrashStats, ...]:
        """All entries, newest first."""
        held = self._held()
        return tuple(self._stats_of(item, held) for item in reversed(self._trash.lasting()))

    def page(self, count_max: int, *, before: tuple[int, int] | None = None) -> TrashPage:
        """The newest entries; or those older than the one with this time (Unix ms) and id, which may be gone."""
        held = self._held()
        items = self._trash.lasting()
        end = len(items) if before is None else bisect_left(items, before, key=time_and_id)
        shown = items[max(0, end - count_max) : end]
        entries = tuple(self._stats_of(item, held) for item in reversed(shown))
        return TrashPage(entries, end > count_max, len(items), held.bytes)

    def one(self, trash: int, topic: str = "") -> TrashStats:
        """Raises TrashNotFoundError or InvalidStorageError."""
        return self._stats_of(self.item(trash, topic), self._held())

    def freed_by(
        self, emptied: Mapping[str, Collection[str]], *, own_too: bool, channels_too: bool, readers_too: bool
    ) -> FreedBytes:
        """The bytes that the disk gets back without the messages of these channels, or with `own_too` of those waiting
        at the topics, with `channels_too` of all their channels, with `readers_too` of their cursors and leases:
        once the trash has given it up. Topics that are gone, or not of the log, free nothing."""
        log = self._stores.log
        found = [self.topics[name] for name in emptied if name in self.topics]
        needed = {
            topic.store.number: topic.store.needed_without(
                topic.channels.keys() if channels_too else emptied[topic.name], own_too=own_too, readers_too=readers_too
            )
            for topic in found
            if isinstance(topic.store, LogTopicStore)
        }
        if log is None or not needed:
            return FreedBytes()
        try:
            size, holder = log.retention.freed_by(needed)
        except StorageError:
            return FreedBytes()
        return FreedBytes(size, holder.name if holder is not None else "")

    def _held(self) -> HeldSegments:
        """The segments that the trash alone needs; none while they can't be read, so that entries are still shown."""
        log = self._stores.log
        try:
            return HeldSegments([], []) if log is None else log.retention.held_by_trash()
        except StorageError:
            return HeldSegments([], [])

    def _stats_of(self, item: TrashItem, held: HeldSegments) -> TrashStats:
        entry, store = item.entry, item.store
        numbers = list(store.trash.all) if item.is_topic else item.channels
        trash = store.trash
        restorable = sum(
            [trash.restorable(number, store.queue, store.released) for number in numbers if number in trash.all]
        )
        if item.is_topic:
            restorable += store.depth  # waiting at the topic itself, which has no channel or is paused
        return TrashStats(
            id=entry.id,
            act=entry.act,
            topic=store.name,
            channel=item.channel,
            by=entry.by,
            at_ms=entry.at_ms,
            until_ms=entry.until_ms,
            waiting=entry.waiting,
            in_flight=entry.in_flight,
            deferred=entry.deferred,
            quarantined=entry.quarantined,
            channels=entry.channels,
            restorable=restorable,
            bytes=self._trash.bytes_of(item, held),
        )

    def item(self, trash: int, topic: str = "") -> TrashItem:
        """The entry with the id `trash`. topic: whose it must be, "" for any. Raises TrashNotFoundError, or
        InvalidStorageError for a topic that has no trash."""
        item = self._trash.items.get(trash)
        if item is None and topic in self.topics:
            check("restore_trash", self.topics[topic].store.kind, topic)
        if item is None or topic not in ("", item.store.name):
            raise TrashNotFoundError(
                f"trash entry {trash} does not exist: it was restored, deleted for good, expired, or given up for room"
            )
        return item

    def names_of(self, trash: int) -> tuple[str, str]:
        """Topic and channel of an entry, "" for none. Raises TrashNotFoundError."""
        item = self.item(trash)
        return item.store.name, item.channel

    # Acts.

    def restore_trash(self, topic: str, *, trash: int, swap: bool = False, by: str = "") -> tuple[Outcome, Ticket]:
        """Restore the entry `trash` of `topic`. A topic whose name lives again gets another one; or, with
        `swap`, the living one goes to the trash. The outcome counts the messages that come back, and names the topic.
        Raises TrashNotFoundError, TrashConflictError, LimitError or StorageError."""
        catalog = self._catalog

        def act(outcome: Outcome) -> Ticket:
            item = self.item(trash, topic)
            if not item.is_topic:
                return self._restore_channels(item, outcome)
            if swap or topic not in self.topics:
                return self._restore_topic(item, topic, outcome, swaps=swap, by=by)
            name = self._free_name(topic)
            # A client may create a topic of that name at the same time.
            return catalog.acts_in_turn.run(name, lambda: self._restore_as(item, name, outcome))

        return self._catalog.act(topic, act)

    def delete_trash(self, topic: str, *, trash: int) -> tuple[Outcome, Ticket]:
        """Delete an entry for good. Raises TrashNotFoundError."""

        def act(outcome: Outcome) -> Ticket:
            item = self.item(trash, topic)
            entry = item.entry
            outcome.depth, outcome.in_flight, outcome.deferred = entry.waiting, entry.in_flight, entry.deferred
            outcome.quarantined = entry.quarantined
            outcome.channels, outcome.name = entry.channels, item.name
            return self._trash.delete(item)

        return self._catalog.act(topic, act)

    def _free_name(self, topic: str) -> str:
        """The name of a topic that is restored while its name lives: TOPIC.restored. Raises TrashConflictError."""
        for number in range(1, RESTORED_NAMES_MAX + 1):
            end = RESTORED_SUFFIX if number == 1 else f"{RESTORED_SUFFIX}-{number}"
            name = f"{topic[: NAME_LENGTH_MAX - len(end)]}{end}"
            if name not in self.topics:
                return name
        raise TrashConflictError(f"topic {topic} exists, and so do all {RESTORED_NAMES_MAX} names for a restored one")

    def _restore_as(self, item: TrashItem, name: str, outcome: Outcome) -> Ticket:
        if name in self.topics:
            raise TrashConflictError(f"topic {name} was created at this moment: nothing was restored; try again")
        return self._restore_topic(item, name, outcome)

    def _restore_topic(
        self, item: TrashItem, name: str, outcome: Outcome, *, swaps: bool = False, by: str = ""
    ) -> Ticket:
        restored = self._catalog.restore_topic(item, name, outcome, swaps=swaps, by=by)

        def note_pauses(done: Ticket) -> None:
            topic = self.topics.get(name)
            if done.error is None and topic is not None:
                self._pauses.note(topic)
                for channel in topic.channels.values():
                    self._pauses.note(channel)

        restored.when_done(note_pauses)
        return restored

    # Restoring channels.

    def _restore_channels(self, item: TrashItem, outcome: Outcome) -> Ticket:
        owner = self._owner(item)
        ready = DONE
        trashed = log_store(owner).trash.all
        if [trashed[number].name for number in item.channels] == [""]:
            return self._restore_waiting(owner, item, trashed[item.channels[0]], outcome)
        for number in item.channels:
            ready = after(ready, partial(self._make, owner, trashed[number]))
        return after(ready, lambda: self._join(owner, item, outcome))

    def _restore_waiting(self, owner: Topic, item: TrashItem, one: TrashedChannel, outcome: Outcome) -> Ticket:
        """Messages that waited at a topic without channels go to the first one that was created since; without one,
        they wait there again."""
        lasting = sorted(
            (channel for channel in owner.channels.values() if not is_ephemeral(channel.name)),
            key=lambda channel: channel.number,
        )
        if lasting:
            one.name = lasting[0].name
            return self._join(owner, item, outcome)
        store = log_store(owner)
        first = max(one.progress.floor, store.oldest_offset)
        if owner.channels or store.released != one.upto:
            raise TrashConflictError(
                f"topic {owner.name} had no channel when it was emptied, has none now, and had one in between: create "
                "the channel that is to get its messages, then restore them"
            )

        def in_force(done: Ticket) -> None:
            if done.error is None:
                outcome.depth += store.take_back_to(first)
                outcome.name = item.name
                self._trash.drop(item)

        written = self._catalog.write(*self._trash.deletion(item), *released_change(owner, first))
        written.when_done(in_force)
        return written

    def _owner(self, item: TrashItem) -> Topic:
        owner = self.topics.get(item.store.name)
        if owner is None or owner.store is not item.store:
            raise TrashConflictError(
                f"topic {item.store.name}, whose channel this was, is in the trash itself: restore the topic first"
            )
        return owner

    def _make(self, owner: Topic, one: TrashedChannel) -> Ticket:
        """Create the channel when it is gone: paused when it was, and with its quarantine."""
        if one.name in owner.channels:
            return DONE
        before = self._catalog.entry_of(owner, one.number)

        def set_up() -> Ticket:
            channel = owner.channels[one.name]
            changes: list[Change] = []
            if before.paused:
                changes.append(channel_paused(owner.number, channel.number, True, before.pause))
            if before.max_attempts:
                changes.append(max_attempts_set(owner.number, channel.number, before.max_attempts))
            if not changes:
                return DONE
            written = self._catalog.write(*changes)
            written.when_done(lambda done: in_force(channel) if done.error is None else None)
            return written

        def in_force(channel: Channel) -> None:
            channel.set_quarantine(before.max_attempts, None)
            if before.paused:
                channel.set_paused(before.pause)
                self._pauses.note(channel)

        return after(self._catalog.create_channel(owner, one.name), set_up)

    def _join(self, owner: Topic, item: TrashItem, outcome: Outcome) -> Ticket:
        store = log_store(owner)
        pairs = [(one, owner.channels[one.name]) for one in (store.trash.all[number] for number in item.channels)]
        restores = [(ChannelRestore(store, one, channel_backlog(channel)), channel) for one, channel in pairs]
        for one, _ in restores:
            one.check()

        def compute() -> Generator[None, None, Ticket]:
            for one, _ in restores:
                yield from one.compute()
            return ChannelRestore.prepare(store, [one for one, _ in restores])

        def in_force() -> Ticket:
            # Durable: nothing from here on may end it half done.
            for one, channel in restores:
                self._take_over(one, channel)
                outcome.depth += one.counted.waiting
                outcome.deferred += one.counted.deferred
                outcome.quarantined += one.counted.quarantined
            outcome.channels, outcome.name = len(pairs), item.name
            synced = or_unknown(store.synced(), "the messages came back, and syncing that failed")
            return all_done([synced, self._pieces.start(place())])

        def place() -> Generator[None, None, Ticket]:
            for one, channel in restores:
                yield from self._place(one, channel)
            return DONE

        prepared = self._pieces.start(compute())
        prepared.when_done(lambda done: self._end(restores) if done.error is not None else None)
        joined = after(prepared, in_force)
        redriven = after(joined, lambda: self._go_on_redriving(owner, pairs))
        # Its number goes last: until then a start still finds its messages.
        return after(redriven, lambda: self._trash.let_go(item))

    def _go_on_redriving(self, owner: Topic, pairs: Sequence[tuple[TrashedChannel, Channel]]) -> Ticket:
        """A redrive that was under way goes on; one of the living channel's own goes before."""
        found = [
            (channel, redrive)
            for one, channel in pairs
            if (redrive := self._catalog.entry_of(owner, one.number).redrive) is not None
            and (channel.redrive is None or channel.redrive.ended or channel.redrive.redrive == redrive)
        ]
        if not found:
            return DONE

        def in_force() -> Ticket:
            for channel, redrive in found:
                # The quarantine's acts begin with it at their next look around.
                channel.redrive = RedriveState(redrive, redrive.total)
            return DONE

        changes = [channel_redriven(owner.number, channel.number, redrive) for channel, redrive in found]
        return after(self._catalog.write(*changes), in_force)

    @staticmethod
    def _end(restores: Sequence[tuple[ChannelRestore, Channel]]) -> None:
        for one, _ in restores:
            one.end()

    @staticmethod
    def _take_over(one: ChannelRestore, channel: Channel) -> None:
        try:
            if one.joined.has_settled:
                channel.forget_in_flight()
            one.take_over()
        except Exception as exc:
            one.living.fail("taking over restored messages", exc)
        finally:
            one.end()

    @staticmethod
    def _place(one: ChannelRestore, channel: Channel) -> Generator[None, None, None]:
        try:
            for _ in one.living.places.place_joined(one.joined):
                yield
                if channel.is_deleted:
                    return  # unreachable: acts on a topic have their turns
        except Exception as exc:
            one.living.fail("placing restored messages", exc)
        channel.has_moved()

    # Deletions by the server itself.

    def tick(self, now_ns: int) -> None:
        """now_ns: monotonic. Raises StorageError."""
        log = self._stores.log
        if now_ns < self._tick_at_ns or log is None or self._catalog.is_closing:
            return
        self._tick_at_ns = now_ns + TICK_NS
        if not self._trash.items:
            self._trash.bytes = 0
            return
        if self._is_deleting:
            return
        expired = self._trash.expired()
        for item in expired:
            self._delete_by_itself(item, "expire_trash")
        for item in () if expired else self._trash.surplus():
            self._give_up(item, f"the trash has more than {ENTRIES_MAX} entries")
        held = log.retention.held_by_trash()
        self._trash.bytes = held.bytes
        if not self.bytes:
            return
        if self._bytes_max and self.bytes > self._bytes_max:
            self._give_up_oldest(now_ns, held, "its entries keep more of the log than --trash-max-bytes")
        elif log.log.is_full:
            self._give_up_oldest(now_ns, held, "the disk is full")

    def _give_up_oldest(self, now_ns: int, held: HeldSegments, reason: str) -> None:
        """Delete the oldest entry that keeps the oldest segment; the next one only when that was not enough.

        Segments go from the oldest on: while another entry keeps that segment, none would go. None is deleted once the
        trash keeps it no longer, since the next removal of segments makes room."""
        if now_ns < self._give_up_at_ns and self.bytes < self._bytes_before:
            return  # the last one frees segments: that may be enough
        for item in self._trash.oldest_first():
            if self._trash.bytes_of(item, held) == held.bytes:
                self._give_up_at_ns = now_ns + GIVE_UP_INTERVAL_NS
                self._bytes_before = self.bytes
                self._give_up(item, reason)
                return

    def _give_up(self, item: TrashItem, reason: str) -> None:
        self._trash.given_up_count += 1
        logger.warning("trash entry given up id=%d topic=%s reason=%s", item.entry.id, item.store.name, reason)
        self._delete_by_itself(item, "give_up_trash")

    def _delete_by_itself(self, item: TrashItem, action: str) -> None:
        entry = item.entry
        trash = entry.id
        topic, channel = self.names_of(trash)
        self._is_deleting = True

        def settled(done: Ticket) -> None:
            self._is_deleting = False
            if isinstance(done.error, TrashNotFoundError):
                return  # an act came first
            if done.error is not None:
                logger.warning("trash entry not deleted id=%d error=%s", trash, done.error)
                return
            self.on_act(ActRecord(action, topic, channel, "", "", outcome, via=VIA_TIMER, details={"trash": trash}))

        try:
            outcome, ticket = self.delete_trash(topic, trash=trash)
        except PenstockError as exc:
            self._is_deleting = False
            logger.warning("trash entry not deleted id=%d error=%s", trash, exc)
            return
        ticket.when_done(settled)
