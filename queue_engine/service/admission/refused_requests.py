"""HTTP requests that are refused for their Host or Origin: counted by reason, and logged once a minute at most."""

import logging
from collections import Counter

from queue_engine.service.admission.refused_connections import LOG_INTERVAL_NS
from queue_engine.service.admission.refused_publishes import Reason
from queue_engine.vocabulary.clock import Clock

logger = logging.getLogger(__name__)

REASONS = (Reason.HOST, Reason.ORIGIN)


class RefusedRequests:
    """counts: how many since the start, by reason."""

    def __init__(self, clock: Clock, counts: Counter[str]) -> None:
        self._clock = clock
        self._counts = counts
        self._unlogged: Counter[Reason] = Counter()
        self._next_line_ns: dict[Reason, int] = {}

    def note(self, reason: Reason, remote_address: str, sentence: str) -> None:
        """Count a refused request, and log the count when a minute has passed since the reason's last line.

        sentence: the request and its client, with the Host or the Origin.
        """
        self._counts[reason.value] += 1
        self._unlogged[reason] += 1
        now_ns = self._clock.monotonic_ns()
        if now_ns < self._next_line_ns.get(reason, 0):
            return
        self._next_line_ns[reason] = now_ns + LOG_INTERVAL_NS
        logger.warning(
            "HTTP requests refused for their %s (--allowed-host): %d; the last one, of %s: %s",
            reason.value.capitalize(),
            self._unlogged.pop(reason),
            remote_address,
            sentence,
        )
