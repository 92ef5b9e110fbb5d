"""The limits of memory that stop a channel's delivery: messages in flight, and messages that REQ deferred."""

from queue_engine.delivery.in_flight import InFlightTable
from queue_engine.storage.store import Backlog
from queue_engine.vocabulary.byte_budget import MemoryBudgets, deferred_limit_reached


class SendLimits:
    """The limits of one channel."""

    def __init__(self, backlog: Backlog, in_flight: InFlightTable, budgets: MemoryBudgets) -> None:
        self._backlog = backlog
        self._in_flight = in_flight
        self._budgets = budgets

    def has_spent_in_flight(self) -> bool:
        """Whether nothing more may be sent for now, because messages in flight take too much memory. Each channel may
        always have some in flight."""
        return self._budgets.in_flight.is_spent and len(self._in_flight) > 0 and not self._backlog.can_reread

    def has_too_many_deferred(self) -> bool:
        """Whether nothing new may be sent for now, because REQ deferred more than the limits allow. REQ is never
        refused; DPUB is."""
        count = self._backlog.deferred_count
        return count > 0 and (count > self._budgets.deferred_count_max or self._budgets.deferred.is_exceeded)

    def reason_to_hold_back(self) -> str:
        """Why nothing is delivered now, though something waits; "" when the channel may deliver."""
        if self.has_too_many_deferred():
            reached = deferred_limit_reached(self._budgets, self._backlog.deferred_count)
            return f"{reached}: nothing is delivered until some are due"
        if self.has_spent_in_flight():
            budget = self._budgets.in_flight
            return (
                f"messages in flight take {budget.used} bytes of memory and the most is {budget.bytes_max} "
                "(--max-in-flight-bytes): nothing more is delivered until some are finished"
            )
        return ""
