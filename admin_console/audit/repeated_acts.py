"""Counts repeated acts of one source: a flood of them becomes a few rows, not a row for each.

Three kinds are counted. Failures (a wrong password, a missing token, a missing topic, a foreign page): five from
an address are rows at once; those that follow within a minute are counted, and become one row when the minute is over.
Looks and moves of readers, and creations of topics that exist: the first is a row at once, further ones within ten
minutes become one row. Looks of a user of the console at messages of one topic or channel: the first is a row at once,
further ones become one row a minute for as long as the user goes on; after a minute without a look the next one is a
row at once again. Each act that a person does, and each change over the HTTP API, is a row of its own. Open counts
are in memory: a kill loses them.

A row of counted looks has in `counts`: times, messages, first_ms and last_ms (Unix milliseconds of the first and the
last look that it counts) and, for looks in the console, first_offset and last_offset (least and greatest offset shown).
"""

import ipaddress
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime

from admin_console.audit.http_act import HttpAct
from admin_console.audit.models import AuditRow, Phase, Verdict
from admin_console.audit.record import now_ms

NAMES_SHOWN = 10
SEVERAL = "several addresses"


@dataclass(frozen=True, slots=True)
class Kind:
    """The limits of one kind: `rows_at_once` rows of a source in its window at once, its other acts in one row later.

    windows_max: sources that are counted on their own; further sources are counted together, by action.
    rows_at_once_max: rows at once of all sources together in the time of a window.
    goes_on: a window that counted something is followed by the next one, whose acts are all counted.
    """

    rows_at_once: int
    rows_at_once_max: int
    windows_max: int
    window_s: float
    words: str  # "{} more …"
    goes_on: bool = False


# Guesses that come from a thousand addresses add some 160 rows a minute, and not one for each.
FAILURE = Kind(5, 60, 100, 60.0, "failed within a minute")
ROUTINE = Kind(1, 1_000, 1_000, 600.0, "within ten minutes")
LOOK = Kind(1, 1_000, 1_000, 60.0, "within a minute", goes_on=True)
LOOK_ACTION = "read_messages"
# Readers repeat these all the time.
ROUTINE_ACTIONS = frozenset({LOOK_ACTION, "move_cursor", "release_lease"})

_Key = tuple[str, ...]


@dataclass(slots=True)
class _Window:
    kind: Kind
    began_s: float
    seen: int = 0
    counted: int = 0
    looks: "_Looks | None" = None
    last: HttpAct | AuditRow | None = None
    names: dict[str, None] = field(default_factory=dict)  # users, topics and channels that were tried
    actors: dict[str, None] = field(default_factory=dict)
    is_one_source: bool = True


@dataclass(slots=True)
class _Looks:
    """What the counted looks of a window showed."""

    first_ms: int
    last_ms: int = 0
    message_count: int = 0
    first_offset: int | None = None
    last_offset: int = -1
    details: dict[str, None] = field(default_factory=dict)

    def add(self, act: HttpAct | AuditRow) -> None:
        self.last_ms = act.at_ms
        # The engine counts messages that an act is about as `depth`.
        self.message_count += act.counts.get("messages", act.counts.get("depth", 0))
        if (first := act.counts.get("first_offset")) is not None:
            self.first_offset = first if self.first_offset is None else min(self.first_offset, first)
            self.last_offset = max(self.last_offset, act.counts["last_offset"])
        if isinstance(act, AuditRow) and act.detail and len(self.details) <= NAMES_SHOWN:
            self.details[act.detail] = None

    def counts(self) -> dict[str, int]:
        found = {"messages": self.message_count, "first_ms": self.first_ms, "last_ms": self.last_ms}
        if self.first_offset is not None:
            found |= {"first_offset": self.first_offset, "last_offset": self.last_offset}
        return found

    def times(self) -> str:
        """For a sentence: when the first and the last look were."""
        first, last = (datetime.fromtimestamp(at_ms / 1000, UTC) for at_ms in (self.first_ms, self.last_ms))
        return f"{first:%Y-%m-%d %H:%M:%S} UTC to {last:%Y-%m-%d %H:%M:%S} UTC"


class RepeatedActs:
    """The open windows, guarded by the lock of the writer that owns them. All times are monotonic seconds."""

    def __init__(self) -> None:
        self._windows: dict[_Key, _Window] = {}
        self._open_counts: Counter[Kind] = Counter()
        self._at_once: dict[Kind, tuple[float, int]] = {}  # since when, and how many rows

    def take(self, act: HttpAct | AuditRow, now_s: float) -> bool:
        """Count the act if it is a repeat; whether it was counted. If not, the act gets a row of its own."""
        kind = kind_of(act)
        if kind is None:
            return False
        who = (act.actor,) if kind is LOOK and isinstance(act, AuditRow) else ()
        place = ("", "") if kind is FAILURE else (act.topic, act.channel)
        key: _Key = (act.via, source_of(act.address), act.action, *place, *who)
        window = self._windows.get(key)
        if window is None and self._open_counts[kind] >= kind.windows_max:
            key = (act.via, SEVERAL, act.action, "", "", *who)
            window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = _Window(kind, now_s, is_one_source=key[1] != SEVERAL)
            self._open_counts[kind] += 1
        window.seen += 1
        if window.is_one_source and window.seen <= kind.rows_at_once and self._may_be_a_row(kind, now_s):
            return False
        window.counted += 1
        window.last = act
        if act.action == LOOK_ACTION and kind is not FAILURE:
            if window.looks is None:
                window.looks = _Looks(act.at_ms)
            window.looks.add(act)
        name = _name_of(act)
        if name and len(window.names) <= NAMES_SHOWN:
            window.names[name] = None
        if isinstance(act, AuditRow) and act.actor and len(window.actors) <= NAMES_SHOWN:
            window.actors[act.actor] = None
        return True

    def _may_be_a_row(self, kind: Kind, now_s: float) -> bool:
        since_s, count = self._at_once.get(kind, (now_s, 0))
        if now_s - since_s >= kind.window_s:
            since_s, count = now_s, 0
        self._at_once[kind] = (since_s, min(count + 1, kind.rows_at_once_max))
        return count < kind.rows_at_once_max

    def close_windows(self, now_s: float, *, is_last: bool = False) -> list[AuditRow]:
        """Close the windows that are over, all with is_last; their rows."""
        over = [key for key, one in self._windows.items() if is_last or now_s - one.began_s >= one.kind.window_s]
        rows = []
        for key in over:
            one = self._windows.pop(key)
            if one.counted:
                rows.append(_row_of(one))
            if one.counted and one.kind.goes_on:
                seen = one.kind.rows_at_once
                self._windows[key] = _Window(one.kind, now_s, seen=seen, is_one_source=one.is_one_source)
            else:
                self._open_counts[one.kind] -= 1
        return rows


def kind_of(act: HttpAct | AuditRow) -> Kind | None:
    """The kind by which an act is counted; None for acts that each get a row."""
    if isinstance(act, AuditRow):
        if act.phase == Phase.REFUSED or (act.phase == Phase.EVENT and act.verdict == Verdict.FAILED):
            return FAILURE
        return LOOK if act.phase == Phase.EVENT and act.action == LOOK_ACTION else None
    if act.act_id:
        return None  # one of an act's two rows
    if not act.is_done:
        return FAILURE
    is_fleeting = act.action.startswith("create_") and f"{act.topic}{act.channel}".endswith("#ephemeral")
    return ROUTINE if act.action in ROUTINE_ACTIONS or is_fleeting or not act.is_change else None


def source_of(address: str) -> str:
    """The address without its port; for IPv6 the /64 network, all of which one client may use."""
    host = address
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        parsed = ipaddress.ip_address(host)
    except ValueError:
        return host[:64]
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


def _name_of(act: HttpAct | AuditRow) -> str:
    if act.topic:
        return f"{act.topic}/{act.channel}" if act.channel else act.topic
    return act.actor if isinstance(act, AuditRow) else ""


def _row_of(window: _Window) -> AuditRow:
    last = window.last
    assert last is not None
    row = last if isinstance(last, AuditRow) else last.row()
    message = f"{window.counted:,} more {window.kind.words}"
    if window.looks is not None:
        message += f", {window.looks.times()}"
    names = list(window.names)
    if window.kind is FAILURE and names:
        message += f", for {_some(names)}"
    is_one_actor = len(window.actors) <= 1
    if not is_one_actor and window.actors.keys() != window.names.keys():
        message += f", by {_some(list(window.actors))}"
    message += f". The last: {row.message}" if row.message else "."
    counts = {"times": window.counted}
    detail = row.detail
    if window.looks is not None:
        counts |= window.looks.counts()
        detail = _some(list(window.looks.details))[:200]
    is_one_name = len(names) <= 1
    return AuditRow(
        act_id=row.act_id,
        phase=row.phase,
        at_ms=now_ms(),
        actor=row.actor if is_one_actor else "",
        role=row.role if is_one_actor else "",
        address=source_of(row.address)[:64] if window.is_one_source else SEVERAL,
        via=row.via,
        action=row.action,
        topic=row.topic if is_one_name else "",
        channel=row.channel if is_one_name else "",
        detail=detail if is_one_name else "",
        verdict=row.verdict,
        message=message[:500],
        counts=counts,
    )


def _some(names: list[str]) -> str:
    return ", ".join(names[:NAMES_SHOWN]) + (" and others" if len(names) > NAMES_SHOWN else "")
