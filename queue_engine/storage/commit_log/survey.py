"""Finds the numbers of the topics whose messages the log holds, before a start relies on topology.json.

Reads from one record's header to the next, without the bodies. Behind a damaged header it goes on at the next record
whose header or trailer holds. Changes nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

from queue_engine.storage.commit_log.checkpoint import Checkpoint
from queue_engine.storage.commit_log.record import HEADER_BYTES, KIND_SEAL, RecordHeader
from queue_engine.storage.commit_log.record_scan import expected_header, records_from
from queue_engine.storage.commit_log.segment import LogSegments, SegmentInfo
from queue_engine.vocabulary.errors import NewerFormatError, StorageError

_READ_BYTES = 256 << 10


@dataclass(slots=True)
class SurveyedTopic:
    """The messages in the log of one topic number. bytes: of its records, 0 when only the checkpoint names it."""

    number: int
    first_offset: int
    next_offset: int
    messages: int
    bytes: int

    def sentence(self) -> str:
        size = f", {self.bytes} bytes" if self.bytes else ""
        return (
            f"number {self.number}: {self.messages} messages, offsets {self.first_offset} to "
            f"{self.next_offset - 1}{size}"
        )


def survey_log(segments: LogSegments, checkpoint: Checkpoint | None) -> dict[int, SurveyedTopic]:
    """Every topic number that the log holds messages of. segments: loaded. checkpoint: the log is read from its
    position on; None: all of it. A segment that can't be read is skipped: the start that follows stops at it, or does
    not need it. Raises NewerFormatError."""
    found: dict[int, SurveyedTopic] = {}
    if checkpoint is not None:
        for number, state in checkpoint.queues.items():
            count = state.end_offset - state.oldest_offset - sum(count for _, count in state.gaps)
            if count > 0:
                found[number] = SurveyedTopic(number, state.oldest_offset, state.end_offset, count, 0)
    start = checkpoint.position if checkpoint is not None else 0
    for segment in segments.list:
        if segment.next_position > start:
            try:
                _Survey(segments, segment, found).read(max(start, segment.start))
            except NewerFormatError:
                raise
            except StorageError:
                continue
    return found


class _Survey:
    """Reads the record headers of one segment."""

    def __init__(self, segments: LogSegments, segment: SegmentInfo, found: dict[int, SurveyedTopic]) -> None:
        self._segments = segments
        self._segment = segment
        self._found = found
        self._chunk = b""
        self._chunk_at = 0

    def read(self, position: int) -> None:
        while True:
            header = self._header_at(position)
            if header is None:
                following = next(records_from(self._segments, self._segment, position), None)
                if following is None:
                    return
                position, header = following
            if header.kind == KIND_SEAL:
                return
            self._note(header)
            position += header.size

    def _note(self, header: RecordHeader) -> None:
        topic = self._found.get(header.topic_number)
        if topic is None:
            topic = self._found[header.topic_number] = SurveyedTopic(
                header.topic_number, header.first_offset, header.first_offset, 0, 0
            )
        if header.end_offset > topic.next_offset:
            topic.next_offset = header.end_offset
            topic.messages += header.count
        topic.first_offset = min(topic.first_offset, header.first_offset)
        topic.bytes += header.size

    def _header_at(self, position: int) -> RecordHeader | None:
        if position + HEADER_BYTES > self._segment.next_position:
            return None
        at = position - self._chunk_at
        if not 0 <= at <= len(self._chunk) - HEADER_BYTES:
            self._chunk = self._segments.read(position, _READ_BYTES)
            self._chunk_at, at = position, 0
        header = expected_header(self._segment, self._chunk, at, position)
        if header is None or position + header.size > self._segment.next_position:
            return None
        return header


IsListed = Callable[[int], bool]


def unlisted_topics(segments: LogSegments, checkpoint: Checkpoint | None, is_listed: IsListed) -> list[SurveyedTopic]:
    """The topics in the log whose number is not listed, by number. Raises as `survey_log`."""
    unlisted = [topic for topic in survey_log(segments, checkpoint).values() if not is_listed(topic.number)]
    if unlisted and checkpoint is not None:
        # The whole log is read for their sizes: the checkpoint has none.
        unlisted = [topic for topic in survey_log(segments, None).values() if not is_listed(topic.number)] or unlisted
    return sorted(unlisted, key=lambda topic: topic.number)
