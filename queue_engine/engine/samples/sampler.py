"""Takes samples: from the snapshots made for the pages, encoded on the worker, written on the engine's thread.

Growth counts from the last sample that was written. So the next sample has the growth of one that could not be.
"""

import logging
import os
import time
from collections.abc import Callable
from functools import partial

from queue_engine.delivery.stats import EngineSnapshot
from queue_engine.delivery.topic import Topic
from queue_engine.engine.samples.sample_format import ProcessFigures, compose_sample, encode_sample
from queue_engine.engine.samples.sample_log import SamplesLog
from queue_engine.storage.disk.background import Background
from queue_engine.storage.disk.background_job import BackgroundJob
from queue_engine.storage.disk.files import Files
from queue_engine.storage.log_store.log_store import LogStore
from queue_engine.vocabulary.clock import NS_PER_MS, Clock
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.options.options import Options

logger = logging.getLogger(__name__)

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Sampler:
    """Samples one engine. Belongs to the engine's thread. No method raises."""

    def __init__(self, options: Options, *, clock: Clock, files: Files, background: Background) -> None:
        self._interval_ns = options.samples_interval_ms * NS_PER_MS
        self._node = options.effective_broadcast_address
        self._data_path = options.data_path
        self._clock = clock
        self._files = files
        self._background = background
        self._log = SamplesLog(
            options.data_path,
            files=files,
            clock=clock,
            background=background,
            retention_ms=options.samples_retention_ms,
            retention_bytes=options.samples_retention_bytes,
        )
        self._next_ns = 0
        self._sequence = 0
        self._previous: EngineSnapshot | None = None  # of the last sample that was written
        self._job: BackgroundJob | None = None  # encodes a sample
        self._is_closed = False
        self._left_out = 0  # samples not written since then

    @property
    def topic(self) -> Topic | None:
        """The samples as a topic to read; None while they are not stored."""
        return self._log.topic

    @property
    def log(self) -> LogStore | None:
        """The log that samples are written to; None while they are not stored."""
        return self._log.log

    def open(self) -> None:
        if self._interval_ns:
            self._next_ns = self._clock.monotonic_ns() + self._interval_ns
            self._log.open()

    def tick(self, now_ns: int) -> None:
        """now_ns: monotonic."""
        if self._interval_ns:
            self._log.tick(now_ns)

    def offer(self, snapshot: EngineSnapshot) -> None:
        """Make a new snapshot a sample, if the interval is over."""
        now_ns = self._clock.monotonic_ns()
        if not self._interval_ns or self._is_closed or now_ns < self._next_ns:
            return
        self._next_ns = max(self._next_ns + self._interval_ns, now_ns)
        if self._job is not None:
            return  # the worker is behind: the next sample has this one's growth
        encoding = self._encode(snapshot)

        def done(error: Exception | None) -> None:
            self._job = None
            if error is None:
                self._write(encoding)
            else:
                self._leave_out(error)

        self._job = BackgroundJob(encoding.run, then=done)
        self._job.start(self._background)

    def append(self, body: bytes) -> None:
        """Write the sample of another node. Raises StorageError; then it was not written."""
        self._log.append(body)

    def close(self, snapshot: Callable[[], EngineSnapshot] | None) -> None:
        """Write a last sample, with the growth up to the stop, and close the log. snapshot: makes one; None for no
        sample."""
        if not self._interval_ns or self._is_closed:
            return
        self._is_closed = True
        if self._job is not None:
            self._job.call_off()  # the last sample has its growth
        if self._log.topic is not None and snapshot is not None:
            try:
                encoding = self._encode(snapshot())
                encoding.run()
                self._write(encoding)
            except Exception as exc:
                self._leave_out(exc)
        self._log.close()

    def _encode(self, snapshot: EngineSnapshot) -> "SampleEncoding":
        """The next sample, still to be encoded."""
        self._sequence += 1
        return SampleEncoding(
            snapshot,
            self._previous,
            self._sequence,
            node=self._node,
            read_process=partial(process_figures, self._files, self._data_path),
        )

    def _write(self, encoding: "SampleEncoding") -> None:
        try:
            self._log.append(encoding.body)
        except Exception as exc:
            self._leave_out(exc)
            return
        self._previous = encoding.snapshot
        if self._left_out:
            logger.info("samples go on left_out=%d", self._left_out)
            self._left_out = 0

    def _leave_out(self, error: Exception) -> None:
        if not self._left_out:
            is_expected = isinstance(error, StorageError | OSError)
            logger.warning("samples left out from here on error=%s", error, exc_info=None if is_expected else error)
        self._left_out += 1


class SampleEncoding:
    """Encodes one sample, on any thread. body: the sample's bytes, once `run` has returned."""

    def __init__(
        self,
        snapshot: EngineSnapshot,
        previous: EngineSnapshot | None,
        sequence: int,
        *,
        node: str,
        read_process: Callable[[], ProcessFigures],
    ) -> None:
        """previous: of the last sample that was written; growth counts from it."""
        self.snapshot = snapshot
        self.body = b""
        self._previous = previous
        self._sequence = sequence
        self._node = node
        self._read_process = read_process

    def run(self) -> None:
        """Raises OSError."""
        sample = compose_sample(
            self.snapshot, self._previous, self._read_process(), node=self._node, sequence=self._sequence
        )
        self.body = encode_sample(sample)


def process_figures(files: Files, data_path: str) -> ProcessFigures:
    """The process's memory and processor time, and its disk's room. Raises OSError."""
    with open("/proc/self/statm", "rb") as statm:
        rss_bytes = int(statm.read().split()[1]) * _PAGE_BYTES
    return ProcessFigures(
        rss_bytes=rss_bytes,
        cpu_ms=time.process_time_ns() // NS_PER_MS,
        disk_free_bytes=files.free_bytes(data_path),
        disk_total_bytes=files.total_bytes(data_path),
    )
