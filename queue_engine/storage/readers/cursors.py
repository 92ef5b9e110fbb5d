"""Pipeline cursors: readers that come back, such as the archive. The log keeps the messages that they have not passed.

    log/cursors.json
    {"version": 2,
     "cursors": [{"topic": "orders", "number": 7, "id_base": 912…, "cursor": "archive", "offset": 1200,
                  "created_ms": 1800000000000, "gaps": [GAP, …], "lake": "0b7f…",
                  "maker": "token copier", "expires_ms": 1800600000000}, …],
     "ended": [{…as above, "next_offset": 1400 or null, "reason": "deleted", "at_ms": 1800000000000}, …]} LF
    CRC-32C of the line before, without its LF, as 8 hex digits LF

    GAP: {"first_offset": 300, "next_offset": 900, "reason": "retention", "at_ms": 1800000000000}

`number` and `id_base` are the topic's identity; times are Unix milliseconds. A gap is a range of offsets that was given
up: the log let them go, from `first_offset` up to but not including `next_offset`, before the reader passed them.
`lake` is the identity of the lake that the reader writes to, "" for any: the first move that names one decides, and
moves that name another are refused. Version 1 had no `lake`. `maker` and `expires_ms` are left out where the cursor has
none; a version that does not know them drops them, and then the cursor never expires and needs `administer`. `ended`
lists deleted and expired cursors, the oldest first: each gave up the offsets from its `offset` to `next_offset` (null:
the topic's end is unknown). To change the format: raise
`VERSION`, go on reading older versions, and add a file of the new one to the fixtures.

`reader_registry.py` says how the file is replaced; an act that the disk refuses is undone. The file records a topic's
deletion after topology.json does; where the process ends in between, the next start ends the cursors. (Up to 897736b
this file was written first: where topology.json was not, the next start brings the cursors back.)
"""

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from queue_engine.storage.disk.background import Background
from queue_engine.storage.disk.checked_line import decode_versioned, encode_line
from queue_engine.storage.disk.files import Files
from queue_engine.storage.readers.reader_registry import ANY_MAKER, NEVER_MS, Maker, Reader, ReaderRegistry
from queue_engine.vocabulary.clock import NS_PER_MS, Clock
from queue_engine.vocabulary.errors import LimitError
from queue_engine.vocabulary.ticket import Ticket

CURSORS_NAME = "cursors.json"
VERSION = 2
CURSORS_MAX = 10_000
# The file keeps so many gaps of each cursor, and so many ended cursors: the newest.
GAPS_MAX = 100
ENDED_MAX = 1_000
# A cursor that keeps so much of its limit is warned of.
WARN_PERCENT = 80
# Limits of cursors that a token made which may only consume, since they hold the log: how many it has, how much of the
# log each keeps, and how long one lasts that is not moved. A reader that is down for a weekend finds its cursor.
CONSUMER_CURSORS_MAX = 20
CONSUMER_CURSOR_BYTES = 1 << 30
CONSUMER_CURSOR_MS = 7 * 86_400_000

# Why messages were given up.
RETENTION = "retention"
LOST = "lost"
DELETED = "deleted"
TOPIC_DELETED = "topic deleted"
EXPIRED = "expired"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CursorGap:
    """Messages from `first_offset` up to but not including `next_offset` were given up at `at_ms` (Unix)."""

    first_offset: int
    next_offset: int
    reason: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor(Reader):
    """A reader that has passed everything before `offset`. It expires only where a token made it that may only consume,
    unless it is moved. The topic's identity is its number and id base. lake: the identity of the lake that the reader
    writes to; "" for any."""

    topic: str
    id_base: int
    created_ms: int
    gaps: tuple[CursorGap, ...] = ()
    lake: str = ""

    @property
    def is_limited(self) -> bool:
        """Whether a token made it that may only consume."""
        return self.expires_ms != NEVER_MS


@dataclass(frozen=True, slots=True)
class EndedCursor:
    """A deleted or expired cursor; it gave up the offsets from its own up to `next_offset`."""

    cursor: Cursor
    next_offset: int | None
    reason: str
    at_ms: int


class Cursors(ReaderRegistry[Cursor]):
    """All cursors of one log. Belongs to the engine's thread.

    ended: deleted cursors, the oldest first. limit_bytes: how much of the log one cursor may keep, 0 for no limit.
    """

    def __init__(self, directory: str, *, files: Files, clock: Clock, worker: Background, limit_bytes: int = 0) -> None:
        super().__init__(os.path.join(directory, CURSORS_NAME), files=files, clock=clock, worker=worker)
        self.limit_bytes = limit_bytes
        self.ended: list[EndedCursor] = []

    def get(self, topic_number: int, name: str) -> Cursor | None:
        """Raises StorageError while the file can't be read."""
        self._check_read()
        return self._current.get(topic_number, {}).get(name)

    def limit_of(self, cursor: Cursor) -> int:
        """How much of the log a cursor may keep, in bytes; 0 for no limit."""
        if not cursor.is_limited:
            return self.limit_bytes
        return min(self.limit_bytes or CONSUMER_CURSOR_BYTES, CONSUMER_CURSOR_BYTES)

    def is_warned(self, cursor: Cursor, lag_bytes: int) -> bool:
        """Whether a cursor that keeps `lag_bytes` is near its limit, or beyond it."""
        limit_bytes = self.limit_of(cursor)
        return limit_bytes > 0 and lag_bytes * 100 > limit_bytes * WARN_PERCENT

    def saved(self) -> Ticket:
        """Done when all acts so far are durable."""
        return self._file.saved()

    def create(
        self, topic: str, topic_number: int, id_base: int, name: str, offset: int, maker: Maker = ANY_MAKER
    ) -> Ticket:
        """Make a cursor of a name that is new, or whose cursor has expired. Raises LimitError when there are too
        many."""
        self._end_expired()
        if len(self) >= CURSORS_MAX:
            raise LimitError(f"cursor {topic}/{name} is not created: {len(self)} exist, which is the most")
        if maker.is_limited and (count := self.count_of(maker)) >= CONSUMER_CURSORS_MAX:
            raise LimitError(
                f"cursor {topic}/{name} is not created: {maker.name} has {count}, which is the most for a token that "
                "may only consume. Delete one"
            )
        cursor = Cursor(
            name,
            topic_number,
            offset,
            self._expiry_clock_ms() + CONSUMER_CURSOR_MS if maker.is_limited else NEVER_MS,
            maker.name,
            topic=topic,
            id_base=id_base,
            created_ms=self._now_ms(),
        )
        self._put(cursor)
        return self._save_or(lambda: self._undo_put(None, cursor))

    def move(self, cursor: Cursor, offset: int, lake: str = "") -> Ticket:
        """Pass everything before `offset`; a cursor never goes back. lake: the cursor's own, or its first; "" changes
        none. A cursor that expires lasts longer. The ticket is done when that is durable."""
        moved = replace(
            cursor,
            offset=max(offset, cursor.offset),
            lake=cursor.lake or lake,
            expires_ms=self._moved_expiry_ms(cursor),
        )
        if moved == cursor:
            return self.saved()
        self._put(moved)
        return self._save_or(lambda: self._undo_put(cursor, moved))

    def restart(self, cursor: Cursor, offset: int) -> Ticket:
        """Make the cursor anew at `offset`, also further back: without gaps, and of no lake yet. A cursor that expires
        lasts longer. Its maker stays. The ticket is done when that is durable."""
        restarted = replace(
            cursor,
            offset=offset,
            created_ms=self._now_ms(),
            gaps=(),
            lake="",
            expires_ms=self._moved_expiry_ms(cursor),
        )
        self._put(restarted)
        return self._save_or(lambda: self._undo_put(cursor, restarted))

    def give_up(self, cursor: Cursor, next_offset: int, reason: str) -> Ticket:
        """Go on at `next_offset`; the offsets before it become a gap."""
        gap = CursorGap(cursor.offset, next_offset, reason, self._now_ms())
        gaps = list(cursor.gaps)
        if gaps and gaps[-1].next_offset == gap.first_offset and gaps[-1].reason == reason:
            # The reader does not move the cursor, so the last gap grows.
            gap = replace(gap, first_offset=gaps.pop().first_offset)
        self._put(replace(cursor, offset=next_offset, gaps=(*gaps, gap)[-GAPS_MAX:]))
        return self._file.save()

    def delete(self, cursor: Cursor, end_offset: int) -> Ticket:
        """End a cursor. end_offset: the topic's."""
        self._remove(cursor)
        ended = EndedCursor(cursor, end_offset, DELETED, self._now_ms())
        self._end([ended])

        def undo() -> None:
            self.ended = [one for one in self.ended if one is not ended]
            self._undo_remove(cursor)

        return self._save_or(undo)

    def forget_topic(self, topic_number: int, end_offset: int) -> None:
        """The topic was deleted; it ended at `end_offset`."""
        removed = self._remove_topic(topic_number)
        if removed:
            now_ms = self._now_ms()
            self._end([EndedCursor(one, end_offset, TOPIC_DELETED, now_ms) for one in removed])
            self._file.save()

    def _moved_expiry_ms(self, cursor: Cursor) -> int:
        """When a cursor expires that its reader moves now."""
        return self._expiry_clock_ms() + CONSUMER_CURSOR_MS if cursor.is_limited else NEVER_MS

    def _note_expired(self, reader: Cursor) -> None:
        self._end([EndedCursor(reader, None, EXPIRED, self._now_ms())])
        logger.warning(
            "cursor expired topic=%s cursor=%s offset=%d maker=%s: it was not moved for %d days",
            reader.topic,
            reader.name,
            reader.offset,
            reader.maker,
            CONSUMER_CURSOR_MS // 86_400_000,
        )

    def _now_ms(self) -> int:
        return self._clock.time_ns() // NS_PER_MS

    def _encoded(self) -> bytes:
        return encode_cursors(self.all(), self.ended)

    def _restore(self, data: bytes, topic_numbers: frozenset[int]) -> bool:
        found = decode_cursors(data, self._file.path)
        if found is None:
            return False
        cursors, ended = found
        gone = [one for one in cursors if one.topic_number not in topic_numbers]
        back = [one for one in ended if one.reason == TOPIC_DELETED and one.cursor.topic_number in topic_numbers]
        for cursor in [*(one for one in cursors if one.topic_number in topic_numbers), *(one.cursor for one in back)]:
            self._put(cursor)
        self.ended = [one for one in ended if one not in back]
        self._end([EndedCursor(one, None, TOPIC_DELETED, self._now_ms()) for one in gone])
        if gone or back:
            self._file.note_changed()
        return True

    def _end(self, ended: list[EndedCursor]) -> None:
        self.ended = [*self.ended, *ended][-ENDED_MAX:]


def encode_cursors(cursors: Iterable[Cursor], ended: Iterable[EndedCursor]) -> bytes:
    """The file's content."""
    listed = [_row_of(one) for one in cursors]
    past = [
        {**_row_of(one.cursor), "next_offset": one.next_offset, "reason": one.reason, "at_ms": one.at_ms}
        for one in ended
    ]
    return encode_line({"version": VERSION, "cursors": listed, "ended": past})


def decode_cursors(data: bytes, path: str = CURSORS_NAME) -> tuple[list[Cursor], list[EndedCursor]] | None:
    """The cursors of the file's content, and the ended ones; None when it is damaged. Raises NewerFormatError."""
    content = decode_versioned(data, path, VERSION)
    if content is None:
        return None
    ended = [EndedCursor(_cursor_of(row), row["next_offset"], row["reason"], row["at_ms"]) for row in content["ended"]]
    return [_cursor_of(row) for row in content["cursors"]], ended


def _row_of(cursor: Cursor) -> dict[str, Any]:
    return {
        "topic": cursor.topic,
        "number": cursor.topic_number,
        "id_base": cursor.id_base,
        "cursor": cursor.name,
        "offset": cursor.offset,
        "created_ms": cursor.created_ms,
        "gaps": cursor.gaps,
        "lake": cursor.lake,
        **({"maker": cursor.maker} if cursor.maker else {}),
        **({"expires_ms": cursor.expires_ms} if cursor.is_limited else {}),
    }


def _cursor_of(row: Mapping[str, Any]) -> Cursor:
    gaps = tuple(CursorGap(**gap) for gap in row["gaps"])
    return Cursor(
        row["cursor"],
        row["number"],
        row["offset"],
        row.get("expires_ms", NEVER_MS),
        row.get("maker", ""),
        topic=row["topic"],
        id_base=row["id_base"],
        created_ms=row["created_ms"],
        gaps=gaps,
        lake=row.get("lake", ""),
    )
