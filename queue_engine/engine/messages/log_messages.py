"""The single messages of a channel of the log: which state each is in, lists of them, and acts on them."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice

from queue_engine.engine.messages.pages import cursor_of, page_of
from queue_engine.engine.messages.rows import (
    BY_AGE,
    BY_ATTEMPTS,
    DEFERRED,
    FINISHED,
    IN_FLIGHT,
    NOT_FOUND,
    NOT_PASSED_ON,
    PAGE_BYTES_MAX,
    QUARANTINED,
    SCANNED_MAX,
    UNREAD,
    WAITING,
    Listed,
    MessageQuery,
    MessageRow,
    Returned,
)
from queue_engine.storage.commit_log.record import ranges_of
from queue_engine.storage.fetch.log_reader import LogReader, ReadMessage
from queue_engine.storage.log_store.log_backlog import LogBacklog
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.storage.log_store.logged_batch import LoggedBatch
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.flow.return_reason import reason_text
from queue_engine.vocabulary.message import FRAME_HEADER_BYTES


class LogMessages:
    """Made for one read or act, and forgotten. held: ids of the messages in flight. start: the channel's first offset.

    Raises StorageError when the disk refuses.
    """

    def __init__(self, store: LogTopicStore, backlog: LogBacklog, held: Container[bytes], start: int) -> None:
        depth = backlog.depth  # an ephemeral channel drops messages that are too far behind
        places = backlog.places
        self._store = store
        self._backlog = backlog
        self._held = held
        self._places = places
        self._progress = places.journaled.progress
        self._depth = depth
        self._batch: LoggedBatch | None = None  # the last that was read
        self._bytes_left = PAGE_BYTES_MAX
        # Messages before the channel's start were never its own, unless it was rewound to there.
        self._begin = max(store.oldest_offset, min(start, self._progress.floor))

    # Which message, and where it stands.

    def id_of(self, offset: int) -> bytes:
        return b"%016x" % (self._store.id_base + offset)

    @property
    def unfinished_from(self) -> int:
        """All before this offset is finished."""
        return self._progress.floor

    def offset_of(self, message_id: str) -> int:
        return int(message_id, 16) - self._store.id_base

    def states_of(self, offsets: Sequence[int]) -> dict[int, str]:
        """The states of messages, ascending; NOT_FOUND or NOT_PASSED_ON for one that the channel does not have.

        Costs a look at all ranges of offsets that came back or are passed over.
        """
        store, places = self._store, self._places
        found: dict[int, str] = {}
        rest: list[int] = []
        quarantined = self._progress.quarantined
        for offset in offsets:
            if offset < self._begin or store.next_present(offset) != offset:
                found[offset] = NOT_FOUND
            elif offset >= store.released:
                found[offset] = NOT_PASSED_ON
            elif self._progress.is_settled(offset):
                found[offset] = FINISHED
            elif offset in quarantined:
                found[offset] = QUARANTINED
            elif self.id_of(offset) in self._held:
                found[offset] = IN_FLIGHT
            else:
                rest.append(offset)
        waiting = places.cursor.pending_of(rest) | places.unsent.found_in(rest) | places.returned.found_in(rest)
        # There is no other place left.
        found.update((offset, WAITING if offset in waiting else DEFERRED) for offset in rest)
        return found

    def why_not_found(self, offset: int) -> str:
        """A sentence for a message that the channel does not have."""
        store = self._store
        if offset >= store.end_offset or offset < 0:
            return f"topic {store.name} has no offset {offset}: its offsets end before {store.end_offset}"
        if offset < store.oldest_offset:
            return f"offset {offset} of {store.name} is gone: the oldest is {store.oldest_offset}"
        if store.next_present(offset) != offset:
            return f"offset {offset} of {store.name} was never used"
        if offset >= store.released:
            return f"offset {offset} waits at topic {store.name} and was not passed on to its channels yet"
        return f"offset {offset} lies before the channel's first one, {self._begin}"

    def counts(self, in_flight_count: int) -> dict[str, int | None]:
        store, deferred = self._store, self._places.due.count
        all_of_them = store.queue.count_between(self._begin, store.released)
        quarantined = len(self._progress.quarantined)
        finished = max(0, all_of_them - self._depth - deferred - in_flight_count - quarantined)
        return {
            WAITING: self._depth,
            IN_FLIGHT: in_flight_count,
            DEFERRED: deferred,
            QUARANTINED: quarantined,
            FINISHED: finished,
        }

    # Lists.

    def listed(self, query: MessageQuery) -> Listed:
        """A page of messages that wait, are deferred or finished."""
        first, end = self.bounds(query)
        if query.state == FINISHED:
            return self._finished(query, first, end)
        if query.state == DEFERRED:
            found: Iterable[int] = (offset for offset, _ in self._places.due.earliest())
        elif query.state == QUARANTINED:
            held = self._progress.quarantined
            found = sorted(held, key=lambda offset: (-held[offset].since_ns, offset))  # the newest first
        elif query.sort or query.has_filter:
            # Messages that came back first: only they can have attempts.
            lines = (line.offsets() for line in (self._places.unsent, self._places.returned))
            is_delivered = query.attempts_min > 0
            found = chain(*lines, () if is_delivered else self._places.cursor.offsets(first))
        else:
            found = self._places.in_order()
        if query.sort == BY_AGE and query.state == WAITING:
            return self._by_age(query, first, end)
        if query.sort == BY_ATTEMPTS and query.state == WAITING:
            return self._by_attempts(query, first, end)
        page = page_of(
            found,
            query,
            lambda offset: first <= offset < end and self.attempts(offset) >= query.attempts_min,
            self._sort_key(query),
        )
        return Listed(self.rows(page.items, query), page.next_cursor, page.is_bounded)

    def _sort_key(self, query: MessageQuery) -> Callable[[int], tuple[int, int]] | None:
        if query.sort == BY_ATTEMPTS:
            return lambda offset: (-self.attempts(offset), offset)
        return (lambda offset: (offset, 0)) if query.sort == BY_AGE else None

    def _by_attempts(self, query: MessageQuery, first: int, end: int) -> Listed:
        """Waiting messages: only those that came back were delivered, and they are few."""
        places = self._places
        lines = list(islice(chain(places.unsent.offsets(), places.returned.offsets()), SCANNED_MAX + 1))
        came_back = sorted(lines[:SCANNED_MAX], key=lambda offset: (-self.attempts(offset), offset))
        page = page_of(
            chain(came_back, () if query.attempts_min else places.cursor.offsets(first)),
            query,
            lambda offset: first <= offset < end and self.attempts(offset) >= query.attempts_min,
            None,
        )
        return Listed(self.rows(page.items, query), page.next_cursor, page.is_bounded or len(lines) > SCANNED_MAX)

    def _by_age(self, query: MessageQuery, first: int, end: int) -> Listed:
        """Waiting messages by offset: pages of a million follow each other by their last offsets."""
        first = max(first, cursor_of(query.after, "o") + 1)
        places = self._places
        lines = list(islice(chain(places.unsent.offsets(), places.returned.offsets()), SCANNED_MAX + 1))
        is_bounded = len(lines) > SCANNED_MAX
        came_back = sorted(offset for offset in lines[:SCANNED_MAX] if first <= offset < end)
        ahead = () if query.attempts_min else islice(places.cursor.offsets(first), query.limit + 1)
        found = sorted([*came_back, *(offset for offset in ahead if offset < end)])
        found = [offset for offset in found if self.attempts(offset) >= query.attempts_min]
        page = found[: query.limit]
        cursor = f"o{page[-1]}" if len(found) > len(page) and page else ""
        return Listed(self.rows(page, query), cursor, is_bounded)

    def _finished(self, query: MessageQuery, first: int, end: int) -> Listed:
        """The newest first; by age the oldest first."""
        upwards = query.sort == BY_AGE
        if query.after:
            at = cursor_of(query.after, "o")
            first, end = (at + 1, end) if upwards else (first, at)
        page = list(islice(self._settled(first, end, upwards=upwards), query.limit + 1))
        cursor = f"o{page[query.limit - 1]}" if len(page) > query.limit > 0 else ""
        return Listed(self.rows(page[: query.limit], query), cursor)

    def _settled(self, first: int, end: int, *, upwards: bool) -> Iterator[int]:
        """The offsets of finished messages."""
        progress, store = self._progress, self._store
        floor = min(max(progress.floor, first), end)
        parts: Iterable[tuple[int, int]]
        if upwards:
            parts = chain([(first, floor - first)], progress.settled_between(floor, end))
        else:
            parts = progress.settled_down(first, end)
        for start, count in parts:
            for begin, after in store.ranges_between(start, start + count)[:: 1 if upwards else -1]:
                yield from range(begin, after) if upwards else range(after - 1, begin - 1, -1)

    def bounds(self, query: MessageQuery) -> tuple[int, int]:
        """The offsets, from the first up to but not including the other, that a query's filters allow."""
        store = self._store
        first, end = max(self._begin, query.first_offset or 0), store.released
        if query.end_offset is not None:
            end = min(end, query.end_offset)
        reader = LogReader(store)
        if query.since_ns is not None:
            first = max(first, reader.offset_at(query.since_ns))
        if query.until_ns is not None:
            end = min(end, reader.offset_at(query.until_ns))
        return first, max(first, end)

    def attempts(self, offset: int) -> int:
        return self._progress.made_at(offset)

    def rows(self, offsets: Sequence[int], query: MessageQuery) -> tuple[MessageRow, ...]:
        """Rows of messages of the query's state."""
        dues = self._due_times(offsets) if query.state == DEFERRED else {}
        return tuple(self._row(offset, query.state, query.preview_bytes, dues.get(offset)) for offset in offsets)

    def row(self, offset: int, state: str, preview_bytes: int = 0) -> MessageRow:
        dues = self._due_times([offset]) if state == DEFERRED else {}
        return self._row(offset, state, preview_bytes, dues.get(offset))

    def _row(self, offset: int, state: str, preview_bytes: int, due_at_ns: int | None) -> MessageRow:
        row = MessageRow(
            state,
            self.id_of(offset).decode(),
            offset,
            self.attempts(offset),
            due_at_ns=due_at_ns,
            history=self._history(offset),
        )
        held = self._progress.quarantined.get(offset)
        if held is not None:
            row = replace(row, quarantined_at_ns=held.since_ns, reason=reason_text(held.reason))
        try:
            batch = self._batch_of(offset)
        except StorageError as exc:
            return replace(row, problem=str(exc))
        if batch is None:
            place = self._store.queue.locate(offset)
            is_unread = place is not None and place[1] > self._bytes_left
            return replace(row, problem=UNREAD) if is_unread else row
        if offset in batch.damaged:
            return replace(row, problem="its body is lost: the log's record is damaged")
        index = offset - batch.first
        body = batch.run.frame_at(index)
        return replace(
            row,
            published_at_ns=batch.time_ns,
            body_bytes=len(body) - FRAME_HEADER_BYTES,
            key=batch.keys[index] if batch.keys is not None else b"",
            body_start=body[FRAME_HEADER_BYTES : FRAME_HEADER_BYTES + preview_bytes],
        )

    def _history(self, offset: int) -> tuple[Returned, ...]:
        events = self._backlog.history_of(offset)
        return tuple(Returned(event.time_ns, reason_text(event.reason), event.consumer) for event in events)

    def _batch_of(self, offset: int) -> LoggedBatch | None:
        """The batch of a message; None when it is lost, or PAGE_BYTES_MAX are read."""
        batch = self._batch
        if batch is None or not batch.first <= offset < batch.end:
            batch = self._batch = self._store.batch_near(offset, self._bytes_left)
            self._bytes_left -= 0 if batch is None else min(batch.cost_bytes, self._bytes_left)
        return batch

    def _due_times(self, offsets: Sequence[int]) -> dict[int, int]:
        """The due time of deferred messages, Unix ns."""
        wanted, found, store = set(offsets), dict[int, int](), self._store
        progress = self._progress
        for offset in wanted:
            due_ns = progress.deferred.get(offset)
            if due_ns is None:
                published = store.deferred_between(offset, offset + 1)
                due_ns = published[0][1] if published else 0
            if due_ns:
                found[offset] = due_ns
        return found

    def read(self, offset: int) -> ReadMessage | None:
        """A message as it was published; None when its body is lost."""
        found = LogReader(self._store).these([offset], 0).messages
        return found[0] if found else None

    # Acts.

    def finish(self, offsets: Sequence[int]) -> None:
        """Finish messages that wait, are deferred or quarantined, ascending and each given once."""
        places = self._places
        self._take_out(offsets)
        for first, count in ranges_of(offsets):
            places.journaled.settled(first, count)
        places.topic.next_turn.request_log_work()

    def release(self, offsets: Sequence[int]) -> None:
        """Let deferred messages wait like the others, behind them; ascending, each given once."""
        places = self._places
        now_ns = places.topic.time_ns()
        self._take_out(offsets)
        for offset in offsets:
            places.journaled.released(offset, 1, now_ns)
            places.order.came_back(1, places.cursor.pending_count)
            places.returned.append(offset, 1)
        places.topic.next_turn.request_log_work()

    def set_aside(self, offsets: Sequence[int], take_held: Callable[[bytes], object]) -> list[int]:
        """Quarantine messages that wait, are deferred or in flight, ascending and each given once; returns those for
        which there is no room, which stay as they are. take_held: takes one from its consumer."""
        backlog = self._backlog
        chosen: dict[int, int] = {}  # offset → bytes of its body
        refused: list[int] = []
        size_sum = 0
        for offset in offsets:
            size = backlog.body_bytes_read(offset)
            if backlog.has_room_to_quarantine(size_sum + size, len(chosen) + 1):
                chosen[offset] = size
                size_sum += size
            else:
                refused.append(offset)
        held = {offset: message_id for offset in chosen if (message_id := self.id_of(offset)) in self._held}
        for message_id in held.values():
            take_held(message_id)
        # All at once: the lines and the offsets that the cursor passes over are read once, however many there are.
        self._take_out([offset for offset in chosen if offset not in held])
        for offset, size in chosen.items():
            backlog.set_aside(offset, size)
        self._places.topic.next_turn.request_log_work()
        return refused

    def redrive(self, offsets: Sequence[int], *, keeps_attempts: bool) -> None:
        """Let quarantined messages wait again."""
        self._backlog.redrive(offsets, keeps_attempts=keeps_attempts)

    def _take_out(self, offsets: Sequence[int]) -> None:
        """Take messages that wait or are deferred out of the places where they stand; a quarantined one is in none."""
        places = self._places
        quarantined = self._progress.quarantined
        offsets = [offset for offset in offsets if offset not in quarantined] if quarantined else offsets
        ahead = places.cursor.pending_of(offsets)
        behind = [offset for offset in offsets if offset not in ahead]
        in_line = places.unsent.found_in(behind) | places.returned.found_in(behind)
        if ahead:
            places.cursor.skip_all(sorted(ahead))
        if in_line:
            places.unsent.remove(behind)
            if gone := places.returned.remove(behind):
                places.order.left(gone)
        for offset in behind:
            if offset not in in_line:
                places.due.withdraw(offset)
