"""Commits to Delta tables on a disk: a round over many tables, and one table after weeks of a commit a minute.

    python -m tests.benchmarks.table_commits --tables 5000 --days 30 --directory /var/tmp

A round writes one small data file to each table and commits it, by THREADS threads, since delta-rs gives up Python's
lock; all syncs are made. The second round is measured: the first one creates the tables. The weeks are simulated: each
minute's data file is a link to the first one, so that the time goes into commits; each hour is merged, each day the log
is cleaned up as it would be (a day of commits stays) and a vacuum removes what was merged. Then the table is opened by
a new process's objects, and gets commits.

What an opened table takes comes last, each in a process of its own: the memory of tables with one file and of one with
many, and what a file more adds to a commit. These are the figures of `queue_engine/lake/tables/tables.py`.
"""

import argparse
import os
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from queue_engine.lake.tables.housekeeping import clean_log, merge, vacuum
from queue_engine.lake.tables.log_files import commit_path
from queue_engine.lake.tables.parquet_files import DataFile
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.table import LakeTable
from queue_engine.lake.tables.table_files import TableFile
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.vocabulary.clock import NS_PER_MS
from tests.pipeline.tables.table_places import APP, PATH, SCHEMA, data_file
from tests.support.processes.memory import pss_bytes

THREADS = 4
MINUTES_A_DAY = 1_440
MEASURED = 15
FILES = 5_000


def round_seconds(directory: Path, tables: int) -> float:
    """Seconds for one commit to each of so many tables that exist."""
    storage = TableStorage(directory)
    opened = LakeTables(storage)

    def commit_next(path: str) -> None:
        table = opened.open(path, SCHEMA)
        known = table.transaction(APP)
        first = known or 0
        table.commit([data_file(storage, first, first + 10, path=path)], APP, first + 10, after=known)

    seconds = 0.0
    for _ in range(2):
        began = time.perf_counter()
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(commit_next, (f"archive/t{number}" for number in range(tables))))
        seconds = time.perf_counter() - began
    return seconds


def after_days(directory: Path, minutes: int) -> dict[str, float]:
    """The table after so many minutes with a commit each: files, names in the log, and medians in ms."""
    storage = TableStorage(directory)
    table = LakeTables(storage).open(PATH, SCHEMA)
    first = data_file(storage, 0, 60)
    for minute in range(minutes):
        date = time.strftime("%Y-%m-%d", time.gmtime(1_700_000_000 + 60 * minute))
        path = f"date={date}/part-{minute:036x}.parquet"
        storage.make_directory(f"{PATH}/date={date}")
        os.link(table.at(first), storage.at(f"{PATH}/{path}"))
        now_ms = time.time_ns() // NS_PER_MS
        commit(table, replace(first, path=path, partition={"date": date}, modified_ms=now_ms), minute)
        if minute % 60 == 59:
            merge_small(table)
        if minute % MINUTES_A_DAY == MINUTES_A_DAY - 1:
            since = os.stat(storage.at(commit_path(PATH, max(table.version - MINUTES_A_DAY, 1)))).st_mtime_ns
            clean_log(table, keep_ms=(time.time_ns() - since) // NS_PER_MS)
            vacuum(table, retention_ms=0, unnamed_age_ms=3_600_000)
    opening, committing = [], []
    for number in range(MEASURED):
        began = time.perf_counter()
        table = LakeTables(storage).open(PATH, SCHEMA)
        table.refresh()
        opening.append(time.perf_counter() - began)
        file = data_file(storage, 0, 60)
        began = time.perf_counter()
        commit(table, file, minutes + number)
        committing.append(time.perf_counter() - began)
    return {
        "files": len(table.files()) - MEASURED,
        "names in the log": len(storage.names(f"{PATH}/_delta_log")),
        "opening ms": 1_000 * statistics.median(opening),
        "commit ms": 1_000 * statistics.median(committing),
    }


def opened_bytes(directory: Path, tables: int, files: int) -> float:
    """Memory of one of so many opened tables that have so many files each."""
    storage = TableStorage(directory)
    make_tables(storage, tables, files)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(grown_bytes, directory, tables).result() / tables


def grown_bytes(directory: Path, tables: int) -> int:
    """How much this process grows by opening them."""
    opened = LakeTables(TableStorage(directory), is_holder=False)
    opened.open("archive/t0", SCHEMA).refresh()  # pays for what is loaded once
    before = pss_bytes(os.getpid())
    for number in range(1, tables + 1):
        opened.open(f"archive/t{number}", SCHEMA).refresh()
    return pss_bytes(os.getpid()) - before


def make_tables(storage: TableStorage, tables: int, files: int) -> None:
    """Tables 0 to `tables`, each with so many files, which are links to one, and a checkpoint."""
    for number in range(tables + 1):
        path = f"archive/t{number}"
        first = data_file(storage, 0, 10, path=path)
        table = LakeTables(storage).open(path, SCHEMA)
        names = [f"date={first.partition['date']}/part-{one:036x}.parquet" for one in range(files)]
        for name in names:
            os.link(storage.at(f"{path}/{first.path}"), storage.at(f"{path}/{name}"))
        table.commit([replace(first, path=name) for name in names], APP, 1, after=None)
        table.checkpoint()


def commit_seconds(directory: Path, files: int) -> float:
    """The median time of a commit to a table with so many files."""
    storage = TableStorage(directory)
    make_tables(storage, 0, files)
    table = LakeTables(storage).open("archive/t0", SCHEMA)
    table.refresh()
    taken = []
    for number in range(1, MEASURED + 1):
        file = data_file(storage, 0, 10, path="archive/t0")
        began = time.perf_counter()
        commit(table, file, number)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def merge_small(table: LakeTable) -> None:
    """One file for each date."""
    by_date: dict[str, list[TableFile]] = {}
    for file in table.files():
        by_date.setdefault(file.partition["date"], []).append(file)
    for files in by_date.values():
        if len(files) > 1:
            merge(table, files)


def commit(table: LakeTable, file: DataFile, number: int) -> None:
    table.commit([file], APP, number + 1, after=number or None)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=5_000)
    parser.add_argument("--days", type=float, default=30)
    parser.add_argument("--directory", type=Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as path:
        seconds = round_seconds(Path(path, "round"), options.tables)
        print(f"a round over {options.tables:,} tables: {seconds:.1f} s")
        for name, value in after_days(Path(path, "days"), round(options.days * MINUTES_A_DAY)).items():
            print(f"after {options.days:g} days, {name}: {value:.0f}")
        small = opened_bytes(Path(path, "small"), 1_000, 1)
        large = opened_bytes(Path(path, "large"), 20, FILES)
        print(f"an opened table with one file: {small:,.0f} bytes")
        print(f"a file of an opened table: {(large - small) / FILES:,.0f} bytes")
        few, many = commit_seconds(Path(path, "few"), 1), commit_seconds(Path(path, "many"), FILES)
        print(f"a file more in the table adds to a commit: {(many - few) / FILES * 1e6:.1f} µs")
