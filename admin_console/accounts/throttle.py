"""Log-in attempts are slowed down before any password is hashed."""

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

FREE_ATTEMPTS_PER_ACCOUNT = 4  # per account and address: a few typing errors cost nothing
FREE_ATTEMPTS_PER_ADDRESS = 20  # per address, whatever the account: an office behind one address
WAIT_S_MAX = 900
FORGET_AFTER_S = 3600
ENTRIES_MAX = 20_000  # about 4 MB

HASHES_AT_ONCE = 2
HASH_QUEUE_S = 4.0


class TooBusyError(Exception):
    """Too many log-ins are being checked at this moment."""


@dataclass(slots=True)
class _Tally:
    attempts: int
    last_s: float


class LoginThrottle:
    """Counts attempts by account and address, and by address; each beyond the free ones doubles the wait.

    In memory and bounded: one process serves the console, and a restart forgives. An attempt counts as failed from
    its beginning, so that many at once do not slip through while the first is still being hashed. Thread-safe.
    """

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._tallies: OrderedDict[tuple[str, str], _Tally] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, account: str, address: str) -> int:
        """Count an attempt and return 0; or the seconds left to wait, when it comes too early and is not counted."""
        now_s = self._monotonic_s()
        with self._lock:
            keys = self._keys(account, address)
            wait_s = max(self._wait_s(key, free, now_s) for key, free in keys)
            if wait_s > 0:
                return int(wait_s) + 1
            for key, _ in keys:
                tally = self._tallies.pop(key, None)
                if tally is None or now_s - tally.last_s > FORGET_AFTER_S:
                    tally = _Tally(0, now_s)
                tally.attempts += 1
                tally.last_s = now_s
                self._tallies[key] = tally
            while len(self._tallies) > ENTRIES_MAX:
                self._tallies.popitem(last=False)
            return 0

    def succeeded(self, account: str, address: str) -> None:
        """The attempt was right: forget the account's failures, and take this one off the address's."""
        with self._lock:
            (by_account, _), (by_address, _) = self._keys(account, address)
            self._tallies.pop(by_account, None)
            if tally := self._tallies.get(by_address):
                tally.attempts = max(tally.attempts - 1, 0)

    @property
    def entry_count(self) -> int:
        return len(self._tallies)

    def forget_all(self) -> None:
        """Forgive everybody, as a restart does."""
        with self._lock:
            self._tallies.clear()

    def _wait_s(self, key: tuple[str, str], free: int, now_s: float) -> float:
        tally = self._tallies.get(key)
        if tally is None or tally.attempts < free:
            return 0
        wait_s = min(2.0 ** min(tally.attempts - free, 30), WAIT_S_MAX)
        return max(tally.last_s + wait_s - now_s, 0)

    @staticmethod
    def _keys(account: str, address: str) -> tuple[tuple[tuple[str, str], int], tuple[tuple[str, str], int]]:
        place = _place(address)
        return ((account[:64], place), FREE_ATTEMPTS_PER_ACCOUNT), (("", place), FREE_ATTEMPTS_PER_ADDRESS)


def _place(address: str) -> str:
    """An IPv6 client owns a whole /64: count that as one."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address[:64]
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


throttle = LoginThrottle()
_hashing = threading.BoundedSemaphore(HASHES_AT_ONCE)


@contextmanager
def hashing_turn(wait_s: float = HASH_QUEUE_S) -> Iterator[None]:
    """Hold one of the few turns for hashing. Raises TooBusyError when none comes free in `wait_s`."""
    if not _hashing.acquire(timeout=wait_s):
        raise TooBusyError
    try:
        yield
    finally:
        _hashing.release()
