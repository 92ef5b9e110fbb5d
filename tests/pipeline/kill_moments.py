"""A process that kills itself and its children at an exact moment of an archive's step.

Python tells an audit hook of every file that is renamed before it is: that shows the step's moments, and nothing in
the product knows of it.
"""

import os
import signal
import sys

STAGED = "staged, before any rename"
RENAMED = "renamed, before the manifest"
NAMED = "in a manifest, before its cursor moved"
MOMENTS = (STAGED, RENAMED, NAMED)


class Death:
    """kill -9 of this process's group at `moment` of its step number `step`, counted from 1."""

    def __init__(self, moment: str, step: int) -> None:
        self._moment = moment
        self._steps_to_come = step
        self._is_renaming = False
        self._is_named = False

    def install(self) -> None:
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._is_named:
            self._is_named = False  # to kill is an event, too
            _die()  # before the first that is done after the rename
        if event != "os.rename":
            return
        target = str(arguments[1])
        if "/archive/" in target and target.endswith(".parquet"):
            self._hear_of_data()
        elif "/archive/" in target and target.endswith("/manifest.json"):
            self._hear_of_manifest()

    def _hear_of_data(self) -> None:
        if not self._is_renaming:
            self._is_renaming = True
            self._steps_to_come -= 1
            if self._steps_to_come == 0 and self._moment == STAGED:
                _die()

    def _hear_of_manifest(self) -> None:
        if self._is_renaming and self._steps_to_come == 0:
            if self._moment == RENAMED:
                _die()
            self._is_named = True
        self._is_renaming = False


def _die() -> None:
    os.killpg(0, signal.SIGKILL)
