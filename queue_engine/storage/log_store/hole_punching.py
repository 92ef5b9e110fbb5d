"""Hole punching: a complete segment in which few messages are needed gives the blocks between them back to the disk.

Without it, one slow channel would keep the messages of all other topics beside its own on the disk. The consume queues
list the needed records; the whole blocks between them go, and positions stay as they are. First the consume queues
forget these messages, then `holes.json` lists the holes, durably, then the blocks go.
"""

import logging
import os
from collections.abc import Mapping

from queue_engine.storage.commit_log.holes import Ranges
from queue_engine.storage.commit_log.segment import SegmentInfo
from queue_engine.storage.disk.background_job import BackgroundJob
from queue_engine.storage.log_store.log_files import LogFiles
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.vocabulary.clock import NS_PER_S

logger = logging.getLogger(__name__)

LOOK_INTERVAL_NS = 10 * NS_PER_S
FULL_INTERVAL_NS = NS_PER_S  # while the disk is full
# A segment that was completed a moment ago may soon be removed as a whole.
AGE_NS_MIN = 60 * NS_PER_S
# A segment with more needed messages is left alone: each look-up takes about 1 µs of the engine's thread.
LIVE_MESSAGES_MAX = 2_000
# A segment is punched when that gives back this part of it at least: each time `holes.json` is written anew.
GAIN_PART = 16
SEGMENTS_A_LOOK = 4


class HolePuncher:
    """Looks for such segments every LOOK_INTERVAL_NS. Belongs to the engine's thread.

    is_punching: the worker punches holes now; no segment may be removed. topics: all topics of the log, by number.
    """

    def __init__(self, log_files: LogFiles, topics: Mapping[int, LogTopicStore]) -> None:
        self._holes = log_files.holes
        self._files = log_files.files
        self._clock = log_files.clock
        self._worker = log_files.worker
        self._topics = topics
        self._look_at_ns = 0
        self._next_position = 0  # where the next look begins
        self.is_punching = False

    def is_due(self, now_ns: int) -> bool:
        """Whether it is time to `look`. now_ns: monotonic."""
        return not self.is_punching and now_ns >= self._look_at_ns

    def look(self, candidates: list[SegmentInfo], now_ns: int, *, is_full: bool) -> None:
        """Punch the first segment that is worth it. candidates: complete segments, oldest first, that retention does
        not keep and no reader leases. Raises StorageError when a consume queue can't be read."""
        self._look_at_ns = now_ns + (FULL_INTERVAL_NS if is_full else LOOK_INTERVAL_NS)
        if not is_full:
            oldest_ns = self._clock.time_ns() - AGE_NS_MIN
            candidates = [one for one in candidates if one.last_time_ns < oldest_ns]
        following = [one for one in candidates if one.position >= self._next_position] or candidates
        if not following:
            return
        topics = list(self._topics.values())
        for segment in following[:SEGMENTS_A_LOOK]:
            self._next_position = segment.next_position
            holes = self._holes_of(segment, topics)
            if holes is not None:
                self._punch(segment, holes, topics)
                return

    def _holes_of(self, segment: SegmentInfo, topics: list[LogTopicStore]) -> Ranges | None:
        """The parts of a segment that nothing needs; None when they are too small, or when that is uncertain."""
        records: Ranges = []
        count = 0
        for topic in topics:
            if topic.needs_nothing_before(segment.next_position):
                continue
            first = topic.queue.first_offset_at(segment.position, topic.needed_offset, topic.end_offset)
            if first > topic.needed_offset:
                # The consume queue says where the topic goes on in this segment. The log must confirm that the message
                # before it lies before the segment.
                before = topic.confirmed_record(first - 1) if topic.next_present(first - 1) == first - 1 else None
                if before is None or before[0] >= segment.position:
                    return None
            present = topic.next_present(first)
            while present is not None:
                record = topic.confirmed_record(present)
                if record is None:
                    return None
                position, header = record
                if position >= segment.next_position:
                    break
                count += header.count
                if count > LIVE_MESSAGES_MAX:
                    return None
                records.append((position, position + header.size))
                present = topic.next_present(header.end_offset)
        holes: Ranges = []
        at = segment.start
        for start, end in [*sorted(records), (segment.end, segment.end)]:
            if self._holes.blocks(segment.position, at, start)[1]:
                holes.append((at, start))
            at = end
        gain = self._size(segment, holes) - self._size(segment, self._holes.of_segment(segment.position))
        return holes if gain * GAIN_PART >= segment.segment_bytes else None

    def _punch(self, segment: SegmentInfo, holes: Ranges, topics: list[LogTopicStore]) -> None:
        for topic in topics:
            topic.forget_before(segment.next_position)
        oldest = {topic.number: topic.oldest_offset for topic in topics if topic.oldest_offset}
        content = self._holes.with_segment(segment.position, holes, oldest)

        def punch() -> None:
            fd = self._files.open(segment.path, os.O_RDWR)
            try:
                for start, end in holes:
                    self._files.punch_hole(fd, *self._holes.blocks(segment.position, start, end))
            finally:
                self._files.close(fd)

        def done(error: Exception | None) -> None:
            self.is_punching = False
            if job.steps_done:
                self._holes.put(segment.position, holes, oldest)
            else:
                self._next_position = segment.position
            if error is None:
                logger.info("segment punched position=%d bytes=%d", segment.position, self._size(segment, holes))
            else:
                logger.warning("segment not punched position=%d error=%s", segment.position, error)

        job = BackgroundJob(lambda: self._files.replace(self._holes.path, content), punch, then=done)
        self.is_punching = True
        job.start(self._worker)

    def _size(self, segment: SegmentInfo, holes: Ranges) -> int:
        return sum([self._holes.blocks(segment.position, start, end)[1] for start, end in holes])
