"""The benchmark of commits at a small size: its tables have what was committed. Times are not judged."""

from pathlib import Path

import pytest

from tests.benchmarks.table_commits import after_days, commit_seconds, opened_bytes, round_seconds

pytestmark = pytest.mark.slow(reason="makes a hundred commits")


def test_a_round_commits_to_each_table(tmp_path: Path) -> None:
    assert round_seconds(tmp_path, 5) > 0
    assert len(list(tmp_path.glob("archive/*/_delta_log/*2.json"))) == 5


def test_a_table_stays_small_while_hours_are_merged(tmp_path: Path) -> None:
    figures = after_days(tmp_path, 65)
    assert figures["files"] == 6
    assert figures["commit ms"] > 0


def test_opened_tables_and_their_files_take_memory(tmp_path: Path) -> None:
    files = 2_000
    small, large = (opened_bytes(tmp_path / str(count), 2, count) for count in (1, files))
    assert large - small > files * 200
    assert commit_seconds(tmp_path / "commits", 3) > 0
