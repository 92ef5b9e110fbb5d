"""The worker's own files: how large they are, and when the temporary ones are too large.

    pipeline/scratch/spark              of Spark, such as rows that are sorted
    pipeline/scratch/warehouse, classes   of Spark, and of earlier versions
    pipeline/worker.log, worker.log.1   see log_file.py

Spark removes temporary files when no job needs them, by way of Java's garbage collector, which comes late on an idle
heap. A worker whose files are larger than the limit, and than the room that is left on the disk, ends, and the next one
removes them: nothing is lost, since jobs go on from their manifests. While there is more room the files stay: they may
be work, such as the plan of a large replay, which would begin anew each time and never end.
"""

import os
from collections.abc import Callable
from pathlib import Path

from queue_engine.lake.worker.log_file import NAME as LOG_NAME
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.clock import NS_PER_S, Clock
from queue_engine.vocabulary.errors import PipelineError

DIRECTORY = "scratch"
# The directories that a start of the worker removes.
TEMPORARY = ("spark", "warehouse", "classes")
# A step of the archive sorts 256 MiB of messages: thirty times as much is rarely work, and mostly files that nothing
# removes.
BYTES_MAX = 8 << 30
MEASURE_EVERY_NS = 30 * NS_PER_S


class Scratch:
    """Watches the temporary files of one worker. One thread calls it."""

    def __init__(
        self,
        lake_path: Path,
        clock: Clock,
        bytes_max: int = BYTES_MAX,
        free_bytes: Callable[[str], int] | None = None,
    ) -> None:
        """free_bytes: of the disk of a path; None for the system's own answer."""
        self._lake_path = lake_path
        self._clock = clock
        self._bytes_max = bytes_max
        self._free_bytes = Files().free_bytes if free_bytes is None else free_bytes
        self._measured_ns = -MEASURE_EVERY_NS

    def check(self) -> None:
        """Measure the files when it is time. Raises PipelineError when they are too large."""
        now_ns = self._clock.monotonic_ns()
        if now_ns - self._measured_ns < MEASURE_EVERY_NS:
            return
        self._measured_ns = now_ns
        found = temporary_bytes(self._lake_path)
        if found <= self._bytes_max:
            return
        free_bytes = self._free_bytes(str(self._lake_path))
        if found > free_bytes:
            raise PipelineError(
                f"the worker's temporary files take {found:,} bytes, of at most {self._bytes_max:,} where the disk has "
                f"{free_bytes:,} left: the worker ends, and its next start removes them. Jobs go on where they were"
            )


def temporary_bytes(lake_path: Path) -> int:
    """Bytes of the temporary files on the disk."""
    return sum(_bytes_below(lake_path / DIRECTORY / name) for name in TEMPORARY)


def log_bytes(lake_path: Path) -> int:
    """Bytes of the log file and the one before it."""
    return sum(_bytes_of(lake_path / name) for name in (LOG_NAME, f"{LOG_NAME}.1"))


def _bytes_below(path: Path) -> int:
    """On the disk, by blocks: Spark's files may have holes. Files that vanish meanwhile count nothing."""
    found = 0
    for folder, _, names in os.walk(path):  # links are not followed
        found += sum(_bytes_of(os.path.join(folder, name)) for name in names)
    return found


def _bytes_of(path: str | Path) -> int:
    try:
        return os.lstat(path).st_blocks * 512
    except OSError:
        return 0
