"""The table of the gaps, as other programs read it, and one that a version before its last columns wrote."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from queue_engine.lake.archive.archive_gap import ArchiveGap
from queue_engine.lake.archive.archive_table import ArchivedIdentity
from queue_engine.lake.archive.gaps import COLUMNS, GAPS, LATER, Gaps
from queue_engine.lake.source.arrow_schemas import TIMESTAMP
from queue_engine.lake.tables.log_files import check_commits
from queue_engine.lake.tables.parquet_files import write_data_file
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.table import LakeTable
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.vocabulary.errors import TableSchemaError
from tests.pipeline.query.archived_topic import rows_of

OLD_COLUMNS = pa.schema([one for one in COLUMNS if one.name not in LATER])
ONE = ArchivedIdentity("orders", "5f1c", 1, 0x100)
OLD_GAP = ArchiveGap(0, 1 << 20, "absent", 1)
# With the columns of each: lost, left out, unused.
NEW_GAPS = {
    ArchiveGap(1 << 20, (1 << 20) + 7, "gone", 1): (7, 0, 0),
    ArchiveGap((1 << 20) + 7, (1 << 20) + 9, "off", 1): (0, 2, 0),
    ArchiveGap((1 << 20) + 9, (1 << 20) + 20, "replayed", 1, 5): (0, 5, 0),
    ArchiveGap((1 << 20) + 20, (1 << 20) + 50, "absent", 1): (0, 0, 30),
}
END = (1 << 20) + 50


def old_table(storage: TableStorage) -> LakeTable:
    """The table as the version before wrote it, with one gap."""
    table = LakeTables(storage).open(GAPS, OLD_COLUMNS, ())
    at = pa.array([OLD_GAP.at_ms * 1000], pa.int64()).cast(TIMESTAMP)
    values = ["orders", "5f1c", 1, 0x100, OLD_GAP.first_offset, OLD_GAP.next_offset, OLD_GAP.count, OLD_GAP.reason]
    rows = pa.table([*([one] for one in values), at], schema=OLD_COLUMNS)
    table.commit([write_data_file(storage, GAPS, OLD_COLUMNS, {}, [rows])], ONE.app_id, OLD_GAP.next_offset, after=None)
    return table


@pytest.mark.parametrize("is_old", [False, True], ids=["new", "of the version before"])
def test_the_table_itself_says_what_is_lost_left_out_and_unused(tmp_path: Path, is_old: bool) -> None:
    storage = TableStorage(tmp_path)
    before = old_table(storage) if is_old else None
    gaps = Gaps(LakeTables(storage))
    sums = "SELECT sum(lost), sum(left_out), sum(unused) FROM archive_gaps"
    if before is not None:
        assert gaps.read() == {ONE: [OLD_GAP]}
        assert rows_of(tmp_path, sums) == [(0, 0, 1 << 20)]
        version = before.version

    gaps.commit({ONE: list(NEW_GAPS)}, {ONE: (1 << 20 if is_old else None, END)})

    table = DeltaTable(tmp_path / GAPS)
    found = table.to_pyarrow_table().select(["reason", "first_offset", *LATER]).sort_by("first_offset")
    new = [(gap.reason, gap.first_offset, *counts) for gap, counts in NEW_GAPS.items()]
    old = [("absent", 0, None, None, None)] if is_old else []
    assert [tuple(row.values()) for row in found.to_pylist()] == old + new
    read = duckdb.from_arrow(table.to_pyarrow_dataset()).aggregate("sum(lost), sum(left_out), sum(unused)")
    assert read.fetchall() == [(7, 7, 30)]
    assert rows_of(tmp_path, sums) == [(7, 7, 30 + ((1 << 20) if is_old else 0))]
    assert gaps.read() == {ONE: [*([OLD_GAP] if is_old else []), *NEW_GAPS]}
    assert gaps.next_offsets([ONE]) == [END]
    check_commits(storage, GAPS, range(table.version() + 1))
    if before is not None:
        # Once: a commit for the columns, and one for the gaps.
        assert table.version() == version + 2
        with pytest.raises(TableSchemaError, match=r"archive_gaps is not as .*: the column lost is new"):
            before.refresh()
