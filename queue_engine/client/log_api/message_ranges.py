"""The offsets of a topic that have messages. Plans, limits and progress count messages; checkpoints hold offsets.

The two differ: after an unclean stop the engine continues behind the offsets that it had reserved, a million or more,
and never uses those in between.
"""

from collections.abc import Iterable

OffsetRange = tuple[int, int]  # from the first up to but not including the second


class MessageRanges:
    """Ascending ranges of offsets, with a gap between any two. All methods cost O(ranges)."""

    __slots__ = ("_ranges",)

    def __init__(self, ranges: Iterable[OffsetRange]) -> None:
        self._ranges = tuple(ranges)

    def count_between(self, first: int, after: int) -> int:
        """The number of messages from offset `first` up to but not including `after`."""
        return sum(end - begin for begin, end in self.within(first, after))

    def offset_behind(self, first: int, count: int) -> int:
        """The offset behind `count` messages from `first` on; behind the last message when there are fewer, and `first`
        when there is none or count is 0."""
        at = first
        for begin, end in self._ranges:
            if end > first and count > 0:
                begin = max(begin, first)
                at = min(begin + count, end)
                count -= at - begin
        return at

    def within(self, first: int, after: int) -> list[OffsetRange]:
        """The parts of the ranges between two offsets."""
        parts = [(max(begin, first), min(end, after)) for begin, end in self._ranges]
        return [(begin, end) for begin, end in parts if begin < end]

    def unused_between(self, first: int, after: int) -> tuple[OffsetRange, ...]:
        """The ranges between two offsets that have no messages."""
        unused = []
        for begin, end in [*self.within(first, after), (after, after)]:
            if first < begin:
                unused.append((first, begin))
            first = end
        return tuple(unused)
