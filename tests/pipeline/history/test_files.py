"""The manifest of the history: its steps, merges, retention, and the list for readers; without Spark."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from queue_engine.pipeline.history.compaction import compact
from queue_engine.pipeline.history.files import HistoryFiles
from queue_engine.pipeline.history.manifest import History, HistoryFile, change_history, read_history
from queue_engine.pipeline.history.rollup_stream import merge_closed_windows
from queue_engine.pipeline.history.schema import DAY_S, HISTORY_ROWS, HOURS, MINUTES, RETENTION_S
from queue_engine.pipeline.history.writer import described
from queue_engine.pipeline.lake.lake import HISTORY_MANIFEST, Lake
from queue_engine.vocabulary.errors import LakeDamagedError
from tests.pipeline.history.history_rows import SampleFiles, job_context, read_rows
from tests.support.clock import ManualClock
from tests.support.lakes.engine_samples import EngineModel, Key, Row, minutes_of

HOUR_S = 1_800_057_600  # a midnight


def add_minutes(lake: Lake, rows: dict[Key, Row]) -> HistoryFile:
    """One more fresh file of these rows, as the stream leaves it."""
    name = lake.data_name("fresh.parquet")
    staged = f"{lake.staging()}/{name}"
    listed = [row | {"latency": [{"b": b, "n": n} for b, n in row["latency"]]} for row in rows.values()]
    pq.write_table(HISTORY_ROWS.empty_table().from_pylist(listed, schema=HISTORY_ROWS), lake.within(staged))
    file = described(lake, staged, MINUTES, "fresh", path=f"{MINUTES}/{name}", day=None, source="stream")
    lake.publish([(staged, f"history/{file.path}")])
    change_history(lake, lambda before: History(**{**as_fields(before), "files": (*before.files, file)}))
    return file


def as_fields(history: History) -> dict[str, Any]:
    return {name: getattr(history, name) for name in History.__slots__}


def names(*files: tuple[str, str, int, int]) -> tuple[HistoryFile, ...]:
    """Files that only their manifest knows: (level, kind, first_s, end_s) each."""
    return tuple(
        HistoryFile(level, kind, f"{level}/g000001-{number:06d}-{kind}.parquet", first_s, end_s, 1, 1)
        for number, (level, kind, first_s, end_s) in enumerate(files)
    )


def test_a_reader_is_told_the_files_of_its_range_and_from_where_each_counts(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    day = 10 * DAY_S
    files = names(
        (MINUTES, "day", day - DAY_S, day),
        # The stream wrote it after a pause: its first half is in the day's file.
        (MINUTES, "fresh", day - 120, day + 120),
        (MINUTES, "fresh", day + 120, day + 180),
        (HOURS, "day", day - DAY_S, day),
    )
    with lake.lock():
        change_history(lake, lambda before: History(closed_until_s=day, files=files[::-1]))
    history = HistoryFiles(tmp_path)

    def told(level: str, first_s: int, end_s: int) -> list[tuple[int, int]]:
        paths = [tmp_path / "history" / one.path for one in files]
        return [(paths.index(path), from_s) for path, from_s in history.files(level, first_s, end_s)]

    assert told(MINUTES, 0, 20 * DAY_S) == [(0, day - DAY_S), (1, day), (2, day + 120)]
    assert told(MINUTES, day - 60, day) == [(0, day - DAY_S)]
    assert told(MINUTES, day, day + 1) == [(1, day)]
    assert told(MINUTES, day + 120, day + 121) == [(2, day + 120)]
    assert told(MINUTES, day + 180, day + 900) == []
    assert told(HOURS, 0, 20 * DAY_S) == [(3, day - DAY_S)]
    assert (history.closed_until_s(), history.end_s()) == (day, day + 180)


def test_before_there_is_a_history_it_is_empty(tmp_path: Path) -> None:
    history = HistoryFiles(tmp_path)
    assert history.files(MINUTES, 0, 1 << 40) == []
    assert (history.closed_until_s(), history.end_s()) == (0, 0)


def test_a_history_of_another_version_is_refused(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    with lake.lock():
        lake.write_manifest(HISTORY_MANIFEST, {"version": 2, "files": []})
    with pytest.raises(LakeDamagedError, match="version 2, expected 1"):
        HistoryFiles(tmp_path).end_s()


def test_every_step_is_numbered_and_one_that_changes_nothing_is_none(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    with lake.lock():
        assert change_history(lake, lambda before: History(samples_offset=7, checkpoint="c", batch=3, closed_until_s=9))
        assert not change_history(lake, lambda before: None)
        assert change_history(lake, lambda before: before)
    assert read_history(lake) == History(step=2, samples_offset=7, checkpoint="c", batch=3, closed_until_s=9)


def test_files_become_one_when_their_ten_minutes_and_then_their_hour_are_over(tmp_path: Path) -> None:
    clock = ManualClock()
    lake = Lake(str(tmp_path), clock=clock)
    engine = EngineModel("n1", {"orders": ["billing", "mail"]}, seed=3)
    rows: dict[Key, Row] = {}
    counts = []
    fewer = 0
    with lake.lock():
        for minute in range(62):
            some = minutes_of([engine.sample((HOUR_S + minute * 60 + at_s) * 1000) for at_s in range(0, 60, 10)])
            rows |= some
            add_minutes(lake, some)
            fewer += merge_closed_windows(lake)
            counts.append(len(read_history(lake).files))

        assert counts[:11] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2]
        assert counts[57:] == [13, 14, 1, 2, 3]
        assert fewer == 59
        history = read_history(lake)
        assert [(one.first_s - HOUR_S, one.end_s - HOUR_S) for one in history.of(MINUTES)] == [
            (0, 3600),
            (3600, 3660),
            (3660, 3720),
        ]
        assert read_rows(lake, MINUTES) == rows
        merged = pq.ParquetFile(lake.within(f"history/{history.of(MINUTES)[0].path}")).read()
        keys = [(row["topic"], row["channel"], row["t"]) for row in merged.to_pylist()]
        assert keys == sorted(keys)
        assert merge_closed_windows(lake) == 0


def test_who_read_the_manifest_just_before_a_merge_still_finds_its_files(tmp_path: Path) -> None:
    clock = ManualClock()
    lake = Lake(str(tmp_path), clock=clock)
    engine = EngineModel("n1", {"orders": ["billing"]}, seed=3)
    with lake.lock():
        for first_s in (HOUR_S, HOUR_S + 540):
            add_minutes(lake, minutes_of([engine.sample(first_s * 1000)]))
        files = [lake.within(f"history/{one.path}") for one in read_history(lake).files]
        assert merge_closed_windows(lake) == 1
        assert all(Path(one).exists() for one in files)
        # A minute later they go with the next step.
        clock.advance(ms=60_000)
        change_history(lake, lambda before: before)
        assert not any(Path(one).exists() for one in files)


def test_a_file_that_reaches_into_the_next_ten_minutes_waits_for_its_hour(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path), clock=ManualClock())
    engine = EngineModel("n1", {"orders": ["billing"]}, seed=3)
    with lake.lock():
        for times in ([0], [480, 540, 600], [3540]):
            add_minutes(lake, minutes_of([engine.sample((HOUR_S + at_s) * 1000) for at_s in times]))
            before = read_history(lake).step
            fewer = merge_closed_windows(lake)
            assert (fewer, read_history(lake).step - before) == ((2, 1) if times == [3540] else (0, 0))
        assert [(one.first_s - HOUR_S, one.end_s - HOUR_S) for one in read_history(lake).of(MINUTES)] == [(0, 3600)]


def test_what_is_too_old_is_forgotten_by_its_level(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    now_s = 500 * DAY_S + 3600
    files = names(
        *((level, "day", now_s - RETENTION_S[level] - ago_s, now_s - RETENTION_S[level] - ago_s + DAY_S)
          for level in (MINUTES, HOURS)
          for ago_s in (DAY_S + 1, DAY_S, DAY_S - 1, 0))
    )  # fmt: skip
    with lake.lock():
        change_history(lake, lambda before: History(closed_until_s=500 * DAY_S, files=files))
        context, samples = job_context(None, lake), SampleFiles(None, tmp_path / "samples")
        assert compact(context, now_s, samples=samples)
        assert read_history(lake).files == (*files[2:4], *files[6:8])
        assert not compact(context, now_s, samples=samples)
        assert read_history(lake).closed_until_s == 500 * DAY_S
