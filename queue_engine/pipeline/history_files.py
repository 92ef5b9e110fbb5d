"""Which files hold the history of a range of time; for readers that hold no lock and know no Spark.

Minutes reach from the oldest that is kept up to some minutes ago. Hours reach up to the last closed day only
(`closed_until_s`): what comes after it is summed from minutes by who reads it, which are those of a day at most. A file
that is named stays in place for a minute after it ceased to count; who still finds one missing asks again.
"""

import os
from pathlib import Path

from queue_engine.pipeline.history_manifest import FRESH, read_history
from queue_engine.pipeline.lake import Lake


class HistoryFiles:
    """The history of the lake in directory `lake_path`. Every call reads the manifest anew: some milliseconds.

    All methods raise LakeDamagedError and OSError.
    """

    def __init__(self, lake_path: str | os.PathLike[str]) -> None:
        self._lake = Lake(os.fspath(lake_path))

    def files(self, level: str, first_s: int, end_s: int) -> list[tuple[Path, int]]:
        """Files with rows of `level` ("minutes" or "hours") whose windows start in [first_s, end_s), by time.

        (path, from_s) each: of this file only rows with t ≥ from_s count. No window is in two of them. A file may
        hold rows outside of the range, and none in it.
        """
        history = read_history(self._lake)
        found = []
        for one in history.of(level):
            from_s = max(one.first_s, history.closed_until_s) if one.kind == FRESH else one.first_s
            if max(from_s, first_s) < min(one.end_s, end_s):
                found.append((Path(self._lake.within(f"history/{one.path}")), from_s))
        return found

    def closed_until_s(self) -> int:
        """Up to where there are hours, and the history is exact; 0 before the first day was closed."""
        return read_history(self._lake).closed_until_s

    def end_s(self) -> int:
        """Up to where there are minutes; 0 of none."""
        return read_history(self._lake).end_s("minutes")
