"""`penstock sql`: reads the archive, the history and the audit list with SQL.

On the command line the account that owns the data directory may read all of it; `--user` reads with a console user's
rights. A query that reads bodies is in the audit list before it runs.
"""

import os
import sys
import tempfile
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import DatabaseError

from admin_console.accounts.models import User
from admin_console.audit.record import record_command
from admin_console.database.version import complaint_about_version
from admin_console.management.command import PlainCommand, StandardOutput
from admin_console.paths import account_name
from admin_console.permissions.allowed import may_use
from admin_console.permissions.table import CONTENTS
from queue_engine.lake.query import limits
from queue_engine.lake.query.limits import QueryLimits
from queue_engine.vocabulary.errors import PenstockError, QueryError
from queue_engine.vocabulary.installation import pipeline_command
from queue_engine.vocabulary.options.durations import format_duration, parse_duration_ms
from queue_engine.vocabulary.options.option import environment_name_of

ACTION = "query_archive"
ROWS_OF_TABLE = 1_000
ROWS_OF_FILE = 1_000_000
_LAKE_VARIABLE = environment_name_of("lake")
# URL names of the console: who may use them may see the same here.
_AUDIT, _PAGES = "audit", "overview"


class Command(PlainCommand):
    uses_data_path = True
    help = (
        "Query the archive, the history and the audit list with SQL (duckdb's). Nothing can be changed, and no other "
        "file is read. Names of topics are quoted: select count(*) from \"orders.eu\" where date = '2026-11-22'"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("query", nargs="?", metavar="QUERY", help="(default: from standard input)")
        parser.add_argument("-f", "--file", metavar="FILE", help="the query is in FILE")
        parser.add_argument("--list", action="store_true", help="print the views that a query can read, and end")
        parser.add_argument(
            "--format", choices=("table", "csv", "json", "parquet"), default="table",
            help="of the rows; json is an object a line; csv has a ' before values that look like formulas "
            "(default: table)",
        )  # fmt: skip
        parser.add_argument(
            "-o", "--output", metavar="FILE", help="write the rows to FILE, which is replaced as a whole"
        )
        parser.add_argument(
            "--lake", metavar="PLACE",
            default=os.environ.get(_LAKE_VARIABLE),
            help="of the archive: a directory, or s3://BUCKET/PREFIX "
            f"(default: ${_LAKE_VARIABLE}, else pipeline in the data directory)",
        )  # fmt: skip
        parser.add_argument("--user", metavar="NAME", help="with the rights of this user of the console (default: all)")
        parser.add_argument(
            "--rows", type=_whole, metavar="N",
            help=f"most rows (default: {ROWS_OF_TABLE} of a table, {ROWS_OF_FILE} of other formats)",
        )  # fmt: skip
        parser.add_argument(
            "--timeout", type=_duration_ms, metavar="DURATION", default=limits.TIMEOUT_MS,
            help=f"how long the query may work (default: {format_duration(limits.TIMEOUT_MS)})",
        )  # fmt: skip
        parser.add_argument(
            "--memory-bytes", type=_whole, metavar="N", default=limits.MEMORY_BYTES,
            help=f"most bytes of memory of the query (default: {limits.MEMORY_BYTES})",
        )  # fmt: skip

    def handle(self, **given: Any) -> None:
        try:
            import deltalake  # noqa: F401
            import pyarrow  # noqa: F401
        except ImportError as exc:
            raise CommandError(
                f"sql needs the extra [pipeline], which is not installed ({exc.name} is missing): {pipeline_command()}"
            ) from exc
        try:
            self._handle(**given)
        except PenstockError as exc:
            raise CommandError(str(exc)) from exc

    def _handle(self, *, user: str | None, lake: str | None, **given: Any) -> None:
        from queue_engine.lake.query.views import AUDIT, views_of
        from queue_engine.lake.tables.storage import TableStorage

        data_path: Path = settings.DATA_PATH
        rows = given["rows"] or (ROWS_OF_TABLE if given["format"] == "table" else ROWS_OF_FILE)
        query_limits = QueryLimits(given["memory_bytes"], given["timeout"], rows)
        reader = self._reader(user)
        may_read_bodies = reader is None or may_use(reader, CONTENTS)
        sees_audit = reader is None or may_use(reader, _AUDIT)
        if lake is None and not data_path.is_dir():
            raise CommandError(
                f"{data_path} is not there: --data-path names the data directory, --lake the archive's place."
            )
        views = views_of(
            TableStorage(lake or data_path / "pipeline"),
            TableStorage(data_path / "pipeline" / "history"),
            may_read_bodies=may_read_bodies,
        )
        if given["list"]:
            for name in sorted([*(one.name for one in views), *([AUDIT] if sees_audit else [])]):
                self.stdout.write(name)
            return
        sql = self._text(given["query"], given["file"])
        if given["format"] == "parquet" and given["output"] is None:
            raise CommandError("Parquet is a binary format: name the file for it with -o FILE.")
        self._record(user, [one.topic for one in views if one.topic and one.is_named_in(sql)], sql)
        more = self._run(sql, views, query_limits, sees_audit=sees_audit, form=given["format"], output=given["output"])
        if more:
            self.stderr.write(f"There are more than {rows:,} rows; --rows shows more.")

    def _run(self, sql: str, views: Any, most: QueryLimits, *, sees_audit: bool, form: str, output: str | None) -> bool:
        """Returns whether there are more rows than the limit."""
        from admin_console.management import audit_rows
        from queue_engine.lake.query.output import TABLE, write_rows
        from queue_engine.lake.query.query import Query
        from queue_engine.lake.query.views import AUDIT

        database = Path(settings.DATABASES["default"]["NAME"])
        given, schemas = {}, {}
        if sees_audit:
            given = {AUDIT: audit_rows.audit_batches(database, settings.DATA_PATH)}
            schemas = {AUDIT: audit_rows.SCHEMA}
        with (
            Query(sql, views, most, given, schemas) as query,
            _sink(output) as sink,
            closing(query.batches()) as rows,
        ):
            write_rows(rows, form, sink)
            if query.has_more and form != TABLE:
                raise QueryError(
                    f"The result has more than {most.rows:,} rows, the limit: the output is not complete. "
                    "--rows sets another limit."
                    if output is None
                    else f"The result has more than {most.rows:,} rows, the limit: {output} was not written. "
                    "--rows sets another limit."
                )
            return query.has_more

    def _text(self, query: str | None, file: str | None) -> str:
        if query is not None and file is not None:
            raise CommandError("The query is given twice, as an argument and by -f.")
        if query is not None:
            return query
        if file is None and sys.stdin.isatty():
            self.stderr.write("The query, and Ctrl-D behind it:")
        source = sys.stdin.buffer if file is None else open(file, "rb")  # noqa: SIM115 - closed below
        try:
            return source.read(limits.TEXT_BYTES_MAX + 1).decode()
        except UnicodeDecodeError as exc:
            raise CommandError(f"The query is not UTF-8: byte {exc.start + 1:,} is not.") from exc
        finally:
            if file is not None:
                source.close()

    def _reader(self, name: str | None) -> User | None:
        """None for the owner of the data. Raises CommandError for a name that may not even log in."""
        if name is None:
            return None
        if (user := User.objects.filter(username=name).first() if self._has_users() else None) is None:
            raise CommandError(f"There is no user {name}.")
        if not may_use(user, _PAGES):
            raise CommandError(f"{name} is disabled.")
        return user

    def _has_users(self) -> bool:
        """Whether the console's database is there; SQLite would make an empty one. Raises CommandError."""
        path = Path(settings.DATABASES["default"]["NAME"])
        if os.path.lexists(path) and (complaint := complaint_about_version(path)):
            raise CommandError(complaint)
        return os.path.lexists(path)

    def _record(self, user: str | None, topics: list[str], sql: str) -> None:
        """Write the query that is about to read bodies to the audit list. Raises CommandError: then nothing is read."""
        if not topics:
            return
        if not self._has_users():
            self.stderr.write(f"There is no {settings.DATABASES['default']['NAME']}: the query is in no audit list.")
            return
        text = f"as {user}: {sql}" if user is not None else sql
        try:
            record_command(
                account_name(os.getuid()),
                ACTION,
                detail=" ".join(text.split()),
                topic=topics[0] if len(topics) == 1 else "",
            )
        except DatabaseError as exc:
            raise CommandError(f"The audit list can't be written: {exc}. Nothing was read.") from exc


@contextmanager
def _sink(output: str | None) -> Generator[Any, None, None]:
    """Standard output, or a file that replaces `output` when all is written."""
    if output is None:
        sys.stdout.flush()
        yield StandardOutput()
        return
    target = Path(output)
    descriptor, made = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    with open(descriptor, "wb") as file:
        try:
            yield file
            file.flush()
            os.replace(made, target)
        except BaseException:
            os.unlink(made)
            raise


def _duration_ms(text: str) -> int:
    try:
        return parse_duration_ms(text)
    except ValueError as exc:
        raise ArgumentTypeError(str(exc)) from exc


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 15 or not int(text):
        raise ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)
