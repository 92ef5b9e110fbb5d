"""Channels by their earliest deadline: the scan loop takes them in this order instead of at random."""

from heapq import heapify, heappop, heappush
from typing import Generic, Protocol, TypeVar


class HasDeadline(Protocol):
    """The part of a channel that the index uses."""

    scheduled_ns: int | None  # the earliest time for which the index holds an entry of it

    def next_deadline_ns(self) -> int | None: ...


# The heap is rebuilt when at least this many of its entries are stale, and more than half of them.
_STALE_MIN = 64

ChannelT = TypeVar("ChannelT", bound=HasDeadline)


class ChannelDeadlines(Generic[ChannelT]):
    """A heap of channels by their earliest deadline (monotonic ns), in flight or deferred.

    An entry may be early, never late: when it comes up, `pop_due` reads the channel's deadline again.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, ChannelT]] = []
        self._order = 0
        self._stale = 0  # entries for which there is an earlier one, or whose channel was forgotten

    def __len__(self) -> int:
        """Entries, stale ones included."""
        return len(self._heap)

    def note(self, channel: ChannelT) -> None:
        """The channel's earliest deadline may have come nearer, or the channel has none any more."""
        deadline_ns = channel.next_deadline_ns()
        if deadline_ns is None:
            self.forget(channel)
            return
        scheduled_ns = channel.scheduled_ns
        if scheduled_ns is not None and scheduled_ns <= deadline_ns:
            return
        channel.scheduled_ns = deadline_ns
        if scheduled_ns is not None:
            self._count_stale()
        self._order += 1
        heappush(self._heap, (deadline_ns, self._order, channel))

    def forget(self, channel: ChannelT) -> None:
        """Remove the channel, whose entry becomes stale."""
        if channel.scheduled_ns is not None:
            channel.scheduled_ns = None
            self._count_stale()

    def _count_stale(self) -> None:
        self._stale += 1
        if self._stale >= _STALE_MIN and self._stale * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].scheduled_ns == entry[0]]
            heapify(self._heap)
            self._stale = 0

    def next_ns(self) -> int | None:
        """When the next entry comes up."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ns: int, count_max: int) -> list[ChannelT]:
        """Remove and return channels with something due, earliest first, at most `count_max`.

        The caller handles each and then calls `note` for it again.
        """
        due: list[ChannelT] = []
        while self._heap and len(due) < count_max and self._heap[0][0] <= now_ns:
            entry_ns, _, channel = heappop(self._heap)
            if channel.scheduled_ns != entry_ns:
                self._stale -= 1
                continue  # a nearer entry of the channel has come up since
            channel.scheduled_ns = None
            deadline_ns = channel.next_deadline_ns()
            if deadline_ns is not None and deadline_ns <= now_ns:
                due.append(channel)
            else:
                self.note(channel)
        return due
