"""The parts of lists of single messages, and the results of acts on them. Plain data.

A message of a channel is in one of these states:

    waiting      it is delivered when a consumer has room
    in_flight    a consumer holds it until its deadline
    deferred     it is not delivered before its due time
    quarantined  it was set aside, and is not delivered
    finished     it is never delivered again; emptied, and passed over by a rewind, included
"""

from collections.abc import Mapping
from dataclasses import dataclass

from queue_engine.vocabulary.errors import LimitError, RequestError

WAITING = "waiting"
IN_FLIGHT = "in_flight"
DEFERRED = "deferred"
QUARANTINED = "quarantined"
FINISHED = "finished"
STATES = (WAITING, IN_FLIGHT, DEFERRED, QUARANTINED, FINISHED)

IN_ORDER = ""
BY_ATTEMPTS = "attempts"
BY_AGE = "age"
SORTS = (IN_ORDER, BY_ATTEMPTS, BY_AGE)

ROWS_MAX = 100
IDS_MAX = 1_000
PREVIEW_BYTES_MAX = 1_024
# A page looks at so many messages at most: where it sorts or filters, the rest is left out.
SCANNED_MAX = 10_000
# A page reads so many bytes of records: rows whose record is beyond them have neither time nor size.
PAGE_BYTES_MAX = 8 << 20
UNREAD = (
    f"it was not read: a page reads {PAGE_BYTES_MAX >> 20} MiB of records, and the one that it was published in is "
    "larger than the rest of them; request a page that begins with it"
)


class InvalidQueryError(RequestError):
    """A parameter of a list of messages is wrong; the text names it, its value and the possible values."""

    code = "INVALID_REQUEST"


class MessageNotFoundError(RequestError):
    """The channel has no such message, or it can't be looked up; the text says which."""

    code = "MESSAGE_NOT_FOUND"


@dataclass(frozen=True, slots=True)
class MessageQuery:
    """Which messages of a channel, and in which order.

    sort: IN_ORDER is the order of delivery, of deadlines, of due times, and the newest first of finished ones;
    BY_ATTEMPTS the most first; BY_AGE the oldest first. after: `next_cursor` of the page before. first_offset,
    end_offset: offsets from the one up to but not including the other. since_ns, until_ns: the same of publish times,
    Unix ns. key: only messages with this key, the newest first, on the log alone; of no bytes for all.
    preview_bytes: so much of each body comes with its row; 0 for none.
    """

    state: str = WAITING
    sort: str = IN_ORDER
    after: str = ""
    limit: int = 50
    first_offset: int | None = None
    end_offset: int | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    attempts_min: int = 0
    key: bytes = b""
    preview_bytes: int = 0

    def check(self) -> None:
        """Raises InvalidQueryError or LimitError."""
        if self.state not in STATES:
            raise InvalidQueryError(f"state={self.state} can be {', '.join(STATES)}")
        if self.sort not in SORTS:
            raise InvalidQueryError(f"sort={self.sort} can be {BY_ATTEMPTS} or {BY_AGE}")
        if self.sort == BY_ATTEMPTS and self.state == FINISHED:
            raise InvalidQueryError(
                f"sort={BY_ATTEMPTS}: the log does not store how often finished messages were delivered"
            )
        if self.key and self.sort:
            raise InvalidQueryError(f"sort={self.sort}: messages with a key are listed with the newest first")
        for name, value, most in (
            ("limit", self.limit, ROWS_MAX),
            ("preview_bytes", self.preview_bytes, PREVIEW_BYTES_MAX),
        ):
            if not 0 <= value <= most:
                raise LimitError(f"{name}={value} is above {most}" if value > most else f"{name}={value} is below 0")

    @property
    def has_filter(self) -> bool:
        bounds = (self.first_offset, self.end_offset, self.since_ns, self.until_ns)
        return self.attempts_min > 0 or any(bound is not None for bound in bounds)


@dataclass(frozen=True, slots=True)
class Returned:
    """How one delivery of a message ended: when, Unix ns; how, in words; and whose it was, "" when unknown."""

    time_ns: int
    reason: str
    consumer: str


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One message of a channel. attempts: deliveries made, the present one included.

    offset: None where the storage kind has none. published_at_ns: Unix; None where it was not read, as body_bytes.
    key: of no bytes for none. body_start: its first bytes, as many as were wanted.

    In flight: client_key names the connection, client_id and client_address are "" when it is gone; deadline_ms and
    held_ms: until its timeout, and since its delivery; touches: TOUCHes by its consumer. Deferred:
    due_at_ns, Unix. Quarantined: quarantined_at_ns, Unix; reason: how its last delivery ended, or that an operator did
    it. history: how the last deliveries ended, oldest first, as far as recorded. problem: why it can't be read, ""
    for nothing.
    """

    state: str
    message_id: str
    offset: int | None = None
    attempts: int = 0
    published_at_ns: int | None = None
    body_bytes: int | None = None
    key: bytes = b""
    body_start: bytes = b""
    client_key: int | None = None
    client_id: str = ""
    client_address: str = ""
    deadline_ms: int | None = None
    held_ms: int | None = None
    touches: int = 0
    due_at_ns: int | None = None
    quarantined_at_ns: int | None = None
    reason: str = ""
    history: tuple[Returned, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class MessageRows:
    """A page of messages of one state. counts: of each state, None where it is unknown.

    next_cursor: `after` of the next page, "" at the end. is_bounded: messages were left out, since a page looks at
    SCANNED_MAX at most; the rows are the best of those. note: the messages that can't be listed, a sentence; "" for
    none. topic_number, channel_number: others of the same names have others.
    """

    topic: str
    channel: str
    storage: str
    state: str
    rows: tuple[MessageRow, ...]
    counts: Mapping[str, int | None]
    next_cursor: str = ""
    is_bounded: bool = False
    note: str = ""
    topic_number: int = 0
    channel_number: int = 0


@dataclass(frozen=True, slots=True)
class OneMessage:
    """A message with its whole body. due_at_publish_ns: until when it was published to be deferred, Unix; 0 for not."""

    topic: str
    channel: str
    storage: str
    row: MessageRow
    body: bytes
    due_at_publish_ns: int = 0


# The states of a search.
RUNNING = "running"
AT_END = "at_end"  # all that was to be looked at was
FULL = "full"  # it has HITS_MAX hits
BOUNDED = "bounded"  # it has read SEARCH_BYTES_MAX
CANCELLED = "cancelled"  # by a request, or since no request read it any more
FAILED = "failed"

HITS_MAX = 100
SEARCH_BYTES_MAX = 4 << 30
TEXT_BYTES_MAX = 1_024
AROUND_BYTES = 80


class SearchNotFoundError(RequestError):
    """There is no such search: it never was, or ended long ago."""

    code = "SEARCH_NOT_FOUND"


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A message whose body has the text. row: as it was when it was found. at: where in the body the text begins first;
    around: that part of the body, with AROUND_BYTES before and behind it."""

    row: MessageRow
    at: int
    around: bytes


@dataclass(frozen=True, slots=True)
class SearchState:
    """A search for a text in the bodies of a channel's messages, as far as it is.

    status: RUNNING, or why it ended. first_offset, next_offset, end_offset: where it began, where it is and, FULL or
    BOUNDED, where another search would go on, and where it ends. message_count: messages passed; message_total: those
    that it was to pass. scanned_bytes: read of the log, other topics' share included. problem: why it FAILED.
    """

    search_id: str
    topic: str
    channel: str
    text: str
    state: str
    status: str
    first_offset: int
    next_offset: int
    end_offset: int
    message_count: int
    message_total: int
    scanned_bytes: int
    hits: tuple[SearchHit, ...] = ()
    problem: str = ""


# Why an act did nothing to a message.
NOT_FOUND = "MESSAGE_NOT_FOUND"
FINISHED_ALREADY = "FINISHED_ALREADY"
NOT_IN_FLIGHT = "NOT_IN_FLIGHT"
NOT_DEFERRED = "NOT_DEFERRED"
NOT_PASSED_ON = "NOT_PASSED_ON"
QUARANTINED_NOW = "QUARANTINED"
NOT_QUARANTINED = "NOT_QUARANTINED"
QUARANTINE_FULL = "QUARANTINE_FULL"
TOO_BIG = "MSG_TOO_BIG"
BODY_LOST = "BODY_LOST"


@dataclass(frozen=True, slots=True)
class Listed:
    """Rows of a page as a storage kind lists them, without their consumers."""

    rows: tuple[MessageRow, ...]
    next_cursor: str = ""
    is_bounded: bool = False
    note: str = ""
