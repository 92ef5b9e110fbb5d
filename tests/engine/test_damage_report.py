"""What a missing segment cost is told wherever the report of the start is: in the log, /stats and on the page."""

import logging
from pathlib import Path

import pytest

from admin_console.hub.hub import LiveState
from admin_console.screens.cells import Cell
from admin_console.screens.log_panel import log_table
from queue_engine.engine.engine import Engine
from tests.support.clock import ManualClock
from tests.support.engine import make_engine, pass_time, settle
from tests.support.stats_answer import stats_answer

SIZES = {"log_segment_bytes": 1 << 16, "max_msg_size": 2_000, "max_body_size": 4_000}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def damaged(tmp_path: Path, clock: ManualClock) -> Engine:
    """100 messages of each of two topics in four segments, and the second segment is gone."""
    engine = make_engine(tmp_path, clock, **SIZES)
    for topic in ("orders", "payments"):
        engine.acts.create_topic(topic)
        engine.acts.create_channel(topic, "billing")
    for number in range(100):
        engine.publish("orders", [b"%d " % number + b"x" * 1_500])
        engine.publish("payments", [b"%d " % number + b"x" * 300])
        settle(engine)
    pass_time(engine, clock, 6_000)
    engine.close()
    segments = sorted((tmp_path / "log" / "segments").glob("*.log"))
    assert len(segments) > 3
    segments[1].unlink()
    return make_engine(tmp_path, clock, **SIZES)


def test_it_is_told_by_topic_with_offsets_and_the_exact_number(
    damaged: Engine, tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    stats = stats_answer(damaged)
    (damage,) = stats["log"]["recovery"]["damages"]
    losses = {one["topic"]: one for one in damage["losses"]}
    depths = {one["topic_name"]: one["channels"][0]["depth"] for one in stats["topics"]}
    assert losses.keys() == {"orders", "payments"}
    for topic, lost in losses.items():
        assert lost["count"] == lost["next_offset"] - lost["first_offset"] == 100 - depths[topic] > 20
    assert stats["log"]["recovery"]["lost_count"] == damage["lost_count"] == 200 - sum(depths.values())
    assert (damage["is_exact"], damage["reason"]) == (True, "segments are missing")
    of_orders = f"of topic orders (offsets {losses['orders']['first_offset']} to "
    assert [line for line in stats["log"]["recovery"]["report"] if line.startswith("Damage, ") and of_orders in line]
    assert damaged.log.topic_state("orders").ranges == ((0, 100),), "who reads the log is to miss them"
    table = log_table(LiveState(damaged.stats.now(include_clients=False), {}))
    cells = [row.cells[1][1] for row in table.rows if row.key.startswith("recovery")]
    (told,) = [cell for cell in cells if isinstance(cell, Cell) and cell.tone == "danger"]
    lost = losses["orders"]
    assert f"{damage['lost_count']} messages lost" in told.text
    assert f"of topic orders (offsets {lost['first_offset']} to {lost['next_offset'] - 1})" in told.text
    damaged.close()
    with caplog.at_level(logging.INFO):
        again = make_engine(tmp_path, clock, **SIZES)
    assert not [line for line in caplog.messages if "Damage" in line], "it is told once"
    again.close()
