"""The gate before every act: an act is refused unless the audit list can keep its row."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from queue_engine.delivery.stats import ActRecord


class ActGate(Protocol):
    """Keeps rows of the audit list. The console implements it."""

    @property
    def has_room(self) -> bool:
        """Whether one more row can be stored. For any thread."""
        ...

    def begin(self, record: ActRecord, then: Callable[[bool], None]) -> None:
        """Store the row of an act before it is done, then call `then` with whether it is stored: on any thread, now or
        later."""
        ...


class GateOnLoop:
    """A gate that answers on the loop in which it is made."""

    def __init__(self, gate: ActGate) -> None:
        self._gate = gate
        self._loop = asyncio.get_running_loop()

    @property
    def has_room(self) -> bool:
        return self._gate.has_room

    def begin(self, record: ActRecord, then: Callable[[bool], None]) -> None:
        self._gate.begin(record, lambda is_stored: self._resolve(then, is_stored))

    def _resolve(self, then: Callable[[bool], None], is_stored: bool) -> None:
        try:
            self._loop.call_soon_threadsafe(then, is_stored)
        except RuntimeError:
            pass  # the loop has ended, and with it the request
