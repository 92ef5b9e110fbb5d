"""A month of small commits: how many files a topic's table has then, and what a commit and opening it cost.

    python -m tests.benchmarks.archive_month [--days 30] [--topics 1] [--path DIR]

A message a second, a commit a minute, housekeeping every ten minutes, as the archive job makes them; the messages are
written by this program, on a clock that it moves and that ends now. Topics do not know of each other, so one stands for
fifty. Targets: at most 100 files a topic at any time; in the last day a commit within 50 ms and opening within 100 ms
(medians).

Files of the log get the time of that clock, by which they are cleaned up. What was replaced is judged by delta-rs, and
so by the machine's clock: it stays in the last days of the month alone, which is what counts at its end.
"""

import argparse
import os
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.archive.archive_table import archive_path, archive_table
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.housekeeping.choices import DAY_MS
from queue_engine.lake.housekeeping.housekeeping import Housekeeping
from queue_engine.lake.job.context import JobContext
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.tables import LakeTables
from tests.pipeline.housekeeping.archived_table import APP_ID, data_file
from tests.support.clock import ManualClock

FILES_MAX = 100
COMMIT_MS_MAX = 50.0
OPEN_MS_MAX = 100.0
MINUTE_MS = 60_000
HOUSEKEEPING_MINUTES = 10
ROWS = 60
OPENINGS = 9


@dataclass
class Month:
    """files_max: that counted in a table at any time, just before housekeeping. commits_ms: of the last day."""

    files_max: int = 0
    files_last: int = 0
    log_names: int = 0
    on_disk: int = 0
    rows: int = 0
    commits_ms: list[float] = field(default_factory=list)
    opens_ms: list[float] = field(default_factory=list)


def run(path: Path, days: float, topics: int) -> Month:
    """The month, in a new lake in `path`."""
    now_ms = time.time_ns() // 1_000_000
    clock = ManualClock(time_ns=(now_ms - int(days * DAY_MS)) * 1_000_000)
    lake = Lake(str(path), clock=clock)
    tables = LakeTables(TableStorage(path), clock=clock)
    names = [f"orders{number}" for number in range(topics)]
    logs = [_Log(path / archive_path(name) / "_delta_log") for name in names]
    month = Month()
    minutes = int(days * DAY_MS) // MINUTE_MS
    with lake.lock():
        engine = LogClient("http://127.0.0.1:1")
        context = JobContext(None, lake, engine, clock, threading.Event(), lambda _: None)
        keeper = Housekeeping(context, tables)
        for minute in range(minutes):
            clock.advance(ms=MINUTE_MS)
            for name in names:
                table = archive_table(tables, name)
                first = minute * ROWS
                file = data_file(tables, name, first, first + ROWS, clock.time_ns() // 1_000_000)
                began_s = time.perf_counter()
                table.commit([file], APP_ID, first + ROWS, after=first or None)
                if minute >= minutes - 24 * 60:
                    month.commits_ms.append((time.perf_counter() - began_s) * 1000)
            if minute % HOUSEKEEPING_MINUTES == 0:
                month.files_max = max(month.files_max, *(len(archive_table(tables, one).files()) for one in names))
                assert not keeper.run().problems
            for log in logs:
                log.stamp(clock.time_ns())
    month.log_names = len(list(logs[0].path.iterdir()))
    for _ in range(OPENINGS):
        began_s = time.perf_counter()
        table = archive_table(LakeTables(TableStorage(path), is_holder=False), names[0])
        files = table.files()
        month.opens_ms.append((time.perf_counter() - began_s) * 1000)
    month.files_last = len(files)
    month.rows = sum(one.rows for one in files)
    month.on_disk = sum(1 for one in tables.storage.list_files("archive") if one.path.endswith(".parquet"))
    return month


class _Log:
    """The log of a table, whose files get the time of the month."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._version = 0  # its checkpoint may come later

    def stamp(self, now_ns: int) -> None:
        """Set the times of what was written since the last call."""
        version = self._version
        while (commit := self.path / f"{version:020d}.json").exists():
            for one in (commit, self.path / f"{version:020d}.checkpoint.parquet"):
                with suppress(FileNotFoundError):
                    os.utime(one, ns=(now_ns, now_ns))
            self._version = version
            version += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=float, default=30)
    parser.add_argument("--topics", type=int, default=1)
    parser.add_argument("--path", help="where the lake is made (default: the directory for temporary files)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.path) as made:
        month = run(Path(made), given.days, given.topics)
    p95 = quantiles(month.commits_ms, n=20)[-1]
    print(
        f"{month.rows:,} messages of each topic in {month.files_last} files,"
        f" {month.files_max} at the most (target {FILES_MAX})"
    )
    print(f"{month.on_disk} data files on the disk for all topics, those for readers of older versions included")
    print(f"{month.log_names} names in the log of a table")
    print(
        f"a commit of the last day: median {median(month.commits_ms):.1f} ms (target {COMMIT_MS_MAX:g}),"
        f" p95 {p95:.1f} ms"
    )
    print(f"opening the table: median {median(month.opens_ms):.1f} ms (target {OPEN_MS_MAX:g})")


if __name__ == "__main__":
    main()
