"""Replays from a real archive into a real engine: the chosen messages come again, each once, flagged as replayed."""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from pyspark.sql import SparkSession

from admin_console.gateway.replay_sources import left_out_sentence
from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.archive.archive_table import archive_table
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.job.state import DONE, WAITING
from queue_engine.lake.replay.listing import read_plan_summary
from queue_engine.lake.replay.plan import (
    STEP_BYTES_MAX,
    ReplayStep,
    packed_offsets,
    read_plan,
    read_progress,
    read_rows,
    unpacked_offsets,
)
from queue_engine.lake.replay.planning import plan_replay
from queue_engine.lake.replay.replay import run_replay
from queue_engine.lake.replay.request import RATE_MAX, ReplayRequest
from queue_engine.lake.tables.housekeeping import merge, vacuum
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.vocabulary.errors import (
    ExpressionError,
    NotALogTopicError,
    PipelineError,
    TopicReplacedError,
)
from tests.pipeline.archive_reading import (
    archive_of,
    archive_once,
    archives,
    job,
    lake_tables,
    publish,
    published,
    switch_on,
)
from tests.pipeline.expression.test_expressions import HOSTILE
from tests.pipeline.local_tasks import LocalTasks
from tests.support.clock import ManualClock
from tests.support.processes.engine_process import EngineProcess

# The first of them starts Spark, which takes its time where the machine is busy.
pytestmark = [pytest.mark.spark, pytest.mark.slow(reason="runs Spark"), pytest.mark.timeout(400)]

COUNT = 5_000
KEYS = [b"", b"eu", b"us"]


def body(number: int) -> bytes:
    return orjson.dumps({"n": number, "half": number / 2, "kind": ["a", "b", "c"][number % 3]})


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    with EngineProcess(tmp_path_factory.mktemp("engine"), options=["--storage=log"]) as engine:
        yield engine


@pytest.fixture(scope="module")
def lake(spark: SparkSession, engine: EngineProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """With an archive of COUNT messages in several files."""
    client = LogClient(f"http://127.0.0.1:{engine.http_port}")
    rng = random.Random("replay")
    number = batch = 0
    while number < COUNT:
        count = min(rng.randint(1, 200), COUNT - number)
        numbers = range(number, number + count)
        keys = [KEYS[one % 3] for one in numbers]
        # A key of zeros is none.
        batch_key = (batch + 1).to_bytes(16, "big")
        client.write("orders", [body(one) for one in numbers], batch_key=batch_key, keys=keys)
        number += count
        batch += 1
    switch_on(engine, "orders")
    lake = Lake(str(tmp_path_factory.mktemp("lake")))
    with lake.lock():
        assert archive_once(job(spark, lake, engine).context, topics=["orders"], step_rows=2_000) == COUNT
        yield lake


def request(name: str, **changes: Any) -> ReplayRequest:
    return ReplayRequest(**({"replay_id": name, "topic": "orders", "target": f"target-{name}"} | changes))


def test_the_dry_run_tells_everything_and_publishes_nothing(
    spark: SparkSession, engine: EngineProcess, lake: Lake
) -> None:
    for channel in ("billing", "audit"):
        engine.http("POST", "/topic/create?topic=target-dry")
        engine.http("POST", f"/channel/create?topic=target-dry&channel={channel}")
    one = job(spark, lake, engine)
    plan = plan_replay(one.context, request("dry", expression="body.kind = 'a' and body.n < 3000"))
    chosen = [body(n) for n in range(0, 3000, 3)]
    assert (plan.count, plan.body_bytes) == (len(chosen), sum(map(len, chosen)))
    assert plan.channels == ("audit", "billing")
    table = archive_table(lake_tables(lake), "orders")
    assert set(plan.files) < {one.path for one in table.files()}
    assert plan.table_version == table.version
    assert plan.target_number == one.context.engine.topic("target-dry").number
    assert all(step.count <= 1000 for step in plan.steps)
    assert len({plan.key_of(step) for step in plan.steps}) == len(plan.steps)
    assert read_plan(lake, "dry") == plan
    told = lake.read_manifest("replays/dry/plan.json")
    assert told is not None
    assert (told["count"], told["channels"], len(told["files"])) == (1000, ["audit", "billing"], len(plan.files))
    assert published(engine, "target-dry", is_replayed=True) == []
    assert read_progress(lake, "dry") is None


def test_all_come_again_in_order_with_their_keys_and_flagged(
    spark: SparkSession, engine: EngineProcess, lake: Lake
) -> None:
    one = job(spark, lake, engine)
    plan_replay(one.context, request("all"))
    assert run_replay(one.context, "all") == COUNT
    assert published(engine, "target-all", is_replayed=True) == [body(n) for n in range(COUNT)]
    last = one.reports[-1]
    assert (last.job, last.state, last.done, last.total, last.lag) == ("replay-all", DONE, COUNT, COUNT, 0)
    # It is done: once more is not twice.
    assert run_replay(one.context, "all") == COUNT
    assert len(published(engine, "target-all", is_replayed=True)) == COUNT
    # Flagged: an archive leaves them out, and one that was asked to take them has the keys, too.
    switch_on(engine, "target-all")
    publish(engine, "target-all", [b"new"])
    assert archive_once(one.context, topics=["target-all"]) == 1
    archived = archive_of(lake, "target-all")
    assert (archived.bodies, archived.next_offset) == ([b"new"], COUNT + 1)
    assert [(gap.reason, gap.count) for gap in archived.gaps] == [("replayed", COUNT)]


def test_they_are_archived_again_when_asked_for(spark: SparkSession, engine: EngineProcess, lake: Lake) -> None:
    one = job(spark, lake, engine)
    plan_replay(one.context, request("asked", expression="body.n < 30"))
    run_replay(one.context, "asked")
    switch_on(engine, "target-asked")
    assert archive_once(one.context, topics=["target-asked"], include_replayed=["target-asked"]) == 30
    table = archive_of(lake, "target-asked").rows.sort_by("offset")
    assert [key or b"" for key in table.column("key").to_pylist()] == [KEYS[n % 3] for n in range(30)]
    assert set(table.column("replayed").to_pylist()) == {True}
    # And can be told apart in the next replay.
    again = request("again", topic="target-asked", expression="not replayed")
    assert plan_replay(one.context, again).count == 0
    assert run_replay(one.context, "again") == 0


@pytest.mark.parametrize(
    ("name", "changes", "chosen"),
    [
        ("key", {"key": "eu"}, lambda n: n % 3 == 1),
        (
            "both",
            {"key": "us", "expression": "body.half >= 1000 and offset < 4000"},
            lambda n: n % 3 == 2 and 2000 <= n < 4000,
        ),
        ("few", {"expression": "offset in (0, 1999, 2000, 4999)"}, lambda n: n in (0, 1999, 2000, 4999)),
        ("none", {"expression": "body.n < 0"}, lambda n: False),
        (
            "topic",
            {"expression": "topic = 'orders' and key is null and body.n < 100"},
            lambda n: n % 3 == 0 and n < 100,
        ),
    ],
)
def test_what_is_chosen_comes_and_nothing_else(
    spark: SparkSession, engine: EngineProcess, lake: Lake, name: str, changes: dict[str, Any], chosen: Any
) -> None:
    one = job(spark, lake, engine)
    expected = [body(n) for n in range(COUNT) if chosen(n)]
    assert plan_replay(one.context, request(name, **changes)).count == len(expected)
    assert run_replay(one.context, name) == len(expected)
    assert published(engine, f"target-{name}", is_replayed=True) == expected


def test_a_time_range_takes_what_was_published_in_it(spark: SparkSession, engine: EngineProcess, lake: Lake) -> None:
    times = archive_of(lake, "orders").rows.sort_by("offset").column("published_at").to_pylist()
    ms = [int(time.timestamp() * 1000) for time in times]
    start, end = ms[COUNT // 4], ms[COUNT // 2]
    expected = [body(n) for n in range(COUNT) if start <= ms[n] < end]
    assert 0 < len(expected) < COUNT
    one = job(spark, lake, engine)
    plan_replay(one.context, request("time", start_time_ms=start, end_time_ms=end))
    run_replay(one.context, "time")
    assert published(engine, "target-time", is_replayed=True) == expected


def test_cancelled_and_resumed_at_other_rates_nothing_is_twice_or_skipped(
    spark: SparkSession, engine: EngineProcess, lake: Lake
) -> None:
    one = job(spark, lake, engine)
    plan_replay(one.context, request("stops", rate_per_s=100_000, expression="body.n < 3000"))
    sent = 0
    for rate in (200_000, 50_000, None):
        one = job(spark, lake, engine)
        steps = []

        def stop_after_two(state: Any, one: Any = one, steps: list[int] = steps) -> None:
            steps.append(state.done)
            if len(steps) == 3:
                one.context.stop.set()

        object.__setattr__(one.context, "report", stop_after_two)
        before, sent = sent, run_replay(one.context, "stops", rate_per_s=rate)
        assert sent > before or sent == 3000
        progress = read_progress(lake, "stops")
        assert progress is not None
        assert progress.sent == sent
    last = job(spark, lake, engine)
    assert run_replay(last.context, "stops") == 3000
    assert published(engine, "target-stops", is_replayed=True) == [body(n) for n in range(3000)]


def test_what_was_sent_and_not_written_down_is_recognized(
    spark: SparkSession, engine: EngineProcess, lake: Lake
) -> None:
    one = job(spark, lake, engine)
    plan_replay(one.context, request("lost", expression="body.n < 2500"))
    run_replay(one.context, "lost")
    # As a kill leaves it that comes before progress is written.
    progress = lake.read_manifest("replays/lost/progress.json")
    assert progress is not None
    lake.write_manifest("replays/lost/progress.json", progress | {"next_step": 1, "sent": 7, "is_done": False})
    run_replay(one.context, "lost")
    assert published(engine, "target-lost", is_replayed=True) == [body(n) for n in range(2500)]
    told = read_progress(lake, "lost")
    assert told is not None
    assert told.known > 0


def test_a_target_made_anew_stops_it(spark: SparkSession, engine: EngineProcess, lake: Lake) -> None:
    engine.http("POST", "/topic/create?topic=target-anew")
    one = job(spark, lake, engine)
    plan_replay(one.context, request("anew"))

    def anew(state: Any) -> None:
        if state.done and one.context.engine.topic("target-anew").end_offset:
            engine.http("POST", "/topic/delete?topic=target-anew")
            engine.http("POST", "/topic/create?topic=target-anew")

    object.__setattr__(one.context, "report", anew)
    with pytest.raises(TopicReplacedError, match="target-anew"):
        run_replay(one.context, "anew")
    with pytest.raises(TopicReplacedError, match="the replay anew goes to the topic target-anew with the number"):
        run_replay(job(spark, lake, engine).context, "anew")
    assert published(engine, "target-anew", is_replayed=True) == []


def test_a_target_made_anew_between_plan_and_run_stops_it(
    spark: SparkSession, engine: EngineProcess, lake: Lake
) -> None:
    engine.http("POST", "/topic/create?topic=target-between")
    one = job(spark, lake, engine)
    plan_replay(one.context, request("between"))
    engine.http("POST", "/topic/delete?topic=target-between")
    engine.http("POST", "/topic/create?topic=target-between")
    with pytest.raises(TopicReplacedError):
        run_replay(one.context, "between")
    assert published(engine, "target-between", is_replayed=True) == []


def test_a_diskqueue_target_is_refused_by_name(spark: SparkSession, engine: EngineProcess, lake: Lake) -> None:
    engine.http("POST", "/topic/create?topic=target-disk&storage=diskqueue")
    with pytest.raises(NotALogTopicError, match="target-disk"):
        plan_replay(job(spark, lake, engine).context, request("disk"))
    assert read_plan(lake, "disk") is None


@pytest.mark.parametrize("text", HOSTILE[1:], ids=range(1, len(HOSTILE)))
def test_no_hostile_expression_gets_to_spark(engine: EngineProcess, lake: Lake, text: str) -> None:
    # Without a session: whoever asked it for anything would fail otherwise.
    with pytest.raises(ExpressionError):
        plan_replay(job(None, lake, engine).context, request("hostile", expression=text))
    assert read_plan(lake, "hostile") is None


def test_a_path_that_can_match_nothing_is_refused_with_the_one_that_exists(
    spark: SparkSession, engine: EngineProcess, lake: Lake
) -> None:
    with pytest.raises(ExpressionError, match=r"body\.kind is a text in all 999 that have it"):
        plan_replay(job(spark, lake, engine).context, request("path", expression="body.kind.name = 'a'"))
    with pytest.raises(ExpressionError, match=r"the path that exists is body\.kind$"):
        plan_replay(job(spark, lake, engine).context, request("path", expression="body.kimd = 'a'"))
    assert read_plan(lake, "path") is None
    # The sample does not decide of messages that are found.
    wanted = request("found", expression="body.kind.name is null and body.n in (7, 8) or body.kind.name = 'a'")
    assert plan_replay(job(spark, lake, engine).context, wanted).count == 2
    # As a discard leaves it.
    one = job(spark, lake, engine)
    one.context.stop.set()
    with pytest.raises(PipelineError, match="stopped before it was complete"):
        plan_replay(one.context, request("path"))
    assert read_plan(lake, "path") is None


def test_an_earlier_incarnation_is_left_out_by_name_and_comes_when_it_is_asked_for(
    spark: SparkSession, engine: EngineProcess, tmp_path: Path
) -> None:
    lake = Lake(str(tmp_path))
    tasks: Any = LocalTasks()
    with lake.lock():
        for first, after in ((0, 40), (40, 42)):
            engine.http("POST", "/topic/create?topic=twice")
            switch_on(engine, "twice")
            publish(engine, "twice", [body(n) for n in range(first, after)])
            archive_once(job(tasks, lake, engine).context, topics=["twice"])
            if not first:
                engine.http("POST", "/topic/delete?topic=twice")
        one = job(spark, lake, engine)
        earlier, now = archives(lake, "twice")
        newest = plan_replay(one.context, request("newest", topic="twice"))
        assert (newest.count, newest.source) == (2, now.identity)
        assert [(left.number, left.rows) for left in newest.left_out] == [(earlier.identity.number, 40)]
        told = read_plan_summary(tmp_path, "newest")
        assert told is not None
        assert left_out_sentence(told) == "40 messages of one earlier incarnation are left out."
        # Both have offsets from 0: a batch's key has the incarnation in it, too.
        which = {"server": earlier.identity.server, "number": earlier.identity.number}
        first = plan_replay(one.context, request("first", topic="twice", target="target-newest", **which))
        assert (first.count, first.source) == (40, earlier.identity)
        assert [(left.number, left.rows) for left in first.left_out] == [(now.identity.number, 2)]
        run_replay(one.context, "newest")
        run_replay(one.context, "first")
        assert published(engine, "target-newest", is_replayed=True) == [body(n) for n in (40, 41, *range(40))]
        with pytest.raises(PipelineError, match="nothing is archived of a topic twice of the server other"):
            plan_replay(one.context, request("other", topic="twice", server="other"))


@pytest.mark.parametrize(
    "changes",
    [
        {"server": 7},
        {"replay_id": "../x"},
        {"replay_id": ""},
        {"topic": "../../etc"},
        {"target": "a/b"},
        {"topic": "never-archived"},
        {"number": 99},
        {"start_time_ms": 5, "end_time_ms": 5},
        {"start_time_ms": -1},
        {"rate_per_s": 0},
        {"rate_per_s": 2.5},
        {"key": 5},
    ],
)
def test_a_request_that_makes_no_sense_is_refused(engine: EngineProcess, lake: Lake, changes: dict[str, Any]) -> None:
    with pytest.raises(PipelineError):
        plan_replay(job(None, lake, engine).context, request("senseless", **changes))


def test_a_plan_is_not_changed_once_it_has_begun(spark: SparkSession, engine: EngineProcess, lake: Lake) -> None:
    one = job(spark, lake, engine)
    plan_replay(one.context, request("fixed", expression="offset < 10"))
    plan_replay(one.context, request("fixed", expression="offset < 5"))
    assert run_replay(one.context, "fixed") == 5
    with pytest.raises(PipelineError, match="has begun"):
        plan_replay(one.context, request("fixed"))
    with pytest.raises(PipelineError, match="the replay unplanned has no plan"):
        run_replay(one.context, "unplanned")


def test_rows_that_are_not_what_was_planned_are_not_published(
    spark: SparkSession, engine: EngineProcess, lake: Lake
) -> None:
    one = job(spark, lake, engine)
    plan_replay(one.context, request("differs", expression="offset < 10"))
    told = lake.read_manifest("replays/differs/plan.json")
    assert told is not None
    told["steps"][0][2] += 1
    lake.write_manifest("replays/differs/plan.json", told)
    with pytest.raises(PipelineError, match="plan another one"):
        run_replay(one.context, "differs")
    assert published(engine, "target-differs", is_replayed=True) == []


def test_large_messages_make_small_steps(spark: SparkSession, engine: EngineProcess, lake: Lake) -> None:
    large = [bytes([number]) * (1 << 20) for number in range(7)]
    for one_body in large:
        publish(engine, "large", [one_body])
    switch_on(engine, "large")
    one = job(spark, lake, engine)
    archive_once(one.context, topics=["large"])
    plan = plan_replay(one.context, request("large", topic="large"))
    assert max(step.body_bytes for step in plan.steps) <= STEP_BYTES_MAX
    assert run_replay(one.context, "large") == 7
    assert archive_of(lake, "large").bodies == large
    switch_on(engine, "target-large")
    archive_once(one.context, topics=["target-large"], include_replayed=["target-large"])
    assert archive_of(lake, "target-large").bodies == large


def test_a_slow_replay_waits_between_its_steps(spark: SparkSession, engine: EngineProcess, lake: Lake) -> None:
    # No time passes: a stall would pay for a step.
    one = job(spark, lake, engine, clock=ManualClock())
    plan = plan_replay(one.context, request("slow", expression="offset < 40", rate_per_s=10))
    assert [step.count for step in plan.steps] == [10] * 4
    waits: list[float] = []
    one.context.stop.wait = lambda timeout=None: waits.append(timeout or 0) or len(waits) > 2 or False
    real_is_set = one.context.stop.is_set
    one.context.stop.is_set = lambda: len(waits) > 2 or real_is_set()
    assert run_replay(one.context, "slow") == 10
    assert all(0 < wait <= 1 for wait in waits)
    assert one.reports[-1].state == WAITING


def test_noted_rows_that_are_damaged_are_found_anew(spark: SparkSession, engine: EngineProcess, lake: Lake) -> None:
    one = job(spark, lake, engine)
    plan = plan_replay(one.context, request("damaged", expression="body.kind = 'b' and body.n < 300"))
    rows = read_rows(lake, plan)
    os.truncate(lake.within("replays/damaged/rows.json"), 100)
    assert run_replay(one.context, "damaged") == 100
    assert published(engine, "target-damaged", is_replayed=True) == [body(n) for n in range(1, 300, 3)]
    assert read_rows(lake, plan) == rows


def compacted(lake: Lake, topic: str, count: int) -> None:
    """Merge a topic's files to so many, and remove those that were replaced."""
    table = archive_table(LakeTables(TableStorage(lake.path)), topic)
    table.refresh()
    files = sorted(table.files(), key=lambda one: int(one.minimum["offset"]))
    for group in range(count):
        merge(table, files[len(files) * group // count : len(files) * (group + 1) // count])
    assert vacuum(table, retention_ms=0, unnamed_age_ms=86_400_000).replaced == len(files)
    assert len(table.files()) == count


def test_through_compaction_and_vacuum_it_goes_on_and_its_repeat_publishes_nothing_twice(
    spark: SparkSession, engine: EngineProcess, tmp_path: Path
) -> None:
    publish(engine, "kept", [body(n) for n in range(1_000)])
    switch_on(engine, "kept")
    expected = [body(n) for n in range(1_000) if n % 3]
    lake = Lake(str(tmp_path))
    with lake.lock():
        tasks: Any = LocalTasks()
        archive_once(job(tasks, lake, engine).context, topics=["kept"], step_rows=100)
        one = job(spark, lake, engine)
        asked = request("kept", topic="kept", expression="body.kind != 'a'", rate_per_s=60)
        plan = plan_replay(one.context, asked)
        assert (len(plan.files), len(plan.steps)) == (10, 12)

        def tidied_in_its_midst(state: Any) -> None:
            if state.done == 120:
                compacted(lake, "kept", 2)
            elif state.done >= 480:
                one.context.stop.set()

        object.__setattr__(one.context, "report", tidied_in_its_midst)
        assert run_replay(one.context, "kept", rate_per_s=RATE_MAX) == 480
        assert published(engine, "target-kept", is_replayed=True) == expected[:480]
        compacted(lake, "kept", 1)
        assert run_replay(job(spark, lake, engine).context, "kept", rate_per_s=RATE_MAX) == len(expected)
        assert published(engine, "target-kept", is_replayed=True) == expected
        # Nothing is noted of it any more, and none of its files is there.
        Path(lake.within("replays/kept/progress.json")).unlink()
        assert run_replay(job(None, lake, engine).context, "kept", rate_per_s=RATE_MAX) == len(expected)
        progress = read_progress(lake, "kept")
    assert progress is not None
    assert progress.known == len(expected)
    assert published(engine, "target-kept", is_replayed=True) == expected


def test_offsets_that_match_are_noted_as_they_are() -> None:
    rng = random.Random("rows")
    for share in (1.0, 0.5, 0.01):
        offsets = [5, *(one for one in range(6, 20_000) if rng.random() < share), 1 << 40]
        packed = packed_offsets(np.array(offsets))
        assert unpacked_offsets(ReplayStep(5, (1 << 40) + 1, len(offsets), 0), packed).tolist() == offsets
    assert packed_offsets(np.arange(7, 99)) == ""
    assert unpacked_offsets(ReplayStep(7, 99, 92, 0), "").tolist() == list(range(7, 99))
