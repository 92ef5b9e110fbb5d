"""Connections that are refused: counted by reason, and logged once a minute at most."""

import logging
from collections import Counter
from enum import StrEnum
from typing import Protocol

from queue_engine.vocabulary.clock import NS_PER_S, Clock

logger = logging.getLogger(__name__)

LOG_INTERVAL_NS = 60 * NS_PER_S
_CLIENTS = {"tcp": "NSQ clients", "http": "the HTTP API"}


class Reason(StrEnum):
    """Why a connection is refused."""

    TOO_MANY = "too_many"  # more than --max-connections, or than descriptors allow
    BODIES_CROWDED = "bodies_crowded"  # unfinished bodies leave no room: --max-pending-body-bytes


class IdleConnection(Protocol):
    """A connection that waits for its client's next request."""

    def close_when_idle(self) -> None: ...


class RefusedConnections:
    """Connections refused by one listener, "tcp" or "http". counts: how many since the start, by listener and reason;
    all listeners share it. answered: refused connections to which the reason is being sent. idle: connections that
    wait for another request and can be closed for a new one, the longest idle first."""

    def __init__(
        self, listener: str, connections_max: int, clock: Clock, counts: Counter[tuple[str, str]] | None = None
    ) -> None:
        self.connections_max = connections_max
        self.answered: set[object] = set()
        self.idle: dict[IdleConnection, None] = {}
        self._listener = listener
        self._clock = clock
        self._counts: Counter[tuple[str, str]] = Counter() if counts is None else counts
        self._unlogged: Counter[Reason] = Counter()
        self._next_line_ns: dict[Reason, int] = {}

    def make_room(self) -> bool:
        """Close the connection that is idle for longest; returns False when there is none."""
        for connection in self.idle:
            del self.idle[connection]
            connection.close_when_idle()
            return True
        return False

    def note(self, reason: Reason = Reason.TOO_MANY) -> None:
        """Count a refused connection, and log the count when a minute has passed since the reason's last line."""
        self._counts[self._listener, reason.value] += 1
        self._unlogged[reason] += 1
        now_ns = self._clock.monotonic_ns()
        if now_ns >= self._next_line_ns.get(reason, 0):
            logger.warning(
                "connections of %s refused: %d %s",
                _CLIENTS[self._listener],
                self._unlogged.pop(reason),
                self._sentence_of(reason),
            )
            self._next_line_ns[reason] = now_ns + LOG_INTERVAL_NS

    def _sentence_of(self, reason: Reason) -> str:
        if reason is Reason.BODIES_CROWDED:
            return "while unfinished bodies took the room that there is for them (--max-pending-body-bytes)"
        return (
            f"more than the {self.connections_max} that there may be at once (--max-connections, and the limit of "
            "descriptors)"
        )
