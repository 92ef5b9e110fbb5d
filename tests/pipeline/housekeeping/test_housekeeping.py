"""Housekeeping of the archive's tables: fewer files with the same messages, limits, and files nobody needs any more."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.archive.archive_gap import ArchiveGap
from queue_engine.lake.archive.archive_table import ArchivedIdentity, archive_table
from queue_engine.lake.archive.gaps import ABSENT, Gaps, gaps_table
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.directory.status_file import BrokenStatusFileError
from queue_engine.lake.housekeeping.choices import DAY_MS
from queue_engine.lake.housekeeping.housekeeping import GAPS_FILES_MAX, Housekeeping
from queue_engine.lake.housekeeping.limits import FILE_NAME, ArchiveLimits, write_limits
from queue_engine.lake.housekeeping.report import read_report, write_report
from queue_engine.lake.job.archive_settings import ArchiveSettings
from queue_engine.lake.job.context import JobContext
from queue_engine.lake.job.state import RUNNING, JobState
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.table import LakeTable
from queue_engine.lake.tables.tables import LakeTables
from tests.pipeline.housekeeping.archived_table import APP_ID, bodies, bodies_of, commit
from tests.support.clock import ManualClock

# Of yesterday: delta-rs judges by the machine's clock how long ago a file was replaced.
NOON_MS = (time.time_ns() // 1_000_000 // DAY_MS - 1) * DAY_MS + DAY_MS // 2


class House:
    """A lake with one day's messages of the topic orders, ten files of ten messages, and its housekeeping."""

    def __init__(self, path: Path, settings: ArchiveSettings | None = None) -> None:
        self.path = path
        self.clock = ManualClock(time_ns=NOON_MS * 1_000_000)
        self.stop = threading.Event()
        self.lake = Lake(str(path), clock=self.clock)
        self.tables = LakeTables(TableStorage(path), clock=self.clock)
        for number in range(10):
            commit(self.tables, "orders", 10 * number, 10 * number + 10, NOON_MS - DAY_MS + number)
        engine = LogClient("http://127.0.0.1:1")
        self.context = JobContext(
            None, self.lake, engine, self.clock, self.stop, lambda _: None, archive=settings or ArchiveSettings()
        )
        self.keeper = self.started_again()

    def started_again(self) -> Housekeeping:
        """Housekeeping of a process that has just started."""
        return Housekeeping(self.context, self.tables)

    @property
    def orders(self) -> LakeTable:
        table = archive_table(self.tables, "orders")
        table.refresh()
        return table

    def wait_days(self, days: float) -> None:
        self.clock.advance(ms=days * DAY_MS)

    def parquet_files(self) -> set[str]:
        return {one.path for one in self.tables.storage.list_files("archive/orders") if one.path.endswith(".parquet")}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    with house.lake.lock():
        yield house


def test_the_small_files_of_a_day_become_one_with_the_same_messages(house: House):
    run = house.keeper.run()

    assert (run.merged_files, run.made_files) == (10, 1)
    assert len(house.orders.files()) == 1
    assert bodies(house.orders) == bodies_of(0, 100)


def test_the_archive_goes_on_where_it_was_after_a_merge(house: House):
    house.keeper.run()

    assert house.orders.transaction(APP_ID) == 100
    commit(house.tables, "orders", 100, 110, NOON_MS)
    assert bodies(house.orders) == bodies_of(0, 110)


def test_a_merge_changes_no_data_for_who_follows_the_table(house: House):
    version = house.orders.version
    house.keeper.run()

    log = (house.path / f"archive/orders/_delta_log/{version + 1:020d}.json").read_text()
    assert '"dataChange":false' in log
    assert '"dataChange":true' not in log


def test_a_second_run_has_nothing_to_do(house: House):
    house.keeper.run()
    version = house.orders.version

    assert not house.keeper.run().changed_anything
    assert house.orders.version == version


def test_the_files_of_the_gaps_become_one_with_the_same_gaps(house: House):
    gaps = Gaps(house.tables)
    one = ArchivedIdentity("orders", "5f1c", 1, 0x100)
    for number in range(GAPS_FILES_MAX):
        gaps.commit({one: [ArchiveGap(number, number + 1, ABSENT, NOON_MS)]}, {one: (number, number + 1)})
    table = gaps_table(house.tables)
    assert len(table.files()) == GAPS_FILES_MAX
    before = gaps.read("orders")

    run = house.keeper.run()

    assert run.merged_files == 10 + GAPS_FILES_MAX
    table.refresh()
    assert len(table.files()) == 1
    assert gaps.read("orders") == before
    assert gaps.next_offsets([one]) == [GAPS_FILES_MAX]
    assert house.keeper.run().merged_files == 0


def test_what_is_not_ours_in_the_lake_and_a_damaged_report_stop_nothing(house: House):
    (house.path / "archive" / "lost+found").mkdir()
    (house.path / "housekeeping.json").write_bytes(b"{")

    assert house.keeper.run().made_files == 1
    assert read_report(house.path).runs[0].made_files == 1


def test_replaced_files_stay_as_long_as_a_reader_may_need_them(house: House):
    before = house.parquet_files()

    assert house.keeper.run().removed_files == 0
    assert before < house.parquet_files()


def test_files_that_no_longer_count_go_once_a_day(tmp_path: Path):
    house = House(tmp_path, ArchiveSettings(vacuum_ms=0))
    before = house.parquet_files()
    with house.lake.lock():
        first = house.keeper.run()
        commit(house.tables, "orders", 100, 110, NOON_MS - DAY_MS)
        second = house.keeper.run()
        house.wait_days(1)
        third = house.keeper.run()

    assert (first.removed_files, second.removed_files, third.removed_files) == (10, 0, 2)
    assert first.removed_bytes > 0
    assert not before & house.parquet_files()
    assert bodies(house.orders) == bodies_of(0, 110)


def test_messages_beyond_a_topics_limit_go_and_others_stay(house: House):
    commit(house.tables, "orders", 100, 110, NOON_MS)
    commit(house.tables, "bills", 0, 10, NOON_MS - 3 * DAY_MS)
    write_limits(house.path, "orders", ArchiveLimits(keep_ms=DAY_MS // 2))

    run = house.keeper.run()

    assert (run.dropped_files, run.dropped_rows) == (10, 100)
    assert bodies(house.orders) == bodies_of(100, 110)
    assert house.orders.transaction(APP_ID) == 110
    assert bodies(archive_table(house.tables, "bills")) == bodies_of(0, 10)


def test_limits_that_cannot_be_read_remove_nothing(house: House):
    (house.path / FILE_NAME).write_text('{"topics": {"orders": {"keep_ms": 1}}}')

    with pytest.raises(BrokenStatusFileError, match=FILE_NAME):
        house.keeper.run()
    assert len(house.orders.files()) == 10


def test_a_table_that_cannot_be_kept_costs_that_table(house: House):
    commit(house.tables, "bills", 0, 10, NOON_MS - DAY_MS)
    commit(house.tables, "bills", 10, 20, NOON_MS - DAY_MS)
    one = archive_table(house.tables, "bills").files()[0]
    (house.path / "archive/bills" / one.path).write_bytes(b"no Parquet")

    run = house.keeper.run()

    assert [problem.partition(":")[0] for problem in run.problems] == ["bills"]
    assert len(house.orders.files()) == 1


def test_a_run_that_is_stopped_leaves_every_message_where_it_was(house: House):
    house.stop.set()
    house.keeper.run()

    assert len(house.orders.files()) == 10
    assert bodies(house.orders) == bodies_of(0, 100)


def test_the_report_has_the_runs_that_changed_something(house: House):
    house.keeper.run()
    house.wait_days(0.1)
    house.keeper.run()

    report = read_report(house.path)
    assert [run.merged_files for run in report.runs] == [10]
    assert report.looked_ms == house.clock.time_ns() // 1_000_000


def test_a_clock_that_is_set_far_ahead_drops_nothing_at_once(tmp_path: Path):
    house = House(tmp_path, ArchiveSettings(keep_ms=30 * DAY_MS, vacuum_ms=0))
    with house.lake.lock():
        house.keeper.run()
        house.clock.set_back(ms=-400 * DAY_MS)
        ahead = house.keeper.run()
        again = house.keeper.run()
        house.clock.set_back(ms=400 * DAY_MS)
        house.wait_days(0.1)
        mended = house.keeper.run()

    assert [run.dropped_rows for run in (ahead, again, mended)] == [0, 0, 0]
    assert "the clock is 9,600 hours ahead" in ahead.problems[0]
    assert again.problems == mended.problems == ()
    assert bodies(house.orders) == bodies_of(0, 100)


def test_a_clock_that_is_set_far_ahead_during_a_run_drops_nothing(tmp_path: Path):
    house = House(tmp_path, ArchiveSettings(keep_ms=30 * DAY_MS, vacuum_ms=0))

    def leap(state: JobState) -> None:
        if state.state == RUNNING:
            house.clock.set_back(ms=-400 * DAY_MS)

    with house.lake.lock():
        house.keeper.run()
        keeper = Housekeeping(replace(house.context, report=leap), house.tables)
        run = keeper.run()

    assert run.dropped_rows == 0
    assert "the clock is 9,600 hours ahead" in run.problems[0]
    assert bodies(house.orders) == bodies_of(0, 100)


def test_a_clock_that_is_far_ahead_for_an_hour_is_believed(tmp_path: Path):
    house = House(tmp_path, ArchiveSettings(keep_ms=30 * DAY_MS))
    with house.lake.lock():
        house.keeper.run()
        house.clock.set_back(ms=-400 * DAY_MS)
        # Each of them a process of its own, as when they are run by hand.
        runs = [house.started_again().run(), house.started_again().run()]
        house.wait_days(1 / 24)
        runs.append(house.started_again().run())

    assert [run.dropped_rows for run in runs] == [0, 0, 100]
    assert [len(run.problems) for run in runs] == [1, 0, 0]


def test_files_are_removed_again_after_a_run_with_a_clock_ahead(tmp_path: Path):
    house = House(tmp_path, ArchiveSettings(vacuum_ms=0))
    with house.lake.lock():
        house.keeper.run()
        report = read_report(house.path)
        to_come = {"orders": NOON_MS + 400 * DAY_MS}
        write_report(house.path, replace(report, vacuumed_ms=to_come))
        commit(house.tables, "orders", 100, 110, NOON_MS - DAY_MS)
        run = house.keeper.run()

    assert run.removed_files == 2


def test_a_report_of_an_earlier_version_says_when_the_clock_was_believed(house: House):
    house.keeper.run()
    path = house.path / "housekeeping.json"
    content = json.loads(path.read_text())
    del content["trusted_ms"], content["leapt_ms"]
    path.write_text(json.dumps(content))

    report = read_report(house.path)
    assert (report.trusted_ms, report.leapt_ms) == (content["looked_ms"], 0)
