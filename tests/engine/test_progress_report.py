"""What the disk does to channels' progress is told: in the log, /stats, /metrics and on the page."""

import errno
import logging
from pathlib import Path

import pytest

from admin_console.diagnosis import refusing
from admin_console.hub.hub import LiveState
from admin_console.screens.cells import Cell
from admin_console.screens.log_panel import log_table
from queue_engine.engine.engine import Engine
from queue_engine.service.monitoring.engine_samples import add_engine
from queue_engine.service.monitoring.exposition import Exposition
from queue_engine.storage.recovery_report import SHOWN_MAX
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles
from tests.support.engine import Client, make_engine, pass_time, settle
from tests.support.stats_answer import stats_answer


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def finish_every_second(engine: Engine, channel: str, count: int) -> None:
    client = Client(engine, "orders", channel, ready=count)
    client.finish(*[one.id for one in client.sink.received[1::2]])
    client.leave()


def log_stats(engine: Engine) -> dict[str, object]:
    stats = stats_answer(engine)
    log: dict[str, object] = stats["log"]
    return log


def page(engine: Engine) -> dict[str, tuple[str, str]]:
    """Row → what it says, and its tone."""
    table = log_table(LiveState(engine.stats.now(include_clients=False), {}))
    cells = {row.key: row.cells[1][1] for row in table.rows}
    return {key: (cell.text, cell.tone) for key, cell in cells.items() if isinstance(cell, Cell)}


def test_one_flipped_byte_of_the_journal_is_told_by_channel(
    tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    engine = make_engine(tmp_path, clock)
    engine.acts.create_topic("orders")
    for channel in ("audit", "billing"):
        engine.acts.create_channel("orders", channel)
    engine.publish("orders", [b"%d" % number for number in range(200)])
    settle(engine)
    finish_every_second(engine, "billing", 200)
    engine.close()
    journal = max((tmp_path / "log" / "progress").glob("*.journal"))
    data = bytearray(journal.read_bytes())
    data[1_000] ^= 1  # among what was finished
    journal.write_bytes(data)
    with caplog.at_level(logging.WARNING):
        engine = make_engine(tmp_path, clock)
    sentence = "Damaged progress: channel orders/billing delivers 100 finished messages again."
    assert sentence in caplog.text
    recovery = log_stats(engine)["recovery"]
    assert isinstance(recovery, dict)
    assert recovery["redelivered_count"] == 100
    assert recovery["redelivered"] == [{"topic": "orders", "channel": "billing", "count": 100, "is_exact": True}]
    assert sentence in recovery["report"]
    assert (sentence, "danger") in page(engine).values()
    assert sentence in engine.warnings
    assert recovery["report"][0].startswith("Start after a clean stop, with damage: ")
    assert engine.stats.health == "OK"
    assert engine.catalog.channel("orders", "billing").backlog.depth == 200
    assert engine.catalog.channel("orders", "audit").backlog.depth == 200
    engine.close()


def test_of_many_damaged_channels_the_worst_are_named(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock)
    engine.acts.create_topic("orders")
    channels = [f"c{number:02d}" for number in range(15)]
    for channel in channels:
        engine.acts.create_channel("orders", channel)
    engine.publish("orders", [b"%d" % number for number in range(40)])
    settle(engine)
    for number, channel in enumerate(channels):
        finish_every_second(engine, channel, 10 + 2 * number)
    engine.close()
    for path in (tmp_path / "log" / "progress").glob("*.journal"):
        path.unlink()
    engine = make_engine(tmp_path, clock)
    log = engine.stats.now().log
    assert log is not None
    assert log.recovery is not None
    told = [one for one in log.recovery.sentences() if one.startswith("Damaged progress")]
    assert len(told) == 1 + SHOWN_MAX + 1
    assert "channel orders/c14 delivers 19 finished messages again" in told[1]
    assert told[-1] == "Damaged progress: 5 more channels deliver at most 35 finished messages again."
    engine.close()


def test_finishes_that_a_full_disk_has_no_room_for_are_served_and_said_to_be_in_memory_alone(
    tmp_path: Path, clock: ManualClock
) -> None:
    files = FaultyFiles()
    engine = make_engine(tmp_path, clock, files=files)
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    engine.publish("orders", [b"%d" % number for number in range(200)])
    settle(engine)
    pass_time(engine, clock, 3_000)
    finish_every_second(engine, "billing", 100)
    pass_time(engine, clock, 1_000)
    assert not log_stats(engine)["is_progress_out_of_room"]
    (tmp_path / "log" / "progress" / "reserve").unlink(missing_ok=True)
    files.bytes_free = 0  # another program took that room, too
    for _ in range(3):
        finish_every_second(engine, "billing", 20)  # consumers are served
        pass_time(engine, clock, 1_000)
        assert "come again if the server is killed or stopped before there is room" in engine.stats.health
        assert log_stats(engine)["is_progress_out_of_room"]
        assert page(engine)["room"] == ("▲ in memory alone, the disk is full", "danger")
        metrics = Exposition()
        add_engine(metrics, engine.stats.now())
        assert b"penstock_progress_out_of_room 1" in metrics.text()
    found = refusing.find_broker(engine.stats.now())
    assert found is not None
    assert "finished messages may come again" in found.title
    left = 200 - 50 - 30
    assert engine.catalog.channel("orders", "billing").backlog.depth == left
    files.bytes_free = None
    pass_time(engine, clock, 1_000)
    pass_time(engine, clock, 1_000)
    assert engine.stats.health == "OK"
    assert not log_stats(engine)["is_progress_out_of_room"]
    assert "room" not in page(engine)
    files.abandon()  # kill -9
    again = make_engine(tmp_path, clock)
    assert again.catalog.channel("orders", "billing").backlog.depth == left


def test_a_passing_error_of_the_progress_journal_heals_and_stays_visible(tmp_path: Path, clock: ManualClock) -> None:
    files = FaultyFiles()
    engine = make_engine(tmp_path, clock, files=files, sync="os")
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    engine.publish("orders", [b"%d" % number for number in range(200)])
    settle(engine)
    pass_time(engine, clock, 3_000)
    finish_every_second(engine, "billing", 100)
    files.fail("sync_data", errno.EIO)
    pass_time(engine, clock, 200)
    assert engine.stats.health.startswith("NOK - the progress of channels in ")
    assert page(engine)["progress"][1] == "danger"
    finish_every_second(engine, "billing", 50)  # goes on
    pass_time(engine, clock, 200)
    assert engine.stats.health == "OK"
    log = log_stats(engine)
    assert log["progress_fault_count"] == 1
    assert "Input/output error" in str(log["progress_fault"])
    assert log["progress_fault_ms"] == (clock.time_ns() - 200_000_000) // 1_000_000
    text, tone = page(engine)["progress"]
    assert "1 error of the disk since start" in text
    assert "A new journal was begun" in text
    assert tone == "warning"
    metrics = Exposition()
    add_engine(metrics, engine.stats.now())
    assert b"penstock_progress_faults_total 1" in metrics.text()
    depth = engine.catalog.channel("orders", "billing").backlog.depth
    pass_time(engine, clock, 200)
    files.abandon()  # kill -9
    engine = make_engine(tmp_path, clock)
    again = engine.catalog.channel("orders", "billing").backlog
    assert again.depth == 200 - 75
    assert depth <= again.depth  # what was in flight waits again
    engine.close()
