"""The turn: what was read from all sockets is acted on together, then all answers and messages go out.

Reading comes first, from every connection that has something; then one call appends what was published, delivers
what can be delivered, and writes what is to be written. So publishing costs one append a turn, not one a message,
and a reader is woken once.
"""

import asyncio
import logging
from typing import Protocol

from queue_engine.engine import Engine
from queue_engine.service.loop.supervision import Backoff
from queue_engine.service.tcp.pub_groups import PubGroups

logger = logging.getLogger(__name__)


class Flushable(Protocol):
    """A connection. fail: something failed unexpectedly on its behalf."""

    def write_replies(self) -> None: ...

    def fail(self, error: Exception) -> None: ...


class EngineTurns:
    """Runs the engine's turns on the loop it is made in. pubs: what connections publish that wait for each OK."""

    pubs: PubGroups

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._engine: Engine | None = None
        self._unflushed: dict[Flushable, None] = {}
        self._is_due = False
        self._was_shared = False  # the last turn had PUBs of several clients
        self._backoff = Backoff()

    def drive(self, engine: Engine) -> None:
        """Run this engine's turns from now on; its `on_work` is `soon`."""
        self._engine = engine
        self.pubs = PubGroups(engine, self.soon)

    def soon(self) -> None:
        """Have a turn behind what is being read now."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._look_again if self._was_shared else self.run)

    def _look_again(self) -> None:
        """Read once more before the turn: clients that were answered together speak at nearly the same time."""
        self._loop.call_soon(self.run)

    def flush_soon(self, session: Flushable) -> None:
        """Have `session.write_replies` called at the end of this turn."""
        self._unflushed[session] = None
        self.soon()

    def run(self) -> None:
        """One turn. What could not be done within its bounds is left for the next, after the sockets.

        What fails in it where no topic or channel can be fenced for it is noted, and the rest of the turn is tried a
        while later."""
        self._is_due = True  # whoever asks for a turn meanwhile gets this one
        engine = self._engine
        has_failed = False
        if engine is not None:
            try:
                self._was_shared = self.pubs.publish() > 1
                engine.turn()
            except Exception as exc:
                has_failed = True
                engine.faults.note("a turn of the engine", exc)
        while self._unflushed:
            unflushed, self._unflushed = self._unflushed, {}
            for session in unflushed:
                try:
                    session.write_replies()
                except Exception as exc:
                    # One connection's trouble is not the others'.
                    session.fail(exc)
        self._is_due = False
        if engine is None:
            return
        if has_failed:
            self._loop.call_later(self._backoff.take_s(), self.soon)
            return
        if engine.faults.error is not None:
            engine.faults.ended("a turn of the engine")
            self._backoff.reset()
        if engine.has_work:
            self.soon()
