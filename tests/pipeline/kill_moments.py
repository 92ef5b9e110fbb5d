"""A process that kills itself and its children at an exact moment of an archive's step.

Python tells an audit hook of every file that it opens and of every request that it sends, before it does: those show
the step's moments, and nothing in the product knows of it.
"""

import os
import re
import signal
import sys

WRITTEN = "written, before any commit"
PREPARED = "before the first commit of messages, behind that of the gaps"
COMMITTED = "committed, before the commit is made durable"
NAMED = "all committed, before a cursor is moved"
MOMENTS = (WRITTEN, PREPARED, COMMITTED, NAMED)

_DATA_FILE = re.compile(r"/archive/[^/]+/date=[^/]+/[^/]+\.parquet$")
_COMMIT = re.compile(r"/archive/[^/]+/_delta_log/0*[1-9]\d*\.json$")


class Death:
    """kill -9 of this process's group at `moment` of its step number `step`, counted from 1."""

    def __init__(self, moment: str, step: int) -> None:
        self._moment = moment
        self._steps_to_come = step
        self._is_in_step = False
        self._has_committed = False

    def install(self) -> None:
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "http.client.send":
            self._hear_of_request(bytes(arguments[1]) if isinstance(arguments[1], bytes) else b"")
        elif event == "open" and isinstance(arguments[0], str) and self._is_in_step:
            if _DATA_FILE.search(arguments[0]):
                self._die_at(PREPARED)
            elif _COMMIT.search(arguments[0]):
                self._has_committed = True
                self._die_at(COMMITTED)

    def _hear_of_request(self, data: bytes) -> None:
        # A step's leases are released once its files are written.
        if data.startswith(b"POST /log/release") and not self._is_in_step:
            self._is_in_step = True
            self._steps_to_come -= 1
            self._die_at(WRITTEN)
        elif data.startswith(b"POST /cursor/move") and self._has_committed:
            self._die_at(NAMED)
            self._is_in_step = self._has_committed = False

    def _die_at(self, moment: str) -> None:
        if self._steps_to_come == 0 and self._moment == moment:
            os.killpg(0, signal.SIGKILL)
