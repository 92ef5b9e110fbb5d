"""What a restart keeps: everything after a clean stop, everything that was on disk after a kill."""

from pathlib import Path

import pytest

from queue_engine.engine.engine import Engine
from queue_engine.storage.disk.background import Backgrounds, InlineBackground
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles
from tests.support.engine import Client, make_engine, pass_time, settle
from tests.support.storage_kinds import engine_options


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def publish(engine: Engine, topic: str, *bodies: bytes, defer_ms: int = 0) -> None:
    ticket = engine.publish(topic, list(bodies), defer_ms=defer_ms)
    settle(engine)
    assert ticket.done
    assert ticket.error is None


def test_what_waits_at_a_topic_goes_to_its_channel_over_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    """nsqd's TestStartup: 300 messages, 100 of them in memory; half is read before the restart, half after."""
    engine = make_engine(tmp_path, clock, mem_queue_size=100)
    bodies = [b"%d" % number for number in range(300)]
    for body in bodies:
        publish(engine, "orders", body)
    assert (engine.catalog.topic("orders").store.depth, engine.catalog.topic("orders").store.backend_depth) == (
        300,
        200,
    )
    client = Client(engine, "orders", "ch1", ready=150)
    first = client.bodies
    assert len(first) == 150
    client.finish(*[message.id for message in client.sink.received[:150]])
    client.ready(0)
    read = {message.body for message in client.sink.received}
    client.leave()
    finished = set(first)
    engine.close()

    engine = make_engine(tmp_path, clock, mem_queue_size=100)
    settle(engine)
    assert (engine.catalog.topic("orders").store.depth, engine.catalog.channel("orders", "ch1").backlog.depth) == (
        0,
        150,
    )
    again = Client(engine, "orders", "ch1", ready=300)
    assert set(again.bodies) == set(bodies) - finished
    # What had been handed out and not finished says so.
    assert {m.attempts for m in again.sink.received if m.body in read} <= {2}
    again.finish(*[message.id for message in again.sink.received])
    assert engine.catalog.channel("orders", "ch1").backlog.depth == 0
    engine.close()
    engine = make_engine(tmp_path, clock, mem_queue_size=100)
    assert engine.catalog.channel("orders", "ch1").backlog.depth == 0


def test_paused_is_paused_after_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock)
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    engine.acts.pause_topic("orders")
    engine.acts.pause_channel("orders", "billing")
    publish(engine, "orders", b"a")
    engine.close()
    engine = make_engine(tmp_path, clock)
    client = Client(engine, "orders", "billing", ready=1)
    assert (engine.catalog.topic("orders").store.depth, client.channel.backlog.depth, client.bodies) == (1, 0, [])
    engine.acts.unpause_topic("orders")
    settle(engine)
    assert (engine.catalog.topic("orders").store.depth, client.channel.backlog.depth, client.bodies) == (0, 1, [])
    engine.acts.unpause_channel("orders", "billing")
    settle(engine)
    assert client.bodies == [b"a"]


@pytest.mark.parametrize("mem_queue_size", [0, 2, 10_000])
def test_what_was_in_flight_or_deferred_comes_again_with_its_attempts(
    tmp_path: Path, clock: ManualClock, mem_queue_size: int
) -> None:
    engine = make_engine(tmp_path, clock, mem_queue_size=mem_queue_size)
    client = Client(engine, "orders", "billing", ready=2)
    publish(engine, "orders", b"held", b"deferred", b"waits")
    held, deferred = client.sink.received
    client.ready(1)
    client.channel.requeue(client.consumer, deferred.id, 60_000 * 10**6, clock.monotonic_ns())
    client.channel.requeue(client.consumer, held.id, 0, clock.monotonic_ns())
    settle(engine)
    publish(engine, "orders", b"published later", defer_ms=60_000)
    client.leave()
    engine.close()
    clock.advance(ms=2)
    engine = make_engine(tmp_path, clock, mem_queue_size=mem_queue_size)
    again = Client(engine, "orders", "billing", ready=10)
    came = {message.body: message for message in again.sink.received}
    assert came.keys() == {b"held", b"deferred", b"waits", b"published later"}
    assert (came[b"held"].id, came[b"deferred"].id) == (held.id, deferred.id)
    assert came[b"held"].timestamp_ns == held.timestamp_ns
    assert came[b"deferred"].attempts == 2
    assert came[b"held"].attempts + came[b"waits"].attempts == 4  # one of them was handed out a second time
    assert came[b"published later"].attempts == 1


def test_ids_after_a_restart_are_new(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock)
    publish(engine, "orders", *[b"old"] * 100)
    engine.close()
    clock.advance(ms=2)
    engine = make_engine(tmp_path, clock)
    client = Client(engine, "orders", "billing", ready=1_000)
    publish(engine, "orders", *[b"new"] * 100)
    assert len({message.id for message in client.sink.received}) == 200


def test_a_message_larger_than_is_allowed_now_is_kept_over_a_stop(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock, max_msg_size=10_000)
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    publish(engine, "orders", b"a", b"x" * 5_000, b"z")
    engine.close()
    clock.advance(ms=2)
    engine = make_engine(tmp_path, clock, max_msg_size=1_000)
    client = Client(engine, "orders", "billing", ready=10)
    assert len(client.bodies) == 3
    client.leave()
    engine.close()
    clock.advance(ms=2)
    engine = make_engine(tmp_path, clock, max_msg_size=1_000)
    assert sorted(map(len, Client(engine, "orders", "billing", ready=10).bodies)) == [1, 1, 5_000]


def test_a_kill_loses_what_was_in_memory_and_nothing_else(tmp_path: Path, clock: ManualClock) -> None:
    files = FaultyFiles()
    options = engine_options(data_path=str(tmp_path), mem_queue_size=10)
    engine = Engine(options, clock=clock, files=files, backgrounds=Backgrounds.of(InlineBackground()))
    engine.open()
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    for number in range(30):
        publish(engine, "orders", b"%d" % number)
    assert engine.catalog.channel("orders", "billing").backlog.backend_depth == 20
    files.abandon()

    clock.advance(ms=2)
    engine = make_engine(tmp_path, clock, mem_queue_size=10)
    client = Client(engine, "orders", "billing", ready=100)
    assert client.bodies == [b"%d" % number for number in range(10, 30)]


def test_a_kill_may_bring_messages_again_but_loses_none_that_was_on_disk(tmp_path: Path, clock: ManualClock) -> None:
    files = FaultyFiles()
    options = engine_options(data_path=str(tmp_path), mem_queue_size=0)
    engine = Engine(options, clock=clock, files=files, backgrounds=Backgrounds.of(InlineBackground()))
    engine.open()
    client = Client(engine, "orders", "billing", ready=3)
    publish(engine, "orders", *[b"%d" % number for number in range(10)])
    client.finish(client.sink.received[0].id)
    pass_time(engine, clock, 3_000)  # synced with what was read by then
    files.abandon()

    engine = make_engine(tmp_path, clock, mem_queue_size=0)
    again = Client(engine, "orders", "billing", ready=100)
    # In flight is memory, as nsqd's: what was taken from the files before the sync is gone with the process.
    assert set(again.bodies) == {b"%d" % number for number in range(4, 10)}
