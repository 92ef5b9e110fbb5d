"""Runs a tool until it is done or a signal stops it, and reports its progress each few seconds."""

import asyncio
import contextlib
import logging
import math
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from typing import Any

logger = logging.getLogger(__name__)

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# `timeout` sends its signal twice, to the program and to its group, and a terminal that closes sends two at once.
_SAME_REQUEST_S = 1.0


class Stopping:
    """Whether the tool shall end, and the callbacks for it. The first signal requests the end, a later one forces
    it."""

    def __init__(self) -> None:
        self.is_requested = False
        self._signalled_at = math.inf
        self._callbacks: list[Callable[[], None]] = []

    def request_end(self) -> None:
        """End the tool when the messages that have arrived are done."""
        if not self.is_requested:
            self.is_requested = True
            for callback in list(self._callbacks):
                callback()

    def take_signal(self, now: float) -> bool:
        """Request the end, for a signal that came at `now`, seconds; returns whether the tool shall end at once.

        A signal within a second of the first one belongs to it.
        """
        if self.is_requested and now >= self._signalled_at + _SAME_REQUEST_S:
            return True
        self._signalled_at = min(self._signalled_at, now)
        self.request_end()
        return False

    @contextlib.contextmanager
    def calling(self, callback: Callable[[], None]) -> Iterator[None]:
        """Have `callback` called when the stop is requested, at once if it was."""
        if self.is_requested:
            callback()
        self._callbacks.append(callback)
        try:
            yield
        finally:
            self._callbacks.remove(callback)


def run_tool(work: Callable[[Stopping], Coroutine[Any, Any, int]]) -> int:
    """Run `work` in a loop of its own; returns its exit status. SIGINT, SIGTERM and SIGHUP request its stop."""

    async def run() -> int:
        stopping = Stopping()
        task = asyncio.ensure_future(work(stopping))
        loop = asyncio.get_running_loop()

        def take_signal() -> None:
            if stopping.take_signal(loop.time()):
                logger.warning("stopped at once; messages that are not finished come again")
                task.cancel()

        for number in _SIGNALS:
            loop.add_signal_handler(number, take_signal)
        try:
            return await task
        except asyncio.CancelledError:
            return 130
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    return asyncio.run(run())


class Counts:
    """The counts of a tool, by word, in the order in which the words were given: "received", "finished" …"""

    def __init__(self, *words: str) -> None:
        self._counts = dict.fromkeys(words, 0)

    def add(self, word: str, count: int = 1) -> None:
        self._counts[word] += count

    def __getitem__(self, word: str) -> int:
        return self._counts[word]

    def sentence(self) -> str:
        return ", ".join(f"{count:,} {word}" for word, count in self._counts.items())


@contextlib.asynccontextmanager
async def progress(
    counts: Counts,
    main_word: str,
    print_line: Callable[[str], None],
    every_s: float,
    more: Callable[[], str] = lambda: "",
) -> AsyncIterator[None]:
    """Report the counts and the rate of `main_word` every `every_s` seconds (0: never), and at the end.

    more: the rest of the line, such as how many servers are connected.
    """

    async def tell_forever() -> None:
        before, at = counts[main_word], time.monotonic()
        while True:
            await asyncio.sleep(every_s)
            now, now_at = counts[main_word], time.monotonic()
            rate = (now - before) / max(now_at - at, 1e-9)
            before, at = now, now_at
            print_line(", ".join(filter(None, (f"{counts.sentence()}, {rate:,.0f} {main_word} a second", more()))))

    task = asyncio.create_task(tell_forever()) if every_s else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
        print_line(counts.sentence())


async def together(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run them side by side until all are done. The first error ends the others, and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except BaseExceptionGroup as exc:
        error: BaseException = exc
        while isinstance(error, BaseExceptionGroup):  # one of them may be of several itself
            error = error.exceptions[0]
        raise error from None
