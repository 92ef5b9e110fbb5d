"""A full disk: publishes to the log are refused and say why, everything that helps goes on, and so does the log."""

from pathlib import Path

import pytest

from queue_engine.errors import StorageError
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, pass_time, settle
from tests.support.files import FaultyFiles

MIB = 1 << 20


def test_the_space_is_made_by_the_acts_of_operators_alone(tmp_path: Path) -> None:
    files, clock = FaultyFiles(), ManualClock()
    engine = make_engine(
        tmp_path, clock, files=files, log_segment_bytes=MIB, max_body_size=MIB // 16, max_msg_size=MIB // 16
    )
    engine.create_topic("orders")
    engine.create_channel("orders", "billing")
    engine.create_channel("orders", "archive")
    pass_time(engine, clock, 3_000)
    files.bytes_free = 12 * MIB
    taken = 0
    for _ in range(1_000):
        ticket = engine.publish("orders", [b"x" * 50_000])
        settle(engine)
        if ticket.error is not None:
            break
        taken += 1
    assert isinstance(ticket.error, StorageError)
    assert "no room" in str(ticket.error)
    assert engine.health.startswith("NOK - ")
    assert 100 < taken < 1_000
    pass_time(engine, clock, 100)
    # What is there is delivered and finished, and operators can act.
    client = Client(engine, "orders", "billing", ready=5)
    assert client.finish(*[one.id for one in client.sink.received]) == []
    for act in ("pause_channel", "unpause_channel"):
        assert getattr(engine, act)("orders", "archive")[1].error is None
    engine.publish("orders", [b"no"])
    settle(engine)
    assert engine.channel("orders", "archive").backlog.depth == taken
    client.leave()
    for channel in ("billing", "archive"):
        assert engine.empty_channel("orders", channel)[1].error is None
    for _ in range(5):
        pass_time(engine, clock, 1_000)
    ticket = engine.publish("orders", [b"goes on"])
    settle(engine)
    assert ticket.error is None
    assert engine.health == "OK"
    files.bytes_free = None
    engine.close()
    again = make_engine(tmp_path, clock)
    assert Client(again, "orders", "archive", ready=10).bodies == [b"goes on"]


def test_after_a_fault_of_the_disk_the_log_takes_nothing_and_gives_what_it_has(tmp_path: Path) -> None:
    files, clock = FaultyFiles(), ManualClock()
    engine = make_engine(tmp_path, clock, files=files)
    engine.create_topic("orders")
    engine.create_channel("orders", "billing")
    engine.publish("orders", [b"kept"])
    settle(engine)
    files.fail("sync_data")
    ticket = engine.publish("orders", [b"refused"])
    settle(engine)
    assert isinstance(ticket.error, StorageError)
    assert "until the next start" in engine.health
    later = engine.publish("orders", [b"refused, too"])
    settle(engine)
    assert later.error is not None
    assert Client(engine, "orders", "billing", ready=10).bodies == [b"kept"]
    with pytest.raises(StorageError):
        engine.close()
    files.abandon()
    again = make_engine(tmp_path, clock)
    # What was refused may have come to the disk all the same: the system only said that it does not know.
    assert Client(again, "orders", "billing", ready=10).bodies in ([b"kept"], [b"kept", b"refused"])
