"""Replays that an earlier version planned go on: each message once, also when the archive was converted meanwhile.

The plan, its keys and its rows are as that version wrote them, to the byte.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from queue_engine.pipeline.archive.conversion import convert_archives
from queue_engine.pipeline.job.context import JobContext
from queue_engine.pipeline.job.state import DONE
from queue_engine.pipeline.lake.lake import Lake
from queue_engine.pipeline.replay.plan import read_plan, read_progress
from queue_engine.pipeline.replay.replay import run_replay
from queue_engine.vocabulary.errors import PipelineError
from tests.pipeline.archive.test_conversion import old_archive, tables_of
from tests.pipeline.archive_reading import job, published
from tests.support.clock import ManualClock
from tests.support.processes.running_engine import RunningEngine

FOLDER = f"archive/orders/3-{0xABC:016x}/date=2026-03-01"
FILES = (f"{FOLDER}/hour=14/g000001-000000-10-20-000.parquet", f"{FOLDER}/hour=15/g000001-000000-25-45-000.parquet")
# file, first row, next row, count, bytes, first offset, next offset
STEPS = [[0, 0, 10, 5, 10, 10, 20], [1, 0, 8, 8, 16, 25, 33], [1, 8, 20, 6, 12, 33, 45]]
# Every other row, all, every other row.
ROWS = ["eJxb1QAAAdYBKw==", "", "eJxbtQAAAfYBSw=="]
KEYS = ["d1871822a756bb17972f6be82fea6d26", "b9211cf7d31e063d0dcc8214d8785850", "82f332ff2619b6d57b139de61688b04b"]
CHOSEN = [b"%d" % offset for offset in (*range(10, 20, 2), *range(25, 33), *range(33, 45, 2))]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[RunningEngine]:
    with RunningEngine(tmp_path / "engine", storage="log") as engine:
        yield engine


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    lake = Lake(str(tmp_path / "data" / "pipeline"))
    with lake.lock():
        old_archive(lake, "orders", 3, 0xABC)
        old_plan(lake)
        yield lake


def old_plan(lake: Lake) -> None:
    request = {"replay_id": "old", "topic": "orders", "target": "again", "number": None, "id_base": None}
    request |= {"start_time_ms": None, "end_time_ms": None, "key": "", "expression": "body.n > 1", "rate_per_s": None}
    lake.write_manifest("replays/old/rows.json", {"version": 1, "created_ms": 7, "rows": ROWS})
    lake.write_manifest(
        "replays/old/plan.json",
        {
            "version": 1,
            "id": "old",
            "request": request,
            "created_ms": 7,
            "source": {"topic": "orders", "number": 3, "id_base": 0xABC},
            "target": {"topic": "again", "number": None, "id_base": None},
            "channels": [],
            "count": 19,
            "bytes": 38,
            "files": [{"path": FILES[0], "count": 5}, {"path": FILES[1], "count": 14}],
            "steps": STEPS,
        },
    )


def context_of(lake: Lake, engine: RunningEngine) -> JobContext:
    return job(None, lake, engine).context


def convert(lake: Lake, context: JobContext) -> None:
    assert convert_archives(lake, tables_of(lake), context.engine.server(), ManualClock(), lambda _: None) == (1, 30)


def test_it_is_run_as_it_was_planned_and_once_more_is_not_twice(lake: Lake, engine: RunningEngine) -> None:
    one = job(None, lake, engine)
    plan = read_plan(lake, "old")
    assert plan is not None
    assert [plan.key_of(step).hex() for step in plan.all_steps] == KEYS
    assert (plan.count, plan.body_bytes, plan.files) == (19, 38, FILES)

    assert run_replay(one.context, "old") == 19
    assert run_replay(one.context, "old") == 19

    assert published(engine, "again", is_replayed=True) == CHOSEN
    assert (one.reports[-1].state, one.reports[-1].done, one.reports[-1].lag) == (DONE, 19, 0)


def test_behind_an_upgrade_and_the_conversion_it_goes_on_with_what_it_has_not_sent(
    lake: Lake, engine: RunningEngine
) -> None:
    """The earlier version has published two batches, and was killed before it noted the second."""
    context = context_of(lake, engine)
    context.engine.create_topic("again")
    state = context.engine.topic("again")
    for number, bodies in enumerate((CHOSEN[:5], CHOSEN[5:13])):
        keys = [b"k" if int(body) % 2 else b"" for body in bodies]
        context.engine.write(
            "again",
            bodies,
            batch_key=bytes.fromhex(KEYS[number]),
            keys=keys if any(keys) else None,
            is_replayed=True,
            number=state.number,
        )
    progress = {"version": 1, "number": state.number, "id_base": state.id_base, "next_step": 1, "sent": 5, "known": 0}
    lake.write_manifest("replays/old/progress.json", {**progress, "is_done": False, "updated_ms": 8})
    convert(lake, context)

    assert run_replay(context, "old") == 19

    assert published(engine, "again", is_replayed=True) == CHOSEN
    found = read_progress(lake, "old")
    assert found is not None
    assert (found.known, found.is_done) == (8, True)


@pytest.mark.parametrize(
    "change", ["the file is gone", "the rows are gone", "the rows are damaged", "a row is another"]
)
def test_what_it_can_not_do_as_it_was_planned_is_one_sentence(lake: Lake, engine: RunningEngine, change: str) -> None:
    rows = "replays/old/rows.json"
    if change == "the file is gone":
        # As vacuum leaves it, once the archive was converted and its files were merged.
        Path(lake.within(FILES[1])).unlink()
    elif change == "the rows are gone":
        Path(lake.within(rows)).unlink()
    elif change == "the rows are damaged":
        Path(lake.within(rows)).write_bytes(b"{")
    else:
        lake.write_manifest(rows, {"version": 1, "created_ms": 7, "rows": [ROWS[0], ROWS[2], ROWS[2]]})
    context = context_of(lake, engine)

    with pytest.raises(PipelineError, match="plan another one") as caught:
        run_replay(context, "old")

    sentence = {
        "the file is gone": f"{FILES[1]} is gone, and this replay was planned by an earlier version",
        "a row is another": "offsets 25 to 33 of orders are 4 messages of 8 bytes in the archive, and were 8 of 16",
    }
    no_rows = "the replay old was planned by an earlier version, and its rows.json is gone or damaged"
    assert str(caught.value).startswith(sentence.get(change, no_rows))
    sent = [] if "rows" in change else CHOSEN[:5]
    assert published(engine, "again", is_replayed=True) == sent
