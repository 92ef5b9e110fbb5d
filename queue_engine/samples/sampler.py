"""Takes samples: from a snapshot that was made anyway, encoded on the worker, written on the engine's thread.

What a sample could not tell, because it was not written, the next one tells: growth counts from the last that was.
"""

import logging
import os
import time
from collections.abc import Callable

from queue_engine.delivery.stats import EngineSnapshot
from queue_engine.delivery.topic import Topic
from queue_engine.disk.background import Background
from queue_engine.disk.files import Files
from queue_engine.log_store.log_store import LogStore
from queue_engine.samples.sample_format import ProcessFigures, compose_sample, encode_sample
from queue_engine.samples.sample_log import SamplesLog
from queue_engine.vocabulary.clock import NS_PER_MS, Clock
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.options import Options

logger = logging.getLogger(__name__)

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Sampler:
    """Samples one engine. Belongs to its thread. Nothing here raises."""

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
        self._is_encoding = False
        self._is_closed = False
        self._left_out = 0  # samples since then

    @property
    def topic(self) -> Topic | None:
        """The samples, to be read; None while they are not kept."""
        return self._log.topic

    @property
    def log(self) -> LogStore | None:
        """What the samples are written to; None while they are not kept."""
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
        """There is a new snapshot: it becomes a sample when it is time for one."""
        now_ns = self._clock.monotonic_ns()
        if not self._interval_ns or self._is_closed or now_ns < self._next_ns:
            return
        self._next_ns = max(self._next_ns + self._interval_ns, now_ns)
        if self._is_encoding:
            return  # the worker is behind: this one's growth is in the next
        self._is_encoding = True
        encode = self._encoder(snapshot)
        body = b""

        def job() -> None:
            nonlocal body
            body = encode()

        def done(error: Exception | None) -> None:
            self._is_encoding = False
            if self._is_closed:
                return
            if error is None:
                self._write(snapshot, body)
            else:
                self._leave_out(error)

        self._background.submit(job, done)

    def close(self, snapshot: Callable[[], EngineSnapshot] | None) -> None:
        """Write a last sample, so that nothing is missing of what this process did, and end. snapshot: makes one; None
        for no sample."""
        if not self._interval_ns or self._is_closed:
            return
        self._is_closed = True
        if self._log.topic is not None and snapshot is not None:
            try:
                last = snapshot()
                self._write(last, self._encoder(last)())
            except Exception as exc:
                self._leave_out(exc)
        self._log.close()

    def _encoder(self, snapshot: EngineSnapshot) -> Callable[[], bytes]:
        """Makes the body of the next sample, on any thread."""
        self._sequence += 1
        sequence, previous = self._sequence, self._previous

        def encode() -> bytes:
            process = process_figures(self._files, self._data_path)
            return encode_sample(compose_sample(snapshot, previous, process, node=self._node, sequence=sequence))

        return encode

    def _write(self, snapshot: EngineSnapshot, body: bytes) -> None:
        try:
            self._log.append(body)
        except Exception as exc:
            self._leave_out(exc)
            return
        self._previous = snapshot
        if self._left_out:
            logger.info("samples go on left_out=%d", self._left_out)
            self._left_out = 0

    def _leave_out(self, error: Exception) -> None:
        if not self._left_out:
            is_expected = isinstance(error, StorageError | OSError)
            logger.warning("samples left out from here on error=%s", error, exc_info=None if is_expected else error)
        self._left_out += 1


def process_figures(files: Files, data_path: str) -> ProcessFigures:
    """What the process and its disk use now. Raises OSError."""
    with open("/proc/self/statm", "rb") as statm:
        rss_bytes = int(statm.read().split()[1]) * _PAGE_BYTES
    return ProcessFigures(
        rss_bytes=rss_bytes,
        cpu_ms=time.process_time_ns() // NS_PER_MS,
        disk_free_bytes=files.free_bytes(data_path),
        disk_total_bytes=files.total_bytes(data_path),
    )
