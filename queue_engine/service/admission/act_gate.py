"""What keeps rows about acts before they are done: an act that would leave no trace is not done."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from queue_engine.delivery.stats import ActRecord


class ActGate(Protocol):
    """Belongs to whoever writes the rows."""

    @property
    def has_room(self) -> bool:
        """Whether a row more can be kept. Any thread."""
        ...

    def begin(self, record: ActRecord, then: Callable[[bool], None]) -> None:
        """Keep the row of an act that is about to be done, and call `then` with whether it is kept: on any thread, now
        or later."""
        ...


class GateOnLoop:
    """A gate whose answers come on the loop it is made in."""

    def __init__(self, gate: ActGate) -> None:
        self._gate = gate
        self._loop = asyncio.get_running_loop()

    @property
    def has_room(self) -> bool:
        return self._gate.has_room

    def begin(self, record: ActRecord, then: Callable[[bool], None]) -> None:
        self._gate.begin(record, lambda is_kept: self._tell(then, is_kept))

    def _tell(self, then: Callable[[bool], None], is_kept: bool) -> None:
        try:
            self._loop.call_soon_threadsafe(then, is_kept)
        except RuntimeError:
            pass  # the loop has ended, and with it who asked
