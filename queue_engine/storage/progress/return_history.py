"""How the last deliveries of a channel's messages ended, for an operator who looks at one that keeps failing.

It is noted from the second delivery on, in memory, for the messages that came back last. `histories.py` stores those of
quarantined messages in a file. Losing one affects no delivery.
"""

from typing import NamedTuple

from queue_engine.vocabulary.byte_budget import ByteBudget

# Deliveries from which on a message has a history.
MADE_MIN = 2
# Of one message; of one channel; and of all channels of a log, in bytes of memory.
EVENTS_MAX = 10
MESSAGES_MAX = 1_000
BYTES_MAX = 8 << 20
# An event with its place in a list, its message's share of a dict included. Names of consumers are shared.
EVENT_COST_BYTES = 160


class ReturnEvent(NamedTuple):
    """time_ns: Unix. reason: as of `vocabulary/flow/return_reason.py`. consumer: its name and address; ""
    when unknown."""

    time_ns: int
    reason: int
    consumer: str


class ReturnHistory:
    """The histories of one channel's messages. by_offset: offset → events, oldest first. budget: of all channels."""

    __slots__ = ("_budget", "by_offset")

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self.by_offset: dict[int, list[ReturnEvent]] = {}  # public, so that callers can skip an empty one

    def note(self, offset: int, event: ReturnEvent) -> None:
        """A message came back. Where there is no room, the message that came back longest ago is forgotten."""
        events = self.by_offset.pop(offset, [])  # to the end: the first of the dict is the one noted longest ago
        if len(events) == EVENTS_MAX:
            del events[0]
        else:
            self._budget.add(EVENT_COST_BYTES)
        events.append(event)
        self.by_offset[offset] = events
        while len(self.by_offset) > MESSAGES_MAX or (self._budget.is_exceeded and self.by_offset):
            self._drop(next(iter(self.by_offset)))

    def keep(self, offset: int, events: list[ReturnEvent]) -> None:
        """Take over a message's events from a file."""
        for event in events[-EVENTS_MAX:]:
            self.note(offset, event)

    def of(self, offset: int) -> tuple[ReturnEvent, ...]:
        """The events of a message, oldest first."""
        return tuple(self.by_offset.get(offset, ()))

    def forget(self, first: int, count: int) -> None:
        """These are finished."""
        if count <= len(self.by_offset):
            found = [offset for offset in range(first, first + count) if offset in self.by_offset]
        else:
            found = [offset for offset in self.by_offset if first <= offset < first + count]
        for offset in found:
            self._drop(offset)

    def forget_all(self) -> None:
        for offset in list(self.by_offset):
            self._drop(offset)

    def _drop(self, offset: int) -> None:
        self._budget.free(EVENT_COST_BYTES * len(self.by_offset.pop(offset)))
