"""The report of housekeeping for the Pipeline page: the last runs that changed something, the newest first.

    pipeline/housekeeping.json    {"looked_ms": …, "trusted_ms": …, "leapt_ms": …, "vacuumed_ms": {"orders": …},
                                   "runs": [{…as HousekeepingRun…}, …]}

looked_ms: when the last run ended, whether it changed anything or not. trusted_ms, leapt_ms: whether the clock is
trusted (vocabulary/trusted_time.py); a file without them has looked_ms and 0. vacuumed_ms: when a table's removed
files were last looked for. Derived: without the file, housekeeping looks at every table again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from queue_engine.lake.directory.status_fields import read_fields
from queue_engine.lake.directory.status_file import BrokenStatusFileError, read_status_file, sign_of, write_status_file
from queue_engine.vocabulary.trusted_time import TrustedTime

FILE_NAME = "housekeeping.json"
FILE_BYTES_MAX = 4 << 20
RUNS_KEPT = 20
PROBLEMS_KEPT = 10


@dataclass(slots=True)
class HousekeepingRun:
    """One run; it counts while it goes on. Times: Unix ms. merged_files became made_files, of as many messages and
    merged_bytes before. dropped_*: removed because of the limits of a topic. removed_*: files that no version within
    the retention names. problems: a sentence for each table that could not be maintained, at most PROBLEMS_KEPT.
    changed: the topics whose tables have another version now."""

    at_ms: int = 0
    took_ms: int = 0
    tables: int = 0
    merged_files: int = 0
    made_files: int = 0
    merged_bytes: int = 0
    dropped_files: int = 0
    dropped_rows: int = 0
    dropped_bytes: int = 0
    removed_files: int = 0
    removed_bytes: int = 0
    problems: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def count_merge(self, files: int, size: int) -> None:
        """Count files that became one, and their bytes."""
        self.merged_files += files
        self.made_files += 1
        self.merged_bytes += size

    def add_problem(self, sentence: str) -> None:
        self.problems = (*self.problems, sentence)[:PROBLEMS_KEPT]

    @property
    def changed_anything(self) -> bool:
        return bool(self.merged_files or self.dropped_files or self.removed_files or self.problems)


@dataclass(frozen=True, slots=True)
class HousekeepingReport:
    """The file's content."""

    looked_ms: int = 0
    vacuumed_ms: Mapping[str, int] | None = None
    runs: Sequence[HousekeepingRun] = ()
    trusted_ms: int = 0
    leapt_ms: int = 0

    def after(self, run: HousekeepingRun, vacuumed_ms: Mapping[str, int], time: TrustedTime) -> "HousekeepingReport":
        """The report with one more run; a run that changed nothing is not listed."""
        runs = [run, *self.runs] if run.changed_anything else list(self.runs)
        looked_ms = run.at_ms + run.took_ms
        return HousekeepingReport(looked_ms, vacuumed_ms, tuple(runs[:RUNS_KEPT]), time.believed_ms, time.leapt_ms)


def read_report(lake_path: Path) -> HousekeepingReport:
    """Raises BrokenStatusFileError with a sentence."""
    try:
        content: dict[str, Any] = dict(read_status_file(lake_path / FILE_NAME, FILE_BYTES_MAX))
    except FileNotFoundError:
        return HousekeepingReport()
    try:
        runs = tuple(read_fields(HousekeepingRun, one) for one in content["runs"])
        vacuumed = {str(name): int(value) for name, value in content["vacuumed_ms"].items()}
        looked_ms = int(content["looked_ms"])
        trusted_ms, leapt_ms = int(content.get("trusted_ms", looked_ms)), int(content.get("leapt_ms", 0))
        return HousekeepingReport(looked_ms, vacuumed, runs, trusted_ms, leapt_ms)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise BrokenStatusFileError(f"{FILE_NAME} has other fields than it should") from exc


def write_report(lake_path: Path, report: HousekeepingReport) -> None:
    """Raises OSError."""
    content: dict[str, Any] = asdict(report)
    write_status_file(lake_path / FILE_NAME, content)


class ChangedTopics:
    """The topics whose tables housekeeping has changed since the last look; for the job that sums up the archive."""

    def __init__(self, lake_path: Path) -> None:
        self._lake_path = lake_path
        self._seen_ms = -1
        self._sign: tuple[int, int, int] | None = None

    def look(self) -> set[str]:
        """Costs one look at the directory while nothing has changed. Raises OSError."""
        sign = sign_of(self._lake_path / FILE_NAME)
        if sign == self._sign:
            return set()
        try:
            runs = read_report(self._lake_path).runs
        except BrokenStatusFileError:
            return set()
        self._sign = sign
        changed = {topic for run in runs if run.at_ms > self._seen_ms for topic in run.changed}
        self._seen_ms = max((run.at_ms for run in runs), default=self._seen_ms)
        return changed
