"""Searches for a text in the bodies of a channel's messages, in the background and piece by piece.

The worker reads a piece of the log and finds the text in it, whatever stands there; the engine's thread then looks
which message has it, and has the next piece read. So a search of small messages costs no more than one of large ones,
and publishing waits for none of it. A search that no request asks for any more ends.
"""

import logging
import secrets
from dataclasses import dataclass, field

from queue_engine.delivery.channel import Channel
from queue_engine.engine.acts.log_acts import log_store_of
from queue_engine.engine.catalog.catalog import Catalog
from queue_engine.engine.messages.message_reads import log_messages_of
from queue_engine.engine.messages.rows import (
    AROUND_BYTES,
    AT_END,
    BOUNDED,
    CANCELLED,
    FAILED,
    FULL,
    HITS_MAX,
    RUNNING,
    SEARCH_BYTES_MAX,
    STATES,
    TEXT_BYTES_MAX,
    InvalidQueryError,
    SearchHit,
    SearchNotFoundError,
    SearchState,
)
from queue_engine.storage.disk.background import Background
from queue_engine.storage.disk.background_job import BackgroundJob
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.vocabulary.acts.table import check
from queue_engine.vocabulary.client_key import ClientKey
from queue_engine.vocabulary.clock import NS_PER_S, Clock
from queue_engine.vocabulary.errors import LimitError, StorageError
from queue_engine.vocabulary.faults import describe
from queue_engine.vocabulary.message import FRAME_HEADER_BYTES
from queue_engine.vocabulary.shares import Shares

logger = logging.getLogger(__name__)

# Read at once: the worker does it in well under a millisecond where the log is in memory.
PIECE_BYTES = 512 << 10
# The places in one piece that the engine's thread looks at, so that one look stays short.
PLACES_MAX = 64
# The messages of one piece that the engine's thread looks at: a batch may have a million.
LOOKS_MAX = 2_000
RUNNING_MAX = 4
# Those that ended are remembered, so many in all.
REMEMBERED_MAX = 16
# A search that no request read for so long is cancelled.
UNPOLLED_NS = 15 * NS_PER_S


@dataclass(slots=True)
class _Search:
    """position: of the log, where the next piece begins; end_position: behind the last record to look at. looked_to:
    no message before this offset is looked at again; looks_left: messages to look at in this piece."""

    search_id: str
    store: LogTopicStore
    channel: Channel
    text: str
    state: str
    first_offset: int
    end_offset: int
    position: int
    end_position: int
    polled_ns: int
    next_offset: int
    client: ClientKey
    status: str = RUNNING
    problem: str = ""
    scanned_bytes: int = 0
    looked_to: int = 0
    looks_left: int = 0
    hits: list[SearchHit] = field(default_factory=list)
    is_going: bool = False
    goes_again: bool = False

    @property
    def needle(self) -> bytes:
        return self.text.encode()


class MessageSearch:
    """The searches of one engine. background: reads the log."""

    def __init__(self, catalog: Catalog, clock: Clock, background: Background) -> None:
        self.topics = catalog.topics
        self._catalog = catalog
        self._clock = clock
        self._background = background
        self._searches: dict[str, _Search] = {}

    def start(
        self,
        topic: str,
        channel: str,
        text: str,
        *,
        state: str = "",
        first_offset: int | None = None,
        end_offset: int | None = None,
        client: ClientKey | None = None,
    ) -> SearchState:
        """Search the bodies from `first_offset` on for a text, as UTF-8, each letter as it is. first_offset: None for
        where the channel's unfinished messages begin. end_offset: None for the present end. state: only
        messages in this state, "" for all. client: has a share of the searches
        that run; None for none. Raises TopicNotFoundError, ChannelNotFoundError, InvalidStorageError,
        InvalidQueryError, LimitError or StorageError."""
        owner, one = self._catalog.topic(topic), self._catalog.channel(topic, channel)
        check("search_messages", owner.store.kind, topic, channel)
        size = len(text.encode())
        if not 0 < size <= TEXT_BYTES_MAX:
            raise InvalidQueryError(f"text has {size} bytes and can have 1 to {TEXT_BYTES_MAX}")
        if state and state not in STATES:
            raise InvalidQueryError(f"state={state} can be {', '.join(STATES)}")
        self._forget_old()
        client = client or ClientKey(())
        shares = Shares(RUNNING_MAX)
        for other in self._searches.values():
            if other.status == RUNNING:
                shares.take(other.client)
        if shares.used >= RUNNING_MAX:
            raise LimitError(f"{shares.used} searches run and that is the most: cancel one, or wait")
        if not shares.has_share_for(client):
            own = f"{shares.held_by(client)} of them for {' and '.join(client.parts)}, which is its share"
            raise LimitError(f"{shares.used} of at most {RUNNING_MAX} searches run, {own}: cancel one, or wait")
        store = log_store_of(owner, "search_messages")
        log = log_messages_of(owner, one)
        assert log is not None
        end = store.released if end_offset is None else min(end_offset, store.released)
        first = min(max(log.unfinished_from if first_offset is None else first_offset, store.oldest_offset), end)
        last = store.offset_before(end, 1)
        place = store.queue.locate(last) if first < end else None
        search = _Search(
            secrets.token_hex(8),
            store,
            one,
            text,
            state,
            first,
            end,
            store.needed_position_from(first, 0),
            0 if place is None else sum(place),
            self._clock.monotonic_ns(),
            first,
            client,
            looked_to=first,
        )
        self._searches[search.search_id] = search
        self._go_on(search)
        return self._state_of(search)

    def state(self, search_id: str) -> SearchState:
        """How far a search is. Raises SearchNotFoundError."""
        search = self._found(search_id)
        search.polled_ns = self._clock.monotonic_ns()
        return self._state_of(search)

    def cancel(self, search_id: str) -> SearchState:
        """End a search. Raises SearchNotFoundError."""
        search = self._found(search_id)
        if search.status == RUNNING:
            search.status = CANCELLED
        return self._state_of(search)

    def _found(self, search_id: str) -> _Search:
        search = self._searches.get(search_id)
        if search is None:
            raise SearchNotFoundError(f"search {search_id[:40]} does not exist: it never was, or ended long ago")
        return search

    def _state_of(self, search: _Search) -> SearchState:
        store = search.store
        return SearchState(
            search_id=search.search_id,
            topic=store.name,
            channel=search.channel.name,
            text=search.text,
            state=search.state,
            status=search.status,
            first_offset=search.first_offset,
            next_offset=search.next_offset,
            end_offset=search.end_offset,
            message_count=store.queue.count_between(search.first_offset, search.next_offset),
            message_total=store.queue.count_between(search.first_offset, search.end_offset),
            scanned_bytes=search.scanned_bytes,
            hits=tuple(search.hits),
            problem=search.problem,
        )

    def _forget_old(self) -> None:
        now_ns = self._clock.monotonic_ns()
        for search in self._searches.values():
            if search.status == RUNNING and now_ns - search.polled_ns > UNPOLLED_NS:
                search.status = CANCELLED
        ended = [search_id for search_id, search in self._searches.items() if search.status != RUNNING]
        for search_id in ended[: max(0, len(self._searches) - REMEMBERED_MAX + 1)]:
            del self._searches[search_id]

    # The work.

    def _go_on(self, search: _Search) -> None:
        """Have the next piece read, unless the search has ended."""
        if search.is_going:
            search.goes_again = True
            return
        search.is_going = search.goes_again = True
        try:
            # A background that reads at once comes back here meanwhile.
            while search.goes_again:
                search.goes_again = False
                self._begin_piece(search)
        finally:
            search.is_going = False

    def _begin_piece(self, search: _Search) -> None:
        self._forget_old()
        if self._catalog.is_closing:
            search.status = CANCELLED
        if search.channel.is_deleted or search.store.is_deleted:
            search.status, search.problem = FAILED, f"{search.channel.title} was deleted"
        if search.status != RUNNING:
            return
        if search.position >= search.end_position:
            search.status, search.next_offset = AT_END, search.end_offset
            return
        if search.scanned_bytes >= SEARCH_BYTES_MAX:
            search.status = BOUNDED
            # Another search begins with the whole record that this one ended in.
            try:
                before = search.store.batch_at(search.store.offset_before(search.next_offset, 1))
            except StorageError as exc:
                search.status, search.problem = FAILED, str(exc)
                return
            search.next_offset = search.next_offset if before is None else max(search.first_offset, before.first)
            return
        segment = search.store.segments.segment_of(search.position)
        if segment is None:
            behind = search.store.segments.first_behind(search.position)
            search.position = search.end_position if behind is None else behind.position
            self._go_on(search)
            return
        stop = min(search.position + PIECE_BYTES, segment.next_position, search.end_position)
        # A text that begins in this piece may end in the next one.
        size = min(stop + len(search.needle) - 1, segment.next_position) - search.position
        places: list[int] = []
        job = BackgroundJob(
            lambda: places.extend(_places_in(search.store.segments.read(search.position, size), search.needle)),
            then=lambda error: self._read(search, stop, places, error),
        )
        job.start(self._background)

    def _read(self, search: _Search, stop: int, places: list[int], error: Exception | None) -> None:
        """A piece was read: the text stands at these places in it."""
        if search.status != RUNNING:
            return
        if len(places) == PLACES_MAX:
            stop = min(stop, search.position + places[-1] + 1)
        try:
            if error is not None:
                raise error
            skip_to, search.looks_left = search.position, LOOKS_MAX
            for place in (search.position + place for place in places):
                if place >= skip_to and search.status == RUNNING:
                    skip_to = self._look_at(search, place)
                    if not search.looks_left:
                        stop = place
                        break
            begun = max(stop, skip_to) if search.status == RUNNING else skip_to
            search.scanned_bytes += stop - search.position
            search.position = begun
            if search.status == RUNNING:
                queue = search.store.queue
                search.next_offset = queue.first_offset_at(begun, search.next_offset, search.end_offset)
        except StorageError as exc:
            search.status, search.problem = FAILED, str(exc)
            return
        except Exception as exc:
            # A bug ends this search, and nothing else.
            logger.exception("search failed topic=%s channel=%s", search.store.name, search.channel.name)
            search.status, search.problem = FAILED, f"the search failed unexpectedly: {describe(exc)}"
            return
        self._go_on(search)

    def _look_at(self, search: _Search, place: int) -> int:
        """The text stands at a place of the log: note the messages of the record there that have it. Returns the
        position where to go on: behind that record; `place`, where no looks are left and the record has more messages;
        where the record is none of the topic's, at the topic's next one."""
        store = search.store
        behind = store.queue.first_offset_at(place + 1, search.next_offset, search.end_offset)
        before = store.offset_before(behind, 1)
        located = store.queue.locate(before) if before < behind else None
        if located is None or not located[0] <= place < sum(located):
            return store.needed_position_from(behind, search.end_position)
        batch = store.batch_at(before)
        if batch is None:
            return sum(located)
        needle = search.needle
        for offset in range(max(batch.first, search.looked_to), min(batch.end, search.end_offset)):
            if not search.looks_left:
                search.looked_to = offset
                return place
            search.looks_left -= 1
            body = batch.run.frame_at(offset - batch.first)[FRAME_HEADER_BYTES:]
            at = body.find(needle)
            if at < 0 or offset in batch.damaged:
                continue
            if len(search.hits) == HITS_MAX:
                search.status, search.next_offset = FULL, offset
                return located[0]
            self._note(search, offset, body, at)
        return sum(located)

    def _note(self, search: _Search, offset: int, body: bytes, at: int) -> None:
        log = log_messages_of(self._catalog.topics[search.store.name], search.channel)
        assert log is not None
        state = log.states_of([offset])[offset]
        if search.state in ("", state):
            around = body[max(0, at - AROUND_BYTES) : at + len(search.needle) + AROUND_BYTES]
            search.hits.append(SearchHit(log.row(offset, state), at, around))


def _places_in(data: bytes, needle: bytes) -> list[int]:
    """Where the text begins, at most PLACES_MAX times."""
    places: list[int] = []
    at = data.find(needle)
    while at >= 0 and len(places) < PLACES_MAX:
        places.append(at)
        at = data.find(needle, at + 1)
    return places
