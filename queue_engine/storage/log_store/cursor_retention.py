"""Limits how much of the log a pipeline cursor keeps: warns near the limit, and moves a cursor beyond it forward.

A cursor that its reader does not move would fill the disk. The log's own headers decide which offset it moves to, not
units of consume queues alone, which may be wrong; while these headers can't be read, nothing is given up.
"""

import logging
from collections.abc import Mapping

from queue_engine.storage.commit_log.log_size import LogSize
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.storage.readers.cursors import LOST, RETENTION, Cursor, Cursors
from queue_engine.vocabulary.errors import StorageError

logger = logging.getLogger(__name__)

# A cursor is warned of again after it was below this part of the limit.
CALM_PERCENT = 50
# The search for a place may read much of the log: where it fails, so many calls of `tick` pass before the next.
POSTPONED_TICKS = 60


class CursorRetention:
    """Looks after all cursors of one log. Belongs to the engine's thread. topics: by number."""

    def __init__(self, cursors: Cursors, topics: Mapping[int, LogTopicStore], size: LogSize) -> None:
        self._cursors = cursors
        self._topics = topics
        self._bytes_from = size.bytes_from
        self._warned: set[tuple[int, str]] = set()
        self._postponed: dict[tuple[int, str], int] = {}  # ticks until the next look

    def note_lost(self) -> None:
        """At a start: offsets that cursors need and the log has lost become a gap."""
        for cursor in self._cursors.all():
            topic = self._topics.get(cursor.topic_number)
            if topic is not None and cursor.offset < topic.oldest_offset:
                self._give_up(cursor, topic.oldest_offset, LOST)

    def tick(self) -> None:
        """Warn of cursors near the limit, and move those beyond it."""
        for cursor in self._cursors.all():
            topic = self._topics.get(cursor.topic_number)
            if topic is None or not self._cursors.limit_of(cursor):
                continue
            lag_bytes = topic.cursor_lag_bytes(cursor)
            self._warn(cursor, lag_bytes)
            if lag_bytes <= self._cursors.limit_of(cursor) or self._is_postponed(cursor):
                continue
            try:
                next_offset = self._fitting_offset(cursor, topic)
            except StorageError as exc:
                next_offset = None
                self._postpone(cursor, str(exc))
            if next_offset is not None:
                self._give_up(cursor, next_offset, RETENTION)

    def _warn(self, cursor: Cursor, lag_bytes: int) -> None:
        key = (cursor.topic_number, cursor.name)
        limit_bytes = self._cursors.limit_of(cursor)
        if self._cursors.is_warned(cursor, lag_bytes):
            if key not in self._warned:
                self._warned.add(key)
                logger.warning(
                    "cursor keeps much of the log topic=%s cursor=%s bytes=%d limit=%d: move it, delete it, or raise "
                    "--pipeline-retention-bytes",
                    cursor.topic,
                    cursor.name,
                    lag_bytes,
                    limit_bytes,
                )
        elif lag_bytes * 100 < limit_bytes * CALM_PERCENT:
            self._warned.discard(key)

    def _fitting_offset(self, cursor: Cursor, topic: LogTopicStore) -> int | None:
        """The first offset whose record, and all of the log behind it, is within the limit; None when the cursor is,
        or when that offset can't be found. The log confirms every place on the way. Raises StorageError."""
        limit_bytes = self._cursors.limit_of(cursor)
        first = topic.next_present(cursor.offset)
        record = None if first is None else topic.confirmed_record(first)
        if record is None:
            self._postpone(cursor, f"the record of offset {first} is not found")
            return None
        if self._bytes_from(record[0]) <= limit_bytes:
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
                self._postpone(cursor, f"the record of offset {present} is not found")
                return None
            position, header = record
            if self._bytes_from(position) <= limit_bytes:
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

    def _postpone(self, cursor: Cursor, why: str) -> None:
        self._postponed[cursor.topic_number, cursor.name] = POSTPONED_TICKS
        logger.error("cursor beyond its limit not moved topic=%s cursor=%s why=%s", cursor.topic, cursor.name, why)

    def _is_postponed(self, cursor: Cursor) -> bool:
        key = (cursor.topic_number, cursor.name)
        left = self._postponed.pop(key, 1) - 1
        if left:
            self._postponed[key] = left
        return left > 0
