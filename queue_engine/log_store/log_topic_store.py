"""One topic of storage kind `log`: its bodies are in the commit log, once, and every channel is a cursor over them.

`released` is how far the topic's messages are given to its channels: its end while they flow, and where it was while
the topic is paused or has no channel. What lies behind it waits at the topic.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from queue_engine.commit_log.record import REPLAYED, RecordHeader, RecordLostError, message_ids
from queue_engine.commit_log.segment import SegmentInfo
from queue_engine.consume_queue.consume_queue import ConsumeQueue
from queue_engine.log_store.batch_keys import KnownBatch
from queue_engine.log_store.cursor_retention import CursorRetention
from queue_engine.log_store.find_record import find_record, header_at
from queue_engine.log_store.kept_from import ConfirmedFrom, KeptFrom
from queue_engine.log_store.log_backlog import LogBacklog
from queue_engine.log_store.logged_batch import KeyedBatch, LoggedBatch
from queue_engine.log_store.offset_lines import OFFSET_COST_BYTES
from queue_engine.log_store.offset_reservation import OffsetReservation
from queue_engine.log_store.record_reader import RecordReader
from queue_engine.log_store.reread_queue import Reference, references_between
from queue_engine.progress.channel_progress import ChannelProgress
from queue_engine.readers.cursors import Cursor, Cursors
from queue_engine.readers.holds import Holds
from queue_engine.storage.store import EmptyResult, StorePositions
from queue_engine.vocabulary.byte_budget import ByteBudget
from queue_engine.vocabulary.clock import NS_PER_S
from queue_engine.vocabulary.errors import NoRoomError, StorageError
from queue_engine.vocabulary.names import is_ephemeral
from queue_engine.vocabulary.run import Batch
from queue_engine.vocabulary.ticket import DONE, Ticket, failed

if TYPE_CHECKING:
    from queue_engine.log_store.log_store import LogStore

KIND = "log"
# How long after a file of its consume queue was made anew the next is: the log may have to be read from its beginning.
READ_AGAIN_NS = 5 * NS_PER_S
# Offsets of which it is known that the log has lost them: they are not looked for at each look.
NOT_IN_LOG_MAX = 10_000
# Of what waits at the topic, so many are looked at for the oldest one that is not deferred.
OLDEST_SEARCH_MAX = 10_000


class LogTopicStore:
    """Implements `TopicStore`. Made by `LogStore.open_topic`."""

    kind = KIND
    dropped_count = 0  # what is published is in the log

    def __init__(
        self,
        name: str,
        number: int,
        *,
        id_base: int,
        log: "LogStore",
        queue: ConsumeQueue,
        next_offset: int,
        reservation: OffsetReservation,
        released: int | None,
        memory_count_max: int,
        channel_starts: Mapping[str, int] = MappingProxyType({}),
        lost: Sequence[tuple[int, int]] = (),
    ) -> None:
        """next_offset: of the next message, at or behind the queue's end. reservation: what topology.json promises.
        released: where it was frozen, None when it was not. channel_starts: where the channels that there were
        began. lost: ranges (first, next) of offsets whose messages this start found lost."""
        self.name = name
        self.number = number
        self.id_base = id_base
        self.queue = queue
        self.memory_count_max = memory_count_max
        self.next_offset = next_offset
        self.reservation = reservation
        # What lies before the oldest offset is gone because nobody needed it.
        frozen = queue.end_offset if released is None else released
        self.released = min(max(frozen, queue.oldest_offset), queue.end_offset)
        self.released_count = 0  # messages given to channels since the process started
        self.damaged_count = 0  # messages that no channel can have, because their bodies are lost
        self._lost = lost
        self._log = log
        self._oldest: tuple[int, int] | None = None  # the message at the front, and its publish time
        self._needed: tuple[int, int] | None = None  # an offset, and the position it was last found at
        self._kept = KeptFrom()
        self._kept_for_cursors: dict[str, ConfirmedFrom] = {}
        self._is_flowing = False
        self._channels: dict[str, LogBacklog] = {}
        self._channel_starts = dict(channel_starts)
        self._planned_starts: dict[str, int] = {}  # of channels that are about to be opened
        self._not_in_log: set[int] = set()
        self._read_again_at_ns = 0  # not before
        queue.read_again = self._read_queue_again
        self._on_fault: Callable[[str, Exception], object] = lambda doing, error: None
        # Visible records that could not be noted here, in order: they wait for `start_over`.
        self._unnoted: deque[tuple[int, Batch, int, int, Sequence[int] | None]] = deque()

    # Figures.

    @property
    def oldest_offset(self) -> int:
        """The first offset that can still be read."""
        return self.queue.oldest_offset

    @property
    def end_offset(self) -> int:
        """Behind the last message that is visible."""
        return self.queue.end_offset

    @property
    def depth(self) -> int:
        queue = self.queue
        return 0 if self.released == queue.end_offset else queue.count_between(self.released, queue.end_offset)

    @property
    def backend_depth(self) -> int:
        return self.depth

    @property
    def deferred_count(self) -> int:
        return len(self.queue.deferred_between(self.released, self.queue.end_offset))

    @property
    def hold_offset(self) -> int:
        """The first offset that the topic, one of its channels, a hold, or a pipeline cursor still needs."""
        needed = [self.released, *(channel.hold_offset for channel in self._channels.values())]
        if self._planned_starts:
            needed += self._planned_starts.values()
        held = (self._log.holds.least_offset(self.number), self._log.cursors.least_offset(self.number))
        return min([*needed, *(offset for offset in held if offset is not None)])

    def needed_position(self, end: int) -> int:
        """The position of the first record that is still needed; `end` when none is. Raises StorageError."""
        offset = self.hold_offset
        if self._needed is None or self._needed[0] != offset:
            position = self.needed_position_from(offset, -1)
            self._needed = None if position < 0 else (offset, position)
        position = end if self._needed is None else self._needed[1]
        unnoted = self.first_unnoted_position
        return position if unnoted is None else min(position, unnoted)

    def needed_position_from(self, offset: int, end: int) -> int:
        """The position of the first record with an offset from `offset` on; `end` when there is none. Raises
        StorageError."""
        present = self.queue.next_present(offset)
        place = None if present is None else self.queue.locate(present)
        return end if place is None else place[0]

    def confirmed_record(self, offset: int) -> tuple[int, RecordHeader] | None:
        """Position and header of the record that holds `offset`, as the log itself has them; None when that can't be
        told. For whoever is about to give something back for good: a unit alone may be wrong. Raises StorageError."""
        segments = self._log.segments
        for find in (self.queue.locate, partial(find_record, segments, self._log.holes, self)):
            place = find(offset)
            header = None if place is None else header_at(segments, *place)
            if place is None or header is None or header.topic_number != self.number:
                continue
            if header.first_offset <= offset < header.end_offset:
                return place[0], header
        return None

    def _read_queue_again(self, ranges: Sequence[tuple[int, int]]) -> list[Reference]:
        """What the queue's files should have of ranges (first, end) of offsets, by the log. Raises StorageError; so
        does what is asked a moment later."""
        log = self._log
        now_ns = log.clock.monotonic_ns()
        if now_ns < self._read_again_at_ns:
            raise StorageError(f"the consume queue in {self.queue.directory} can't be read, nor made anew for now")
        self._read_again_at_ns = now_ns + READ_AGAIN_NS
        found: list[Reference] = []
        for first, end in ranges:
            places = self._place_before(first), self.visible_end
            found += references_between(log.segments, log.holes, self.number, places, first, end)
        return found

    def _place_before(self, offset: int) -> int:
        """A record before that of `offset`, as near as a file tells, or the log's beginning."""
        segments = self._log.segments.list
        if offset > self.queue.oldest_offset:
            try:
                place = self.queue.locate_in_file(offset - 1)
            except StorageError:
                place = None
            if place is not None:
                return place[0]
        return segments[0].start if segments else 0

    def needs_nothing_before(self, position: int) -> bool:
        """Whether all that is still needed lies at `position` or behind it, confirmed by the log. Raises
        StorageError."""
        unnoted = self.first_unnoted_position
        if unnoted is not None and unnoted < position:
            return False
        present = self.queue.next_present(self.hold_offset)
        if present is None:
            return True
        record = self.confirmed_record(present)
        return record is not None and record[0] >= position

    def disk_bytes(self) -> int:
        return self.kept_bytes(self._kept, self.hold_offset)

    def kept_bytes(self, kept: KeptFrom, offset: int) -> int:
        """How much of the log is kept for whoever needs it from `offset` on; other topics' share included."""
        return self._log.bytes_from(kept.position_from(self, offset))

    @property
    def cursors(self) -> Cursors:
        """Those of all topics of the log."""
        return self._log.cursors

    @property
    def cursor_retention(self) -> CursorRetention:
        """What all of them may keep."""
        return self._log.cursor_retention

    def cursor_lag_bytes(self, cursor: Cursor) -> int:
        """How much of the log is kept for one of its cursors; other topics' share included."""
        return self.kept_bytes(self._kept_for_cursors.setdefault(cursor.name, ConfirmedFrom()), cursor.offset)

    def forget_before(self, position: int) -> None:
        """The log before `position` is about to go: nothing of it is needed. Raises StorageError."""
        queue = self.queue
        first = self.first_offset_at(position, queue.oldest_offset, self.hold_offset)
        try:
            queue.trim(first)
        except OSError as exc:
            raise StorageError(f"the consume queue of {self.name} can't be trimmed: {exc}") from exc

    def first_offset_at(self, position: int, first: int, end: int) -> int:
        """The first of the offsets from `first` up to `end` whose record is not before `position`; `end` when none
        is. Raises StorageError."""
        queue = self.queue
        while first < end:
            middle = (first + end) // 2
            present = queue.next_present(middle)
            place = None if present is None or present >= end else queue.locate(present)
            if present is None or place is None or place[0] >= position:
                end = middle
            else:
                first = present + 1
        return first

    def sealed_segment_of(self, position: int) -> SegmentInfo | None:
        """The segment that `position` lies in, if it is complete and all of it is known to be on the disk."""
        segment = self._log.segments.segment_of(position)
        is_complete = segment is not None and segment.is_sealed and segment.end <= self.synced_position
        return segment if is_complete else None

    @property
    def holds(self) -> Holds:
        """Those of all topics of the log."""
        return self._log.holds

    def record_reader(self) -> RecordReader:
        """Reads its records as the log has them."""
        return RecordReader(self, self._log.segments, self._log.holes)

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
            # Asked each second of every topic: its files are not read each time.
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
        return Batch(self._log.batch_time_ns(), ids, bodies)

    def append(self, batch: Batch, due_ns: int | None = None) -> Ticket:
        dues_ns = None if due_ns is None else [self.time_of(due_ns)] * len(batch)
        try:
            return self._log.append(self, batch, dues_ns)
        except StorageError as exc:
            return failed(self.refused(exc))

    def refused(self, error: StorageError) -> StorageError:
        """The same for this topic's publisher to read."""
        return NoRoomError(f"topic {self.name}: {error}") if isinstance(error, NoRoomError) else error

    def known_batch(self, batch_key: bytes, digest: bytes, count: int) -> KnownBatch | None:
        """The batch that was written under this key, or is being written; None when it is new. Raises
        BatchKeyConflictError when it had another content."""
        return self._log.batch_keys.find(self.number, batch_key, digest, count)

    def append_keyed(
        self,
        batch: Batch,
        *,
        keys: Sequence[bytes] | None,
        batch_key: bytes = b"",
        digest: bytes = b"",
        is_replayed: bool = False,
    ) -> Ticket:
        """As `append`, with a key for each message or none, and under a key for all, which is new (`known_batch`);
        `digest` is that of `digest_of`."""
        flags = REPLAYED if is_replayed else 0
        try:
            return self._log.append_keyed(self, batch, flags=flags, batch_key=batch_key, digest=digest, keys=keys)
        except StorageError as exc:
            return failed(self.refused(exc))

    def appeared(self, first: int, batch: Batch, position: int, size: int, dues_ns: Sequence[int] | None) -> None:
        """A record became visible. What fails unexpectedly is told, and costs the others nothing."""
        if not self._unnoted:
            try:
                self._note(first, batch, position, size, dues_ns)
                return
            except Exception as exc:
                self._unnoted.append((first, batch, position, size, dues_ns))
                self._on_fault("noting what was published", exc)
                return
        self._unnoted.append((first, batch, position, size, dues_ns))

    @property
    def first_unnoted_position(self) -> int | None:
        """The position of the first record that the consume queue should know of and does not: no checkpoint may be
        behind it, and no segment from there on may go."""
        return self._unnoted[0][2] if self._unnoted else None

    def watch(self, on_fault: Callable[[str, Exception], object]) -> None:
        self._on_fault = on_fault

    def start_over(self) -> None:
        while self._unnoted:
            one = self._unnoted[0]
            if one[0] >= self.queue.end_offset:
                self._note(*one)
            elif self._is_flowing and self._channels:
                self._release_to(self.queue.end_offset)  # it was noted, and then something failed
            self._unnoted.popleft()

    def _note(self, first: int, batch: Batch, position: int, size: int, dues_ns: Sequence[int] | None) -> None:
        queue = self.queue
        before = queue.end_offset
        count = len(batch.ids)
        queue.append(first, count, position, size, dues_ns)
        self._log.batches.put(position, LoggedBatch(first, batch.timestamp_ns, batch.run()))
        if self._is_flowing and self._channels and self.released == before:
            if dues_ns is None and first == before:
                # As nearly always: nothing deferred, no gap.
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
                channel.came(deferred)

    def set_flowing(self, is_flowing: bool) -> None:
        self._is_flowing = is_flowing

    def pump(self, count_max: int) -> int:
        if not self._is_flowing or not self._channels or self.released >= self.queue.end_offset:
            return 0
        # A message more costs nothing: what is released is a number.
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
        """A channel whose number the log knows from before a restart goes on; a new one begins at `start`."""
        log = self._log
        self._planned_starts.pop(name, None)
        progress = log.take_recovered(number)
        if progress is None:
            number = number or log.take_channel_number()
            begins = self.released if start is None else start
            progress = ChannelProgress(begins)
            self._channel_starts[name] = begins
            if not is_ephemeral(name):
                log.journal.register(number, progress)
        backlog = LogBacklog(self, number, progress, None if is_ephemeral(name) else log.journal)
        self._channels[name] = backlog
        return backlog

    def durable_channels(self) -> list[LogBacklog]:
        """Those that outlive the process."""
        return [channel for name, channel in self._channels.items() if not is_ephemeral(name)]

    def delete_channel(self, name: str) -> None:
        channel = self._channels.pop(name)
        self._channel_starts.pop(name, None)
        if is_ephemeral(name):
            return
        channel.detach()
        self._log.forget_channel(channel.number)

    def synced(self) -> Ticket:
        return self._log.journal.synced()

    def forgotten(self) -> Ticket:
        return DONE  # records with a number that topology.json does not have are nobody's

    def positions(self) -> StorePositions:
        is_frozen = not self._is_flowing or not self._channels
        return StorePositions(
            id_base=self.id_base,
            reserved_offset=self.next_offset if self._log.is_closed else self.reservation.wanted_offset,
            released=self.released if is_frozen else None,
            channel_starts=self._channel_starts,
        )

    def empty(self, upto: int | None = None) -> EmptyResult:
        end = self.queue.end_offset if upto is None else upto
        if self.released >= end:
            return EmptyResult(0, 0)
        queue = self.queue
        result = EmptyResult(queue.count_between(self.released, end), len(queue.deferred_between(self.released, end)))
        # Not for the channels either: they settle what the topic drops.
        for channel in self._channels.values():
            channel.skip_to(end)
        self.released = end
        return result

    def prepare_empty_channels(self) -> Ticket:
        """Done when the journal says, durably and of all channels at once, that all that is released now is done."""
        return self._log.journal.prepare_empty([one.number for one in self.durable_channels()], self.released)

    def delete(self) -> None:
        for name in list(self._channels):
            self.delete_channel(name)
        self._log.forget_topic(self)

    def begin_close(self) -> None:
        """The log knows its topics."""

    def close(self) -> None:
        """The log's own `close` puts everything on the disk, for all topics at once."""

    # For the backlogs.

    def batch_at(self, offset: int) -> LoggedBatch | None:
        """The batch that holds `offset`; None when there is no such message, or its record is lost.

        Raises StorageError.
        """
        if offset in self._not_in_log:
            return None
        place = self.queue.locate(offset)
        batch = None if place is None else self._batch_in(offset, *place)
        if batch is None and self.queue.next_present(offset) == offset:
            # The unit, or the record: the log has the last word.
            found = find_record(self._log.segments, self._log.holes, self, offset)
            if found is not None and found != place:
                batch = self._batch_in(offset, *found)
            if batch is None:
                if len(self._not_in_log) >= NOT_IN_LOG_MAX:
                    self._not_in_log.clear()
                self._not_in_log.add(offset)
        return batch

    def batch_near(self, offset: int, bytes_max: int) -> LoggedBatch | None:
        """The same; None also when it is neither in memory nor in a record of at most so many bytes."""
        place = self.queue.locate(offset)
        is_near = place is not None and (place[1] <= bytes_max or self._log.batches.get(place[0]) is not None)
        return self.batch_at(offset) if is_near else None

    def _batch_in(self, offset: int, position: int, size: int) -> LoggedBatch | None:
        """The batch at a place of the log; None when `offset` is not in there, or when it is lost."""
        batches = self._log.batches
        batch = batches.get(position)
        if batch is None:
            try:
                record = self._log.segments.read_record(position, size)
            except RecordLostError:
                return None
            header = record.header
            if header.topic_number != self.number or not header.first_offset <= offset < header.end_offset:
                return None
            damaged = frozenset(header.first_offset + index for index in record.damaged)
            run = record.run(0, header.count, self.id_base)
            keys = record.keys()
            if keys is None:
                batch = LoggedBatch(header.first_offset, header.time_ns, run, damaged)
            else:
                batch = KeyedBatch(header.first_offset, header.time_ns, run, keys, damaged)
            batches.put(position, batch)
        index = offset - batch.first
        is_it = 0 <= index < len(batch.run.ids) and batch.run.ids[index] == b"%016x" % (self.id_base + offset)
        return batch if is_it else None

    @property
    def visible_end(self) -> int:
        """Where the log ends, as far as it may be seen."""
        return self._log.log.visible_end

    @property
    def synced_position(self) -> int:
        """Records that end up to here are known to be on the disk, or need not be."""
        return self._log.log.visible_end if self._log.reads_unsynced else self._log.log.synced_end

    def lost_until(self, offset: int) -> int:
        """Where the messages end that share the lost record of `offset`."""
        place = self.queue.locate(offset)
        end = offset + 1
        while end < self.queue.end_offset and place is not None and self.queue.locate(end) == place:
            end += 1
        return end

    def next_present(self, offset: int) -> int | None:
        return self.queue.next_present(offset)

    def count_between(self, first: int, end: int) -> int:
        return self.queue.count_between(first, end)

    def gaps_between(self, first: int, end: int) -> list[tuple[int, int]]:
        """Ranges (first, count) of these offsets that hold no message."""
        found = [(max(gap, first), min(gap + count, end)) for gap, count in self.queue.gaps]
        return [(gap, gap_end - gap) for gap, gap_end in found if gap < gap_end]

    def ranges_between(self, first: int, end: int, count_max: int | None = None) -> list[tuple[int, int]]:
        """Ranges (first, next) of these offsets that were used, ascending, at most so many: all but the gaps. What is
        lost since this start is among them, so that a reader misses it."""
        used = [(max(begin, first), min(after, end)) for begin, after in self._lost if begin < end and first < after]
        for gap, count in [*self.gaps_between(first, end), (end, 0)]:
            if first < gap:
                used.append((first, gap))
            first = gap + count
        found: list[tuple[int, int]] = []
        for begin, after in sorted(used):
            if found and begin <= found[-1][1]:
                found[-1] = (found[-1][0], max(after, found[-1][1]))
            else:
                found.append((begin, after))
        return found[:count_max]

    def offset_before(self, offset: int, count: int) -> int:
        """The offset from which on `count` messages lie before `offset`, fewer where there are no more."""
        at = offset
        for first, end in reversed(self.ranges_between(self.oldest_offset, offset)):
            if count > 0:
                at = max(first, end - count)
                count -= end - at
        return at

    def deferred_between(self, first: int, end: int) -> list[tuple[int, int]]:
        return self.queue.deferred_between(first, end)

    def offset_before_end(self, count: int) -> int:
        """The offset behind which at most `count` messages are released."""
        return max(0, self.released - count)

    def note_damaged(self, first: int, count: int) -> None:
        self.damaged_count += count
        self._log.note_damaged(self, first, count)

    def note_work(self) -> None:
        """Something waits for the end of the turn."""
        self._log.note_work()

    @property
    def deferred_budget(self) -> ByteBudget:
        return self._log.deferred_budget

    def time_ns(self) -> int:
        return self._log.clock.time_ns()

    def time_of(self, monotonic_ns: int) -> int:
        """Unix ns of a monotonic time."""
        clock = self._log.clock
        return clock.time_ns() + monotonic_ns - clock.monotonic_ns()

    def monotonic_of(self, time_ns: int) -> int:
        clock = self._log.clock
        return clock.monotonic_ns() + time_ns - clock.time_ns()
