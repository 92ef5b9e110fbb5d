"""Which files housekeeping merges, and which it drops."""

from dataclasses import replace
from datetime import UTC, datetime

from queue_engine.lake.housekeeping.choices import (
    CLOSED_AFTER_MS,
    DAY_MS,
    FAN_IN,
    ArchivedFile,
    merges,
    outdated,
)

NOON_MS = int(datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp() * 1000)
TODAY = "2026-11-20"
YESTERDAY = "2026-11-19"
MINUTE_MS = 60_000
TARGET = 1_000_000


def date_of(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).date().isoformat()


def file(
    offset: int, *, rows: int = 60, size: int = 3_000, at_ms: int = NOON_MS - DAY_MS, **changes: str
) -> ArchivedFile:
    made = ArchivedFile(f"f{offset}", date_of(at_ms), "server/3-0abc", offset, rows, size, at_ms)
    return replace(made, **changes)


def chosen(files: list[ArchivedFile], **options: int) -> list[list[int]]:
    return [
        [one.first_offset for one in group]
        for group in merges(files, TODAY, NOON_MS, **{"target_bytes": TARGET, **options})
    ]


def test_all_small_files_of_a_date_that_is_over_become_one():
    assert chosen([file(120), file(0), file(60)]) == [[0, 60, 120]]


def test_a_single_file_stays_as_it_is():
    assert chosen([file(0)]) == []


def test_a_merged_file_has_about_the_target_size():
    files = [file(number, size=400_000) for number in range(5)]

    assert chosen(files) == [[0, 1], [2, 3]]


def test_files_of_two_topics_of_one_name_stay_apart():
    files = [file(0), file(60), file(0, identity="server/9-0def"), file(60, identity="server/9-0def")]

    assert len(chosen(files)) == 2


def test_a_file_that_just_came_is_left_alone():
    young_ms = NOON_MS - CLOSED_AFTER_MS + 1
    files = [file(number, at_ms=young_ms) for number in range(FAN_IN)]

    assert chosen(files) == []


def test_dates_that_are_over_come_before_the_one_that_grows():
    growing = [file(number, at_ms=NOON_MS - DAY_MS // 4) for number in range(FAN_IN)]
    over = [file(number) for number in range(2)]

    assert chosen(growing + over) == [[0, 1], list(range(FAN_IN))]


def test_a_date_that_grows_is_merged_only_when_enough_files_of_one_size_are_there():
    files = [file(number, at_ms=NOON_MS - DAY_MS // 4) for number in range(FAN_IN)]

    assert chosen(files[1:]) == []
    assert chosen(files) == [list(range(FAN_IN))]


def test_a_larger_file_before_small_ones_is_not_written_again_with_them():
    at_ms = NOON_MS - DAY_MS // 4
    files = [file(0, size=300_000, at_ms=at_ms), *(file(1 + number, at_ms=at_ms) for number in range(FAN_IN))]

    assert chosen(files) == [list(range(1, FAN_IN + 1))]


def test_thirty_days_of_a_commit_a_minute_have_few_files_and_each_row_is_written_few_times():
    """A message a second, merged every ten minutes, as the job does."""
    files: list[ArchivedFile] = []
    written = most = 0
    start_ms = NOON_MS - 30 * DAY_MS
    for minute in range(30 * 24 * 60):
        now_ms = start_ms + minute * MINUTE_MS
        files.append(file(minute * 60, at_ms=now_ms))
        if minute % 10 == 0:
            for group in merges(files, date_of(now_ms), now_ms, target_bytes=128 << 20):
                gone = {one.path for one in group}
                files = [one for one in files if one.path not in gone]
                rows, size = sum(one.rows for one in group), sum(one.bytes for one in group)
                files.append(
                    replace(
                        group[0],
                        path=f"m{minute}-{group[0].path}",
                        rows=rows,
                        bytes=size,
                        last_time_ms=group[-1].last_time_ms,
                    )
                )
                written += rows
            most = max(most, len(files))

    assert sum(one.rows for one in files) == 30 * 24 * 60 * 60
    assert most <= 60
    assert written <= 6 * 30 * 24 * 60 * 60


def test_files_beyond_their_age_go():
    old, young = file(0, at_ms=NOON_MS - 2 * DAY_MS), file(60, at_ms=NOON_MS - DAY_MS)

    assert outdated([young, old], NOON_MS, keep_ms=2 * DAY_MS - 1, keep_bytes=None) == [old]
    assert outdated([young, old], NOON_MS, keep_ms=2 * DAY_MS, keep_bytes=None) == []


def test_the_oldest_files_go_until_the_size_is_kept():
    files = [file(number, at_ms=NOON_MS - DAY_MS + number) for number in range(4)]

    assert outdated(files, NOON_MS, keep_ms=None, keep_bytes=6_000) == files[:2]


def test_the_newest_file_stays_even_when_it_is_larger_than_what_is_kept():
    assert outdated([file(0)], NOON_MS, keep_ms=None, keep_bytes=1) == []


def test_without_limits_everything_stays():
    assert outdated([file(0, at_ms=0)], NOON_MS, keep_ms=None, keep_bytes=None) == []
