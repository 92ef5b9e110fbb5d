"""Symbolic links in place of the lake's files: refused or put away, never followed."""

import subprocess
import sys
from pathlib import Path

import pytest

from admin_console.gateway.history import HistoryUnreadableError, LakeHistory
from queue_engine.lake.directory.lake_lock import LOCK_NAME, LakeLock, holder_of
from queue_engine.vocabulary.clock import SystemClock
from queue_engine.vocabulary.errors import StorageError
from tests.support.lakes.history_lake import HistoryLake, window
from tests.support.processes.server import ROOT

REFUSED = "is a symbolic link, which Penstock does not follow"


def test_lock_that_is_a_link_is_refused_and_its_target_untouched(tmp_path: Path) -> None:
    target, lake = tmp_path / "target", tmp_path / "lake"
    target.write_text("not ours")
    lake.mkdir()
    (lake / LOCK_NAME).symlink_to(target)
    with pytest.raises(StorageError, match=f"{LOCK_NAME} {REFUSED}"):
        LakeLock(str(lake), clock=SystemClock())
    with pytest.raises(OSError, match=f"{LOCK_NAME} {REFUSED}"):
        holder_of(str(lake))
    assert target.read_text() == "not ours"


@pytest.mark.parametrize("name", ["worker.log", "worker.log.1"])
def test_log_of_the_worker_never_goes_where_a_link_points_to(tmp_path: Path, name: str) -> None:
    target, lake = tmp_path / "target", tmp_path / "lake"
    target.write_text("not ours")
    lake.mkdir()
    (lake / name).symlink_to(target)
    program = (
        "import os, sys; from pathlib import Path; from queue_engine.lake.worker.log_file import WorkerLogFile\n"
        "log = WorkerLogFile(Path(sys.argv[1]))\n"
        "os.write(2, b'x' * 5_000_001)\n"
        "log.keep_small()\n"
        "os.write(2, b'the end')\n"
    )
    subprocess.run([sys.executable, "-c", program, str(lake)], check=True, cwd=ROOT)
    assert target.read_text() == "not ours"
    assert (lake / "worker.log").read_text().endswith("the end")
    assert (lake / "worker.log.1").stat().st_size == 5_000_001
    assert not (lake / "worker.log").is_symlink()
    assert not (lake / "worker.log.1").is_symlink()


def test_file_of_the_history_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    lake = HistoryLake(tmp_path)
    path = lake.add("minutes", [window(60)])
    history = LakeHistory(str(tmp_path / "pipeline"))
    assert history.files("minutes", 0, 120) == [str(path)]
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HistoryUnreadableError, match=f"{path.name} {REFUSED}"):
        history.files("minutes", 0, 120)
