"""Which views there are, by which names, and what they leave unread."""

import io
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from queue_engine.lake.archive.archive_gap import ArchiveGap
from queue_engine.lake.archive.archive_table import ArchivedIdentity
from queue_engine.lake.archive.gaps import Gaps
from queue_engine.lake.history.schema import HISTORY_ROWS, TABLE_ROWS
from queue_engine.lake.query.child import Task, outcome_of
from queue_engine.lake.query.views import names_of
from queue_engine.lake.tables.parquet_files import write_data_file
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.tables import LakeTables
from tests.pipeline.query.archived_topic import archive_days, rows_of, views


def test_a_view_has_the_name_of_its_topic_and_each_name_is_there_once() -> None:
    assert names_of(["orders.eu", "Orders", "orders", "audit", "ORDERS"]) == {
        "ORDERS": "ORDERS",
        "Orders": "Orders~2",
        "audit": "audit~2",
        "orders": "orders~3",
        "orders.eu": "orders.eu",
    }


def test_without_the_right_to_bodies_no_topic_is_a_view(tmp_path: Path) -> None:
    archive_days(str(tmp_path), "orders", 1, 1)
    (tmp_path / "archive" / "not a topic").mkdir()
    assert [one.name for one in views(str(tmp_path))] == ["archive_gaps", "history_hours", "history_minutes", "orders"]
    assert [one.name for one in views(str(tmp_path), may_read_bodies=False)] == [
        "archive_gaps",
        "history_hours",
        "history_minutes",
    ]


def test_a_query_reads_a_topic_and_its_bodies_as_text(tmp_path: Path) -> None:
    archive_days(str(tmp_path), "orders.eu", 2, 3, [b'{"a": "\xc3\xa4"}', b"\xff", b""])
    found = rows_of(tmp_path, """SELECT "offset", text, json->>'$.a', body FROM "Orders.EU" ORDER BY 1 LIMIT 3""")
    assert found == [(0, '{"a": "ä"}', "ä", b'{"a": "\xc3\xa4"}'), (1, None, None, b"\xff"), (2, "", None, b"")]
    assert rows_of(tmp_path, 'SELECT count(*), min(date)::VARCHAR, max(server) FROM "orders.eu"') == [
        (6, "2026-10-01", "a")
    ]


def test_views_without_a_table_have_no_rows_and_a_topic_without_one_is_named(tmp_path: Path) -> None:
    assert rows_of(tmp_path, "SELECT * FROM archive_gaps, history_minutes") == []
    (tmp_path / "archive" / "orders" / "1-0000000000000000").mkdir(parents=True)
    with pytest.raises(Exception, match=r"orders has no table in .* yet"):
        rows_of(tmp_path, "SELECT * FROM orders")


def test_what_was_lost_and_what_was_never_used_are_columns_of_their_own(tmp_path: Path) -> None:
    """Offsets that kills left unused sum to millions, and no message is lost by them."""
    one, other = (ArchivedIdentity("orders", "5f1c", number, 0x100) for number in (1, 2))
    reasons = {
        "absent": 1 << 20,
        "damaged": 1,
        "gone": 20,
        "retention": 300,
        "lost": 4_000,
        "off": 50_000,
        "replayed": 7,
    }
    gaps, begin = [], 10
    for reason, count in reasons.items():
        gaps.append(ArchiveGap(begin, begin + count, reason, 1))
        begin += count
    table = Gaps(LakeTables(TableStorage(tmp_path)))
    table.commit({one: gaps}, {one: (None, begin)})
    table.commit({other: [ArchiveGap(0, 12_400_000, "absent", 1)]}, {other: (None, 12_400_000)})
    sums = "SELECT sum(lost), sum(left_out), sum(unused) FROM archive_gaps WHERE number ="
    assert rows_of(tmp_path, f"{sums} 1") == [(4_321, 50_007, 1 << 20)]
    assert rows_of(tmp_path, f"{sums} 2") == [(0, 0, 12_400_000)]


def test_a_history_of_before_there_were_tables_is_no_empty_one(tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "manifest.json").write_bytes(b"{}")
    with pytest.raises(Exception, match=r"history_hours has no table in .* format of before release 0.2.0"):
        rows_of(tmp_path, "SELECT * FROM history_hours")
    assert rows_of(tmp_path, "SELECT * FROM archive_gaps") == []


def test_the_history_is_a_view_with_its_windows_as_times(tmp_path: Path) -> None:
    storage = TableStorage(tmp_path)
    row = dict.fromkeys(HISTORY_ROWS.names) | {"t": 1_790_000_040, "topic": "orders", "waiting_max": 7.0}
    rows = pa.Table.from_pylist([row], schema=HISTORY_ROWS)
    file = write_data_file(storage, "history/minutes", HISTORY_ROWS, {"date": "2026-09-21"}, [rows])
    LakeTables(storage).open("history/minutes", TABLE_ROWS).commit([file], "rollup-1", 1, after=None)
    found = rows_of(
        tmp_path, "SELECT \"at\"::VARCHAR, topic, waiting_max FROM history_minutes WHERE date = DATE '2026-09-21'"
    )
    assert found == [("2026-09-21 14:14:00+00", "orders", 7.0)]
    assert rows_of(tmp_path, "SELECT count(*) FROM history_hours") == [(0,)]


@pytest.mark.parametrize(
    "condition",
    [
        "date = '2026-10-17'",
        "date BETWEEN '2026-10-16' AND '2026-10-18' AND date <> '2026-10-16' AND date < '2026-10-18'",
        '"offset" BETWEEN 160 AND 169',
        "published_at >= '2026-10-17' AND published_at < '2026-10-18'",
        "published_at > TIMESTAMPTZ '2026-10-18 00:00:00+00' - INTERVAL 1 DAY AND published_at < '2026-10-17 02:00+02'",
        "message_id >= '00000000000000a0' AND message_id <= '00000000000000a9'",
        "date = '2026-10-17' AND text LIKE '%magnitude%'",
    ],
)
def test_a_condition_leaves_the_files_of_other_days_unopened(tmp_path: Path, condition: str) -> None:
    files = archive_days(str(tmp_path), "orders", 30, 10)
    for day, file in enumerate(files):
        if day != 16:
            (tmp_path / file).unlink()
    rows = 10 if "02:00+02" not in condition else 0
    assert rows_of(tmp_path, f"SELECT count(*), sum(octet_length(body)) FROM orders WHERE {condition}")[0][0] == rows
    with pytest.raises(Exception, match="No such file"):
        rows_of(tmp_path, "SELECT count(*) FROM orders")


def test_the_last_microsecond_of_a_file_is_found_by_its_time(tmp_path: Path) -> None:
    """Statistics that were cut to milliseconds would leave the file out."""
    archive_days(str(tmp_path), "orders", 3, 10)
    found = rows_of(tmp_path, "SELECT \"offset\" FROM orders WHERE published_at = '2026-10-02 00:00:09.999999+00'")
    assert found == [(19,)]
    found = rows_of(tmp_path, "SELECT \"offset\" FROM orders WHERE published_at > '2026-10-03 00:00:09.999998+00'")
    assert found == [(29,)]


def test_a_damaged_table_costs_a_sentence_that_names_it(tmp_path: Path) -> None:
    archive_days(str(tmp_path), "orders", 1, 1)
    for one in (tmp_path / "archive" / "orders" / "_delta_log").iterdir():
        one.write_bytes(b"{")
    with pytest.raises(Exception, match="orders can't be read: "):
        rows_of(tmp_path, "SELECT * FROM orders")


@pytest.mark.parametrize(
    ("spoil", "said", "again"),
    [
        (
            Path.unlink,
            r"Failed to open local file '.*part-.*'. Detail: \[errno 2\] No such file or directory",
            ", or have the log's messages of it written again: penstock pipeline rearchive orders",
        ),
        (
            lambda file: file.write_bytes(b"x" * 100),
            r"Could not open Parquet input source '.*part-.*magic bytes not",
            "",
        ),
        (lambda file: file.write_bytes(b""), r"Could not open Parquet input source '.*part-.* is 0 bytes", ""),
    ],
)
def test_a_data_file_that_is_gone_or_damaged_costs_a_sentence_that_says_what_to_do(
    tmp_path: Path, spoil: Callable[[Path], object], said: str, again: str
) -> None:
    files = archive_days(str(tmp_path), "orders", 3, 10)
    spoil(tmp_path / files[1])
    sql = "SELECT count(text) FROM orders"
    known = [one for one in views(str(tmp_path)) if one.is_named_in(sql)]
    outcome = outcome_of(Task(sql, 0, 256 << 20, 1_000, 2, known), io.BytesIO())
    assert re.match(rf"A data file of orders can't be read: {said}", outcome.error)
    assert outcome.error.endswith(f"if that fails too, restore the file from a backup{again}.")


def test_the_storage_of_a_view_is_known_by_its_place_alone(tmp_path: Path) -> None:
    """A task is JSON: no object, and no credentials."""
    known = views(str(tmp_path))
    task = Task("SELECT 1", 3, 1, 1, 1, known, {"audit": 5}, ["x"])
    assert Task.decode(task.encode()) == task
    assert {one.place for one in known} == {TableStorage(tmp_path).place, TableStorage(tmp_path / "history").place}
