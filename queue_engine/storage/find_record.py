"""Where a message's record is by the log itself, when the unit of the consume queue can't be believed.

A consume queue is derived: what it says wrongly costs a search, and no message.
"""

import logging
from typing import TYPE_CHECKING

from queue_engine.storage.holes import Holes
from queue_engine.storage.record import HEADER_BYTES, KIND_SEAL, RecordHeader, parse_header, parse_trailer
from queue_engine.storage.record_scan import records_from
from queue_engine.storage.segment import LogSegments

if TYPE_CHECKING:
    from queue_engine.storage.log_topic_store import LogTopicStore

logger = logging.getLogger(__name__)

# Records looked at behind one that can't be trusted: what was asked for may have been there, and nowhere else.
RECORDS_BEHIND_MAX = 3_000
# Units looked at, before the one that can't be believed, for one that can.
UNITS_BACK_MAX = 3_000


def find_record(segments: LogSegments, holes: Holes, topic: "LogTopicStore", offset: int) -> tuple[int, int] | None:
    """Position and size of the topic's record that holds `offset`; None when the log has none that can be trusted.
    Raises StorageError when something can't be read.

    Reads the headers from the last record before it that a unit leads to, or else from the log's beginning; a record
    that can't be trusted on the way is passed over, and not many behind it are looked at.
    """
    if not segments.list:
        return None
    position = _trusted_before(segments, topic, offset)
    if position is None:
        position = segments.list[0].start
    end = topic.visible_end
    left: int | None = None
    while position < end and left != 0:
        left = left - 1 if left else left
        position = holes.end_at(position) or position
        segment = segments.segment_of(position)
        header = header_at(segments, position)
        if segment is not None and header is None:
            left = left or RECORDS_BEHIND_MAX
            position, header = next(records_from(segments, segment, position), (position, None))
            if position >= end:
                return None
        if segment is None or header is None or header.kind == KIND_SEAL:
            following = segments.first_behind(position)
            if following is None:
                return None
            position = following.start
            continue
        if header.topic_number == topic.number:
            if header.first_offset <= offset < header.end_offset:
                logger.warning("consume queue is wrong topic=%s offset=%d position=%d", topic.name, offset, position)
                return position, header.size
            if header.first_offset > offset:
                return None
        position += header.size
    return None


def _trusted_before(segments: LogSegments, topic: "LogTopicStore", offset: int) -> int | None:
    """The position of the nearest record before that of `offset`, or of its own, by a unit that the log confirms."""
    for before in range(offset - 1, max(topic.oldest_offset, offset - UNITS_BACK_MAX) - 1, -1):
        place = topic.queue.locate(before)
        header = None if place is None else header_at(segments, *place)
        if place is None or header is None or header.topic_number != topic.number:
            continue
        if header.first_offset <= before < header.end_offset:
            return place[0]
    return None


def header_at(segments: LogSegments, position: int, size: int = 0) -> RecordHeader | None:
    """The header of the record at `position`, or its trailer's word where its size is given; None when none that holds
    is there. Raises StorageError."""
    segment = segments.segment_of(position)
    if segment is None:
        return None
    header = parse_header(segments.read(position, HEADER_BYTES), 0, position=position, salt=segment.salt)
    if header is None and size > HEADER_BYTES and segments.segment_of(position + size - 1) is segment:
        trailer = segments.read(position + size - HEADER_BYTES, HEADER_BYTES)
        header = parse_trailer(trailer, 0, position=position, salt=segment.salt)
    return header
