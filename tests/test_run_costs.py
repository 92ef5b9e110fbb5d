"""What a run spends beside its tests, and that each process imports its share of them."""

import os
import sys
from pathlib import Path

import pytest

from tests.support.run_costs import FAST, free_memory, share_of, store_bytecode


def test_bytecode_is_stored_where_the_environment_forbids_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    store_bytecode()
    assert not sys.dont_write_bytecode
    assert "PYTHONDONTWRITEBYTECODE" not in os.environ


def test_this_run_and_what_it_starts_store_bytecode() -> None:
    assert not sys.dont_write_bytecode
    assert "PYTHONDONTWRITEBYTECODE" not in os.environ


@pytest.mark.parametrize(("selected", "stays"), [(FAST, False), ("", True)])
def test_fast_tests_leave_no_files(selected: str, stays: bool, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "log").touch()
    free_memory(selected, [tmp_path / "data"])
    assert (tmp_path / "data").exists() == stays


def test_processes_share_all_files() -> None:
    files = [Path(f"test_{at}.py") for at in range(10)]
    shares = [share_of(files, index, 3) for index in range(3)]
    assert sorted(path for share in shares for path in share) == files
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
