"""What the first versions wrote, before there were tables, is refused before anything is written, with the way out."""

from pathlib import Path

import pytest

from queue_engine.lake.archive.archive_table import ArchivedIdentity
from queue_engine.lake.archive.old_manifest import check_converted
from queue_engine.lake.directory.lake import CONVERTING_COMMIT, Lake
from queue_engine.lake.history.files import HistoryFiles
from queue_engine.lake.history.history_tables import HistoryTables
from queue_engine.lake.history.levels import CONVERTED, MINUTES
from queue_engine.lake.history.schema import TABLE_ROWS
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.vocabulary.errors import NotConvertedError
from tests.support.clock import ManualClock
from tests.support.lakes.converted_archive import converted_archive

SERVER = "5f1c"


def put(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"of an earlier version")
    return path


def tree(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_archive_that_no_table_has_is_refused(tmp_path: Path) -> None:
    lake, tables = Lake(str(tmp_path)), LakeTables(TableStorage(tmp_path))
    check_converted(lake, tables, SERVER)
    path = put(tmp_path / "archive" / "orders" / f"3-{0xABC:016x}" / "manifest.json")
    before = tree(tmp_path)
    with pytest.raises(NotConvertedError, match=rf"the archive of orders .*{path}.*commit {CONVERTING_COMMIT}"):
        check_converted(lake, tables, SERVER)
    assert tree(tmp_path) == before


def test_a_manifest_whose_files_a_table_has_is_left_alone(tmp_path: Path) -> None:
    lake, tables = Lake(str(tmp_path)), LakeTables(TableStorage(tmp_path))
    with lake.lock():
        converted_archive(lake, tables, ManualClock(), ArchivedIdentity("orders", SERVER, 3, 0xABC))
    check_converted(lake, tables, SERVER)


def test_a_history_that_no_table_has_is_refused_by_jobs_and_graphs(tmp_path: Path) -> None:
    lake, files = Lake(str(tmp_path)), HistoryFiles(tmp_path)
    assert files.extent(MINUTES) is None
    path = put(tmp_path / "history" / "manifest.json")
    before = tree(tmp_path)
    for refused in (HistoryTables(lake).check_converted, lambda: files.extent(MINUTES)):
        with pytest.raises(NotConvertedError, match=rf"the history .*{path}.*commit {CONVERTING_COMMIT}"):
            refused()
    assert tree(tmp_path) == before
    # As the version did that converted it.
    LakeTables(TableStorage(tmp_path / "history")).open(MINUTES, TABLE_ROWS).commit((), CONVERTED, 1, after=None)
    HistoryTables(lake).check_converted()
    assert files.extent(MINUTES) is None
