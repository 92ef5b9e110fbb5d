"""Slows down who guesses secrets: the answer to a wrong one waits, the longer the more an address has sent."""

from collections import Counter, OrderedDict

from queue_engine.vocabulary.client_key import source_of
from queue_engine.vocabulary.clock import NS_PER_S, Clock

# Wrong secrets of one address that are answered at once: a program with an old secret on a few connections.
FREE_GUESSES = 5
DELAY_S_MIN = 0.1
DELAY_S_MAX = 5.0
# An address without a wrong secret for so long begins anew.
FORGOTTEN_AFTER_NS = 60 * NS_PER_S
ADDRESSES_MAX = 10_000


class Guesses:
    """Wrong secrets by address. counts: all of them since the start, by listener: "tcp" or "http"."""

    def __init__(self, clock: Clock) -> None:
        self.counts: Counter[str] = Counter(tcp=0, http=0)
        self._clock = clock
        self._of: OrderedDict[str, tuple[int, int]] = OrderedDict()  # source → how many, when the last one

    def note(self, remote_ip: str, listener: str) -> float:
        """Count a wrong secret; returns how long its answer waits, in seconds."""
        now_ns = self._clock.monotonic_ns()
        self.counts[listener] += 1
        source = source_of(remote_ip)
        count, last_ns = self._of.pop(source, (0, now_ns))
        count = 1 if now_ns - last_ns > FORGOTTEN_AFTER_NS else count + 1
        if len(self._of) >= ADDRESSES_MAX:
            self._of.popitem(last=False)
        self._of[source] = (count, now_ns)
        over = count - FREE_GUESSES
        # The power is cut first: of a million wrong secrets it would be a very long number.
        return 0.0 if over <= 0 else min(DELAY_S_MIN * 2 ** min(over - 1, 10), DELAY_S_MAX)
