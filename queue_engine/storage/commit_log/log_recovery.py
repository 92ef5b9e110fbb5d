"""Recovery: reads the log at a start, decides which records are valid, and repairs the files.

The durable mark is the greatest `durable upto` of a valid record or the checkpoint: all below it was synced once. So
the first record that does not hold is one of two things. Above the mark it is a torn tail: the log ends there, and
recovery drops all behind it. Below the mark it is damage: recovery keeps its good messages, copies its bytes to
quarantine and counts the lost messages. A later valid record whose `durable upto` lies behind the place proves that it
is damage.

Reading comes first and changes nothing. Then, in this order: the accepted segments are synced, the bytes behind the cut
are filled with zeros and synced, segments behind it are removed, and a seal is written at the cut. A recovery that is
killed at any step and begins again finds the same. Writing goes on in a new segment, with a salt of its own.
"""

import errno
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from crc32c import crc32c

from queue_engine.storage.commit_log.record import (
    HAS_DUE,
    HEADER_BYTES,
    KIND_SEAL,
    SEAL_BYTES,
    TRAILER_MAGIC,
    RecordHeader,
    RecordLostError,
    decode_record,
    encode_seal,
    ranges_of,
)
from queue_engine.storage.commit_log.record_scan import expected_header, records_from
from queue_engine.storage.commit_log.segment import HEAD_BYTES_MAX, SEGMENT_HEADER_BYTES, LogSegments, SegmentInfo
from queue_engine.storage.disk.files import Files
from queue_engine.storage.recovery_report import Damage, LostMessages
from queue_engine.vocabulary.errors import StorageError

logger = logging.getLogger(__name__)

# Bytes read at once: much more than most records, much less than a segment.
READ_BYTES = 4 << 20
_ZERO_STEP_BYTES = 1 << 20
_ZEROS = bytes(_ZERO_STEP_BYTES)
QUARANTINE_NAME = "quarantine"
_UNUSABLE_RENAMED = "the file is renamed to .log.bad"

OnRecord = Callable[[RecordHeader, int, Sequence[int] | None], None]
"""Called for each record in order: header, position, due times (Unix ns) or None."""


@dataclass(slots=True)
class RecoveredLog:
    """The result of a recovery.

    end: behind the last record that holds. next_position: where the next segment begins. cut_bytes: of a torn tail.
    was_clean: the log was closed in order. seal_late: writes the last segment's seal when the disk had no room for it;
    called before a segment is made behind it, again until it raises no OSError.
    """

    end: int = 0
    next_position: int = 0
    durable_mark: int = 0
    last_time_ns: int = 0
    scanned_records: int = 0
    scanned_bytes: int = 0
    cut_bytes: int = 0
    was_clean: bool = True
    damages: list[Damage] = field(default_factory=list)
    seal_late: Callable[[], None] = lambda: None


def recover_log(
    segments: LogSegments,
    *,
    files: Files,
    from_position: int = 0,
    durable_upto: int = 0,
    on_record: OnRecord = lambda header, position, dues: None,
    is_dead: Callable[[RecordHeader], bool] = lambda header: False,
    hole_end_at: Callable[[int], int | None] = lambda position: None,
    first_position: int | None = None,
) -> RecoveredLog:
    """Read the log from `from_position` (a record's place, from the checkpoint) to its end, and repair it.

    durable_upto: the checkpoint's. is_dead: whether no channel or reader needs a record any more; its damage is not
    reported. hole_end_at: where the hole ends that a position lies in, None for none. first_position: where the log
    begins; earlier segments were removed. None when the checkpoint has none. Raises StorageError when a file can't be
    read or written; that is never taken for damage, and loses nothing.
    """
    recovery = _Recovery(segments, files, durable_upto, on_record, is_dead, hole_end_at, first_position)
    recovery.read(from_position)
    recovery.clip_damages()
    try:
        recovery.repair()
    except OSError as exc:
        raise StorageError(f"the log in {segments.directory} can't be repaired: {exc}") from exc
    return recovery.found


class _Recovery:
    def __init__(
        self,
        segments: LogSegments,
        files: Files,
        durable_upto: int,
        on_record: OnRecord,
        is_dead: Callable[[RecordHeader], bool],
        hole_end_at: Callable[[int], int | None],
        first_position: int | None,
    ) -> None:
        self._segments = segments
        self._files = files
        self._on_record = on_record
        self._is_dead = is_dead
        self._hole_end_at = hole_end_at
        self.found = RecoveredLog(durable_mark=durable_upto)
        self._first_position = first_position
        self._accepted: list[SegmentInfo] = []
        self._quarantined: list[tuple[int, bytes]] = []
        self._reported_paths: set[str] = set()
        self._ends_in: SegmentInfo | None = None
        self._end_before = 0
        self._is_sealed = True
        self._chunk = b""
        self._chunk_at = 0

    # Reading.

    def read(self, from_position: int) -> None:
        found = self.found
        listed = self._segments.list
        found.end = from_position
        found.next_position = listed[-1].next_position if listed else 0
        expected = self._first_position
        for segment in listed:
            if expected is not None and expected < segment.position and from_position < segment.position:
                self._note_missing(max(expected, from_position), segment)
            expected = segment.next_position
            if segment.next_position <= from_position:
                # The checkpoint lies behind this segment: it is complete and synced.
                segment.is_sealed = True
                segment.end = segment.position + max(0, (self._files.size_of(segment.path) or 0) - SEAL_BYTES)
                continue
            start = max(from_position, segment.start)
            self._accepted.append(segment)
            self._ends_in = segment
            self._end_before = found.end
            found.end, self._is_sealed = self._read_segment(segment, start)
            segment.is_sealed = self._is_sealed
            segment.end = found.end
            if not self._is_sealed:
                if found.end >= found.durable_mark:
                    return
                # The segment had more durable bytes, and the segments behind it are durable, too.
                self._note_lost(found.end, segment.next_position, "the end of the segment is missing or damaged")
                segment.is_sealed = segment is not listed[-1]
        head_bytes = listed[-1].head_bytes if listed else HEAD_BYTES_MAX
        if found.durable_mark > found.next_position + head_bytes:
            self._note_absent(found.next_position, found.durable_mark, "segments are missing at the end")

    def clip_damages(self) -> None:
        """Cut damages at the durable mark: messages above it were never acknowledged, and are no loss."""
        for index, damage in enumerate(self.found.damages):
            size = self.found.durable_mark - damage.position
            if not damage.is_exact and 0 < size < damage.size:
                self.found.damages[index] = replace(damage, size=size)

    def _note_missing(self, position: int, following: SegmentInfo) -> None:
        """Note a loss when durable bytes lay between `position` and the next segment: there is no file for them."""
        # Unless a later record states it, these bytes were not durable, and no message in them was acknowledged.
        end = following.position
        is_durable = self.found.durable_mark > position or any(
            header.durable_upto > position
            for one in self._segments.list
            if one.position >= end
            for _, header in records_from(self._segments, one, one.start)
        )
        if is_durable:
            self._note_absent(position, end, "segments are missing")

    def _read_segment(self, segment: SegmentInfo, position: int) -> tuple[int, bool]:
        """Where the records of a segment end, and whether its seal stands there."""
        found = self.found
        while True:
            position = self._hole_end_at(position) or position
            header = self._header_at(segment, position)
            if header is not None and header.kind == KIND_SEAL:
                found.durable_mark = max(found.durable_mark, header.durable_upto)
                found.last_time_ns = max(found.last_time_ns, header.time_ns)
                return position, True
            if header is not None and self._holds(segment, position, header):
                self._accept(segment, position, header, self._dues_of(segment, position, header))
                position += header.size
                continue
            # The record does not hold. Was it durable?
            if not self._was_durable(segment, position):
                return position, False
            if header is None:
                following = self._next_record(segment, position)
                if following is None:
                    return position, False
                start, header = following
                if start > position:
                    self._note_lost(position, start, "header and trailer are lost")
                    position = start
                    continue
            if header.kind == KIND_SEAL:
                self._note_damage(position, SEAL_BYTES, "the seal's header is damaged")
                return position, True
            self._save(segment, position, header)
            position += header.size

    def _bytes_at(self, segment: SegmentInfo, position: int, size: int) -> bytes:
        """`size` bytes from a record's place on, as far as the file has them."""
        at = position - self._chunk_at
        if not 0 <= at <= len(self._chunk) - size:
            room = segment.next_position - position
            self._chunk = self._segments.read(position, min(room, max(size, READ_BYTES)))
            self._chunk_at = position
            at = 0
        return self._chunk[at : at + size]

    def _header_at(self, segment: SegmentInfo, position: int) -> RecordHeader | None:
        if position + SEAL_BYTES > segment.next_position:
            return None
        data = self._bytes_at(segment, position, HEADER_BYTES)
        header = expected_header(segment, data, 0, position)
        if header is None or position + header.size > segment.next_position:
            return None
        return header

    def _holds(self, segment: SegmentInfo, position: int, header: RecordHeader) -> bool:
        """Whether every byte of a record is as it was written."""
        data = memoryview(self._bytes_at(segment, position, header.size))
        if len(data) < header.size:
            return False
        messages_at = HEADER_BYTES + header.table_bytes
        messages_end = messages_at + header.messages_bytes
        trailer_at = header.size - HEADER_BYTES
        return (
            crc32c(data[HEADER_BYTES:messages_at]) == header.table_crc
            and crc32c(data[messages_at:messages_end]) == header.messages_crc
            and (header.version == 1 or data[messages_end:trailer_at] == data[HEADER_BYTES:messages_at])
            and data[trailer_at : trailer_at + 4] == TRAILER_MAGIC
            and data[trailer_at + 4 :] == data[4:HEADER_BYTES]
        )

    def _accept(self, segment: SegmentInfo, position: int, header: RecordHeader, dues: Sequence[int] | None) -> None:
        found = self.found
        found.durable_mark = max(found.durable_mark, header.durable_upto)
        found.last_time_ns = max(found.last_time_ns, header.time_ns)
        found.scanned_records += 1
        found.scanned_bytes += header.size
        segment.first_time_ns = segment.first_time_ns or header.time_ns
        segment.last_time_ns = max(segment.last_time_ns, header.time_ns)
        self._on_record(header, position, dues)

    def _dues_of(self, segment: SegmentInfo, position: int, header: RecordHeader) -> Sequence[int] | None:
        """The due times of a record that holds."""
        if not header.flags & HAS_DUE:
            return None
        data = self._bytes_at(segment, position, header.size)
        return decode_record(data, position=position, salt=segment.salt).dues()

    def _save(self, segment: SegmentInfo, position: int, header: RecordHeader) -> None:
        """Accept a durable record that is damaged and has a valid header; its good messages stay in their place."""
        data = self._bytes_at(segment, position, header.size).ljust(header.size, b"\0")
        try:
            record = decode_record(data, position=position, salt=segment.salt)
        except RecordLostError:
            # The scan found the header; readers will not find it.
            self._note_damage(
                position, header.size, "header and trailer are lost", _lost_of(header, range(header.count))
            )
            return
        if not self._is_dead(header):
            reason = "bodies are damaged" if record.damaged else "damaged beside the bodies"
            self._note_damage(position, header.size, reason, _lost_of(header, sorted(record.damaged)))
        self._accept(segment, position, header, record.dues())

    def _was_durable(self, segment: SegmentInfo, position: int) -> bool:
        """Whether `position` lies below the durable mark, records behind it included."""
        if position < self.found.durable_mark:
            return True
        later = [one for one in self._segments.list if one.position > segment.position]
        for one, start in [(segment, position + 1), *((one, one.start) for one in later)]:
            for _, header in records_from(self._segments, one, start):
                if header.durable_upto > position:
                    self.found.durable_mark = max(self.found.durable_mark, header.durable_upto)
                    return True
        return False

    def _next_record(self, segment: SegmentInfo, position: int) -> tuple[int, RecordHeader] | None:
        """The first record of a segment from `position` on whose header or trailer holds, and that fits into it."""
        for start, header in records_from(self._segments, segment, position):
            if start + header.size <= segment.next_position:
                return start, header
        return None

    def _note_damage(self, position: int, size: int, reason: str, losses: tuple[LostMessages, ...] = ()) -> None:
        damage = Damage(position, size, reason, losses)
        self.found.damages.append(damage)
        self._quarantined.append((position, self._segments.read(position, size)))
        logger.error("log damaged position=%d size=%d lost=%s reason=%s", position, size, damage.lost, reason)

    def _note_lost(self, position: int, end: int, reason: str) -> None:
        """Note a damaged range without a header: the log itself does not list its messages."""
        self.found.damages.append(Damage(position, end - position, reason, is_exact=False))
        self._quarantined.append((position, self._segments.read(position, end - position)))
        logger.error("log damaged position=%d size=%d reason=%s", position, end - position, reason)

    def _note_absent(self, position: int, end: int, reason: str) -> None:
        """Note a range for which there is no file, or none with a header that holds."""
        unusable = [path for path in self._segments.damaged_paths if position <= _position_of(path) < end]
        action = ""
        if unusable:
            reason = f"{', '.join(unusable)} {'has' if len(unusable) == 1 else 'have'} no header that holds"
            action = _UNUSABLE_RENAMED
        self._reported_paths.update(unusable)
        damage = Damage(position, end - position, reason, is_exact=False, action=action, is_absent=True)
        self.found.damages.append(damage)
        logger.error("log damaged position=%d size=%d reason=%s", position, end - position, reason)

    # Repairing. All raise OSError.

    def repair(self) -> None:
        self._keep_damaged()
        self._mend_headers()
        for segment in self._accepted:
            self._sync(segment)
        last = self._ends_in
        found = self.found
        if last is None:
            self._remove_unusable(found.end)
            return
        if self._is_sealed:
            found.next_position = last.next_position
            self._remove_unusable(last.next_position)
            return
        found.was_clean = False
        self._zero(last)
        for segment in [one for one in self._segments.list if one.position > last.position]:
            self._segments.forget(segment)
            self._files.unlink(segment.path)
        self._remove_unusable(last.position)
        self._files.sync_directory(self._segments.directory)
        is_empty = found.end == last.start and not found.damages
        if is_empty and len(self._segments.list) > 1:
            # The last segment was never used: its place is free. A log's only segment stays, since a log without one
            # is reported as a loss.
            self._segments.remove(last)
            found.end = self._end_before
            found.next_position = last.position
            return
        try:
            self._seal(last)
        except OSError as exc:
            if exc.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            # Records can be read and consumed; without the seal the next start repairs the segment again.
            logger.warning("segment not sealed for want of room path=%s error=%s", last.path, exc)
            found.seal_late = partial(self._seal_late, last)
        last.is_sealed = True
        found.next_position = last.next_position

    def _keep_damaged(self) -> None:
        directory = os.path.join(os.path.dirname(self._segments.directory), QUARANTINE_NAME)
        for position, data in self._quarantined:
            try:
                self._files.make_directory(directory)
                self._files.replace(os.path.join(directory, f"{position:020d}.bin"), data)
            except OSError as exc:
                # The copy is for people; the segment itself keeps the bytes.
                logger.warning("damage not copied position=%d error=%s", position, exc)

    def _mend_headers(self) -> None:
        for segment in self._segments.list:
            if not segment.damaged_at:
                continue
            if segment is not self._segments.list[-1] or self.found.end > segment.start:
                # Else the process died while it made the file, and the segment is empty.
                at = segment.damaged_at[0]
                where = "header is" if at == 0 else "header's copy is"
                action = "it is written again from the copy that holds"
                reason = f"the {where} damaged in {segment.path}"
                self.found.damages.append(Damage(segment.position + at, SEGMENT_HEADER_BYTES, reason, action=action))
                logger.error("segment header damaged path=%s at=%d", segment.path, at)
            try:
                self._segments.mend(segment)
            except OSError as exc:
                # The copy that holds is enough to go on.
                logger.warning("segment header not mended path=%s error=%s", segment.path, exc)

    def _sync(self, segment: SegmentInfo) -> None:
        fd = self._files.open(segment.path, os.O_RDWR)
        try:
            self._files.sync(fd)
        finally:
            self._files.close(fd)

    def _zero(self, segment: SegmentInfo) -> None:
        at = self.found.end - segment.position
        rest = self._segments.read(self.found.end, segment.next_position - self.found.end)
        used = len(rest.rstrip(b"\0"))
        self.found.cut_bytes = used
        if not used:
            return
        fd = self._files.open(segment.path, os.O_RDWR)
        try:
            for start in range(0, used, _ZERO_STEP_BYTES):
                self._files.write_all(fd, _ZEROS[: min(_ZERO_STEP_BYTES, used - start)], at + start)
            self._files.sync(fd)
        finally:
            self._files.close(fd)

    def _seal(self, segment: SegmentInfo) -> None:
        found = self.found
        seal = encode_seal(position=found.end, salt=segment.salt, durable_upto=found.end, time_ns=found.last_time_ns)
        fd = self._files.open(segment.path, os.O_RDWR)
        try:
            at = found.end - segment.position
            # First, since on a full disk the seal may need the room that this frees.
            self._files.truncate(fd, at)
            self._files.write_all(fd, seal, at)
            self._files.sync(fd)
        finally:
            self._files.close(fd)

    def _seal_late(self, segment: SegmentInfo) -> None:
        try:
            self._seal(segment)
        except FileNotFoundError:
            pass  # retention removed the segment meanwhile
        self.found.seal_late = lambda: None

    def _remove_unusable(self, beyond: int) -> None:
        """Remove files without a header that were never used, and rename damaged ones to .log.bad."""
        for path in self._segments.damaged_paths:
            position = _position_of(path)
            if position >= beyond and self._was_never_used(path):
                self._files.unlink(path)
                continue
            self._files.rename(path, path + ".bad")
            if path not in self._reported_paths:
                reason = f"{path} has no header that holds"
                self.found.damages.append(Damage(max(position, 0), 0, reason, is_exact=False, action=_UNUSABLE_RENAMED))
        if self._segments.damaged_paths:
            self._segments.damaged_paths = []
            self._files.sync_directory(self._segments.directory)

    def _was_never_used(self, path: str) -> bool:
        """Whether a segment's file is empty behind the header: records are written after the header is synced."""
        fd = self._files.open(path, os.O_RDONLY)
        try:
            at = SEGMENT_HEADER_BYTES
            while data := self._files.read_at(fd, READ_BYTES, at):
                if data.strip(b"\0"):
                    return False
                at += len(data)
        finally:
            self._files.close(fd)
        return True


def _position_of(path: str) -> int:
    """The position in a segment file's name; -1 for another name."""
    stem = os.path.basename(path).split(".")[0]
    return int(stem) if stem.isascii() and stem.isdigit() else -1


def _lost_of(header: RecordHeader, indexes: Sequence[int]) -> tuple[LostMessages, ...]:
    """Messages of a record, by their indexes within it, ascending."""
    if not indexes:
        return ()
    offsets = [header.first_offset + index for index in indexes]
    return tuple(LostMessages(header.topic_number, first, first + count, count) for first, count in ranges_of(offsets))
