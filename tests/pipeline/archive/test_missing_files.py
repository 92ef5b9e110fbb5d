"""Files of an archive's table that are missing: noticed, said, and written again, each message once."""

import logging
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from queue_engine.lake.archive import archive as archive_module
from queue_engine.lake.archive import archives as archives_module
from queue_engine.lake.archive.archive_gap import BEGIN, ArchiveGap
from queue_engine.lake.archive.archive_table import FILE_COLUMNS, ArchivedIdentity, archive_path, archive_table
from queue_engine.lake.archive.archives import LOOK_EVERY_NS
from queue_engine.lake.archive.gaps import Gaps
from queue_engine.lake.archive.repair import missing_sentence, plan_repair
from queue_engine.lake.archive.summary import read_summary
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.housekeeping.housekeeping import Housekeeping
from queue_engine.lake.job.context import JobContext
from queue_engine.lake.job.state import JobState
from queue_engine.lake.replay.plan import ReplayStep, packed_offsets
from queue_engine.lake.replay.planning import candidates
from queue_engine.lake.replay.request import ReplayRequest
from queue_engine.lake.replay.step_messages import StepMessages
from queue_engine.lake.tables.housekeeping import merge, vacuum
from queue_engine.lake.tables.missing_files import missing_files
from queue_engine.lake.tables.parquet_files import write_data_file
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.table import LakeTable
from queue_engine.lake.tables.table_files import TableFile
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S
from queue_engine.vocabulary.errors import ArchiveFilesMissingError, ArchiveLostError, DataFileMissingError
from tests.pipeline.archive import faked_steps
from tests.pipeline.archive.faked_steps import REPLAYED_OFFSET, SERVER, TIME, FakeEngine, archiver, faked_lake
from tests.pipeline.archive_reading import archive_of, archives, lake_tables
from tests.pipeline.dying_files import DyingFiles, Kill
from tests.support.clock import ManualClock

A = ArchivedIdentity("a", SERVER, 1, 0x100)
ENDS = (10, 20, 30)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    with faked_lake(tmp_path, monkeypatch) as lake:
        yield lake


@pytest.fixture
def engine(lake: Lake) -> FakeEngine:
    """Topics a and b, archived in three files each."""
    engine = FakeEngine({"a": 0, "b": 0})
    for end in ENDS:
        engine.ends.update(a=end, b=end)
        archiver(lake, engine).run(None)
    return engine


def files_at(lake: Lake, *firsts: int) -> list[Path]:
    """The data files of a that begin at these offsets."""
    table = archive_table(lake_tables(lake), "a")
    table.refresh()
    found = {one.minimum["offset"]: Path(table.at(one)) for one in table.files()}
    return [found[first] for first in firsts]


def remove(lake: Lake, *firsts: int) -> None:
    for path in files_at(lake, *firsts):
        path.unlink()


def ask(engine: FakeEngine, start: int) -> None:
    """What `pipeline rearchive` does to the cursor."""
    engine.offsets["a"], engine.lakes["a"] = start, ""


def notice(lake: Lake, engine: FakeEngine) -> None:
    with pytest.raises(ArchiveFilesMissingError):
        archiver(lake, engine).run({"a"})


def bodies(*ranges: tuple[int, int]) -> list[bytes]:
    return [b"%d" % offset for first, after in ranges for offset in range(first, after) if offset != REPLAYED_OFFSET]


@pytest.mark.parametrize("has_new", [True, False])
def test_a_missing_file_stops_its_archive_until_it_is_put_back(
    lake: Lake, engine: FakeEngine, tmp_path: Path, caplog: pytest.LogCaptureFixture, has_new: bool
) -> None:
    (path,) = files_at(lake, 10)
    kept = shutil.move(path, tmp_path / "kept")
    if has_new:
        engine.ends.update(a=40, b=40)
    states: list[JobState] = []
    one = archiver(lake, engine, report=states.append)
    assert one.due_topics(engine.cursor_list()) == {"a", "b"}
    with caplog.at_level(logging.WARNING):
        one.run_round({"a", "b"}, {"a", "b"})
    sentence = (
        f"1 of the 3 files of the table {lake.within(archive_path('a'))} is missing, with 10 messages, offsets 10 to 19"
    )
    assert sentence in states[-1].error
    assert "penstock pipeline rearchive a" in states[-1].error
    assert sentence in caplog.text
    assert engine.offsets == {"a": 30, "b": engine.ends["b"]}
    # As behind housekeeping, which does not look for files.
    one.archives.sum_up_again({"a", "b"})
    one.archives.summary.write(is_last=True)
    assert one.archives.lost_topics() == {"a"}
    known = read_summary(lake)
    assert known is not None
    assert sentence in known["a"].error
    assert (known["a"].is_lost, known["a"].is_partial, known["b"].is_lost) == (True, True, False)
    assert (known["a"].rows, known["a"].next_offset) == (29, 30)
    with pytest.raises(ArchiveFilesMissingError):
        archiver(lake, engine).run(None)
    shutil.move(kept, path)
    archiver(lake, engine).run(None)
    assert archive_of(lake, "a").bodies == bodies((0, engine.ends["a"]))
    known = read_summary(lake)
    assert known is not None
    assert (known["a"].is_lost, known["a"].is_partial, known["a"].error) == (False, False, "")


def test_tables_are_looked_at_once_an_hour(lake: Lake, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def look(table: LakeTable) -> Any:
        looked.append(table.path)
        return missing_files(table)

    monkeypatch.setattr(archives_module, "missing_files", look)
    clock = ManualClock(time_ns=time.time_ns())
    one = archiver(lake, engine, clock)
    for end in range(40, 70, 10):
        engine.ends.update(a=end)
        one.run(None)
    assert looked == ["archive/a", "archive/b"]
    assert one.due_topics(engine.cursor_list()) == set()
    remove(lake, 10)
    clock.advance(ms=LOOK_EVERY_NS / NS_PER_MS)
    assert one.due_topics(engine.cursor_list()) == {"a", "b"}
    with pytest.raises(ArchiveFilesMissingError):
        one.run({"a", "b"})
    assert looked == ["archive/a", "archive/b"] * 2


def check_repaired(lake: Lake, engine: FakeEngine, lost: list[tuple[int, int]]) -> None:
    end = engine.ends["a"]
    found = archive_of(lake, "a")
    left_out = [(REPLAYED_OFFSET, REPLAYED_OFFSET + 1, "replayed")]
    assert (found.begin_offset, found.next_offset) == (0, end)
    assert found.reasons == sorted([*left_out, *((first, after, "lost") for first, after in lost)])
    gone = {offset for first, after in lost for offset in range(first, after)}
    assert found.bodies == [body for body in bodies((0, end)) if int(body) not in gone]
    table = archive_table(lake_tables(lake), "a")
    table.refresh()
    assert missing_files(table) == []
    assert engine.offsets == {"a": end, "b": end}
    known = read_summary(lake)
    assert known is not None
    one = known["a"]
    assert (one.next_offset, one.rows, one.is_lost, one.error) == (end, len(found.bodies), False, "")
    assert [(gap.first_offset, gap.next_offset, gap.reason) for gap in one.gaps] == found.reasons


# What the log has: from which offset on, from where it is read; what is lost then.
@pytest.mark.parametrize(
    ("oldest", "start", "lost"),
    [(0, 0, []), (0, 5, [(0, 5)]), (20, 20, [(0, 7), (8, 20)]), (25, 30, [(0, 7), (8, 20)])],
)
def test_missing_files_are_written_again_from_what_the_log_has(
    lake: Lake, engine: FakeEngine, oldest: int, start: int, lost: list[tuple[int, int]]
) -> None:
    remove(lake, 0, 10)
    engine.oldest["a"] = oldest
    notice(lake, engine)
    ask(engine, start)
    archiver(lake, engine, step_rows=7).run(None)
    check_repaired(lake, engine, lost)


def test_a_cursor_that_is_made_anew_before_a_loss_is_noticed_gives_no_message_up(
    lake: Lake, engine: FakeEngine
) -> None:
    """As *Stop archiving* and *Archive… from now on* make it."""
    remove(lake, 0, 10)
    ask(engine, 30)
    archiver(lake, engine).run(None)
    check_repaired(lake, engine, [])


def lose(lake: Lake) -> Path:
    """Take the table of a away. Returns where it is now."""
    path = Path(lake.within(archive_path("a")))
    return shutil.move(path, path.with_name("elsewhere"))


@pytest.mark.parametrize("noticed", ["", "files", "table, and a commit failed"])
def test_a_cursor_that_is_made_anew_before_a_lost_table_is_noticed_gives_no_message_up(
    lake: Lake, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, noticed: str
) -> None:
    """As *Stop archiving* and *Archive… from now on* make it: an operator decides once the loss is shown."""
    if noticed == "files":
        remove(lake, 0)
        notice(lake, engine)
    elsewhere = lose(lake)
    ask(engine, 30)
    with pytest.raises(ArchiveLostError, match=r"a was archived up to offset 30, .* is gone"):
        archiver(lake, engine).run({"a"})
    known = read_summary(lake)
    assert known is not None
    assert (known["a"].is_table_lost, engine.offsets["a"], engine.lakes["a"]) == (True, 30, engine.lakes["b"])
    if not noticed:
        # Put back, it goes on.
        shutil.move(elsewhere, elsewhere.with_name(Path(archive_path("a")).name))
        engine.ends["a"] = 35
        archiver(lake, engine).run({"a"})
        found = archive_of(lake, "a")
        assert (found.bodies, found.reasons) == (bodies((0, 35)), [(7, 8, "replayed")])
        return
    ask(engine, 25)
    if noticed != "files":
        with monkeypatch.context() as patch:
            patch.setattr(archives_module, "lost_gaps", fail_to_commit)
            with pytest.raises(RuntimeError):
                archiver(lake, engine).run({"a"})
    archiver(lake, engine).run({"a"})
    found = archive_of(lake, "a")
    assert (found.bodies, found.reasons) == (bodies((25, 30)), [(0, 7, "lost"), (7, 8, "replayed"), (8, 25, "lost")])


@pytest.mark.parametrize("oldest", [0, 12])
def test_a_lost_table_that_nothing_has_noticed_is_written_anew_from_the_begin_of_the_log(
    lake: Lake, engine: FakeEngine, oldest: int
) -> None:
    lose(lake)
    engine.oldest["a"] = oldest
    ask(engine, oldest)
    archiver(lake, engine).run({"a"})
    assert archive_of(lake, "a").bodies == bodies((oldest, 30))


def fail_to_commit(*_: object) -> list[ArchiveGap]:
    raise RuntimeError("an executor died")


def test_a_repair_that_failed_still_begins_where_it_was_asked_to(
    lake: Lake, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove(lake, 0, 10)
    notice(lake, engine)
    ask(engine, 5)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("an executor died")

    with monkeypatch.context() as patch:
        patch.setattr(archive_module, "write_step", fail)
        with pytest.raises(RuntimeError):
            archiver(lake, engine).run(None)
    archiver(lake, engine).run(None)
    check_repaired(lake, engine, [(0, 5)])


def test_files_that_are_put_back_while_others_are_written_stay_in_the_table(
    lake: Lake, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(Path(lake.within(archive_path("a"))), tmp_path / "kept")
    (path,) = files_at(lake, 0)
    remove(lake, 0, 10)
    notice(lake, engine)
    engine.oldest["a"] = 15
    ask(engine, 15)
    write = archive_module.write_step

    def put_back(*given: Any, **named: Any) -> Any:
        kept = tmp_path / "kept" / path.relative_to(lake.within(archive_path("a")))
        shutil.copy(kept, path)
        return write(*given, **named)

    monkeypatch.setattr(archive_module, "write_step", put_back)
    archiver(lake, engine).run(None)
    assert files_at(lake, 0) == [path]
    check_repaired(lake, engine, [(10, 15)])


@pytest.mark.parametrize("given", [{"step_rows": 10}, {"step_bytes": 100}])
def test_a_long_repair_goes_step_by_step_and_other_topics_are_archived_in_between(
    lake: Lake, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, given: dict[str, int]
) -> None:
    remove(lake, 0, 10, 20)
    notice(lake, engine)
    engine.ends.update(b=40)
    ask(engine, 0)
    states: list[JobState] = []
    one = archiver(lake, engine, report=states.append, **given)
    ranges = ranges_written(monkeypatch)
    left: list[tuple[int, int, bool]] = []
    for _ in ENDS:
        assert one.due_topics(engine.cursor_list()) == {"a", "b"} if not left else {"a"}
        one.run_round({"a", "b"}, {"a", "b"})
        known = one.archives.summary.topics["a"]
        left.append((known.rows, len(missing_files(archive_table(lake_tables(lake), "a"))), known.is_lost))
    assert left == [(29, 2, True), (29, 1, True), (29, 0, False)]
    assert ranges == [("a", 0, 7), ("a", 8, 10), ("b", 30, 40), ("a", 10, 20), ("a", 20, 30)]
    reported = [(part.done, part.total) for state in states for part in state.topics if part.topic == "a"]
    assert list(dict.fromkeys(reported))[:4] == [(0, 29), (7, 29), (9, 29), (0, 20)]
    assert (10, 10) in reported
    engine.ends.update(a=40)
    assert one.run(None) == 10
    check_repaired(lake, engine, [])


def test_a_run_repairs_a_table_in_as_many_passes_as_it_needs(lake: Lake, engine: FakeEngine) -> None:
    for end in range(40, 100, 10):
        engine.ends.update(a=end, b=end)
        archiver(lake, engine).run(None)
    remove(lake, *range(0, 90, 10))
    ask(engine, 0)
    assert archiver(lake, engine, step_rows=10).run(None) == 89
    check_repaired(lake, engine, [])


def test_a_repair_stops_between_two_ranges_and_begins_anew_later(
    lake: Lake, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove(lake, 0, 10)
    ask(engine, 0)
    one = archiver(lake, engine)
    with monkeypatch.context() as patch:
        ranges = ranges_written(patch, then=one.context.stop.set)
        one.run(None)
    assert ranges == [("a", 0, 7)]
    assert len(missing_files(archive_table(lake_tables(lake), "a"))) == 2
    archiver(lake, engine).run(None)
    check_repaired(lake, engine, [])


def ranges_written(
    monkeypatch: pytest.MonkeyPatch, then: Callable[[], None] = lambda: None
) -> list[tuple[str, int, int]]:
    """What the steps from now on write; behind each one `then` is called."""
    found: list[tuple[str, int, int]] = []
    write = archive_module.write_step

    def noted(spark: Any, engine: Any, ranges: Any, *given: Any, **named: Any) -> Any:
        found.extend((one.topic, one.first_offset, one.next_offset) for one in ranges)
        written = write(spark, engine, ranges, *given, **named)
        then()
        return written

    monkeypatch.setattr(archive_module, "write_step", noted)
    return found


@pytest.mark.parametrize(("was", "now"), [("", "a"), ("a", ""), ("a-", ""), ("a-", "a")])
def test_replayed_messages_are_written_again_as_they_were_archived(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, was: str, now: str
) -> None:
    """was: "a-": switched off between two steps whose files were merged."""
    replayed = {3, 7, 15, 17}
    monkeypatch.setattr(faked_steps, "REPLAYED_OFFSETS", replayed)
    engine = FakeEngine({"a": 10})
    archiver(lake, engine, include_replayed=was[:1]).run(None)
    engine.ends["a"] = 20
    archiver(lake, engine, include_replayed=was if was == "a" else "").run(None)
    tables = LakeTables(TableStorage(lake.path))
    table = archive_table(tables, "a")
    table.refresh()
    merge(table, sorted(table.files(), key=lambda one: one.minimum["offset"]))
    before = archive_of(lake, "a")
    remove(lake, 0)
    ask(engine, 0)
    archiver(lake, engine, include_replayed=now).run(None)
    after = archive_of(lake, "a")
    left_out = set() if was == "a" else {15, 17} if was else replayed
    assert after.bodies == [b"%d" % one for one in range(20) if one not in left_out]
    assert (after.bodies, after.gaps) == (before.bodies, before.gaps)


def test_a_repair_that_is_killed_anywhere_counts_each_message_and_each_gap_once(
    lake: Lake, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In two steps."""
    remove(lake, 0, 10)
    engine.oldest["a"] = 4
    shutil.copytree(lake.path, tmp_path / "before")
    for kills_at in range(1, 200):
        ask(engine, 4)
        files = DyingFiles(kills_at)

        def open_tables(_: JobContext, files: DyingFiles = files) -> LakeTables:
            return LakeTables(TableStorage(lake.path, files=files))

        try:
            with monkeypatch.context() as patch:
                patch.setattr(JobContext, "open_tables", open_tables)
                archiver(lake, engine, step_rows=10).run({"a"})
        except Kill:
            archiver(lake, engine).run(None)
        check_repaired(lake, engine, [(0, 4)])
        if files.left > 0:
            break
        for name in ("archive", "archive_gaps"):
            shutil.rmtree(lake.within(name))
            shutil.copytree(tmp_path / "before" / name, lake.within(name))
        shutil.copy(tmp_path / "before" / "archive_summary.json", lake.path)
    assert kills_at > 5


def _summary_is_written(one: Any, _: FakeEngine) -> tuple[object, str]:
    return one.archives.summary, "write"


def _cursor_is_moved(_: Any, engine: FakeEngine) -> tuple[object, str]:
    return engine, "cursor_move"


@pytest.mark.parametrize("at", [_summary_is_written, _cursor_is_moved])
def test_a_kill_behind_the_tables_commit_changes_nothing(
    lake: Lake,
    engine: FakeEngine,
    monkeypatch: pytest.MonkeyPatch,
    at: Callable[[Any, FakeEngine], tuple[object, str]],
) -> None:
    remove(lake, 0, 10)
    engine.oldest["a"] = 14
    ask(engine, 14)
    one = archiver(lake, engine)

    def die(*_: object, **__: object) -> None:
        raise Kill

    with monkeypatch.context() as patch:
        patch.setattr(*at(one, engine), die)
        with pytest.raises(Kill):
            one.run({"a"})
    archiver(lake, engine).run(None)
    check_repaired(lake, engine, [(0, 7), (8, 14)])


@pytest.mark.parametrize("then", ["the log has less", "the files are back"])
def test_what_a_killed_repair_counted_as_lost_is_replaced(
    lake: Lake, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    shutil.copytree(Path(lake.within(archive_path("a"))), tmp_path / "kept")
    remove(lake, 0, 10)
    engine.oldest["a"] = 5
    ask(engine, 5)
    killed_repair(lake, engine, monkeypatch, ManualClock())
    assert (0, 5, "lost") in [(one.first_offset, one.next_offset, one.reason) for one in archives_gaps(lake)]
    if then == "the log has less":
        engine.oldest["a"] = 12
    else:
        shutil.copytree(tmp_path / "kept", lake.within(archive_path("a")), dirs_exist_ok=True)
    archiver(lake, engine).run(None)
    check_repaired(lake, engine, [(0, 7), (8, 12)] if then == "the log has less" else [])


def archives_gaps(lake: Lake) -> list[ArchiveGap]:
    return [one for one in Gaps(lake_tables(lake)).read("a")[A] if one.reason != BEGIN]


def killed_repair(lake: Lake, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> None:
    """Killed between its two commits."""

    def die(*_: object, **__: object) -> None:
        raise Kill

    with monkeypatch.context() as patch:
        patch.setattr(LakeTable, "commit", die)
        with pytest.raises(Kill):
            archiver(lake, engine, clock).run({"a"})


def test_what_a_killed_repair_of_an_earlier_topic_counted_as_lost_is_replaced(
    lake: Lake, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove(lake, 0)
    engine.oldest["a"] = 10
    ask(engine, 10)
    killed_repair(lake, engine, monkeypatch, ManualClock())
    lost = [(0, 7), (8, 10)]
    assert [(one.first_offset, one.next_offset) for one in archives_gaps(lake) if one.reason == "lost"] == lost
    # Created again: another number, and nothing of what it had.
    again = FakeEngine({"b": 30, "a": 5})
    again.id_base = 0x10000
    archiver(lake, again).run({"a"})
    ask(again, 0)
    archiver(lake, again).run({"a"})
    earlier = next(one for one in archives(lake, "a") if one.identity == A)
    assert sum(one.count for one in earlier.gaps if one.reason == "lost") == 9
    assert earlier.bodies == bodies((10, 30))


def test_lost_gaps_of_a_clock_that_was_set_back_are_not_taken_for_those_of_a_killed_repair(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = FakeEngine({"a": 0})
    place = Path(lake.within(archive_path("a")))
    for end in ENDS:
        if end == 30:
            shutil.copytree(place, tmp_path / "kept")
        engine.ends["a"] = end
        archiver(lake, engine).run(None)
    remove(lake, 0)
    engine.oldest["a"] = 10
    ask(engine, 10)
    killed_repair(lake, engine, monkeypatch, ManualClock(time_ns=NS_PER_S))
    # An earlier state is put back, which lacks no file, and the clock was set back.
    shutil.rmtree(place)
    shutil.copytree(tmp_path / "kept", place)
    engine.oldest["a"] = 25
    ask(engine, 25)
    for _ in range(3):
        archiver(lake, engine, ManualClock(time_ns=0)).run(None)
        found = archive_of(lake, "a")
        assert found.bodies == bodies((0, 20), (25, 30))
        assert found.reasons == [(7, 8, "replayed"), (20, 25, "lost")]


def test_a_table_that_is_lost_behind_a_repair_begins_again_and_counts_each_message_once(
    lake: Lake, engine: FakeEngine
) -> None:
    remove(lake, 0)
    engine.oldest["a"] = 5
    ask(engine, 5)
    archiver(lake, engine).run(None)
    check_repaired(lake, engine, [(0, 5)])
    shutil.rmtree(lake.within(archive_path("a")))
    engine.oldest["a"] = 12
    ask(engine, 12)
    for _ in range(2):
        archiver(lake, engine).run(None)
    found = archive_of(lake, "a")
    assert found.bodies == bodies((12, 30))
    assert found.reasons == [(0, 7, "lost"), (7, 8, "replayed"), (8, 12, "lost")]


def test_files_of_another_server_become_lost_and_those_of_this_one_are_written_again(
    lake: Lake, engine: FakeEngine
) -> None:
    other = FakeEngine({"a": 10})
    other.name = "6a2d"
    archiver(lake, other).run(None)
    table = archive_table(lake_tables(lake), "a")
    table.refresh()
    for one in table.files():
        if one.minimum["server"] == "6a2d" or one.minimum["offset"] == 10:
            Path(table.at(one)).unlink()
    # The other server's is the newest of the summary's: it was archived last.
    ask(engine, 0)
    archiver(lake, engine).run(None)
    engine.ends["a"] = 40
    archiver(lake, engine).run(None)
    with pytest.raises(ArchiveFilesMissingError) as caught:
        archiver(lake, engine).run(None)
    assert (
        "are missing, with 19 messages (10 of this topic, offsets 10 to 19; 9 of server 6a2d, topic number 1, offsets "
        "0 to 9), 9 of which become lost when this server writes files again: nothing more of a is archived"
    ) in str(caught.value)
    ask(engine, 0)
    archiver(lake, engine).run(None)
    foreign, own = sorted(archives(lake, "a"), key=lambda one: one.identity.server != "6a2d")
    assert own.bodies == bodies((0, 40))
    assert own.reasons == [(7, 8, "replayed")]
    assert foreign.bodies == []
    assert [(gap.reason, gap.count) for gap in foreign.gaps if gap.reason == "lost"] == [("lost", 9)]


@pytest.mark.parametrize(
    ("identity", "said"),
    [(A, "10 of this topic"), (ArchivedIdentity("a", SERVER, 2, 0x900), "10 of topic number 1")],
)
def test_offsets_of_several_topics_and_of_files_without_statistics_are_told_apart(
    lake: Lake, engine: FakeEngine, identity: ArchivedIdentity, said: str
) -> None:
    table = archive_table(lake_tables(lake), "a")
    table.refresh()
    files = [one for one in table.files() if one.minimum["offset"] == 10]
    files.append(TableFile("other.parquet", 1, 5, {}, {}, {}))
    lost = 5 if identity == A else 15
    assert missing_sentence(table, files, identity, {A}).endswith(
        f"are missing, with 15 messages ({said}, offsets 10 to 19; 5 in files of several topics or without statistics)"
        f", {lost} of which become lost when this server writes files again"
    )


def test_offsets_that_another_file_has_are_not_written_again(lake: Lake) -> None:
    """As a clock that was set back leaves them: the file of one date lies amidst the offsets of another's."""
    tables = LakeTables(TableStorage(lake.path))
    table = archive_table(tables, "a")

    def written(date: int, offsets: list[int]) -> Any:
        times = [TIME - timedelta(days=date)] * len(offsets)
        ids = [f"{A.id_base + one:016x}" for one in offsets]
        columns = [offsets, times, ids, [None] * len(ids), [b"x"] * len(ids), [False] * len(ids), [SERVER] * len(ids)]
        rows = pa.table(dict(zip(FILE_COLUMNS.names, columns, strict=True)), schema=FILE_COLUMNS)
        day = times[0].date().isoformat()
        return write_data_file(tables.storage, table.path, FILE_COLUMNS, {"date": day}, [rows])

    first, second = written(0, [0, 1, 2, 3, 8, 9]), written(1, [4, 5, 6])
    Gaps(tables).commit({A: [ArchiveGap(7, 8, "damaged", 1)]}, {A: (None, 10)})
    table.commit([first, second], A.app_id, 10, after=None)
    Path(table.at(first)).unlink()
    engine = FakeEngine({"a": 10})
    engine.oldest["a"] = 2
    repair = plan_repair(tables, A, engine.topic("a"), missing_files(table), 0)
    assert repair.wanted == ((0, 4), (8, 10))
    assert repair.readable == ((2, 4), (8, 10))
    assert [wanted.first_offset for wanted, _ in repair.ranges(1)] == [2, 3, 8, 9]
    assert repair.unreadable_count == 2


def test_housekeeping_goes_on_beside_a_missing_file_and_what_it_replaced_is_not_missed(
    lake: Lake, engine: FakeEngine
) -> None:
    tables = LakeTables(TableStorage(lake.path))
    table = archive_table(tables, "a")
    table.refresh()
    first, second, _ = sorted(table.files(), key=lambda one: one.minimum["offset"])
    merge(table, [first, second])
    vacuum(table, retention_ms=0, unnamed_age_ms=1 << 40)
    assert not Path(table.at(first)).exists()
    assert missing_files(table) == []
    remove(lake, 20)
    context = archiver(lake, engine, ManualClock(time_ns=time.time_ns())).context
    run = Housekeeping(context, context.open_tables()).run()
    assert "counts in the table, and is not there" in " ".join(run.problems)
    ask(engine, 0)
    archiver(lake, engine).run(None)
    check_repaired(lake, engine, [])


def test_readers_that_miss_a_file_name_it_and_the_command_that_mends_it(lake: Lake, engine: FakeEngine) -> None:
    (path,) = files_at(lake, 10)
    path.unlink()
    table = archive_table(LakeTables(TableStorage(lake.path)), "a")
    table.refresh()
    sentence = f"{path} counts in the table, and is not there: restore it from a backup, or have .* rearchive a$"
    with pytest.raises(DataFileMissingError, match=sentence):
        merge(table, table.files())
    request = ReplayRequest("r1", "a", "a")
    steps = [ReplayStep(12, 18, 6, 12)]
    with pytest.raises(DataFileMissingError, match=sentence):
        StepMessages(LakeTables(table.storage), A, steps, [packed_offsets(np.arange(12, 18))]).messages(0)
    (name,) = (one.path for one in missing_files(table))
    with pytest.raises(DataFileMissingError, match=sentence):
        list(candidates(table.storage, A, name, request, has_expression=False))
