"""Everything that the topics of storage kind `log` share: the commit log, the consume queues, the progress journal.

What was appended waits in a line until the log says how far it is visible (`visible_end`); then the consume queue
learns of it (RocketMQ's reput), the channels may have it, and its ticket is done, in that order.
"""

import logging
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from queue_engine.commit_log.commit_log import CommitLog
from queue_engine.commit_log.holes import BLOCK_BYTES, Holes
from queue_engine.commit_log.options import LogOptions, SyncPolicy
from queue_engine.commit_log.recovery import RecoveredLog
from queue_engine.commit_log.segment import LogSegments
from queue_engine.commit_log.sync_place import SyncPlace
from queue_engine.consume_queue.consume_queue import ConsumeQueue
from queue_engine.consume_queue.queue_files import QueueFiles
from queue_engine.disk.background import Background
from queue_engine.disk.files import Files
from queue_engine.disk.kept_descriptors import IDLE_INTERVAL_NS
from queue_engine.log_store.batch_keys import BatchKeys, KeyedRecord, KnownBatch
from queue_engine.log_store.checkpointer import Checkpointer
from queue_engine.log_store.cursor_retention import CursorRetention
from queue_engine.log_store.format_versions import refuse_newer
from queue_engine.log_store.log_space import LogSpace
from queue_engine.log_store.log_topic_store import LogTopicStore
from queue_engine.log_store.logged_batch import BatchCache, KeyedBatch
from queue_engine.log_store.offset_reservation import OFFSETS_MIN, OffsetReservation
from queue_engine.log_store.queue_recovery import QueueRecovery
from queue_engine.progress.channel_progress import ChannelProgress
from queue_engine.progress.journal import RESERVE_BYTES, RESERVE_NAME, ProgressJournal
from queue_engine.progress.loss import ChannelPlace, progress_losses, waiting_below
from queue_engine.progress.queue_index import remove_unknown
from queue_engine.progress.recovery import RecoveredProgress, progress_or_error, recover_progress
from queue_engine.readers.cursors import Cursors
from queue_engine.readers.holds import Holds
from queue_engine.storage.log_stats import HoldStats, LogStats
from queue_engine.storage.recovery_report import ProgressLoss, RecoveryReport, lost_ranges
from queue_engine.vocabulary.byte_budget import ByteBudget
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, Clock
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.faults import told
from queue_engine.vocabulary.run import Batch
from queue_engine.vocabulary.ticket import Ticket

logger = logging.getLogger(__name__)

CACHE_BYTES_MAX = 16 << 20
# Memory that consume queues may wait in before the longest tails are written.
TAILS_BYTES_MAX = 4 << 20
# How often it is looked which batches nobody wants any more.
TIDY_INTERVAL_NS = 2 * NS_PER_S
# How often it is looked for segments that nobody needs.
REMOVE_INTERVAL_NS = NS_PER_S
# What the repair of a torn end, the first journal and the floors of a start may need.
RECOVERY_BYTES = 256 << 10
# Holds that the figures list.
HOLDS_SHOWN_MAX = 100


@dataclass(frozen=True, slots=True)
class TopicOpening:
    """What topology.json knows of a topic. reserved_offset: all offsets below may have been given. released: where it
    was frozen, None when it flowed. channels: number → offset it began at. channel_starts: the same by name.
    channel_names: by number."""

    name: str
    number: int
    id_base: int
    reserved_offset: int = 0
    released: int | None = None
    channels: Mapping[int, int] = field(default_factory=dict)
    channel_starts: Mapping[str, int] = field(default_factory=dict)
    channel_names: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogOpening:
    """What a start found. topics, channels: by number. unknown_records: of topics that are not there any more.
    damaged_holds, damaged_cursors: the file of holds, and that of cursors, when it could not be read and is set aside;
    else ""."""

    topics: dict[int, LogTopicStore]
    channels: dict[int, ChannelProgress]
    log: RecoveredLog
    progress: RecoveredProgress
    unknown_records: int
    progress_losses: tuple[ProgressLoss, ...] = ()
    damaged_holds: str = ""
    damaged_cursors: str = ""


_Pending = tuple[int, LogTopicStore, int, Batch, int, int, Sequence[int] | None, Ticket]


class LogStore:
    """The log of one data directory. Belongs to the engine's thread.

    on_work: called when something waits for `end_turn`. on_reserve: called when topology.json is to be written
    because a topic needs more offsets; `reserved` tells that it was.
    """

    def __init__(
        self,
        directory: str,
        *,
        files: Files,
        clock: Clock,
        policy: SyncPolicy,
        sync_interval_ms: int,
        sync_interval_bytes: int,
        segment_bytes: int,
        memory_count_max: int,
        sync_background: Background,
        worker: Background,
        progress_background: Background | None = None,
        on_work: Callable[[], None] = lambda: None,
        on_reserve: Callable[[], None] = lambda: None,
        journal_reserve_bytes: int = RESERVE_BYTES,
        room_bytes_min: int | None = None,
        checkpoint_interval_ms: int = 5_000,
        retention_ms: int = 0,
        retention_bytes: int = 0,
        block_bytes: int = BLOCK_BYTES,
        pipeline_retention_bytes: int = 0,
        cache_bytes: int = CACHE_BYTES_MAX,
        deferred_budget: ByteBudget | None = None,
        reads_unsynced: bool = False,
        sync_place: SyncPlace | None = None,
    ) -> None:
        """progress_background: a thread for the syncs of channels' progress alone; None for `worker`.
        room_bytes_min: what must be free to begin with, and after the disk was full; None for twice the reserve.
        retention_ms, retention_bytes: what nobody needs any more is kept as long as it is younger, and the log is
        smaller; of what is 0 the other decides alone, with both 0 it goes at once. block_bytes: the file system's.
        pipeline_retention_bytes: what one pipeline cursor may keep, 0 for no limit. cache_bytes: for the batches used
        last. reads_unsynced: what is visible is handed out in bulk before it is known to be on the disk. sync_place:
        as of CommitLog."""
        self.clock = clock
        self.segments = LogSegments(os.path.join(directory, "segments"), files)
        self.batches = BatchCache(cache_bytes)
        self.deferred_budget = deferred_budget or ByteBudget(1 << 62)
        self.reads_unsynced = reads_unsynced
        self.holds = Holds(directory, files=files, clock=clock, worker=worker)
        self.cursors = Cursors(directory, files=files, clock=clock, worker=worker)
        self.cursor_retention = CursorRetention(
            self.cursors,
            limit_bytes=pipeline_retention_bytes,
            topics=lambda: self._topics,
            bytes_from=self.bytes_from,
        )
        self.holes = Holes(directory, files, block_bytes)
        self.batch_keys = BatchKeys(directory, files=files, clock=clock)
        self.damaged_count = 0
        self.is_closed = False  # and everything is on the disk
        self._directory = directory
        self._progress_directory = os.path.join(directory, "progress")
        self._queues_directory = os.path.join(directory, "queues")
        self._files = files
        self._policy = policy
        self._sync_interval_ms = sync_interval_ms
        self._sync_interval_bytes = sync_interval_bytes
        self._segment_bytes = segment_bytes
        self._memory_count_max = memory_count_max
        self._sync_background = sync_background
        self._sync_place = sync_place
        self._worker = worker
        self._progress_background = progress_background
        self._on_work = on_work
        self._on_reserve = on_reserve
        self._journal_reserve_bytes = journal_reserve_bytes
        self._room_bytes_min = 2 * journal_reserve_bytes if room_bytes_min is None else room_bytes_min
        self._queue_files = QueueFiles(files)
        self._topics: dict[int, LogTopicStore] = {}
        self._pending: deque[_Pending] = deque()
        self._has_work = False
        self._next_channel = 1
        self._recovered: dict[int, ChannelProgress] = {}
        self._known_channels: frozenset[int] = frozenset()
        self._wanted: dict[int, tuple[int, int]] = {}  # of each channel of the start: where it began, its topic's end
        self._remove_at_ns = 0
        self._close_idle_at_ns = 0
        self._tidy_at_ns = 0
        self._checkpointer = Checkpointer(
            directory,
            files=files,
            queue_files=self._queue_files,
            worker=worker,
            interval_ns=checkpoint_interval_ms * NS_PER_MS,
            batch_keys=self.batch_keys,
            log=lambda: self.log,
            topics=lambda: self._topics,
        )
        self.space = LogSpace(
            self.segments,
            self.holes,
            files=files,
            clock=clock,
            worker=worker,
            topics=self._topics,
            holds=self.holds,
            batch_keys=self.batch_keys,
            log=lambda: self.log,
            on_removed=self._checkpointer.soon,
            retention_ms=retention_ms,
            retention_bytes=retention_bytes,
        )
        self._queue_recovery = QueueRecovery(
            self._queues_directory,
            files=files,
            segments=self.segments,
            holes=self.holes,
            batch_keys=self.batch_keys,
            checkpointer=self._checkpointer,
            queue_files=self._queue_files,
            new_queue=self._new_queue,
        )
        self.log: CommitLog
        self.journal: ProgressJournal

    # Start and stop.

    def open(self, topics: Sequence[TopicOpening]) -> LogOpening:
        """Recover what there is and go on behind it. topics: all that exist, with their channels.

        Raises StorageError; then nothing may be published.
        """
        names = {opening.number: opening.name for opening in topics}
        try:
            self._make_room()
            self.segments.load()
            refuse_newer(self._directory, self._files)
            damaged_holds = self.holds.open(names)
            damaged_cursors = self.cursors.open(names)
            damaged_holes = self.holes.open()
            self.holes.keep([segment.position for segment in self.segments.list])
            found = self._queue_recovery.run(names, damaged_holes)
            wanted: dict[int, tuple[int, int]] = {}
            for opening in topics:
                end_offset = found.queues[opening.number].end_offset
                wanted |= {number: (start, end_offset) for number, start in opening.channels.items()}
            self._wanted = wanted
            progress = progress_or_error(self._progress_directory, self._files, wanted)
            places = {
                number: ChannelPlace(
                    opening.name, opening.channel_names.get(number, str(number)), found.queues[opening.number]
                )
                for opening in topics
                for number in opening.channels
            }
            losses = tuple(progress_losses(progress, places))
            self._begin(found.log, progress)
        except OSError as exc:
            raise StorageError(f"the log in {self._directory} can't be opened: {exc}") from exc
        for opening in topics:
            queue = found.queues[opening.number]
            # Nobody knows what was given of the reserved offsets: none of them is given again.
            next_offset = max(queue.end_offset, opening.reserved_offset)
            self._topics[opening.number] = LogTopicStore(
                opening.name,
                opening.number,
                id_base=opening.id_base,
                log=self,
                queue=queue,
                next_offset=next_offset,
                reservation=self._reservation(next_offset, next_offset, next_offset + OFFSETS_MIN),
                released=opening.released,
                memory_count_max=self._memory_count_max,
                channel_starts=opening.channel_starts,
                lost=lost_ranges(found.log.damages, opening.number),
            )
        self._next_channel = max([0, *wanted]) + 1
        self._recovered = dict(progress.channels)
        self._known_channels = frozenset(progress.channels)
        self.cursor_retention.note_lost()
        files = (damaged_holds, damaged_cursors)
        return LogOpening(
            dict(self._topics), progress.channels, found.log, progress, found.unknown_records, losses, *files
        )

    def _begin(self, recovered: RecoveredLog, progress: RecoveredProgress) -> None:
        self.journal = ProgressJournal(
            self._progress_directory,
            number=progress.next_journal,
            files=self._files,
            clock=self.clock,
            worker=self._worker,
            sync_worker=self._progress_background,
            reserve_bytes=self._journal_reserve_bytes,
            recover=self._recover_again,
        )
        self.log = CommitLog(
            self.segments,
            recovered,
            LogOptions(
                self._policy,
                self._segment_bytes,
                self._sync_interval_ms,
                self._sync_interval_bytes,
                room_bytes_min=self._room_bytes_min,
            ),
            clock=self.clock,
            sync_background=self._sync_background,
            worker=self._worker,
            listener=self,
            sync_place=self._sync_place,
        )
        self.journal.reserve.find()
        self.log.open()
        self._mind_the_reserve()
        self.journal.open(progress)

    def _recover_again(self) -> RecoveredProgress:
        """Of the channels there were at the start and are still. Raises StorageError."""
        ends = {one.number: topic.end_offset for topic in self._topics.values() for one in topic.durable_channels()}
        wanted = {number: (start, ends[number]) for number, (start, _) in self._wanted.items() if number in ends}
        return recover_progress(self._progress_directory, self._files, wanted)

    def _make_room(self) -> None:
        """Recovery writes a little: where there is next to nothing, the reserve is given up before it begins."""
        path = os.path.join(self._progress_directory, RESERVE_NAME)
        if self._files.size_of(path) and self._files.free_bytes(self._progress_directory) < RECOVERY_BYTES:
            self._files.unlink_quietly(path)

    def _mind_the_reserve(self) -> None:
        """While the disk is full its room is for what helps: finishing, emptying, deleting, the console's files."""
        reserve = self.journal.reserve
        reserve.is_allowed = not self.log.is_full
        if self.log.is_full:
            reserve.give_up()

    def _new_queue(self, number: int, first_offset: int) -> ConsumeQueue:
        return ConsumeQueue(
            os.path.join(self._queues_directory, str(number)),
            self._queue_files,
            oldest_offset=first_offset,
            end_offset=first_offset,
        )

    def open_topic(self, name: str, number: int, *, id_base: int) -> LogTopicStore:
        """A new topic; `number` was never given before, `id_base` is at most ID_BASE_MAX.

        Its first offsets are reserved from the start: until topology.json knows the topic, what is published to it
        is nothing that a restart would find."""
        topic = self._topics[number] = LogTopicStore(
            name,
            number,
            id_base=id_base,
            log=self,
            queue=self._new_queue(number, 0),
            next_offset=0,
            reservation=self._reservation(0, OFFSETS_MIN, OFFSETS_MIN),
            released=0,
            memory_count_max=self._memory_count_max,
        )
        return topic

    def close(self) -> None:
        """Put everything on the disk. Raises StorageError with all that went wrong."""
        errors: list[str] = []
        self._checkpointer.is_stopped = True
        for step in (self.end_turn, self.log.close, self._close_journal, self._close_queues):
            try:
                step()
            except StorageError as exc:
                errors.append(str(exc))
            except Exception as exc:
                # The other files are to be closed well all the same.
                logger.exception("log not closed well directory=%s", self._directory)
                errors.append(f"the log in {self._directory} was not closed well: {told(exc)}")
        self.segments.close()
        if errors:
            raise StorageError("; ".join(errors))
        self.is_closed = True

    def _close_journal(self) -> None:
        self.journal.close(
            {
                channel.number: (topic.end_offset, waiting_below(topic.end_offset, channel.progress, topic.queue))
                for topic in self._topics.values()
                for channel in topic.durable_channels()
            }
        )

    def _close_queues(self) -> None:
        for topic in self._topics.values():
            if not topic.queue.flush():
                assert topic.queue.error is not None
                raise topic.queue.error
        try:
            self._queue_files.sync(self._queue_files.take_unsynced())
            self._checkpointer.close()
            self.holds.close()
            self.cursors.close()
        except OSError as exc:
            raise StorageError(
                f"consume queues, holds or cursors in {self._directory} can't be written: {exc}"
            ) from exc
        finally:
            self._queue_files.close()

    # Publishing.

    def batch_time_ns(self) -> int:
        """The publish time of the next batch: now, but never before the last."""
        return max(self.log.last_time_ns, self.clock.time_ns())

    def append(self, topic: LogTopicStore, batch: Batch, dues_ns: Sequence[int] | None) -> Ticket:
        """Take a topic's batch; visible and done after `end_turn`, by the sync policy. Raises StorageError."""
        first, count = topic.next_offset, len(batch.ids)
        if topic.reservation.is_low(first):
            self._reserve_for(topic, count)
        position, size = self.log.append(topic.number, first, batch, dues_ns=dues_ns)
        topic.next_offset = first + count
        ticket = Ticket()
        self._pending.append((position + size, topic, first, batch, position, size, dues_ns, ticket))
        if not self._has_work:
            self.note_work()
        return ticket

    def append_keyed(
        self,
        topic: LogTopicStore,
        batch: Batch,
        *,
        flags: int,
        batch_key: bytes,
        digest: bytes,
        keys: Sequence[bytes] | None,
    ) -> Ticket:
        """The same with keys. Under a batch key, b"" for none, the batch is known while it is being written; if that
        fails it is not any more. Raises StorageError."""
        number, first, count = topic.number, topic.next_offset, len(batch.ids)
        if topic.reservation.is_low(first):
            self._reserve_for(topic, count)
        position, size = self.log.append(number, first, batch, flags=flags, batch_key=batch_key, keys=keys)
        topic.next_offset = first + count
        ticket = Ticket()
        self._pending.append((position + size, topic, first, batch, position, size, None, ticket))
        if batch_key:
            self.batch_keys.begin(number, batch_key, digest, KnownBatch(first, count, ticket))

        def settled(done: Ticket) -> None:
            if done.error is not None:
                if batch_key:
                    self.batch_keys.forget(number, batch_key)
                return
            if number not in self._topics:
                return  # deleted meanwhile
            if keys is not None:
                self.batches.put(position, KeyedBatch(first, batch.timestamp_ns, batch.run(), keys))
            if batch_key:
                record = KeyedRecord(number, batch_key, first, count, batch.timestamp_ns, position, size)
                self.batch_keys.put(record, digest)

        ticket.when_done(settled)
        self.note_work()
        return ticket

    def _reserve_for(self, topic: LogTopicStore, count: int) -> None:
        """Few of the reserved offsets are left. Raises StorageError when there are not even `count`."""
        if topic.reservation.ask(topic.next_offset, self.clock.monotonic_ns()):
            self._on_reserve()
        left = topic.reservation.reserved_offset - topic.next_offset
        if left < count:
            if self.log.refusal is not None:
                raise self.log.refusal  # why topology.json could not be written
            raise StorageError(
                f"topic {topic.name} has {left} reserved offsets left for {count} messages: "
                "topology.json could not be written in time"
            )

    def _reservation(self, next_offset: int, reserved_offset: int, wanted_offset: int) -> OffsetReservation:
        return OffsetReservation(
            next_offset=next_offset,
            reserved_offset=reserved_offset,
            wanted_offset=wanted_offset,
            now_ns=self.clock.monotonic_ns(),
        )

    def reserving(self) -> list[tuple[int, int]]:
        """(topic number, offset) that `positions` tells at this moment and that is not known to be durable."""
        return [
            (number, topic.reservation.wanted_offset)
            for number, topic in self._topics.items()
            if topic.reservation.is_asked
        ]

    def reserved(self, reserving: Sequence[tuple[int, int]]) -> None:
        """What `reserving` told is in topology.json, durably."""
        for number, offset in reserving:
            topic = self._topics.get(number)
            if topic is not None:
                topic.reservation.promised(offset)

    @property
    def unused_position(self) -> int:
        """Nothing that was published before this moment lies at or behind it."""
        return self.log.visible_end + 2 * self._segment_bytes

    def holds_nothing_of(self, number: int, *, before: int) -> bool:
        """Whether a start could not meet a deleted topic's number, of which nothing lies at `before` or behind."""
        segments = self.segments.list
        is_gone = bool(segments) and segments[0].position >= before
        return is_gone and number not in self._checkpointer.numbers

    def remove_unknown(self) -> None:
        """Remove what deleted channels left behind. topology.json is durable as `open` was told it."""
        try:
            removed = remove_unknown(self._progress_directory, self._known_channels, self._files)
        except OSError as exc:
            logger.warning("progress of deleted channels not removed error=%s", exc)
        else:
            if removed:
                logger.info("progress of deleted channels removed count=%d", removed)

    def note_work(self) -> None:
        if not self._has_work:
            self._has_work = True
            self._on_work()

    def stats(self, recovery: RecoveryReport | None = None) -> LogStats:
        """recovery: what the start found, to stand beside the figures."""
        log, counts, segments = self.log, self.log.counts, self.segments.list
        return LogStats(
            sync=str(self._policy),
            segment_count=len(segments),
            bytes=self.bytes_from(0),
            hole_bytes=self.holes.bytes_from(0),
            end=log.visible_end,
            synced_end=log.synced_end,
            oldest_unsynced_ms=log.oldest_unsynced_ns() // NS_PER_MS,
            is_full=log.is_full,
            error=str(self.error or ""),
            damaged_count=self.damaged_count,
            group_count=counts.groups,
            written_bytes=counts.written_bytes,
            sync_count=counts.syncs,
            synced_bytes=counts.synced_bytes,
            syncs_by_bytes=counts.syncs_by_bytes,
            syncs_by_time=counts.syncs_by_time,
            syncs_by_roll=counts.syncs_by_roll,
            inline_sync_count=counts.inline_syncs,
            failed_group_count=counts.failed_groups,
            recovery=recovery,
            progress_fault_count=self.journal.faults.count,
            progress_fault=self.journal.faults.last_error,
            progress_fault_ms=self.journal.faults.last_ns // NS_PER_MS,
            holds=tuple(
                HoldStats(one.name, self._topics[one.topic_number].name, one.offset, one.expires_ms)
                for one in self.holds.all()[:HOLDS_SHOWN_MAX]
                if one.topic_number in self._topics
            ),
        )

    def bytes_from(self, position: int) -> int:
        """What the log holds from `position` on: without what is unused at the ends of segments, and without holes."""
        return self.space.bytes_from(position)

    @property
    def error(self) -> StorageError | None:
        """Why something is not on the disk as it should be, or can't be; None when all is well."""
        return self.log.error or self.journal.error or self.holds.error or self.cursors.error

    @property
    def has_work(self) -> bool:
        """Whether `end_turn` has something to do."""
        return self._has_work

    def end_turn(self) -> None:
        """Write what this turn published, and what its channels did."""
        self._has_work = False
        self.commit()
        self.journal.flush()

    def commit(self) -> None:
        """Write what was published; where no sync is waited for it is visible now.

        What fails unexpectedly here concerns all topics: the log takes nothing more, as after a fault of the disk."""
        try:
            self.log.commit()
        except Exception as exc:
            logger.exception("commit log: a write failed unexpectedly")
            self.log.fail(exc)

    def tick(self, now_ns: int) -> None:
        """What is due by time: syncs, merges, another try of what the disk refused. What fails unexpectedly keeps
        nothing else from being done; it is raised at the end."""
        error: Exception | None = None
        for step in (self._tick_log, self._tick_journal, self._tick_queues, self._tick_readers):
            try:
                step(now_ns)
            except Exception as exc:
                error = error or exc
        if error is not None:
            raise error

    def _tick_log(self, now_ns: int) -> None:
        self.log.has_readers = bool(len(self.cursors) or len(self.holds))
        self.log.tick(now_ns)

    def _tick_journal(self, now_ns: int) -> None:
        self._mind_the_reserve()
        self.journal.tick(now_ns)

    def _tick_queues(self, now_ns: int) -> None:
        self._bound_tails()
        self._checkpointer.tick(now_ns)
        if now_ns >= self._tidy_at_ns:
            self._tidy_at_ns = now_ns + TIDY_INTERVAL_NS
            self.batches.tidy()
        if now_ns >= self._close_idle_at_ns:
            self._close_idle_at_ns = now_ns + IDLE_INTERVAL_NS
            self.segments.close_idle()
            self._queue_files.close_idle()

    def _tick_readers(self, now_ns: int) -> None:
        if now_ns >= self._remove_at_ns:
            self._remove_at_ns = now_ns + REMOVE_INTERVAL_NS
            self.holds.tick()
            self.cursors.tick()
            self.cursor_retention.tick()
            if self.holds.unread is not None or self.cursors.unread is not None:
                return  # nobody knows what they need
            try:
                self.space.tick(now_ns)
            except StorageError as exc:
                # Whether they are needed can't be told now.
                logger.warning("segments not removed error=%s", exc)

    def remove_unneeded(self) -> int:
        """Remove the oldest segments as far as no topic and no channel needs them; returns how many.

        Raises StorageError when a consume queue can't be read; then nothing is removed.
        """
        return self.space.remove_unneeded()

    def _bound_tails(self) -> None:
        if sum(topic.queue.tail_bytes for topic in self._topics.values()) > TAILS_BYTES_MAX:
            for topic in sorted(self._topics.values(), key=lambda one: -one.queue.tail_bytes)[:64]:
                topic.queue.flush()

    def became_visible(self, visible_end: int) -> None:
        pending = self._pending
        while pending and pending[0][0] <= visible_end:
            _, topic, first, batch, position, size, dues_ns, ticket = pending.popleft()
            if topic.number in self._topics:  # else it was deleted meanwhile, and this with it
                topic.appeared(first, batch, position, size, dues_ns)
            ticket.resolve()

    def log_failed(self, error: StorageError) -> None:
        """Nothing that waits was taken: its offsets are given again."""
        pending, self._pending = self._pending, deque()
        for _, topic, first, *_ in reversed(pending):
            topic.next_offset = min(topic.next_offset, first)
        for _, topic, *_, ticket in pending:
            ticket.reject(topic.refused(error))

    # Channels and topics.

    def topic(self, number: int) -> LogTopicStore:
        return self._topics[number]

    def take_recovered(self, number: int) -> ChannelProgress | None:
        """What a channel had done before the start; None when it is new."""
        return self._recovered.pop(number, None)

    def take_channel_number(self) -> int:
        number = self._next_channel
        self._next_channel += 1
        return number

    def forget_channel(self, number: int) -> None:
        self.journal.forget(number)

    def forget_topic(self, topic: LogTopicStore) -> None:
        """The topic was deleted: its queue's files go."""
        self._topics.pop(topic.number, None)
        self.holds.forget_topic(topic.number)
        self.cursors.forget_topic(topic.number, topic.end_offset)
        self.batch_keys.forget_topic(topic.number)
        try:
            topic.queue.delete()
        except OSError as exc:
            # Derived, and of a number that is never used again.
            logger.warning("consume queue not removed topic=%s error=%s", topic.name, exc)

    def note_damaged(self, topic: LogTopicStore, first: int, count: int) -> None:
        """Messages whose bodies are lost were passed over."""
        self.damaged_count += count
        logger.error("messages damaged topic=%s offset=%d count=%d", topic.name, first, count)
