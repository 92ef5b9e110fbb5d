"""Why a delivery ended without FIN, or a message was set aside. The numbers are on the disk: never give one another
meaning."""

from enum import IntEnum


class ReturnReason(IntEnum):
    """How a message came back from its consumer. UNKNOWN: the server stopped, or it was never sent; that says nothing
    about the message."""

    UNKNOWN = 0
    REQUEUED = 1
    TIMED_OUT = 2
    DISCONNECTED = 3
    BY_OPERATOR = 4

    @property
    def text(self) -> str:
        """The reason in words, as pages and JSON have it."""
        return _TEXTS[self]


_TEXTS = {
    ReturnReason.UNKNOWN: "unknown",
    ReturnReason.REQUEUED: "requeued",
    ReturnReason.TIMED_OUT: "timed out",
    ReturnReason.DISCONNECTED: "disconnected",
    ReturnReason.BY_OPERATOR: "by an operator",
}
# After these the message itself may be the cause; an operator's requeue is a wish to try again.
COUNTS_AGAINST = frozenset({ReturnReason.REQUEUED, ReturnReason.TIMED_OUT, ReturnReason.DISCONNECTED})


def reason_text(number: int) -> str:
    """The words of a reason as it is on the disk; a number that a newer version wrote is unknown."""
    return _TEXTS[ReturnReason(number)] if number in _TEXTS else _TEXTS[ReturnReason.UNKNOWN]
