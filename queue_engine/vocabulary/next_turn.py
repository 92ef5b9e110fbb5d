"""Whether the engine's next turn has something to do."""

from collections import deque
from collections.abc import Callable
from itertools import repeat
from typing import Any

# A smaller container is freed at once.
UNFREED_MIN = 20_000
# So many entries of larger ones are freed in a turn: a few milliseconds.
FREED_ENTRIES_MAX = 5_000


class NextTurn:
    """Notes whether work waits for a turn. Deliveries, publishes and the log request one here.

    is_requested: something waits for a turn. has_log_work: some of it is the log's, which writes it at the turn's end.
    on_work: called when a turn is requested and none was before.
    """

    __slots__ = ("_on_work", "_unfreed", "has_log_work", "is_requested")

    def __init__(self, on_work: Callable[[], None] = lambda: None) -> None:
        self.is_requested = False
        self.has_log_work = False
        self._on_work = on_work
        self._unfreed: list[list[Any] | dict[Any, Any] | deque[Any]] = []

    def request(self) -> None:
        """Something waits for a turn."""
        if not self.is_requested:
            self.is_requested = True
            self._on_work()

    def request_log_work(self) -> None:
        """Something waits for the log to write it at the turn's end."""
        if not self.has_log_work:
            self.has_log_work = True
            self.request()

    # Containers that acts drop.

    def free(self, container: list[Any] | dict[Any, Any] | deque[Any]) -> None:
        """Free a container that has no other owner: of a large one some entries with each turn, since millions at once
        hold the engine for half a second."""
        if len(container) >= UNFREED_MIN:
            self._unfreed.append(container)
            self.request()

    @property
    def has_unfreed(self) -> bool:
        """Whether a container is still to be freed."""
        return bool(self._unfreed)

    def free_some(self) -> None:
        """A turn's share."""
        container = self._unfreed[-1]
        if isinstance(container, list):
            del container[-FREED_ENTRIES_MAX:]
        else:
            remove = container.popitem if isinstance(container, dict) else container.pop
            for _ in repeat(None, min(FREED_ENTRIES_MAX, len(container))):
                remove()
        if not container:
            self._unfreed.pop()
