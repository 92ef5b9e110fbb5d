"""Leases: whole segments for a reader on this machine; the log keeps them until the lease expires.

The reader opens the files itself, reads records of the topic's number (`record.py` checks them), and renews or moves
its lease. `LogReader.frames` reads the messages that are not in a complete segment yet.
"""

from dataclasses import dataclass

from queue_engine.storage.log_store.log_topic import LogTopic
from queue_engine.storage.readers.reader_registry import Reader
from queue_engine.wire.lease import SegmentFile


@dataclass(frozen=True, slots=True)
class Lease:
    """The leased segments, their topic (its identity: number and id base), and where they are. next_offset: behind the
    last segment; equal to first_offset when nothing is in a complete segment yet. message_count: of the messages
    between."""

    reader: Reader
    topic: str
    id_base: int
    oldest_offset: int
    first_offset: int
    next_offset: int
    message_count: int
    end_offset: int
    segments: tuple[SegmentFile, ...]


def leased_segments(topic: LogTopic, offset: int, count_max: int) -> list[SegmentFile]:
    """The complete segments with messages of the topic from `offset` on, at most so many, in order and without a
    hole between them. Raises StorageError."""
    found: list[SegmentFile] = []
    at = offset
    while len(found) < count_max:
        present = topic.next_present(at)
        place = None if present is None else topic.queue.locate(present)
        if present is None or place is None:
            break
        segment = topic.sealed_segment_of(place[0])
        if segment is None:
            break
        next_offset = topic.queue.first_offset_at(segment.next_position, present, topic.end_offset)
        end = _end_of_last(topic, present, next_offset)
        start = segment.position
        found.append(
            SegmentFile(segment.path, start, segment.salt, place[0] - start, end - start, present, next_offset)
        )
        at = next_offset
    return found


def _end_of_last(topic: LogTopic, first: int, next_offset: int) -> int:
    """The position behind the record of the last message of [first, next_offset), of which the first is there."""
    low, high = first, next_offset
    # The last offset may be in a gap: go on from the last that is not.
    while high - low > 1:
        middle = (low + high) // 2
        present = topic.next_present(middle)
        if present is not None and present < next_offset:
            low = present
        else:
            high = middle
    place = topic.queue.locate(low)
    assert place is not None, low
    return place[0] + place[1]
