"""The backlog of one channel of a `log` topic: hands its messages out, takes them back, and settles them.

`ChannelPlaces` says where each message stands.

The progress journal has a delivery before the message leaves, and everything else at the end of the turn at the
latest. An ephemeral channel has no journal.
"""

import sys
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence

from queue_engine.storage.commit_log.record import offsets_of, ranges_of
from queue_engine.storage.log_store.channel_places import ChannelPlaces
from queue_engine.storage.log_store.log_topic import LogTopic
from queue_engine.storage.log_store.logged_batch import LoggedBatch
from queue_engine.storage.log_store.offset_lines import OffsetLine, Range
from queue_engine.storage.log_store.record_position import RecordPosition
from queue_engine.storage.progress.channel_progress import ChannelProgress
from queue_engine.storage.progress.joining import Joined
from queue_engine.storage.progress.journal import ProgressJournal
from queue_engine.storage.progress.journaled_progress import JournaledProgress
from queue_engine.storage.progress.quarantine import ChannelQuarantine, operator_event
from queue_engine.storage.progress.return_history import ReturnEvent
from queue_engine.storage.quarantine_stats import NO_QUARANTINE, QuarantineStats
from queue_engine.storage.store import EmptyResult, PlainCounts
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.flow.return_reason import ReturnReason
from queue_engine.vocabulary.message import ATTEMPTS_AT, ATTEMPTS_MAX, FRAME_HEADER_BYTES, ID_AT
from queue_engine.vocabulary.run import Run, SentRun, join_runs
from queue_engine.vocabulary.ticket import Ticket

# While more messages than these were given back, the cursor hands out nothing. Each may cost an entry of its own.
RETURNED_MAX = 65_536
# A channel keeps the batch at its cursor when it is so small; a larger one is in the cache, which all channels share.
CURSOR_BATCH_BYTES_MAX = 16 << 10
# For the sizes of messages in flight, records up to this size are read again.
FIGURES_RECORD_BYTES_MAX = 256 << 10


class LogBacklog:
    """Implements `Backlog` on a topic of the log. `journal` is None for an ephemeral channel."""

    can_reread = True

    def __init__(
        self, topic: LogTopic, number: int, progress: ChannelProgress, journal: ProgressJournal | None
    ) -> None:
        self.number = number
        self.progress = progress
        self.damaged_count = 0  # messages passed over because their bodies are lost
        self.dropped_count = 0  # of an ephemeral channel that is too slow
        self._topic = topic
        self._journaled = JournaledProgress(topic, number, progress, journal)
        # An ephemeral channel has no quarantine.
        self.quarantine: ChannelQuarantine | None = (
            None if journal is None else topic.quarantines.add(number, self._journaled)
        )
        self._needed = RecordPosition()
        self.places = places = ChannelPlaces(topic, self._journaled)
        self._cursor = places.cursor
        self._released_before = topic.released_count
        self._unsent = places.unsent
        self._returned = places.returned
        self._order = places.order
        self._due = places.due
        self._batch: LoggedBatch | None = None  # the batch at the cursor
        self._taken: tuple[Run, list[Range]] | None = None
        self._ages = self._journaled.ages
        self._attempts = self._journaled.attempts
        self._oldest: tuple[int, int] | None = None  # an offset and its publish time
        self._on_fault: Callable[[str, Exception], object] | None = None
        self._fault: tuple[str, Exception] | None = None  # until `watch` sets a listener
        try:
            places.sort()
        except StorageError:
            raise
        except Exception as exc:
            # `progress` stays, and the log keeps the channel's messages.
            self.fail("sorting its messages", exc)
        if (unread := self._journaled.unread) is not None:
            self.fail("reading its progress", unread)

    def watch(self, on_fault: Callable[[str, Exception], object]) -> None:
        self._on_fault = on_fault
        if self._fault is not None:
            on_fault(*self._fault)
            self._fault = None

    def fail(self, doing: str, error: Exception) -> None:
        """Report an unexpected error: the channel stops until it has sorted all its messages."""
        if self._on_fault is None:
            self._fault = doing, error
        else:
            self._on_fault(doing, error)

    def start_over(self) -> bool:
        self._journaled.read_unread()
        self._forget_all()
        self._cursor.start_at(self.progress.floor)
        self.places.sort()
        self._topic.next_turn.request_log_work()
        return True

    def detach(self) -> None:
        """The channel was deleted: write nothing more of it to the journal."""
        self._journaled.journal = None

    def put_away(self) -> None:
        """The channel is deleted, or goes to the trash: nothing more is noted here, and the journal keeps its progress
        as it is."""
        self.detach()
        self._forget_all()

    def note_released(self, deferred: Iterable[tuple[int, int]]) -> None:
        """Take messages that the topic released; these (offset, due Unix ns) of them are deferred."""
        progress = self.progress
        try:
            for offset, due_ns in deferred:
                # After a start the topic may release an offset again: one that was delivered has its place already.
                is_new = progress.made_at(offset) == 0 and not progress.is_settled(offset)
                if is_new and offset not in progress.quarantined:
                    self.places.note_deferred(offset, due_ns)
        except Exception as exc:
            # The error must not keep it from the other channels; `start_over` finds it in the topic.
            self.fail("taking published messages", exc)

    # Figures.

    @property
    def depth(self) -> int:
        if self._journaled.journal is None:
            self._drop_surplus()
        return self._cursor.pending_count + self._unsent.count + self._returned.count

    @property
    def backend_depth(self) -> int:
        return self.depth if self._journaled.journal is not None else 0

    @property
    def deferred_count(self) -> int:
        return self._due.count

    def stats_sign(self) -> Hashable | None:
        progress, ages = self.progress, self._ages
        # Due times, ages behind a due time, the single message that was delivered most often: all may change alone.
        if (
            self._journaled.journal is None
            or self._due.count
            or self._attempts.made
            or ages.has_due_times
            or progress.deferred
            or progress.quarantined
        ):
            return None
        topic, queue, floor = self._topic, self._topic.queue, progress.floor
        return (
            topic.released,
            queue.end_offset,
            queue.oldest_offset,
            topic.released_count,
            self._cursor.offset,
            self._cursor.skipped_count,
            self._unsent.count,
            self._returned.count,
            floor,  # with nothing deferred or quarantined the oldest message is the first behind it
            progress.epoch,
            self.quarantine and self.quarantine.stats(),  # the same object while it is the same
        )

    def plain_counts(self) -> PlainCounts | None:
        progress, ages = self.progress, self._ages
        if (
            self._journaled.journal is None
            or self._due.count
            or progress.deferred
            or progress.quarantined
            or ages.has_due_times
        ):
            return None
        topic, floor, cursor, quarantine, cached = (
            self._topic,
            progress.floor,
            self._cursor,
            self.quarantine,
            self._oldest,
        )
        released = topic.released
        # With nothing deferred or quarantined the oldest message is the first that is not settled.
        if floor >= released:
            oldest_ns = None
        elif cached is not None and cached[0] == floor >= topic.queue.oldest_offset:
            oldest_ns = cached[1]
        else:
            oldest_ns = self.oldest_ns()
        depth = self._unsent.count + self._returned.count
        if cursor.offset < released:
            is_plain = not cursor.skipped_count
            depth += topic.queue.count_between(cursor.offset, released) if is_plain else cursor.pending_count
        return (
            depth,
            depth,
            topic.released_count - self._released_before,
            oldest_ns,
            self._needed.bytes_from(topic, floor),
            NO_QUARANTINE if quarantine is None or not quarantine.max_attempts else quarantine.stats(),
        )

    def disk_bytes(self) -> int:
        if self._journaled.journal is None:
            return 0
        return self._needed.bytes_from(self._topic, self.needed_offset)

    @property
    def message_count(self) -> int:
        return self._topic.released_count - self._released_before

    @property
    def quarantined_count(self) -> int:
        return len(self.progress.quarantined)

    def quarantine_stats(self) -> QuarantineStats:
        return NO_QUARANTINE if self.quarantine is None else self.quarantine.stats()

    def set_max_attempts(self, max_attempts: int) -> None:
        if self.quarantine is not None:
            self.quarantine.max_attempts = max_attempts

    def history_of(self, offset: int) -> tuple[ReturnEvent, ...]:
        """How the last deliveries of a message ended, oldest first; empty when none is noted."""
        return () if self.quarantine is None else self.quarantine.history.of(offset)

    @property
    def next_offset(self) -> int:
        """From here on nothing was handed out, delivered or settled. An operator may settle ahead of the cursor."""
        return max(self._cursor.offset, self.progress.cursor)

    @property
    def needed_offset(self) -> int:
        """The first offset that this channel needs of the log."""
        return self.progress.floor if self._journaled.journal is not None else self._topic.end_offset

    # Handing out.

    def take(self, count_max: int, bytes_max: int) -> Run | None:
        if self._journaled.journal is None:
            self._drop_surplus()
        if self._unsent:
            run = self._take_line(self._unsent, count_max, bytes_max)
            if run is not None:
                return run
        order = self._order
        ahead_max = count_max
        if self._returned:
            is_first = self._returned.count > RETURNED_MAX or not self._cursor.pending_count
            due_count = self._returned.count if is_first else order.due_count()
            if due_count:
                run = self._take_returned(min(due_count, count_max), bytes_max)
                if run is not None:
                    return run
            if self._returned:
                ahead_max = min(max(order.ahead_count(), 1), count_max)
        run = self._take_pending(ahead_max, bytes_max)
        if run is not None:
            order.took_waiting(len(run))
        elif self._returned:
            run = self._take_returned(count_max, bytes_max)
        return run

    def _take_returned(self, count_max: int, bytes_max: int) -> Run | None:
        before = self._returned.count
        try:
            return self._take_line(self._returned, count_max, bytes_max)
        finally:
            # Lost messages left the line, too.
            self._order.took_returned(before - self._returned.count)

    def _take_pending(self, count_max: int, bytes_max: int) -> Run | None:
        topic, cursor = self._topic, self._cursor
        runs: list[Run] = []
        ranges: list[Range] = []
        count_left, bytes_left = count_max, bytes_max
        # A message that is larger than the budget comes alone; it leaves the budget below 0.
        while count_left > 0 and (bytes_left > 0 or not runs) and cursor.offset < topic.released:
            if cursor.pass_skipped():
                continue
            at = cursor.offset
            batch = self._batch
            if batch is None or not batch.first <= at < batch.end:
                batch = topic.batch_at(at)
                if batch is None:
                    self._batch = None
                    self._pass_missing(at)
                    continue
                self._batch = batch if batch.cost_bytes <= CURSOR_BATCH_BYTES_MAX else None
            stop = cursor.stop_before(min(batch.end, topic.released, at + count_left))
            if batch.damaged:
                if at in batch.damaged:
                    self._pass_damaged(at, 1)
                    continue
                stop = min([stop, *(offset for offset in batch.damaged if offset > at)])
            start = at - batch.first
            count = min(stop - at, batch.run.count_within(start, bytes_left))
            if count == 0:
                if runs:
                    break
                count = 1
            run = batch.run.slice(start, start + count)
            runs.append(run)
            ranges.append((at, count))
            cursor.offset = at + count
            count_left -= count
            bytes_left -= len(run.frames)
        return self._joined(runs, ranges)

    def _pass_missing(self, offset: int) -> None:
        """Pass an offset without a message: a gap, or a record that is lost."""
        topic = self._topic
        present = topic.next_present(offset)
        if present == offset:
            end = min(topic.lost_until(offset), topic.released)
            self._pass_damaged(offset, end - offset)
            return
        end = self._cursor.offset = topic.released if present is None else min(present, topic.released)
        self.progress.settled(offset, end - offset)

    def _pass_damaged(self, first: int, count: int) -> None:
        self.damaged_count += count
        self._topic.note_damaged(first, count)
        self._cursor.offset = max(self._cursor.offset, first + count)
        self._journaled.settled(first, count)

    def _take_line(self, line: OffsetLine, count_max: int, bytes_max: int) -> Run | None:
        """Take from the front of a line. None when all of it is lost; then the line is empty."""
        runs: list[Run] = []
        ranges: list[Range] = []
        count_left, bytes_left = count_max, bytes_max
        while line and count_left > 0 and (bytes_left > 0 or not runs):
            first, count = line.first()
            batch = self._topic.batch_at(first)
            if batch is None or first in batch.damaged:
                line.drop(1)
                if batch is not None or self._topic.next_present(first) == first:
                    self.damaged_count += 1
                    self._topic.note_damaged(first, 1)
                self._journaled.settled(first, 1)
                continue
            count = min(count, batch.end - first, count_left)
            if batch.damaged:
                count = min([count, *(offset - first for offset in batch.damaged if offset > first)])
            start = first - batch.first
            made, count = self._journaled.alike(first, count)
            count = min(count, batch.run.count_within(start, bytes_left))
            if count == 0:
                if runs:
                    break
                count = 1
            run = batch.run.slice(start, start + count)
            if made:
                run = _with_attempts(run, made + 1)
            runs.append(run)
            ranges.append((first, count))
            line.drop(count)
            count_left -= count
            bytes_left -= len(run.frames)
        return self._joined(runs, ranges)

    def _joined(self, runs: list[Run], ranges: list[Range]) -> Run | None:
        if not runs:
            return None
        run = join_runs(runs)
        self._taken = run, ranges
        return run

    def sent(self, run: Run) -> None:
        taken, self._taken = self._taken, None
        if taken is not None and taken[0] is run:
            ranges = taken[1]
        else:
            ranges = ranges_of(offsets_of(run.ids, self._topic.id_base))
        self._journaled.delivered(ranges)

    def attempts_and_sizes(self, run: Run, ids: Sequence[bytes]) -> list[tuple[int, int | None]]:
        offsets = offsets_of(ids, self._topic.id_base)
        return [(self.progress.made_at(offset), self._body_bytes(run, offset)) for offset in offsets]

    def _body_bytes(self, run: Run, offset: int) -> int | None:
        if isinstance(run, SentRun) and len(run) == 1:
            return run.frames_bytes - FRAME_HEADER_BYTES
        try:
            batch = self._topic.batch_near(offset, FIGURES_RECORD_BYTES_MAX)
        except StorageError:
            return None
        return None if batch is None else len(batch.run.frame_at(offset - batch.first)) - FRAME_HEADER_BYTES

    def body_bytes_read(self, offset: int, run: Run | None = None) -> int:
        """The same for one message, whatever it costs; 0 when the disk refuses."""
        size = None if run is None else self._body_bytes(run, offset)
        if size is not None:
            return size
        try:
            batch = self._topic.batch_at(offset)
        except StorageError:
            return 0
        return 0 if batch is None else len(batch.run.frame_at(offset - batch.first)) - FRAME_HEADER_BYTES

    # Taking back.

    def give_back(
        self,
        run: Run,
        ids: Sequence[bytes],
        *,
        counted: bool,
        due_ns: int | None = None,
        reason: ReturnReason = ReturnReason.UNKNOWN,
        consumer: str = "",
    ) -> None:
        ranges = ranges_of(offsets_of(ids, self._topic.id_base))
        if reason and self.quarantine is not None:
            event = ReturnEvent(self._topic.time_ns(), reason, consumer)
            ranges = self.quarantine.came_back(ranges, event, lambda offset: self.body_bytes_read(offset, run))
        if due_ns is not None:
            due_time_ns = self._topic.time_of(due_ns)
            for first, count in ranges:
                self._due.put(first, count, due_ns)
                self._journaled.deferred(first, count, due_time_ns)
        elif counted:
            for first, count in ranges:
                self.places.return_behind(first, count)
                self._journaled.requeued(first, count)
        else:
            for first, count in reversed(ranges):
                self._unsent.prepend(first, count)
        self._topic.next_turn.request_log_work()

    def settle(self, ids: Sequence[bytes]) -> None:
        if ids:
            for first, count in ranges_of(offsets_of(ids, self._topic.id_base)):
                self._journaled.settled(first, count)
            self._topic.next_turn.request_log_work()

    def has_room_to_quarantine(self, body_bytes: int, count: int) -> bool:
        """body_bytes: of so many messages together."""
        return self.quarantine is not None and self.quarantine.has_room_for(body_bytes, count)

    def set_aside(self, offset: int, body_bytes: int) -> None:
        """Quarantine a message for an operator; its place in a line, or its consumer, has let it go."""
        assert self.quarantine is not None
        self.quarantine.set_aside(offset, operator_event(self._topic.time_ns()), body_bytes)

    def redrive(self, offsets: Iterable[int], *, keeps_attempts: bool = False) -> int:
        """Let quarantined messages wait behind the others; returns how many of these were quarantined."""
        quarantine, now_ns = self.quarantine, self._topic.time_ns()
        count = 0
        for offset in offsets:
            if quarantine is not None and quarantine.redrive(offset, now_ns, keeps_attempts=keeps_attempts):
                self.places.return_behind(offset, 1)
                count += 1
        if count:
            self._topic.next_turn.request_log_work()
        return count

    def _drop_surplus(self) -> None:
        """Drop messages that are too far behind, or gone from the log: an ephemeral channel keeps no segment."""
        topic, cursor = self._topic, self._cursor
        oldest = max(topic.oldest_offset, topic.offset_before_end(topic.memory_count_max))
        while cursor.offset < oldest:
            if cursor.pass_skipped():
                continue
            first, stop = cursor.offset, cursor.stop_before(oldest)
            self.dropped_count += topic.queue.count_between(first, stop)
            self._journaled.settled(first, stop - first)
            cursor.offset = stop

    # Time.

    def tidy(self) -> None:
        self._batch = None  # the cache has it while channels use it

    def next_due_ns(self) -> int | None:
        return self._due.next_due_ns()

    def latest_due_ns(self) -> int | None:
        return self._due.latest_due_ns()

    def release_due(self, now_ns: int, count_max: int) -> int:
        due = self._due.pop_due(now_ns, count_max)
        zero_ns = self._topic.time_of(0)
        for due_ns, first, count in due:
            self._ages.became_due(first, count, zero_ns + due_ns)
        return self.places.return_all([(first, count) for _, first, count in due])

    def release_deferred(self, count_max: int = sys.maxsize) -> int:
        ranges = [(first, count) for _, first, count in self._due.pop_due(sys.maxsize, count_max)]
        now_ns = self._topic.time_ns()
        for first, count in ranges:
            self._journaled.released(first, count, now_ns)
        self._topic.next_turn.request_log_work()
        return self.places.return_all(ranges)

    def oldest_ns(self) -> int | None:
        if self._journaled.journal is None:
            self._drop_surplus()
        due_ns = self._ages.oldest_due_ns()
        try:
            offset = self._ages.first_never_deferred()
        except LookupError:
            return None
        if offset is None:
            return due_ns
        if self._oldest is None or self._oldest[0] != offset:
            batch = self._batch
            if batch is None or not batch.first <= offset < batch.end:
                batch = self._topic.batch_at(offset)
            if batch is None:
                return None
            self._oldest = offset, batch.time_ns
        return self._oldest[1] if due_ns is None else min(self._oldest[1], due_ns)

    aged_by_due: Container[bytes] = ()

    def most_attempts(self) -> tuple[int, bytes]:
        most = self._attempts.most()
        return (0, b"") if most is None else (most[1], b"%016x" % (self._topic.id_base + most[0]))

    # Acts.

    def empty(self) -> EmptyResult:
        dropped = EmptyResult(self.depth, self._due.count, self.quarantined_count)
        upto = self._topic.released
        self._forget_all()
        self._cursor.pass_released()
        self._journaled.emptied(upto)
        self._topic.next_turn.request_log_work()
        return dropped

    def skip_to(self, offset: int) -> None:
        """Settle messages that the topic drops before it releases them: all up to `offset`."""
        cursor = self._cursor
        first = max(self._topic.released, cursor.offset)
        cursor.skip_unreleased(offset)
        self._journaled.settled(first, offset - first)
        self._topic.next_turn.request_log_work()

    def prepare_empty(self) -> Ticket:
        """Done when the journal, durably, settles all that is released now; then `empty` does it in memory."""
        return self._journaled.prepare_empty(self._topic.released)

    def prepare_seek(self, offset: int, others: Mapping[int, Range] | None = None) -> Ticket:
        """Done when the journal, durably, has the cursor at `offset`; then `seek` moves it in memory. others: channels
        that settle a range with it."""
        return self._journaled.prepare_seek(self._clamped(offset), others)

    def prepare_skip(self, offset: int) -> Ticket:
        """Done when the journal, durably, settles all before `offset`; then `skip_before` does it in memory."""
        return self._journaled.prepare_empty(self._clamped(offset))

    def skip_before(self, offset: int) -> None:
        """Settle all before `offset`; settled offsets behind it stay settled. The caller has taken back messages in
        flight: they are delivered again."""
        self._journaled.emptied(self._clamped(offset))
        self.start_over()

    def join(self, joined: Joined) -> None:
        """Take over a progress that brings messages back; the journal has it, and `ChannelPlaces.place_joined` is
        called next. Where it settles messages of this channel, the caller has taken back those in flight: they are
        delivered again."""
        self.progress.become(joined.progress)
        if joined.has_settled:
            self.start_over()

    def _clamped(self, offset: int) -> int:
        return min(max(offset, self._topic.oldest_offset), self._topic.released)

    def seek(self, offset: int) -> None:
        """Move the cursor: all from `offset` on is delivered (again), all before it is settled. The caller has taken
        back messages in flight."""
        topic = self._topic
        self._forget_all()
        offset, deferred = self._clamped(offset), self.progress.deferred
        self._journaled.sought(offset)
        topic.next_turn.free(deferred)
        self._cursor.start_at(offset)
        now_ns = topic.time_ns()
        published = topic.deferred_between(offset, topic.released)
        self.places.note_all_deferred([one for one in published if one[1] > now_ns])
        self._ages.begin(now_ns)
        topic.next_turn.request_log_work()

    def _forget_all(self) -> None:
        self.places.forget_all()
        self._batch = self._taken = self._oldest = None


def _with_attempts(run: Run, attempts: int) -> Run:
    """The same messages as a later delivery."""
    number = min(attempts, ATTEMPTS_MAX).to_bytes(2, "big")
    frames = [run.frame_at(index) for index in range(len(run))]
    return Run(b"".join([one[:ATTEMPTS_AT] + number + one[ID_AT:] for one in frames]), run.ids, run.published_ns)
