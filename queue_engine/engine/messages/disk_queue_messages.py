"""The single messages of a channel of a disk queue, as far as they are in memory.

Its files are read once, from front to back: messages that wait there can't be listed before their turn, and finished
ones are gone.
"""

from collections.abc import Callable, Container, Iterable, Iterator
from itertools import islice

from queue_engine.engine.messages.pages import page_of
from queue_engine.engine.messages.rows import (
    BY_ATTEMPTS,
    DEFERRED,
    FINISHED,
    IN_FLIGHT,
    IN_ORDER,
    QUARANTINED,
    WAITING,
    InvalidQueryError,
    Listed,
    MessageQuery,
    MessageRow,
)
from queue_engine.storage.disk_queue.disk_queue_backlog import DiskQueueBacklog
from queue_engine.vocabulary.message import ATTEMPTS_AT, FRAME_HEADER_BYTES, TIMESTAMP_AT, unpack_attempts
from queue_engine.vocabulary.message import unpack_timestamp as unpack_time
from queue_engine.vocabulary.run import Run

# A message: its id, its frame, and its due time (Unix ns) or None.
Item = tuple[bytes, bytes, int | None]

NO_QUARANTINE = "A disk queue has no quarantine: nsqd's files can't say that a message is set aside."
NOT_KEPT = "A disk queue keeps nothing of finished messages."


def attempts_of(frame: bytes) -> int:
    """The number of the delivery that the frame is for."""
    attempts: int = unpack_attempts(frame, ATTEMPTS_AT)[0]
    return attempts


def time_of(frame: bytes) -> int:
    """When it was published, Unix ns."""
    time_ns: int = unpack_time(frame, TIMESTAMP_AT)[0]
    return time_ns


def row_of(state: str, message_id: bytes, frame: bytes, due_at_ns: int | None, preview_bytes: int) -> MessageRow:
    """The row of a message. A frame has the number of its next delivery, or of the present one in flight."""
    return MessageRow(
        state,
        message_id.decode("ascii", "replace"),
        attempts=attempts_of(frame) - (state != IN_FLIGHT),
        published_at_ns=time_of(frame),
        body_bytes=len(frame) - FRAME_HEADER_BYTES,
        body_start=frame[FRAME_HEADER_BYTES : FRAME_HEADER_BYTES + preview_bytes],
        due_at_ns=due_at_ns,
    )


def check_query(query: MessageQuery) -> None:
    """Raises InvalidQueryError for a filter that only the log has."""
    if query.first_offset is not None or query.end_offset is not None:
        raise InvalidQueryError("first_offset and end_offset: messages of a disk queue have no offsets")


class DiskQueueMessages:
    """Made for one read, and forgotten. unix_of: the Unix time of a monotonic one, both ns."""

    def __init__(self, backlog: DiskQueueBacklog, unix_of: Callable[[int], int]) -> None:
        self._backlog = backlog
        self._places = backlog.places
        self._unix_of = unix_of

    def counts(self, in_flight_count: int) -> dict[str, int | None]:
        backlog = self._backlog
        waiting, deferred = backlog.depth, backlog.deferred_count
        counts = {WAITING: waiting, IN_FLIGHT: in_flight_count, DEFERRED: deferred, QUARANTINED: 0}
        return {**counts, FINISHED: None}

    def listed(self, query: MessageQuery) -> Listed:
        """A page of messages that wait in memory or are deferred."""
        check_query(query)
        if query.state == FINISHED:
            return Listed((), note=NOT_KEPT)
        if query.state == QUARANTINED:
            return Listed((), note=NO_QUARANTINE)
        items = self._deferred() if query.state == DEFERRED else self._waiting()
        page = page_of(items, query, lambda item: _matches(query, item), _sort_key(query))
        rows = tuple(row_of(query.state, *item, query.preview_bytes) for item in page.items)
        note = ""
        on_disk = self._backlog.backend_depth
        if query.state == WAITING and on_disk:
            note = f"{on_disk:,} of the waiting messages are in the channel's files, where they can't be listed."
        return Listed(rows, page.next_cursor, page.is_bounded, note)

    def find(self, ids: Container[bytes]) -> dict[bytes, tuple[str, Item]]:
        """The messages of these ids that wait in memory or are deferred, each with its state. Costs a look at all."""
        return {
            item[0]: (state, item)
            for state, items in ((DEFERRED, self._deferred()), (WAITING, self._waiting()))
            for item in items
            if item[0] in ids
        }

    def _deferred(self) -> Iterator[Item]:
        for due_ns, run in self._places.deferred.earliest():
            yield run.ids[0], run.frame_at(0), self._unix_of(due_ns)

    def _waiting(self) -> Iterator[Item]:
        """Waiting messages in the order of delivery."""
        places = self._places
        returned, ahead = _items(places.returned), _items(places.queue.runs_in_memory())
        yield from _items(places.unsent)
        passed = 0
        for ahead_count, count in places.order.plan():
            yield from islice(ahead, ahead_count - passed)
            yield from islice(returned, count)
            passed = ahead_count
        yield from returned
        yield from ahead


def _items(runs: Iterable[Run]) -> Iterator[Item]:
    for run in runs:
        for index, message_id in enumerate(run.ids):
            yield message_id, run.frame_at(index), None


def _matches(query: MessageQuery, item: Item) -> bool:
    time_ns = time_of(item[1])
    is_in_time = (query.since_ns is None or time_ns >= query.since_ns) and (
        query.until_ns is None or time_ns < query.until_ns
    )
    return is_in_time and attempts_of(item[1]) - 1 >= query.attempts_min


def _sort_key(query: MessageQuery) -> Callable[[Item], tuple[int, int]] | None:
    if query.sort == IN_ORDER:
        return None
    if query.sort == BY_ATTEMPTS:
        return lambda item: (-attempts_of(item[1]), time_of(item[1]))
    return lambda item: (time_of(item[1]), 0)
