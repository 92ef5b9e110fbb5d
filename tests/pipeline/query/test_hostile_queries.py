"""What a query may not do, whatever its text says: duckdb's lock and the check of the text, each without the other."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from queue_engine.lake.query.child import RefusedError, Task, check_version, checked_relation, locked_database
from queue_engine.lake.query.limits import MIB, QueryLimits, check_text
from queue_engine.vocabulary.errors import QueryError
from tests.pipeline.query.archived_topic import archive_days, views

# Refused by its kind, before it is run.
NO_QUERIES = [
    "ATTACH '{place}/other.db'",
    "ATTACH ':memory:' AS other",
    "COPY (SELECT 1) TO '{place}/out.csv'",
    "COPY orders TO '{file}' (FORMAT parquet)",
    "COPY orders FROM '{place}/in.csv'",
    "EXPORT DATABASE '{place}/dump'",
    "IMPORT DATABASE '{place}/dump'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '{place}/evil.duckdb_extension'",
    "SET enable_external_access = true",
    "SET GLOBAL memory_limit = '100GB'",
    "RESET lock_configuration",
    "SET VARIABLE a = 1",
    "PRAGMA enable_profiling = 'json'",
    "PRAGMA database_list",
    "CALL enable_logging(storage = 'file', storage_path = '{place}')",
    "CREATE TABLE t AS SELECT 1",
    "CREATE VIEW v AS SELECT 1",
    "CREATE SECRET (TYPE s3, KEY_ID 'a', SECRET 'b')",
    "CREATE MACRO m() AS 1",
    "DROP VIEW orders",
    "INSERT INTO orders SELECT * FROM orders",
    "DELETE FROM orders",
    "UPDATE orders SET body = NULL",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "BEGIN",
    "CHECKPOINT",
    "USE memory",
    "VACUUM",
    "SELECT 1; COPY (SELECT 1) TO '{place}/out.csv'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{place}/out.csv'",
    "EXPLAIN /* */ ANALYZE COPY (SELECT 1) TO '{place}/out.csv'",
    "EXPLAIN (ANALYZE) COPY (SELECT 1) TO '{place}/out.csv'",
    "PIVOT orders ON date",
    "",
    ";",
    "-- nothing",
]

# Queries by their kind, which reach for something that is none of theirs.
REACHING_QUERIES = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/proc/self/environ')",
    "SELECT * FROM read_parquet('{file}')",
    "SELECT * FROM parquet_metadata('{file}')",
    "SELECT * FROM '{file}'",
    "SELECT * FROM '/etc/passwd'",
    "FROM glob('/etc/*')",
    "FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM read_json('http://127.0.0.1:1/')",
    "SELECT getenv('HOME')",
    "FROM duckdb_extensions()",
    "FROM duckdb_secrets()",
    "FROM query('COPY (SELECT 1) TO ''{place}/out.csv''')",
    "FROM query_table('/etc/passwd')",
    "FROM enable_logging(storage = 'file', storage_path = '{place}')",
    "FROM delta_scan('{place}/archive/orders')",
    "FROM sqlite_scan('{place}/console.sqlite3', 'users')",
    "SELECT * FROM known",
    "SELECT * FROM task",
    "SELECT * FROM sys",
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A lake with the topic `orders`, and the path of its file."""
    place = tmp_path_factory.mktemp("lake")
    (file,) = archive_days(str(place), "orders", 1, 3)
    return place, str(place / file)


@pytest.fixture(scope="module")
def locked(lake: tuple[Path, str]) -> Iterator[Any]:
    connection = locked_database(Task("", 0, 256 * MIB, 10, 1, views(str(lake[0]))))
    yield connection
    connection.close()


def contents(place: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in place.rglob("*") if path.is_file()}


@pytest.mark.parametrize("text", NO_QUERIES)
def test_what_is_no_query_is_refused(lake: tuple[Path, str], locked: Any, text: str) -> None:
    before = contents(lake[0])
    with pytest.raises((RefusedError, duckdb.Error)):
        checked_relation(locked, text.format(place=lake[0], file=lake[1])).fetchall()
    assert contents(lake[0]) == before


@pytest.mark.parametrize("text", REACHING_QUERIES)
def test_a_query_reaches_the_views_alone(lake: tuple[Path, str], locked: Any, text: str) -> None:
    before = contents(lake[0])
    known, task = [1], [2]  # variables of a caller are no tables
    with pytest.raises(duckdb.Error):
        checked_relation(locked, text.format(place=lake[0], file=lake[1])).fetchall()
    assert contents(lake[0]) == before
    assert (known, task) == ([1], [2])


# With the check of the text left out. What these change would be gone with the process.
_OF_MEMORY_ALONE = (
    "CREATE TABLE", "CREATE VIEW", "CREATE MACRO", "DROP VIEW", "PREPARE", "BEGIN", "CHECKPOINT", "USE memory",
    "VACUUM", "SET VARIABLE", "PRAGMA database_list", "ATTACH ':memory:'", "PIVOT", ";", "-- nothing",
)  # fmt: skip


@pytest.mark.parametrize("text", [one for one in NO_QUERIES if one and not one.startswith(_OF_MEMORY_ALONE)])
def test_the_lock_holds_without_the_check_of_the_text(lake: tuple[Path, str], locked: Any, text: str) -> None:
    before = contents(lake[0])
    with pytest.raises(duckdb.Error):
        locked.execute(text.format(place=lake[0], file=lake[1])).fetchall()
    assert contents(lake[0]) == before
    assert locked.execute("SELECT count(*) FROM orders").fetchall() == [(3,)]


def test_an_older_duckdb_is_refused() -> None:
    check_version(duckdb.__version__)
    with pytest.raises(RefusedError, match=r"sql needs duckdb 2 or newer, and 1\.5\.0 is installed"):
        check_version("1.5.0")


def test_settings_of_a_query_tell_nothing_of_the_machine(locked: Any) -> None:
    settings = dict(checked_relation(locked, "SELECT name, value FROM duckdb_settings()").fetchall())
    assert settings["enable_external_access"] in (False, "false", "0")
    assert settings["lock_configuration"] in (True, "true", "1")
    assert settings["temp_directory"] in (None, "")
    assert settings["TimeZone"] == "UTC"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "The query is empty."),
        (" \n", "The query is empty."),
        ("SELECT '" + "x" * MIB + "'", "The query has 1,048,585 bytes; the most is 1,048,576."),
        ("SELECT '\0'", "The query has a character that no text has: '\\x00'."),
        ("SELECT '\udc80'", "The query has a character that no text has: '\\udc80'."),
    ],
)
def test_a_text_that_is_none_is_refused_without_a_process(text: str, complaint: str) -> None:
    with pytest.raises(QueryError) as caught:
        check_text(text)
    assert str(caught.value) == complaint


@pytest.mark.parametrize(
    ("limits", "complaint"),
    [
        ({"memory_bytes": 1}, "The limit of memory, 1 bytes, is not from 67,108,864 to 1,099,511,627,776 bytes."),
        ({"timeout_ms": 0}, "The limit of timeout, 0 ms, is not from 1 to 86,400,000 ms."),
        ({"rows": 0}, "The limit of rows, 0, is not from 1 to 1,000,000,000."),
    ],
)
def test_a_limit_out_of_range_names_value_and_range(limits: dict[str, int], complaint: str) -> None:
    with pytest.raises(QueryError) as caught:
        QueryLimits(**limits)
    assert str(caught.value) == complaint


_CONFINED = """
import os, subprocess, sys, threading
from queue_engine.lake.query.confinement import forbid_writing
os.chdir(sys.argv[1])
is_forbidden = forbid_writing()
def tried(work):
    try:
        work()
    except PermissionError:
        return "refused"
    return "done"
def in_thread():
    found.append(tried(lambda: open("kept", "w")))
found = []
thread = threading.Thread(target=in_thread)
thread.start()
thread.join()
found.append(tried(lambda: open("made", "w")))
found.append(tried(lambda: os.truncate("kept", 0)))
found.append(tried(lambda: os.unlink("kept")))
found.append(tried(lambda: os.rename("kept", "moved")))
found.append(tried(lambda: os.mkdir("directory")))
found.append(tried(lambda: subprocess.run(["/bin/true"])))
print(is_forbidden, len(open("kept").read()), *found)
"""


def test_the_process_of_a_query_can_neither_write_nor_start_a_program(tmp_path: Path) -> None:
    """Where the kernel has Landlock; elsewhere the function says that it can't, and duckdb's lock stands alone."""
    (tmp_path / "kept").write_text("text")
    done = subprocess.run(
        [sys.executable, "-c", _CONFINED, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
    )
    is_forbidden, size, *found = done.stdout.split()
    if is_forbidden == "True":
        assert (size, found) == ("4", ["refused"] * 7), done.stderr
        assert os.listdir(tmp_path) == ["kept"]
    else:
        assert "refused" not in found
