"""One query, run in a process of its own (child.py), which ends when this one does, is cancelled or takes too long."""

import difflib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from queue_engine.lake.query.child import Outcome, Task
from queue_engine.lake.query.limits import QueryLimits, check_text
from queue_engine.lake.query.views import View
from queue_engine.vocabulary.byte_sizes import byte_count
from queue_engine.vocabulary.errors import QueryError
from queue_engine.vocabulary.options.durations import format_duration

_CODE = Path(__file__).resolve().parents[3]
_THREADS_MAX = 2  # of a machine that has a server to run
# Variables that the libraries read by themselves: where programs, homes, certificates and credentials of stores are.
_KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH")
_KEPT_PREFIXES = ("AWS_", "AZURE_", "GOOGLE_", "SSL_CERT_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "LC_")
_WHAT_ELSE = "`--list` prints all of them."
# Words by which a query lists the views: then it gets those as well that it does not name.
_LISTING_WORDS = ("show", "information_schema", "duckdb_", "pg_", "sqlite_master")


class Query:
    """A query that runs, as a context: it ends with it. For one thread, but for `cancel`.

    `schema` is there once the query has begun to give rows; `batches` gives them; `has_more` and `row_count` are right
    behind them.
    """

    def __init__(
        self,
        sql: str,
        views: Sequence[View],
        limits: QueryLimits,
        given: Mapping[str, Iterable[pa.RecordBatch]] | None = None,
        given_schemas: Mapping[str, pa.Schema] | None = None,
    ) -> None:
        """views: all that the caller may read. given: further views, by their rows; read only where the query can
        name them; given_schemas: their columns. Raises QueryError, OSError."""
        check_text(sql)
        self._limits = limits
        self._names = [*(one.name for one in views), *(given or {})]
        self._waited_s = 0.0
        self._is_cancelled = False
        self._is_too_late = False
        self._lock = threading.Lock()
        self.row_count = 0
        self.has_more = False
        asks_for_all = any(word in sql.lower() for word in _LISTING_WORDS)
        named = [one for one in views if one.is_named_in(sql)]
        files: dict[str, Any] = {}
        status_read, status_write = os.pipe()
        self._status = os.fdopen(status_read, "rb")
        try:
            for name, batches in (given or {}).items():
                if name.lower() in sql.lower() or asks_for_all:
                    files[name] = _rows_in_file(batches, (given_schemas or {})[name])
            task = Task(
                sql=sql,
                status=status_write,
                memory_bytes=limits.memory_bytes,
                rows_max=limits.rows,
                threads=max(min(_THREADS_MAX, os.cpu_count() or 1), 1),
                views=named,
                given={name: file.fileno() for name, file in files.items()},
                names=[one.name for one in views if one not in named] if asks_for_all else [],
            )
            self._process = self._started(task, [status_write, *task.given.values()])
        except BaseException:
            self._status.close()
            raise
        finally:
            os.close(status_write)
            for file in files.values():
                file.close()

    def _started(self, task: Task, descriptors: list[int]) -> "subprocess.Popen[bytes]":
        environment = {
            name: value
            for name, value in os.environ.items()
            if name in _KEPT or name.upper().startswith(_KEPT_PREFIXES)
        }
        paths = [str(_CODE), *filter(None, [os.environ.get("PYTHONPATH", "")])]
        process = subprocess.Popen(  # noqa: S603 - this interpreter, a module of our own
            [sys.executable, "-P", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=descriptors,
            env=environment | {"PYTHONPATH": os.pathsep.join(paths)},
            # Ctrl-C is for this process, which ends that one.
            start_new_session=True,
        )
        assert process.stdin is not None
        try:
            process.stdin.write(task.encode())
            process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended; `batches` raises the reason
        except BaseException:
            process.kill()
            process.wait()
            raise
        return process

    @property
    def process_id(self) -> int:
        return self._process.pid

    def cancel(self) -> None:
        """End the query at once. Any thread."""
        with self._lock:
            self._is_cancelled = True
            self._kill()

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        """The rows, in order; an empty batch at the least, which has the columns. Raises QueryError."""
        assert self._process.stdout is not None
        try:
            reader = self._in_time(lambda: pa.ipc.open_stream(self._process.stdout))
            yield pa.RecordBatch.from_pylist([], schema=reader.schema)
            while True:
                try:
                    batch = self._in_time(reader.read_next_batch)
                except StopIteration:
                    break
                self.row_count += batch.num_rows
                yield batch
        except (pa.ArrowInvalid, OSError, EOFError):
            self._raise_outcome(is_cut_off=True)
        self._raise_outcome(is_cut_off=False)

    def _in_time(self, read: Any) -> Any:
        """The result of `read`; when it takes more than the time left, the process is ended."""
        left_s = max(self._limits.timeout_ms / 1_000 - self._waited_s, 0)
        timer = threading.Timer(left_s, self._end_too_late)
        timer.daemon = True
        begin = time.monotonic()
        timer.start()
        try:
            return read()
        finally:
            timer.cancel()
            self._waited_s += time.monotonic() - begin

    def _end_too_late(self) -> None:
        with self._lock:
            self._is_too_late = True
            self._kill()

    def _raise_outcome(self, *, is_cut_off: bool) -> None:
        """Raise QueryError unless the query ended well."""
        data = self._in_time(self._status.read)
        if self._is_cancelled:
            raise QueryError("The query was cancelled.")
        if self._is_too_late:
            raise QueryError(f"The query took longer than {format_duration(self._limits.timeout_ms)}, its time limit.")
        if not data:
            code = self._process.wait()
            raise QueryError(
                f"The process of the query ended by signal {-code}: perhaps it needed more memory than "
                f"{byte_count(self._limits.memory_bytes)}, its limit."
                if code < 0
                else f"The process of the query ended with status {code} and without an answer."
            )
        outcome = Outcome(**json.loads(data))
        if outcome.needs_memory:
            raise QueryError(f"The query needs more memory than {byte_count(self._limits.memory_bytes)}, its limit.")
        if outcome.missing_view:
            near = difflib.get_close_matches(outcome.missing_view, self._names, 1)
            raise QueryError(f"{outcome.error} {f'The nearest is {near[0]}. ' if near else ''}{_WHAT_ELSE}")
        if outcome.error or is_cut_off:
            raise QueryError(outcome.error or "The rows of the query were cut off.")
        self.has_more = outcome.has_more

    def _kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()

    def __enter__(self) -> "Query":
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._status):
            if stream is not None:
                stream.close()


# As `python -m` does, but without the working directory as a place of modules.
_PROGRAM = "from queue_engine.lake.query.child import main; main()"


def _rows_in_file(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Any:
    """A file without a name that has the rows: it takes disk, no memory, and is gone with its last descriptor."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    try:
        with pa.ipc.new_file(file, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        file.flush()
    except BaseException:
        file.close()
        raise
    return file
