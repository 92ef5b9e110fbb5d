"""Finds records behind a damaged one: by the next header or the next trailer that holds, whichever comes first."""

from collections.abc import Iterator
from mmap import mmap

from queue_engine.storage.commit_log.record import (
    HEADER_BYTES,
    HEADER_MAGIC,
    TRAILER_MAGIC,
    RecordHeader,
    parse_header,
    parse_trailer,
    start_by_trailer,
)
from queue_engine.storage.commit_log.segment import LogSegments, SegmentInfo
from queue_engine.vocabulary.errors import NewerFormatError

# Bytes read at once: a segment may be larger than memory should hold.
WINDOW_BYTES = 4 << 20


def expected_header(segment: SegmentInfo, data: bytes, at: int, position: int) -> RecordHeader | None:
    """The header at byte `at` of `data`, where a record of a segment is to begin; None when it can't be trusted.
    position: of the record in the log. Raises NewerFormatError with the file's name."""
    try:
        return parse_header(data, at, position=position, salt=segment.salt)
    except NewerFormatError as exc:
        raise NewerFormatError(f"{segment.path}: {exc.part}", exc.version, exc.newest) from exc


def next_record(data: bytes | mmap, at: int, *, position: int, salt: int) -> tuple[int, RecordHeader] | None:
    """The first record from byte `at` of `data` on whose header or trailer holds: where it begins, and its header.
    position: of the first byte of `data` in the log."""
    return next(_records(data, at, at, position, salt), None)


def records_from(segments: LogSegments, segment: SegmentInfo, position: int) -> Iterator[tuple[int, RecordHeader]]:
    """Every record of a segment from `position` of the log on whose header or trailer holds, once by each of the two:
    its position and its header. Reads as the caller goes on. Raises StorageError."""
    at = position
    while at < segment.next_position:
        window = segments.read(at, min(WINDOW_BYTES, segment.next_position - at))
        for start, header in _records(window, 0, position - at, at, segment.salt):
            yield at + start, header
        if len(window) < HEADER_BYTES:
            return
        # The next window begins with the last bytes of this one: a header may begin in them.
        at += len(window) - HEADER_BYTES + 1


def _records(
    data: bytes | mmap, at: int, start_min: int, position: int, salt: int
) -> Iterator[tuple[int, RecordHeader]]:
    """Records by each header and trailer from byte `at` on; none that begins before byte `start_min`."""
    head_at, trail_at = data.find(HEADER_MAGIC, at), data.find(TRAILER_MAGIC, at)
    while head_at >= 0 or trail_at >= 0:
        header: RecordHeader | None = None
        is_head = trail_at < 0 or 0 <= head_at < trail_at
        start = head_at if is_head else start_by_trailer(data, trail_at)
        # An unknown version is refused only where a record is expected: here it may be bytes of a message's body.
        try:
            if is_head:
                header = parse_header(data, head_at, position=position + head_at, salt=salt)
            elif start is not None and start >= start_min:
                header = parse_trailer(data, trail_at, position=position + start, salt=salt)
        except NewerFormatError:
            pass
        if header is not None and start is not None:
            yield start, header
        if is_head:
            head_at = data.find(HEADER_MAGIC, head_at + 1)
        else:
            trail_at = data.find(TRAILER_MAGIC, trail_at + 1)
