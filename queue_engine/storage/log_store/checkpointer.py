"""Checkpoints while the log works: consume queues and batch keys are synced, then the checkpoint states how far they
go."""

import logging
import os
from collections.abc import Mapping
from dataclasses import replace

from queue_engine.storage.commit_log.checkpoint import CHECKPOINT_NAME, Checkpoint, encode_checkpoint
from queue_engine.storage.commit_log.commit_log import CommitLog
from queue_engine.storage.disk.background_job import BackgroundJob
from queue_engine.storage.log_store.log_files import LogFiles
from queue_engine.storage.log_store.log_settings import LogSettings
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.vocabulary.clock import NS_PER_MS

logger = logging.getLogger(__name__)

# A checkpoint writes at most so many consume queues; it goes only as far as the others are written.
FLUSHES_MAX = 256


class Checkpointer:
    """Writes the checkpoint of one log. Belongs to the engine's thread.

    is_stopped: no checkpoint begins any more, except that of `close`.
    """

    def __init__(
        self,
        log_files: LogFiles,
        settings: LogSettings,
        log: CommitLog,
        topics: Mapping[int, LogTopicStore],
        numbers: frozenset[int],
    ) -> None:
        """topics: all of the log, by number. numbers: of the topics that the checkpoint on the disk names."""
        self.is_stopped = False
        self.numbers = numbers  # of the topics that the checkpoint on the disk may name
        self._path = os.path.join(log_files.directory, CHECKPOINT_NAME)
        self._files = log_files.files
        self._queue_files = log_files.queue_files
        self._worker = log_files.worker
        self._batch_keys = log_files.batch_keys
        self._interval_ns = settings.checkpoint_interval_ms * NS_PER_MS
        self._log = log
        self._topics = topics
        self._at_ns = 0
        self._position = -1  # of the checkpoint on the disk
        self._is_writing = False
        self._are_queues_certain = True  # no sync of consume queues failed

    def soon(self) -> None:
        """Write the next checkpoint with the next tick: the last one is outdated."""
        self._position = -1
        self._at_ns = 0

    def tick(self, now_ns: int) -> None:
        """Begin one when it is time. now_ns: monotonic."""
        if now_ns >= self._at_ns and not self.is_stopped and not self._is_writing:
            self._at_ns = now_ns + self._interval_ns
            self._start()

    def close(self) -> None:
        """Write the last checkpoint, in this thread; the consume queues are written and synced. Without it the next
        start only takes longer."""
        if self._log.error is not None or not self._are_queues_certain:
            return
        self._batch_keys.finish_write()
        checkpoint = self._compose()
        keys = self._batch_keys.start_write(checkpoint.durable_upto)
        checkpoint = replace(checkpoint, has_batch_keys=self._batch_keys.is_in_file)
        try:
            if keys is not None:
                try:
                    keys.run()
                finally:
                    self._batch_keys.settle(keys)
            self._files.replace(self._path, encode_checkpoint(checkpoint))
        except OSError as exc:
            logger.warning("checkpoint not written path=%s error=%s", self._path, exc)

    def _compose(self) -> Checkpoint:
        """The checkpoint as of now; it is true once the consume queues' files are synced."""
        log, topics = self._log, self._topics
        position = log.synced_end
        for topic in topics.values():
            for unwritten in (topic.queue.first_unwritten_position, topic.first_unnoted_position):
                if unwritten is not None and unwritten < position:
                    position = unwritten
        states = {number: topic.queue.state() for number, topic in topics.items()}
        return Checkpoint(position, log.synced_end, log.last_time_ns, states, first_position=log.first_position)

    def _start(self) -> None:
        """Have the worker sync the consume queues and write how far they go."""
        flushed = 0
        for topic in self._topics.values():
            if topic.queue.first_unwritten_position is not None and flushed < FLUSHES_MAX:
                topic.queue.flush()
                flushed += 1
        checkpoint = self._compose()
        if checkpoint.position == self._position:
            return
        unsynced = self._queue_files.take_unsynced()
        keys = self._batch_keys.start_write(checkpoint.durable_upto)
        content = encode_checkpoint(replace(checkpoint, has_batch_keys=self._batch_keys.is_in_file))
        self._is_writing = True
        self.numbers |= checkpoint.queues.keys()

        def done(error: Exception | None) -> None:
            self._is_writing = False
            if keys is not None:
                self._batch_keys.settle(keys)
            if error is None:
                self._position = checkpoint.position
                self.numbers = frozenset(checkpoint.queues)
                self._compact_queues(checkpoint)
                return
            logger.warning("checkpoint not written path=%s error=%s", self._path, error)
            if not job.steps_done:
                # The content of the files is unknown from here on: the next start rebuilds them.
                self.is_stopped = True
                self._are_queues_certain = False

        job = BackgroundJob(
            lambda: self._queue_files.sync(unsynced),
            lambda: None if keys is None else keys.run(),
            lambda: self._files.replace(self._path, content),
            then=done,
        )
        job.start(self._worker)

    def _compact_queues(self, checkpoint: Checkpoint) -> None:
        topics = self._topics
        for number, state in checkpoint.queues.items():
            topic = topics.get(number)
            if topic is None:
                continue
            try:
                topic.queue.checkpointed(state.oldest_offset)
            except OSError as exc:
                # The file only stays longer than needed.
                logger.warning("due times not compacted topic=%s error=%s", topic.name, exc)
