"""Preallocation: the worker makes the commit log's next segment, and writes zeros ahead of the records.

The log waits only when it needs a segment at once. Want of room does no harm yet: the worker tries again after a
second, and an append that needs the segment before that gets the error.
"""

import errno
import logging
from collections.abc import Callable

from queue_engine.storage.commit_log.next_segment import NextSegment
from queue_engine.storage.commit_log.open_segment import FILL_STEP_BYTES, OpenSegment, is_passing
from queue_engine.storage.commit_log.options import LogOptions, SyncPolicy
from queue_engine.storage.commit_log.segment import LogSegments
from queue_engine.storage.disk.background import Background
from queue_engine.storage.disk.background_job import BackgroundJob
from queue_engine.vocabulary.byte_sizes import byte_count
from queue_engine.vocabulary.clock import NS_PER_S, Clock
from queue_engine.vocabulary.errors import StorageError

logger = logging.getLogger(__name__)

RETRY_NS = NS_PER_S


class Preallocation:
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
        """opened: the log's list, to which new segments are appended. created_ns: the creation time of a segment made
        now, Unix ns. on_filled: called after each step of zeros. on_fault: called with errors other than want of
        room."""
        self._segments = segments
        self._opened = opened
        self._options = options
        self._clock = clock
        self._worker = worker
        # Zeros ahead make a sync cheap. Where no client waits for syncs they would only double the bytes written.
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

    # Segments.

    def make_first(self, position: int) -> Exception | None:
        """Make the first segment in this thread. Returns the error, or None; after an error it may be called again."""
        maker = self._maker(position)
        error = maker.job.finish()
        if error is not None:
            self._failed = maker
            return error
        assert maker.made is not None
        self._opened.append(maker.made)
        return None

    def make_now(self, position: int) -> Exception | None:
        """Make the segment at `position` in this thread, or wait until the worker has. Returns the error, or None."""
        maker = self.making(position)
        error = maker.job.finish()
        self.take(maker, error)
        return error

    def making(self, position: int) -> NextSegment:
        """The maker of the segment at `position`; the caller does its job, then calls `take`."""
        if self._making is None:
            self._making = self._maker(position)
        return self._making

    def take(self, maker: NextSegment, error: Exception | None) -> None:
        """Take the segment that the maker has made, or note that it failed with `error`."""
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

    # Zeros, and when to begin.

    def advance(self, current: OpenSegment, end: int) -> None:
        """Have the worker make the next segment and write zeros, when the log will need them soon. end: where the next
        record goes, in `current`."""
        is_last = self._opened[-1] is current
        is_quarter_full = end - current.info.position > self._options.segment_bytes // 4
        wants_segment = is_last and self._making is None and is_quarter_full
        if wants_segment and self._clock.monotonic_ns() >= self._again_ns:
            maker = self.making(current.stop)
            maker.start(self._worker, lambda error: self.take(maker, error))
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
        # Zeros are written in whole steps.
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
                # The last room is for messages, and for acts that make room.
                free = self._segments.files.free_bytes(self._segments.directory)
                if free < self._options.room_bytes_min + self._fill_step_bytes:
                    raise OSError(errno.ENOSPC, f"{byte_count(free)} are free")
            segment.fill(self._fill_step_bytes)

        def done(error: Exception | None) -> None:
            self._filling = None
            if error is None:
                self._on_filled()
            elif is_passing(error):
                # No harm yet: a group may still find room, and only a group makes the log full.
                self._again_ns = self._clock.monotonic_ns() + RETRY_NS
            else:
                self._on_fault(error)

        self._filling = BackgroundJob(fill, then=done)
        self._filling.start(self._worker)

    # The end.

    def call_off(self) -> None:
        """End all work: nothing is under way when this returns. A segment made meanwhile is appended to the list."""
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
        """Remove unused segments, the last one first; one that can't be removed is empty and does no harm."""
        infos = [segment.info for segment in unused]
        if self._failed is not None and self._failed.info is not None:
            infos.append(self._failed.info)  # the file was made, and there was no descriptor to open it
        for segment in unused:
            segment.close_quietly()
        for info in reversed(infos):
            try:
                self._segments.remove(info)
            except (OSError, StorageError) as exc:
                logger.warning("unused segment stays path=%s error=%s", info.path, exc)
