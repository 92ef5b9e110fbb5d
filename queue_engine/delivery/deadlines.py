"""Which channel has something due first: what the scan loop asks instead of picking channels at random."""

from heapq import heappop, heappush
from typing import Generic, Protocol, TypeVar


class HasDeadline(Protocol):
    """A channel, as the index sees it."""

    scheduled_ns: int | None  # the earliest time for which the index holds an entry of it

    def next_deadline_ns(self) -> int | None: ...


ChannelT = TypeVar("ChannelT", bound=HasDeadline)


class DeadlineIndex(Generic[ChannelT]):
    """Channels by their earliest deadline (monotonic ns), in flight or deferred.

    An entry may be early, never late: a deadline that moved back or went away is found out when it comes up.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, ChannelT]] = []
        self._order = 0

    def note(self, channel: ChannelT) -> None:
        """Tell that the channel's earliest deadline may have come nearer."""
        deadline_ns = channel.next_deadline_ns()
        if deadline_ns is None or (channel.scheduled_ns is not None and channel.scheduled_ns <= deadline_ns):
            return
        channel.scheduled_ns = deadline_ns
        self._order += 1
        heappush(self._heap, (deadline_ns, self._order, channel))

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
                continue  # a nearer entry of the channel has come up since
            channel.scheduled_ns = None
            deadline_ns = channel.next_deadline_ns()
            if deadline_ns is not None and deadline_ns <= now_ns:
                due.append(channel)
            else:
                self.note(channel)
        return due
