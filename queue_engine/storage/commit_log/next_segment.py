"""The segment that the commit log needs next: the worker makes it ahead, or the engine's thread when it can't wait."""

from collections.abc import Callable

from queue_engine.storage.commit_log.open_segment import OpenSegment
from queue_engine.storage.commit_log.segment import LogSegments, SegmentInfo
from queue_engine.storage.disk.background import Background
from queue_engine.storage.disk.background_job import BackgroundJob


class NextSegment:
    """Makes one segment, on any thread; a second try goes on where the first one failed."""

    def __init__(self, segments: LogSegments, position: int, segment_bytes: int, now_ns: int) -> None:
        self._segments = segments
        self.position = position
        self._segment_bytes = segment_bytes
        self._now_ns = now_ns
        self.info: SegmentInfo | None = None
        self.made: OpenSegment | None = None
        self.job = BackgroundJob(self._make)

    def _make(self) -> None:
        if self.info is None:
            self.info = self._segments.create(self.position, self._segment_bytes, self._now_ns)
        self.made = OpenSegment(self.info, self._segments.files)

    def wait(self) -> OpenSegment:
        """Make the segment in this thread, or wait until another thread has. Raises the error of the attempt."""
        self.job.run()
        assert self.made is not None
        return self.made

    def start(self, worker: Background, then: Callable[[Exception | None], None]) -> None:
        """Have the worker make it; `then` is called on the engine's thread."""
        self.job = BackgroundJob(self._make, then=then)
        self.job.start(worker)

    def try_again(self) -> None:
        self.job = BackgroundJob(self._make)
