"""Supervises the engine's background loops: an error ends neither the loop nor the process."""

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
        """The wait after one more failure, in seconds."""
        taken_s = self._next_s
        self._next_s = min(2 * taken_s, BACKOFF_S_MAX)
        return taken_s

    def reset(self) -> None:
        self._next_s = BACKOFF_S_MIN


async def supervise(task: str, one_round: Callable[[], Awaitable[None]], faults: Faults) -> NoReturn:
    """Run one round after the other until cancelled. After a round that fails the next comes a while later. task: names
    the loop in the health and the log, such as "the queue scan"."""
    backoff = Backoff()
    while True:
        try:
            await one_round()
        except Exception as exc:
            faults.note(task, exc)
            await asyncio.sleep(backoff.take_s())
        else:
            faults.ended(task)
            backoff.reset()


def note_callbacks(loop: asyncio.AbstractEventLoop, faults: Faults) -> None:
    """Note errors of the loop's callbacks, and go on."""

    def note(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        message = str(context.get("message") or "a callback of the loop")
        error = context.get("exception")
        if isinstance(error, OSError | asyncio.CancelledError):
            loop.default_exception_handler(context)  # the end of one connection
            return
        faults.note(message.rstrip("."), error if isinstance(error, BaseException) else RuntimeError(message))

    loop.set_exception_handler(note)
