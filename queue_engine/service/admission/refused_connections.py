"""Connections that are refused: counted by reason, and logged once a minute at most."""

import logging
from collections import Counter
from enum import StrEnum

from queue_engine.vocabulary.clock import NS_PER_S, Clock

logger = logging.getLogger(__name__)

LOG_INTERVAL_NS = 60 * NS_PER_S
_CLIENTS = {"tcp": "NSQ clients", "http": "the HTTP API", "console": "the console"}
_OPTIONS = {"console": "--console-max-connections"}


class Reason(StrEnum):
    """Why a connection is refused."""

    TOO_MANY = "too_many"  # more than --max-connections, or than descriptors allow
    TOO_MANY_OF_ONE = "too_many_of_one"  # one client has its share of those
    BODIES_CROWDED = "bodies_crowded"  # unfinished bodies leave no room: --max-pending-body-bytes


class RefusedConnections:
    """Connections refused by one listener: "tcp", "http" or "console". counts: how many since the start, by listener
    and reason; the engine's listeners share it. answered: refused connections to which the reason is being sent."""

    def __init__(
        self, listener: str, connections_max: int, clock: Clock, counts: Counter[tuple[str, str]] | None = None
    ) -> None:
        self.connections_max = connections_max
        self.answered: set[object] = set()
        self._listener = listener
        self._option = _OPTIONS.get(listener, "--max-connections")
        self._clock = clock
        self._counts: Counter[tuple[str, str]] = Counter() if counts is None else counts
        self._unlogged: Counter[Reason] = Counter()
        self._next_line_ns: dict[Reason, int] = {}

    def by_reason(self) -> dict[str, int]:
        """The counts of this listener, since the start."""
        return {reason: count for (listener, reason), count in self._counts.items() if listener == self._listener}

    def note(self, reason: Reason = Reason.TOO_MANY, who: str = "") -> None:
        """Count a refused connection, and log the count when a minute has passed since the reason's last line. who: the
        client, for a reason that concerns one."""
        self._counts[self._listener, reason.value] += 1
        self._unlogged[reason] += 1
        now_ns = self._clock.monotonic_ns()
        if now_ns >= self._next_line_ns.get(reason, 0):
            logger.warning(
                "connections of %s refused: %d %s",
                _CLIENTS[self._listener],
                self._unlogged.pop(reason),
                self._sentence_of(reason, who),
            )
            self._next_line_ns[reason] = now_ns + LOG_INTERVAL_NS

    def sentence_for(self, reason: Reason, who: str, held: int) -> str:
        """The sentence for the client of a refused connection. held: how many it has."""
        if reason is Reason.TOO_MANY_OF_ONE:
            return f"too many connections of {who}: {held} are open, its share of {self.connections_max}"
        return f"too many connections: the most is {self.connections_max}"

    def _sentence_of(self, reason: Reason, who: str) -> str:
        if reason is Reason.BODIES_CROWDED:
            return "while unfinished bodies took the room that there is for them (--max-pending-body-bytes)"
        limit = f"{self.connections_max} that there may be at once ({self._option}, and the limit of descriptors)"
        if reason is Reason.TOO_MANY_OF_ONE:
            return f"of clients that have their share of the {limit}, the last of {who}"
        return f"more than the {limit}"
