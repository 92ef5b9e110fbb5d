"""When which topics are archived: quiet ones together and at most once a minute, busy ones earlier.

Each commit makes at least one file of each topic, so few messages wait for more; and a step costs about a second,
however small it is, so quiet topics share it.
"""

from collections.abc import Iterable

from queue_engine.vocabulary.clock import NS_PER_S, Clock
from queue_engine.wire.cursor import CursorStats

ROUND_S = 60
BUSY_MESSAGES = 20_000


class ArchiveRounds:
    """One thread; `due` is called every few seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next_ns = clock.monotonic_ns()

    def due(self, cursors: Iterable[CursorStats], *, is_once: bool = False) -> set[str]:
        """The names of the topics to archive now. cursors: those of the archive. is_once: whether all are due that have
        messages."""
        depths = {one.topic: one.depth for one in cursors if one.depth}
        now_ns = self._clock.monotonic_ns()
        if depths and (is_once or now_ns >= self._next_ns):
            self._next_ns = now_ns + ROUND_S * NS_PER_S
            return set(depths)
        return {topic for topic, depth in depths.items() if depth >= BUSY_MESSAGES}
