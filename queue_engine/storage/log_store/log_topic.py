"""The messages of a topic in the log by offset, for its channels and readers.

The topic's channels have its messages up to `released`.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from queue_engine.storage.commit_log.record import HAS_KEYS, RecordHeader, RecordLostError
from queue_engine.storage.commit_log.segment import SegmentInfo
from queue_engine.storage.consume_queue.consume_queue import ConsumeQueue
from queue_engine.storage.consume_queue.find_record import Reference, find_record, header_at, references_between
from queue_engine.storage.key_index.missing_keys import RecordKeys
from queue_engine.storage.log_store.logged_batch import KeyedBatch, LoggedBatch
from queue_engine.storage.log_store.shared_log import SharedLog
from queue_engine.vocabulary.clock import NS_PER_S
from queue_engine.vocabulary.errors import StorageError

logger = logging.getLogger(__name__)

# So long passes between two re-readings of its consume queue: each may read the log from its beginning.
READ_AGAIN_NS = 5 * NS_PER_S
# So many lost offsets are remembered, so that the log is not searched for them again.
NOT_IN_LOG_MAX = 10_000


@dataclass(frozen=True, slots=True)
class TopicOpening:
    """A topic by topology.json. reserved_offset: all offsets below may have been given. released: the offset where its
    flow stopped, None while it flows. channels: number → offset it began at. channel_starts: the same by name.
    channel_names: by number."""

    name: str
    number: int
    id_base: int
    reserved_offset: int = 0
    released: int | None = None
    channels: Mapping[int, int] = field(default_factory=dict)
    channel_starts: Mapping[str, int] = field(default_factory=dict)
    channel_names: Mapping[int, str] = field(default_factory=dict)


class LogTopic:
    """One topic of the log. Belongs to the engine's thread."""

    def __init__(
        self, opening: TopicOpening, log: SharedLog, queue: ConsumeQueue, lost: Sequence[tuple[int, int]]
    ) -> None:
        """lost: ranges (first, next) of offsets whose messages this start found lost."""
        self.name = opening.name
        self.number = opening.number
        self.id_base = opening.id_base
        self.queue = queue
        self.readers = log.files.readers
        self.segments = log.files.segments
        self.holes = log.files.holes
        self.size = log.size
        self.deferred_budget = log.deferred_budget
        self.quarantines = log.quarantines
        self.memory_count_max = log.settings.memory_count_max
        self.next_turn = log.pending.next_turn
        # Messages before the oldest offset were not needed and are removed.
        frozen = queue.end_offset if opening.released is None else opening.released
        self.released = min(max(frozen, queue.oldest_offset), queue.end_offset)
        self.released_count = 0  # messages given to channels since the process started
        self.damaged_count = 0  # messages whose bodies are lost, so that no channel delivers them
        self._shared = log
        self._log = log.log
        self._batches = log.files.batches
        self._clock = log.files.clock
        self._lost = lost
        self._not_in_log: set[int] = set()
        self._read_again_at_ns = 0  # not before
        queue.read_again = self._read_queue_again

    # Places of its records.

    @property
    def oldest_offset(self) -> int:
        """The first offset that can still be read."""
        return self.queue.oldest_offset

    @property
    def end_offset(self) -> int:
        """Behind the last visible message."""
        return self.queue.end_offset

    def needed_position_from(self, offset: int, end: int) -> int:
        """The position of the first record with an offset from `offset` on; `end` when there is none. Raises
        StorageError."""
        present = self.queue.next_present(offset)
        place = None if present is None else self.queue.locate(present)
        return end if place is None else place[0]

    def confirmed_record(self, offset: int) -> tuple[int, RecordHeader] | None:
        """Position and header of the record that holds `offset`, by the log itself; None when neither the unit nor a
        search finds it. Called before anything is removed: a unit may be wrong. Raises StorageError."""
        segments = self.segments
        for find in (self.queue.locate, partial(find_record, segments, self.holes, self)):
            place = find(offset)
            header = None if place is None else header_at(segments, *place)
            if place is None or header is None or header.topic_number != self.number:
                continue
            if header.first_offset <= offset < header.end_offset:
                return place[0], header
        return None

    def first_offset_at(self, position: int) -> int:
        """The first offset whose record is not before `position` of the log; the end when none is. Raises StorageError,
        also where the log does not confirm the records on both sides of that place."""
        queue = self.queue
        first = queue.first_offset_at(position)
        behind = queue.next_present(first)
        before = first - 1
        while before >= queue.oldest_offset and queue.next_present(before) != before:
            before -= 1
        for offset, is_before in ((before, True), (behind, False)):
            if offset is None or offset < queue.oldest_offset:
                continue
            place = queue.locate(offset)
            header = None if place is None else header_at(self.segments, *place)
            if place is None or header is None or header.topic_number != self.number:
                raise StorageError(f"the log does not confirm offset {offset} of topic {self.name}")
            if not header.first_offset <= offset < header.end_offset or (place[0] < position) != is_before:
                raise StorageError(f"the log does not confirm offset {offset} of topic {self.name}")
        return first

    def record_keys(self, offset: int) -> RecordKeys | None:
        """The keys of the first record that has a message from `offset` on; None when there is none. A record that is
        lost has none. Raises StorageError."""
        present = self.queue.next_present(offset)
        if present is None:
            return None
        place = self.queue.locate(present)
        header = None if place is None else header_at(self.segments, *place)
        if (
            header is None
            or header.topic_number != self.number
            or not (header.first_offset <= present < header.end_offset)
        ):
            place = find_record(self.segments, self.holes, self, present)
            header = None if place is None else header_at(self.segments, *place)
        if place is None or header is None:
            return RecordKeys(present, self.lost_until(present), 0, None)
        keys = None
        if header.flags & HAS_KEYS:
            try:
                keys = self.segments.read_record(*place).keys()
            except RecordLostError:
                pass
        return RecordKeys(header.first_offset, header.end_offset, place[0], keys)

    def sealed_segment_of(self, position: int) -> SegmentInfo | None:
        """The segment that `position` lies in, if it is complete and all of it is synced."""
        segment = self.segments.segment_of(position)
        is_complete = segment is not None and segment.is_sealed and segment.end <= self.synced_position
        return segment if is_complete else None

    def _read_queue_again(self, ranges: Sequence[tuple[int, int]]) -> list[Reference]:
        """The queue's records of ranges (first, end) of offsets, read from the log. Raises StorageError; also when it
        was called within the last READ_AGAIN_NS."""
        now_ns = self._clock.monotonic_ns()
        if now_ns < self._read_again_at_ns:
            raise StorageError(
                f"the consume queue in {self.queue.directory} can't be read, and was read from the log a moment ago"
            )
        self._read_again_at_ns = now_ns + READ_AGAIN_NS
        found: list[Reference] = []
        for first, end in ranges:
            places = self._place_before(first), self.visible_end
            found += references_between(self.segments, self.holes, self.number, places, first, end)
        return found

    def _place_before(self, offset: int) -> int:
        """The position of a record before that of `offset`, the nearest in a file, or the log's beginning."""
        segments = self.segments.list
        if offset > self.queue.oldest_offset:
            try:
                place = self.queue.locate_in_file(offset - 1)
            except StorageError:
                place = None
            if place is not None:
                return place[0]
        return segments[0].start if segments else 0

    # Its messages.

    def batch_at(self, offset: int) -> LoggedBatch | None:
        """The batch that holds `offset`; None when there is no such message, or its record is lost.

        Raises StorageError.
        """
        if offset in self._not_in_log:
            return None
        place = self.queue.locate(offset)
        batch = None if place is None else self._batch_in(offset, *place)
        if batch is None and self.queue.next_present(offset) == offset:
            # The unit or the record is wrong: search the log.
            found = find_record(self.segments, self.holes, self, offset)
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
        is_near = place is not None and (place[1] <= bytes_max or self._batches.get(place[0]) is not None)
        return self.batch_at(offset) if is_near else None

    def _batch_in(self, offset: int, position: int, size: int) -> LoggedBatch | None:
        """The batch at a place of the log; None when it has not `offset`, or is lost."""
        batches = self._batches
        batch = batches.get(position)
        if batch is None:
            try:
                record = self.segments.read_record(position, size)
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
        """Where the visible part of the log ends."""
        return self._log.visible_end

    @property
    def synced_position(self) -> int:
        """Records that end at or before this position are synced, or may be read unsynced."""
        return self._log.visible_end if self._shared.settings.reads_unsynced else self._log.synced_end

    def lost_until(self, offset: int) -> int:
        """Behind the last message of the lost record of `offset`."""
        place = self.queue.locate(offset)
        end = offset + 1
        while end < self.queue.end_offset and place is not None and self.queue.locate(end) == place:
            end += 1
        return end

    def next_present(self, offset: int) -> int | None:
        return self.queue.next_present(offset)

    def gaps_between(self, first: int, end: int) -> list[tuple[int, int]]:
        """Ranges (first, count) of these offsets without a message."""
        found = [(max(gap, first), min(gap + count, end)) for gap, count in self.queue.gaps]
        return [(gap, gap_end - gap) for gap, gap_end in found if gap < gap_end]

    def ranges_between(self, first: int, end: int, count_max: int | None = None) -> list[tuple[int, int]]:
        """Ranges (first, next) of these offsets that were used, ascending, at most so many: all but the gaps. Those
        that this start found lost are among them, so that a reader notices the loss."""
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
        self._shared.damaged_count += count
        logger.error("messages damaged topic=%s offset=%d count=%d", self.name, first, count)

    def time_ns(self) -> int:
        return self._clock.time_ns()

    def time_of(self, monotonic_ns: int) -> int:
        """Unix ns of a monotonic time."""
        clock = self._clock
        return clock.time_ns() + monotonic_ns - clock.monotonic_ns()

    def monotonic_of(self, time_ns: int) -> int:
        clock = self._clock
        return clock.monotonic_ns() + time_ns - clock.time_ns()
