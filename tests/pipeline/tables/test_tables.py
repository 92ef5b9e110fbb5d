"""Tables that are kept open, within a limit of memory."""

from pathlib import Path

from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.tables import COUNTED_EACH, FILE_BYTES, TABLE_BYTES, LakeTables
from tests.pipeline.tables.table_places import APP, SCHEMA, data_file, offsets_of


def test_a_table_is_opened_once(tmp_path: Path) -> None:
    tables = LakeTables(TableStorage(tmp_path))
    assert tables.open("a", SCHEMA) is tables.open("a", SCHEMA)


def test_tables_beyond_the_limit_are_closed_and_open_again(tmp_path: Path) -> None:
    storage = TableStorage(tmp_path)
    tables = LakeTables(storage, open_bytes_max=3 * TABLE_BYTES)
    for first in (0, 10):
        for name in "abcdef":
            file = data_file(storage, first, first + 10, path=name)
            tables.open(name, SCHEMA).commit([file], APP, first + 10, after=first or None)
        assert tables.open_bytes() == 6 * (TABLE_BYTES + FILE_BYTES * (first // 10 + 1))
        for _ in range(COUNTED_EACH):
            tables.open("a", SCHEMA)
        assert 0 < tables.open_bytes() <= 3 * TABLE_BYTES
    for name in "abcdef":
        assert offsets_of(tables.open(name, SCHEMA)) == list(range(20))
