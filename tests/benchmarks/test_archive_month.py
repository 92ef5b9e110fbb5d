"""Some hours of the month of small commits: few files, every message, and quick commits, with room to spare."""

from pathlib import Path
from statistics import median

from tests.benchmarks.archive_month import COMMIT_MS_MAX, FILES_MAX, OPEN_MS_MAX, ROWS, run

HOURS = 2


def test_hours_of_small_commits_leave_few_files(tmp_path: Path) -> None:
    month = run(tmp_path, HOURS / 24, 1)

    assert month.rows == HOURS * 60 * ROWS
    assert month.files_max <= FILES_MAX // 3
    assert median(month.commits_ms) <= 4 * COMMIT_MS_MAX
    assert median(month.opens_ms) <= 4 * OPEN_MS_MAX
