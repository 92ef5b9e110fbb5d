"""Merging small files, vacuum, and cleaning up the log."""

import os
import time
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from queue_engine.lake.tables.housekeeping import clean_log, merge, pieces_of, vacuum
from queue_engine.lake.tables.parquet_files import DataFile
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.table import MS_PER_HOUR, LakeTable
from queue_engine.lake.tables.table_files import TableFile
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.vocabulary.errors import DataFileMissingError, TableError
from tests.pipeline.tables.table_places import APP, DATE, PATH, SCHEMA, data_file, names_in, offsets_of
from tests.support.disks.synced_tree import SyncedFiles

DAY_MS = 24 * MS_PER_HOUR
WEEK_MS = 7 * DAY_MS


@pytest.fixture
def storage(tmp_path: Path) -> TableStorage:
    return TableStorage(tmp_path / "lake")


@pytest.fixture
def table(storage: TableStorage) -> LakeTable:
    """Ten files of ten offsets each, and one more of another date."""
    table = LakeTables(storage).open(PATH, SCHEMA)
    for number in range(10):
        commit(table, number * 10, number * 10 + 10)
    commit(table, 100, 110, date="2026-11-23")
    return table


def commit(table: LakeTable, first: int, after: int, *, date: str = DATE) -> None:
    table.commit([data_file(table.storage, first, after, date=date)], APP, after, after=first or None)


def table_at(table: LakeTable, version: int) -> DeltaTable:
    return DeltaTable(table.place, version=version)


def files_of_the_day(table: LakeTable) -> list[TableFile]:
    files = [one for one in table.files() if one.partition == {"date": DATE}]
    return sorted(files, key=lambda one: int(one.minimum["offset"]))


def merged(table: LakeTable) -> DataFile | None:
    return merge(table, files_of_the_day(table))


def test_small_files_of_a_partition_become_one(table: LakeTable) -> None:
    done = merged(table)
    assert done is not None
    assert done.rows == 100
    assert [(one.partition["date"], one.rows) for one in table.files()] == [(DATE, 100), ("2026-11-23", 10)]
    assert (table.files()[0].minimum["offset"], table.files()[0].maximum["offset"]) == (0, 99)
    assert (offsets_of(table), table.transaction(APP)) == (list(range(110)), 110)


def test_rows_of_small_files_share_a_row_group(table: LakeTable) -> None:
    merged(table)
    assert pq.ParquetFile(table.at(table.files()[0])).metadata.num_row_groups == 1


def test_a_merge_that_is_stopped_leaves_nothing(table: LakeTable) -> None:
    asked = iter([False, False, True])
    assert merge(table, files_of_the_day(table), should_stop=lambda: next(asked)) is None
    assert len(list(Path(table.place, f"date={DATE}").iterdir())) == 10
    assert offsets_of(table) == list(range(110))


def test_a_merge_whose_file_was_replaced_meanwhile_changes_nothing(storage: TableStorage, table: LakeTable) -> None:
    other = LakeTables(storage).open(PATH, SCHEMA)
    chosen = files_of_the_day(table)
    merged(other)
    with pytest.raises(TableError):
        merge(table, chosen)
    assert offsets_of(table) == list(range(110))


def test_a_merge_of_a_file_that_is_gone_says_so(table: LakeTable) -> None:
    Path(table.at(table.files()[3])).unlink()
    with pytest.raises(DataFileMissingError, match="counts in the table, and is not there: restore it from a backup"):
        merged(table)
    assert len(list(Path(table.place, f"date={DATE}").iterdir())) == 9


def test_a_vacuum_removes_what_was_replaced_long_enough_ago(table: LakeTable) -> None:
    before = table.version
    merged(table)
    assert vacuum(table, retention_ms=WEEK_MS, unnamed_age_ms=DAY_MS).replaced == 0
    assert all(Path(path).exists() for path in table_at(table, before).file_uris())
    done = vacuum(table, retention_ms=0, unnamed_age_ms=DAY_MS)
    assert (done.replaced, done.unnamed) == (10, 0)
    assert done.bytes > 0
    assert offsets_of(table) == list(range(110))


@pytest.mark.parametrize("act", ["vacuum", "clean_log"])
def test_what_a_commit_replaced_goes_only_once_that_commit_is_durable(tmp_path: Path, act: str) -> None:
    """A process dies between a commit or checkpoint and its sync; another one tidies up, and the power is cut."""
    files = SyncedFiles(tmp_path / "disk")
    files.root.mkdir()
    storage = TableStorage(files.root / "lake", files=files)
    table = LakeTables(storage).open(PATH, SCHEMA)
    commit(table, 0, 10)
    commit(table, 10, 20)
    # Its syncs are not seen by `files`, as if it had died before them.
    died = LakeTables(TableStorage(files.root / "lake")).open(PATH, SCHEMA)
    if act == "vacuum":
        file = data_file(storage, 0, 20)
        storage.sync([f"{PATH}/{file.path}"])
        died.commit([file], "merge", 1, after=None, remove=[one.path for one in died.files()], changes_data=False)
        assert vacuum(table, retention_ms=0, unnamed_age_ms=DAY_MS).replaced == 2
    else:
        died.checkpoint()
        assert clean_log(table, keep_ms=-1000) == 2
    for seed in range(20):
        target = tmp_path / f"cut{seed}"
        files.power_cut(target, Random(seed))
        assert offsets_of(LakeTables(TableStorage(target / "lake")).open(PATH, SCHEMA)) == list(range(20))


def test_a_vacuum_removes_what_no_commit_named_and_nothing_else(storage: TableStorage, table: LakeTable) -> None:
    killed = data_file(storage, 200, 210)
    young = data_file(storage, 210, 220)
    old_layout = Path(table.place, "7-00000000000f4240", "date=2026-11-22", "g000001-000001-part.parquet")
    old_layout.parent.mkdir(parents=True)
    old_layout.write_bytes(b"PAR1")
    for path in (Path(table.at(killed)), old_layout, *Path(table.place, f"date={DATE}").iterdir()):
        if path != Path(table.at(young)):
            os.utime(path, (0, 0))
    done = vacuum(table, retention_ms=WEEK_MS, unnamed_age_ms=DAY_MS)
    assert (done.replaced, done.unnamed) == (0, 1)
    assert not Path(table.at(killed)).exists()
    assert Path(table.at(young)).exists()
    assert old_layout.exists()
    assert offsets_of(table) == list(range(110))


def test_a_file_that_a_vacuum_may_remove_is_not_committed(storage: TableStorage, table: LakeTable) -> None:
    class LaterClock:
        monotonic_ns = staticmethod(time.monotonic_ns)

        def time_ns(self) -> int:
            return time.time_ns() + 13 * MS_PER_HOUR * 1_000_000

    late = LakeTables(storage, clock=LaterClock()).open(PATH, SCHEMA)
    file = data_file(storage, 110, 120)
    with pytest.raises(DataFileMissingError, match=r"written more than 12 hours ago, .* the step is made again"):
        late.commit([file], APP, 120, after=110)


def test_the_log_keeps_what_young_versions_need(storage: TableStorage, table: LakeTable) -> None:
    log = Path(table.place, "_delta_log")
    table.checkpoint()
    commit(table, 110, 120)
    for version in range(12, 15):
        (log / f"{version:020d}.json#1").touch()
    assert clean_log(table, keep_ms=DAY_MS) == 0
    two_days_ago_s = time.time() - 2 * DAY_MS / 1_000
    for version in range(11):
        os.utime(log / f"{version:020d}.json", (two_days_ago_s, two_days_ago_s))
    # The checkpoint of version 11 stands for the commits before it.
    assert clean_log(table, keep_ms=DAY_MS) == 11
    assert table_at(table, 11).version() == 11
    assert clean_log(table, keep_ms=-1000) == 5
    assert names_in(log) == [f"{12:020d}.checkpoint.parquet", f"{12:020d}.json", "_last_checkpoint"]
    again = LakeTables(storage).open(PATH, SCHEMA)
    assert (again.transaction(APP), offsets_of(again)) == (120, list(range(120)))


def test_a_table_that_others_cleaned_up_is_taken_in_again(storage: TableStorage, table: LakeTable) -> None:
    other = LakeTables(storage).open(PATH, SCHEMA)
    assert other.refresh() == 11
    for number in range(11, 14):
        commit(table, number * 10, number * 10 + 10)
    clean_log(table, keep_ms=-1000)
    assert (other.transaction(APP), offsets_of(other)) == (140, list(range(140)))


@pytest.mark.parametrize("dictionary", [True, False])
def test_large_messages_are_read_few_at_a_time(tmp_path: Path, dictionary: bool) -> None:
    """A body that all rows share stands in the file once, and in memory as often as rows are read."""
    body, path = b"x" * 65_536, tmp_path / "file"
    bodies = [body] * 300 + [b"small"] * 2_000 + [body * 8, b""]
    pq.write_table(pa.table({"body": bodies}), path, use_dictionary=dictionary, row_group_size=300)
    with path.open("rb") as source:
        pieces = [piece.column("body").cast(pa.binary()) for piece in pieces_of(source, 4 * len(body))]
    assert [value for piece in pieces for value in piece.to_pylist()] == bodies
    most = sorted(sum(map(len, piece.to_pylist())) for piece in pieces)
    assert most[-1] <= 9 * len(body)
    assert most[-2] <= 4 * len(body)
