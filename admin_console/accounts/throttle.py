"""Delays log-in attempts before any password is hashed; no delay shuts a user out.

A browser that has logged in under a name has its own line for that name. Attempts of other browsers pass three
lines: that of the name at their address, that of the address, and that of the name. In the first the waits double, up
to a minute. The other two give each attempt a time of its own, one after the other; an attempt that comes at its time
is checked, however many others come:

    line              free attempts   then one each          a place in the line belongs to
    browser and name        4         1, 2, 4 s … 15 min     the browser
    name and address        4         1, 2, 4 s … 60 s       the two
    address                20         second                 a name
    name                   10         1, 2, 4, 5 s           an address
"""

import ipaddress
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from admin_console.pacing.pace import PACE

FORGET_AFTER_S = 3600
ENTRIES_MAX = 20_000  # lines; about 6 MB
# Places in one line; a place that is not used within this time is given up.
PLACES_MAX = 64
PLACE_UNUSED_S_MAX = 60.0
# A wait of at most this length that others caused is spent in the server; the user notices a slow log-in.
HOLD_S_MAX = 2.0
HELD_MAX = 16  # a thread each


@dataclass(frozen=True, slots=True)
class Rule:
    """free: attempts without a wait. Each later one is followed by a wait of 1, 2, 4 … `wait_s_max` seconds."""

    free: int
    wait_s_max: float

    def wait_s(self, attempts: int) -> float:
        """The wait after so many attempts, until the next one."""
        return 0.0 if attempts < self.free else min(2.0 ** min(attempts - self.free, 30), self.wait_s_max)


BROWSER = Rule(free=4, wait_s_max=900)
NAME_AT_ADDRESS = Rule(free=4, wait_s_max=60)
ADDRESS = Rule(free=20, wait_s_max=1)
NAME = Rule(free=10, wait_s_max=5)


@dataclass(slots=True)
class _Line:
    attempts: int = 0
    last_s: float = 0.0
    next_s: float = 0.0  # the first time that no place has
    places: dict[str, float] = field(default_factory=dict)  # holder → the time given


@dataclass(frozen=True, slots=True)
class _Key:
    """One line that an attempt passes, and its holder there. is_own: only the user's own attempts fill the line."""

    rule: Rule
    name: str
    network: str
    holder: str
    is_own: bool


class LoginThrottle:
    """The lines of all names, addresses and browsers.

    In memory and bounded: one process serves the console, and a restart forgives. An attempt counts as failed from
    its beginning, so that many at once do not slip through while the first is still being hashed. Thread-safe.
    """

    def __init__(
        self, monotonic_s: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._monotonic_s = monotonic_s
        self._sleep = sleep
        self._lines: OrderedDict[tuple[str, str], _Line] = OrderedDict()
        self._lock = threading.Lock()
        self._holding = threading.BoundedSemaphore(HELD_MAX)

    def begin(self, name: str, address: str, browser: str = "") -> int:
        """Count an attempt and return 0; for an attempt that comes too early, return the seconds to wait.

        browser: the id of a browser that has logged in under this name, "" for others. A short wait that others have
        caused is spent here.
        """
        wait_s, is_own = self._begin(name, address, browser)
        if 0 < wait_s <= HOLD_S_MAX and not is_own and self._holding.acquire(blocking=False):
            try:
                self._sleep(wait_s)
            finally:
                self._holding.release()
            wait_s, _ = self._begin(name, address, browser)
        return math.ceil(wait_s)

    def succeeded(self, name: str, address: str, browser: str = "") -> None:
        """The password was right: drop the user's own failures, and take this attempt off the other lines."""
        with self._lock:
            for key in _keys(name, address, browser):
                if key.is_own:
                    self._lines.pop((key.name, key.network), None)
                elif line := self._lines.get((key.name, key.network)):
                    line.attempts = max(line.attempts - 1, 0)

    def not_checked(self, name: str, address: str, browser: str = "") -> None:
        """The server was too busy for the attempt: it is none of the user's own failures. The other lines count it, so
        that a flood stays slow."""
        with self._lock:
            for key in _keys(name, address, browser):
                line = self._lines.get((key.name, key.network))
                if key.is_own and line is not None:
                    line.attempts = max(line.attempts - 1, 0)
                    line.next_s = line.last_s

    def _begin(self, name: str, address: str, browser: str) -> tuple[float, bool]:
        """Seconds to wait, 0 when the attempt is counted; and whether the user's own attempts are the reason."""
        with self._lock:
            now_s = self._monotonic_s()
            keys = _keys(name, address, browser)
            lines = [self._line(key, now_s) for key in keys]
            wait_s = 0.0
            for key, line in zip(keys, lines, strict=True):
                line_wait_s = _wait_s(line, key, now_s)
                if line_wait_s > 0 and key.is_own:
                    return line_wait_s, True  # without a place in a line that others wait in
                wait_s = max(wait_s, line_wait_s)
            if wait_s > 0:
                return wait_s, False
            for key, line in zip(keys, lines, strict=True):
                line.attempts += 1
                line.last_s = now_s
                line.places.pop(key.holder, None)
                line.next_s = max(line.next_s, now_s + key.rule.wait_s(line.attempts))
            return 0.0, False

    def _line(self, key: _Key, now_s: float) -> _Line:
        """The line, newest last; a new one where it was empty for an hour."""
        found = self._lines.pop((key.name, key.network), None)
        if found is None or now_s - found.last_s > FORGET_AFTER_S:
            found = _Line(last_s=now_s)
        self._lines[key.name, key.network] = found
        while len(self._lines) > ENTRIES_MAX:
            self._lines.popitem(last=False)
        return found


def _wait_s(line: _Line, key: _Key, now_s: float) -> float:
    """The wait until the holder's place. A holder that has to wait gets a place, and keeps it at further attempts."""
    if line.attempts < key.rule.free:
        return 0.0
    given_s = line.places.get(key.holder)
    if given_s is None:
        if line.next_s <= now_s:
            return 0.0
        if len(line.places) >= PLACES_MAX:
            line.places = {holder: at_s for holder, at_s in line.places.items() if now_s - at_s < PLACE_UNUSED_S_MAX}
        given_s = line.next_s
        if len(line.places) < PLACES_MAX:
            line.places[key.holder] = given_s
            line.next_s += key.rule.wait_s(line.attempts)
    return max(given_s - now_s, 0.0)


def _keys(name: str, address: str, browser: str) -> tuple[_Key, ...]:
    name, network = name[:64], _network(address)
    if browser:
        return (_Key(BROWSER, name, f"browser {browser}", "", is_own=True),)
    return (
        _Key(NAME_AT_ADDRESS, name, network, "", is_own=True),
        _Key(ADDRESS, "", network, name, is_own=False),
        _Key(NAME, name, "", network, is_own=False),
    )


def _network(address: str) -> str:
    """The address; for IPv6 its /64 network, all of which one client may use."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address[:64] or "unknown"
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


def _sleep(seconds: float) -> None:
    with PACE.away():
        time.sleep(seconds)


throttle = LoginThrottle(sleep=_sleep)
