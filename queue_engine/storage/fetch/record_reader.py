"""Reads a `log` topic's records as the log has them, whole and unchecked, for readers that decode them themselves.

The answer is a row of records in offset order, drawn in `wire/records.py`. Only a record's header is parsed: it has the
record's topic number and the offset that follows.
"""

from dataclasses import dataclass

from queue_engine.storage.commit_log.record import HEADER_BYTES, RecordHeader, parse_header, parse_trailer
from queue_engine.storage.commit_log.segment import SegmentInfo
from queue_engine.storage.consume_queue.find_record import find_record
from queue_engine.storage.fetch.log_reader import LogReader
from queue_engine.storage.log_store.log_topic import LogTopic
from queue_engine.wire.records import RECORD_PLACE

# Finding so many records is the longest time that one answer occupies the engine.
RECORDS_MAX = 1_000
# Read at once: more while most of it is wanted, less while other topics' records lie between.
_WINDOW_BYTES_MIN = 4 << 10
_WINDOW_BYTES_FIRST = 64 << 10
_WINDOW_BYTES_MAX = 1 << 20
# A read of its own costs as much as so many bytes more in one.
_READ_COST_BYTES = 16 << 10


@dataclass(frozen=True, slots=True)
class Records:
    """Whole records of a topic, see above. first_offset: where was read from; the first record may begin before it.
    next_offset: where to go on. message_count: of the messages between the two. synced_offset: the end of the synced
    part, beyond which nothing is handed out. count: of the records."""

    topic_number: int
    id_base: int
    oldest_offset: int
    first_offset: int
    next_offset: int
    message_count: int
    synced_offset: int
    count: int
    records: bytes


class RecordReader:
    """Reads one topic. Raises StorageError when the disk refuses."""

    def __init__(self, topic: LogTopic) -> None:
        self._topic = topic
        self._segments = topic.segments
        self._segment: SegmentInfo | None = None  # the last that was read
        self._window = b""  # bytes of it
        self._window_at = 0
        self._window_bytes = _WINDOW_BYTES_FIRST
        self._worth_bytes = 0

    def read(self, offset: int, bytes_max: int) -> Records:
        """Synced records from the one with `offset` on: at most `bytes_max` bytes, but at least one if any. Lost
        records are left out."""
        topic = self._topic
        synced_end = topic.synced_position
        locate, next_present = topic.queue.locate, topic.queue.next_present
        parts: list[bytes] = []
        count = size = 0
        first = at = max(offset, topic.oldest_offset)
        while count < RECORDS_MAX:
            present = next_present(at)
            if present is None:
                at = max(at, topic.end_offset)
                break
            at = present
            place = locate(present)
            # Whether it is synced follows from its header, since a damaged unit may point anywhere.
            found = None if place is None else self._header_at(present, *place)
            if found is None:
                found = self._searched(present, place)
            if found is None:
                at = topic.lost_until(present)
                continue
            position, segment, header = found
            record_bytes = header.size
            if position + record_bytes > synced_end:
                break
            size += RECORD_PLACE.size + record_bytes
            if size > bytes_max and parts:
                break
            parts.append(RECORD_PLACE.pack(position, segment.salt, record_bytes))
            start = self._load(segment, position, record_bytes)
            parts.append(self._window[start : start + record_bytes].ljust(record_bytes, b"\0"))
            self._worth_bytes += max(4 * record_bytes, _READ_COST_BYTES)
            count += 1
            at = header.end_offset
        synced = LogReader(topic).synced_offset(synced_end)
        messages = topic.queue.count_between(first, at)
        identity = (topic.number, topic.id_base)
        return Records(*identity, topic.oldest_offset, first, at, messages, synced, count, b"".join(parts))

    def _header_at(self, offset: int, position: int, size: int) -> tuple[int, SegmentInfo, RecordHeader] | None:
        """The record that a unit leads to; None when it is not the one that holds `offset`."""
        segment = self._segment
        if segment is None or not segment.position <= position < segment.next_position:
            segment = self._segment = self._segments.segment_of(position)
        if segment is None or position + size > segment.next_position:
            return None
        start = self._load(segment, position, size)
        header = parse_header(self._window, start, position=position, salt=segment.salt)
        if header is None:
            header = parse_trailer(self._window, start + size - HEADER_BYTES, position=position, salt=segment.salt)
        if header is None or header.topic_number != self._topic.number:
            return None
        return (position, segment, header) if header.first_offset <= offset < header.end_offset else None

    def _searched(self, offset: int, place: tuple[int, int] | None) -> tuple[int, SegmentInfo, RecordHeader] | None:
        """The same by searching the segments, when the unit is wrong."""
        found = find_record(self._segments, self._topic.holes, self._topic, offset)
        return None if found is None or found == place else self._header_at(offset, *found)

    def _load(self, segment: SegmentInfo, position: int, size: int) -> int:
        """Where in the window these bytes of a segment begin; fewer are there at the end of its file."""
        at = position - self._window_at
        if 0 <= at <= len(self._window) - size:
            return at
        if self._window:
            grows = self._worth_bytes > len(self._window)
            wanted = self._window_bytes * 2 if grows else self._window_bytes // 2
            self._window_bytes = min(max(wanted, _WINDOW_BYTES_MIN), _WINDOW_BYTES_MAX)
        room = segment.next_position - position
        self._window = self._segments.read(position, min(room, max(size, self._window_bytes)))
        self._window_at = position
        self._worth_bytes = 0
        return 0
