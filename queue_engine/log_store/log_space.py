"""The log's space: what its files hold, and which segments go, or give back what nobody needs of them."""

import contextlib
import logging
import os
from bisect import bisect_right
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING

from queue_engine.commit_log.checkpoint import CHECKPOINT_NAME, tell_first_position
from queue_engine.commit_log.commit_log import CommitLog
from queue_engine.commit_log.holes import Holes
from queue_engine.commit_log.segment import LogSegments, SegmentInfo
from queue_engine.disk.background import Background
from queue_engine.disk.files import Files
from queue_engine.log_store.batch_keys import BatchKeys
from queue_engine.log_store.hole_punching import HolePuncher
from queue_engine.readers.holds import Holds
from queue_engine.vocabulary.clock import NS_PER_MS, Clock

if TYPE_CHECKING:
    from queue_engine.log_store.log_topic_store import LogTopicStore

logger = logging.getLogger(__name__)


class LogSpace:
    """Looks after the segments of one log. Belongs to the engine's thread.

    topics: by number, as they are at any moment. log: it, once there is one. on_removed: called when segments go; the
    next checkpoint is to tell of it. retention_ms, retention_bytes: as `LogStore` is told them.
    """

    def __init__(
        self,
        segments: LogSegments,
        holes: Holes,
        *,
        files: Files,
        clock: Clock,
        worker: Background,
        topics: Mapping[int, "LogTopicStore"],
        holds: Holds,
        batch_keys: BatchKeys,
        log: Callable[[], CommitLog],
        on_removed: Callable[[], None],
        retention_ms: int,
        retention_bytes: int,
    ) -> None:
        self._segments = segments
        self._holes = holes
        self._files = files
        self._clock = clock
        self._worker = worker
        self._topics = topics
        self._holds = holds
        self._batch_keys = batch_keys
        self._log = log
        self._on_removed = on_removed
        self._retention_ns = retention_ms * NS_PER_MS
        self._retention_bytes = retention_bytes
        self.is_frozen = False  # somebody copies segments: nothing is given back of those that stay
        self._puncher = HolePuncher(
            holes,
            files=files,
            clock=clock,
            worker=worker,
            topics=lambda: list(topics.values()),
            candidates=self.punchable,
        )
        # Complete segments, for `bytes_from`: of which list, up to where, and the bytes from each on.
        self._counted: list[SegmentInfo] | None = None
        self._counted_upto = 0
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._bytes_behind = [0]

    def bytes_from(self, position: int) -> int:
        """What the log holds from `position` on: without what is unused at the ends of segments, and without holes."""
        log = self._log()
        listed, first_open = self._segments.list, log.first_open_position
        if self._counted is not listed or self._counted_upto != first_open:
            # Asked for each topic and channel every second; adds up only when there is another segment.
            self._counted, self._counted_upto = listed, first_open
            complete = [one for one in listed if one.next_position <= first_open]
            self._starts = [one.position for one in complete]
            self._ends = [one.end for one in complete]
            sizes = accumulate([one.end - one.position for one in reversed(complete)], initial=0)
            self._bytes_behind = list(sizes)[::-1]
        total = max(log.visible_end - max(position, first_open), 0) - self._holes.bytes_from(position)
        index = bisect_right(self._starts, position) - 1
        if index >= 0:
            total += max(self._ends[index] - position, 0)
        return total + self._bytes_behind[index + 1]

    def tick(self, now_ns: int) -> None:
        """Remove and punch what is due. now_ns: monotonic. Raises StorageError when what is needed can't be told."""
        if not self._puncher.is_punching:
            self.remove_unneeded()
        if not self.is_frozen:
            self._puncher.tick(now_ns, is_full=self._log().is_full)

    def remove_unneeded(self) -> int:
        """Remove the oldest segments as far as no topic and no channel needs them; returns how many.

        Raises StorageError when a consume queue can't be read; then nothing is removed.
        """
        # What the log alone knows goes on to the file of batch keys first.
        unwritten = self._batch_keys.first_unwritten_position
        first_open = self._log().first_open_position
        needed = first_open if unwritten is None else min(unwritten, first_open)
        if not any(one.is_sealed and one.next_position <= needed for one in self._segments.list):
            return 0  # whatever the topics need: their files are not asked
        for topic in self._topics.values():
            needed = min(needed, topic.needed_position(needed))
        removed = [one for one in self._segments.list if one.is_sealed and one.next_position <= needed]
        removed = self._past_retention(removed)
        if not removed:
            return 0
        end = removed[-1].next_position
        if not all(topic.needs_nothing_before(end) for topic in self._topics.values()):
            # A unit of a consume queue is wrong: what it led to is no reason to let anything go.
            return 0
        for topic in self._topics.values():
            topic.forget_before(removed[-1].next_position)
        for segment in removed:
            self._segments.forget(segment)
        self._holes.forget([segment.position for segment in removed])
        self._on_removed()

        directory, first_position = os.path.dirname(self._segments.directory), end
        oldest_offsets = {number: topic.oldest_offset for number, topic in self._topics.items()}

        def job() -> None:
            # First: a start that misses them must know why.
            untold = tell_first_position(self._files, directory, first_position, oldest_offsets)
            for segment in removed:
                # One after the other: a power cut leaves no gap between them, which would look like a loss.
                self._files.unlink(segment.path)
                self._files.sync_directory(self._segments.directory)
            if untold is not None:
                # Now there may be room. A start that finds no segment at all must know that this is right.
                with contextlib.suppress(OSError):
                    self._files.replace(os.path.join(directory, CHECKPOINT_NAME), untold)

        def done(error: Exception | None) -> None:
            if error is not None:
                # They are found again, and removed again, after the next start.
                logger.warning("segments not removed count=%d error=%s", len(removed), error)

        self._worker.submit(job, done)
        return len(removed)

    def _past_retention(self, unneeded: list[SegmentInfo]) -> list[SegmentInfo]:
        """Of the oldest segments, those that are too old or too many."""
        if not (self._retention_ns or self._retention_bytes):
            return unneeded
        size = sum([one.end - one.position for one in self._segments.list if one.is_sealed])
        now_ns = self._clock.time_ns()
        past: list[SegmentInfo] = []
        for segment in unneeded:
            is_old = self._retention_ns and now_ns - self._written_ns(segment) > self._retention_ns
            is_too_much = self._retention_bytes and size > self._retention_bytes
            if not (is_old or is_too_much):
                break
            past.append(segment)
            size -= segment.end - segment.position
        return past

    def punchable(self) -> list[SegmentInfo]:
        """Complete segments that are past retention, and before all that readers have leases on. Raises
        StorageError."""
        unwritten = self._batch_keys.first_unwritten_position
        first_open = self._log().first_open_position
        leased = first_open if unwritten is None else min(unwritten, first_open)
        for number, offset in self._holds.least_offsets().items():
            topic = self._topics.get(number)
            if topic is not None:  # else the file of holds does not say yet that it was deleted
                leased = min(leased, topic.needed_position_from(offset, leased))
        unnoted = [topic.first_unnoted_position for topic in self._topics.values()]
        leased = min([leased, *(position for position in unnoted if position is not None)])
        complete = [one for one in self._segments.list if one.is_sealed and one.next_position <= leased]
        return self._past_retention(complete)

    def _written_ns(self, segment: SegmentInfo) -> int:
        # A start does not read what lies before the checkpoint.
        return segment.last_time_ns or self._files.modified_ns(segment.path) or 0
