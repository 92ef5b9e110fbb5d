"""A query in its process: its rows, its limits, and its end, whoever ends it."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from queue_engine.lake.query.child import Outcome, Task, outcome_of
from queue_engine.lake.query.limits import MIB, QueryLimits
from queue_engine.lake.query.output import CSV, JSON, PARQUET, TABLE, write_rows
from queue_engine.lake.query.query import Query
from queue_engine.vocabulary.errors import QueryError
from tests.pipeline.query.archived_topic import archive_days, ask, views
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow(reason="starts a process for each query")

ROOT = Path(__file__).parents[3]
ENDLESS = "SELECT count(*) FROM range(10000000000) a, range(10000000000) b"
SCHEMA = pa.schema([pa.field("actor", pa.string()), pa.field("row", pa.int64())])


def is_alive(process_id: int) -> bool:
    """False for one that has ended and waits for its parent."""
    try:
        return (Path("/proc") / str(process_id) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def error_of(sql: str, limits: QueryLimits) -> str:
    with pytest.raises(QueryError) as caught:
        ask(sql, [], limits)
    return str(caught.value)


def outcome(sql: str) -> Outcome:
    """Without a process of its own."""
    return outcome_of(Task(sql, 0, 64 * MIB, 10, 1, []), io.BytesIO())


def test_rows_come_from_the_views_that_the_text_names(tmp_path: Path) -> None:
    archive_days(str(tmp_path), "orders.eu", 2, 1_000)
    archive_days(str(tmp_path), "broken", 1, 1)
    for one in (tmp_path / "archive" / "broken" / "_delta_log").iterdir():
        one.write_bytes(b"{")  # a table that is not named is not opened
    known = views(str(tmp_path))
    found = ask('SELECT "offset", text FROM "orders.eu" ORDER BY 1 DESC', known, QueryLimits(rows=1_200))
    assert [row["offset"] for row in found] == list(range(1_999, 799, -1))
    assert found[0]["text"] == '{"magnitude": 9}'
    assert [row["name"] for row in ask("SHOW TABLES", known)] == [
        "archive_gaps",
        "broken",
        "history_hours",
        "history_minutes",
        "orders.eu",
    ]
    with pytest.raises(QueryError, match="the query reaches broken without its name"):
        ask("SELECT * FROM query_table('bro' || 'ken') WHERE 'show' <> ''", known)


def test_rows_that_are_given_are_a_view_and_are_made_only_where_they_are_named() -> None:
    made = []

    def given() -> Iterator[pa.RecordBatch]:
        made.append(1)
        yield pa.RecordBatch.from_pylist([{"actor": "grace", "row": 1}, {"actor": "ada", "row": 2}], schema=SCHEMA)
        yield pa.RecordBatch.from_pylist([{"actor": "ada", "row": 3}], schema=SCHEMA)

    def rows(sql: str) -> list[dict[str, object]]:
        with Query(sql, [], QueryLimits(), {"audit": given()}, {"audit": SCHEMA}) as query:
            return [row for batch in query.batches() for row in batch.to_pylist()]

    assert rows("SELECT 1 AS one") == [{"one": 1}]
    assert made == []
    # Twice in one query: rows that come only once would be gone the second time.
    assert rows("SELECT a.actor, count(*) AS n FROM audit a JOIN Audit b USING (actor) GROUP BY 1 ORDER BY 1") == [
        {"actor": "ada", "n": 4},
        {"actor": "grace", "n": 1},
    ]


def test_more_rows_than_the_limit_are_cut_and_counted() -> None:
    with Query("SELECT * FROM range(2000000)", [], QueryLimits(rows=1_001)) as query:
        rows = [value for batch in query.batches() for value in batch.column(0).to_pylist()]
        assert (rows, query.row_count, query.has_more) == (list(range(1_001)), 1_001, True)
    with Query("SELECT * FROM range(7)", [], QueryLimits(rows=7)) as query:
        assert sum(batch.num_rows for batch in query.batches()) == 7
        assert not query.has_more


def test_memory_and_time_are_limited_and_the_errors_name_the_limits() -> None:
    assert error_of("SELECT list(repeat('x', 1000000)) FROM range(100000)", QueryLimits(memory_bytes=64 * MIB)) == (
        "The query needs more memory than 64.0 MiB, its limit."
    )
    assert error_of(ENDLESS, QueryLimits(timeout_ms=300)) == "The query took longer than 300ms, its time limit."


def test_errors_are_sentences() -> None:
    assert outcome("SELECT * FROM range(100000000) ORDER BY 1 DESC") == Outcome(needs_memory=True)
    columns = ", ".join(f"{number} c{number}" for number in range(1_001))
    assert outcome(f"SELECT {columns}").error == "The result has 1,001 columns; the most is 1,000."
    assert "Max expression depth limit" in outcome("SELECT " + "(" * 5_000 + "1" + ")" * 5_000).error
    assert outcome("SELECT * FROM ordres") == Outcome("There is no view ordres.", missing_view="ordres")
    assert outcome("SELECT 1/").error.startswith("Parser Error: ")
    assert "double quotes" not in outcome("SELECT 1/").error
    for sql in ("SELECT offset FROM orders", "SELECT at, actor FROM audit"):
        assert outcome(sql).error.endswith(
            'The columns "offset" and "at" stand in double quotes, since these words are SQL\'s own.'
        )
    assert outcome("DROP TABLE x").error == (
        "DROP is no query: SELECT, FROM, WITH, VALUES, DESCRIBE, SUMMARIZE, SHOW and EXPLAIN are. "
        "Nothing can be changed here."
    )
    assert outcome("SELECT 1; SELECT 2").error == "The text has 2 statements, and a query is one."


def test_a_view_that_is_not_there_is_named_with_the_nearest_one(tmp_path: Path) -> None:
    archive_days(str(tmp_path), "orders", 1, 1)
    with pytest.raises(QueryError) as caught:
        ask("SELECT * FROM ordres", views(str(tmp_path)))
    assert str(caught.value) == ("There is no view ordres. The nearest is orders. `--list` prints all of them.")


def test_what_a_library_prints_is_not_between_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # duckdb draws a progress bar on standard output after two seconds; here each import prints.
    (tmp_path / "sitecustomize").with_suffix(".py").write_text(
        "import os, sys\n"
        "sys.addaudithook(lambda event, args: event == 'import' and args[0] == 'duckdb' and os.write(1, b'100%'))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert ask("SELECT 7 AS seven", []) == [{"seven": 7}]


def test_types_that_arrow_has_no_true_form_for_are_text() -> None:
    columns = '"union", uhugeint, bignum, bit, time_tz, "interval", geometry, small_enum, "int"'
    with Query(f"SELECT {columns} FROM test_all_types() LIMIT 2", [], QueryLimits()) as query:
        sink = io.BytesIO()
        write_rows(query.batches(), JSON, sink)
    least, most = map(json.loads, sink.getvalue().splitlines())
    assert int(least.pop("bignum")) < -(10**308)
    assert list(least.values()) == [
        *("Frank", "0", "0010001001011100010101011010111", "00:00:00+15:59:59", "00:00:00", "POINT EMPTY"),
        *("DUCK_DUCK_ENUM", -(2**31)),
    ]
    assert (most["uhugeint"], most["interval"]) == (str(2**128 - 1), "83 years 3 months 999 days 00:16:39.999999")


def test_the_names_and_values_of_a_type_are_no_types() -> None:
    assert ask(
        'SELECT {\'a bit\': 1} AS "x""y", \'INTERVAL\'::ENUM(\'INTERVAL\') AS kind, INTERVAL 1 DAY AS "i""j"', []
    ) == [{'x"y': {"a bit": 1}, "kind": "INTERVAL", 'i"j': "1 day"}]


@pytest.mark.parametrize("form", [TABLE, CSV, JSON, PARQUET])
def test_what_no_format_can_show_is_a_sentence(form: str) -> None:
    with (
        Query("SELECT * FROM test_all_types()", [], QueryLimits()) as query,
        pytest.raises(QueryError, match=r"The column date_array has values that|Parquet has no place for a column"),
    ):
        write_rows(query.batches(), form, io.BytesIO())


def test_a_cancelled_query_ends_at_once() -> None:
    with Query(ENDLESS, [], QueryLimits()) as query:
        threading.Timer(0.2, query.cancel).start()
        with pytest.raises(QueryError, match="The query was cancelled"):
            list(query.batches())
        wait_for("the end of the query's process", lambda: not is_alive(query.process_id))


def test_a_query_whose_process_is_killed_says_by_which_signal() -> None:
    with Query(ENDLESS, [], QueryLimits()) as query:
        os.kill(query.process_id, signal.SIGKILL)
        with pytest.raises(QueryError, match=r"ended by signal 9: perhaps it needed more memory than 1\.0 GiB"):
            list(query.batches())


def test_a_query_that_nobody_reads_to_its_end_ends_with_its_context() -> None:
    with Query("SELECT * FROM range(100000000)", [], QueryLimits(rows=100_000_000)) as query:
        assert next(iter(query.batches())).num_rows == 0
    assert not is_alive(query.process_id)


_PARENT = """
import sys, time
from queue_engine.lake.query.child import Outcome, Task, outcome_of
from queue_engine.lake.query.limits import QueryLimits
from queue_engine.lake.query.output import CSV, JSON, PARQUET, TABLE, write_rows
from queue_engine.lake.query.query import Query
with Query(sys.argv[1], [], QueryLimits()) as query:
    print(query.process_id, flush=True)
    list(query.batches())
"""


def test_a_killed_parent_leaves_no_process() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT, ENDLESS],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_alive(child)
        parent.kill()
    wait_for("the end of the query's process", lambda: not is_alive(child))
