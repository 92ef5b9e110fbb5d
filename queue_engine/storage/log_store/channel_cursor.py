"""A channel's cursor over its topic's released messages, and the offsets that it skips. An offset is *skipped* when it
lies at or beyond the cursor and the cursor passes over it: it was deferred at publication, handed out before its turn,
or quarantined. An offset is *pending* when the cursor will hand it out.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence

from queue_engine.storage.commit_log.record import ranges_of
from queue_engine.storage.log_store.log_topic import LogTopic
from queue_engine.storage.log_store.offset_lines import Range

# Ranges that the cursor has passed are removed when there are so many, and as many as are left.
_PASSED_MIN = 1_024
# Up to so many offsets are inserted singly: each may move all ranges behind it, which costs a copy of their memory.
_SINGLE_MAX = 8


class ChannelCursor:
    """Belongs to the engine's thread. offset: of the next message that the cursor may hand out.
    skipped_count: messages that it skips."""

    __slots__ = ("_ends", "_firsts", "_later", "_later_count", "_passed", "_topic", "offset", "skipped_count")

    def __init__(self, topic: LogTopic, offset: int) -> None:
        self._topic = topic
        self.offset = offset
        # Skipped ranges: where each begins and ends, ascending; the first `_passed` of them are behind the
        # cursor. Two lists, so that a look is a bisection and a million ranges are sorted as numbers.
        self._firsts: list[int] = []
        self._ends: list[int] = []
        self._passed = 0
        # Ranges that the topic releases again, ascending: after a start some of them were handed out, or quarantined.
        self._later: deque[Range] = deque()
        self._later_count = 0  # of `skipped_count`
        self.skipped_count = 0

    def start_at(self, offset: int) -> None:
        """Go to `offset`, with nothing skipped."""
        self.offset = offset
        self._firsts, self._ends = [], []
        self._later.clear()
        self._passed = self._later_count = self.skipped_count = 0

    def pass_released(self) -> None:
        """Go behind all that the topic has released; ranges that it releases again stay skipped."""
        self._note_released()
        self.offset = max(self.offset, self._topic.released)
        self._firsts, self._ends = [], []
        self._passed = 0
        self.skipped_count = self._later_count

    @property
    def pending_count(self) -> int:
        """Messages that the cursor will hand out."""
        topic = self._topic
        if self.offset >= topic.released:
            return 0
        if self._later:
            self._note_released()
        return max(0, topic.queue.count_between(self.offset, topic.released) - self.skipped_count + self._later_count)

    def skip(self, first: int, count: int) -> None:
        """Skip these, which lie behind all that is skipped already."""
        self._later.append((first, count))
        added = self._topic.queue.count_between(first, first + count)
        self.skipped_count += added
        self._later_count += added
        self._note_released()

    def skip_unreleased(self, offset: int) -> None:
        """Skip all that the topic has not released, up to `offset`."""
        later, count_between = self._later, self._topic.queue.count_between
        while later and later[0][0] < offset:
            start, count = later.popleft()
            if start + count > offset:
                later.appendleft((offset, start + count - offset))
                count = offset - start
            passed = count_between(start, start + count)
            self.skipped_count -= passed
            self._later_count -= passed
        released = self._topic.released
        if self.offset >= released:
            self.offset = max(self.offset, offset)
            return
        later.appendleft((released, offset - released))
        added = count_between(released, offset)
        self.skipped_count += added
        self._later_count += added

    def _note_released(self) -> None:
        """Move the ranges that the topic has released by now to the ranges that the cursor meets."""
        released, later = self._topic.released, self._later
        while later and later[0][0] < released:
            first, count = later.popleft()
            if first + count > released:
                later.appendleft((released, first + count - released))
                count = released - first
            self._firsts.append(first)
            self._ends.append(first + count)
            self._later_count -= self._topic.queue.count_between(first, first + count)

    def skip_one(self, offset: int) -> None:
        """Skip this released offset, unless the cursor has passed it."""
        if offset < self.offset:
            return
        if self._later:
            self._note_released()
        firsts, ends = self._firsts, self._ends
        at = len(firsts)
        if at and ends[-1] > offset:
            at = bisect_right(firsts, offset, self._passed)
            if at > self._passed and offset < ends[at - 1]:
                return
        if at > self._passed and ends[at - 1] == offset:
            ends[at - 1] = offset + 1
        else:
            firsts.insert(at, offset)
            ends.insert(at, offset + 1)
        self.skipped_count += 1

    def skip_all(self, offsets: Sequence[int]) -> None:
        """Skip these pending offsets, ascending."""
        if len(offsets) <= _SINGLE_MAX:
            for offset in offsets:
                self.skip_one(offset)
            return
        if self._later:
            self._note_released()
        added = ranges_of(offsets)
        # No two ranges overlap: sorted apart, the beginnings and the ends still belong together.
        firsts = sorted([*self._firsts[self._passed :], *(first for first, _ in added)])
        ends = sorted([*self._ends[self._passed :], *(first + count for first, count in added)])
        # Those that follow each other are one.
        self._firsts = firsts[:1] + [first for first, end in zip(firsts[1:], ends, strict=False) if first != end]
        self._ends = [end for end, first in zip(ends, firsts[1:], strict=False) if end != first] + ends[-1:]
        self._passed = 0
        self.skipped_count += len(offsets)

    def pending_of(self, wanted: Sequence[int]) -> set[int]:
        """The pending offsets of `wanted`, ascending; each has a message."""
        pending = wanted[bisect_left(wanted, self.offset) : bisect_left(wanted, self._topic.released)]
        return {offset for offset in pending if not self._is_skipped(offset)}

    def _is_skipped(self, offset: int) -> bool:
        """Whether a released offset is skipped."""
        if self._later:
            self._note_released()
        at = bisect_right(self._firsts, offset, self._passed)
        return at > self._passed and offset < self._ends[at - 1]

    def pass_skipped(self) -> bool:
        """Go behind the skipped range at the cursor; False when none is there."""
        if self._later:
            self._note_released()
        firsts, at = self._firsts, self._passed
        if at == len(firsts) or firsts[at] > self.offset:
            return False
        first, end = firsts[at], self._ends[at]
        self.skipped_count -= self._topic.queue.count_between(first, end)
        self.offset = max(self.offset, end)
        self._passed = at = at + 1
        if at == len(firsts) or (at >= _PASSED_MIN and 2 * at >= len(firsts)):
            del firsts[:at], self._ends[:at]
            self._passed = 0
        return True

    def stop_before(self, offset: int) -> int:
        """`offset`, or the first skipped one where that comes before. Called after `pass_skipped`."""
        at = self._passed
        return min(self._firsts[at], offset) if at < len(self._firsts) else offset

    def offsets(self, at_least: int = 0) -> Iterator[int]:
        """The pending offsets from `at_least` on, in order; nothing moves, and nothing may move meanwhile."""
        if self._later:
            self._note_released()
        topic, firsts, ends = self._topic, self._firsts, self._ends
        at = max(self.offset, at_least)
        index = bisect_right(ends, at, self._passed)
        while at < topic.released:
            if index < len(firsts) and at >= firsts[index]:
                at = max(at, ends[index])
                index += 1
                continue
            present = topic.next_present(at)
            if present is None or present >= topic.released:
                break
            if present > at:
                at = present
                continue
            yield at
            at += 1
