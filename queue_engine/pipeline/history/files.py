"""Which files hold the history of a range of time; for readers that hold no lock and know no Spark.

Minutes reach from the oldest that is kept up to some minutes ago. Hours reach up to the last closed day only
(`closed_until_s`): what comes after it is summed from minutes by who reads it, which are those of a day at most. A file
that is named stays in place for a minute after it ceased to count; who still finds one missing asks again.
"""

import os
from pathlib import Path

from queue_engine.pipeline.history.manifest import FRESH, History, read_history
from queue_engine.pipeline.lake.lake import HISTORY_MANIFEST, Lake


class HistoryFiles:
    """The history of the lake in directory `lake_path`. Any thread.

    The manifest is read again when it has been replaced: a page asks a dozen times, and reading takes some
    milliseconds. All methods raise LakeDamagedError and OSError. directory: all files are in it.
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
        """Up to where there are hours, and the history is exact; 0 before the first day was closed."""
        return self._history().closed_until_s

    def end_s(self) -> int:
        """Up to where there are minutes; 0 of none."""
        return self._history().end_s("minutes")

    def extent(self, level: str) -> tuple[int, int] | None:
        """Where the files of a level begin and end, Unix seconds; None when there are none."""
        files = self._history().of(level)
        return (files[0].first_s, max(one.end_s for one in files)) if files else None

    def _history(self) -> History:
        # Looked at before it is read: of two changes the second is seen by the next call at the latest.
        sign = self._sign()
        known = self._known
        if known is None or known[0] != sign:
            known = self._known = (sign, read_history(self._lake))
        return known[1]

    def _sign(self) -> tuple[int, int, int] | None:
        """What differs between a manifest and the one that takes its place: it is another file."""
        try:
            found = os.stat(self._lake.within(HISTORY_MANIFEST))
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size
