"""The engine's loops in the background: none ends, and none takes the process along, whatever fails in it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

from queue_engine.vocabulary.faults import Faults

# How long after a round that failed the next is tried: twice as long each time.
BACKOFF_S_MIN = 0.1
BACKOFF_S_MAX = 5.0


class Backoff:
    """How long to wait before another try."""

    def __init__(self) -> None:
        self._next_s = BACKOFF_S_MIN

    def take_s(self) -> float:
        """After one more failure."""
        taken_s = self._next_s
        self._next_s = min(2 * taken_s, BACKOFF_S_MAX)
        return taken_s

    def reset(self) -> None:
        self._next_s = BACKOFF_S_MIN


async def supervise(what: str, one_round: Callable[[], Awaitable[None]], faults: Faults) -> NoReturn:
    """Run one round after the other until cancelled. what: is failing, should one fail, such as "the scan for
    timeouts"; the next comes a while later."""
    backoff = Backoff()
    while True:
        try:
            await one_round()
        except Exception as exc:
            faults.note(what, exc)
            await asyncio.sleep(backoff.take_s())
        else:
            faults.ended(what)
            backoff.reset()


def note_callbacks(loop: asyncio.AbstractEventLoop, faults: Faults) -> None:
    """Have what fails in a callback of the loop noted, and nothing else changed by it."""

    def note(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        message = str(context.get("message") or "a callback of the loop")
        error = context.get("exception")
        if isinstance(error, OSError | asyncio.CancelledError):
            loop.default_exception_handler(context)  # a connection's end; it is the connection's alone
            return
        faults.note(message.rstrip("."), error if isinstance(error, BaseException) else RuntimeError(message))

    loop.set_exception_handler(note)
