"""Acts on pipeline cursors: readers beside the channels, for which the log retains the messages behind them."""

from dataclasses import dataclass

from queue_engine.delivery.stats import Outcome
from queue_engine.delivery.topic import Topic
from queue_engine.engine.acts.log_acts import Target, log_store_of
from queue_engine.engine.acts.topic_acts import check_counts
from queue_engine.engine.catalog.catalog import Catalog
from queue_engine.engine.catalog.stores import Stores
from queue_engine.storage.fetch.log_reader import LogReader
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.storage.readers.cursors import CONSUMER_CURSOR_BYTES, Cursor, EndedCursor
from queue_engine.storage.readers.reader_registry import ANY_MAKER, Maker
from queue_engine.vocabulary.acts.parameters import END, START
from queue_engine.vocabulary.errors import (
    CursorNotFoundError,
    InvalidCursorError,
    LakeChangedError,
    LimitError,
    NotOwnReaderError,
    OffsetTooHighError,
    TopicChangedError,
)
from queue_engine.vocabulary.names import ARCHIVE_CURSOR, NAME_LENGTH_MAX, is_ephemeral, is_valid_name
from queue_engine.vocabulary.ticket import Ticket
from queue_engine.wire.cursor import CursorGapStats, CursorStats


@dataclass(frozen=True, slots=True)
class CursorList:
    """All cursors, by topic and name, and those that ended, the oldest first. server: the identity of the data
    directory."""

    cursors: tuple[CursorStats, ...]
    ended: tuple[EndedCursor, ...]
    server: str


class CursorActs:
    """All acts on the pipeline cursors of one engine. Acts on channels do not change them."""

    def __init__(self, catalog: Catalog, stores: Stores) -> None:
        self._catalog = catalog
        self._stores = stores

    def create(
        self, topic: str, *, cursor: str, start: Target | None = None, maker: Maker = ANY_MAKER
    ) -> tuple[Outcome, Ticket]:
        """Create a cursor: the log keeps messages from its offset on. start: an offset, "start" or "end"; None:
        "start". A cursor that exists stays as it is. A limited maker's holds the log within limits. The outcome counts
        the messages from the cursor on. Raises TopicNotFoundError, InvalidStorageError, InvalidCursorError,
        NotOwnReaderError or LimitError."""
        self._catalog.check_open()
        store = log_store_of(self._catalog.topic(topic), "create_cursor")
        existing = store.readers.cursors.get(store.number, cursor)
        if existing is not None and not store.readers.cursors.has_expired(existing):
            return Outcome(depth=_depth(store, existing)), store.readers.cursors.saved()
        if not is_valid_name(cursor) or is_ephemeral(cursor):
            raise InvalidCursorError(
                f"cursor name {cursor!r} is not valid: 1 to {NAME_LENGTH_MAX} characters of .a-zA-Z0-9_-, "
                "without #ephemeral"
            )
        _check_not_archive(store, cursor, maker)
        offset = _start_offset(store, start or Target(word=START))
        _check_log_bytes(store, cursor, offset, maker, "is not created")
        ticket = store.readers.cursors.create(store.name, store.number, store.id_base, cursor, offset, maker)
        return Outcome(depth=store.queue.count_between(offset, store.end_offset), created=True), ticket

    def move(
        self, topic: str, *, cursor: str, number: int, offset: int, lake: str = "", maker: Maker = ANY_MAKER
    ) -> tuple[CursorStats, Ticket]:
        """Move a cursor: its reader has stored everything before `offset`. A cursor never goes back. number: the
        topic's, as the reader knows it. lake: the identity of the lake where the reader stores it, "" for none; the
        first one is the cursor's, also where the offset stays. Raises TopicNotFoundError, InvalidStorageError,
        TopicChangedError, LakeChangedError, CursorNotFoundError, NotOwnReaderError, LimitError or StorageError."""
        self._catalog.check_open()
        store = log_store_of(self._catalog.topic(topic), "move_cursor")
        if number != store.number:
            raise TopicChangedError(
                f"topic {topic} has the number {store.number}, not {number}: it was deleted and made anew"
            )
        found = _cursor(store, cursor)
        _check_owns(store, found, maker)
        if lake and found.lake not in ("", lake):
            raise LakeChangedError(
                f"cursor {topic}/{cursor} belongs to the lake {found.lake}, not to {lake}: its messages are archived "
                "there. Give back the lake it had, or delete the cursor and create another one, which begins anew"
            )
        synced_offset = LogReader(store).synced_offset(store.synced_position)
        if offset > max(synced_offset, found.offset):
            raise OffsetTooHighError(
                f"offset {offset} of {topic} is beyond the synced part of the log, which ends at {synced_offset}"
            )
        ticket = store.readers.cursors.move(found, offset, lake)
        return _stats(store, _cursor(store, cursor)), ticket

    def delete(
        self, topic: str, *, cursor: str, maker: Maker = ANY_MAKER, expected: int | None = None
    ) -> tuple[Outcome, Ticket]:
        """Delete a cursor; the outcome counts the messages that it had not passed. expected: how many of them the
        caller knows of. Raises TopicNotFoundError, InvalidStorageError, CursorNotFoundError, NotOwnReaderError or
        CountsChangedError."""
        self._catalog.check_open()
        store = log_store_of(self._catalog.topic(topic), "delete_cursor")
        found = _cursor(store, cursor)
        _check_owns(store, found, maker)
        check_counts(Outcome(depth=_depth(store, found)), expected, f"the cursor {topic}/{cursor}")
        ticket = store.readers.cursors.delete(found, store.end_offset)
        return Outcome(depth=_depth(store, found)), ticket

    def restart(
        self, topic: str, *, cursor: str, start: Target | None = None, maker: Maker = ANY_MAKER
    ) -> tuple[Outcome, Ticket]:
        """Make a cursor anew, also further back, as deleting and creating it does, and of the same maker: its reader
        begins anew. start: as of `create`. The outcome counts the messages from the cursor on. Raises as `delete`, and
        LimitError."""
        self._catalog.check_open()
        store = log_store_of(self._catalog.topic(topic), "archive_again")
        found = _cursor(store, cursor)
        _check_owns(store, found, maker)
        offset = _start_offset(store, start or Target(word=START))
        _check_log_bytes(store, cursor, offset, maker, "is not begun there")
        ticket = store.readers.cursors.restart(found, offset)
        return Outcome(depth=store.queue.count_between(offset, store.end_offset), created=True), ticket

    def one(self, topic: str, cursor: str) -> CursorStats:
        """One cursor at this moment. Raises TopicNotFoundError, InvalidStorageError or CursorNotFoundError."""
        store = log_store_of(self._catalog.topic(topic), "create_cursor")
        return _stats(store, _cursor(store, cursor))

    def all(self, topic: str = "") -> CursorList:
        """All cursors, or one topic's, and those that ended. Raises StorageError while their file can't be read."""
        cursors, ended = self._stores.cursors()
        names = sorted({one.topic for one in cursors if topic in ("", one.topic)})
        return CursorList(
            tuple(stats for name in names for stats in stats_of_topic(self._catalog.topics[name])),
            tuple(one for one in ended if topic in ("", one.cursor.topic)),
            self._catalog.identity,
        )


def stats_of_topic(topic: Topic) -> tuple[CursorStats, ...]:
    """All cursors of a topic by name; none for one that is not of the log."""
    if not isinstance(topic.store, LogTopicStore):
        return ()
    store = topic.store
    cursors = [
        one for one in store.readers.cursors.of_topic(store.number) if not store.readers.cursors.has_expired(one)
    ]
    return tuple(_stats(store, one) for one in sorted(cursors, key=lambda one: one.name)) if cursors else ()


def _cursor(store: LogTopicStore, name: str) -> Cursor:
    cursor = store.readers.cursors.get(store.number, name)
    if cursor is None or store.readers.cursors.has_expired(cursor):
        raise CursorNotFoundError(f"cursor {store.name}/{name} does not exist")
    return cursor


def _check_log_bytes(store: LogTopicStore, name: str, offset: int, maker: Maker, refusal: str) -> None:
    if maker.is_limited and (log_bytes := store.log_bytes_from(offset)) > CONSUMER_CURSOR_BYTES:
        raise LimitError(
            f"cursor {store.name}/{name} {refusal}: at offset {offset} it would keep {log_bytes} bytes of the log, "
            f"and the most for a token that may only consume is {CONSUMER_CURSOR_BYTES}. Start further on"
        )


def _check_owns(store: LogTopicStore, cursor: Cursor, maker: Maker) -> None:
    _check_not_archive(store, cursor.name, maker)
    maker.check_owns(cursor, f"cursor {store.name}/{cursor.name}")


def _check_not_archive(store: LogTopicStore, name: str, maker: Maker) -> None:
    """A limited maker could end a topic's archive, or begin one that fills the lake."""
    if maker.is_limited and name == ARCHIVE_CURSOR:
        raise NotOwnReaderError(
            f"cursor {store.name}/{name} is the topic's archive, and {maker.name} may not administer {store.name}. "
            "Nothing was changed"
        )


def _start_offset(store: LogTopicStore, start: Target) -> int:
    if start.word == START:
        return store.oldest_offset
    if start.word == END:
        return store.end_offset
    assert start.offset is not None
    if not store.oldest_offset <= start.offset <= store.end_offset:
        raise LimitError(
            f"offset {start.offset} of {store.name} is not there: it has {store.oldest_offset} to {store.end_offset}"
        )
    return start.offset


def _depth(store: LogTopicStore, cursor: Cursor) -> int:
    return store.queue.count_between(cursor.offset, store.end_offset)


def _stats(store: LogTopicStore, cursor: Cursor) -> CursorStats:
    lag_bytes = store.cursor_lag_bytes(cursor)
    return CursorStats(
        cursor=cursor.name,
        topic=store.name,
        number=store.number,
        id_base=store.id_base,
        offset=cursor.offset,
        end_offset=store.end_offset,
        synced_offset=LogReader(store).synced_offset(store.synced_position),
        oldest_offset=store.oldest_offset,
        depth=_depth(store, cursor),
        lag_bytes=lag_bytes,
        retention_bytes=store.readers.cursors.limit_of(cursor),
        created_ms=cursor.created_ms,
        is_warned=store.readers.cursors.is_warned(cursor, lag_bytes),
        gaps=tuple(CursorGapStats(one.first_offset, one.next_offset, one.reason, one.at_ms) for one in cursor.gaps),
        lake=cursor.lake,
        maker=cursor.maker,
        expires_ms=cursor.expires_ms if cursor.is_limited else 0,
    )
