"""A backup has each table as it was at its moment, while others go on writing to it."""

import os
from pathlib import Path

import pytest
from deltalake import DeltaTable

from queue_engine.lake.tables.housekeeping import clean_log, merge
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.table import LakeTable
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.storage.disk.backup_files import Staging, read_list
from queue_engine.storage.disk.backup_tables import noted_table
from tests.pipeline.tables.table_places import APP, DATE, PATH, SCHEMA, data_file, offsets_of

LOG = Path("pipeline") / PATH / "_delta_log"


class Backup:
    """A data directory with a table of ten commits, and its staging."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.storage = TableStorage(path / "pipeline")
        self.table = LakeTables(self.storage).open(PATH, SCHEMA)
        self.commit(10)
        self.staging = Staging(str(path), "1")

    def commit(self, count: int) -> None:
        for _ in range(count):
            first = self.table.transaction(APP) if self.table.exists() else None
            after = (first or 0) + 10
            self.table.commit([data_file(self.storage, first or 0, after)], APP, after, after=first)

    def finish(self) -> LakeTable:
        """The table of the backup."""
        self.staging.take_tables(lambda: False)
        self.staging.finish()
        listed = read_list(self.staging.directory) or []
        staged = Path(self.staging.files_path)
        assert {path for path, _ in listed} == {
            str(path.relative_to(staged)) for path in staged.rglob("*") if path.is_file()
        }
        table = LakeTables(TableStorage(staged / "pipeline")).open(PATH, SCHEMA)
        # delta-rs alone, as another program reads it, sees the same.
        assert DeltaTable(str(staged / "pipeline" / PATH)).version() == table.refresh()
        return table


@pytest.fixture
def backup(tmp_path: Path) -> Backup:
    return Backup(tmp_path)


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_a_table_is_as_it_was_at_the_moment(backup: Backup, has_checkpoint: bool) -> None:
    if has_checkpoint:
        backup.table.checkpoint()
        backup.commit(3)
    offsets = offsets_of(backup.table)
    version = backup.table.version
    backup.staging.take({})
    backup.commit(5)
    backup.table.checkpoint()
    merge(backup.table, backup.table.files())
    table = backup.finish()
    assert (table.version, offsets_of(table)) == (version, offsets)


def test_a_table_whose_log_was_shortened_meanwhile_is_taken_as_it_is(backup: Backup) -> None:
    backup.staging.take({})
    backup.commit(5)
    clean_log(backup.table, keep_ms=-1)
    table = backup.finish()
    assert (table.version, offsets_of(table)) == (backup.table.version, list(range(150)))


def test_a_commit_that_goes_while_it_is_listed_costs_a_second_try(
    backup: Backup, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup.staging.take({})
    backup.commit(5)
    link, cleanings = os.link, iter([True])

    def link_while_the_log_is_cleaned(path: str, *args: object, **kwargs: object) -> None:
        if next(cleanings, False):
            clean_log(backup.table, keep_ms=-1)
        link(path, *args, **kwargs)

    monkeypatch.setattr(os, "link", link_while_the_log_is_cleaned)
    assert offsets_of(backup.finish()) == list(range(150))


def test_a_damaged_log_is_copied_as_it_is(backup: Backup) -> None:
    (backup.path / LOG / f"{4:020d}.json").unlink()
    backup.staging.take({})
    backup.staging.take_tables(lambda: False)
    names = {path.name for path in (Path(backup.staging.files_path) / LOG).iterdir()}
    assert names == {path.name for path in (backup.path / LOG).iterdir()}


def test_leftovers_of_commits_are_left_out(backup: Backup) -> None:
    (backup.path / LOG / f"{10:020d}.json#1").write_text("{}")
    (backup.path / "pipeline" / PATH / f"date={DATE}" / "part-x.parquet.tmp").write_text("half")
    backup.staging.take({})
    backup.finish()
    names = {path.name for path in Path(backup.staging.files_path).rglob("*")}
    assert f"{9:020d}.json" in names
    assert not names & {f"{10:020d}.json#1", "part-x.parquet.tmp"}


@pytest.mark.parametrize("last", [0, 1, 2, 3, 9, 64, 100, 1023])
@pytest.mark.parametrize("hint", [None, b'{"version": 0}', b"{", b"[]"])
def test_the_version_is_found_by_few_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: int, hint: bytes | None
) -> None:
    log = tmp_path / "t" / "_delta_log"
    log.mkdir(parents=True)
    for number in range(last + 1):
        (log / f"{number:020d}.json").touch()
    if hint is not None:
        (log / "_last_checkpoint").write_bytes(hint)
    exists, looks = os.path.exists, [0]

    def counted(path: str) -> bool:
        looks[0] += 1
        return exists(path)

    monkeypatch.setattr(os.path, "exists", counted)
    assert noted_table(str(tmp_path), "t").version == last
    assert looks[0] <= 24


def test_a_table_without_a_first_commit_or_hint_has_no_known_version(tmp_path: Path) -> None:
    log = tmp_path / "t" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{7:020d}.json").touch()
    assert noted_table(str(tmp_path), "t").version is None
