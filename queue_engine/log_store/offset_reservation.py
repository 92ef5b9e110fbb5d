"""Offsets that topology.json promises not to give again after a crash: how many at a time, and when to ask for more.

A topic that publishes fast must not come to the end of what is promised while a slow disk writes the next promise: it
asks for what it gives in some seconds, and asks when a quarter is gone. What a crash leaves of a promise is a gap in
the offsets, so a quiet topic asks for less.
"""

from queue_engine.vocabulary.clock import NS_PER_S

OFFSETS_MIN = 1 << 20
OFFSETS_MAX = 1 << 24
_AHEAD_S = 10


class OffsetReservation:
    """One topic's. reserved_offset: offsets below it may be given. wanted_offset: what reserved_offset will be when
    topology.json is written."""

    __slots__ = ("_asked_ns", "_asked_offset", "_low_count", "reserved_offset", "wanted_offset")

    def __init__(self, *, next_offset: int, reserved_offset: int, wanted_offset: int, now_ns: int) -> None:
        self.reserved_offset = reserved_offset
        self.wanted_offset = wanted_offset
        self._low_count = OFFSETS_MIN * 3 // 4
        self._asked_offset = next_offset
        self._asked_ns = now_ns

    @property
    def is_asked(self) -> bool:
        """Whether a promise is on its way to the disk."""
        return self.wanted_offset > self.reserved_offset

    def is_low(self, next_offset: int) -> bool:
        """Whether it is time to `ask`."""
        return self.reserved_offset - next_offset < self._low_count

    def ask(self, next_offset: int, now_ns: int) -> bool:
        """Want more, by how fast offsets were given since the last time. Whether topology.json has to be written."""
        if self.is_asked:
            return False
        given, took_ns = next_offset - self._asked_offset, max(now_ns - self._asked_ns, 1)
        count = min(max(given * _AHEAD_S * NS_PER_S // took_ns, OFFSETS_MIN), OFFSETS_MAX)
        self._asked_offset, self._asked_ns = next_offset, now_ns
        self._low_count = count * 3 // 4
        self.wanted_offset = max(self.reserved_offset, next_offset + count)
        return self.is_asked

    def promised(self, offset: int) -> None:
        """topology.json says, durably, that offsets below this one may be given."""
        self.reserved_offset = max(self.reserved_offset, offset)
