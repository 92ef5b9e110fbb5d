"""A channel's cursor over what its topic has released, and the offsets beyond it that it passes over.

An offset is aside when it lies beyond the cursor but not for it: deferred at publication, or handed out before its
turn.
"""

import heapq
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence

from queue_engine.log_store.log_topic import LogTopic
from queue_engine.log_store.offset_lines import Range, within


class ChannelCursor:
    """Belongs to the engine's thread. offset: of the next message that the cursor may hand out. aside_count: messages
    that are aside."""

    __slots__ = ("_aside", "_topic", "aside_count", "offset")

    def __init__(self, topic: LogTopic, offset: int) -> None:
        self._topic = topic
        self.offset = offset
        self._aside: deque[Range] = deque()  # ascending, all at or beyond the cursor
        self.aside_count = 0

    def start_at(self, offset: int) -> None:
        """Go to `offset`, with nothing aside."""
        self.offset = offset
        self._aside.clear()
        self.aside_count = 0

    @property
    def ahead_count(self) -> int:
        """Messages at or beyond the cursor that are not aside."""
        topic = self._topic
        if self.offset >= topic.released:
            return 0
        aside = self.aside_count
        if self._aside and sum(self._aside[-1]) > topic.released:
            # After a start the topic may release an offset again that was handed out, or quarantined.
            parts = [(first, min(first + count, topic.released)) for first, count in self._aside]
            aside = sum(topic.count_between(first, end) for first, end in parts if first < end)
        return max(0, topic.queue.count_between(self.offset, topic.released) - aside)

    def put_aside(self, first: int, count: int) -> None:
        """Pass over these, which lie behind all that is aside already."""
        self._aside.append((first, count))
        self.aside_count += self._topic.count_between(first, first + count)

    def insert_aside(self, offset: int) -> None:
        """Pass over this one, unless the cursor has passed it."""
        if offset < self.offset:
            return
        last, length = self._aside[-1] if self._aside else (-1, 0)
        if last + length <= offset:
            if length and last + length == offset:
                self._aside[-1] = (last, length + 1)
            else:
                self._aside.append((offset, 1))
        else:
            if any(first <= offset < first + count for first, count in self._aside):
                return
            self._aside = deque(sorted([*self._aside, (offset, 1)]))
        self.aside_count += 1

    def put_all_aside(self, offsets: Sequence[int]) -> None:
        """Pass over these, ascending, which it would hand out."""
        parts = heapq.merge(self._aside, [(offset, 1) for offset in offsets])
        aside: deque[Range] = deque()
        for first, count in parts:
            if aside and sum(aside[-1]) == first:
                aside[-1] = (aside[-1][0], aside[-1][1] + count)
            else:
                aside.append((first, count))
        self._aside = aside
        self.aside_count += len(offsets)

    def those_ahead(self, wanted: Sequence[int]) -> set[int]:
        """Those of `wanted`, ascending, that it would hand out; each has a message."""
        ahead = wanted[bisect_left(wanted, self.offset) : bisect_left(wanted, self._topic.released)]
        return set(ahead) - within(ahead, self._aside)

    def pass_aside(self) -> bool:
        """Go behind the range that is aside where the cursor is; False when none is."""
        if not self._aside or self._aside[0][0] > self.offset:
            return False
        first, count = self._aside.popleft()
        self.aside_count -= self._topic.count_between(first, first + count)
        self.offset = max(self.offset, first + count)
        return True

    def stop_before(self, offset: int) -> int:
        """`offset`, or the first one aside where that comes before."""
        return min(self._aside[0][0], offset) if self._aside else offset

    def offsets(self, at_least: int = 0) -> Iterator[int]:
        """Those it would hand out, from `at_least` on, in order; nothing moves."""
        at = max(self.offset, at_least)
        aside = iter([*self._aside, (self._topic.released, 0)])
        first, count = next(aside)
        while at < self._topic.released:
            if at >= first:
                at = max(at, first + count)
                first, count = next(aside, (self._topic.released, 0))
                continue
            present = self._topic.next_present(at)
            if present is None or present >= self._topic.released:
                break
            if present > at:
                at = present
                continue
            yield at
            at += 1
