"""The oldest message of a line, at a cost that does not grow with the line.

A line is nearly always in the order of age; only messages that came back stand behind younger ones. An entry is stored
for each time that will be the oldest once all before it has left: times ascending, each with the place up to which it
counts.
"""

from collections import deque

# Above so many entries those that lie close together in time become one, which counts as the older: an age is then
# too long by at most a 500th of the span of times in the line.
ENTRIES_MAX = 1_024


class OldestInLine:
    """The places of the line are numbered, ascending to the back, from any first number."""

    __slots__ = ("_entries", "_slack_ns")

    def __init__(self) -> None:
        self._entries: deque[tuple[int, int]] = deque()  # (place, time), ascending in both
        self._slack_ns = 0

    def append(self, place: int, time_ns: int, head: int) -> None:
        """Something of this age joined at the back; all before `head` has left."""
        entries = self._entries
        if entries and entries[0][0] < head:
            self.pass_to(head)
            entries = self._entries
        while entries and entries[-1][1] >= time_ns:
            entries.pop()
        if entries and time_ns - entries[-1][1] < self._slack_ns:
            entries[-1] = (place, entries[-1][1])
            return
        entries.append((place, time_ns))
        if len(entries) > ENTRIES_MAX:
            self._thin_out()

    def prepend(self, place: int, time_ns: int) -> None:
        """Something of this age joined at the front."""
        if not self._entries or time_ns <= self._entries[0][1]:
            self._entries.appendleft((place, time_ns))

    def pass_to(self, place: int) -> None:
        """All before this place has left."""
        entries = self._entries
        while entries and entries[0][0] < place:
            entries.popleft()
        if not entries:
            self._slack_ns = 0

    def first(self) -> tuple[int, int] | None:
        """The oldest time, and the place up to which it counts."""
        return self._entries[0] if self._entries else None

    def second_ns(self) -> int | None:
        """The oldest time once that place has left."""
        return self._entries[1][1] if len(self._entries) > 1 else None

    def _thin_out(self) -> None:
        entries = self._entries
        self._slack_ns = max(2 * self._slack_ns, (entries[-1][1] - entries[0][1]) // (ENTRIES_MAX // 2) + 1)
        thinned: deque[tuple[int, int]] = deque()
        for place, time_ns in entries:
            if thinned and time_ns - thinned[-1][1] < self._slack_ns:
                thinned[-1] = (place, thinned[-1][1])
            else:
                thinned.append((place, time_ns))
        self._entries = thinned

    def clear(self) -> None:
        self._entries.clear()
        self._slack_ns = 0
