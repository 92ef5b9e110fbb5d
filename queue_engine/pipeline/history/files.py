"""Finds the files that have the history of a range of time, for readers without the lock and without Spark.

Minutes reach from the beginning of their retention to some minutes ago. Hours reach to the last closed day
(`closed_until_s`); readers sum later hours from minutes, those of one day at most. A file stays in place for a minute
after the manifest has dropped it; a reader that finds a file missing reads the list again.
"""

import os
from pathlib import Path

from queue_engine.pipeline.history.manifest import FRESH, History, read_history
from queue_engine.pipeline.lake.lake import HISTORY_MANIFEST, Lake


class HistoryFiles:
    """The history of the lake in directory `lake_path`. Any thread.

    The manifest is read again only when it was replaced: a page reads the list a dozen times, and reading the manifest
    takes some milliseconds. All methods raise LakeDamagedError and OSError. directory: all files are in it.
    """

    def __init__(self, lake_path: str | os.PathLike[str]) -> None:
        self._lake = Lake(os.fspath(lake_path))
        self.directory = self._lake.within("history")
        self._known: tuple[tuple[int, int, int] | None, History] | None = None

    def files(self, level: str, first_s: int, end_s: int) -> list[tuple[Path, int]]:
        """Files with rows of `level` ("minutes" or "hours") whose windows start in [first_s, end_s), by time.

        (path, from_s) each: of this file only rows with t ≥ from_s count. No window is in two of them. A file may
        hold rows outside of the range, and none in it.
        """
        history = self._history()
        found = []
        for one in history.of(level):
            from_s = max(one.first_s, history.closed_until_s) if one.kind == FRESH else one.first_s
            if max(from_s, first_s) < min(one.end_s, end_s):
                found.append((Path(self._lake.within(f"history/{one.path}")), from_s))
        return found

    def closed_until_s(self) -> int:
        """The end of the last closed day, up to which there are hours; 0 before a day was closed."""
        return self._history().closed_until_s

    def end_s(self) -> int:
        """The end of the last minute; 0 without any."""
        return self._history().end_s("minutes")

    def extent(self, level: str) -> tuple[int, int] | None:
        """The begin and end of a level's files, Unix seconds; None when there are none."""
        files = self._history().of(level)
        return (files[0].first_s, max(one.end_s for one in files)) if files else None

    def _history(self) -> History:
        # The sign is taken before the manifest is read: a change in between is noticed by the next call.
        sign = self._sign()
        known = self._known
        if known is None or known[0] != sign:
            known = self._known = (sign, read_history(self._lake))
        return known[1]

    def _sign(self) -> tuple[int, int, int] | None:
        """Inode, time and size: they differ between a manifest and its successor, which is another file."""
        try:
            found = os.stat(self._lake.within(HISTORY_MANIFEST))
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size
