"""Runs the engine's turns on the event loop: all sockets are read, the engine works, then answers and messages go out.

Reading comes first, from every connection that has sent something. Then one call of the engine appends all published
messages, lets channels deliver, and writes the journal. So a turn makes one append, however many messages came,
and a client wakes up once.
"""

import asyncio
import logging
from typing import Protocol

from queue_engine.engine.engine import Engine
from queue_engine.service.loop.supervision import Backoff
from queue_engine.service.tcp.pub_groups import PubGroups

logger = logging.getLogger(__name__)


class Flushable(Protocol):
    """A connection. fail: ends it after an unexpected error."""

    def write_replies(self) -> None: ...

    def fail(self, error: Exception) -> None: ...


class EngineTurns:
    """Runs one engine's turns on the present loop. pubs: the PUBs of clients that wait for each OK."""

    pubs: PubGroups

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._engine: Engine | None = None
        self._unflushed: dict[Flushable, None] = {}
        self._is_due = False
        self._was_shared = False  # the last turn had PUBs of several clients
        self._backoff = Backoff()
        self._has_failed = False  # the last turn

    def drive(self, engine: Engine) -> None:
        """Run this engine's turns from now on; `soon` is the engine's `on_work`."""
        self._engine = engine
        self.pubs = PubGroups(engine, self.soon)

    def soon(self) -> None:
        """Schedule a turn behind the reads of this iteration of the loop."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._look_again if self._was_shared else self.run)

    def _look_again(self) -> None:
        """Let the loop read once more before the turn: clients that were answered together send at nearly the same
        time."""
        self._loop.call_soon(self.run)

    def flush_soon(self, session: Flushable) -> None:
        """Have `session.write_replies` called at the end of this turn."""
        self._unflushed[session] = None
        self.soon()

    def run(self) -> None:
        """Run one turn. Work beyond its bounds is left for the next turn, after the sockets.

        An error for which no topic or channel can be fenced is noted, and another turn follows a while later."""
        self._is_due = True  # a call of `soon` meanwhile needs no turn of its own
        engine = self._engine
        has_failed, self._has_failed = self._has_failed, False
        if engine is not None:
            try:
                self._was_shared = self.pubs.publish() > 1
                engine.turn()
            except Exception as exc:
                self._has_failed = True
                engine.faults.note("a turn of the engine", exc)
        while self._unflushed:
            unflushed, self._unflushed = self._unflushed, {}
            for session in unflushed:
                try:
                    session.write_replies()
                except Exception as exc:
                    # The other connections get their answers.
                    session.fail(exc)
        self._is_due = False
        if engine is None:
            return
        if self._has_failed:
            self._loop.call_later(self._backoff.take_s(), self.soon)
            return
        if has_failed:
            engine.faults.ended("a turn of the engine")
            self._backoff.reset()
        if engine.has_work:
            self.soon()
