"""The worker's log file: its own lines, Java's and those of Spark's Python processes.

pipeline/worker.log      at most 5 MB
pipeline/worker.log.1    what was there before: of the last start, or of the 5 MB before these
"""

import os
import shutil
from pathlib import Path

NAME = "worker.log"
BYTES_MAX = 5_000_000


class WorkerLog:
    """Takes standard output and error of this process and all its children. Made by the holder of the lake alone."""

    def __init__(self, lake_path: Path) -> None:
        self.path = lake_path / NAME
        if self.path.exists():
            os.replace(self.path, self._before)
        # Appending: several processes write, and after a truncation all of them go on at its beginning.
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.dup2(self._descriptor, 1)
        os.dup2(self._descriptor, 2)

    def keep_small(self) -> None:
        """Begin anew when it has grown too large. A line written at this very moment may be lost."""
        if os.fstat(self._descriptor).st_size > BYTES_MAX:
            shutil.copyfile(self.path, self._before)
            os.ftruncate(self._descriptor, 0)

    @property
    def _before(self) -> Path:
        return self.path.with_name(f"{NAME}.1")
