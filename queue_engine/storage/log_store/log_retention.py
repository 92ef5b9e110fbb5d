"""Removes segments that nothing needs and retention does not keep, and punches holes into those with few messages."""

import contextlib
import logging
import os
from collections.abc import Mapping

from queue_engine.storage.commit_log.checkpoint import CHECKPOINT_NAME, write_first_position
from queue_engine.storage.commit_log.commit_log import CommitLog
from queue_engine.storage.commit_log.segment import SegmentInfo
from queue_engine.storage.disk.background_job import BackgroundJob
from queue_engine.storage.log_store.clock_file import ClockFile
from queue_engine.storage.log_store.held_segments import HeldSegments
from queue_engine.storage.log_store.hole_punching import HolePuncher
from queue_engine.storage.log_store.log_files import LogFiles
from queue_engine.storage.log_store.log_settings import LogSettings
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.trusted_time import HOLD_MS, TrustedTime

logger = logging.getLogger(__name__)

# A clock that leaps forward by more than this, or at a start is as much ahead of the newest record, may be wrong.
LEAP_MS = 3_600_000


class LogRetention:
    """Removes and punches segments of one log. Belongs to the engine's thread. topics: all of the log, by number."""

    def __init__(
        self, log_files: LogFiles, settings: LogSettings, log: CommitLog, topics: Mapping[int, LogTopicStore]
    ) -> None:
        self._directory = log_files.directory
        self._segments = log_files.segments
        self._holes = log_files.holes
        self._files = log_files.files
        self._clock = log_files.clock
        self._worker = log_files.worker
        self._leases = log_files.readers.leases
        self._batch_keys = log_files.batch_keys
        self._log = log
        self._topics = topics
        self._retention_ns = settings.retention_ms * NS_PER_MS
        self._retention_bytes = settings.retention_bytes
        self._clock_file = ClockFile(log_files.directory, log_files.files, log_files.worker)
        believed_ms, leapt_ms = self._clock_file.read()
        self._time = TrustedTime(self._clock, believed_ms or log.last_time_ns // NS_PER_MS, leapt_ms, leap_ms=LEAP_MS)
        self.is_frozen = False  # a backup copies segments: no holes are punched
        self._puncher = HolePuncher(log_files, topics)

    def tick(self, now_ns: int) -> int:
        """Remove and punch segments that are due; returns how many were removed. now_ns: monotonic. Raises StorageError
        when a consume queue can't be read."""
        self._look_at_the_clock()
        removed = 0 if self._puncher.is_punching else self.remove_unneeded()
        if not self.is_frozen and self._puncher.is_due(now_ns):
            self._puncher.look(self.punchable(), now_ns, is_full=self._log.is_full)
        return removed

    def _look_at_the_clock(self) -> None:
        """Look at the clock first: segments removed by their age do not come back."""
        ahead_ms = self._time.look()
        if not self._retention_ns:
            return
        self._clock_file.keep(self._time)
        if ahead_ms:
            logger.warning(
                "the clock is %.1f hours ahead of where it was: the log removes nothing by its age for %d minutes; "
                "if it is wrong, mend it",
                ahead_ms / 3_600_000,
                HOLD_MS // 60_000,
            )

    def remove_unneeded(self) -> int:
        """Remove the oldest segments that nothing needs and retention does not keep; returns how many.

        Raises StorageError when a consume queue can't be read; then nothing is removed.
        """
        # Batch keys that only the log has go to their file first.
        unwritten = self._batch_keys.first_unwritten_position
        first_open = self._log.first_open_position
        needed = first_open if unwritten is None else min(unwritten, first_open)
        if not any(one.is_sealed and one.next_position <= needed for one in self._segments.list):
            return 0  # no segment could go, so the topics' files are not read
        for topic in self._topics.values():
            needed = min(needed, topic.needed_position(needed))
        removed = [one for one in self._segments.list if one.is_sealed and one.next_position <= needed]
        removed = self._past_retention(removed)
        if not removed:
            return 0
        end = removed[-1].next_position
        if not all(topic.needs_nothing_before(end) for topic in self._topics.values()):
            # A unit of a consume queue is wrong: nothing is removed by it.
            return 0
        for topic in self._topics.values():
            topic.forget_before(removed[-1].next_position)
        for segment in removed:
            self._segments.forget(segment)
        self._holes.forget([segment.position for segment in removed])

        directory, first_position = self._directory, end
        oldest_offsets = {number: topic.oldest_offset for number, topic in self._topics.items()}

        def remove() -> None:
            # First: so a start that finds the segments missing finds the reason.
            refused = write_first_position(self._files, directory, first_position, oldest_offsets)
            for segment in removed:
                # One after the other: a power cut leaves no gap between them, which would look like a loss.
                self._files.unlink(segment.path)
                self._files.sync_directory(self._segments.directory)
            if refused is not None:
                # Now there may be room. A start that finds no segment at all must know that none was lost.
                with contextlib.suppress(OSError):
                    self._files.replace(os.path.join(directory, CHECKPOINT_NAME), refused)

        def done(error: Exception | None) -> None:
            if error is not None:
                # The next start finds them again, and removes them again.
                logger.warning("segments not removed count=%d error=%s", len(removed), error)

        BackgroundJob(remove, then=done).start(self._worker)
        return len(removed)

    def needed_without_trash(self, end: int) -> int:
        """The first position below `end` that would be needed if the trash were empty. Raises StorageError."""
        unwritten = self._batch_keys.first_unwritten_position
        end = end if unwritten is None else min(unwritten, end)
        for topic in self._topics.values():
            end = min(end, topic.needed_position_without_trash(end))
        return end

    def held_by_trash(self) -> HeldSegments:
        """The segments that would be removed now if the trash were empty. Raises StorageError."""
        end = self.needed_without_trash(self._log.first_open_position)
        held = self._past_retention([one for one in self._segments.list if one.is_sealed and one.next_position <= end])
        holes = self._holes.bytes_from
        return HeldSegments(
            [one.next_position for one in held],
            [one.end - one.position - holes(one.position) + holes(one.next_position) for one in held],
        )

    def freed_by(self, needed_offsets: Mapping[int, int]) -> tuple[int, LogTopicStore | None]:
        """How many bytes of segments would go if these topics, by number, needed nothing before an offset, and the
        trash nothing; and the topic that needs the first record of the rest, None where nothing does.

        The segment that is written to counts: a full log completes it early. Raises StorageError.
        """
        end = self._log.visible_end
        first: tuple[int, LogTopicStore | None] = (end, None)
        now = end
        for one in self._topics.values():
            position = one.needed_position_without_trash(end)
            needed_offset = needed_offsets.get(one.number)
            if needed_offset is not None:
                now = min(now, position)
                position = one.needed_position_from(needed_offset, end)
            first = min(first, (position, one), key=lambda found: found[0])
        position, holder = first
        now = min(position, now)
        freed = [
            one
            for one in self._segments.list
            if one.next_position > now and (one.next_position if one.is_sealed else max(end, one.start)) <= position
        ]
        freed = self._past_retention(freed)
        sizes = [(one.end if one.is_sealed else max(end, one.position)) - one.position for one in freed]
        holes = [self._holes.bytes_from(one.position) - self._holes.bytes_from(one.next_position) for one in freed]
        return sum(sizes) - sum(holes), holder

    def _past_retention(self, unneeded: list[SegmentInfo]) -> list[SegmentInfo]:
        """The oldest segments that retention does not keep: too old, or beyond its bytes."""
        if not (self._retention_ns or self._retention_bytes):
            return unneeded
        size = sum([one.end - one.position for one in self._segments.list if one.is_sealed])
        now_ns = self._clock.time_ns()
        ages_count = self._retention_ns > 0 and not self._time.leapt_ms
        past: list[SegmentInfo] = []
        for segment in unneeded:
            is_old = ages_count and now_ns - self._written_ns(segment) > self._retention_ns
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
        first_open = self._log.first_open_position
        leased = first_open if unwritten is None else min(unwritten, first_open)
        for topic in self._topics.values():
            offset = self._leases.least_offset(topic.number)
            if offset is not None:
                leased = min(leased, topic.needed_position_from(offset, leased))
            unnoted = topic.first_unnoted_position
            if unnoted is not None:
                leased = min(leased, unnoted)
        complete = [one for one in self._segments.list if one.is_sealed and one.next_position <= leased]
        return self._past_retention(complete)

    def _written_ns(self, segment: SegmentInfo) -> int:
        # A start does not read records before the checkpoint, so it does not know their times.
        return segment.last_time_ns or self._files.modified_ns(segment.path) or 0
