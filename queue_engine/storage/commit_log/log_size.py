"""How many bytes the log holds from a position on."""

from bisect import bisect_right
from itertools import accumulate

from queue_engine.storage.commit_log.commit_log import CommitLog
from queue_engine.storage.commit_log.holes import Holes
from queue_engine.storage.commit_log.segment import LogSegments, SegmentInfo


class LogSize:
    """Adds up one log's segments. Belongs to the engine's thread."""

    def __init__(self, log: CommitLog, segments: LogSegments, holes: Holes) -> None:
        self._log = log
        self._segments = segments
        self._holes = holes
        # Sums over the complete segments: the list they are of, its end position, and the bytes from each segment on.
        self._counted: list[SegmentInfo] | None = None
        self._counted_upto = 0
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._bytes_behind = [0]

    def bytes_from(self, position: int) -> int:
        """Bytes of the log from `position` on, without unused ends of segments and without holes."""
        log = self._log
        listed, first_open = self._segments.list, log.first_open_position
        if position >= first_open:
            size = log.visible_end - position
            return size if size > 0 else 0  # only complete segments have holes
        if self._counted is not listed or self._counted_upto != first_open:
            # Called for each topic and channel every second; the sum changes only with the segments.
            self._counted, self._counted_upto = listed, first_open
            complete = [one for one in listed if one.next_position <= first_open]
            self._starts = [one.position for one in complete]
            self._ends = [one.end for one in complete]
            sizes = accumulate([one.end - one.position for one in reversed(complete)], initial=0)
            self._bytes_behind = list(sizes)[::-1]
        total = max(log.visible_end - first_open, 0) - self._holes.bytes_from(position)
        index = bisect_right(self._starts, position) - 1
        if index >= 0:
            total += max(self._ends[index] - position, 0)
        return total + self._bytes_behind[index + 1]
