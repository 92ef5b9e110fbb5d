"""What a pipeline cursor may keep of the log: a warning near the limit, and beyond it the cursor is moved on.

A cursor that its reader does not move would fill the disk. The log's own headers say which offset it is moved to, not
units of consume queues alone, which may be wrong; while these headers can't be read, nothing is given up.
"""

import logging
from collections.abc import Mapping

from queue_engine.commit_log.log_size import LogSize
from queue_engine.log_store.log_topic_store import LogTopicStore
from queue_engine.readers.cursors import LOST, RETENTION, Cursor, Cursors
from queue_engine.vocabulary.errors import StorageError

logger = logging.getLogger(__name__)

# A warning is said again once the cursor was back below this.
CALM_PERCENT = 50
# Where a place can't be told, looking for it may read much of the log: so many calls of `tick` pass between two looks.
UNTOLD_TICKS = 60


class CursorRetention:
    """Looks after all cursors of one log. Belongs to the engine's thread. topics: by number."""

    def __init__(self, cursors: Cursors, topics: Mapping[int, LogTopicStore], size: LogSize) -> None:
        self._cursors = cursors
        self._topics = topics
        self._bytes_from = size.bytes_from
        self._warned: set[tuple[int, str]] = set()
        self._untold: dict[tuple[int, str], int] = {}  # ticks until the next look

    def note_lost(self) -> None:
        """At a start: what cursors need and the log does not have any more becomes a gap."""
        for cursor in self._cursors.all():
            topic = self._topics.get(cursor.topic_number)
            if topic is not None and cursor.offset < topic.oldest_offset:
                self._give_up(cursor, topic.oldest_offset, LOST)

    def tick(self) -> None:
        """Warn and give up where it is due."""
        if not self._cursors.limit_bytes:
            return
        for cursor in self._cursors.all():
            topic = self._topics.get(cursor.topic_number)
            if topic is None:
                continue
            lag_bytes = topic.cursor_lag_bytes(cursor)
            self._warn(cursor, lag_bytes)
            if lag_bytes <= self._cursors.limit_bytes or self._is_put_off(cursor):
                continue
            try:
                next_offset = self._fitting_offset(cursor, topic)
            except StorageError as exc:
                next_offset = None
                self._tell_unknown(cursor, str(exc))
            if next_offset is not None:
                self._give_up(cursor, next_offset, RETENTION)

    def _warn(self, cursor: Cursor, lag_bytes: int) -> None:
        key = (cursor.topic_number, cursor.name)
        if self._cursors.is_warned(lag_bytes):
            if key not in self._warned:
                self._warned.add(key)
                logger.warning(
                    "cursor keeps much of the log topic=%s cursor=%s bytes=%d limit=%d: move it, delete it, or raise "
                    "--pipeline-retention-bytes",
                    cursor.topic,
                    cursor.name,
                    lag_bytes,
                    self._cursors.limit_bytes,
                )
        elif lag_bytes * 100 < self._cursors.limit_bytes * CALM_PERCENT:
            self._warned.discard(key)

    def _fitting_offset(self, cursor: Cursor, topic: LogTopicStore) -> int | None:
        """The first offset whose record, and all of the log behind it, is within the limit; None when the cursor is,
        or when it can't be told. Every place on the way is confirmed by the log. Raises StorageError."""
        first = topic.next_present(cursor.offset)
        record = None if first is None else topic.confirmed_record(first)
        if record is None:
            self._tell_unknown(cursor, f"the record of offset {first} is not found")
            return None
        if self._bytes_from(record[0]) <= self._cursors.limit_bytes:
            return None  # a unit was wrong
        low, high = record[1].end_offset, topic.end_offset
        while low < high:
            middle = (low + high) // 2
            present = topic.next_present(middle)
            if present is None or present >= high:
                high = middle
                continue
            record = topic.confirmed_record(present)
            if record is None:
                self._tell_unknown(cursor, f"the record of offset {present} is not found")
                return None
            position, header = record
            if self._bytes_from(position) <= self._cursors.limit_bytes:
                high = min(middle, header.first_offset)
            else:
                low = header.end_offset
        return low

    def _give_up(self, cursor: Cursor, next_offset: int, reason: str) -> None:
        self._cursors.give_up(cursor, next_offset, reason)
        logger.error(
            "cursor gave up messages topic=%s cursor=%s first_offset=%d next_offset=%d reason=%s",
            cursor.topic,
            cursor.name,
            cursor.offset,
            next_offset,
            reason,
        )

    def _tell_unknown(self, cursor: Cursor, why: str) -> None:
        self._untold[cursor.topic_number, cursor.name] = UNTOLD_TICKS
        logger.error("cursor beyond its limit not moved topic=%s cursor=%s why=%s", cursor.topic, cursor.name, why)

    def _is_put_off(self, cursor: Cursor) -> bool:
        key = (cursor.topic_number, cursor.name)
        left = self._untold.pop(key, 1) - 1
        if left:
            self._untold[key] = left
        return left > 0
