"""A line of the list of messages: the facts about a message in its state, as text, body and key where the user may see
them.

Times to come are given twice, as text and in milliseconds from now: a script counts them down.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from admin_console.gateway.gateway import MessageRow
from admin_console.messages.bodies import Body
from admin_console.messages.states import DEFERRED, FINISHED, IN_FLIGHT, QUARANTINED, WAITING, State
from admin_console.messages.visible import visible
from admin_console.vocabulary import units

_ATTEMPTS_HIGH = 5  # as in the list of messages in flight on a channel's page
_KEY_CHARACTERS_MAX = 40
_BETWEEN_ENDINGS = "; "


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    label: str
    is_number: bool = True


@dataclass(frozen=True, slots=True)
class Fact:
    """A cell. title: the exact value, or ""; left_ms: until it is due, None where nothing is."""

    column: Column
    text: str
    title: str = ""
    tone: str = ""
    left_ms: int | None = None

    @property
    def css(self) -> str:
        tone = f" tone-{self.tone}" if self.tone else ""
        return f"{'number' if self.column.is_number else 'text'}{tone}{' blank' if self.text == '–' else ''}"

    @property
    def endings(self) -> list[str]:
        """How several deliveries ended, the last one first; too long for a line. Empty for any other title."""
        found = self.title.split(_BETWEEN_ENDINGS)
        return found[::-1] if self.column.name in ("attempts", "why") and len(found) > 1 else []


@dataclass(frozen=True, slots=True)
class MessageLine:
    """One message on a page.

    state: None on the page of a topic. url: its own page. body: None where it may not be seen, or can't be read, and
    problem says why. body_url: the body as a file; whole_url: where more of it is shown. result: of an act on it, a
    sentence. note: a remark.
    """

    message_id: str
    state: State | None
    url: str
    offset: int | None
    facts: tuple[Fact, ...]
    body: Body | None = None
    body_url: str = ""
    whole_url: str = ""
    is_chosen: bool = False
    result: str = ""
    problem: str = ""
    note: str = ""


_COLUMN_LIST = (
    Column("attempts", "Attempts"),
    Column("owner", "Held by", is_number=False),
    Column("deadline", "Times out in"),
    Column("held", "Held"),
    Column("touches", "Touches"),
    Column("due", "Due in"),
    Column("why", "Why", is_number=False),
    Column("set_aside", "Quarantined"),
    Column("size", "Size"),
    Column("age", "Published"),
    Column("key", "Key", is_number=False),
)
NODE_COLUMN = Column("node", "Node", is_number=False)  # in a list of the messages of several nodes
COLUMNS = {column.name: column for column in _COLUMN_LIST}
# The columns of each state's table, in their order.
_NAMES_OF = {
    WAITING: ("attempts", "size", "age", "key"),
    IN_FLIGHT: ("owner", "attempts", "deadline", "held", "touches", "size", "age", "key"),
    DEFERRED: ("attempts", "due", "size", "age", "key"),
    QUARANTINED: ("why", "attempts", "set_aside", "size", "age", "key"),
    FINISHED: ("size", "age", "key"),
}


def columns_of(state: str, *, with_key: bool) -> tuple[Column, ...]:
    """with_key: for a user who may see contents."""
    return tuple(COLUMNS[name] for name in _NAMES_OF[state] if with_key or name != "key")


def published_facts(body_bytes: int, published_ns: int, key: bytes, now_ns: int) -> tuple[Fact, ...]:
    """The cells of a message of a topic, which has no states."""
    row = MessageRow(FINISHED, "", published_at_ns=published_ns, body_bytes=body_bytes, key=key)
    return facts_of(row, now_ns, with_key=True)


def facts_of(row: MessageRow, now_ns: int, *, with_key: bool) -> tuple[Fact, ...]:
    """The cells of a message in the columns of its state. now_ns: Unix."""
    return tuple(_fact(column, row, now_ns) for column in columns_of(row.state, with_key=with_key))


def _fact(column: Column, row: MessageRow, now_ns: int) -> Fact:
    match column.name:
        case "attempts":
            ends = "" if row.state == QUARANTINED else _history(row)
            return Fact(column, units.number(row.attempts), ends, "warning" if row.attempts > _ATTEMPTS_HIGH else "")
        case "owner":
            return Fact(column, _owner(row))
        case "deadline":
            return _countdown(column, row.deadline_ms)
        case "held":
            return Fact(column, units.UNKNOWN if row.held_ms is None else units.duration(row.held_ms / 1000))
        case "touches":
            return Fact(column, units.number(row.touches))
        case "due":
            return _countdown(column, None if row.due_at_ns is None else (row.due_at_ns - now_ns) // 1_000_000)
        case "why":
            return Fact(column, row.reason or units.UNKNOWN, _history(row))
        case "set_aside":
            return _age(column, row.quarantined_at_ns, now_ns)
        case "size":
            size = row.body_bytes
            return Fact(column, units.byte_count(size), "" if size is None or size < 1_024 else f"{size:,} bytes")
        case "age":
            return _age(column, row.published_at_ns, now_ns)
        case "key":
            text = visible(row.key.decode("utf-8", "replace"))
            short = text if len(text) <= _KEY_CHARACTERS_MAX else f"{text[:_KEY_CHARACTERS_MAX]}…"
            return Fact(column, short or units.UNKNOWN, text if short != text else "")
    raise AssertionError(column.name)


def _owner(row: MessageRow) -> str:
    """As a channel's page names its consumers."""
    if row.client_key is None:
        return units.UNKNOWN
    if not row.client_address:
        return f"consumer {row.client_key}, gone"
    return visible(f"{row.client_id} {row.client_address}".strip())


def _history(row: MessageRow) -> str:
    """How the last deliveries ended, oldest first."""
    ends = (f"{utc(one.time_ns)} UTC {one.reason}{f' · {one.consumer}' if one.consumer else ''}" for one in row.history)
    return visible(_BETWEEN_ENDINGS.join(ends))


def _countdown(column: Column, left_ms: int | None) -> Fact:
    if left_ms is None:
        return Fact(column, units.UNKNOWN)
    if left_ms <= 0:
        return Fact(column, "due now", tone="warning" if column.name == "deadline" else "")
    return Fact(column, units.duration(left_ms / 1000), left_ms=left_ms)


def _age(column: Column, published_ns: int | None, now_ns: int) -> Fact:
    if published_ns is None:
        return Fact(column, units.UNKNOWN)
    return Fact(column, f"{units.duration((now_ns - published_ns) / 1e9)} ago", f"{utc(published_ns)} UTC")


def utc(time_ns: int) -> str:
    """A moment in UTC to the millisecond: 2026-03-01 14:30:05.123."""
    at = datetime.fromtimestamp(time_ns / 1e9, UTC)
    return at.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "")
