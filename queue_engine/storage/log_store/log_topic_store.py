"""One topic of storage kind `log`: its bodies are in the commit log, once, and every channel is a cursor over them.

The channels have the topic's messages up to `released`: its end while the topic flows. While the topic is paused or has
no channel, `released` stays, and the messages behind it wait at the topic.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection, Sequence

from queue_engine.storage.commit_log.record import REPLAYED, key_column, message_ids
from queue_engine.storage.consume_queue.consume_queue import ConsumeQueue
from queue_engine.storage.log_store.batch_keys import FoundBatch, KeyedRecord
from queue_engine.storage.log_store.log_backlog import LogBacklog
from queue_engine.storage.log_store.log_topic import LogTopic, TopicOpening
from queue_engine.storage.log_store.logged_batch import KeyedBatch, LoggedBatch
from queue_engine.storage.log_store.offset_lines import OFFSET_COST_BYTES
from queue_engine.storage.log_store.offset_reservation import OffsetReservation
from queue_engine.storage.log_store.record_position import ConfirmedPosition, RecordPosition
from queue_engine.storage.log_store.shared_log import SharedLog
from queue_engine.storage.progress.channel_progress import ChannelProgress
from queue_engine.storage.progress.trashed_channels import TrashedChannel, TrashedChannels
from queue_engine.storage.readers.cursors import Cursor
from queue_engine.storage.store import EmptyResult, StorePositions
from queue_engine.vocabulary.errors import NoRoomError, StorageError
from queue_engine.vocabulary.names import is_ephemeral
from queue_engine.vocabulary.run import Batch
from queue_engine.vocabulary.ticket import DONE, Ticket, failed

logger = logging.getLogger(__name__)

KIND = "log"
# The search for the oldest message at the topic that is not deferred ends after so many offsets.
OLDEST_SEARCH_MAX = 10_000


class LogTopicStore(LogTopic):
    """Implements `TopicStore`. Made by `LogStore.open_topic`."""

    kind = KIND
    dropped_count = 0  # every published message is in the log

    def __init__(
        self,
        opening: TopicOpening,
        log: SharedLog,
        topics: dict[int, "LogTopicStore"],
        *,
        queue: ConsumeQueue,
        next_offset: int,
        reservation: OffsetReservation,
        lost: Sequence[tuple[int, int]] = (),
    ) -> None:
        """topics: all of the log, by number; `delete` takes this one out. next_offset: of the next message, at or
        behind the queue's end. reservation: of offsets, in topology.json. lost: as of LogTopic."""
        super().__init__(opening, log, queue, lost)
        self.next_offset = next_offset
        self.reservation = reservation
        self.is_deleted = False
        self._topics = topics
        self._pending = log.pending
        self._batch_keys = log.files.batch_keys
        self._journal = log.journal
        self._oldest: tuple[int, int] | None = None  # the message at the front, and its publish time
        self._needed = RecordPosition()
        self._needed_by_living = RecordPosition()
        self._cursor_positions: dict[str, ConfirmedPosition] = {}
        self._is_flowing = False
        self.trash = TrashedChannels(self._journal)
        self._is_in_trash = False
        self._channels: dict[str, LogBacklog] = {}
        self._channel_starts = dict(opening.channel_starts)
        self._planned_starts: dict[str, int] = {}  # of channels that are about to be opened
        self._on_fault: Callable[[str, Exception], object] = lambda doing, error: None
        # Visible records that could not be noted here, in order: they wait for `start_over`.
        self._unnoted: deque[tuple[int, Batch, int, int, Sequence[int] | None]] = deque()
        self.key_indexes = log.files.key_indexes
        self._keys = self.key_indexes.add(self)

    # Figures.

    @property
    def depth(self) -> int:
        queue = self.queue
        return 0 if self.released == queue.end_offset else queue.count_between(self.released, queue.end_offset)

    @property
    def backend_depth(self) -> int:
        return self.depth

    @property
    def deferred_count(self) -> int:
        return self.queue.deferred_count_between(self.released, self.queue.end_offset)

    @property
    def needed_offset(self) -> int:
        """The first offset that the topic, one of its channels, the trash, or a reader still needs."""
        needed = self.released if self._is_in_trash else self._needed_by_name
        return min(needed, self.trash.needed_offset(self.queue.end_offset)) if self.trash.all else needed

    @property
    def _needed_by_name(self) -> int:
        """The same without the trash."""
        if self._is_in_trash:
            return self.queue.end_offset
        needed = self.released
        for channel in self._channels.values():
            if (offset := channel.needed_offset) < needed:
                needed = offset
        if self._planned_starts:
            needed = min(needed, *self._planned_starts.values())
        read = self.readers.least_offset(self.number)
        return needed if read is None else min(needed, read)

    def needed_without(self, emptied: Collection[str], *, own_too: bool, readers_too: bool) -> int:
        """The first offset that the topic would need, the trash apart, if these channels had nothing; nor, with
        `own_too`, the topic itself, nor, with `readers_too`, cursors and leases."""
        needed = self.queue.end_offset if own_too else self.released
        for name, channel in self._channels.items():
            if name not in emptied:
                needed = min(needed, channel.needed_offset)
        read = None if readers_too else self.readers.least_offset(self.number)
        return needed if read is None else min(needed, read)

    def needed_position(self, end: int) -> int:
        """The position of the first record that is still needed; `end` when none is. Raises StorageError."""
        position = self._needed.first_from(self, self.needed_offset, end)
        unnoted = self.first_unnoted_position
        return position if unnoted is None else min(position, unnoted)

    def needed_position_without_trash(self, end: int) -> int:
        """The same, if the trash were empty. Raises StorageError."""
        position = self._needed_by_living.first_from(self, self._needed_by_name, end)
        unnoted = self.first_unnoted_position
        return position if unnoted is None else min(position, unnoted)

    def needs_nothing_before(self, position: int) -> bool:
        """Whether all needed records lie at `position` or behind it, confirmed by the log. Raises
        StorageError."""
        unnoted = self.first_unnoted_position
        if unnoted is not None and unnoted < position:
            return False
        present = self.queue.next_present(self.needed_offset)
        if present is None:
            return True
        record = self.confirmed_record(present)
        return record is not None and record[0] >= position

    def disk_bytes(self) -> int:
        return self._needed.bytes_from(self, self.needed_offset)

    def cursor_lag_bytes(self, cursor: Cursor) -> int:
        """How many bytes of the log one of its cursors keeps, other topics' share included."""
        position = self._cursor_positions.get(cursor.name)
        if position is None:
            # As many as there are cursors: some of them have ended.
            if len(self._cursor_positions) >= len(self.readers.cursors.of_topic(self.number)):
                self._cursor_positions.clear()
            position = self._cursor_positions[cursor.name] = ConfirmedPosition()
        return position.bytes_from(self, cursor.offset)

    def log_bytes_from(self, offset: int) -> int:
        """How many bytes of the log a new cursor at `offset` would keep."""
        return ConfirmedPosition().bytes_from(self, offset)

    def forget_before(self, position: int) -> None:
        """Forget the messages before `position`, before the log is removed up to there. Raises StorageError."""
        queue = self.queue
        first = queue.first_offset_at(position, queue.oldest_offset, self.needed_offset)
        try:
            queue.trim(first)
        except OSError as exc:
            raise StorageError(f"the consume queue of {self.name} can't be trimmed: {exc}") from exc

    def oldest_ns(self) -> int | None:
        head = self.queue.next_present(self.released)
        if head is None:
            return None
        end = head + OLDEST_SEARCH_MAX
        deferred = dict(self.queue.deferred_between(head, end))
        now_ns = self.time_ns() if deferred else 0
        due_ns = min((due_ns for due_ns in deferred.values() if due_ns <= now_ns), default=None)
        while head is not None and head in deferred:
            head = self.queue.next_present(head + 1)
        if head is None or head >= end:
            return due_ns
        published_ns = self._published_ns(head)
        return published_ns if due_ns is None or published_ns is None else min(published_ns, due_ns)

    def _published_ns(self, head: int) -> int | None:
        if self._oldest is None or self._oldest[0] != head:
            # The figures read every topic each second: its files are not read each time.
            batch = self.batch_at(head)
            if batch is None:
                return None
            self._oldest = head, batch.time_ns
        return self._oldest[1]

    # Publishing.

    def deferral_cost(self, bodies: Sequence[bytes]) -> int:
        return OFFSET_COST_BYTES * len(bodies)

    def make_batch(self, bodies: Sequence[bytes]) -> Batch:
        """The batch that `append` takes next: times never go back, ids are base + offset."""
        ids = message_ids(self.id_base, self.next_offset, len(bodies))
        return Batch(max(self._log.last_time_ns, self._clock.time_ns()), ids, bodies)

    def append(self, batch: Batch, due_ns: int | None = None) -> Ticket:
        dues_ns = None if due_ns is None else [self.time_of(due_ns)] * len(batch)
        try:
            return self._append(batch, dues_ns=dues_ns)[2]
        except StorageError as exc:
            return failed(self.refused(exc))

    def refused(self, error: StorageError) -> StorageError:
        """The same error, with the topic's name, for its publisher."""
        return NoRoomError(f"topic {self.name}: {error}") if isinstance(error, NoRoomError) else error

    def find_batch(self, batch_key: bytes, digest: bytes, count: int) -> FoundBatch | None:
        """The batch that was written under this key, or is being written; None when it is new. Raises
        BatchKeyConflictError when it had another content."""
        return self._batch_keys.find(self.number, batch_key, digest, count)

    def append_keyed(
        self,
        batch: Batch,
        *,
        keys: Sequence[bytes] | None,
        batch_key: bytes = b"",
        digest: bytes = b"",
        is_replayed: bool = False,
    ) -> Ticket:
        """As `append`, with a key for each message or none, and under a key for all, which is new (`find_batch`);
        `digest` is that of `digest_of`."""
        number, first, count = self.number, self.next_offset, len(batch.ids)
        flags = REPLAYED if is_replayed else 0
        column = None if keys is None else key_column(keys)
        try:
            position, size, ticket = self._append(batch, flags=flags, batch_key=batch_key, keys=column)
        except StorageError as exc:
            return failed(self.refused(exc))
        if batch_key:
            # A second publish finds the key while its batch is written; a failure forgets it.
            self._batch_keys.begin(number, batch_key, digest, FoundBatch(first, count, ticket))

        def settled(done: Ticket) -> None:
            if done.error is not None:
                if batch_key:
                    self._batch_keys.forget(number, batch_key)
                return
            if self.is_deleted:
                return
            if keys is not None and column is not None:
                self._batches.put(position, KeyedBatch(first, batch.timestamp_ns, batch.run(), keys))
                if self.key_indexes.is_on:
                    self._keys.note(first, keys, position, column)
            if batch_key:
                record = KeyedRecord(number, batch_key, first, count, batch.timestamp_ns, position, size)
                self._batch_keys.put(record, digest)

        ticket.when_done(settled)
        return ticket

    def _append(
        self,
        batch: Batch,
        *,
        flags: int = 0,
        batch_key: bytes = b"",
        dues_ns: Sequence[int] | None = None,
        keys: bytes | None = None,
    ) -> tuple[int, int, Ticket]:
        """Take a batch; visible and done after the turn's end, by the sync policy. Returns its record's position and
        size. Raises StorageError."""
        first, count = self.next_offset, len(batch.ids)
        if first > self.reservation.enough_upto:
            self._reserve_for(count)
        position, size = self._log.append(
            self.number, first, batch, flags=flags, batch_key=batch_key, dues_ns=dues_ns, keys=keys
        )
        self.next_offset = first + count
        ticket = Ticket()
        self._pending.line.append((position + size, self, first, batch, position, size, dues_ns, ticket))
        self.next_turn.request_log_work()
        return position, size, ticket

    def _reserve_for(self, count: int) -> None:
        """Reserve more offsets, since few are left. Raises StorageError when fewer than `count` are."""
        if self.reservation.request(self.next_offset, self._clock.monotonic_ns()):
            self._shared.on_reserve()
        left = self.reservation.reserved_offset - self.next_offset
        if left < count:
            if self._log.refusal is not None:
                raise self._log.refusal  # the reason why topology.json could not be written
            raise StorageError(
                f"topic {self.name} has {left} reserved offsets left for {count} messages: "
                "topology.json could not be written in time"
            )

    def appeared(self, first: int, batch: Batch, position: int, size: int, dues_ns: Sequence[int] | None) -> None:
        """Note a record that became visible. An unexpected error is reported, and the record waits for `start_over`."""
        if not self._unnoted:
            try:
                self._note(first, batch, position, size, dues_ns)
                return
            except Exception as exc:
                self._unnoted.append((first, batch, position, size, dues_ns))
                self._on_fault("noting published messages", exc)
                return
        self._unnoted.append((first, batch, position, size, dues_ns))

    @property
    def first_unnoted_position(self) -> int | None:
        """The position of the first visible record that the consume queue lacks: no checkpoint may be behind it, and no
        segment from there on may be removed."""
        return self._unnoted[0][2] if self._unnoted else None

    def watch(self, on_fault: Callable[[str, Exception], object]) -> None:
        self._on_fault = on_fault

    def start_over(self) -> None:
        while self._unnoted:
            one = self._unnoted[0]
            if one[0] >= self.queue.end_offset:
                self._note(*one)
            elif self._is_flowing and self._channels:
                self._release_to(self.queue.end_offset)  # an earlier try noted it, and then failed
            self._unnoted.popleft()

    def _note(self, first: int, batch: Batch, position: int, size: int, dues_ns: Sequence[int] | None) -> None:
        queue = self.queue
        before = queue.end_offset
        count = len(batch.ids)
        queue.append(first, count, position, size, dues_ns)
        self._batches.put(position, LoggedBatch(first, batch.timestamp_ns, batch.run()))
        if self._is_flowing and self._channels and self.released == before:
            if dues_ns is None and first == before:
                # The usual case: nothing deferred, no gap.
                self.released = queue.end_offset
                self.released_count += count
            else:
                self._release_to(queue.end_offset)

    def _release_to(self, offset: int) -> None:
        before, self.released = self.released, offset
        self.released_count += self.queue.count_between(before, offset)
        deferred = self.queue.deferred_between(before, offset)
        if deferred:
            for channel in self._channels.values():
                channel.note_released(deferred)

    def set_flowing(self, is_flowing: bool) -> None:
        self._is_flowing = is_flowing

    def pump(self, count_max: int) -> int:
        if not self._is_flowing or not self._channels or self.released >= self.queue.end_offset:
            return 0
        # Releasing is moving a number: it costs the same for any count.
        end = self.released
        moved = 0
        while moved < count_max:
            present = self.queue.next_present(end)
            if present is None:
                end = self.queue.end_offset
                break
            end = min(present + count_max - moved, self.queue.end_offset)
            moved = self.queue.count_between(self.released, end)
        self._release_to(end)
        return moved

    # Channels.

    def plan_channel(self, name: str, start: int | None = None) -> int:
        end = self.queue.end_offset if self._is_flowing else self.released
        begins = self.released if start is None else min(max(start, self.oldest_offset), end)
        self._planned_starts[name] = begins
        return begins

    def unplan_channel(self, name: str) -> None:
        self._planned_starts.pop(name, None)

    def open_channel(self, name: str, number: int = 0, start: int | None = None) -> LogBacklog:
        """A channel of before the restart goes on with its progress, found by number; a new one begins at `start`."""
        shared, journal = self._shared, self._journal
        self._planned_starts.pop(name, None)
        progress = shared.take_recovered(number)
        if progress is None:
            number = number or shared.take_channel_number()
            begins = self.released if start is None else start
            progress = ChannelProgress(begins)
            self._channel_starts[name] = begins
            if not is_ephemeral(name):
                journal.register(number, progress)
        backlog = LogBacklog(self, number, progress, None if is_ephemeral(name) else journal)
        self._channels[name] = backlog
        return backlog

    def trash_channel(self, name: str) -> None:
        """Put a channel that is not ephemeral into the trash, as it is; topology.json says so."""
        channel = self._channels.pop(name)
        self._channel_starts.pop(name, None)
        self.quarantines.put_away(channel.number)
        channel.put_away()
        self.trash.put(TrashedChannel(channel.number, name, channel.progress))

    def put_away(self) -> None:
        """The topic goes to the trash: its readers end, and nothing is reported to its owner any more."""
        for channel in self.durable_channels():
            self.trash_channel(next(name for name, one in self._channels.items() if one is channel))
        self._on_fault = lambda doing, error: None
        self.readers.forget_topic(self.number, self.end_offset)

    def set_in_trash(self, is_in_trash: bool) -> None:
        """A topic in the trash has no name: nothing is published to it, and it has no channels but those there."""
        self._is_in_trash = is_in_trash
        if is_in_trash:
            self._is_flowing = False

    @property
    def is_journal_in_order(self) -> bool:
        """Whether the journal on the disk has the progress that memory has."""
        return self._journal.error is None

    def open_trashed(self, number: int, name: str, upto: int | None) -> None:
        """A channel was in the trash before the restart."""
        progress = self._shared.take_recovered(number)
        assert progress is not None, number
        self.trash.put(TrashedChannel(number, name, progress, upto))
        self.quarantines.put_away(number)

    def drop_trashed(self, number: int) -> None:
        """A channel in the trash is deleted for good; topology.json does not have it any more."""
        self.trash.drop(number)
        self.quarantines.drop(number)

    def durable_progress(self) -> list[tuple[int, ChannelProgress]]:
        """Number and progress of all channels but the ephemeral ones; those in the trash are among them."""
        living = [(channel.number, channel.progress) for channel in self.durable_channels()]
        return living + [(number, one.progress) for number, one in self.trash.all.items()]

    def durable_channels(self) -> list[LogBacklog]:
        """All but the ephemeral channels."""
        return [channel for name, channel in self._channels.items() if not is_ephemeral(name)]

    def revive(self, number: int) -> None:
        """A channel in the trash is about to be opened again, under its number."""
        one = self.trash.take(number)
        if one is not None:
            self._shared.put_back_recovered(number, one.progress)

    def delete_channel(self, name: str) -> None:
        channel = self._channels.pop(name)
        self._channel_starts.pop(name, None)
        channel.put_away()
        if is_ephemeral(name):
            return
        self.quarantines.remove(channel.number)
        self._journal.forget(channel.number)

    def synced(self) -> Ticket:
        return self._journal.synced()

    def forgotten(self) -> Ticket:
        return DONE  # a start skips records of topic numbers that topology.json does not have

    def positions(self) -> StorePositions:
        is_frozen = not self._is_flowing or not self._channels
        return StorePositions(
            id_base=self.id_base,
            reserved_offset=self.next_offset if self._shared.is_closed else self.reservation.wanted_offset,
            released=self.released if is_frozen else None,
            channel_starts=self._channel_starts,
        )

    def empty(self, upto: int | None = None) -> EmptyResult:
        end = self.queue.end_offset if upto is None else upto
        if self.released >= end:
            return EmptyResult(0, 0)
        queue = self.queue
        deferred = queue.deferred_count_between(self.released, end)
        result = EmptyResult(queue.count_between(self.released, end), deferred)
        # The channels settle the messages that the topic drops.
        for channel in self._channels.values():
            channel.skip_to(end)
        self.released = end
        return result

    def take_back_to(self, offset: int) -> int:
        """Let messages from `offset` on wait again at the topic, which has no channel; returns how many more wait."""
        before = self.depth
        self.released = max(offset, self.oldest_offset)
        return self.depth - before

    def unmerged(self, act: Callable[[], Ticket]) -> Ticket:
        """Begin an act that channels take over in steps once it is durable (`ProgressJournal.unmerged`)."""
        return self._journal.unmerged(act)

    def prepare_empty_channels(self) -> Ticket:
        """Done when the journal, durably and for all channels at once, settles all that is released now."""
        return self._journal.prepare_empty([one.number for one in self.durable_channels()], self.released)

    def delete(self) -> None:
        for name in list(self._channels):
            self.delete_channel(name)
        for number in list(self.trash.all):
            self.drop_trashed(number)
        self.is_deleted = True
        self._topics.pop(self.number, None)
        self.readers.forget_topic(self.number, self.end_offset)
        self._batch_keys.forget_topic(self.number)
        self.key_indexes.forget_topic(self.number)
        try:
            self.queue.delete()
        except OSError as exc:
            # The files are derived, and their number is never used again.
            logger.warning("consume queue not removed topic=%s error=%s", self.name, exc)

    def begin_close(self) -> None:
        """Nothing: the log closes all topics at once."""

    def close(self) -> None:
        """The log's own `close` puts everything on the disk, for all topics at once."""
