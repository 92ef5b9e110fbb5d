"""The stores of one data directory: the kind of each topic, and the objects that all topics of a kind share."""

import logging
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress

from queue_engine.engine.topology.entries import ChannelEntry, TopicEntry
from queue_engine.storage.commit_log.options import SyncPolicy
from queue_engine.storage.commit_log.record import new_id_base
from queue_engine.storage.commit_log.thread_choice import ThreadChoice
from queue_engine.storage.disk.background import Backgrounds
from queue_engine.storage.disk.files import Files
from queue_engine.storage.disk_queue.closing import Closing
from queue_engine.storage.disk_queue.folder import DiskQueueFolder
from queue_engine.storage.disk_queue.store import KIND as DISK_QUEUE_KIND
from queue_engine.storage.disk_queue.store import DiskQueueStore
from queue_engine.storage.log_stats import LogStats
from queue_engine.storage.log_store.log_settings import LogSettings
from queue_engine.storage.log_store.log_store import LogOpening, LogStore
from queue_engine.storage.log_store.log_topic import TopicOpening
from queue_engine.storage.log_store.log_topic_store import KIND as LOG_KIND
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.storage.quarantine_stats import QuarantineLimits
from queue_engine.storage.readers.cursors import Cursor, EndedCursor
from queue_engine.storage.readers.leases import Leases
from queue_engine.storage.recovery_report import RecoveryReport
from queue_engine.storage.store import TopicStore
from queue_engine.vocabulary.byte_budget import MemoryBudgets
from queue_engine.vocabulary.clock import NS_PER_MS, Clock
from queue_engine.vocabulary.errors import LeaseNotFoundError, StorageError
from queue_engine.vocabulary.names import is_ephemeral
from queue_engine.vocabulary.next_turn import NextTurn
from queue_engine.vocabulary.options.options import Options
from queue_engine.vocabulary.start_progress import StartProgress
from queue_engine.vocabulary.stop_progress import StopProgress
from queue_engine.vocabulary.ticket import DONE, Ticket, all_done

logger = logging.getLogger(__name__)

KINDS = (LOG_KIND, DISK_QUEUE_KIND)
LOG_DIRECTORY = "log"


class Stores:
    """Makes the stores of topics. Belongs to the engine's thread.

    thread_choice: as of CommitLog. next_turn: the log requests it when it has something to write at a turn's end.
    progress: of the start.
    """

    def __init__(
        self,
        options: Options,
        *,
        clock: Clock,
        files: Files,
        backgrounds: Backgrounds,
        thread_choice: ThreadChoice | None,
        next_turn: NextTurn,
        progress: StartProgress,
    ) -> None:
        self.budgets = MemoryBudgets(options)
        self.disk_queues = DiskQueueFolder(options.data_path, options, files, backgrounds.disk, clock, self.budgets)
        self.log: LogStore | None = None  # none is made where no topic needs one
        self.report: RecoveryReport | None = None
        self._options = options
        self._clock = clock
        self._files = files
        self._backgrounds = backgrounds
        self._thread_choice = thread_choice
        self._next_turn = next_turn
        self._progress = progress
        self._directory = os.path.join(options.data_path, LOG_DIRECTORY)
        self._opened: LogOpening | None = None

    def kind_of(self, topic_name: str, wanted: str = "") -> str:
        """The storage kind of a new topic. An ephemeral topic leaves nothing on the disk, so it needs no log."""
        return DISK_QUEUE_KIND if is_ephemeral(topic_name) else wanted or self._options.storage

    def open(self, entries: Sequence[TopicEntry], *, on_reserve: Callable[[], None]) -> None:
        """Open the files that the topics of topology.json share. Raises StorageError.

        on_reserve: called when topology.json has to be written because a topic of the log needs more offsets."""
        self._on_reserve = on_reserve
        for entry in entries:
            if entry.storage not in KINDS:
                raise StorageError(
                    f"topic {entry.name} has storage kind {entry.storage!r}, which this version does not know"
                )
        logged = [entry for entry in entries if entry.storage == LOG_KIND]
        for entry in logged:
            if not entry.id_base:
                raise StorageError(f"topic {entry.name} is of the log, and topology.json has no id_base for it")
        if logged or os.path.isdir(self._directory):
            self._open_log(logged)

    def _open_log(self, entries: Sequence[TopicEntry]) -> None:
        options = self._options
        began_ns = self._clock.monotonic_ns()
        settings = LogSettings(
            policy=SyncPolicy(options.sync),
            sync_interval_ms=options.sync_interval_ms,
            sync_interval_bytes=options.sync_interval_bytes,
            segment_bytes=options.log_segment_bytes,
            memory_count_max=options.mem_queue_size,
            retention_ms=options.log_retention_ms,
            retention_bytes=options.log_retention_bytes,
            pipeline_retention_bytes=options.pipeline_retention_bytes,
            cache_bytes=options.log_cache_bytes,
            quarantine=QuarantineLimits(
                options.quarantine_max_count, options.quarantine_max_bytes, options.quarantine_max_age_ms
            ),
        )
        log = LogStore(
            self._directory,
            settings,
            files=self._files,
            clock=self._clock,
            backgrounds=self._backgrounds,
            next_turn=self._next_turn,
            deferred_budget=self.budgets.deferred,
            thread_choice=self._thread_choice,
        )
        openings = [_opening(entry) for entry in entries]
        opened = log.open(openings, on_reserve=self._on_reserve, start=self._progress)
        self.log, self._opened = log, opened
        self.report = _report(opened, self._clock.time_ns(), self._clock.monotonic_ns() - began_ns)
        for sentence in self.report.sentences():
            (logger.warning if self.report.has_damage else logger.info)("recovery of the log: %s", sentence)

    def make(self, name: str, number: int, kind: str) -> TopicStore:
        """Open the store of a topic with its messages on the disk. Raises StorageError."""
        if kind == DISK_QUEUE_KIND:
            return DiskQueueStore(name, self.disk_queues)
        if self.log is None:
            self._open_log([])
        assert self.log is not None
        opened = self._opened.topics.pop(number, None) if self._opened is not None else None
        return opened or self.log.open_topic(name, number, id_base=new_id_base())

    def set_aside_former(self, topic: str, kind: str, queues: Sequence[str]) -> Ticket:
        """Set aside the files of former topics and channels, before new ones of their names begin. queues:
        TOPIC or TOPIC:CHANNEL. Done when that is durable. Raises StorageError."""
        if kind != DISK_QUEUE_KIND or is_ephemeral(topic):
            return DONE  # the log finds by number
        return all_done([self.disk_queues.set_aside_former(name) for name in queues if not is_ephemeral(name)])

    def discard(self, store: TopicStore) -> None:
        """Remove the store of a topic whose creation was refused; nothing was published to it."""
        if isinstance(store, LogTopicStore):
            store.delete()
        elif isinstance(store, DiskQueueStore):
            store.abandon()

    # Offsets that topology.json reserves.

    def reserving(self) -> list[tuple[int, int]]:
        """The reservations for `reserved` once a topology.json that is composed now is durable."""
        return self.log.reserving() if self.log is not None else []

    def reserved(self, reserving: Sequence[tuple[int, int]]) -> None:
        if self.log is not None:
            self.log.reserved(reserving)

    def remove_deleted_progress(self) -> None:
        """Remove progress of deleted channels. topology.json is durable as it was read."""
        if self.log is not None:
            self.log.remove_deleted_progress()

    def tick(self, now_ns: int) -> None:
        self.disk_queues.sync_used(now_ns)
        if self.log is not None:
            self.log.tick(now_ns)

    @property
    def error(self) -> StorageError | None:
        """Why something is not on disk as it should be; None when all is."""
        return self.disk_queues.sync_error or (self.log.error if self.log is not None else None)

    @property
    def refusal(self) -> StorageError | None:
        """Why publishes are refused, when the disk is full; None while it has room."""
        return (self.log.log.refusal if self.log is not None else None) or self.disk_queues.room.refusal

    def make_room(self) -> bool:
        """Give up the log's reserve for an act that found no room; returns whether that freed some."""
        return self.log is not None and self.log.journal.reserve.give_up()

    def leases_with(self, name: str) -> Leases:
        """The log's leases, of which `name` may be one. Raises LeaseNotFoundError without a log."""
        if self.log is None:
            raise LeaseNotFoundError(f"lease {name} does not exist: there is no log")
        return self.log.leases

    def cursors(self) -> tuple[list[Cursor], list[EndedCursor]]:
        """All pipeline cursors, and those that ended. Raises StorageError while their file can't be read."""
        if self.log is not None and self.log.cursors.unread is not None:
            raise self.log.cursors.unread
        return ([], []) if self.log is None else (self.log.cursors.all(), self.log.cursors.ended)

    def log_stats(self) -> LogStats | None:
        """The stats of the log; None without a log."""
        return self.log.stats(self.report) if self.log is not None else None

    def closing(self, how: Closing) -> Generator[StopProgress, None, None]:
        """Write everything to the disk, after `begin_close` of each topic's store. Yields the progress. Raises
        StorageError with all that could not be written, after it has tried everything."""
        errors: list[str] = []
        try:
            yield from self.disk_queues.closing(how)
        except StorageError as exc:
            errors.append(str(exc))
        yield StopProgress(0, 0)
        try:
            if self.log is not None:
                self.log.close()
        except StorageError as exc:
            errors.append(str(exc))
        if errors:
            raise StorageError("; ".join(errors))

    def abandon(self) -> None:
        """Close all files, and change nothing on the disk."""
        if self.log is not None:
            with suppress(StorageError):
                self.log.segments.close()


def _opening(entry: TopicEntry) -> TopicOpening:
    return TopicOpening(
        entry.name,
        entry.number,
        entry.id_base,
        entry.reserved_offset,
        entry.released,
        {channel.number: channel.start for channel in entry.channels.values()},
        {channel.name: channel.start for channel in entry.channels.values() if channel.trash is None},
        {channel.number: _shown_name(channel) for channel in entry.channels.values()},
    )


def _shown_name(channel: ChannelEntry) -> str:
    """The name of a channel in the report of a recovery."""
    return channel.name if channel.trash is None else f"{channel.name} (number {channel.number}, in the trash)"


def _report(opened: LogOpening, finished_at_ns: int, took_ns: int) -> RecoveryReport:
    return RecoveryReport(
        finished_at_ns=finished_at_ns,
        took_ms=took_ns // NS_PER_MS,
        was_clean=opened.log.was_clean,
        scanned_records=opened.log.scanned_records,
        scanned_bytes=opened.log.scanned_bytes,
        cut_bytes=opened.log.cut_bytes,
        unknown_records=opened.unknown_records,
        dropped_entries=opened.progress.dropped,
        damages=tuple(opened.log.damages),
        progress_damages=tuple(f"{damage.path}: {damage.reason}" for damage in opened.progress.damages),
        progress_losses=opened.progress_losses,
        damaged_leases=opened.damaged_leases,
        damaged_cursors=opened.damaged_cursors,
    )
