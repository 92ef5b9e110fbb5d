"""The history's two tables, for the process that holds the lake: their commits, and the order of these.

    history/minutes/    one Delta table, history/hours/ the other; columns: schema.py, partitioned by date
    history_summary.json    {"end_s": 1800057660}: where the minutes end, for readers that load no table; derived

A commit carries one of these transactions (app id, version):

    rollup-<id of the stream's checkpoint>, batch    minutes of this batch of the stream, and of all before it
    closed, end of the day in Unix seconds           of either table: days up to there were computed from the samples
    changed, a count                                 files were merged, or removed because of their age
    converted, 1                                     files of before there were tables are in it

A closed day is replaced in the minutes first and in the hours then. After a kill in between, the minutes are right, the
hours end a day earlier, as readers see by their files, and the day is computed again. A batch of the stream never adds
to a day that the minutes' `closed` covers. Both hold `Lake.changes` from reading the tables to their commit.
"""

import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakKeyDictionary

from queue_engine.lake.directory.lake import Lake, not_converted
from queue_engine.lake.directory.status_file import write_status_file
from queue_engine.lake.history.levels import (
    CONVERTED,
    DAY_S,
    DIRECTORY,
    HOURS,
    MINUTES,
    OLD_MANIFEST,
    RETENTION_S,
    SUMMARY,
    WINDOW_S,
    date_of,
    day_of,
)
from queue_engine.lake.history.schema import TABLE_ROWS
from queue_engine.lake.tables.housekeeping import clean_log, vacuum
from queue_engine.lake.tables.parquet_files import DataFile
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.storage.disk.no_follow import refuse_link

CLOSED = "closed"
CHANGED = "changed"
# Readers may have the list of an earlier version, for the time of a query.
REPLACED_MS = 3_600_000
# More than a step takes from its first file to its commit.
UNNAMED_MS = 86_400_000
LOG_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class WindowFile:
    """A file that counts. path: relative to its table. day_s: the begin of its day. Windows in [first_s, end_s)."""

    path: str
    day_s: int
    first_s: int
    end_s: int


class HistoryTables:
    """The tables below `lake.path`. All methods raise PipelineError and OSError."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        tables = _shared_tables(lake)
        self.storage = tables.storage
        self._tables = {level: tables.open(level, TABLE_ROWS) for level in (MINUTES, HOURS)}

    def check_converted(self) -> None:
        """Raises NotConvertedError while an earlier version's history is not in the tables."""
        if os.path.lexists(self._lake.within(OLD_MANIFEST)) and self._tables[MINUTES].transaction(CONVERTED) is None:
            raise not_converted("the history", self._lake.within(OLD_MANIFEST))

    # Reading.

    def files(self, level: str) -> list[WindowFile]:
        """The files of a level, by time."""
        table = self._tables[level]
        if not table.exists():
            return []
        table.refresh()
        found = (
            WindowFile(one.path, day_of(one.partition["date"]), one.minimum["t"], one.maximum["t"] + WINDOW_S[level])
            for one in table.files()
        )
        return sorted(found, key=lambda one: (one.first_s, one.end_s))

    def closed_until_s(self, level: str) -> int:
        """The end of the last day that is closed in this table; 0 before the first."""
        return self._tables[level].transaction(CLOSED) or 0

    def end_s(self) -> int:
        """The end of the minutes; 0 without any."""
        return max([self.closed_until_s(MINUTES), *(one.end_s for one in self.files(MINUTES))])

    def last_batch(self, checkpoint: str) -> int | None:
        """The last batch of the stream with that checkpoint whose minutes are committed."""
        return self._tables[MINUTES].transaction(_rollup(checkpoint))

    def path_of(self, level: str, path: str) -> str:
        """The place of a file in the file system. A symbolic link is refused."""
        place = self.storage.at(f"{level}/{path}")
        refuse_link(place)
        return place

    # Commits.

    def add_batch(self, files: Iterable[DataFile], checkpoint: str, batch: int) -> None:
        """Add the minutes of a batch of the stream, unless they are there."""
        with self._lake.changes:
            table = self._tables[MINUTES]
            closed_until_s = self.closed_until_s(MINUTES)
            # A day that was closed while the batch was computed has these minutes from the samples.
            open_days = [one for one in files if day_of(one.partition["date"]) >= closed_until_s]
            # Without minutes there is nothing to commit: if Spark repeats the batch, it is empty again.
            if open_days:
                table.commit(open_days, _rollup(checkpoint), batch, after=self.last_batch(checkpoint))
        self.write_summary()

    def close_day(self, day_s: int, files: dict[str, list[DataFile]]) -> None:
        """Replace a day by `files` (level → files of that day, none when it has no samples), and close it."""
        with self._lake.changes:
            for level in (MINUTES, HOURS):
                self._tables[level].overwrite(
                    {"date": date_of(day_s)}, files.get(level, ()), CLOSED, day_s + DAY_S, after=self._closed(level)
                )
        self.write_summary()

    def close_empty_days(self, until_s: int) -> None:
        """Close days up to `until_s` that have neither minutes nor samples."""
        with self._lake.changes:
            for level in (MINUTES, HOURS):
                self._tables[level].commit((), CLOSED, until_s, after=self._closed(level))

    def replace(self, level: str, gone: Iterable[WindowFile], files: Iterable[DataFile]) -> bool:
        """Put files in the place of others with the same rows. Returns False when one of those no longer counts: its
        day was closed meanwhile."""
        with self._lake.changes:
            counting = {one.path for one in self.files(level)}
            paths = [one.path for one in gone]
            if not counting.issuperset(paths):
                return False
            self._change(level, files, paths)
        return True

    def forget(self, now_s: int) -> bool:
        """Remove the days whose windows are all beyond their retention. Returns whether there were any."""
        did = False
        for level in self._tables:
            with self._lake.changes:
                old = [one.path for one in self.files(level) if one.day_s + DAY_S <= now_s - RETENTION_S[level]]
                if old:
                    self._change(level, (), old)
                    did = True
        return did

    def clean_up(self) -> int:
        """Remove replaced files, files that no commit names, and old log files. Returns how many files it removed."""
        removed = 0
        for table in self._tables.values():
            if table.exists():
                done = vacuum(table, retention_ms=REPLACED_MS, unnamed_age_ms=UNNAMED_MS)
                removed += done.replaced + done.unnamed + clean_log(table, keep_ms=LOG_MS)
        return removed

    def write_summary(self) -> None:
        """Write the file from which other processes read where the minutes end."""
        write_status_file(Path(self._lake.within(SUMMARY)), {"end_s": self.end_s()})

    def _change(self, level: str, files: Iterable[DataFile], gone: Iterable[str]) -> None:
        version = self._tables[level].transaction(CHANGED)
        self._tables[level].commit(files, CHANGED, (version or 0) + 1, after=version, remove=gone)

    def _closed(self, level: str) -> int | None:
        return self._tables[level].transaction(CLOSED)


# The first to open a table mends its log, which must not happen while another thread commits.
_opened: "WeakKeyDictionary[Lake, LakeTables]" = WeakKeyDictionary()
_opened_lock = threading.Lock()


def _shared_tables(lake: Lake) -> LakeTables:
    """The tables of this process's lake, opened once for all of its jobs."""
    with _opened_lock:
        if lake not in _opened:
            _opened[lake] = LakeTables(TableStorage(lake.within(DIRECTORY), files=lake.files))
        return _opened[lake]


def _rollup(checkpoint: str) -> str:
    return f"rollup-{checkpoint}"
