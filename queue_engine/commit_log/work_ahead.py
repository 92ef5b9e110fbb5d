"""What the worker does before the commit log needs it: the next segment is made, and zeros are written.

Nothing here is ever waited for unless it is wanted at once. Want of room is no harm yet: it is tried again after a
while, and whoever needs it before that is told.
"""

import errno
import logging
from collections.abc import Callable

from queue_engine.commit_log.next_segment import NextSegment
from queue_engine.commit_log.open_segment import FILL_STEP_BYTES, OpenSegment, is_passing
from queue_engine.commit_log.options import LogOptions, SyncPolicy
from queue_engine.commit_log.segment import LogSegments
from queue_engine.disk.background import Background
from queue_engine.disk.background_job import BackgroundJob
from queue_engine.vocabulary.clock import NS_PER_S, Clock
from queue_engine.vocabulary.errors import StorageError

logger = logging.getLogger(__name__)

RETRY_NS = NS_PER_S


class WorkAhead:
    """Makes segments for one commit log, and fills them. Belongs to the engine's thread.

    is_stopped: the log has failed, and nothing more is begun.
    """

    def __init__(
        self,
        segments: LogSegments,
        opened: list[OpenSegment],
        options: LogOptions,
        *,
        clock: Clock,
        worker: Background,
        created_ns: Callable[[], int],
        on_filled: Callable[[], None],
        on_fault: Callable[[Exception], None],
    ) -> None:
        """opened: the log's list, which what is made is appended to. created_ns: what a segment made now tells as its
        time, Unix ns. on_filled: called after each step of zeros. on_fault: called with what is no want of room."""
        self._segments = segments
        self._opened = opened
        self._options = options
        self._clock = clock
        self._worker = worker
        # Zeros ahead make a sync cheap. Where none is waited for they would only double what is written.
        self._fill_ahead_bytes = options.fill_ahead_bytes if options.policy is SyncPolicy.ALWAYS else 0
        self._fill_step_bytes = min(FILL_STEP_BYTES, self._fill_ahead_bytes // 4)
        self._created_ns = created_ns
        self._on_filled = on_filled
        self._on_fault = on_fault
        self.is_stopped = False
        self._making: NextSegment | None = None
        self._failed: NextSegment | None = None
        self._filling: BackgroundJob | None = None
        self._again_ns = 0  # after a failure for want of room: not before

    # What is wanted now.

    def make_first(self, position: int) -> Exception | None:
        """Make the first segment in this thread. Returns what went wrong; then it may be called again."""
        maker = self._maker(position)
        error = maker.job.finish()
        if error is not None:
            self._failed = maker
            return error
        assert maker.made is not None
        self._opened.append(maker.made)
        return None

    def make_now(self, position: int) -> Exception | None:
        """Make the segment at `position` in this thread, or wait until the worker has. Returns what went wrong."""
        maker = self.making(position)
        error = maker.job.finish()
        self.take(maker, error)
        return error

    def making(self, position: int) -> NextSegment:
        """The maker of the segment at `position`; whoever does its job hands it to `take`."""
        if self._making is None:
            self._making = self._maker(position)
        return self._making

    def take(self, maker: NextSegment, error: Exception | None) -> None:
        """The maker's job is done, or failed with `error`."""
        if maker is not self._making:
            return  # it was taken before the worker answered
        self._making = None
        if error is None:
            assert maker.made is not None
            self._opened.append(maker.made)
        elif not is_passing(error):
            self._on_fault(error)
        else:
            self._failed = maker
            self._again_ns = self._clock.monotonic_ns() + RETRY_NS

    def _maker(self, position: int) -> NextSegment:
        maker = self._failed
        if maker is not None and maker.position == position:
            maker.try_again()
        else:
            maker = NextSegment(self._segments, position, self._options.segment_bytes, self._created_ns())
        self._failed = None
        return maker

    # What will be.

    def keep(self, current: OpenSegment, end: int) -> None:
        """Have the next segment made, and zeros written, where they will be wanted soon. end: where the next record
        goes, in `current`."""
        is_last = self._opened[-1] is current
        is_quarter_full = end - current.info.position > self._options.segment_bytes // 4
        wants_segment = is_last and self._making is None and is_quarter_full
        if wants_segment and self._clock.monotonic_ns() >= self._again_ns:
            maker = self.making(current.stop)
            self._worker.submit(maker.job.run, lambda error: self.take(maker, error))
        if self._filling is not None or self.is_stopped:
            return
        room = self._wants_room(current, end)
        if room is not None and self._clock.monotonic_ns() >= self._again_ns:
            self._fill(room)

    def _wants_room(self, current: OpenSegment, end: int) -> OpenSegment | None:
        """The segment that the next step of zeros goes to; None when there are enough."""
        wanted = end + self._fill_ahead_bytes
        if self._fill_ahead_bytes == 0:
            return None
        # Whole steps: what is missing is left until a step is.
        if not current.has_room_ahead(wanted - self._fill_step_bytes):
            return current
        following = self._opened.index(current) + 1
        if wanted > current.stop and following < len(self._opened):
            ahead = self._opened[following]
            if not ahead.has_room_ahead(ahead.start + wanted - current.stop - self._fill_step_bytes):
                return ahead
        return None

    def _fill(self, segment: OpenSegment) -> None:
        def fill() -> None:
            if self._options.room_bytes_min:
                # What is left is for those who make room, and for messages themselves.
                free = self._segments.files.free_bytes(self._segments.directory)
                if free < self._options.room_bytes_min + self._fill_step_bytes:
                    raise OSError(errno.ENOSPC, f"{free} bytes are free")
            segment.fill(self._fill_step_bytes)

        def done(error: Exception | None) -> None:
            self._filling = None
            if error is None:
                self._on_filled()
            elif is_passing(error):
                # No harm yet: a group may still find room. Whether it does decides if the log is full.
                self._again_ns = self._clock.monotonic_ns() + RETRY_NS
            else:
                self._on_fault(error)

        self._filling = BackgroundJob(fill, then=done)
        self._filling.start(self._worker)

    # The end.

    def call_off(self) -> None:
        """Nothing is under way when this returns; a segment that was made meanwhile is among the opened."""
        if self._filling is not None:
            self._filling.call_off()
            self._filling = None
        if self._making is not None:
            maker, self._making = self._making, None
            maker.job.call_off()
            if maker.made is not None:
                self._opened.append(maker.made)
            else:
                self._failed = maker

    def remove(self, unused: list[OpenSegment]) -> None:
        """Segments made ahead go again, the last one first; one that stays is empty and does no harm."""
        infos = [segment.info for segment in unused]
        if self._failed is not None and self._failed.info is not None:
            infos.append(self._failed.info)  # made, and then there was no descriptor for it
        for segment in unused:
            segment.close_quietly()
        for info in reversed(infos):
            try:
                self._segments.remove(info)
            except (OSError, StorageError) as exc:
                logger.warning("unused segment stays path=%s error=%s", info.path, exc)
