"""How much a channel may deliver while its ramp lasts: little at first, ever more, and all when it ends.

Of the messages that wait when the ramp begins, the share (t / T)² may be delivered t after its beginning, T being its
length: the rate
grows evenly from nothing to twice its mean. Later messages are shared out the same way: a step from t to u
allows (u² - t²) / (T² - t²) of the depth then. So a ramp needs no memory of its deliveries, and goes on after a
restart.
"""

from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S
from queue_engine.vocabulary.flow.pause import Ramp

# At least so many messages a second, so that a channel with little to deliver does not stand still.
RATE_MIN = 1.0
# Unused credit adds up for so long: consumers that come late get no burst.
HOARD_NS = NS_PER_S


class RampPace:
    """The pace of one ramp of one channel. ramp: by the wall clock, which reads wall_ms while the monotonic clock reads
    now_ns."""

    def __init__(self, ramp: Ramp, wall_ms: int, now_ns: int) -> None:
        length_ms = max(ramp.until_ms - ramp.from_ms, 1)
        elapsed_ms = min(max(wall_ms - ramp.from_ms, 0), length_ms)  # the clock may have been set
        self._length_ns = length_ms * NS_PER_MS
        self._began_ns = now_ns - elapsed_ms * NS_PER_MS
        self._at_ns = now_ns
        self._credit = 1.0

    def is_over(self, now_ns: int) -> bool:
        return now_ns - self._began_ns >= self._length_ns

    def allowance(self, depth: int, now_ns: int) -> int:
        """How many of `depth` waiting messages may be sent now."""
        if self.is_over(now_ns):
            return depth
        now = now_ns - self._began_ns
        earliest = max(now - HOARD_NS, 0)
        since = max(self._at_ns - self._began_ns, earliest)
        earned = max(depth * self._share(since, now), RATE_MIN * (now - since) / NS_PER_S)
        most = max(depth * self._share(earliest, now), 1.0)
        self._credit = min(self._credit + earned, most)
        self._at_ns = now_ns
        return min(int(self._credit), depth)

    def _share(self, since: int, now: int) -> float:
        """The share of the waiting messages that the ramp allows between two times, counted from its beginning."""
        return (now * now - since * since) / (self._length_ns * self._length_ns - since * since)

    def spend(self, count: int) -> None:
        """`count` messages were sent."""
        self._credit -= count
