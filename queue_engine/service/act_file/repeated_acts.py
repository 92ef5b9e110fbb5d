"""Counts repeated acts of one source: a flood of them becomes a few rows, not a row for each.

Two kinds are counted, in the console's audit list and in the file of acts alike. Failures (a missing token, a missing
topic, a foreign page): five from an address are rows at once; those that follow within a minute are counted, and become
one row when the minute is over. Looks and moves of readers, and creations of topics that exist: the first is a row at
once, further ones within ten minutes become one row. Each change is a row of its own. Open counts are in memory: a kill
loses them.
"""

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from queue_engine.delivery.stats import ActRecord

SEVERAL = "several addresses"


@dataclass(frozen=True, slots=True)
class RepeatLimits:
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
FAILURE = RepeatLimits(5, 60, 100, 60.0, "failed within a minute")
ROUTINE = RepeatLimits(1, 1_000, 1_000, 600.0, "within ten minutes")
LOOK_ACTION = "read_messages"
# Readers repeat these all the time.
ROUTINE_ACTIONS = frozenset({LOOK_ACTION, "move_cursor", "release_lease"})


def limits_of(act: ActRecord) -> RepeatLimits | None:
    """The kind by which an act is counted; None for acts that each get a row."""
    if act.act_id:
        return None  # one of an act's two rows
    if not act.is_done:
        return FAILURE
    is_fleeting = act.action.startswith("create_") and f"{act.topic}{act.channel}".endswith("#ephemeral")
    return ROUTINE if act.action in ROUTINE_ACTIONS or is_fleeting or not act.is_change else None


@dataclass(frozen=True, slots=True)
class Source:
    """The source of acts, and their topic or channel: a window counts one source. who: "" for every user."""

    via: str
    address: str
    action: str
    topic: str = ""
    channel: str = ""
    who: str = ""


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


DigestT = TypeVar("DigestT")


@dataclass(slots=True)
class Window(Generic[DigestT]):
    """Acts of one source within the time of its kind. digest: the counted acts, for the sink's row."""

    kind: RepeatLimits
    began_s: float
    digest: DigestT
    seen: int = 0
    counted: int = 0
    is_one_source: bool = True


class RepeatedActs(Generic[DigestT]):
    """The open windows of one sink, which calls from one thread at a time. All times are monotonic seconds."""

    def __init__(self, make_digest: Callable[[], DigestT]) -> None:
        self._make_digest = make_digest
        self._windows: dict[Source, Window[DigestT]] = {}
        self._open_counts: Counter[RepeatLimits] = Counter()
        self._at_once: dict[RepeatLimits, tuple[float, int]] = {}  # since when, and how many rows

    def count(self, kind: RepeatLimits, source: Source, now_s: float) -> DigestT | None:
        """Count an act if it is a repeat: returns the digest that takes it. None: the act gets a row of its own.

        source: with its address as it came. Of failures the topic and channel are left out."""
        topic, channel = ("", "") if kind is FAILURE else (source.topic, source.channel)
        key = Source(source.via, source_of(source.address), source.action, topic, channel, source.who)
        window = self._windows.get(key)
        if window is None and self._open_counts[kind] >= kind.windows_max:
            key = Source(source.via, SEVERAL, source.action, who=source.who)
            window = self._windows.get(key)
        if window is None:
            is_one_source = key.address != SEVERAL
            window = self._windows[key] = Window(kind, now_s, self._make_digest(), is_one_source=is_one_source)
            self._open_counts[kind] += 1
        window.seen += 1
        if window.is_one_source and window.seen <= kind.rows_at_once and self._may_be_a_row(kind, now_s):
            return None
        window.counted += 1
        return window.digest

    def _may_be_a_row(self, kind: RepeatLimits, now_s: float) -> bool:
        since_s, count = self._at_once.get(kind, (now_s, 0))
        if now_s - since_s >= kind.window_s:
            since_s, count = now_s, 0
        self._at_once[kind] = (since_s, min(count + 1, kind.rows_at_once_max))
        return count < kind.rows_at_once_max

    def closed(self, now_s: float, *, is_last: bool = False) -> Iterator[Window[DigestT]]:
        """Close the windows that are over, all with is_last; yields those that counted something."""
        over = [key for key, one in self._windows.items() if is_last or now_s - one.began_s >= one.kind.window_s]
        for key in over:
            one = self._windows.pop(key)
            if one.counted and one.kind.goes_on:
                self._windows[key] = Window(
                    one.kind, now_s, self._make_digest(), one.kind.rows_at_once, is_one_source=one.is_one_source
                )
            else:
                self._open_counts[one.kind] -= 1
            if one.counted:
                yield one
