"""Connections beyond the limit: counted, and logged once a minute at most."""

import logging
from typing import Protocol

from queue_engine.vocabulary.clock import NS_PER_S, Clock

logger = logging.getLogger(__name__)

LOG_INTERVAL_NS = 60 * NS_PER_S


class IdleConnection(Protocol):
    """A connection that waits for its client's next request."""

    def close_when_idle(self) -> None: ...


class RefusedConnections:
    """Connections refused by one listener; `who` names its clients: "NSQ clients". answered: refused connections
    to which the reason is being sent. idle: connections that wait for another request and can be closed for a new one,
    the longest idle first."""

    def __init__(self, who: str, connections_max: int, clock: Clock) -> None:
        self.connections_max = connections_max
        self.answered: set[object] = set()
        self.idle: dict[IdleConnection, None] = {}
        self._who = who
        self._clock = clock
        self._count = 0  # since the last line
        self._next_line_ns = 0

    def make_room(self) -> bool:
        """Close the connection that is idle for longest; returns False when there is none."""
        for connection in self.idle:
            del self.idle[connection]
            connection.close_when_idle()
            return True
        return False

    def note(self) -> None:
        """Count a refused connection, and log the count when a minute has passed."""
        self._count += 1
        now_ns = self._clock.monotonic_ns()
        if now_ns >= self._next_line_ns:
            logger.warning(
                "connections of %s refused: %d more than the %d that there may be at once (--max-connections, and the "
                "limit of descriptors)",
                self._who,
                self._count,
                self.connections_max,
            )
            self._count = 0
            self._next_line_ns = now_ns + LOG_INTERVAL_NS
