"""A history of an earlier version: read by its manifest, converted once, killed at every step of that."""

from pathlib import Path

import pytest

from queue_engine.pipeline.convert import convert
from queue_engine.pipeline.history.conversion import convert_history
from queue_engine.pipeline.history.files import HistoryFiles
from queue_engine.pipeline.history.history_tables import HistoryTables
from queue_engine.pipeline.history.levels import DAY_S, HOURS, MINUTES
from queue_engine.pipeline.lake.lake import Lake
from queue_engine.vocabulary.errors import LakeDamagedError, NotConvertedError
from tests.pipeline.dying_files import DyingFiles, Kill
from tests.pipeline.history.history_rows import read_rows
from tests.support.lakes.history_lake import window
from tests.support.lakes.old_history import OldHistoryLake

MIDNIGHT_S = 1_800_057_600
CHECKPOINT, BATCH = "9f0c", 311


@pytest.fixture
def old(tmp_path: Path) -> OldHistoryLake:
    """A closed day, of which the stream's file reaches into today; two more fresh files, one over midnight."""
    made = OldHistoryLake(tmp_path)
    made.closed_until_s = MIDNIGHT_S
    made.rollup = {"checkpoint": CHECKPOINT, "batch": BATCH}
    made.add(HOURS, [window(t, "orders") for t in range(MIDNIGHT_S - DAY_S, MIDNIGHT_S, 3_600)])
    made.add(MINUTES, [window(t, "orders", depth=1.0) for t in range(MIDNIGHT_S - 600, MIDNIGHT_S, 60)])
    both_days = [window(t, "orders", depth=2.0) for t in range(MIDNIGHT_S - 120, MIDNIGHT_S + 120, 60)]
    made.add(MINUTES, both_days, kind="fresh")
    made.add(MINUTES, [window(MIDNIGHT_S + 120, "orders", depth=2.0)], kind="fresh")
    next_s = MIDNIGHT_S + DAY_S
    made.add(MINUTES, [window(t, "orders", depth=3.0) for t in (next_s - 60, next_s)], kind="fresh")
    return made


def expected_depths() -> dict[int, float]:
    times = range(MIDNIGHT_S - 600, MIDNIGHT_S + 180, 60)
    next_s = MIDNIGHT_S + DAY_S
    return {t: 1.0 if t < MIDNIGHT_S else 2.0 for t in times} | {next_s - 60: 3.0, next_s: 3.0}


def depths(lake: Lake) -> dict[int, float]:
    return {key[0]: row["depth_avg"] for key, row in read_rows(lake, MINUTES).items()}


def test_a_reader_goes_on_with_the_manifest_until_it_is_converted(old: OldHistoryLake, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    assert depths(lake) == expected_depths()
    assert HistoryFiles(tmp_path).extent(HOURS) == (MIDNIGHT_S - DAY_S, MIDNIGHT_S)
    with pytest.raises(NotConvertedError, match="run penstock pipeline convert"):
        HistoryTables(lake).check_converted()
    old.write_manifest(version=2)
    with pytest.raises(LakeDamagedError, match="version 2, expected 1"):
        HistoryFiles(tmp_path).extent(MINUTES)


def test_files_become_those_of_the_tables_and_the_stream_goes_on(old: OldHistoryLake, tmp_path: Path) -> None:
    lake, reader = Lake(str(tmp_path)), HistoryFiles(tmp_path)
    said: list[str] = []
    assert reader.extent(MINUTES) == (MIDNIGHT_S - 600, MIDNIGHT_S + DAY_S + 60)
    before = {path: path.read_bytes() for path in old.directory.rglob("*") if path.is_file()}
    with lake.lock():
        assert convert_history(lake, said.append)
        assert not convert_history(lake, said.append)
        tables = HistoryTables(lake)
        tables.check_converted()
        assert [tables.closed_until_s(level) for level in (MINUTES, HOURS)] == [MIDNIGHT_S] * 2
        assert tables.last_batch(CHECKPOINT) == BATCH
        assert tables.end_s() == MIDNIGHT_S + DAY_S + 60
    assert said == ["history/hours: 24 windows in 1 files", "history/minutes: 15 windows in 5 files"]
    assert depths(lake) == expected_depths()
    assert all(path.read_bytes() == data for path, data in before.items())
    kept = {Path(one.path).name for one in reader.files(MINUTES, 0, 1 << 40)} & {path.name for path in before}
    assert len(kept) == 2, "the day's file, and the one within a day"
    (hours,) = reader.files(HOURS, 0, 1 << 40)
    assert Path(hours.path) in before


def test_a_file_that_cannot_be_read_is_named_and_one_that_is_gone_is_left_out(
    old: OldHistoryLake, tmp_path: Path
) -> None:
    lake = Lake(str(tmp_path))
    said: list[str] = []
    path = old.directory / str(old.files[3]["path"])
    path.write_bytes(path.read_bytes()[:-9])
    with lake.lock():
        with pytest.raises(LakeDamagedError, match=f"{path.name} can't be read .*move it away"):
            convert_history(lake, print)
        path.unlink()
        assert convert_history(lake, said.append)
    assert said == [f"{path} is not there and is left out", "history/minutes: 14 windows in 4 files"]
    assert depths(lake) == {t: depth for t, depth in expected_depths().items() if t != MIDNIGHT_S + 120}


@pytest.mark.usefixtures("old")
def test_a_conversion_that_is_killed_at_any_sync_is_made_at_the_next_try(tmp_path: Path) -> None:
    kills = 0
    while True:
        lake = Lake(str(tmp_path), files=DyingFiles(kills + 1))
        try:
            convert_history(lake, print)
            break
        except Kill:
            kills += 1
            # Readers have the manifest's list or the tables', and either is the whole history.
            assert depths(lake) == expected_depths()
    assert kills > 10
    assert depths(Lake(str(tmp_path))) == expected_depths()
    assert HistoryTables(Lake(str(tmp_path))).last_batch(CHECKPOINT) == BATCH


def test_command_converts_while_no_other_process_holds_the_lake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convert.main(["--data-path", str(tmp_path)]) == 0
    assert "nothing to convert" in capsys.readouterr().out
    old = OldHistoryLake(tmp_path / "pipeline")
    old.add(MINUTES, [window(MIDNIGHT_S, "orders")], kind="fresh")
    lake = Lake(str(tmp_path / "pipeline"))
    with lake.lock():
        assert convert.main(["--data-path", str(tmp_path)]) == 2
    assert "is held by pid" in capsys.readouterr().err
    assert convert.main(["--data-path", str(tmp_path)]) == 0
    assert "history/minutes: 1 windows in 1 files" in capsys.readouterr().out
    assert convert.main(["--data-path", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "Nothing is left to convert.\n"
    assert list(read_rows(lake, MINUTES)) == [(MIDNIGHT_S, "here", "orders", "")]
