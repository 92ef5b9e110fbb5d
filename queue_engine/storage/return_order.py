"""The order of a message that came back: behind the messages that waited when it came back, up to a bound."""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import accumulate


class ReturnOrder:
    """The order of two lines of one channel: messages that wait for their first delivery, and messages that came back.

    A message that comes back stands behind the waiting messages of that moment, at most `ahead_max` of them, and behind
    those that came back before it. So messages that come back again and again leave room for those that wait, and
    however deep a backlog is, they come again. Costs an entry for each different place in the line of those that wait.
    """

    def __init__(self, ahead_max: int) -> None:
        # Never 0: consumers that give everything back at once would get nothing else.
        self._ahead_max = max(ahead_max, 1)
        self._taken = 0  # messages that were taken from those that wait
        self._due_count = 0  # returned messages whose turn it is
        self._turns: deque[tuple[int, int]] = deque()  # (value of `_taken` from which on they do, how many), ascending

    def came_back(self, count: int, waiting_count: int) -> None:
        """`count` messages joined the line of those that came back, while so many waited."""
        turns = self._turns
        turn = self._taken + min(waiting_count, self._ahead_max)
        if turns and turn <= turns[-1][0]:
            turns[-1] = (turns[-1][0], turns[-1][1] + count)
        elif turn <= self._taken:
            self._due_count += count
        else:
            turns.append((turn, count))

    def due_count(self) -> int:
        """How many of those that came back go before all that wait."""
        turns = self._turns
        while turns and turns[0][0] <= self._taken:
            self._due_count += turns.popleft()[1]
        return self._due_count

    def ahead_count(self) -> int:
        """How many of those that wait go before the next that came back, which must be there; 0 when it is due."""
        return 0 if self.due_count() or not self._turns else self._turns[0][0] - self._taken

    def took_waiting(self, count: int) -> None:
        """So many were taken of those that wait."""
        self._taken += count

    def took_returned(self, count: int) -> None:
        """So many were taken of those that came back, due or not."""
        of_due = min(count, self._due_count)
        self._due_count -= of_due
        count -= of_due
        turns = self._turns
        while count:
            turn, length = turns.popleft()
            if length > count:
                turns.appendleft((turn, length - count))
            count -= min(count, length)

    def left(self, places: Sequence[int]) -> None:
        """These places, ascending, of the line of those that came back are empty now: an operator took them out."""
        self.due_count()
        ends = list(accumulate([self._due_count, *(count for _, count in self._turns)]))
        left = [0] * len(ends)
        for place in places:
            left[bisect_right(ends, place)] += 1
        self._due_count -= left[0]
        turns = zip(self._turns, left[1:], strict=True)
        self._turns = deque((turn, count - gone) for (turn, count), gone in turns if count > gone)

    def plan(self) -> Iterator[tuple[int, int]]:
        """The returned messages, front to back: (how many waiting ones go before, how many have this place)."""
        if self.due_count():
            yield 0, self._due_count
        for turn, count in self._turns:
            yield turn - self._taken, count

    def clear(self) -> None:
        """Nothing that came back is left."""
        self._turns.clear()
        self._due_count = 0
