"""How many messages wait, by file: a wrong count of a file is corrected when the file has been read."""

import logging
from collections import deque
from collections.abc import Iterable

logger = logging.getLogger(__name__)


class FileCounts:
    """The depth of a disk queue, by file.

    lost: messages that were counted and turned out unreadable. found: readable messages that were not counted.
    """

    def __init__(self, queue_name: str, counts: Iterable[tuple[int, int]], *, lost: int, found: int) -> None:
        """counts: (data file, messages in it and in those before it that are not named), ascending."""
        self._queue_name = queue_name
        self._counts: deque[list[int]] = deque([number, count] for number, count in counts)
        self.depth = sum(count for _, count in self._counts)
        self.lost = lost
        self.found = found

    def add(self, number: int, count: int) -> None:
        """`count` messages were put in file `number`, the last one."""
        if not count:
            return
        if self._counts and self._counts[-1][0] >= number:
            self._counts[-1][1] += count
        else:
            self._counts.append([number, count])
        self.depth += count

    def take(self, count: int) -> None:
        """`count` messages were taken from the front."""
        if self._counts:
            counted = min(count, self._counts[0][1])
            self._counts[0][1] -= counted
            self.depth -= counted

    def correct(self, number: int, left: int) -> None:
        """The rest of file `number`, the first one, was searched and has `left` messages. Without effect when the file
        was counted together with others."""
        if self._counts and self._counts[0][0] == number:
            self._differ(self._counts[0][1] - left)
            self._counts[0][1] = left

    def settle(self, number: int) -> None:
        """Everything up to file `number` was read: messages counted there that did not come are lost."""
        while self._counts and self._counts[0][0] <= number:
            self._differ(self._counts.popleft()[1])

    def recount(self, counts: Iterable[tuple[int, int]]) -> None:
        """More waits than was counted; replace the counts."""
        self._counts = deque([number, count] for number, count in counts)
        before, self.depth = self.depth, sum(count for _, count in self._counts)
        self._differ(0, found=self.depth - before)

    def clear(self) -> None:
        """Nothing waits any more, and nothing was lost by that."""
        self._counts.clear()
        self.depth = 0

    def _differ(self, missing: int, found: int = 0) -> None:
        self.depth -= missing
        self.lost += max(0, missing)
        self.found += max(0, -missing) + found
        if missing or found:
            logger.error(
                "disk queue count corrected queue=%s missing=%d found=%d depth=%d",
                *(self._queue_name, missing, found, self.depth),
            )
