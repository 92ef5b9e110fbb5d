"""Finds records by the log itself, when a unit of the consume queue is wrong or part of its file can't be read.

A consume queue is derived: a wrong unit, or an unreadable place of the disk, costs a search, and no message.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from queue_engine.storage.commit_log.holes import Holes
from queue_engine.storage.commit_log.record import (
    HAS_DUE,
    HEADER_BYTES,
    KIND_SEAL,
    RecordHeader,
    parse_header,
    parse_trailer,
)
from queue_engine.storage.commit_log.record_scan import records_from
from queue_engine.storage.commit_log.segment import LogSegments
from queue_engine.storage.consume_queue.consume_queue import ConsumeQueue

logger = logging.getLogger(__name__)

# So many units before and behind the wrong one are tried, for one that the log confirms.
UNITS_MAX = 3_000

Reference = tuple[int, int, int, int, Sequence[int] | None]
"""First offset, count, position and size of a record, and the due times of its messages (Unix ns) or None."""


class SoughtTopic(Protocol):
    """The topic, as far as the search reads it. visible_end: where the visible part of the log ends."""

    @property
    def name(self) -> str: ...

    @property
    def number(self) -> int: ...

    @property
    def queue(self) -> ConsumeQueue: ...

    @property
    def visible_end(self) -> int: ...


def find_record(segments: LogSegments, holes: Holes, topic: SoughtTopic, offset: int) -> tuple[int, int] | None:
    """Position and size of the topic's record that holds `offset`; None when the log has no valid one.
    Raises StorageError when something can't be read.

    Reads the headers from the last confirmed record before it, or else from the log's beginning, to the next
    confirmed one behind it, or else to the log's end. Damaged records on the way are passed over.
    """
    if not segments.list:
        return None
    before = range(offset - 1, max(topic.queue.oldest_offset, offset - UNITS_MAX) - 1, -1)
    behind = range(offset + 1, min(topic.queue.end_offset, offset + UNITS_MAX))
    first, last = _trusted(segments, topic, before), _trusted(segments, topic, behind)
    start = segments.list[0].start if first is None else first
    end = topic.visible_end if last is None else last + 1
    for position, header in headers_between(segments, holes, start, end):
        if header.topic_number != topic.number:
            continue
        if header.first_offset <= offset < header.end_offset:
            logger.warning("consume queue is wrong topic=%s offset=%d position=%d", topic.name, offset, position)
            return position, header.size
        if header.first_offset > offset:
            return None
    return None


def _trusted(segments: LogSegments, topic: SoughtTopic, offsets: Iterable[int]) -> int | None:
    """The position of the record of the first of these offsets whose unit the log confirms."""
    for offset in offsets:
        place = topic.queue.locate(offset)
        header = None if place is None else header_at(segments, *place)
        if place is None or header is None or header.topic_number != topic.number:
            continue
        if header.first_offset <= offset < header.end_offset:
            return place[0]
    return None


def headers_between(segments: LogSegments, holes: Holes, position: int, end: int) -> Iterator[tuple[int, RecordHeader]]:
    """The records of all topics that begin before `end`, each with its position; damaged ones are passed over.

    position: a record's, or a segment's start. Raises StorageError when something can't be read.
    """
    while position < end:
        position = holes.end_at(position) or position
        segment = segments.segment_of(position)
        header = header_at(segments, position)
        if segment is not None and header is None:
            # Damaged, or the segment's end: go on with the next valid one.
            position, header = next(records_from(segments, segment, position), (position, None))
        if segment is None or header is None or header.kind == KIND_SEAL:
            following = segments.first_behind(position)
            if following is None:
                return
            position = following.start
        elif position < end:
            yield position, header
            position += header.size


def header_at(segments: LogSegments, position: int, size: int = 0) -> RecordHeader | None:
    """The header of the record at `position`, from its trailer where the header is damaged and the size is given; None
    when neither is valid. Raises StorageError."""
    segment = segments.segment_of(position)
    if segment is None:
        return None
    header = parse_header(segments.read(position, HEADER_BYTES), 0, position=position, salt=segment.salt)
    if header is None and size > HEADER_BYTES and segments.segment_of(position + size - 1) is segment:
        trailer = segments.read(position + size - HEADER_BYTES, HEADER_BYTES)
        header = parse_trailer(trailer, 0, position=position, salt=segment.salt)
    return header


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
