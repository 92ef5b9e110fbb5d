"""What of the log can be relied on after a start, and making the rest of it harmless.

The durable mark is the greatest `durable upto` that a valid record or the checkpoint tells: all below it was synced
once. So the first record that does not hold is one of two things. Above the mark it is a torn tail: the log ends there,
whatever follows, and nothing of it is kept. Below it is damage: what can be saved is saved, the rest is copied aside,
counted and passed over. A later record that holds and was written when the place was durable proves the latter.

Reading comes first and changes nothing. Then, in this order: all that was accepted is synced, the cut is filled with
zeros and synced, segments behind it are removed, and a seal is written at the cut. Dying at any step and beginning
again gives the same. Whoever writes next begins a new segment, with a salt of its own.
"""

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from crc32c import crc32c

from queue_engine.errors import StorageError
from queue_engine.storage.files import Files
from queue_engine.storage.record import (
    HAS_DUE,
    HEADER_BYTES,
    HEADER_MAGIC,
    KIND_SEAL,
    SEAL_BYTES,
    TRAILER_MAGIC,
    RecordHeader,
    RecordLostError,
    decode_record,
    encode_seal,
    parse_header,
    parse_trailer,
)
from queue_engine.storage.recovery_report import Damage
from queue_engine.storage.segment import SEGMENT_HEADER_BYTES, LogSegments, SegmentInfo

logger = logging.getLogger(__name__)

# Read at once: much more than most records, much less than a segment.
READ_BYTES = 4 << 20
_ZERO_STEP_BYTES = 1 << 20
_ZEROS = bytes(_ZERO_STEP_BYTES)
QUARANTINE_NAME = "quarantine"

OnRecord = Callable[[RecordHeader, int, Sequence[int] | None], None]
"""Called for each record in order: header, position, due times (Unix ns) or None."""


@dataclass(slots=True)
class RecoveredLog:
    """end: behind the last record that holds. next_position: where the next segment begins. cut_bytes: of a torn
    tail. was_clean: the log was closed in order."""

    end: int = 0
    next_position: int = 0
    durable_mark: int = 0
    last_time_ns: int = 0
    scanned_records: int = 0
    scanned_bytes: int = 0
    cut_bytes: int = 0
    was_clean: bool = True
    damages: list[Damage] = field(default_factory=list)


def recover_log(
    segments: LogSegments,
    *,
    files: Files,
    from_position: int = 0,
    durable_upto: int = 0,
    on_record: OnRecord = lambda header, position, dues: None,
    is_dead: Callable[[RecordHeader], bool] = lambda header: False,
    hole_end_at: Callable[[int], int | None] = lambda position: None,
) -> RecoveredLog:
    """Read the log from `from_position` (a record's place, as the checkpoint tells) to its end, and repair it.

    durable_upto: what the checkpoint knows to be synced. is_dead: whether nobody needs a record any more; what is
    damaged of such is no damage. hole_end_at: where the hole ends that a position lies in, None for none. Raises
    StorageError when a file can't be read or written; that is never taken for damage, and nothing was lost by it.
    """
    recovery = _Recovery(segments, files, durable_upto, on_record, is_dead, hole_end_at)
    recovery.read(from_position)
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
    ) -> None:
        self._segments = segments
        self._files = files
        self._on_record = on_record
        self._is_dead = is_dead
        self._hole_end_at = hole_end_at
        self.found = RecoveredLog(durable_mark=durable_upto)
        self._accepted: list[SegmentInfo] = []
        self._quarantined: list[tuple[int, bytes]] = []
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
        for segment in listed:
            if segment.next_position <= from_position:
                # Something follows, and was synced after it.
                segment.is_sealed = True
                segment.end = segment.position + max(0, (self._files.size_of(segment.path) or 0) - SEAL_BYTES)
                continue
            start = max(from_position, segment.position + SEGMENT_HEADER_BYTES)
            self._accepted.append(segment)
            self._ends_in = segment
            self._end_before = found.end
            found.end, self._is_sealed = self._read_segment(segment, start)
            segment.is_sealed = self._is_sealed
            segment.end = found.end
            if not self._is_sealed:
                if found.end >= found.durable_mark:
                    return
                # More of it was durable, and so is what follows.
                self._note_damage(found.end, segment.next_position - found.end, None, "the end is damaged")
        if found.durable_mark > found.next_position + SEGMENT_HEADER_BYTES:
            missing = found.durable_mark - found.next_position
            found.damages.append(
                Damage(found.next_position, missing, 0, 0, None, "segments are missing at the end", kept="")
            )

    def _read_segment(self, segment: SegmentInfo, position: int) -> tuple[int, bool]:
        """Where the records of a segment end, and whether a seal says so."""
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
            # It does not hold. Was it durable?
            if not self._was_durable(segment, position):
                return position, False
            if header is None:
                header, following = self._resync(segment, position)
                if header is None:
                    if following is None:
                        return position, False
                    self._note_damage(position, following - position, None, "header and trailer are lost")
                    position = following
                    continue
            if header.kind == KIND_SEAL:
                self._note_damage(position, SEAL_BYTES, header, "the seal's header is damaged")
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
        header = parse_header(data, 0, position=position, salt=segment.salt)
        if header is None or position + header.size > segment.next_position:
            return None
        return header

    def _holds(self, segment: SegmentInfo, position: int, header: RecordHeader) -> bool:
        """Whether every byte of a record is as it was written."""
        data = memoryview(self._bytes_at(segment, position, header.size))
        if len(data) < header.size:
            return False
        messages_at = HEADER_BYTES + header.table_bytes
        trailer_at = messages_at + header.messages_bytes
        return (
            crc32c(data[HEADER_BYTES:messages_at]) == header.table_crc
            and crc32c(data[messages_at:trailer_at]) == header.messages_crc
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
        """A record that was durable and is damaged, whose header is known: its good messages stay where they are."""
        data = self._bytes_at(segment, position, header.size).ljust(header.size, b"\0")
        try:
            record = decode_record(data, position=position, salt=segment.salt)
        except RecordLostError:
            # The header was found by other means than reading will have.
            self._note_damage(position, header.size, header, "header and trailer are lost")
            return
        if not self._is_dead(header):
            reason = "bodies are damaged" if record.damaged else "damaged beside the bodies"
            self._note_damage(position, header.size, header, reason, lost=len(record.damaged))
        self._accept(segment, position, header, record.dues())

    def _was_durable(self, segment: SegmentInfo, position: int) -> bool:
        """Whether `position` lies below the mark, as far as any record tells, those behind it included."""
        if position < self.found.durable_mark:
            return True
        later = [one for one in self._segments.list if one.position > segment.position]
        for one, start in [(segment, position + 1), *((one, one.position + SEGMENT_HEADER_BYTES) for one in later)]:
            for _, header in self._headers_from(one, start):
                if header.durable_upto > position:
                    self.found.durable_mark = max(self.found.durable_mark, header.durable_upto)
                    return True
        return False

    def _headers_from(self, segment: SegmentInfo, start: int) -> list[tuple[int, RecordHeader]]:
        """Places from `start` on where something stands that holds as a header, in this segment."""
        data = self._segments.read(start, segment.next_position - start)
        found: list[tuple[int, RecordHeader]] = []
        at = data.find(HEADER_MAGIC)
        while at >= 0:
            header = parse_header(data, at, position=start + at, salt=segment.salt)
            if header is not None:
                found.append((start + at, header))
            at = data.find(HEADER_MAGIC, at + 1)
        return found

    def _resync(self, segment: SegmentInfo, position: int) -> tuple[RecordHeader | None, int | None]:
        """For a lost header: the header as its trailer has it, or else the place of the next record."""
        data = self._segments.read(position, segment.next_position - position)
        at = data.find(TRAILER_MAGIC)
        while at >= 0:
            header = parse_trailer(data, at, position=position, salt=segment.salt)
            if header is not None and header.size == at + HEADER_BYTES:
                return header, position + header.size
            at = data.find(TRAILER_MAGIC, at + 1)
        following = self._headers_from(segment, position + 1)
        return None, following[0][0] if following else None

    def _note_damage(
        self, position: int, size: int, header: RecordHeader | None, reason: str, lost: int | None = None
    ) -> None:
        if header is None:
            damage = Damage(position, size, 0, 0, lost, reason)
        else:
            count = header.count if lost is None else lost
            damage = Damage(position, size, header.topic_number, header.first_offset, count, reason)
        self.found.damages.append(damage)
        self._quarantined.append((position, self._segments.read(position, size)))
        logger.error("log damaged position=%d size=%d topic=%d reason=%s", position, size, damage.topic_number, reason)

    # Repairing. All raise OSError.

    def repair(self) -> None:
        self._keep_damaged()
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
        is_empty = found.end == last.position + SEGMENT_HEADER_BYTES and not found.damages
        if is_empty and len(self._segments.list) > 1:
            # Nothing was ever in it: its place is free. The only one stays: that there is none is a loss to be told.
            self._segments.remove(last)
            found.end = self._end_before
            found.next_position = last.position
            return
        self._seal(last)
        last.is_sealed = True
        found.next_position = last.next_position

    def _keep_damaged(self) -> None:
        directory = os.path.join(os.path.dirname(self._segments.directory), QUARANTINE_NAME)
        for position, data in self._quarantined:
            try:
                self._files.make_directory(directory)
                self._files.replace(os.path.join(directory, f"{position:020d}.bin"), data)
            except OSError as exc:
                # A copy for people to look at: the segment itself keeps the bytes.
                logger.warning("damage not copied position=%d error=%s", position, exc)

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
            self._files.write_all(fd, seal, at)
            self._files.truncate(fd, at + len(seal))
            self._files.sync(fd)
        finally:
            self._files.close(fd)

    def _remove_unusable(self, beyond: int) -> None:
        """Files whose header does not hold: made when the process died, or damaged; the latter are kept aside."""
        for path in self._segments.damaged_paths:
            stem = os.path.basename(path).split(".")[0]
            if stem.isdigit() and int(stem) >= beyond and self._was_never_used(path):
                self._files.unlink(path)
            else:
                self._files.rename(path, path + ".bad")
                position = int(stem) if stem.isdigit() else 0
                self.found.damages.append(
                    Damage(position, 0, 0, 0, None, f"{path} has a damaged header", kept="the file is kept as .log.bad")
                )
        if self._segments.damaged_paths:
            self._segments.damaged_paths = []
            self._files.sync_directory(self._segments.directory)

    def _was_never_used(self, path: str) -> bool:
        """Whether there is nothing behind a segment's header: records come when that is on the disk."""
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
