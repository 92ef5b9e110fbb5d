"""Which message of a channel of the log has been unfinished for longest.

Offsets ascend with publish times, so among messages that were never deferred it is the first that is not settled. The
age of one that was deferred runs from the time it was due. Those became due in that order: they stand in a line.
Each look goes on where the last one ended, so the cost is that of what was finished since.
"""

from collections import deque
from typing import Protocol

from queue_engine.progress.channel_progress import ChannelProgress
from queue_engine.vocabulary.clock import NS_PER_S

# Offsets that follow each other and became due within this time share an entry.
JOINED_NS = NS_PER_S
# One look passes at most so many deferred messages; a later look goes on from there.
PASSED_MAX = 10_000
# The line is gone through when it has so many entries, and twice as many as were left the last time.
LINE_MIN = 1_024


class Offsets(Protocol):
    """What is needed of a topic."""

    @property
    def released(self) -> int: ...

    def next_present(self, offset: int) -> int | None: ...

    def deferred_between(self, first: int, end: int) -> list[tuple[int, int]]: ...


class OldestOffset:
    """Of one channel. Due times are Unix ns."""

    def __init__(self, topic: Offsets, progress: ChannelProgress) -> None:
        self._topic = topic
        self._progress = progress
        self._at = 0  # all before it is settled, or was deferred
        self._line: deque[tuple[int, int, int]] = deque()  # (due, first offset, count), in the order of due times
        self._line_max = LINE_MIN
        # When those were due that nothing else tells of: delivered after a deferral by REQ, or released by an operator.
        self.since: dict[int, int] = {}

    def forget_all(self) -> None:
        self._at = 0
        self._line.clear()
        self._line_max = LINE_MIN
        self.since.clear()

    def begin(self, now_ns: int) -> None:
        """Learn what was deferred before, of a channel that was opened or moved. now_ns: Unix."""
        self.forget_all()
        progress = self._progress
        known = dict(self._topic.deferred_between(progress.floor, self._topic.released))
        # Delivered though it is not due: an operator had released it.
        early = [offset for offset, due_ns in known.items() if due_ns > now_ns and progress.made_at(offset)]
        self.since.update(dict.fromkeys((offset for offset in early if offset not in progress.deferred), 0))
        known |= {offset: due_ns for offset, due_ns in progress.deferred.items() if offset >= progress.floor}
        due = [(due_ns, offset) for offset, due_ns in known.items() if 0 < due_ns <= now_ns]
        for due_ns, offset in sorted(due):
            if not progress.is_settled(offset):
                self.became_due(offset, 1, due_ns)

    # What happens.

    def became_due(self, first: int, count: int, due_ns: int) -> None:
        """They were deferred until then, and wait now. Call it in the order of due times."""
        line = self._line
        if line:
            last_due, last_first, last_count = line[-1]
            if last_first + last_count == first and due_ns - last_due < JOINED_NS:
                line[-1] = (last_due, last_first, last_count + count)
                return
        line.append((due_ns, first, count))
        if len(line) > self._line_max:
            self._line = deque(entry for entry in map(self._unfinished_part, line) if entry is not None)
            self._line_max = max(LINE_MIN, 2 * len(self._line))

    def released_early(self, first: int, count: int, now_ns: int) -> None:
        """An operator released them before they were due: they are due now."""
        self.since.update(dict.fromkeys(range(first, first + count), now_ns))
        self.became_due(first, count, now_ns)

    def delivered(self, first: int, count: int) -> None:
        """They are about to be noted as delivered, which forgets until when they were deferred. Nothing to do while
        nothing is deferred."""
        deferred = self._progress.deferred
        for offset in range(first, first + count):
            due_ns = deferred.get(offset)
            if due_ns:
                self.since[offset] = due_ns

    def forget(self, first: int, count: int) -> None:
        """They are settled, or deferred anew. Nothing to do while `since` is empty."""
        since = self.since
        if count <= len(since):
            for offset in range(first, first + count):
                since.pop(offset, None)
        else:
            for offset in [offset for offset in since if first <= offset < first + count]:
                del since[offset]

    # What is known.

    def first_never_deferred(self) -> int | None:
        """The first offset that is not settled and was never deferred; None when there is none.

        Raises StorageError; LookupError when so many were deferred that the next look has to go on.
        """
        topic, progress = self._topic, self._progress
        at, end = self._at, topic.released
        try:
            for _ in range(PASSED_MAX):
                at = progress.first_unsettled(at, end)
                present = topic.next_present(at) if at < end else None
                if present is None or present >= end:
                    return None
                if present > at:
                    at = present
                    continue
                if self._due_of(at) is None:
                    return at
                at += 1
        finally:
            self._at = at
        raise LookupError("more were deferred than one look passes")

    def oldest_due_ns(self) -> int | None:
        """When that message was due that has been unfinished for longest since then."""
        line = self._line
        while line:
            entry = self._unfinished_part(line[0])
            if entry is not None:
                line[0] = entry
                return self._due_of(entry[1])
            line.popleft()
        return None

    def _unfinished_part(self, entry: tuple[int, int, int]) -> tuple[int, int, int] | None:
        """What of an entry of the line is neither settled nor deferred anew, from the first such offset on."""
        entry_due_ns, first, count = entry
        end = first + count
        at = self._progress.first_unsettled(first, end)
        while at < end:
            due_ns = self._due_of(at)
            if due_ns is not None and due_ns < entry_due_ns + JOINED_NS:
                return entry_due_ns, at, end - at
            at = self._progress.first_unsettled(at + 1, end)
        return None

    def _due_of(self, offset: int) -> int | None:
        """Until when a message is or was deferred; None for one whose age runs from its publication."""
        due_ns = self.since.get(offset)
        if due_ns is None:
            due_ns = self._progress.deferred.get(offset)
        if due_ns is None:
            published = self._topic.deferred_between(offset, offset + 1)
            return published[0][1] if published else None
        # 0: released early, and nobody knows when.
        return due_ns or None
