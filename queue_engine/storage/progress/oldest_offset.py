"""Finds the message of a channel of the log that has been unfinished for longest.

Offsets ascend with publish times, so among messages that were never deferred the first that is not settled is the
oldest. The age of a deferred message runs from its due time; these messages stand in a line, in the order of due times.
Each look goes on where the last one ended, so it costs as much as was finished since.
"""

from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Protocol

from queue_engine.storage.progress.channel_progress import ChannelProgress
from queue_engine.storage.progress.joining import spans
from queue_engine.vocabulary.clock import NS_PER_S
from queue_engine.vocabulary.pieces import whole

# Offsets that follow each other and became due within this time share an entry.
JOINED_NS = NS_PER_S
# One look passes at most so many deferred messages; a later look goes on from there.
PASSED_MAX = 10_000
# Finished entries are removed when the line has so many, and twice as many as the last removal left: a few with each
# entry that comes.
LINE_MIN = 1_024
_LOOKED_AT = 4
# `beginning` ends within this time.
BEGINNING_NS_MAX = 60 * NS_PER_S


class Offsets(Protocol):
    """The topic, as far as the age of messages depends on it."""

    @property
    def released(self) -> int: ...

    def next_present(self, offset: int) -> int | None: ...

    def deferred_between(self, first: int, end: int) -> list[tuple[int, int]]: ...


class OldestOffset:
    """Finds the oldest unfinished message of one channel. Due times are Unix ns."""

    __slots__ = ("_at", "_line_max", "_looked", "_progress", "_topic", "line", "since")

    def __init__(self, topic: Offsets, progress: ChannelProgress) -> None:
        self._topic = topic
        self._progress = progress
        self._at = 0  # every offset before it is settled, or was deferred or quarantined
        # (due, first offset, count), in the order of due times.
        self.line: deque[tuple[int, int, int]] = deque()
        self._line_max = LINE_MIN
        # While finished entries are removed: those before the line that a look has left.
        self._looked: deque[tuple[int, int, int]] | None = None
        # Due times that neither the progress nor the topic has: of messages delivered after a REQ with a delay, or
        # released by an operator.
        self.since: dict[int, int] = {}

    def forget_all(self) -> tuple[Any, ...]:
        """Forget all; returns the containers, for the caller to free."""
        forgotten = self.line, self._looked or (), self.since
        self._at = 0
        self.line, self._looked = deque(), None
        self._line_max = LINE_MIN
        self.since = {}
        return forgotten

    def begin(self, now_ns: int) -> None:
        """Start over, for a channel that was opened or rewound, with the messages that were deferred before. now_ns:
        Unix."""
        whole(self.beginning(lambda: now_ns))

    def beginning(self, time_ns: Callable[[], int]) -> Generator[None, None, None]:
        """The same in steps, between which the channel goes on. time_ns: the wall clock."""
        topic, progress = self._topic, self._progress
        now_ns = time_ns()
        # Messages that become due until the last step have joined the line by then, which is forgotten.
        soon_ns = now_ns + BEGINNING_NS_MAX
        since: dict[int, int] = {}
        due: list[tuple[int, int]] = []
        for first, end in spans(progress.floor, topic.released):
            for offset, due_ns in topic.deferred_between(first, end):
                if offset in progress.deferred:
                    continue
                if 0 < due_ns <= soon_ns:
                    due.append((due_ns, offset))
                if due_ns > now_ns and progress.made_at(offset):
                    since[offset] = 0  # delivered before its due time: an operator released it
            yield
        moved = list(progress.deferred)
        for first, end in spans(0, len(moved)):
            for offset in moved[first:end]:
                due_ns = progress.deferred.get(offset, 0)
                if 0 < due_ns <= soon_ns and offset >= progress.floor:
                    due.append((due_ns, offset))
            yield
        self.forget_all()
        self.since.update(since)
        now_ns = time_ns()
        for due_ns, offset in sorted(due):
            if due_ns <= now_ns and not progress.is_settled(offset):
                self.became_due(offset, 1, due_ns)

    # Changes.

    def became_due(self, first: int, count: int, due_ns: int) -> None:
        """Note that deferred offsets wait since `due_ns`. Calls come in the order of due times."""
        line = self.line
        if line:
            last_due, last_first, last_count = line[-1]
            if last_first + last_count == first and due_ns - last_due < JOINED_NS:
                line[-1] = (last_due, last_first, last_count + count)
                return
        line.append((due_ns, first, count))
        if self._looked is None and len(line) > self._line_max:
            self._looked = deque()
        if self._looked is not None:
            self._look_at_some(self._looked)

    def _look_at_some(self, looked: deque[tuple[int, int, int]]) -> None:
        line = self.line
        for _ in range(min(_LOOKED_AT, len(line))):
            entry = self._unfinished_part(line[0])
            line.popleft()
            if entry is not None:
                looked.append(entry)
        if not line:
            self.line, self._looked = looked, None
            self._line_max = max(LINE_MIN, 2 * len(looked))

    def released_early(self, first: int, count: int, now_ns: int) -> None:
        """Note that an operator released deferred or quarantined offsets: they are due now."""
        self.since.update(dict.fromkeys(range(first, first + count), now_ns))
        self.became_due(first, count, now_ns)

    def delivered(self, first: int, count: int) -> None:
        """Keep the due times of offsets that are about to be delivered, since the progress forgets them then. Needed
        only while something is deferred."""
        deferred = self._progress.deferred
        for offset in range(first, first + count):
            due_ns = deferred.get(offset)
            if due_ns:
                self.since[offset] = due_ns

    def forget(self, first: int, count: int) -> None:
        """Forget the due times of offsets that are settled, or deferred again. Needed only while `since` has any."""
        since = self.since
        if count <= len(since):
            for offset in range(first, first + count):
                since.pop(offset, None)
        else:
            for offset in [offset for offset in since if first <= offset < first + count]:
                del since[offset]

    # Questions.

    @property
    def has_due_times(self) -> bool:
        """Whether the age of a message may run from another time than its publication."""
        return bool(self.line or self._looked or self.since)

    def first_never_deferred(self) -> int | None:
        """The first offset that is not settled and was never deferred; None when there is none.

        Raises StorageError; LookupError after PASSED_MAX deferred messages: the next look goes on behind them.
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
                if self._due_of(at) is None and at not in progress.quarantined:
                    return at
                at += 1
        finally:
            self._at = at
        raise LookupError("more were deferred than one look passes")

    def oldest_due_ns(self) -> int | None:
        """The earliest due time of the unfinished messages that were deferred and are due; None when there is none."""
        for line in (self._looked, self.line):
            while line:
                entry = self._unfinished_part(line[0])
                if entry is not None:
                    line[0] = entry
                    return self._due_of(entry[1])
                line.popleft()
        return None

    def _unfinished_part(self, entry: tuple[int, int, int]) -> tuple[int, int, int] | None:
        """An entry from its first offset on that is neither settled nor deferred again; None when all are."""
        entry_due_ns, first, count = entry
        end = first + count
        at = self._progress.first_unsettled(first, end)
        while at < end:
            due_ns = self._due_of(at) if at not in self._progress.quarantined else None
            if due_ns is not None and due_ns < entry_due_ns + JOINED_NS:
                return entry_due_ns, at, end - at
            at = self._progress.first_unsettled(at + 1, end)
        return None

    def _due_of(self, offset: int) -> int | None:
        """The due time of a message that is or was deferred; None when its age runs from its publication."""
        due_ns = self.since.get(offset)
        if due_ns is None:
            due_ns = self._progress.deferred.get(offset)
        if due_ns is None:
            published = self._topic.deferred_between(offset, offset + 1)
            return published[0][1] if published else None
        # 0: an operator released it, and the time of that is unknown.
        return due_ns or None
