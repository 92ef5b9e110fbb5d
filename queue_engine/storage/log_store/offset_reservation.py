"""Offsets that topology.json reserves for a topic, so that none is assigned twice after a crash: how many, and when.

A topic that publishes fast must not use up its reservation while a slow disk writes the next one: it reserves the
offsets of some seconds, and requests more when a quarter is used. After a crash the rest of a reservation is a gap in
the offsets, so a quiet topic reserves less.
"""

from queue_engine.vocabulary.clock import NS_PER_S

OFFSETS_MIN = 1 << 20
OFFSETS_MAX = 1 << 24
_AHEAD_S = 10


class OffsetReservation:
    """The reservation of one topic. reserved_offset: offsets below it may be assigned. wanted_offset: reserved_offset
    once topology.json is written. enough_upto: beyond this offset it is time to `request`."""

    __slots__ = ("_low_count", "_requested_ns", "_requested_offset", "enough_upto", "reserved_offset", "wanted_offset")

    def __init__(self, *, next_offset: int, reserved_offset: int, wanted_offset: int, now_ns: int) -> None:
        self.reserved_offset = reserved_offset
        self.wanted_offset = wanted_offset
        self._low_count = OFFSETS_MIN * 3 // 4
        self.enough_upto = reserved_offset - self._low_count
        self._requested_offset = next_offset
        self._requested_ns = now_ns

    @property
    def is_requested(self) -> bool:
        """Whether a reservation is on its way to the disk."""
        return self.wanted_offset > self.reserved_offset

    def request(self, next_offset: int, now_ns: int) -> bool:
        """Reserve more, by the rate of publishing since the last request. Returns whether topology.json has to be
        written."""
        if self.is_requested:
            return False
        assigned, took_ns = next_offset - self._requested_offset, max(now_ns - self._requested_ns, 1)
        count = min(max(assigned * _AHEAD_S * NS_PER_S // took_ns, OFFSETS_MIN), OFFSETS_MAX)
        self._requested_offset, self._requested_ns = next_offset, now_ns
        self._low_count = count * 3 // 4
        self.enough_upto = self.reserved_offset - self._low_count
        self.wanted_offset = max(self.reserved_offset, next_offset + count)
        return self.is_requested

    def promised(self, offset: int) -> None:
        """topology.json, durably, reserves all offsets below this one."""
        self.reserved_offset = max(self.reserved_offset, offset)
        self.enough_upto = self.reserved_offset - self._low_count
