"""Everything that the topics of storage kind `log` share: the commit log, the consume queues, the progress journal.

What was appended waits in a line until the log says how far it is visible (`visible_end`); then the consume queue
learns of it (RocketMQ's reput), the channels may have it, and its ticket is done, in that order.
"""

import logging
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from queue_engine.clock import Clock
from queue_engine.errors import StorageError
from queue_engine.run import Batch
from queue_engine.storage.background import Background
from queue_engine.storage.commit_log import CommitLog, SyncPolicy
from queue_engine.storage.consume_queue import ConsumeQueue
from queue_engine.storage.files import Files
from queue_engine.storage.log_topic_store import LogTopicStore
from queue_engine.storage.logged_batch import BatchCache
from queue_engine.storage.progress_journal import ProgressJournal
from queue_engine.storage.progress_recovery import RecoveredProgress, recover_progress
from queue_engine.storage.queue_files import QueueFiles
from queue_engine.storage.segment import LogSegments
from queue_engine.ticket import Ticket

logger = logging.getLogger(__name__)

CACHE_BYTES_MAX = 16 << 20
# Memory that consume queues may wait in before the longest tails are written.
TAILS_BYTES_MAX = 4 << 20

_Pending = tuple[int, LogTopicStore, int, Batch, int, int, Sequence[int] | None, Ticket]


class LogStore:
    """The log of one data directory. Belongs to the engine's thread.

    on_work: called when something waits for `end_turn`.
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
        on_work: Callable[[], None] = lambda: None,
    ) -> None:
        self.clock = clock
        self.segments = LogSegments(os.path.join(directory, "segments"), files)
        self.batches = BatchCache(CACHE_BYTES_MAX)
        self.damaged_count = 0
        self._directory = directory
        self._progress_directory = os.path.join(directory, "progress")
        self._files = files
        self._policy = policy
        self._sync_interval_ms = sync_interval_ms
        self._sync_interval_bytes = sync_interval_bytes
        self._segment_bytes = segment_bytes
        self._memory_count_max = memory_count_max
        self._sync_background = sync_background
        self._worker = worker
        self._on_work = on_work
        self._queue_files = QueueFiles(files)
        self._topics: dict[int, LogTopicStore] = {}
        self._pending: deque[_Pending] = deque()
        self._has_work = False
        self._next_channel = 1
        self.log: CommitLog
        self.journal: ProgressJournal

    # Start and stop.

    def open(
        self, *, start_position: int, durable_upto: int, last_time_ns: int, channels: Mapping[int, tuple[int, int]]
    ) -> RecoveredProgress:
        """Begin to write behind what there is. channels: number → (start offset, topic's end). Raises StorageError."""
        found = recover_progress(self._progress_directory, self._files, channels)
        self.journal = ProgressJournal(
            self._progress_directory,
            number=found.next_journal,
            files=self._files,
            clock=self.clock,
            worker=self._worker,
        )
        self.log = CommitLog(
            self.segments,
            start_position=start_position,
            durable_upto=durable_upto,
            files=self._files,
            clock=self.clock,
            policy=self._policy,
            sync_interval_ms=self._sync_interval_ms,
            sync_interval_bytes=self._sync_interval_bytes,
            segment_bytes=self._segment_bytes,
            sync_background=self._sync_background,
            worker=self._worker,
            on_visible=self._became_visible,
            on_failed=self._failed,
            last_time_ns=last_time_ns,
        )
        self.log.open()
        self.journal.open(found.channels, found.on_disk, found.old_journals)
        self._next_channel = max([0, *channels]) + 1
        return found

    def open_topic(
        self,
        name: str,
        number: int,
        *,
        id_base: int,
        oldest_offset: int = 0,
        end_offset: int = 0,
        next_offset: int | None = None,
        gaps: Sequence[tuple[int, int]] = (),
        released: int | None = 0,
    ) -> LogTopicStore:
        """A topic: a new one, or one with what recovery found of it."""
        queue = ConsumeQueue(
            os.path.join(self._directory, "queues", str(number)),
            self._queue_files,
            oldest_offset=oldest_offset,
            end_offset=end_offset,
            gaps=gaps,
        )
        topic = self._topics[number] = LogTopicStore(
            name,
            number,
            id_base=id_base,
            log=self,
            queue=queue,
            next_offset=end_offset if next_offset is None else next_offset,
            released=released,
            memory_count_max=self._memory_count_max,
        )
        return topic

    def close(self) -> None:
        """Put everything on the disk. Raises StorageError with all that went wrong."""
        errors: list[str] = []
        for step in (self.end_turn, self.log.close, self.journal.close, self._close_queues):
            try:
                step()
            except StorageError as exc:
                errors.append(str(exc))
        self.segments.close()
        if errors:
            raise StorageError("; ".join(errors))

    def _close_queues(self) -> None:
        for topic in self._topics.values():
            if not topic.queue.flush():
                assert topic.queue.error is not None
                raise topic.queue.error
        try:
            self._queue_files.sync(self._queue_files.take_unsynced())
        except OSError as exc:
            raise StorageError(f"consume queues in {self._directory} can't be synced: {exc}") from exc
        finally:
            self._queue_files.close()

    # Publishing.

    def batch_time_ns(self) -> int:
        """The publish time of the next batch: now, but never before the last."""
        return max(self.log.last_time_ns, self.clock.time_ns())

    def append(self, topic: LogTopicStore, batch: Batch, dues_ns: Sequence[int] | None) -> Ticket:
        """Take a topic's batch; visible and done after `end_turn`, by the sync policy. Raises StorageError."""
        first = topic.next_offset
        position, size = self.log.append(topic.number, first, batch, dues_ns=dues_ns)
        topic.next_offset = first + len(batch)
        ticket = Ticket()
        self._pending.append((position + size, topic, first, batch, position, size, dues_ns, ticket))
        self.note_work()
        return ticket

    def note_work(self) -> None:
        if not self._has_work:
            self._has_work = True
            self._on_work()

    @property
    def has_work(self) -> bool:
        """Whether `end_turn` has something to do."""
        return self._has_work

    def end_turn(self) -> None:
        """Write what this turn published, and what its channels did."""
        self._has_work = False
        self.log.commit()
        self.journal.flush()

    def tick(self, now_ns: int) -> None:
        """What is due by time: syncs, merges, another try of what the disk refused."""
        self.log.tick(now_ns)
        self.journal.tick(now_ns)
        self._bound_tails()

    def _bound_tails(self) -> None:
        if sum(topic.queue.tail_bytes for topic in self._topics.values()) > TAILS_BYTES_MAX:
            for topic in sorted(self._topics.values(), key=lambda one: -one.queue.tail_bytes)[:64]:
                topic.queue.flush()

    def _became_visible(self, visible_end: int) -> None:
        pending = self._pending
        while pending and pending[0][0] <= visible_end:
            _, topic, first, batch, position, size, dues_ns, ticket = pending.popleft()
            topic.appeared(first, batch, position, size, dues_ns)
            ticket.resolve()

    def _failed(self, error: StorageError) -> None:
        """Nothing that waits was taken: its offsets are given again."""
        pending, self._pending = self._pending, deque()
        for _, topic, first, *_ in reversed(pending):
            topic.next_offset = min(topic.next_offset, first)
        for *_, ticket in pending:
            ticket.reject(error)

    # Channels and topics.

    def take_channel_number(self) -> int:
        number = self._next_channel
        self._next_channel += 1
        return number

    def forget_channel(self, number: int) -> None:
        self.journal.forget(number)

    def forget_topic(self, topic: LogTopicStore) -> None:
        """The topic was deleted: its queue's files go."""
        self._topics.pop(topic.number, None)
        try:
            topic.queue.delete()
        except OSError as exc:
            # Derived, and of a number that is never used again.
            logger.warning("consume queue not removed topic=%s error=%s", topic.name, exc)

    def note_damaged(self, topic: LogTopicStore, first: int, count: int) -> None:
        """Messages whose bodies are lost were passed over."""
        self.damaged_count += count
        logger.error("messages damaged topic=%s offset=%d count=%d", topic.name, first, count)
