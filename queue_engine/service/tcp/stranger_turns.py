"""Where a secret is required, the input of clients before it is handled a little at a time, for all of them together.

A client identifies itself with two commands. Commands of a connection beyond STRANGER_COMMANDS in one read, and those
that it has compressed, waits here: one piece of one connection each millisecond, whichever waits longest. So any number
of such connections delays others by one piece, and takes a few hundredths of the engine's thread.
"""

import asyncio
from collections import deque
from collections.abc import Callable

# Commands in a row: some 20 µs. IDENTIFY and AUTH are two.
STRANGER_COMMANDS = 16
# Bytes that are decompressed at once: as many as IDENTIFY and AUTH have. More of them may stand for any work.
STRANGER_STEP_BYTES = 4 << 10
PIECE_EVERY_S = 0.001


class StrangerTurns:
    """The turns of all such connections of one server. Belongs to the engine's thread."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], object]] = deque()
        self._is_due = False

    def soon(self, piece: Callable[[], object]) -> None:
        """Call `piece` once it is its turn."""
        self._waiting.append(piece)
        self._call_next()

    def _call_next(self) -> None:
        if self._waiting and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(PIECE_EVERY_S, self._run_one)

    def _run_one(self) -> None:
        self._is_due = False
        try:
            self._waiting.popleft()()
        finally:
            self._call_next()
