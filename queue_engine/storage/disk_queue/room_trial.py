"""Why disk queues refuse publishes while the disk is full, and the trial that finds out when it has room again.

The next publish would find out, too, but a publisher that reads the health first waits for this trial.
"""

import logging
import os

from queue_engine.storage.disk.background import Background
from queue_engine.storage.disk.background_job import BackgroundJob
from queue_engine.storage.disk.files import Files, temporary_name
from queue_engine.vocabulary.clock import NS_PER_S, Clock
from queue_engine.vocabulary.errors import NoRoomError

logger = logging.getLogger(__name__)

TRIAL_INTERVAL_NS = NS_PER_S
TRIAL_BYTES_MAX = 1 << 20
TRIAL_BYTES_MIN = 1 << 12  # a block: less may fit behind the end of a file that is there


class RoomTrial:
    """Writes, on the worker, as much as was refused last (at most 1 MiB) to a file without a name, once a second until
    that succeeds. Belongs to the engine's thread.

    refusal: the error of the publish that was refused last; None while the disk has room.
    """

    def __init__(self, directory: str, files: Files, background: Background, clock: Clock) -> None:
        self._directory = directory
        self._files = files
        self._background = background
        self._clock = clock
        self.refusal: NoRoomError | None = None
        self._wanted_bytes = 0
        self._trial_at_ns = 0
        self._job: BackgroundJob | None = None

    def note_refused(self, error: NoRoomError, size: int) -> None:
        """The disk had no room for a publish of `size` bytes."""
        if self.refusal is None:
            logger.warning("disk queues refuse for want of room: %s", error)
            self._trial_at_ns = self._clock.monotonic_ns() + TRIAL_INTERVAL_NS
        self.refusal = error
        self._wanted_bytes = min(max(size, TRIAL_BYTES_MIN), TRIAL_BYTES_MAX)

    def tick(self, now_ns: int) -> None:
        """Begin a trial when one is due. now_ns: monotonic."""
        if self.refusal is None or self._job is not None or now_ns < self._trial_at_ns:
            return
        refusal, size = self.refusal, self._wanted_bytes

        def ended(error: Exception | None) -> None:
            self._job = None
            self._trial_at_ns = self._clock.monotonic_ns() + TRIAL_INTERVAL_NS
            # A publish was refused meanwhile: try again.
            if error is None and self.refusal is refusal:
                self.refusal = None
                logger.info("disk queues go on: there is room again in %s", self._directory)

        self._job = BackgroundJob(lambda: self._try(size), then=ended)
        self._job.start(self._background)

    def _try(self, size: int) -> None:
        path = temporary_name(os.path.join(self._directory, "room"))
        fd = self._files.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            # Before the write: whatever ends the process then leaves no file.
            self._files.unlink(path)
            self._files.write_all(fd, bytes(size), 0)
        finally:
            self._files.close(fd)

    def call_off(self) -> None:
        """No trial is under way when this returns."""
        self.refusal = None
        if self._job is not None:
            self._job.call_off()
            self._job = None
