"""Finds the files that have the history of a range of time, for readers without the lock and without Spark.

Minutes reach from the beginning of their retention to some minutes ago. Hours reach to the last closed day; readers sum
later hours from minutes, those of one day at most. A file stays in place for an hour after its table has dropped it; a
reader that finds a file missing reads the list again.

deltalake is imported when a table is read for the first time.
"""

import os
import threading
from dataclasses import dataclass
from typing import Any

from queue_engine.lake.directory.lake import Lake, not_converted
from queue_engine.lake.directory.status_file import sign_of
from queue_engine.lake.history.levels import CONVERTED, DIRECTORY, MINUTES, OLD_MANIFEST, WINDOW_S
from queue_engine.lake.tables.own_files import check_own_files
from queue_engine.storage.disk.no_follow import LinkRefusedError
from queue_engine.vocabulary.errors import LakeDamagedError, PipelineError


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """A Parquet file of the history. path: absolute, or relative to the process's directory. Windows in [first_s,
    end_s), Unix seconds."""

    path: str
    first_s: int
    end_s: int


class HistoryFiles:
    """The history in the pipeline's directory `path`. Any thread.

    A table's files are listed again only when it has another version: a page reads the list a dozen times. All methods
    raise PipelineError, NotConvertedError among them, and OSError. directory: all files are in it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._lake = Lake(os.fspath(path))
        self.directory = self._lake.within(DIRECTORY)
        self._tables = {level: _Table(f"{self.directory}/{level}", WINDOW_S[level]) for level in WINDOW_S}

    def files(self, level: str, first_s: int, end_s: int) -> list[HistoryFile]:
        """Files with rows of `level` ("minutes" or "hours") whose windows start in [first_s, end_s), by time.

        No window is in two of them. A file may hold rows outside of the range, and none in it.
        """
        return [one for one in self._files(level) if max(one.first_s, first_s) < min(one.end_s, end_s)]

    def extent(self, level: str) -> tuple[int, int] | None:
        """The begin and end of a level's files, Unix seconds; None when there are none."""
        files = self._files(level)
        return (min(one.first_s for one in files), max(one.end_s for one in files)) if files else None

    def _files(self, level: str) -> tuple[HistoryFile, ...]:
        old = self._lake.within(OLD_MANIFEST)
        if os.path.lexists(old) and not self._tables[MINUTES].read().is_converted:
            raise not_converted("the history", old)
        return self._tables[level].read().files


@dataclass(frozen=True, slots=True)
class _Version:
    """The files of a table. is_converted: whether it has an earlier version's files."""

    number: int
    files: tuple[HistoryFile, ...]
    is_converted: bool


_NONE = _Version(-1, (), False)


class _Table:
    """The newest version of the table in directory `path`."""

    def __init__(self, path: str, window_s: int) -> None:
        self._path = path
        self._log = f"{path}/_delta_log"
        self._window_s = window_s
        self._lock = threading.Lock()
        self._table: Any = None
        self._sign: tuple[int, int] | None = None
        self._commit_sign: tuple[int, int, int] | None = None
        self._version = _NONE

    def read(self) -> _Version:
        with self._lock:
            try:
                # The sign is taken before the log is read: a commit in between is noticed by the next call.
                found = os.stat(self._log)
            except FileNotFoundError:
                self._table, self._version = None, _NONE
                return _NONE
            sign = (found.st_ino, found.st_mtime_ns)
            if self._table is None or sign != self._sign or self._has_next():
                is_same_log = self._sign is not None and sign[0] == self._sign[0]
                # The writer moves a commit that a power cut tore aside, and another one takes its number.
                is_same_log &= self._sign_of_commit() == self._commit_sign
                self._version = self._read(is_same_log=is_same_log)
                self._commit_sign = self._sign_of_commit()
                self._sign = sign
            return self._version

    def _sign_of_commit(self) -> tuple[int, int, int] | None:
        """Differs between the version's commit and another one of its number; None when there is none."""
        return sign_of(f"{self._log}/{self._version.number:020d}.json")

    def _has_next(self) -> bool:
        """Whether there is a commit behind the version: two within one tick of the directory's time look the same."""
        return os.path.lexists(f"{self._log}/{self._version.number + 1:020d}.json")

    def _read(self, *, is_same_log: bool) -> _Version:
        try:
            from deltalake import DeltaTable
            from deltalake.exceptions import DeltaError, TableNotFoundError
        except ModuleNotFoundError as exc:
            raise PipelineError("deltalake is not installed; the log of the start has the command") from exc
        with os.scandir(self._log) as entries:
            for entry in entries:
                if entry.is_symlink():
                    raise LinkRefusedError(entry.path)
        table, self._table = self._table, None
        try:
            if table is None or not is_same_log:
                table = DeltaTable(self._path)
            else:
                table.update_incremental()
            number = table.version()
            version = _Version(number, self._files(table), table.transaction_version(CONVERTED) is not None)
        except TableNotFoundError:
            # Its first commit is to come, or was cut off.
            return _NONE
        except (DeltaError, OSError, ValueError) as exc:
            raise LakeDamagedError(f"the table {self._path} can't be read: {str(exc).strip():.300}") from exc
        self._table = table
        return version

    def _files(self, table: Any) -> tuple[HistoryFile, ...]:
        actions = table.get_add_actions(flatten=True)
        if not actions.num_rows:
            return ()
        columns = [actions.column(name).to_pylist() for name in ("path", "min.t", "max.t")]
        check_own_files(self._path, columns[0], is_local=True)
        found = (
            HistoryFile(f"{self._path}/{path}", first_s, last_s + self._window_s)
            for path, first_s, last_s in zip(*columns, strict=True)
        )
        return tuple(sorted(found, key=lambda one: (one.first_s, one.end_s)))
