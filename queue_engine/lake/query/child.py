"""The process that runs one query, and ends with it. `query.py` starts it.

    standard input    one line of JSON, the `Task`; then nothing, and its end is the process's
    standard output   the rows, as a stream of Arrow record batches
    the pipe `status` one line of JSON, the `Outcome`

Tables are opened first, as Arrow datasets, by delta-rs and pyarrow: those reach files and stores. Then duckdb is
locked: it reaches no file, no network, no extension, no variable of this program, and its settings stay as they are.
Only then it sees the text of the query, which has to be one statement that reads. So a query has nothing but the views,
whatever its text says, and confinement.py keeps the whole process from writing.
"""

import json
import os
import re
import sys
from dataclasses import asdict, dataclass, field
from typing import Any

from queue_engine.lake.query.confinement import end_with, forbid_writing, limit_process
from queue_engine.lake.query.limits import COLUMNS_MAX
from queue_engine.lake.query.views import View, quoted
from queue_engine.lake.tables.store_errors import table_error, without_credentials
from queue_engine.vocabulary.errors import StoreError

BATCH_ROWS = 500
_MESSAGE_LENGTH_MAX = 2_000
_EXPLAIN = re.compile(r"\s*explain\s+(?:analy[sz]e\s+|\(\s*(?:analy[sz]e|format\s+\w+)\s*\)\s*)?(?=\S)", re.IGNORECASE)
_NO_TABLE = re.compile(r"Catalog Error: Table with name (.+) does not exist!")
# Types that have no form in Arrow, or another meaning there (an unsigned 128-bit number becomes negative, a time
# loses its zone): they become text.
_SHOWN_AS_TEXT = re.compile(r"UNION|UHUGEINT|BIGNUM|\bBIT\b|TIME WITH TIME ZONE|INTERVAL|GEOMETRY")
# Columns of the views that a query can't name as it names others.
_WORDS_OF_SQL = re.compile(r"""(?<![\w"'])(?:offset|at)(?![\w"'])""", re.IGNORECASE)
# The text that duckdb writes before pyarrow's own.
_READING = "reading the Arrow source failed: "
# Of a disk, and of a store.
_MISSING = re.compile(r"No such file|does not exist|NO_SUCH_KEY|HTTP response code: 404")
_IN_QUOTES = 'The columns "offset" and "at" stand in double quotes, since these words are SQL\'s own.'


@dataclass(frozen=True, slots=True)
class Task:
    """views: those that the query can name. given: view → descriptor of a file with its rows, in Arrow's file format.
    names: further views to show, which the query does not name. status: descriptor of a pipe."""

    sql: str
    status: int
    memory_bytes: int
    rows_max: int
    threads: int
    views: list[View]
    given: dict[str, int] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> "Task":
        content = json.loads(line)
        return cls(**(content | {"views": [View(**one) for one in content["views"]]}))


@dataclass(frozen=True, slots=True)
class Outcome:
    """error: a sentence, "" for none. rows: how many were sent. has_more: whether there are more than the limit.
    needs_memory: whether the query failed for want of it. missing_view: the view that it names and that is missing."""

    error: str = ""
    rows: int = 0
    has_more: bool = False
    needs_memory: bool = False
    missing_view: str = ""


class RefusedError(Exception):
    """The query is not run; the text has the reason."""


def main() -> None:
    task = Task.decode(sys.stdin.buffer.readline())
    end_with(0)
    forbid_writing()
    limit_process(2 * task.memory_bytes + (512 << 20))
    with _only_rows() as sink:
        outcome = outcome_of(task, sink)
    os.write(task.status, json.dumps(asdict(outcome)).encode())
    # Without the libraries' own ends: nothing here outlives the process.
    os._exit(0)


def _only_rows() -> Any:
    """Standard output as a file. Prints of libraries go to standard error from now on, not between the rows:
    duckdb takes a process without a script for a person's, and draws a progress bar after two seconds."""
    rows = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(rows, "wb", buffering=0)


def outcome_of(task: Task, sink: Any) -> Outcome:
    """Run the query and write its rows to `sink`, a binary file."""
    try:
        return _run(task, sink)
    except RefusedError as exc:
        return Outcome(str(exc))
    except MemoryError:
        return Outcome(needs_memory=True)
    except Exception as exc:
        return _failure(exc, task)


def _run(task: Task, sink: Any) -> Outcome:
    # Imported behind the limits.
    import pyarrow as pa

    connection = locked_database(task)
    relation = checked_relation(connection, task.sql)
    if len(relation.columns) > COLUMNS_MAX:
        raise RefusedError(f"The result has {len(relation.columns):,} columns; the most is {COLUMNS_MAX:,}.")
    reader = _with_text(relation).to_arrow_reader(BATCH_ROWS)
    rows, has_more = 0, False
    with pa.ipc.new_stream(sink, reader.schema) as writer:
        for batch in reader:
            if rows + batch.num_rows > task.rows_max:
                batch, has_more = batch.slice(0, task.rows_max - rows), True
            if batch.num_rows:
                writer.write_batch(batch)
            rows += batch.num_rows
            if has_more:
                break
    return Outcome(rows=rows, has_more=has_more)


def locked_database(task: Task) -> Any:
    """A connection with the task's views, locked."""
    import duckdb

    check_version(duckdb.__version__)
    connection = duckdb.connect(
        ":memory:",
        config={
            "threads": task.threads,
            "memory_limit": f"{task.memory_bytes // 1024}KiB",
            "temp_directory": "",
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "python_enable_replacements": False,
        },
    )
    for view in task.views:
        _add(connection, view)
    for name, descriptor in task.given.items():
        _add_given(connection, name, descriptor)
    for name in task.names:
        # Its table is not open, and must not look like an empty one.
        connection.execute(
            f"CREATE VIEW {quoted(name)} AS SELECT e AS unnamed "  # noqa: S608 - a topic's name
            f"FROM (SELECT error('the query reaches {name} without its name') AS e) WHERE e IS NULL"
        )
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def check_version(version: str) -> None:
    """Raises RefusedError for a duckdb whose lock has holes: before 2 a query could have it log to any file."""
    if int(version.partition(".")[0]) < 2:
        raise RefusedError(f"sql needs duckdb 2 or newer, and {version} is installed: pip install --upgrade duckdb.")


def _add(connection: Any, view: View) -> None:
    from queue_engine.lake.query.lean_dataset import open_dataset
    from queue_engine.lake.tables.storage import TableStorage

    try:
        dataset = open_dataset(TableStorage(view.place), view.table)
    except Exception as exc:
        raise RefusedError(f"{view.name} can't be read: {table_error(exc, view.place)}") from exc
    if dataset is not None:
        connection.from_arrow(dataset).project(view.select).create_view(view.name)
    elif view.empty:
        columns = ", ".join(f"NULL::{kind} AS {name}" for name, kind in view.empty.items())
        connection.query(f"SELECT {columns} LIMIT 0").project(view.select).create_view(view.name)
    else:
        raise RefusedError(
            f"{view.name} has no table in {view.place}: nothing of it is archived there yet, or it has a format of "
            "before release 0.2.0; the log of the worker has the reason then."
        )


def _add_given(connection: Any, name: str, descriptor: int) -> None:
    """The rows lie in a file without a name; they are mapped into memory, not read."""
    import pyarrow as pa

    table = pa.ipc.open_file(pa.memory_map(f"/proc/self/fd/{descriptor}")).read_all()
    connection.register(name, table)


def checked_relation(connection: Any, sql: str) -> Any:
    """The relation of a text that is one statement which reads. Raises RefusedError, and duckdb's errors."""
    from duckdb import StatementType

    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise RefusedError(f"The text has {len(statements)} statements, and a query is one.")
    kind = statements[0].type
    if kind == StatementType.EXPLAIN:
        # EXPLAIN ANALYZE runs the statement: it has to be a query as well.
        inner = sql[found.end() :] if (found := _EXPLAIN.match(sql)) else ""
        explained = connection.extract_statements(inner) if inner else []
        if [one.type for one in explained] != [StatementType.SELECT]:
            raise RefusedError("EXPLAIN explains a query that begins right behind it, and nothing else.")
    elif kind != StatementType.SELECT:
        raise RefusedError(
            f"{kind.name} is no query: SELECT, FROM, WITH, VALUES, DESCRIBE, SUMMARIZE, SHOW and EXPLAIN are. "
            "Nothing can be changed here."
        )
    return connection.query(sql)


def _with_text(relation: Any) -> Any:
    """The relation, its columns of some types as text."""
    # Names and values of a type stand in quotes.
    is_text = [bool(_SHOWN_AS_TEXT.search(re.sub(r"""(["']).*?\1""", "", str(kind)))) for kind in relation.types]
    if not any(is_text):
        return relation
    return relation.project(
        ", ".join(
            f"#{place}::VARCHAR AS {quoted(name)}" if as_text else f"#{place}"
            for place, (name, as_text) in enumerate(zip(relation.columns, is_text, strict=True), 1)
        )
    )


def _failure(error: Exception, task: Task) -> Outcome:
    import duckdb
    import pyarrow as pa

    text = without_credentials(str(error))
    if isinstance(error, duckdb.OutOfMemoryException | pa.ArrowMemoryError) or "bad_alloc" in text:
        return Outcome(needs_memory=True)
    _, is_read, reason = text.partition(_READING)
    if is_read:
        return Outcome(_unread(reason.strip(), task.views)[:_MESSAGE_LENGTH_MAX])
    lines = text.strip().splitlines()
    sentence = "\n".join(lines)[:_MESSAGE_LENGTH_MAX] or type(error).__name__
    if isinstance(error, duckdb.CatalogException) and (found := _NO_TABLE.match(sentence)):
        # duckdb would propose tables of its own: it has none but the views that the text names.
        return Outcome(f"There is no view {found[1]}.", missing_view=found[1])
    if isinstance(error, duckdb.ParserException) and _WORDS_OF_SQL.search(task.sql):
        sentence += f"\n{_IN_QUOTES}"
    return Outcome(sentence)


def _unread(reason: str, views: list[View]) -> str:
    """The sentence about a data file that could not be read. reason: pyarrow's."""
    names = ", ".join(view.name for view in views)
    for place in {view.place for view in views}:
        error = table_error(OSError(reason), place)
        if isinstance(error, StoreError) and type(error) is not StoreError:
            return f"{names} can't be read: {error}"
    first_reason = re.sub(r"^\w+: ", "", " ".join(reason.split())).rstrip(".")
    return (
        f"A data file of {names} can't be read: {first_reason}. Run the query again, since housekeeping may just "
        f"have replaced the file; if that fails too, restore the file from a backup{_again(reason, views)}."
    )


def _again(reason: str, views: list[View]) -> str:
    """For a file of an archive that is missing: the command that writes it again. reason: has its path."""
    topics = [view.topic for view in views if view.topic and f"{view.table}/" in reason]
    if not topics or not _MISSING.search(reason):
        return ""
    return f", or have the log's messages of it written again: penstock pipeline rearchive {topics[0]}"


if __name__ == "__main__":
    main()
