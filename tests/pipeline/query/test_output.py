"""Rows as a table, CSV, JSON and Parquet."""

import csv
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from queue_engine.lake.query.output import CSV, FORMATS, JSON, PARQUET, TABLE, write_rows
from queue_engine.vocabulary.errors import QueryError

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("text", pa.string()),
        ("body", pa.binary()),
        ("at", pa.timestamp("us", "UTC")),
        ("f", pa.float64()),
        ("b", pa.bool_()),
    ]
)
AT = datetime(2026, 11, 22, 3, 4, 5, 6, UTC)
ROWS = pa.RecordBatch.from_pylist(
    [
        {"n": 1, "text": "plain", "body": b'{"a": 1}', "at": AT, "f": 1.5, "b": True},
        {"n": 22, "text": 'a, "b"\n\x1b[31m', "body": b"\xff\x00", "at": None, "f": float("nan"), "b": None},
        {"n": None, "text": "ä" * 100, "body": None, "at": None, "f": None, "b": False},
    ],
    schema=SCHEMA,
)
EMPTY = ROWS.slice(0, 0)


def written(form: str, *batches: pa.RecordBatch) -> bytes:
    sink = io.BytesIO()
    write_rows(batches, form, sink)
    return sink.getvalue()


def of_sql(sql: str) -> list[pa.RecordBatch]:
    return list(duckdb.connect().sql(sql).to_arrow_reader())


def test_a_table_is_safe_for_a_terminal_and_its_cells_are_cut() -> None:
    lines = written(TABLE, EMPTY, ROWS).decode().splitlines()
    assert lines[0].split() == ["n", "text", "body", "at", "f", "b"]
    assert lines[1].split()[:3] == ["1", "plain", '{"a":']
    assert "2026-11-22 03:04:05.000006" in lines[1]
    assert 'a, "b"\\n\\x1b[31m' in lines[2]
    assert "\\xff00" in lines[2]
    assert "ä" * 79 + "…" in lines[3]
    assert all(line.isprintable() for line in lines)
    assert written(TABLE, EMPTY).decode().split() == ["n", "text", "body", "at", "f", "b"]


def test_csv_has_a_heading_once_and_quotes_what_it_must() -> None:
    assert written(CSV, EMPTY, ROWS, ROWS).decode().count("n,text,body,at,f,b\n") == 1
    assert '22,"a, ""b""\n\x1b[31m",\\xff00,,nan,\n' in written(CSV, ROWS).decode()


def test_a_cell_of_csv_is_no_formula_and_numbers_stay_numbers() -> None:
    texts = ["=1+1", "+1", "-1", "@a", "\t=1", "a=1", "", "'a"]
    rows = pa.RecordBatch.from_pydict(
        {"=text": texts, "body": [one.encode() for one in texts], "n": [-number for number in range(len(texts))]}
    )
    lines = list(csv.reader(io.StringIO(written(CSV, rows).decode())))
    assert lines[0] == ["'=text", "body", "n"]
    safe = ["'=1+1", "'+1", "'-1", "'@a", "'\t=1", "a=1", "", "'a"]
    assert [line[0] for line in lines[1:]] == [line[1] for line in lines[1:]] == safe
    assert [line[2] for line in lines[1:]] == [str(-number) for number in range(len(texts))]
    assert json.loads(written(JSON, rows).splitlines()[0])["=text"] == "=1+1"


def test_json_is_an_object_a_line() -> None:
    first, second, third = map(json.loads, written(JSON, EMPTY, ROWS).decode().splitlines())
    assert (first["n"], first["text"], first["body"], first["b"]) == (1, "plain", '{"a": 1}', True)
    assert first["at"] == "2026-11-22T03:04:05.000006+00:00"
    assert (second["body"], second["f"], second["b"]) == ("\\xff00", "nan", None)
    assert third["n"] is None


def test_every_type_of_duckdb_has_a_form_in_every_format() -> None:
    columns = (
        "sum(i)::HUGEINT AS huge, avg(i) AS mean, uuid() AS id, INTERVAL 1 DAY AS span, '101'::BIT AS bits, "
        "[1, NULL] AS list, {'a': 1, 'b': 'x'::BLOB} AS pair, map{'k': 1} AS map, 1.50::DECIMAL(10, 2) AS money, "
        "DATE '2026-11-22' AS day, TIME '10:00' AS clock, NULL AS none, 'a'::ENUM ('a', 'b') AS word, "
        "'{\"a\": 1}'::JSON AS json, now() AS now"
    )
    batches = of_sql(f"SELECT {columns} FROM range(10) t(i)")
    assert written(TABLE, *batches)
    assert written(CSV, *batches)
    found = json.loads(written(JSON, *batches))
    assert (found["huge"], found["mean"], found["list"], found["map"]) == (45, 4.5, [1, None], {"k": 1})
    assert (found["pair"], found["money"], found["day"]) == ({"a": 1, "b": "x"}, "1.50", "2026-11-22")
    assert Decimal(found["money"]) == Decimal("1.5")


@pytest.mark.parametrize("form", [TABLE, CSV, JSON])
def test_times_beyond_the_calendar_are_shown_as_numbers(form: str) -> None:
    batches = of_sql("SELECT 'infinity'::TIMESTAMPTZ AS at, DATE '200000-01-01' AS day")
    assert b"9223372036854775807" in written(form, *batches)


def test_parquet_has_the_columns_and_says_what_it_has_no_place_for() -> None:
    found = pq.read_table(io.BytesIO(written(PARQUET, EMPTY, ROWS, ROWS)))
    assert found.num_rows == 6
    assert found.schema.names == ROWS.schema.names
    assert found.column("at")[0].as_py().date() == date(2026, 11, 22)
    assert pq.read_table(io.BytesIO(written(PARQUET, EMPTY))).num_rows == 0
    with pytest.raises(QueryError, match="Parquet has no place for a column"):
        written(PARQUET, *of_sql("SELECT union_value(k := 1) AS u"))


def test_every_format_has_a_writer() -> None:
    assert [bool(written(form, EMPTY)) for form in FORMATS] == [True, True, False, True]
