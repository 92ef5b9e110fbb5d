"""Where a message's record is by the log itself, when the unit of the consume queue can't be believed.

A consume queue is derived: what it says wrongly costs a search, and no message.
"""

import logging
from typing import TYPE_CHECKING

from queue_engine.storage.holes import Holes
from queue_engine.storage.record import HEADER_BYTES, KIND_SEAL, RecordHeader, parse_header
from queue_engine.storage.segment import SEGMENT_HEADER_BYTES, LogSegments

if TYPE_CHECKING:
    from queue_engine.storage.log_topic_store import LogTopicStore

logger = logging.getLogger(__name__)

# Units looked at, before the one that can't be believed, for one that can.
UNITS_BACK_MAX = 3_000


def find_record(segments: LogSegments, holes: Holes, topic: "LogTopicStore", offset: int) -> tuple[int, int] | None:
    """Position and size of the topic's record that holds `offset`; None when the log has none, or when a record on
    the way can't be trusted. Raises StorageError when something can't be read.

    Reads the headers from the last record before it that a unit leads to, or else from the log's beginning.
    """
    if not segments.list:
        return None
    position = _trusted_before(segments, topic, offset)
    if position is None:
        position = segments.list[0].position + SEGMENT_HEADER_BYTES
    end = topic.visible_end
    while position < end:
        position = holes.end_at(position) or position
        segment = segments.segment_of(position)
        header = header_at(segments, position)
        if segment is None or header is None:
            return None
        if header.kind == KIND_SEAL:
            position = segment.next_position + SEGMENT_HEADER_BYTES
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
        header = None if place is None else header_at(segments, place[0])
        if place is None or header is None or header.topic_number != topic.number:
            continue
        if header.first_offset <= before < header.end_offset:
            return place[0]
    return None


def header_at(segments: LogSegments, position: int) -> RecordHeader | None:
    """The header of the record at `position`; None when none that holds is there. Raises StorageError."""
    segment = segments.segment_of(position)
    if segment is None:
        return None
    return parse_header(segments.read(position, HEADER_BYTES), 0, position=position, salt=segment.salt)
