"""Budgets of memory in bytes, each for one purpose, all topics and channels together."""

from collections.abc import Callable
from typing import Protocol

# Memory of a message beside its bytes: an id, places in lists, an entry of a dict.
MESSAGE_COST_BYTES = 100


class ByteBudget:
    """Counts the bytes that are used, of at most `bytes_max`. It refuses nothing; its users check before they take
    more.

    Belongs to the engine's thread. Counted by run or batch, never by message.
    """

    __slots__ = ("_waiting", "bytes_max", "used")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used = 0
        self._waiting: dict[Callable[[], None], None] = {}

    @property
    def is_exceeded(self) -> bool:
        return self.used > self.bytes_max

    @property
    def is_spent(self) -> bool:
        return self.used >= self.bytes_max

    def has_room_for(self, count: int) -> bool:
        return self.used + count <= self.bytes_max

    def add(self, count: int) -> None:
        """Count more bytes as used, also beyond the budget."""
        self.used += count

    def free(self, count: int) -> None:
        """Count bytes as free again."""
        self.used -= count
        assert self.used >= 0, "more was freed than was used"
        if self._waiting and self.used <= self.bytes_max:
            waiting, self._waiting = self._waiting, {}
            for resume in waiting:
                resume()

    def when_free(self, resume: Callable[[], None]) -> None:
        """Call `resume` once, when bytes were freed and the budget is not exceeded; calling this again adds nothing."""
        self._waiting[resume] = None


class BudgetSizes(Protocol):
    """The options that say how large the budgets are; `vocabulary/options/options.py` has all options."""

    @property
    def mem_queue_bytes(self) -> int: ...
    @property
    def mem_queue_total_bytes(self) -> int: ...
    @property
    def max_in_flight_bytes(self) -> int: ...
    @property
    def max_deferred_bytes(self) -> int: ...
    @property
    def max_deferred_per_channel(self) -> int: ...
    @property
    def gathered_bytes_max(self) -> int: ...


class MemoryBudgets:
    """The budgets of one engine's messages.

    queues: messages that wait in the memory queues of `diskqueue` topics; one queue has at most queue_bytes_max of
    them, and the rest goes to disk. in_flight: frames of messages that consumers hold. deferred: messages that are not
    due, of both storage kinds; a channel may have deferred_count_max of them. gathered_bytes_max: for the messages that
    one topic's publishers send in one turn, appended as one batch.
    """

    def __init__(self, options: BudgetSizes) -> None:
        self.queue_bytes_max = options.mem_queue_bytes
        self.queues = ByteBudget(options.mem_queue_total_bytes)
        self.in_flight = ByteBudget(options.max_in_flight_bytes)
        self.deferred = ByteBudget(options.max_deferred_bytes)
        self.deferred_count_max = options.max_deferred_per_channel
        self.gathered_bytes_max = options.gathered_bytes_max


def deferred_limit_reached(budgets: MemoryBudgets, count: int) -> str:
    """Which limit of deferred messages is reached where `count` of them are, as a sentence's beginning."""
    if count >= budgets.deferred_count_max:
        return (
            f"{count} messages are deferred and the most is {budgets.deferred_count_max} (--max-deferred-per-channel)"
        )
    deferred = budgets.deferred
    return (
        f"deferred messages of all channels take {deferred.used} bytes of memory and the most is {deferred.bytes_max} "
        "(--max-deferred-bytes)"
    )
