"""The turn: what was read from all sockets is acted on together, then all answers and messages go out.

Reading comes first, from every connection that has something; then one call appends what was published, delivers
what can be delivered, and writes what is to be written. So publishing costs one append a turn, not one a message,
and a reader is woken once.
"""

import asyncio
import logging
from typing import Protocol

from queue_engine.engine import Engine
from queue_engine.service.pub_groups import PubGroups

logger = logging.getLogger(__name__)


class Flushable(Protocol):
    def write_replies(self) -> None: ...


class Turns:
    """Runs the engine's turns on the loop it is made in. pubs: what connections publish that wait for each OK."""

    pubs: PubGroups

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._engine: Engine | None = None
        self._unflushed: dict[Flushable, None] = {}
        self._is_due = False
        self._was_shared = False  # the last turn had PUBs of several clients
        self.failure: asyncio.Future[None] = self._loop.create_future()
        """Gets the exception that a turn ended with: then nothing of the engine can be relied on, and it stops."""

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
        """One turn. What could not be done within its bounds is left for the next, after the sockets."""
        self._is_due = True  # whoever asks for a turn meanwhile gets this one
        engine = None if self.failure.done() else self._engine
        try:
            if engine is not None:
                self._was_shared = self.pubs.publish() > 1
                engine.turn()
        except Exception as exc:
            self.failure.set_exception(exc)
            engine = None
        while self._unflushed:
            unflushed, self._unflushed = self._unflushed, {}
            for session in unflushed:
                try:
                    session.write_replies()
                except Exception:
                    # One connection's trouble is not the others'.
                    logger.exception("answers not written")
        self._is_due = False
        if engine is not None and engine.has_work:
            self.soon()
