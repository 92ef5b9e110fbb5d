"""The worker's log file: its own lines, Java's and those of Spark's Python processes.

pipeline/worker.log      at most 5 MB
pipeline/worker.log.1    the log before: of the last start, or the 5 MB that came first
"""

import os
import shutil
from pathlib import Path

from queue_engine.storage.disk.no_follow import open_no_follow

NAME = "worker.log"
BYTES_MAX = 5_000_000


class WorkerLogFile:
    """Redirects standard output and error of this process and its children to the log file.

    Only the process that holds the lake makes one."""

    def __init__(self, lake_path: Path) -> None:
        self.path = lake_path / NAME
        if os.path.lexists(self.path):
            os.replace(self.path, self._before)
        # O_APPEND: several processes write, and after a truncation all of them go on at the file's beginning.
        self._descriptor = open_no_follow(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(self._descriptor, 1)
        os.dup2(self._descriptor, 2)

    def keep_small(self) -> None:
        """Move the content to worker.log.1 when the file is larger than BYTES_MAX.

        A line that is written meanwhile may be lost."""
        if os.fstat(self._descriptor).st_size > BYTES_MAX:
            self._before.unlink(missing_ok=True)  # the copy must not follow a link that stands there
            shutil.copyfile(self.path, self._before, follow_symlinks=False)
            os.ftruncate(self._descriptor, 0)

    @property
    def _before(self) -> Path:
        return self.path.with_name(f"{NAME}.1")
