"""Commits to a table on a disk."""

import os
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from queue_engine.lake.tables.housekeeping import clean_log
from queue_engine.lake.tables.log_files import LOG, commit_path
from queue_engine.lake.tables.parquet_files import DataFile, write_data_file
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.table import CommitResult, LakeTable
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.vocabulary.errors import DataFileMissingError, TableSchemaError, TableTransactionError
from tests.pipeline.tables.table_places import APP, DATE, FILE_SCHEMA, PATH, SCHEMA, data_file, offsets_of, rows


@pytest.fixture
def storage(tmp_path: Path) -> TableStorage:
    return TableStorage(tmp_path / "lake")


@pytest.fixture
def table(storage: TableStorage) -> LakeTable:
    return LakeTables(storage).open(PATH, SCHEMA)


def test_no_table_has_no_transaction(table: LakeTable) -> None:
    assert not table.exists()
    assert table.transaction(APP) is None


def test_a_commit_makes_the_table_and_counts_once(storage: TableStorage, table: LakeTable) -> None:
    assert table.commit([data_file(storage, 0, 10)], APP, 10, after=None) is CommitResult.COMMITTED
    assert table.commit([data_file(storage, 0, 10)], APP, 10, after=None) is CommitResult.UNCHANGED
    assert table.commit([data_file(storage, 0, 5)], APP, 5, after=None) is CommitResult.UNCHANGED
    assert table.transaction(APP) == 10
    assert offsets_of(table) == list(range(10))
    again = LakeTables(storage).open(PATH, SCHEMA)
    assert (again.transaction(APP), again.version, offsets_of(again)) == (10, 1, list(range(10)))


def test_two_writers_of_one_step_commit_it_once(storage: TableStorage, table: LakeTable) -> None:
    other = LakeTables(storage).open(PATH, SCHEMA)
    table.commit([data_file(storage, 0, 10)], APP, 10, after=None)
    assert other.transaction(APP) == 10
    assert table.commit([data_file(storage, 10, 20)], APP, 20, after=10) is CommitResult.COMMITTED
    assert other.commit([data_file(storage, 10, 20)], APP, 20, after=10) is CommitResult.UNCHANGED
    assert offsets_of(other) == list(range(20))


def test_a_commit_that_begins_elsewhere_than_the_table_is_refused(storage: TableStorage, table: LakeTable) -> None:
    table.commit([data_file(storage, 0, 10)], APP, 10, after=None)
    with pytest.raises(TableTransactionError, match=r"archive/orders has transaction 10 of .* from 5 to 20"):
        table.commit([data_file(storage, 5, 20)], APP, 20, after=5)
    assert offsets_of(table) == list(range(10))


def test_files_have_their_statistics(storage: TableStorage, table: LakeTable) -> None:
    written = data_file(storage, 3, 9)
    table.commit([written], APP, 9, after=None)
    (file,) = table.files()
    assert (file.path, file.size, file.rows, file.partition) == (written.path, written.size, 6, {"date": DATE})
    assert file.minimum == {"offset": 3, "published_at": datetime(1970, 1, 1, 0, 0, 0, 3, UTC)}
    assert file.maximum == {"offset": 8, "published_at": datetime(1970, 1, 1, 0, 0, 0, 8, UTC)}
    assert orjson.loads(written.statistics)["nullCount"] == {"offset": 0, "published_at": 0, "body": 0}


def test_a_look_that_finds_no_commit_lists_no_log(storage: TableStorage, table: LakeTable) -> None:
    table.commit([data_file(storage, 0, 10)], APP, 10, after=None)
    log = storage.at(f"{PATH}/{LOG}")
    # The system notes when a directory is listed, once its time of access is older than its last change.
    os.utime(log, ns=(0, os.stat(log).st_mtime_ns))
    assert (table.refresh(), table.transaction(APP)) == (1, 10)
    assert os.stat(log).st_atime_ns == 0, "the log was listed"
    other = LakeTables(storage).open(PATH, SCHEMA)
    other.commit([data_file(storage, 10, 20)], APP, 20, after=10)
    assert (table.refresh(), table.transaction(APP)) == (2, 20)


def test_a_table_whose_log_was_cleaned_up_meanwhile_is_read_anew(storage: TableStorage, table: LakeTable) -> None:
    table.commit([data_file(storage, 0, 10)], APP, 10, after=None)
    other = LakeTables(storage).open(PATH, SCHEMA)
    for first in range(10, 40, 10):
        other.commit([data_file(storage, first, first + 10)], APP, first + 10, after=first)
    clean_log(other, keep_ms=-1)
    assert not storage.exists(commit_path(PATH, 2)), "the commit that follows is gone"
    assert (table.refresh(), table.transaction(APP)) == (4, 40)


def test_a_table_whose_newest_commit_alone_was_left_is_read_anew(storage: TableStorage, table: LakeTable) -> None:
    for first in range(0, 40, 10):
        table.commit([data_file(storage, first, first + 10)], APP, first + 10, after=first or None)
    table.commit([], "other", 1, after=None)
    assert clean_log(LakeTables(storage).open(PATH, SCHEMA), keep_ms=-1) == 5
    # delta-rs looks for a transaction in the commits, the newest first.
    assert (table.refresh(), table.transaction(APP), offsets_of(table)) == (5, 40, list(range(40)))


def test_a_partition_is_replaced_as_a_whole(storage: TableStorage, table: LakeTable) -> None:
    table.commit([data_file(storage, 0, 5), data_file(storage, 5, 10)], APP, 10, after=None)
    table.commit([data_file(storage, 10, 20, date="2026-11-23")], APP, 20, after=10)
    assert table.overwrite({"date": DATE}, [data_file(storage, 0, 9)], "day", 1, after=None) is CommitResult.COMMITTED
    assert table.overwrite({"date": DATE}, [data_file(storage, 0, 3)], "day", 1, after=None) is CommitResult.UNCHANGED
    assert offsets_of(table) == [*range(9), *range(10, 20)]
    assert len(DeltaTable(table.place, version=1).file_uris()) == 2


def test_a_commit_without_files_moves_the_version(table: LakeTable) -> None:
    assert table.commit([], APP, 7, after=None) is CommitResult.COMMITTED
    assert (table.transaction(APP), table.files()) == (7, [])


def test_a_file_that_is_not_there_is_not_committed(storage: TableStorage, table: LakeTable) -> None:
    file = data_file(storage, 0, 10)
    (Path(table.at(file))).unlink()
    with pytest.raises(DataFileMissingError, match=r"part-.*\.parquet is not there, and was written with \d+"):
        table.commit([file], APP, 10, after=None)
    torn = data_file(storage, 0, 10)
    Path(table.at(torn)).write_bytes(b"PAR1")
    with pytest.raises(DataFileMissingError, match="has 4 bytes"):
        table.commit([torn], APP, 10, after=None)
    assert (table.transaction(APP), table.files()) == (None, [])


def test_a_file_that_was_replaced_before_can_not_be_replaced_again(storage: TableStorage, table: LakeTable) -> None:
    table.commit([data_file(storage, 0, 10)], APP, 10, after=None)
    (old,) = table.files()
    table.overwrite({"date": DATE}, [data_file(storage, 0, 10)], "day", 1, after=None)
    with pytest.raises(DataFileMissingError, match="does not count any longer"):
        table.commit([data_file(storage, 0, 10)], "merge", 1, after=None, remove=[old.path])


def test_a_table_with_other_columns_is_refused(storage: TableStorage, table: LakeTable) -> None:
    table.create()
    other = SCHEMA.insert(0, pa.field("server", pa.string()))
    with pytest.raises(TableSchemaError, match=r"archive/orders is not as .* the column server is missing"):
        LakeTables(storage).open(PATH, other).transaction(APP)


def test_a_written_file_goes_through_another_process(storage: TableStorage) -> None:
    file = data_file(storage, 0, 10)
    assert DataFile.decode(file.encode()) == file


def test_a_file_is_written_in_whole_row_groups(storage: TableStorage) -> None:
    batches = [rows(first, first + 30) for first in range(0, 150, 30)]
    file = write_data_file(storage, PATH, FILE_SCHEMA, {"date": DATE}, batches, row_group_rows=40)
    metadata = pq.read_metadata(storage.at(f"{PATH}/{file.path}"))
    assert [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)] == [40, 40, 40, 30]
