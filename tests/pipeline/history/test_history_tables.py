"""The history's tables: batches, merges, closed days, retention, cleaning, and the list for readers; without Spark."""

import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.history.compaction import compact
from queue_engine.lake.history.day_files import write_batches
from queue_engine.lake.history.files import HistoryFiles
from queue_engine.lake.history.history_tables import UNNAMED_MS, HistoryTables
from queue_engine.lake.history.levels import DAY_S, HOURS, MINUTES, RETENTION_S
from queue_engine.lake.history.merging import merge_closed_windows
from queue_engine.lake.history.schema import HISTORY_ROWS
from queue_engine.lake.tables.parquet_files import DataFile
from queue_engine.vocabulary.errors import LakeDamagedError
from tests.pipeline.dying_files import DyingFiles, Kill
from tests.pipeline.history.history_rows import SampleFiles, job_context, read_rows
from tests.support.lakes.engine_samples import EngineModel, Key, Row, hours_of, minutes_of

MIDNIGHT_S = 1_800_057_600
CHECKPOINT = "9f0c"


def written(tables: HistoryTables, level: str, rows: dict[Key, Row]) -> list[DataFile]:
    """Files of these rows, as the stream and the compaction leave them."""
    listed = [row | {"latency": [{"b": b, "n": n} for b, n in row["latency"]]} for row in rows.values()]
    ordered = sorted(listed, key=lambda row: (row["t"] // DAY_S, row["topic"], row["channel"], row["t"], row["node"]))
    return list(write_batches(tables.storage, level, pa.Table.from_pylist(ordered, HISTORY_ROWS).to_batches()))


def samples_rows(engine: EngineModel, times_s: Iterable[int]) -> dict[Key, Row]:
    return minutes_of([engine.sample(at_s * 1000) for at_s in times_s])


def engine_model() -> EngineModel:
    return EngineModel("n1", {"orders": ["billing"]}, seed=3)


def spans(tables: HistoryTables, level: str = MINUTES) -> list[tuple[int, int]]:
    return [(one.first_s - MIDNIGHT_S, one.end_s - MIDNIGHT_S) for one in tables.files(level)]


def test_before_there_is_a_history_it_is_empty(tmp_path: Path) -> None:
    history = HistoryFiles(tmp_path)
    assert (history.files(MINUTES, 0, 1 << 40), history.extent(HOURS)) == ([], None)
    tables = HistoryTables(Lake(str(tmp_path)))
    assert (tables.files(MINUTES), tables.end_s(), tables.last_batch("x"), tables.closed_until_s(HOURS)) == (
        [],
        0,
        None,
        0,
    )


def test_a_reader_gets_the_files_of_its_range_and_each_commit_at_once(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    tables, engine = HistoryTables(lake), engine_model()
    reader = HistoryFiles(tmp_path)
    first = samples_rows(engine, range(MIDNIGHT_S - 120, MIDNIGHT_S + 120, 60))
    tables.add_batch(written(tables, MINUTES, first), CHECKPOINT, 0)

    def told(first_s: int, end_s: int) -> list[tuple[int, int]]:
        found = reader.files(MINUTES, MIDNIGHT_S + first_s, MIDNIGHT_S + end_s)
        return [(one.first_s - MIDNIGHT_S, one.end_s - MIDNIGHT_S) for one in found]

    # A batch with windows of two days is two files.
    assert told(-DAY_S, DAY_S) == [(-120, 0), (0, 120)]
    assert told(-60, 0) == [(-120, 0)]
    assert told(119, 120) == [(0, 120)]
    assert told(120, DAY_S) == []
    for minute in range(2, 12):
        later = samples_rows(engine, [MIDNIGHT_S + minute * 60])
        tables.add_batch(written(tables, MINUTES, later), CHECKPOINT, minute)
        assert told(119, DAY_S)[-1] == (minute * 60, minute * 60 + 60)
        assert reader.extent(MINUTES) == (MIDNIGHT_S - 120, MIDNIGHT_S + minute * 60 + 60)
        first |= later
    assert read_rows(lake, MINUTES) == first


def test_a_batch_that_is_repeated_adds_nothing(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    tables, engine = HistoryTables(lake), engine_model()
    rows = samples_rows(engine, [MIDNIGHT_S])
    tables.add_batch(written(tables, MINUTES, rows), CHECKPOINT, 7)
    again = HistoryTables(Lake(str(tmp_path)))
    assert again.last_batch(CHECKPOINT) == 7
    again.add_batch(written(tables, MINUTES, rows), CHECKPOINT, 7)
    again.add_batch([], CHECKPOINT, 8)
    assert again.last_batch(CHECKPOINT) == 7, "an empty batch is no commit"
    assert read_rows(lake, MINUTES) == rows


def test_a_batch_adds_nothing_to_a_day_that_was_closed_meanwhile(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    tables, engine = HistoryTables(lake), engine_model()
    rows = samples_rows(engine, range(MIDNIGHT_S - 120, MIDNIGHT_S + 120, 60))
    files = written(tables, MINUTES, rows)
    of_day = {key: row for key, row in rows.items() if key[0] < MIDNIGHT_S - 60}
    tables.close_day(MIDNIGHT_S - DAY_S, {MINUTES: written(tables, MINUTES, of_day)})
    tables.add_batch(files, CHECKPOINT, 0)
    assert read_rows(lake, MINUTES) == of_day | {key: row for key, row in rows.items() if key[0] >= MIDNIGHT_S}


def test_files_become_one_when_their_ten_minutes_and_then_their_hour_are_over(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    tables, engine = HistoryTables(lake), engine_model()
    rows: dict[Key, Row] = {}
    counts = []
    fewer = 0
    for number in range(31):
        first_s = MIDNIGHT_S + number * 120
        some = samples_rows(engine, range(first_s, first_s + 120, 10))
        rows |= some
        tables.add_batch(written(tables, MINUTES, some), CHECKPOINT, number)
        fewer += merge_closed_windows(tables)
        counts.append(len(tables.files(MINUTES)))
    assert counts[:6] == [1, 2, 3, 4, 1, 2]
    assert counts[27:] == [8, 9, 1, 2]
    assert fewer == 29
    assert spans(tables) == [(0, 3600), (3600, 3720)]
    assert read_rows(lake, MINUTES) == rows
    merged = pq.ParquetFile(tables.path_of(MINUTES, tables.files(MINUTES)[0].path)).read()
    keys = [(row["topic"], row["channel"], row["t"]) for row in merged.to_pylist()]
    assert keys == sorted(keys)
    assert merge_closed_windows(tables) == 0


def test_a_file_that_reaches_into_the_next_ten_minutes_waits_for_its_hour(tmp_path: Path) -> None:
    tables, engine = HistoryTables(Lake(str(tmp_path))), engine_model()
    for number, times in enumerate(([0], [480, 540, 600], [3540])):
        rows = samples_rows(engine, [MIDNIGHT_S + at_s for at_s in times])
        tables.add_batch(written(tables, MINUTES, rows), CHECKPOINT, number)
        assert merge_closed_windows(tables) == (2 if times == [3540] else 0)
    assert spans(tables) == [(0, 3600)]


def test_a_merge_of_files_that_count_no_longer_changes_nothing(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    tables, engine = HistoryTables(lake), engine_model()
    rows = samples_rows(engine, [MIDNIGHT_S, MIDNIGHT_S + 60])
    tables.add_batch(written(tables, MINUTES, rows), CHECKPOINT, 0)
    parts = tables.files(MINUTES)
    tables.close_day(MIDNIGHT_S, {MINUTES: written(tables, MINUTES, rows)})
    assert not tables.replace(MINUTES, parts, written(tables, MINUTES, rows))
    assert read_rows(lake, MINUTES) == rows


def test_what_is_too_old_is_forgotten_by_its_level(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    tables, engine = HistoryTables(lake), engine_model()
    today_s = MIDNIGHT_S
    for level in (HOURS, MINUTES):
        first_s = today_s - RETENTION_S[level] - 2 * DAY_S
        for day_s in range(first_s, first_s + 4 * DAY_S, DAY_S):
            tables.close_day(day_s, {level: written(tables, level, samples_rows(engine, [day_s]))})
    context, samples = job_context(None, lake), SampleFiles(None, tmp_path / "samples")
    samples.add([])
    assert compact(context, today_s + 3600, samples=samples)
    for level in (MINUTES, HOURS):
        oldest_s = today_s - RETENTION_S[level]
        assert [one.day_s - oldest_s for one in tables.files(level)] == [0, DAY_S]
    assert not compact(context, today_s + 3600, samples=samples)


def test_files_of_killed_writers_go_and_replaced_ones_stay_for_a_while(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    tables, engine = HistoryTables(lake), engine_model()
    for number in range(2):
        rows = samples_rows(engine, [MIDNIGHT_S + number * 540])
        tables.add_batch(written(tables, MINUTES, rows), CHECKPOINT, number)
    replaced = [tables.path_of(MINUTES, one.path) for one in tables.files(MINUTES)]
    assert merge_closed_windows(tables) == 1
    (never_committed,) = written(tables, MINUTES, rows)
    young = written(tables, MINUTES, rows)
    left = tables.path_of(MINUTES, never_committed.path)
    for path in (*replaced, left):
        modified_s = os.stat(path).st_mtime - UNNAMED_MS / 1000 - 60
        os.utime(path, (modified_s, modified_s))
    # A reader may have the list of the version before the merge, which was a moment ago.
    assert tables.clean_up() == 1
    assert not os.path.exists(left)
    assert all(os.path.exists(path) for path in (*replaced, *(tables.path_of(MINUTES, one.path) for one in young)))
    assert spans(tables) == [(0, 600)]


def test_a_table_that_cannot_be_read_is_told_by_its_path(tmp_path: Path) -> None:
    tables, engine = HistoryTables(Lake(str(tmp_path))), engine_model()
    tables.add_batch(written(tables, MINUTES, samples_rows(engine, [MIDNIGHT_S])), CHECKPOINT, 0)
    reader = HistoryFiles(tmp_path)
    assert reader.extent(MINUTES) == (MIDNIGHT_S, MIDNIGHT_S + 60)
    log = Path(tables.storage.at(MINUTES)) / "_delta_log"
    (log / f"{2:020d}.json").write_text("{torn")
    for _ in range(2):
        with pytest.raises(LakeDamagedError, match=r"the table .*/history/minutes can't be read: "):
            reader.files(MINUTES, 0, 1 << 40)
    (log / f"{2:020d}.json").unlink()
    assert reader.extent(MINUTES) == (MIDNIGHT_S, MIDNIGHT_S + 60)


def test_a_commit_in_the_place_of_one_that_a_power_cut_tore_is_read(tmp_path: Path) -> None:
    """delta-rs reads an empty commit as one without actions; the holder moves it aside when it opens the table."""
    lake = Lake(str(tmp_path))
    tables, engine = HistoryTables(lake), engine_model()
    first, second = (samples_rows(engine, [MIDNIGHT_S + number * 60]) for number in range(2))
    tables.add_batch(written(tables, MINUTES, first), CHECKPOINT, 0)
    (Path(tables.storage.at(MINUTES)) / "_delta_log" / f"{2:020d}.json").touch()
    reader = HistoryFiles(tmp_path)
    assert reader.extent(MINUTES) == (MIDNIGHT_S, MIDNIGHT_S + 60)
    again = HistoryTables(Lake(str(tmp_path)))
    again.add_batch(written(again, MINUTES, second), CHECKPOINT, 1)
    assert reader.extent(MINUTES) == (MIDNIGHT_S, MIDNIGHT_S + 120)


def test_a_link_in_the_log_is_refused(tmp_path: Path) -> None:
    tables, engine = HistoryTables(Lake(str(tmp_path))), engine_model()
    tables.add_batch(written(tables, MINUTES, samples_rows(engine, [MIDNIGHT_S])), CHECKPOINT, 0)
    newest = Path(tables.storage.at(MINUTES)) / "_delta_log" / f"{1:020d}.json"
    newest.rename(tmp_path / "elsewhere")
    newest.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"001\.json is a symbolic link, which Penstock does not follow"):
        HistoryFiles(tmp_path).files(MINUTES, 0, 1 << 40)


def test_a_kill_at_any_sync_leaves_whole_steps_and_the_next_try_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    """Two batches, their merge, and the close of their day, with a late sample; each try goes one sync further."""
    engine = engine_model()
    batches = [samples_rows(engine, [MIDNIGHT_S + at_s]) for at_s in (0, 540)]
    late = samples_rows(engine, [MIDNIGHT_S + 60])
    fresh, closed = batches[0] | batches[1], batches[0] | batches[1] | late
    hours = hours_of(closed)

    def work(tables: HistoryTables) -> None:
        for number, rows in enumerate(batches):
            last = tables.last_batch(CHECKPOINT)
            if last is None or number > last:
                tables.add_batch(written(tables, MINUTES, rows), CHECKPOINT, number)
        merge_closed_windows(tables)
        if tables.closed_until_s(HOURS) <= MIDNIGHT_S:
            files = {level: written(tables, level, rows) for level, rows in ((MINUTES, closed), (HOURS, hours))}
            tables.close_day(MIDNIGHT_S, files)

    kills, seen = 0, []
    while True:
        lake = Lake(str(tmp_path), files=DyingFiles(kills + 1))
        try:
            work(HistoryTables(lake))
            break
        except Kill:
            kills += 1
            seen.append((read_rows(lake, MINUTES), read_rows(lake, HOURS)))
    # A reader sees each step or not, and hours only of a day whose minutes are the closed ones.
    steps = [({}, {}), (batches[0], {}), (fresh, {}), (closed, {}), (closed, hours)]
    places = [steps.index(one) for one in seen]
    assert places == sorted(places)
    assert set(places) == set(range(5))
    assert (read_rows(lake, MINUTES), read_rows(lake, HOURS)) == (closed, hours)
    assert len(HistoryTables(lake).files(MINUTES)) == 1
