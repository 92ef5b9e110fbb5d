"""The commit log: one log that all topics share, written in the order of publishing.

Appended records gather until the turn's `commit` makes one group of them: one write and, under the policy `always`, one
sync. Both happen on the engine's thread while syncs are short (thread_choice.py), else on the sync thread, while the
next group gathers. Four positions state how far the log has come:

    synced_end <= written_end <= end        visible_end: synced_end under `always`, else written_end

`end` is where the next record goes. Every append moves it forward. When a group fails, it goes back to `visible_end`:
all records behind a failed group are dropped, since a position has one place in one file, and offsets must have no
holes. The positions are used again only after zeros over them are synced. So no crash brings back a record whose offset
another record has now.

Three kinds of trouble:

- No room (ENOSPC, EDQUOT, a short write, no descriptor left for the next segment): the group is rejected, the log
  `is_full`, refuses publishes, tries the disk once a second, and goes on by itself (refusal.py, room_probe.py).
- A fault (EIO anywhere, any error of a sync or a close, anything unknown): `error` is set for good. Nothing more is
  written or synced; visible records stay visible. Only a restart, which reads the files again, goes on.
- A record larger than a segment: refused, nothing else changes.
"""

import errno
import logging
import os
from collections.abc import Callable, Sequence
from functools import partial

from queue_engine.storage.commit_log.early_seal import EarlySeal
from queue_engine.storage.commit_log.group import LogGroup, LogListener, LogPiece, write_group
from queue_engine.storage.commit_log.log_recovery import RecoveredLog
from queue_engine.storage.commit_log.next_segment import NextSegment
from queue_engine.storage.commit_log.open_segment import OpenSegment, is_passing
from queue_engine.storage.commit_log.options import LogOptions, SyncPolicy
from queue_engine.storage.commit_log.preallocation import Preallocation
from queue_engine.storage.commit_log.record import SEAL_BYTES, encode_record, encode_seal
from queue_engine.storage.commit_log.refusal import Refusal, is_disk_full
from queue_engine.storage.commit_log.room_probe import probe_room
from queue_engine.storage.commit_log.segment import LogSegments, head_bytes_of
from queue_engine.storage.commit_log.sync_counts import SyncCounts
from queue_engine.storage.commit_log.sync_schedule import SyncSchedule
from queue_engine.storage.commit_log.thread_choice import ThreadChoice, may_be_inline
from queue_engine.storage.disk.background import Background
from queue_engine.storage.disk.background_job import BackgroundJob
from queue_engine.vocabulary.clock import Clock
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.run import Batch

logger = logging.getLogger(__name__)


class CommitLog:
    """Appends records and makes them durable. Belongs to the engine's thread.

    end, written_end, synced_end: positions, see above. last_time_ns: the greatest time of a record, Unix ns; the caller
    of `append` sees to it that a batch's time is not less.
    """

    def __init__(
        self,
        segments: LogSegments,
        recovered: RecoveredLog,
        options: LogOptions,
        *,
        clock: Clock,
        sync_background: Background,
        worker: Background,
        listener: LogListener,
        thread_choice: ThreadChoice | None = None,
    ) -> None:
        """recovered: where the log goes on: all before its `end` is synced, and the first new segment begins at its
        `next_position`.

        sync_background: a thread for the log's syncs alone. listener: called on the engine's thread, also from within
        `commit` and `close`. thread_choice: chooses the thread that syncs a group under `always`; None: always the sync
        thread.
        """
        self._segments = segments
        self._clock = clock
        self._options = options
        self.policy = options.policy
        self._is_synced_always = options.policy is SyncPolicy.ALWAYS  # a member of an enum takes 0.2 µs to look up
        self.has_readers = False  # beside the channels: pipeline cursors, leases
        self.wants_early_seal = False  # while it is full: no channel or reader needs the records, the trash apart
        self._sync_background = sync_background
        self._thread_choice = thread_choice
        self._listener = listener
        self._recovered = recovered
        self.last_time_ns = recovered.last_time_ns

        self.end = self.written_end = self.synced_end = self._reported_end = recovered.end
        self.counts = SyncCounts()
        self._refusal = Refusal(segments, options, clock)

        # In order: segments sealed and not yet synced, the segment that is written to, segments made ahead.
        self._open: list[OpenSegment] = []
        self._current: OpenSegment
        self._salt = 0  # of the segment that is written to
        self._limit = 0  # where records must end, so that the seal fits

        # The records of the next group.
        self._pieces: list[LogPiece] = []
        self._parts: list[bytes] = []
        self._piece_start = 0
        self._piece_time_ns = 0
        self._gathered_since_ns: int | None = None
        self._is_committed = False

        # The sync thread has one job at a time.
        self._job: BackgroundJob | None = None
        self._job_since_ns: int | None = None
        self._schedule = SyncSchedule(options, self.counts)

        self._preallocation = Preallocation(
            segments,
            self._open,
            options,
            clock=clock,
            worker=worker,
            created_ns=lambda: max(clock.time_ns(), self.last_time_ns),
            on_filled=self._preallocate,
            on_fault=self.fail,
        )

        self._to_clean: list[OpenSegment] = []  # segments that a refused group may have written to
        self._is_closing = False
        self.next_position = recovered.next_position

    # Questions.

    @property
    def error(self) -> StorageError | None:
        """The error that stopped the log for good; None while it works."""
        return self._refusal.error

    @property
    def is_full(self) -> bool:
        """Whether publishes are refused for want of room, for now."""
        return self._refusal.is_full

    @property
    def refusal(self) -> StorageError | None:
        """The error that a publish gets while the disk is full; None while it is not."""
        return self._refusal.exception() if self._refusal.is_full else None

    @property
    def visible_end(self) -> int:
        """Records behind this position may not be read, delivered or counted."""
        return self.synced_end if self._is_synced_always else self.written_end

    @property
    def first_position(self) -> int:
        """Where the log begins: earlier segments were removed."""
        segments = self._segments.list
        return segments[0].position if segments else self.next_position

    @property
    def first_open_position(self) -> int:
        """Where the segments begin that are still written or synced: none of them may be removed."""
        return self._open[0].info.position if self._open else self.next_position

    def oldest_unsynced_ns(self) -> int:
        """How long the oldest unsynced byte has waited; 0 when all bytes are synced."""
        for since_ns in (self._job_since_ns, self._schedule.unsynced_since_ns, self._gathered_since_ns):
            if since_ns is not None:
                return self._clock.monotonic_ns() - since_ns
        return 0

    # Work of the engine.

    def open(self) -> None:
        """Make the first segment, in this thread. A full disk does not end the start: the log `is_full`, and makes the
        segment when there is room. Raises StorageError; it may be called again."""
        try:
            self._refusal.check_room()
            self._recovered.seal_late()
        except OSError as exc:
            self._fill_up(exc, 0)
            return
        error = self._preallocation.make_first(self._recovered.next_position)
        if error is None:
            self._begin()
        elif is_disk_full(error):
            self._fill_up(error, 0)
        else:
            raise StorageError(f"commit log: first segment at {self._recovered.next_position}: {error}") from error

    def _begin(self) -> None:
        """Take records, now that the first segment is there."""
        first = self._open[0]
        self._write_to(first)
        self.end = self.written_end = first.start
        # Recovery synced all before this segment, and its header was synced when it was made.
        self.synced_end = self._reported_end = self.end
        self._refusal.end()
        self._preallocate()

    def append(
        self,
        topic_number: int,
        first_offset: int,
        batch: Batch,
        *,
        flags: int = 0,
        batch_key: bytes = b"",
        dues_ns: Sequence[int] | None = None,
        keys: bytes | None = None,
    ) -> tuple[int, int]:
        """Gather a batch as one record; returns its position and size. The next `commit` writes it; it counts once
        `visible_end` has passed it. keys: as `encode_record` takes them.

        Raises StorageError when the log is full, has failed, or has no segment large enough: nothing is taken.
        """
        if self._refusal.text is not None:
            raise self._refusal.exception() from self.error
        while True:
            position = self.end
            parts = encode_record(
                batch,
                position=position,
                salt=self._salt,
                topic_number=topic_number,
                first_offset=first_offset,
                durable_upto=self.synced_end,
                flags=flags,
                batch_key=batch_key,
                dues_ns=dues_ns,
                keys=keys,
            )
            size = len(parts[0]) + len(parts[1]) + len(parts[2])
            if position + size <= self._limit:
                break
            # Then once more: a record's checksum is bound to its place.
            self._roll(size)
        if not self._parts:
            self._piece_time_ns = batch.timestamp_ns
            if self._gathered_since_ns is None:
                self._gathered_since_ns = self._clock.monotonic_ns()
        self._parts += parts
        self.end = position + size
        if batch.timestamp_ns > self.last_time_ns:
            self.last_time_ns = batch.timestamp_ns
        return position, size

    def commit(self) -> None:
        """End the turn: the appended records become one group.

        Under `always` the group is written and synced: here while syncs are short (`ThreadChoice`), else by the sync
        thread, together with the records that gather until that thread is free. Under the other policies it is written
        here, and synced later. `LogListener.log_failed` reports a failure.
        """
        if self._gathered_since_ns is None:
            return
        if not self._is_synced_always:
            self._write_group()
        else:
            self._is_committed = True
            if self._job is None:
                self._start_group()

    def leave_room(self) -> None:
        """Refuse publishes as on a full disk, so that the remaining room is free for other writes."""
        if self._refusal.text is None:
            self._fill_up(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), 0)

    def tick(self, now_ns: int) -> None:
        """Begin the jobs that are due: a sync, a probe of a full disk, preallocation. now_ns: monotonic."""
        if self.error is not None or self._is_closing:
            return
        if self._job is None:
            self._schedule.tick(now_ns, has_readers=self.has_readers)
            if self._refusal.is_probe_due(now_ns) and self._gathered_since_ns is None:
                if self.wants_early_seal:
                    self._start_early_seal()
                else:
                    self._start_probe()
            elif self._schedule.is_wanted:
                self._start_sync()
        self._preallocate()

    def close(self) -> None:
        """Write, seal and sync everything, in this thread if need be.

        Raises StorageError when visible records may not be on the disk, or the last segment could not be sealed: then
        the next start is one as after a crash. `LogListener.log_failed` reports records that could not be written.
        Calling it again does nothing.
        """
        if self._is_closing:
            return
        self._is_closing = True
        self._refusal.close()
        # The job first: a probe of a full disk may wait for the segment that the worker makes.
        if self._job is not None:
            self._job.ended(self._job.finish())
        self._preallocation.call_off()
        self.commit()
        if self._open and self.error is None:
            try:
                self._seal()
            except Exception as exc:
                self.fail(exc)
        if not self._open:
            self._preallocation.remove([])
        for segment in self._open:
            segment.close_quietly()
        self._open.clear()
        if self.error is not None:
            raise self.error

    # Groups.

    def _end_piece(self, *, is_last: bool) -> None:
        data = b"".join(self._parts)
        self._parts = []
        piece = LogPiece(self._current, self._piece_start, data, is_last, self._piece_time_ns, self.last_time_ns)
        self._pieces.append(piece)
        self._piece_start += len(data)

    def _take_group(self) -> LogGroup:
        assert self._gathered_since_ns is not None
        if self._parts:
            self._end_piece(is_last=False)
        pieces = self._pieces
        group = LogGroup(pieces, self.end, sum([len(piece.data) for piece in pieces]), self._gathered_since_ns)
        self._pieces = []
        self._gathered_since_ns = None
        self._is_committed = False
        return group

    def _start_group(self) -> None:
        group = self._take_group()
        good_end = self.visible_end
        place = self._thread_choice
        is_inline = place is not None and may_be_inline(group) and place.is_inline(self._clock.monotonic_ns())

        def work() -> None:
            write_group(group, good_end)
            took_ns, ended_ns = self._sync_timed([piece.segment for piece in group.pieces])
            if place is not None:
                if is_inline:
                    place.note_inline(took_ns, ended_ns)
                else:
                    place.note_on_thread(took_ns)
            for piece in group.pieces:
                if piece.is_last:
                    piece.segment.close()

        self._job_since_ns = group.since_ns
        self.counts.inline_syncs += is_inline
        self._start_job(work, lambda error: self._group_ended(group, error), is_inline=is_inline)

    def _group_ended(self, group: LogGroup, error: Exception | None) -> None:
        self._job_since_ns = None
        if self.error is not None:
            return  # rejected already, when the log failed for another reason
        if error is not None:
            self._group_failed(group, error)
            return
        self.written_end = self.synced_end = group.end
        self._group_written(group)
        self.counts.syncs += len(group.pieces)
        self.counts.synced_bytes += group.size
        self._forget_closed(self._current_at(group.end))
        if self._is_committed:
            self._start_group()  # before the listener is called: the disk need not wait for it
        self._report_visible()
        self._preallocate()

    def _write_group(self) -> None:
        group = self._take_group()
        try:
            write_group(group, self.visible_end)
        except Exception as exc:
            self._group_failed(group, exc)
            return
        self.written_end = group.end
        self._group_written(group)
        self._schedule.note_written(
            group.since_ns,
            self.written_end - self.synced_end,
            is_roll=any(piece.is_last for piece in group.pieces),
            is_syncing=self._job is not None,
        )
        if self._schedule.is_wanted and self._job is None:
            self._start_sync()
        self._report_visible()
        self._preallocate()

    def _group_written(self, group: LogGroup) -> None:
        self.counts.groups += 1
        self.counts.written_bytes += group.size
        for piece in group.pieces:
            info = piece.segment.info
            info.first_time_ns = info.first_time_ns or piece.first_time_ns
            info.last_time_ns = max(info.last_time_ns, piece.last_time_ns)
            if piece.is_last:
                info.end = piece.position + len(piece.data) - SEAL_BYTES
                info.is_sealed = True

    def _group_failed(self, group: LogGroup, error: Exception) -> None:
        self.counts.failed_groups += 1
        if not is_passing(error):
            self.fail(error)
            return
        self._to_clean = [piece.segment for piece in group.pieces]
        self._fill_up(error, group.size)
        self._take_back()
        self._listener.log_failed(self._refusal.exception())

    def _report_visible(self) -> None:
        # The listener may append and commit, and so come here again, before an earlier call has returned.
        if self._reported_end < self.visible_end:
            self._reported_end = self.visible_end
            self._listener.became_visible(self._reported_end)

    # Trouble.

    def _take_back(self) -> None:
        """Forget all records behind `visible_end`. Segments begun there count as made ahead again."""
        self._pieces = []
        self._parts = []
        self._gathered_since_ns = None
        self._is_committed = False
        self.end = self.visible_end
        if self._open:
            self._write_to(self._open[self._current_at(self.end)])

    def _fill_up(self, error: Exception, refused_bytes: int) -> None:
        self._refusal.fill_up(error, refused_bytes, self.visible_end)

    def fail(self, error: Exception) -> None:
        """Stop for good. A group under way is rejected, too: no OK comes after this."""
        if self.error is not None:
            return
        failed = self._refusal.fail(error, self.visible_end)
        self._preallocation.is_stopped = True
        self._take_back()
        self._listener.log_failed(failed)

    def _start_probe(self) -> None:
        """Try whether the refused write would have room now: the first segment, or the group behind `visible_end`."""
        is_first = not self._open
        good_end = self._recovered.next_position if is_first else self.visible_end
        target: OpenSegment | NextSegment
        if is_first:
            target = self._preallocation.making(good_end)
        elif good_end + self._refusal.refused_bytes <= self._limit:
            target = self._current
        else:
            at = self._current_at(good_end) + 1
            target = self._open[at] if at < len(self._open) else self._preallocation.making(self._current.stop)
        probe = partial(
            probe_room,
            self._refusal,
            self._recovered,
            refused_bytes=self._refusal.refused_bytes,
            to_clean=self._to_clean,
            good_end=good_end,
            target=target,
        )

        def done(error: Exception | None) -> None:
            if isinstance(target, NextSegment) and target.job.is_over:
                self._preallocation.take(target, target.job.error)
            if self.error is not None:
                return
            if error is None:
                logger.info("commit log goes on: there is room again position=%d", good_end)
                self._to_clean = []
                if is_first:
                    self._begin()
                else:
                    self._refusal.end()
                    self._preallocate()
            elif is_passing(error):
                self._refusal.refuse(error)
            else:
                self.fail(error)

        self._start_job(probe, done)

    @property
    def has_open_records(self) -> bool:
        """Whether the segment that is written to has some."""
        return bool(self._open) and self.visible_end > self._open[self._current_at(self.visible_end)].start

    def _start_early_seal(self) -> None:
        """Complete the segment that a full log writes to, once: the next try comes when it is wanted again."""
        self.wants_early_seal = False
        at = self._current_at(self.visible_end)
        last = self._open[at]
        following: OpenSegment | NextSegment
        following = self._open[at + 1] if at + 1 < len(self._open) else self._preallocation.making(last.stop)
        seal = EarlySeal(
            self._open[: at + 1],
            following,
            end=self.visible_end,
            time_ns=self.last_time_ns,
            to_clean=tuple(self._to_clean),
        )
        self._to_clean = [*[one for one in self._to_clean if one is not last], last]

        def done(error: Exception | None) -> None:
            if isinstance(following, NextSegment) and following.job.is_over:
                self._preallocation.take(following, following.job.error)
            if self.error is not None:
                return
            if error is None:
                self._begin_behind(seal, at + 1)
            elif is_passing(error):
                self._refusal.refuse(error)
            else:
                self.fail(error)

        self._start_job(seal.run, done)

    def _begin_behind(self, seal: EarlySeal, count: int) -> None:
        """Go on behind an early seal, which ends the first `count` open segments; the log stays full."""
        seal.note_sealed()
        self._to_clean = [one for one in self._to_clean if one not in seal.written]
        self._forget_closed(count)
        first = self._open[0]
        self._write_to(first)
        self.end = self.written_end = self.synced_end = self._reported_end = first.start
        self._job_since_ns = self._schedule.unsynced_since_ns = None
        logger.info("commit log full: segment completed early path=%s", seal.last.info.path)

    # Syncs of `interval` and `os`.

    def _start_sync(self) -> None:
        """Sync the written records: full segments alone under `os` without readers, else all of them."""
        is_all = self._schedule.take()
        current_at = self._current_at(self.written_end)
        current = self._open[current_at]
        sealed = self._open[:current_at]
        if is_all:
            synced_end = self.written_end
            to_sync = [*sealed, current]
        else:
            # The rest begins with the group that filled the last segment.
            synced_end = current.start
            to_sync = sealed
        size = synced_end - self.synced_end

        def work() -> None:
            self._sync_timed(to_sync)
            for segment in sealed:
                segment.close()

        def done(error: Exception | None) -> None:
            self._job_since_ns = None
            if self.error is not None:
                return
            if error is not None:
                self.fail(error)
                return
            self.synced_end = synced_end
            self.counts.syncs += len(to_sync)
            self.counts.synced_bytes += size
            self._forget_closed(len(sealed))
            self._schedule.note_synced(self.written_end - self.synced_end)

        self._job_since_ns = self._schedule.unsynced_since_ns
        self._schedule.unsynced_since_ns = self._clock.monotonic_ns() if synced_end < self.written_end else None
        self._start_job(work, done)

    # The sync thread.

    def _sync_timed(self, segments: Sequence[OpenSegment]) -> tuple[int, int]:
        """Sync segments; returns how long that took, and when it ended (monotonic ns). On the thread of the job."""
        began_ns = self._clock.monotonic_ns()
        for segment in segments:
            segment.sync()
        ended_ns = self._clock.monotonic_ns()
        self.counts.times.note(ended_ns - began_ns)  # one job runs at a time
        return ended_ns - began_ns, ended_ns

    def _start_job(
        self, work: Callable[[], None], done: Callable[[Exception | None], None], *, is_inline: bool = False
    ) -> None:
        if is_inline or self._is_closing:
            error: Exception | None = None
            try:
                work()
            except Exception as exc:
                error = exc
            self._job_ended(done, error)
        else:
            self._job = BackgroundJob(work, then=lambda error: self._job_ended(done, error))
            self._job.start(self._sync_background)

    def _job_ended(self, done: Callable[[Exception | None], None], error: Exception | None) -> None:
        self._job = None  # and with it all that was written
        try:
            done(error)
        except Exception as exc:
            # A bug, which leaves the log in an unknown state: it takes nothing more, and rejects all that waits.
            logger.exception("commit log: handling the end of a write failed position=%d", self.visible_end)
            self.fail(exc)
        if self._schedule.is_wanted and self._job is None and self.error is None:
            self._start_sync()

    # Segments.

    def _current_at(self, end: int) -> int:
        """Index of the open segment in which `end` lies."""
        at = len(self._open) - 1
        while self._open[at].start > end:
            at -= 1
        return at

    def _write_to(self, segment: OpenSegment) -> None:
        """The next record goes to `end` in `segment`, or to its start."""
        self._current = segment
        self._salt = segment.info.salt
        self._limit = segment.stop - SEAL_BYTES
        self.end = max(self.end, segment.start)
        self._piece_start = self.end
        self.next_position = segment.stop

    def _roll(self, size: int) -> None:
        """Go on in the next segment, for a record of `size` bytes. Raises StorageError; then nothing changed."""
        size_max = self._options.segment_bytes - head_bytes_of(self._options.segment_bytes) - SEAL_BYTES
        if size > size_max:
            raise StorageError(f"record of {size} bytes does not fit into a log segment, which holds {size_max}")
        at = self._open.index(self._current) + 1
        if at == len(self._open):
            error = self._preallocation.make_now(self._current.stop)
            if error is not None and self.error is None:
                self._fill_up(error, size)
            if self._refusal.text is not None:
                raise self._refusal.exception() from self.error
        self._parts.append(
            encode_seal(
                position=self.end,
                salt=self._salt,
                durable_upto=self.synced_end,
                time_ns=self.last_time_ns,
            )
        )
        if self._gathered_since_ns is None:
            self._gathered_since_ns = self._clock.monotonic_ns()
        if len(self._parts) == 1:
            self._piece_time_ns = self.last_time_ns
        self._end_piece(is_last=True)
        self._write_to(self._open[at])

    def _forget_closed(self, count: int) -> None:
        """The first `count` open segments are sealed, synced and closed."""
        del self._open[:count]

    def _seal(self) -> None:
        """End the log: write its seal, and sync all segments in their order."""
        for segment in reversed(self._to_clean):
            segment.take_back(self.end)
        at = self._current_at(self.end)
        last = self._open[at]
        if self.end == last.start and at == 0 and len(self._segments.list) > len(self._open):
            # The last segment is empty: a start followed by a stop leaves no segment behind.
            self._preallocation.remove(self._open)
            self._open.clear()
            self.end = self.written_end = self.synced_end = last.info.position
            return
        seal = encode_seal(
            position=self.end, salt=last.info.salt, durable_upto=self.synced_end, time_ns=self.last_time_ns
        )
        last.write(seal, self.end, is_last=True)
        unsynced = self.end - self.synced_end
        for segment in self._open[: at + 1]:
            segment.sync()
            self.counts.syncs += 1
        last.cut_off(self.end + SEAL_BYTES)
        for segment in self._open[: at + 1]:
            segment.close()
        self.counts.synced_bytes += unsynced
        self.synced_end = self.written_end = self.end
        self._job_since_ns = self._schedule.unsynced_since_ns = None
        last.info.end = self.end
        last.info.is_sealed = True
        self._report_visible()
        self._preallocation.remove(self._open[at + 1 :])

    def _preallocate(self) -> None:
        if self._refusal.text is None:
            self._preallocation.advance(self._current, self.end)
