"""Ranges of the log below the checkpoint that no file holds, found by names and sizes of files alone."""

from queue_engine.storage.commit_log.checkpoint import Checkpoint
from queue_engine.storage.commit_log.record import HEADER_BYTES, KIND_SEAL, SEAL_BYTES, parse_trailer
from queue_engine.storage.commit_log.segment import LogSegments, SegmentInfo
from queue_engine.storage.disk.files import Files

# A file may end in zeros that were written ahead of its records.
_STEP_BYTES = 64 << 10


def missing_ranges(segments: LogSegments, checkpoint: Checkpoint, files: Files) -> list[tuple[int, int]]:
    """Ranges between the log's beginning and the checkpoint that no file holds, or that are cut off at a file's end.
    The consume queues list the messages in them. Raises OSError and StorageError."""
    ranges: list[tuple[int, int]] = []
    at = checkpoint.first_position
    for segment in segments.list:
        if segment.position >= checkpoint.position:
            break
        if at is not None and at < segment.position:
            ranges.append((at, segment.position))
        at = segment.next_position
        if segment.next_position <= checkpoint.position:
            end = segment.position + _whole_bytes(segments, segment, files)
            if end < segment.next_position:
                ranges.append((end, segment.next_position))
        else:
            end = segment.position + (files.size_of(segment.path) or 0)
            if end < checkpoint.position:
                ranges.append((end, checkpoint.position))
    if at is not None and at < checkpoint.position:
        ranges.append((at, checkpoint.position))
    return ranges


def _whole_bytes(segments: LogSegments, segment: SegmentInfo, files: Files) -> int:
    """How many bytes of a complete segment are there for certain: all when its file ends with the seal or has full
    size."""
    size = min(files.size_of(segment.path) or 0, segment.segment_bytes)
    if size == segment.segment_bytes or _has_seal(segments, segment, size):
        return segment.segment_bytes
    end = size
    while end > segment.head_bytes:
        start = max(segment.head_bytes, end - _STEP_BYTES)
        used = len(segments.read(segment.position + start, end - start).rstrip(b"\0"))
        if used:
            end = start + used
            # The seal's own last bytes may be zeros.
            is_sealed = any(_has_seal(segments, segment, end + more) for more in range(5))
            return segment.segment_bytes if is_sealed else size
        end = start
    return size


def _has_seal(segments: LogSegments, segment: SegmentInfo, end: int) -> bool:
    """Whether a seal ends at byte `end` of a segment's file."""
    at = segment.position + end
    if end < segment.head_bytes + SEAL_BYTES:
        return False
    data = segments.read(at - HEADER_BYTES, HEADER_BYTES)
    seal = parse_trailer(data, 0, position=at - SEAL_BYTES, salt=segment.salt)
    return seal is not None and seal.kind == KIND_SEAL
