"""Reads the unreadable part of a consume queue's file again, from the log's headers.

A consume queue is derived: an unreadable place of the disk costs a search, and no message.
"""

from collections.abc import Iterator, Sequence

from queue_engine.commit_log.holes import Holes
from queue_engine.commit_log.record import HAS_DUE
from queue_engine.commit_log.segment import LogSegments
from queue_engine.consume_queue.find_record import headers_between

Reference = tuple[int, int, int, int, Sequence[int] | None]
"""First offset, count, position and size of a record, and the due times of its messages (Unix ns) or None."""


def references_between(
    segments: LogSegments, holes: Holes, topic_number: int, places: tuple[int, int], first: int, end: int
) -> Iterator[Reference]:
    """The topic's records with offsets from `first` up to but not including `end`, ascending.

    places: where in the log to begin, at a record or a segment's start, and where it ends. Raises StorageError.
    """
    for position, header in headers_between(segments, holes, *places):
        if header.topic_number == topic_number:
            if header.first_offset >= end:
                return
            if header.end_offset > first:
                dues = segments.read_record(position, header.size).dues() if header.flags & HAS_DUE else None
                yield header.first_offset, header.count, position, header.size, dues
