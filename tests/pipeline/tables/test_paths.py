"""Names of directories: those that work run through archive and SQL, and the others are refused by a sentence."""

import os
from pathlib import Path

import pytest

from queue_engine.lake.archive.archive_table import COLUMNS
from queue_engine.lake.query.lean_dataset import open_dataset
from queue_engine.lake.tables.housekeeping import merge
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.vocabulary.errors import StorePlaceError
from tests.pipeline.query.archived_topic import archive_days, ask, views


@pytest.mark.parametrize("name", ["p q", "p#q", "pé", "p'q\"", "100%", "50%zz", "p?q", "p+q", "a:b", "p&q;$(x)"])
def test_a_table_is_written_read_and_merged_below_it(tmp_path: Path, name: str) -> None:
    lake = tmp_path / name / "data"
    archive_days(str(lake), "orders", 2, 3)
    table = LakeTables(TableStorage(lake)).open("archive/orders", COLUMNS)
    table.refresh()
    assert sum(file.rows for file in table.files()) == 6
    assert merge(table, table.files()[:1]) is not None
    assert table.checkpoint()
    dataset = open_dataset(TableStorage(lake), "archive/orders")
    assert dataset is not None
    assert dataset.to_table().num_rows == 6
    assert os.listdir(tmp_path) == [name]


def test_a_query_reads_below_such_a_name(tmp_path: Path) -> None:
    lake = str(tmp_path / "p q#é'\"")
    archive_days(lake, "orders", 1, 3)
    assert ask("SELECT count(*) AS n FROM orders", views(lake)) == [{"n": 3}]


@pytest.mark.parametrize("name", ["p%20q", "pct%41", "a%2Fb", "a%25b", "p\\q", "[x]", "a|b", "a\tb"])
def test_a_directory_that_delta_takes_for_another_one_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / name)
    for place in (tmp_path / name, tmp_path / "link"):
        with pytest.raises(StorePlaceError, match=r"no table can lie below .* Rename that directory"):
            TableStorage(place / "data")
    assert not any((tmp_path / name).iterdir())
