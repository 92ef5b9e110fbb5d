"""One log's directory: the files of each part, which exist before the log is open."""

import os

from queue_engine.storage.commit_log.holes import Holes
from queue_engine.storage.commit_log.segment import LogSegments
from queue_engine.storage.consume_queue.consume_queue import ConsumeQueue
from queue_engine.storage.consume_queue.queue_files import QueueFiles
from queue_engine.storage.disk.background import Background
from queue_engine.storage.disk.files import Files
from queue_engine.storage.key_index.key_indexes import KeyIndexes
from queue_engine.storage.log_store.batch_keys import BatchKeys
from queue_engine.storage.log_store.log_settings import LogSettings
from queue_engine.storage.log_store.logged_batch import BatchCache
from queue_engine.storage.readers.readers import Readers
from queue_engine.vocabulary.clock import Clock


class LogFiles:
    """Belongs to the engine's thread. Reads nothing before each part's own `open` or `load`.

    batches: the batches that were used last."""

    def __init__(
        self, directory: str, settings: LogSettings, *, files: Files, clock: Clock, worker: Background
    ) -> None:
        self.directory = directory
        self.progress_directory = os.path.join(directory, "progress")
        self.queues_directory = os.path.join(directory, "queues")
        self.files = files
        self.clock = clock
        self.worker = worker
        self.segments = LogSegments(os.path.join(directory, "segments"), files)
        self.holes = Holes(directory, files, settings.block_bytes)
        self.queue_files = QueueFiles(files)
        self.batch_keys = BatchKeys(directory, files=files, clock=clock)
        self.key_indexes = KeyIndexes(
            os.path.join(directory, "keys"), files=files, clock=clock, worker=worker, is_on=settings.has_key_index
        )
        self.batches = BatchCache(settings.cache_bytes)
        self.readers = Readers(
            directory, files=files, clock=clock, worker=worker, cursor_limit_bytes=settings.pipeline_retention_bytes
        )

    def queue_directory(self, number: int) -> str:
        """The directory of a topic's consume queue."""
        return os.path.join(self.queues_directory, str(number))

    def new_queue(self, number: int, first_offset: int) -> ConsumeQueue:
        """A topic's consume queue, empty."""
        return ConsumeQueue(
            self.queue_directory(number), self.queue_files, oldest_offset=first_offset, end_offset=first_offset
        )
