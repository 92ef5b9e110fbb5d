"""A data directory that commit 897736b left, after a clean stop and after a kill, opens with everything in it.

The fixture was written by that commit's engine: two lives of topic `orders` (log) with channels `billing` and `mail`,
some messages finished, some given back, some deferred, a lease and a pipeline cursor, and of topic `forwarded`
(diskqueue). `expected.json` is what that commit's own engine then delivered: body and attempts, by channel.
"""

import json
from pathlib import Path

import pytest

from queue_engine.engine.acts.log_acts import log_store_of
from queue_engine.engine.engine import Engine
from queue_engine.storage.fetch.log_reader import LogReader
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, pass_time, settle
from tests.support.topology import unpack_897736b

SIZES = {"log_segment_bytes": 1 << 16, "max_msg_size": 2_000, "max_body_size": 4_000, "mem_queue_size": 3}
STATES = pytest.mark.parametrize("state", ["stopped", "killed"])


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(time_ns=1_790_000_100_000_000_000)


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    unpack_897736b(tmp_path)
    return tmp_path


def delivered(engine: Engine, clock: ManualClock, topic: str, channel: str) -> list[list[object]]:
    client = Client(engine, topic, channel, ready=1_000)
    pass_time(engine, clock, 300)
    pass_time(engine, clock, 4_000_000)  # the deferred ones
    first = {one.body.decode(): one.attempts for one in reversed(client.sink.received)}
    return sorted([body, made] for body, made in first.items())


@STATES
def test_everything_of_it_is_delivered(unpacked: Path, clock: ManualClock, state: str) -> None:
    expected = json.loads((unpacked / "expected.json").read_text())[state]
    engine = make_engine(unpacked / state, clock, **SIZES)
    log = engine._stores.log
    assert log is not None
    assert [(one.name, one.offset) for one in log.leases.all()] == [("reader", 5)]
    assert [(one.name, one.offset) for one in log.cursors.all()] == [("archive", 3)]
    found = {name: delivered(engine, clock, *name.split("/")) for name in expected}
    assert found == expected
    engine.close()


@STATES
def test_old_and_new_segments_are_one_log(unpacked: Path, clock: ManualClock, state: str) -> None:
    for life in range(3):
        engine = make_engine(unpacked / state, clock, **SIZES)
        engine.publish("orders", [b"new %d" % life])
        settle(engine)
        if life < 2:
            engine.close()
    versions = [path.read_bytes()[4] for path in sorted((unpacked / state / "log" / "segments").glob("*.log"))]
    assert versions == sorted(versions)
    assert {1, 2} == set(versions)
    log = log_store_of(engine.catalog.topic("orders"))
    page = LogReader(log).page(0, 1_000, 1 << 20)
    assert [one.body for one in page.messages[80:]] == [b"new 0", b"new 1", b"new 2"]
    engine.close()
