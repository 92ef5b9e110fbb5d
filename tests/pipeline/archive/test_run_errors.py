"""What goes wrong with one topic's table stops no other topic, and what goes wrong with the store stops the run.

The engine and Spark are replaced: a step writes the files of its ranges by itself.
"""

import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from queue_engine.lake.archive import archive as archive_module
from queue_engine.lake.archive import archives as archives_module
from queue_engine.lake.archive.archive import Archiver
from queue_engine.lake.archive.archive_gap import REPLAYED, ArchiveGap
from queue_engine.lake.archive.archive_table import ArchivedIdentity, archive_path
from queue_engine.lake.archive.archives import Commit
from queue_engine.lake.archive.gaps import Gaps
from queue_engine.lake.archive.summary import SUMMARY_NAME, read_summary
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.job.state import JobState
from queue_engine.lake.source.wanted_range import WantedRange
from queue_engine.lake.tables.table import LakeTable
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S
from queue_engine.vocabulary.errors import (
    ArchiveLostError,
    CommitUnknownError,
    DataFileMissingError,
    OtherLakeError,
    PipelineError,
    StoreError,
    StoreRefusedError,
    StoreUnreachableError,
)
from tests.pipeline.archive.faked_steps import REPLAYED_OFFSET, SERVER, FakeEngine, archiver, faked_lake
from tests.pipeline.archive_reading import archive_of, archives
from tests.support.clock import ManualClock

HOUR_NS = 3_600 * NS_PER_S


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    with faked_lake(tmp_path, monkeypatch) as lake:
        yield lake


def damage(lake: Lake, topic: str) -> None:
    """A directory in the place of a commit: the system refuses to read it."""
    log = Path(lake.within(archive_path(topic))) / "_delta_log"
    commit = log / f"{1:020d}.json"
    commit.unlink()
    commit.mkdir()


def test_a_table_that_the_system_refuses_to_read_stops_no_other_topic(lake: Lake) -> None:
    engine = FakeEngine({"a": 3, "b": 3, "c": 3})
    assert archiver(lake, engine).run(None) == 9
    damage(lake, "b")
    engine.ends.update(dict.fromkeys(engine.ends, 5))
    again = archiver(lake, engine)
    with pytest.raises(StoreError):
        again.run(None)
    assert engine.offsets == {"a": 5, "b": 3, "c": 5}
    assert again.archives.summary.topics["b"].error


@pytest.mark.parametrize("error", [StoreError, CommitUnknownError])
def test_one_commit_that_is_refused_stops_no_other_topic(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, error: type[StoreError]
) -> None:
    engine = FakeEngine(dict.fromkeys("abc", 10))
    one = archiver(lake, engine)
    commit = LakeTable.commit

    def refuse(table: LakeTable, files: Any, *given: Any, **options: Any) -> Any:
        result = commit(table, files, *given, **options)
        if table.path.endswith("/b"):
            raise error("the answer is lost")
        return result

    with monkeypatch.context() as patch:
        patch.setattr(LakeTable, "commit", refuse)
        with pytest.raises(error):
            one.run(None)
    assert engine.offsets == {"a": 10, "b": 0, "c": 10}
    engine.ends.update(dict.fromkeys("abc", 20))
    one.run(None)
    assert [(found.next_offset, found.reasons) for found in archives(lake)] == [(20, [(7, 8, "replayed")])] * 3


def test_an_error_behind_the_commits_counts_no_gap_twice(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngine(dict.fromkeys("abc", 10))
    one = archiver(lake, engine)

    def fail(*_: object) -> None:
        raise ValueError("as of a damaged file")

    with monkeypatch.context() as patch:
        patch.setattr(one.archives, "_sum_up", fail)
        one.run(None)
    engine.ends.update(dict.fromkeys("abc", 20))
    one.run(None)
    assert [(found.next_offset, found.reasons) for found in archives(lake)] == [(20, [(7, 8, "replayed")])] * 3


@pytest.mark.parametrize(
    "error",
    [
        StoreUnreachableError("no answer came"),
        # As Spark has the error of a task.
        RuntimeError("PythonException: …\nqueue_engine.vocabulary.errors.StoreUnreachableError: no answer came"),
    ],
)
def test_a_store_without_an_answer_ends_the_run_at_once(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    steps: list[int] = []

    def write(_: Any, __: Any, ranges: Sequence[WantedRange], *___: Any, **____: Any) -> None:
        steps.append(len(ranges))
        raise error

    monkeypatch.setattr(archive_module, "write_step", write)
    with pytest.raises(type(error)):
        archiver(lake, FakeEngine(dict.fromkeys("abc", 10))).run(None)
    assert steps == [3]


def test_behind_a_commit_that_got_no_answer_no_other_is_tried(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = [f"t{number:02d}" for number in range(40)]
    engine = FakeEngine(dict.fromkeys(topics, 3))
    one = archiver(lake, engine)
    asked: list[str] = []

    def unanswered(table: LakeTable, *_: Any, **__: Any) -> Any:
        asked.append(table.path)
        raise CommitUnknownError("not known") from StoreUnreachableError("no answer came")

    with monkeypatch.context() as patch:
        patch.setattr(LakeTable, "commit", unanswered)
        with pytest.raises(StoreUnreachableError):
            one.run(None)
    assert len(asked) <= archives_module.COMMIT_THREADS
    assert set(engine.offsets.values()) == {0}
    one.run(None)
    assert set(engine.offsets.values()) == {3}


def refusing(monkeypatch: pytest.MonkeyPatch, topics: set[str]) -> None:
    """The store refuses the tables of these topics."""
    transaction = LakeTable.transaction

    def refuse(table: LakeTable, app_id: str) -> int | None:
        if table.path.rpartition("/")[2] in topics:
            raise StoreRefusedError(f"{table.path}: the store refuses the credentials")
        return transaction(table, app_id)

    monkeypatch.setattr(LakeTable, "transaction", refuse)


def test_a_store_that_refuses_one_topic_has_the_others(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngine(dict.fromkeys("abc", 5))
    one = archiver(lake, engine)
    refusing(monkeypatch, {"b"})
    with pytest.raises(StoreRefusedError, match=r"archive/b"):
        one.run(None)
    assert engine.offsets == {"a": 5, "b": 0, "c": 5}


@pytest.mark.parametrize("is_lake_readable", [True, False])
def test_a_store_that_refuses_all_topics_ends_the_run(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, is_lake_readable: bool
) -> None:
    topics = [f"t{number:02d}" for number in range(100)]
    one = archiver(lake, FakeEngine(dict.fromkeys(topics, 5)))
    refusing(monkeypatch, set(topics))
    if not is_lake_readable:
        Path(lake.within("penstock_lake.json")).unlink()
    failed: list[str] = []
    monkeypatch.setattr(one.archives, "note_error", lambda identity, _: failed.append(identity.topic))
    with pytest.raises(StoreRefusedError):
        one.run(None)
    assert len(failed) == (archive_module.REFUSED_TOPICS_MAX if is_lake_readable else 0)


def test_a_topic_that_fails_rests_and_the_others_go_on(lake: Lake) -> None:
    engine = FakeEngine({"a": 13, "b": 3})
    archiver(lake, engine).run(None)
    damage(lake, "b")
    clock, states = ManualClock(), list[JobState]()
    one = archiver(lake, engine, clock, report=states.append)
    rests: list[float] = []
    for number in range(10):
        engine.ends = {"a": 14 + number, "b": 4 + number}
        assert one.run_round({"a", "b"}, {"a", "b"}) == 1
        assert engine.offsets == {"a": 14 + number, "b": 3}
        said = states[-1]
        assert (said.state, said.is_in_trouble, said.job) == ("waiting", True, "archive")
        assert said.error.startswith("b is not archived, and all other topics go on: ")
        rest_ms = said.next_try_ms - clock.time_ns() // NS_PER_MS
        rests.append(rest_ms / 1000)
        clock.advance(ms=rest_ms - 1)
        assert one.run_round({"a", "b"}, {"a", "b"}) == 0
        clock.advance(ms=1)
    assert rests == [5, 10, 20, 40, 80, 160, 300, 300, 300, 300]


def test_a_resting_topic_is_tried_again_by_itself_and_then_all_is_well(lake: Lake) -> None:
    engine = FakeEngine({"a": 3, "b": 3})
    engine.lakes["b"] = "of another server"
    clock, states = ManualClock(), list[JobState]()
    one = archiver(lake, engine, clock, report=states.append)
    assert one.run_round({"a", "b"}, {"a", "b"}) == 3
    reports = len(states)
    assert one.run_round(set(), {"a", "b"}) == 0
    assert len(states) == reports
    engine.lakes["b"] = ""
    clock.advance(ms=5_000)
    assert one.run_round(set(), {"a", "b"}) == 3
    assert (states[-1].error, states[-1].next_try_ms) == ("", 0)


def test_a_topic_that_is_not_to_be_archived_any_more_rests_no_longer(lake: Lake) -> None:
    engine = FakeEngine({"a": 3, "b": 3})
    engine.lakes["b"] = "of another server"
    states: list[JobState] = []
    one = archiver(lake, engine, report=states.append)
    one.run_round({"a", "b"}, {"a", "b"})
    assert states[-1].error
    one.run_round(set(), {"a"})
    assert states[-1].error == ""


def test_what_may_be_the_machines_fault_ends_the_round(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*_: Any, **__: Any) -> None:
        raise RuntimeError("Java is gone")

    monkeypatch.setattr(archive_module, "write_step", write)
    one = archiver(lake, FakeEngine(dict.fromkeys("abc", 10)))
    with pytest.raises(RuntimeError):
        one.run_round(set("abc"), set("abc"))


def test_smaller_steps_behind_a_killed_one_count_what_was_replayed_once(lake: Lake) -> None:
    identity = ArchivedIdentity("a", SERVER, 1, 0x100)
    engine = FakeEngine({"a": 40})
    one = archiver(lake, engine)
    one.archives._commit_messages = lambda _: PipelineError("killed")  # type: ignore[method-assign,assignment,return-value]
    gaps = [ArchiveGap(2, 18, REPLAYED, 5, 1)]
    one.archives.commit([Commit(identity, 0, 20, True, [], gaps)])
    # The steps are smaller now, and one of them reaches over the killed one's end.
    archiver(lake, engine, step_rows=15).run(None)
    found = archive_of(lake, "a")
    assert (found.next_offset, found.reasons) == (40, [(7, 8, "replayed")])


def test_a_gaps_file_that_is_gone_is_a_sentence(lake: Lake) -> None:
    archiver(lake, FakeEngine({"a": 10})).run(None)
    for path in Path(lake.within("archive_gaps")).glob("*.parquet"):
        path.unlink()
    with pytest.raises(DataFileMissingError, match=r"archive_gaps/part-.*parquet counts .* is not there"):
        Gaps(archiver(lake, FakeEngine({"a": 10})).context.open_tables()).read("a")


def lose(lake: Lake, engine: FakeEngine, tmp_path: Path, *, back_to: int, running: Archiver | None = None) -> None:
    """Archive a and b up to 15, and leave a without its table, or with the one that ended at `back_to`."""
    table = Path(lake.within(archive_path("a")))
    for end in (10, 15):
        engine.ends.update(a=end, b=end)
        (running or archiver(lake, engine)).run(None)
        shutil.copytree(table, tmp_path / f"at-{end}")
    shutil.rmtree(table)
    if back_to:
        shutil.copytree(tmp_path / f"at-{back_to}", table)
    engine.ends.update(a=20, b=20)


@pytest.mark.parametrize(("back_to", "words"), [(0, "is gone"), (10, "ends at offset 10")])
@pytest.mark.parametrize("is_running", [True, False])
def test_a_table_that_is_lost_stops_its_archive_until_it_is_put_back(
    lake: Lake, tmp_path: Path, back_to: int, words: str, is_running: bool
) -> None:
    engine = FakeEngine({"a": 0, "b": 0})
    running = archiver(lake, engine) if is_running else None  # with the table opened
    lose(lake, engine, tmp_path, back_to=back_to, running=running)
    one = running or archiver(lake, engine)
    for _ in range(2):
        with pytest.raises(
            ArchiveLostError, match=f"a was archived up to offset 15, .* {words}: nothing more"
        ) as caught:
            one.run(None)
        one = archiver(lake, engine)
    assert (engine.offsets, engine.lakes["a"]) == ({"a": 15, "b": 20}, one.archives.identity)
    table = Path(lake.within(archive_path("a")))
    assert (table / "_delta_log").exists() == bool(back_to)
    known = read_summary(lake)
    assert known is not None
    assert (known["a"].is_lost, known["a"].next_offset, known["a"].error) == (True, 15, f"{caught.value}.")
    assert (known["b"].is_lost, known["b"].error) == (False, "")
    shutil.rmtree(table, ignore_errors=True)
    shutil.copytree(tmp_path / "at-15", table)
    archiver(lake, engine).run(None)
    assert archive_of(lake, "a").bodies == [b"%d" % offset for offset in range(20) if offset != REPLAYED_OFFSET]
    known = read_summary(lake)
    assert known is not None
    assert (known["a"].is_lost, known["a"].next_offset, known["a"].error) == (False, 20, "")


def test_a_table_that_is_lost_with_the_summary_stops_its_archive(lake: Lake, tmp_path: Path) -> None:
    engine = FakeEngine({"a": 0, "b": 0})
    lose(lake, engine, tmp_path, back_to=0)
    Path(lake.within(SUMMARY_NAME)).unlink()
    with pytest.raises(ArchiveLostError, match="a was archived up to offset 15"):
        archiver(lake, engine).run(None)
    known = read_summary(lake)
    assert known is not None
    assert known["a"].is_lost


@pytest.mark.parametrize(
    ("back_to", "start", "reasons"),
    [
        (0, 0, [(7, 8, "replayed")]),
        (0, 4, [(0, 4, "lost"), (7, 8, "replayed")]),
        (0, 12, [(0, 7, "lost"), (7, 8, "replayed"), (8, 12, "lost")]),
        (0, 18, [(0, 7, "lost"), (7, 8, "replayed"), (8, 15, "lost"), (15, 18, "off")]),
        (10, 0, [(7, 8, "replayed")]),
        (10, 18, [(7, 8, "replayed"), (10, 15, "lost"), (15, 18, "off")]),
    ],
)
@pytest.mark.parametrize("dies", ["", "behind the gaps", "behind the table", "before the cursor"])
def test_a_lost_archive_begins_again_where_its_cursor_was_made_anew_and_counts_each_message_once(
    lake: Lake,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    back_to: int,
    start: int,
    reasons: list[tuple[int, int, str]],
    dies: str,
) -> None:
    engine = FakeEngine({"a": 0, "b": 0})
    lose(lake, engine, tmp_path, back_to=back_to)
    # Only behind a loss that is shown an operator may give up messages of the log.
    with pytest.raises(ArchiveLostError):
        archiver(lake, engine).run({"a"})
    engine.offsets["a"], engine.lakes["a"] = start, ""
    if dies:
        one = archiver(lake, engine)

        def die(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            if dies == "behind the gaps":
                patch.setattr(one.archives, "_commit_messages", die)
            elif dies == "behind the table":
                patch.setattr(one.archives.summary, "write", die)
            else:
                patch.setattr(engine, "cursor_move", die)
            with pytest.raises(KeyboardInterrupt):
                one.run({"a"})
    archiver(lake, engine).run(None)
    found = archive_of(lake, "a")
    assert (found.begin_offset, found.next_offset, found.reasons) == (0, 20, reasons)
    kept = back_to if start >= back_to else 0
    wanted = [*range(kept), *range(max(start, kept), 20)]
    assert found.bodies == [b"%d" % offset for offset in wanted if offset != REPLAYED_OFFSET]
    assert engine.offsets == {"a": 20, "b": 20}
    known = read_summary(lake)
    assert known is not None
    assert (known["a"].next_offset, known["a"].rows, known["a"].is_lost) == (20, len(found.bodies), False)


def test_a_step_whose_files_are_too_old_is_made_again_and_each_message_counts_once(lake: Lake) -> None:
    engine = FakeEngine({"a": 10})
    clock = ManualClock(time_ns=time.time_ns() + 13 * HOUR_NS)
    one = archiver(lake, engine, clock)
    with pytest.raises(DataFileMissingError, match="more than 12 hours ago"):
        one.run(None)
    assert engine.offsets == {"a": 0}
    clock.set_back(ms=13 * HOUR_NS / NS_PER_MS)
    assert one.run(None) == 9
    found = archive_of(lake, "a")
    assert found.bodies == [b"%d" % offset for offset in range(10) if offset != REPLAYED_OFFSET]
    assert found.reasons == [(7, 8, "replayed")]


def test_a_second_lake_is_refused_by_a_sentence_that_names_both(lake: Lake) -> None:
    engine = FakeEngine({"a": 3, "b": 3})
    engine.lakes["b"] = "of another server"
    one = archiver(lake, engine)
    with pytest.raises(OtherLakeError) as refused:
        one.run(None)
    assert str(refused.value) == (
        f"b is archived to the lake of another server, and {one.target.storage.place} is the lake"
        f" {one.archives.identity}: start the server with the --lake that it had, or stop archiving the topic and begin"
        " anew here"
    )
    assert engine.offsets == {"a": 3, "b": 0}
    assert engine.lakes == {"a": one.archives.identity, "b": "of another server"}
    assert [found.bodies for found in archives(lake)] == [[b"0", b"1", b"2"]]
