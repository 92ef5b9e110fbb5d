"""What consumers of the log hold costs no memory but their ids: the bodies are read again where they are needed."""

from pathlib import Path

import pytest

from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, pass_time, settle

BODY = b"x" * 10_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_messages_in_flight_keep_no_bodies_and_come_again_whole(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock, max_in_flight_bytes=0)
    client = Client(engine, "orders", "billing", ready=100)
    engine.publish("orders", [BODY + b"%d" % number for number in range(10)])
    settle(engine)
    assert len(client.bodies) == 10
    assert sum(len(delivery.run.frames) for delivery in client.channel._in_flight.deliveries()) == 0
    listed = engine.stats.in_flight("orders", "billing")
    assert [(one.body_bytes, one.attempts) for one in listed] == [(len(BODY) + 1, 1)] * 10
    assert {one.published_at_ns for one in listed} == {client.sink.received[0].timestamp_ns}
    client.channel.touch(client.consumer, client.sink.received[3].id, clock.monotonic_ns() + 10_000_000_000)
    client.finish(client.sink.received[5].id)
    pass_time(engine, clock, 60_001)
    assert [(one.attempts, one.body) for one in client.sink.received[10:]] == [
        (2, BODY + b"%d" % number) for number in range(10) if number not in (3, 5)
    ]
    assert {one.attempts for one in engine.stats.in_flight("orders", "billing")} == {1, 2}


def test_runs_of_several_publishes_keep_their_times_and_latencies(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock)
    client = Client(engine, "orders", "billing")
    for _ in range(4):
        engine.publish("orders", [b"body"] * 30)
        settle(engine)
        clock.advance(ms=1_000)
    client.ready(2_500)
    assert len(client.sink.runs) == 1
    received = client.sink.received
    client.finish(*[one.id for one in received if one not in received[10:110:10]])
    pass_time(engine, clock, 5_000)  # what is finished is let go of
    (delivery,) = client.channel._in_flight.deliveries()
    assert delivery.run.ids == [one.id for one in received[10:110:10]]
    assert [one.published_at_ns for one in engine.stats.in_flight("orders", "billing")] == [
        one.timestamp_ns for one in received[10:110:10]
    ]
    client.finish(*delivery.run.ids)
    assert sum(client.channel.figures.stats().latency.values()) == 120


def test_a_channel_keeps_no_batch_that_the_cache_let_go(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock, log_cache_bytes=0)
    clients = [Client(engine, "orders", f"c{number}", ready=number + 1) for number in range(5)]
    engine.publish("orders", [BODY] * 50)
    engine.publish("letters", [BODY])
    settle(engine)
    assert [len(client.bodies) for client in clients] == [1, 2, 3, 4, 5]
    assert [client.channel.backlog._batch for client in clients] == [None] * 5
    for client in clients:
        client.ready(100)
        assert client.bodies == [BODY] * 50
