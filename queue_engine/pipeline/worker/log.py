"""The worker's log file: its own lines, Java's and those of Spark's Python processes.

pipeline/worker.log      at most 5 MB
pipeline/worker.log.1    what was there before: of the last start, or of the 5 MB before these
"""

import os
import shutil
from pathlib import Path

from queue_engine.disk.no_follow import open_no_follow

NAME = "worker.log"
BYTES_MAX = 5_000_000


class WorkerLog:
    """Takes standard output and error of this process and all its children. Made by the holder of the lake alone."""

    def __init__(self, lake_path: Path) -> None:
        self.path = lake_path / NAME
        if os.path.lexists(self.path):
            os.replace(self.path, self._before)
        # Appending: several processes write, and after a truncation all of them go on at its beginning.
        self._descriptor = open_no_follow(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(self._descriptor, 1)
        os.dup2(self._descriptor, 2)

    def keep_small(self) -> None:
        """Begin anew when it has grown too large. A line written at this very moment may be lost."""
        if os.fstat(self._descriptor).st_size > BYTES_MAX:
            self._before.unlink(missing_ok=True)  # a link there would have something else overwritten
            shutil.copyfile(self.path, self._before, follow_symlinks=False)
            os.ftruncate(self._descriptor, 0)

    @property
    def _before(self) -> Path:
        return self.path.with_name(f"{NAME}.1")
