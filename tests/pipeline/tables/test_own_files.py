"""A table that names files which are not its own is refused by every reader."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from queue_engine.lake.archive.archive_table import COLUMNS
from queue_engine.lake.history.files import HistoryFiles
from queue_engine.lake.history.levels import MINUTES
from queue_engine.lake.query.lean_dataset import open_dataset
from queue_engine.lake.tables.housekeeping import merge
from queue_engine.lake.tables.own_files import check_own_files
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.vocabulary.errors import ForeignFileError
from tests.pipeline.query.archived_topic import archive_days

FOREIGN = (
    "../secret/date=2026-10-01/{name}",
    "date=2026-10-01/../../secret/date=2026-10-01/{name}",
    "%2e%2e/secret/date=2026-10-01/{name}",
    "..%2Fsecret%2Fdate=2026-10-01%2F{name}",
    "%252e%252e/secret/date=2026-10-01/{name}",
    "{secret}/date=2026-10-01/{name}",
    "file://{secret}/date=2026-10-01/{name}",
    "link/{name}",
    "date=2026-10-01/link.parquet",
    "l%69nk/{name}",
    "date=2026-10-01/l%69nk.parquet",
)


def read_list(place: Path) -> Any:
    table = LakeTables(TableStorage(place), is_holder=False).open("archive/orders", COLUMNS)
    table.refresh()
    return table.files()


def merged(place: Path) -> Any:
    table = LakeTables(TableStorage(place)).open("archive/orders", COLUMNS)
    table.refresh()
    return merge(table, table.files())


def read_by_sql(place: Path) -> Any:
    dataset = open_dataset(TableStorage(place), "archive/orders")
    assert dataset is not None
    return dataset.to_table()


@pytest.mark.parametrize("read", [read_list, merged, read_by_sql])
@pytest.mark.parametrize("path", FOREIGN)
def test_a_file_outside_of_the_table_is_not_read(tmp_path: Path, path: str, read: Callable[[Path], Any]) -> None:
    archive_days(str(tmp_path), "orders", 1, 2)
    archive_days(str(tmp_path), "secret", 1, 3)
    orders, secret = tmp_path / "archive" / "orders", tmp_path / "archive" / "secret"
    (name,) = [one.name for one in secret.rglob("date=*/*.parquet")]
    os.symlink(secret / "date=2026-10-01", orders / "link")
    os.symlink(secret / "date=2026-10-01" / name, orders / "date=2026-10-01" / "link.parquet")
    read_list(tmp_path)
    commit = max((orders / "_delta_log").glob("*.json"))
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            line["add"]["path"] = path.format(name=name, secret=secret)
    commit.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises(ForeignFileError, match=re.escape(str(orders))):
        read(tmp_path)


def test_own_files_and_missing_ones_are_no_foreign_ones_also_behind_a_link_to_the_lake(tmp_path: Path) -> None:
    archive_days(str(tmp_path / "lake"), "orders", 2, 2)
    (tmp_path / "to").symlink_to(tmp_path / "lake")
    assert len(read_list(tmp_path / "to")) == 2
    assert len(read_by_sql(tmp_path / "to")) == 4
    check_own_files(str(tmp_path / "to"), ["date=2026-10-01/gone.parquet"], is_local=True)
    check_own_files("s3://bucket/archive/orders", ["date=2026-10-01/part.parquet"], is_local=False)
    with pytest.raises(ForeignFileError, match="s3://bucket/archive/orders names the file 's3://other/part"):
        check_own_files("s3://bucket/archive/orders", ["s3://other/part.parquet"], is_local=False)


def test_the_graphs_read_no_file_outside_of_their_table(tmp_path: Path) -> None:
    files = HistoryFiles(tmp_path)
    table: Any = files._tables[MINUTES]

    class Actions:
        num_rows = 1

        def get_add_actions(self, *, flatten: bool) -> "Actions":
            return self

        def column(self, name: str) -> Any:
            values = {"path": ["../secret.parquet"], "min.t": [0], "max.t": [60]}
            return type("Column", (), {"to_pylist": lambda _: values[name]})()

    with pytest.raises(ForeignFileError, match=re.escape("'../secret.parquet'")):
        table._files(Actions())
