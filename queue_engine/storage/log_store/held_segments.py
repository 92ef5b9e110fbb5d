"""The segments that only the trash keeps, and how many bytes of them one of its entries would keep."""

from bisect import bisect_right
from itertools import accumulate


class HeldSegments:
    """The oldest segments of a log, which only the trash keeps: their bytes without holes, of all and of a part."""

    def __init__(self, next_positions: list[int], sizes: list[int]) -> None:
        self._next_positions = next_positions
        self._bytes_behind = list(accumulate(reversed(sizes), initial=0))[::-1]

    @property
    def end(self) -> int:
        """The first position behind them; 0 when there is none."""
        return self._next_positions[-1] if self._next_positions else 0

    @property
    def bytes(self) -> int:
        return self._bytes_behind[0]

    def bytes_from(self, position: int) -> int:
        """The bytes of the segments that would stay if only the records from `position` on were needed. Segments go
        from the oldest on, so all behind that one stay, too."""
        return self._bytes_behind[bisect_right(self._next_positions, position)]
