"""What a wall clock that somebody sets does to messages: nothing while the server runs, to due times over a start."""

from pathlib import Path

import pytest

from queue_engine.engine.engine import Engine
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, pass_time, settle

HOUR_MS = 3_600_000


def publish_deferred(engine: Engine, clock: ManualClock) -> Client:
    """A client on a channel whose only message is due in ten seconds."""
    client = Client(engine, "orders", "printer", ready=10)
    engine.publish("orders", [b"later"], defer_ms=10_000)
    settle(engine)
    pass_time(engine, clock, 1_000)
    assert client.bodies == []
    return client


@pytest.mark.parametrize("set_back_ms", [HOUR_MS, -HOUR_MS])
def test_a_clock_that_is_set_moves_no_deferral_and_no_timeout(tmp_path: Path, set_back_ms: int) -> None:
    clock = ManualClock()
    engine = make_engine(tmp_path, clock)
    client = publish_deferred(engine, clock)
    clock.set_back(ms=set_back_ms)
    pass_time(engine, clock, 8_000)
    assert client.bodies == []
    pass_time(engine, clock, 1_001)
    assert client.bodies == [b"later"]
    clock.set_back(ms=set_back_ms)
    pass_time(engine, clock, 59_000)
    assert len(client.bodies) == 1
    pass_time(engine, clock, 1_001)
    assert [message.attempts for message in client.sink.received] == [1, 2]
    engine.close()


@pytest.mark.parametrize(("set_back_ms", "is_delivered"), [(-HOUR_MS, True), (HOUR_MS, False)])
def test_a_start_takes_due_times_by_the_wall_clock(tmp_path: Path, set_back_ms: int, is_delivered: bool) -> None:
    clock = ManualClock()
    engine = make_engine(tmp_path, clock)
    publish_deferred(engine, clock).leave()
    engine.close()
    clock.set_back(ms=set_back_ms)
    engine = make_engine(tmp_path, clock)
    again = Client(engine, "orders", "printer", ready=10)
    pass_time(engine, clock, 20_000)
    assert again.bodies == ([b"later"] if is_delivered else [])
    pass_time(engine, clock, HOUR_MS)
    assert set(again.bodies) == {b"later"}
    engine.close()
