"""Storage kind `log` of one data directory: opens the log's parts, then has each do its work of a turn or a tick.

Appended batches wait in `PendingBatches` until the commit log makes them visible. Then the consume queue notes the
batch (RocketMQ's reput), the channels get it, and its ticket is done, in that order.
"""

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from queue_engine.storage.commit_log.commit_log import CommitLog
from queue_engine.storage.commit_log.log_recovery import RecoveredLog
from queue_engine.storage.commit_log.options import LogOptions
from queue_engine.storage.commit_log.thread_choice import ThreadChoice
from queue_engine.storage.disk.background import Backgrounds
from queue_engine.storage.disk.descriptor_cache import IDLE_INTERVAL_NS
from queue_engine.storage.disk.files import Files
from queue_engine.storage.log_stats import LeaseStats, LogStats
from queue_engine.storage.log_store.checkpointer import Checkpointer
from queue_engine.storage.log_store.cursor_retention import CursorRetention
from queue_engine.storage.log_store.format_versions import refuse_newer
from queue_engine.storage.log_store.log_files import LogFiles
from queue_engine.storage.log_store.log_retention import LogRetention
from queue_engine.storage.log_store.log_settings import LogSettings
from queue_engine.storage.log_store.log_topic import TopicOpening
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.storage.log_store.offset_reservation import OFFSETS_MIN, OffsetReservation
from queue_engine.storage.log_store.pending_batches import PendingBatches
from queue_engine.storage.log_store.queue_recovery import QueueRecovery, RecoveredQueues
from queue_engine.storage.log_store.shared_log import SharedLog
from queue_engine.storage.progress.channel_progress import ChannelProgress
from queue_engine.storage.progress.histories import Quarantines
from queue_engine.storage.progress.journal import RESERVE_NAME, ProgressJournal
from queue_engine.storage.progress.loss import LossChannel, progress_losses, waiting_below
from queue_engine.storage.progress.progress_recovery import RecoveredProgress, progress_or_error, recover_progress
from queue_engine.storage.progress.queue_index import remove_other_channels
from queue_engine.storage.recovery_report import ProgressLoss, RecoveryReport, lost_ranges
from queue_engine.vocabulary.byte_budget import ByteBudget
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, Clock
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.faults import describe
from queue_engine.vocabulary.next_turn import NextTurn
from queue_engine.vocabulary.start_progress import StartProgress

logger = logging.getLogger(__name__)

# Beyond so much memory of unwritten consume queues the longest tails are written.
TAILS_BYTES_MAX = 4 << 20
# How often unused batches are dropped from the cache.
TIDY_INTERVAL_NS = 2 * NS_PER_S
# How often segments that nothing needs are removed.
REMOVE_INTERVAL_NS = NS_PER_S
# The room that a start may need: for the repair of a torn end, the first journal and the floors.
RECOVERY_BYTES = 256 << 10
# Leases that the figures list.
LEASES_SHOWN_MAX = 100


@dataclass(frozen=True, slots=True)
class LogOpening:
    """The result of a start. topics, channels: by number. unknown_records: how many are of deleted topics.
    damaged_leases, damaged_cursors: the path of the file of leases, and that of cursors, when it was damaged and is set
    aside; else ""."""

    topics: dict[int, LogTopicStore]
    channels: dict[int, ChannelProgress]
    log: RecoveredLog
    progress: RecoveredProgress
    unknown_records: int
    progress_losses: tuple[ProgressLoss, ...] = ()
    damaged_leases: str = ""
    damaged_cursors: str = ""


class LogStore:
    """Belongs to the engine's thread. `open` makes the parts that need the recovered log.

    next_turn: requested when something waits for `end_turn`; None: the owner calls that by itself. thread_choice: as of
    CommitLog.
    """

    log: CommitLog
    journal: ProgressJournal
    retention: LogRetention
    _shared: SharedLog
    _checkpointer: Checkpointer
    _cursor_retention: CursorRetention

    def __init__(
        self,
        directory: str,
        settings: LogSettings,
        *,
        files: Files,
        clock: Clock,
        backgrounds: Backgrounds,
        next_turn: NextTurn | None = None,
        deferred_budget: ByteBudget | None = None,
        thread_choice: ThreadChoice | None = None,
    ) -> None:
        self._parts = parts = LogFiles(directory, settings, files=files, clock=clock, worker=backgrounds.disk)
        self.segments = parts.segments
        self.holes = parts.holes
        self.readers = parts.readers
        self.leases = parts.readers.leases
        self.cursors = parts.readers.cursors
        self.batch_keys = parts.batch_keys
        self.batches = parts.batches
        self._quarantines = Quarantines(
            parts.progress_directory, settings.quarantine, files=files, worker=backgrounds.disk
        )
        self._settings = settings
        self._backgrounds = backgrounds
        self._thread_choice = thread_choice
        self._deferred_budget = deferred_budget or ByteBudget(1 << 62)
        self._directory = directory
        self._files = files
        self._clock = clock
        self._next_turn = next_turn or NextTurn()
        self._pending = PendingBatches(self._next_turn)
        self._topics: dict[int, LogTopicStore] = {}
        self._recovered_channels: frozenset[int] = frozenset()
        self._wanted: dict[int, tuple[int, int]] = {}  # channel of the start → its first offset, its topic's end
        self._remove_at_ns = 0
        self._close_idle_at_ns = 0
        self._tidy_at_ns = 0

    # Start and stop.

    def open(
        self,
        topics: Sequence[TopicOpening],
        *,
        on_reserve: Callable[[], None] = lambda: None,
        start: StartProgress | None = None,
    ) -> LogOpening:
        """Recover the log and go on behind its end. topics: all that exist, with their channels. on_reserve: called
        when topology.json is to be written because a topic needs more offsets; `reserved` reports that it was written.
        start: where it is meanwhile.

        Raises StorageError; then nothing may be published.
        """
        names = {opening.number: opening.name for opening in topics}
        start = start or StartProgress()
        try:
            self._make_room()
            self.segments.load()
            refuse_newer(self._directory, self._files)
            damaged = self.readers.open(names)
            damaged_holes = self.holes.open()
            self.holes.keep([segment.position for segment in self.segments.list])
            self._parts.key_indexes.open()
            found = QueueRecovery(self._parts, start).run(names, damaged_holes)
            wanted: dict[int, tuple[int, int]] = {}
            for opening in topics:
                end_offset = found.queues[opening.number].end_offset
                wanted |= {number: (first, end_offset) for number, first in opening.channels.items()}
            self._wanted = wanted
            start.at("reading the progress of channels")
            progress = progress_or_error(self._parts.progress_directory, self._files, wanted)
            places = {
                number: LossChannel(
                    opening.name, opening.channel_names.get(number, str(number)), found.queues[opening.number]
                )
                for opening in topics
                for number in opening.channels
            }
            losses = tuple(progress_losses(progress, places))
            self._begin(found, progress, on_reserve)
        except OSError as exc:
            raise StorageError(f"the log in {self._directory} can't be opened: {exc}") from exc
        for opening in topics:
            queue = found.queues[opening.number]
            # Which reserved offsets were given is unknown: none of them is given again.
            next_offset = max(queue.end_offset, opening.reserved_offset)
            self._topics[opening.number] = LogTopicStore(
                opening,
                self._shared,
                self._topics,
                queue=queue,
                next_offset=next_offset,
                reservation=self._reservation(next_offset, next_offset, next_offset + OFFSETS_MIN),
                lost=lost_ranges(found.log.damages, opening.number),
            )
        self._parts.key_indexes.start(lambda: self.log.synced_end)
        self._recovered_channels = frozenset(progress.channels)
        self._cursor_retention.note_lost()
        return LogOpening(
            dict(self._topics), progress.channels, found.log, progress, found.unknown_records, losses, *damaged
        )

    def _begin(self, found: RecoveredQueues, progress: RecoveredProgress, on_reserve: Callable[[], None]) -> None:
        """Make the parts that need the recovered log, and go on writing."""
        parts, settings, backgrounds, recovered = self._parts, self._settings, self._backgrounds, found.log
        reserve_bytes, room_bytes_min = settings.journal_reserve_bytes, settings.room_bytes_min
        journal = self.journal = ProgressJournal(
            parts.progress_directory,
            number=progress.next_journal,
            files=self._files,
            clock=self._clock,
            worker=backgrounds.disk,
            sync_worker=backgrounds.progress,
            reserve_bytes=reserve_bytes,
            recover=self._recover_again,
        )
        log = self.log = CommitLog(
            parts.segments,
            recovered,
            LogOptions(
                settings.policy,
                settings.segment_bytes,
                settings.sync_interval_ms,
                settings.sync_interval_bytes,
                room_bytes_min=2 * reserve_bytes if room_bytes_min is None else room_bytes_min,
            ),
            clock=self._clock,
            sync_background=backgrounds.sync,
            worker=backgrounds.disk,
            listener=self._pending,
            thread_choice=self._thread_choice,
        )
        self._shared = SharedLog(
            parts,
            settings,
            log=log,
            journal=journal,
            pending=self._pending,
            quarantines=self._quarantines,
            recovered=progress.channels,
            deferred_budget=self._deferred_budget,
            on_reserve=on_reserve,
        )
        self.retention = LogRetention(parts, settings, log, self._topics)
        self._checkpointer = Checkpointer(parts, settings, log, self._topics, found.checkpointed)
        self._cursor_retention = CursorRetention(self.cursors, self._topics, self._shared.size)
        journal.reserve.find()
        journal.reserve.on_give_up = log.leave_room
        log.open()
        self._tick_reserve()
        journal.open(progress)
        self._quarantines.open()

    def _recover_again(self) -> RecoveredProgress:
        """Recover the progress of the channels of the start that still exist. Raises StorageError."""
        ends = {number: topic.end_offset for topic in self._topics.values() for number, _ in topic.durable_progress()}
        wanted = {number: (start, ends[number]) for number, (start, _) in self._wanted.items() if number in ends}
        return recover_progress(self._parts.progress_directory, self._files, wanted)

    def _make_room(self) -> None:
        """Give up the reserve when the disk is too full for the little that recovery writes."""
        path = os.path.join(self._parts.progress_directory, RESERVE_NAME)
        if self._files.size_of(path) and self._files.free_bytes(self._parts.progress_directory) < RECOVERY_BYTES:
            self._files.unlink_quietly(path)

    def _tick_reserve(self) -> None:
        """Give the reserve up while the disk is full: FINs, emptying, deleting and the console's files need room."""
        reserve = self.journal.reserve
        reserve.is_allowed = not self.log.is_full
        if self.log.is_full:
            reserve.give_up()

    def open_topic(self, name: str, number: int, *, id_base: int) -> LogTopicStore:
        """A new topic; `number` was never given before, `id_base` is as `new_id_base` makes it.

        Its first offsets are reserved at once: until topology.json has the topic, a restart finds none of its
        messages."""
        topic = self._topics[number] = LogTopicStore(
            TopicOpening(name, number, id_base),
            self._shared,
            self._topics,
            queue=self._parts.new_queue(number, 0),
            next_offset=0,
            reservation=self._reservation(0, OFFSETS_MIN, OFFSETS_MIN),
        )
        return topic

    def close(self) -> None:
        """Put everything on the disk. Raises StorageError with all that went wrong."""
        errors: list[str] = []
        self._checkpointer.is_stopped = True
        steps = (self.end_turn, self.log.close, self._close_journal, self._close_queues, self._parts.key_indexes.close)
        for step in steps:
            try:
                step()
            except StorageError as exc:
                errors.append(str(exc))
            except Exception as exc:
                # The other files are closed all the same.
                logger.exception("log not closed directory=%s", self._directory)
                errors.append(f"the log in {self._directory} was not closed: {describe(exc)}")
        self.segments.close()
        if errors:
            raise StorageError("; ".join(errors))
        self._shared.is_closed = True

    def _close_journal(self) -> None:
        self._quarantines.close()
        self.journal.close(
            {
                number: (topic.end_offset, waiting_below(topic.end_offset, progress, topic.queue))
                for topic in self._topics.values()
                for number, progress in topic.durable_progress()
            }
        )

    def _close_queues(self) -> None:
        for topic in self._topics.values():
            if not topic.queue.flush():
                assert topic.queue.error is not None
                raise topic.queue.error
        try:
            self._parts.queue_files.sync(self._parts.queue_files.take_unsynced())
            self._checkpointer.close()
            self.readers.close()
        except OSError as exc:
            raise StorageError(
                f"consume queues, leases or cursors in {self._directory} can't be written: {exc}"
            ) from exc
        finally:
            self._parts.queue_files.close()

    # Offsets that topology.json reserves.

    def _reservation(self, next_offset: int, reserved_offset: int, wanted_offset: int) -> OffsetReservation:
        return OffsetReservation(
            next_offset=next_offset,
            reserved_offset=reserved_offset,
            wanted_offset=wanted_offset,
            now_ns=self._clock.monotonic_ns(),
        )

    def reserving(self) -> list[tuple[int, int]]:
        """(topic number, offset) of each reservation that `positions` has and that may not be durable."""
        return [
            (number, topic.reservation.wanted_offset)
            for number, topic in self._topics.items()
            if topic.reservation.is_requested
        ]

    def reserved(self, reserving: Sequence[tuple[int, int]]) -> None:
        """The reservations that `reserving` returned are in topology.json, durably."""
        for number, offset in reserving:
            topic = self._topics.get(number)
            if topic is not None:
                topic.reservation.promised(offset)

    @property
    def unused_position(self) -> int:
        """A position behind all messages that were published before this moment."""
        return self.log.visible_end + 2 * self._settings.segment_bytes

    def has_no_records_of(self, number: int, *, before: int) -> bool:
        """Whether a start can't find records of a deleted topic, whose last one lies before `before`."""
        segments = self.segments.list
        is_removed = bool(segments) and segments[0].position >= before
        return is_removed and number not in self._checkpointer.numbers

    def remove_deleted_progress(self) -> None:
        """Remove the progress of deleted channels. topology.json is durable as `open` got it."""
        try:
            removed = remove_other_channels(self._parts.progress_directory, self._recovered_channels, self._files)
        except OSError as exc:
            logger.warning("progress of deleted channels not removed error=%s", exc)
        else:
            if removed:
                logger.info("progress of deleted channels removed count=%d", removed)

    def stats(self, recovery: RecoveryReport | None = None) -> LogStats:
        """recovery: the report of the start, shown beside the figures."""
        log, counts, segments = self.log, self.log.counts, self.segments.list
        return LogStats(
            sync=str(self._settings.policy),
            segment_count=len(segments),
            bytes=self.bytes_from(0),
            hole_bytes=self.holes.bytes_from(0),
            end=log.visible_end,
            synced_end=log.synced_end,
            oldest_unsynced_ms=log.oldest_unsynced_ns() // NS_PER_MS,
            is_full=log.is_full,
            error=str(self.error or ""),
            damaged_count=self._shared.damaged_count,
            group_count=counts.groups,
            written_bytes=counts.written_bytes,
            sync_count=counts.syncs,
            synced_bytes=counts.synced_bytes,
            syncs_by_bytes=counts.syncs_by_bytes,
            syncs_by_time=counts.syncs_by_time,
            syncs_by_roll=counts.syncs_by_roll,
            inline_sync_count=counts.inline_syncs,
            sync_times=counts.times.counts(),
            failed_group_count=counts.failed_groups,
            recovery=recovery,
            is_progress_out_of_room=self.journal.is_out_of_room,
            progress_fault_count=self.journal.faults.count,
            progress_fault=self.journal.faults.last_error,
            progress_fault_ms=self.journal.faults.last_ns // NS_PER_MS,
            key_index_missing=self._parts.key_indexes.missing_count,
            key_index_error=self._parts.key_indexes.error,
            leases=tuple(
                LeaseStats(one.name, self._topics[one.topic_number].name, one.offset, one.expires_ms)
                for one in self.leases.living()[:LEASES_SHOWN_MAX]
                if one.topic_number in self._topics
            ),
        )

    def bytes_from(self, position: int) -> int:
        """The bytes of the log from `position` on: without the unused ends of segments, and without holes."""
        return self._shared.size.bytes_from(position)

    @property
    def error(self) -> StorageError | None:
        """Why a file of the log can't be written or read; None when all can."""
        return self.log.error or self.journal.error or self.readers.error

    def end_turn(self) -> None:
        """Write this turn's published messages, and the progress of its channels."""
        self._next_turn.has_log_work = False
        self.commit()
        self.journal.flush()

    def commit(self) -> None:
        """Write the published messages; without `--sync always` they are visible now.

        An unexpected error concerns all topics: the log takes nothing more, as after an error of the disk."""
        try:
            self.log.commit()
        except Exception as exc:
            logger.exception("commit log: a write failed unexpectedly")
            self.log.fail(exc)

    def tick(self, now_ns: int) -> None:
        """Do the jobs that are due by time: syncs, merges, another try of refused writes. An unexpected error of one
        part does not stop the others; it is raised at the end."""
        error: Exception | None = None
        for step in (
            self._tick_log,
            self._tick_journal,
            self._tick_queues,
            self._tick_readers,
            self._parts.key_indexes.tick,
        ):
            try:
                step(now_ns)
            except Exception as exc:
                error = error or exc
        if error is not None:
            raise error

    def _tick_log(self, now_ns: int) -> None:
        self.log.has_readers = len(self.readers) > 0
        self.log.wants_early_seal = self.log.is_full and self.log.has_open_records and self._is_written_free()
        self.log.tick(now_ns)

    def _is_written_free(self) -> bool:
        """Whether no channel or reader needs a record of the log, the trash apart: then the current segment may go,
        too."""
        if not self.readers.are_readable:
            return False
        try:
            return self.retention.needed_without_trash(self.log.visible_end) >= self.log.visible_end
        except StorageError:
            return False

    def _tick_journal(self, now_ns: int) -> None:
        self._tick_reserve()
        self.journal.tick(now_ns)
        self._quarantines.tick(now_ns)

    def _tick_queues(self, now_ns: int) -> None:
        self._bound_tails()
        self._checkpointer.tick(now_ns)
        if now_ns >= self._tidy_at_ns:
            self._tidy_at_ns = now_ns + TIDY_INTERVAL_NS
            self.batches.tidy()
        if now_ns >= self._close_idle_at_ns:
            self._close_idle_at_ns = now_ns + IDLE_INTERVAL_NS
            self.segments.close_idle()
            self._parts.queue_files.descriptors.close_idle()
            self._parts.key_indexes.files.descriptors.close_idle()

    def _tick_readers(self, now_ns: int) -> None:
        if now_ns >= self._remove_at_ns:
            self._remove_at_ns = now_ns + REMOVE_INTERVAL_NS
            self.readers.tick()
            self._cursor_retention.tick()
            if not self.readers.are_readable:
                return
            try:
                if self.retention.tick(now_ns):
                    self._checkpointer.soon()  # it states where the log begins
            except StorageError as exc:
                # Whether segments are needed can't be read now.
                logger.warning("segments not removed error=%s", exc)

    def _bound_tails(self) -> None:
        if sum(topic.queue.tail_bytes for topic in self._topics.values()) > TAILS_BYTES_MAX:
            for topic in sorted(self._topics.values(), key=lambda one: -one.queue.tail_bytes)[:64]:
                topic.queue.flush()
