"""The archive of a real engine by a real Spark: it has every published message once, through kills and errors."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from pyspark.sql import SparkSession

from queue_engine.lake.archive.archive_table import COLUMNS, archive_table
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.history.history_tables import HistoryTables
from queue_engine.lake.history.levels import MINUTES
from queue_engine.lake.job.state import RUNNING, WAITING
from queue_engine.lake.replay.planning import plan_replay
from queue_engine.lake.replay.replay import run_replay
from queue_engine.lake.replay.request import ReplayRequest
from queue_engine.lake.tables.table import CommitResult
from queue_engine.vocabulary.errors import OffsetBeyondEndError
from queue_engine.wire.error_answers import read_error_answer
from tests.pipeline.archive_reading import (
    archive_of,
    archive_once,
    archives,
    cursor_of,
    data_files,
    job,
    lake_tables,
    named_files,
    publish,
    published,
    switch_on,
)
from tests.pipeline.history.history_rows import read_rows
from tests.pipeline.history.test_history_tables import written
from tests.pipeline.local_tasks import LocalTasks
from tests.pipeline.query.archived_topic import ask, views
from tests.support.lakes.engine_samples import EngineModel, minutes_of
from tests.support.processes.engine_process import EngineProcess
from tests.support.processes.running_engine import RunningEngine

# The first of them starts Spark, which takes its time where the machine is busy.
pytestmark = [pytest.mark.spark, pytest.mark.slow(reason="runs Spark"), pytest.mark.timeout(400)]

DATA = Path(__file__).resolve().parent.parent.parent / "data"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    """One engine for the tests that only publish and archive; each has its own topics and its own lake."""
    with EngineProcess(tmp_path_factory.mktemp("engine"), options=["--storage=log"]) as engine:
        yield engine


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    lake = Lake(str(tmp_path / "pipeline"))
    with lake.lock():
        yield lake


def test_what_is_archived_is_what_was_published(spark: SparkSession, engine: EngineProcess, lake: Lake) -> None:
    rng = random.Random("archive")
    lines = (DATA / "earthquakes.jsonl").read_bytes().splitlines()
    published: dict[str, list[bytes]] = {f"equal-{number}": [] for number in range(5)}
    for topic in published:
        engine.http("POST", f"/topic/create?topic={topic}")
        switch_on(engine, topic)
    sizes = [0, 1, 200, 70_000, 1 << 20]
    for _ in range(40):
        topic = rng.choice(list(published))
        bodies = [rng.choice(lines) for _ in range(rng.randint(1, 40))] + [rng.randbytes(rng.choice(sizes[1:]))]
        publish(engine, topic, bodies)
        published[topic] += bodies
    one = job(spark, lake, engine)
    count = archive_once(one.context, topics=set(published), step_rows=700)
    assert count == sum(map(len, published.values()))
    for topic, bodies in published.items():
        archived = archive_of(lake, topic)
        table = archived.rows
        assert archived.bodies == bodies
        assert table.schema.names == COLUMNS.names
        first = archived.identity.id_base
        assert sorted(table.column("message_id").to_pylist()) == [f"{first + n:016x}" for n in range(len(bodies))]
        assert set(table.column("replayed").to_pylist()) == {False}
        assert (archived.begin_offset, archived.next_offset, archived.gaps) == (0, len(bodies), ())
        assert cursor_of(engine, topic).offset == len(bodies)
    assert data_files(lake) == named_files(lake)
    last = one.reports[-1]
    assert (last.state, last.done, last.total, last.lag) == (WAITING, count, count, 0)
    assert {report.state for report in one.reports[:-1]} == {RUNNING}
    assert [report.done for report in one.reports] == sorted(report.done for report in one.reports)
    assert len({report.done for report in one.reports}) > 2
    # Nothing new: no second row, and Spark is left alone.
    idle = job(None, lake, engine)
    assert archive_once(idle.context, topics=set(published)) == 0
    assert idle.reports == []


def test_it_goes_on_where_it_was_and_leaves_the_leases_to_nobody(
    spark: SparkSession, engine: EngineProcess, lake: Lake
) -> None:
    publish(engine, "goes-on", [b"a", b"b"])
    switch_on(engine, "goes-on", start="end")
    publish(engine, "goes-on", [b"c", b"d"])
    assert archive_once(job(spark, lake, engine).context, topics=["goes-on"]) == 2
    publish(engine, "goes-on", [b"e"])
    assert archive_once(job(spark, lake, engine).context, topics=["goes-on"]) == 1
    archived = archive_of(lake, "goes-on")
    assert archived.bodies == [b"c", b"d", b"e"]
    assert (archived.begin_offset, archived.next_offset) == (2, 5)
    assert all(path.stat().st_size < 5 for path in engine.data_path.rglob("leases.json"))


def test_a_kill_of_the_engine_makes_no_steps_and_no_progress_of_its_own(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    with RunningEngine(before) as engine:
        publish(engine, "killed", [b"a"] * 100)
        switch_on(engine, "killed")
        engine.copy_as_killed(after)
    with RunningEngine(after) as engine:
        publish(engine, "killed", [b"b"] * 100)
        one = job(spark, lake, engine)
        assert archive_once(one.context, topics=["killed"], step_rows=150) == 200
    archived = archive_of(lake, "killed")
    assert archived.bodies == [b"a"] * 100 + [b"b"] * 100
    assert archived.reasons == [(100, 1 << 20, "absent")]
    assert archived.version == 2
    assert [(told.done, told.total, told.lag) for told in one.reports] == [
        (0, 200, 200),
        (150, 200, 50),
        (200, 200, 0),
        (200, 200, 0),
    ]


def test_large_messages_of_another_topic_between_them_do_not_cut_its_steps(
    spark: SparkSession, engine: EngineProcess, lake: Lake
) -> None:
    for topic in ("between-small", "between-large"):
        engine.http("POST", f"/topic/create?topic={topic}")
        switch_on(engine, topic)
    for _ in range(10):
        publish(engine, "between-small", [b"s" * 100] * 100)
        publish(engine, "between-large", [b"l" * 100_000] * 3)
    one = job(spark, lake, engine)
    topics = {"between-small", "between-large"}
    assert archive_once(one.context, topics=topics, step_bytes=1 << 20) == 1_030
    assert archive_of(lake, "between-small").version == 1
    # Ten of its messages are a mebibyte.
    assert archive_of(lake, "between-large").version == 3


def test_a_topic_without_the_switch_is_not_archived(spark: SparkSession, engine: EngineProcess, lake: Lake) -> None:
    publish(engine, "not-switched", [b"a"])
    engine.http("POST", "/cursor/create?topic=not-switched&cursor=another")
    assert archive_once(job(None, lake, engine).context, topics=["not-switched"]) == 0
    assert archives(lake) == []


def test_a_diskqueue_topic_is_refused_by_name(engine: EngineProcess) -> None:
    engine.http("POST", "/topic/create?topic=on-disk&storage=diskqueue")
    with pytest.raises(HTTPError) as refused:
        switch_on(engine, "on-disk")
    told = read_error_answer(refused.value.read(), refused.value.headers)
    assert told.message == "INVALID_STORAGE"
    assert "on-disk" in told.detail
    assert "diskqueue" in told.detail


def test_a_time_when_it_was_switched_off_is_a_gap(spark: SparkSession, engine: EngineProcess, lake: Lake) -> None:
    switch = "/cursor/{}?topic=off-and-on&cursor=archive"
    publish(engine, "off-and-on", [b"a", b"b"])
    switch_on(engine, "off-and-on")
    archive_once(job(spark, lake, engine).context, topics=["off-and-on"])
    engine.http("POST", switch.format("delete"))
    publish(engine, "off-and-on", [b"c"] * 3)
    switch_on(engine, "off-and-on", start="end")
    publish(engine, "off-and-on", [b"d"])
    archive_once(job(spark, lake, engine).context, topics=["off-and-on"])
    archived = archive_of(lake, "off-and-on")
    assert archived.bodies == [b"a", b"b", b"d"]
    assert archived.reasons == [(2, 5, "off")]


def test_a_cursor_that_fell_behind_its_table_is_moved_up(
    spark: SparkSession, engine: EngineProcess, lake: Lake
) -> None:
    # As after a kill between commit and cursor: the cursor is put back by making it anew.
    publish(engine, "behind", [b"a", b"b", b"c"])
    switch_on(engine, "behind")
    archive_once(job(spark, lake, engine).context, topics=["behind"])
    engine.http("POST", "/cursor/delete?topic=behind&cursor=archive")
    engine.http("POST", "/cursor/create?topic=behind&cursor=archive&start_offset=1")
    assert archive_once(job(None, lake, engine).context, topics=["behind"]) == 0
    assert cursor_of(engine, "behind").offset == 3
    assert archive_of(lake, "behind").bodies == [b"a", b"b", b"c"]


def test_a_topic_made_anew_is_in_the_same_table_and_told_apart(
    spark: SparkSession, engine: EngineProcess, lake: Lake
) -> None:
    publish(engine, "anew", [b"old"] * 3)
    switch_on(engine, "anew")
    archive_once(job(spark, lake, engine).context, topics=["anew"])
    engine.http("POST", "/topic/delete?topic=anew")
    publish(engine, "anew", [b"new"] * 2)
    switch_on(engine, "anew")
    archive_once(job(spark, lake, engine).context, topics=["anew"])
    old, new = sorted(archives(lake, "anew"), key=lambda one: one.identity.number)
    assert old.bodies == [b"old"] * 3
    assert new.bodies == [b"new"] * 2
    assert (old.version, new.version) == (2, 2), "they share a table"


def test_a_topic_made_anew_in_mid_archive_is_not_mixed(spark: SparkSession, engine: EngineProcess, lake: Lake) -> None:
    for _ in range(4):
        publish(engine, "mid", [b"old"] * 100)
    switch_on(engine, "mid")
    one = job(spark, lake, engine)
    done = []

    def anew_after_the_first_step(_: object) -> None:
        if not done and archives(lake, "mid"):
            done.append(True)
            engine.http("POST", "/topic/delete?topic=mid")
            publish(engine, "mid", [b"new"] * 50)
            switch_on(engine, "mid")

    object.__setattr__(one.context, "report", anew_after_the_first_step)
    assert archive_once(one.context, topics=["mid"], step_rows=100) == 150
    old, new = sorted(archives(lake, "mid"), key=lambda each: each.identity.number)
    assert old.bodies == [b"old"] * 100
    assert new.bodies == [b"new"] * 50
    assert data_files(lake) == named_files(lake)


def test_a_topic_that_fails_does_not_keep_others_from_their_turn(
    spark: SparkSession, engine: EngineProcess, lake: Lake
) -> None:
    publish(engine, "fails", [b"a"] * 3)
    publish(engine, "goes", [b"b"] * 3)
    for topic in ("fails", "goes"):
        switch_on(engine, topic)
        archive_once(job(spark, lake, engine).context, topics=[topic])
    # An archive that is ahead of its log: as when the log's disk was put back to an older state.
    ahead = archive_of(lake, "fails").identity
    table = archive_table(lake_tables(lake), "fails")
    assert table.commit([], ahead.app_id, 50, after=3) == CommitResult.COMMITTED
    publish(engine, "fails", [b"a"])
    publish(engine, "goes", [b"b"])
    with pytest.raises(OffsetBeyondEndError, match="fails is archived up to offset 50, and its log ends at 4"):
        archive_once(job(spark, lake, engine).context, topics=["fails", "goes"])
    assert archive_of(lake, "goes").bodies == [b"b"] * 4


def test_what_is_damaged_in_the_log_is_a_gap_and_costs_nothing_else(
    spark: SparkSession, engine: EngineProcess, lake: Lake
) -> None:
    bodies = [b"damage-%03d-" % number + bytes([65 + number % 26]) * 50 for number in range(100)]
    publish(engine, "damaged", bodies[:60])
    publish(engine, "damaged", bodies[60:])
    switch_on(engine, "damaged")
    _damage(engine.data_path, bodies[7])
    _damage(engine.data_path, bodies[8])
    _damage(engine.data_path, bodies[70])
    assert archive_once(job(spark, lake, engine).context, topics=["damaged"]) == 97
    archived = archive_of(lake, "damaged")
    assert archived.bodies == [one for number, one in enumerate(bodies) if number not in (7, 8, 70)]
    assert archived.reasons == [(7, 9, "damaged"), (70, 71, "damaged")]
    assert cursor_of(engine, "damaged").offset == 100


def _damage(data_path: Path, body: bytes) -> None:
    """Change one byte of a body where the log has it."""
    for path in sorted(data_path.rglob("*")):
        at = path.read_bytes().find(body) if path.is_file() and "segments" in path.parts else -1
        if at >= 0:
            with path.open("r+b") as segment:
                segment.seek(at + len(body) // 2)
                segment.write(b"!")
            return
    raise AssertionError(f"{body!r} is nowhere in the log")


def test_asked_to_stop_it_ends_between_steps_and_goes_on_later(
    spark: SparkSession, engine: EngineProcess, lake: Lake
) -> None:
    for number in range(4):
        publish(engine, "stops", [b"%d" % number] * 10)
    switch_on(engine, "stops")
    one = job(spark, lake, engine)

    def stop_after_the_first_step(_: object) -> None:
        if archives(lake, "stops"):
            one.context.stop.set()

    object.__setattr__(one.context, "report", stop_after_the_first_step)
    assert archive_once(one.context, topics=["stops"], step_rows=10) == 10
    assert cursor_of(engine, "stops").offset == 10
    assert archive_once(job(spark, lake, engine).context, topics=["stops"], step_rows=10) == 30
    assert archive_of(lake, "stops").bodies == [b"%d" % number for number in range(4) for _ in range(10)]


def test_all_of_it_works_below_a_path_of_many_signs(spark: SparkSession, tmp_path: Path) -> None:
    data = tmp_path / "p q#é'\"50%zz?a+b:c&d;$(x)" / "data"
    bodies = [b'{"n": %d}' % number for number in range(30)]
    with EngineProcess(data, options=["--storage=log"]) as engine:
        publish(engine, "orders", bodies)
        switch_on(engine, "orders")
        engine.restart()  # what was published is in a complete segment, which tasks read as a file
        lake = Lake(str(data / "pipeline"))
        with lake.lock():
            tasks: Any = LocalTasks()
            here = job(tasks, lake, engine).context
            assert archive_once(here) == 30
            assert archive_of(lake, "orders").bodies == bodies
            wanted = ReplayRequest("again", "orders", "copies", expression="body.n >= 10")
            plan_replay(job(spark, lake, engine).context, wanted)
            assert run_replay(here, "again") == 20
            assert published(engine, "copies", is_replayed=True) == bodies[10:]
            model = EngineModel("n1", {"orders": ["billing"]}, seed=3)
            rows = minutes_of([model.sample(1_800_057_600_000)])
            tables = HistoryTables(lake)
            tables.add_batch(written(tables, MINUTES, rows), "9f0c", 0)
            assert read_rows(lake, MINUTES) == rows
    sql = "SELECT (SELECT count(*) FROM orders) AS orders, (SELECT count(*) FROM history_minutes) AS minutes"
    assert ask(sql, views(lake.path)) == [{"orders": 30, "minutes": len(rows)}]
    assert [path.name for path in tmp_path.iterdir()] == [data.parent.name]
