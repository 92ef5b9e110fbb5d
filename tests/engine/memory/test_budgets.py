"""Each budget of memory, with sizes around it: what it holds back, what goes on, and that it counts back to nothing."""

from pathlib import Path

import pytest

from queue_engine.engine.engine import Engine
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, pass_time, settle

# Each goes to a consumer by itself: a run has at most RUN_BYTES_MAX.
BODY = b"x" * 50_000
FRAME_BYTES = 34 + len(BODY)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def publish(engine: Engine, count: int, topic: str = "orders") -> None:
    for _ in range(count):
        engine.publish(topic, [BODY])
        settle(engine)


def held_back(client: Client) -> str:
    return client.channel.figures.stats().held_back


# What consumers hold.


@pytest.mark.parametrize("fits", [1, 3])
@pytest.mark.parametrize("spare_bytes", [-1, 0, 1])
def test_a_channel_waits_for_fin_when_what_is_in_flight_takes_too_much_memory(
    tmp_path: Path, clock: ManualClock, fits: int, spare_bytes: int
) -> None:
    engine = make_engine(
        tmp_path,
        clock,
        max_in_flight_bytes=fits * FRAME_BYTES + spare_bytes,
        msg_timeout_ms=60_000,
    )
    client = Client(engine, "orders", "billing", ready=100)
    publish(engine, 10)
    # The one that reaches the limit is sent as well: a budget is never too small for any message.
    in_flight = fits + (spare_bytes > 0)
    assert len(client.bodies) == in_flight
    assert "--max-in-flight-bytes" in held_back(client)
    client.finish(client.sink.received[0].id)
    assert len(client.bodies) == in_flight + 1
    for _ in range(20):
        client.finish(*[one.id for one in client.sink.received[-in_flight:] if one.id in client.channel._in_flight])
    assert len(client.bodies) == 10
    assert held_back(client) == ""


def test_another_channel_goes_on_and_one_that_waits_goes_on_when_the_other_leaves(
    tmp_path: Path, clock: ManualClock
) -> None:
    engine = make_engine(tmp_path, clock, max_in_flight_bytes=3 * FRAME_BYTES)
    greedy = Client(engine, "orders", "billing", ready=100)
    modest = Client(engine, "letters", "post", ready=100)
    publish(engine, 5)
    publish(engine, 2, "letters")
    # Something of each channel is always in flight.
    assert (len(greedy.bodies), len(modest.bodies)) == (3, 1)
    greedy.leave()
    assert len(modest.bodies) == 2


def test_a_touched_message_does_not_keep_its_run(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock)
    client = Client(engine, "orders", "billing", ready=100)
    engine.publish("orders", [b"x" * 100] * 6)
    settle(engine)
    first, *others = [one.id for one in client.sink.received]
    client.channel.touch(client.consumer, first, clock.monotonic_ns())
    client.finish(*others)
    assert engine._stores.budgets.in_flight.used == 134
    client.finish(first)
    assert engine._stores.budgets.in_flight.used == 0


@pytest.mark.parametrize("end", ["finish", "requeue", "time out", "leave", "empty", "delete"])
def test_the_budget_counts_back_to_nothing(tmp_path: Path, clock: ManualClock, end: str) -> None:
    engine = make_engine(tmp_path, clock)
    client = Client(engine, "orders", "billing", ready=100)
    publish(engine, 7)
    budget = engine._stores.budgets.in_flight
    assert budget.used == 7 * FRAME_BYTES
    client.ready(0)
    ids = [one.id for one in client.sink.received]
    if end == "finish":
        client.finish(*ids)
    elif end == "requeue":
        for one in ids:
            client.channel.requeue(client.consumer, one, 0, clock.monotonic_ns())
    elif end == "time out":
        pass_time(engine, clock, 60_001)
    elif end == "leave":
        client.leave()
    elif end == "empty":
        engine.acts.empty_channel("orders", "billing")
    else:
        engine.acts.delete_channel("orders", "billing")
    assert budget.used == 0


# What waits in memory queues. A message there costs its frame and MESSAGE_COST_BYTES.

COST_BYTES = FRAME_BYTES + 100


@pytest.mark.parametrize("spare_bytes", [-1, 0, 1])
@pytest.mark.parametrize("option", ["mem_queue_bytes", "mem_queue_total_bytes"])
def test_what_exceeds_a_memory_queue_s_bytes_goes_to_disk(
    tmp_path: Path, clock: ManualClock, option: str, spare_bytes: int
) -> None:
    engine = make_engine(tmp_path, clock, **{option: 3 * COST_BYTES + spare_bytes})
    client = Client(engine, "orders", "billing")
    publish(engine, 5)
    stats = client.channel.figures.stats()
    assert (stats.depth, stats.backend_depth) == (5, 2 + (spare_bytes < 0))
    client.ready(5)
    assert len(client.bodies) == 5
    assert engine._stores.budgets.queues.used == 0


def test_all_queues_together_have_one_limit(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock, mem_queue_total_bytes=3 * COST_BYTES)
    clients = [Client(engine, "orders", f"c{number}") for number in range(5)]
    publish(engine, 2)
    in_memory = sum(
        client.channel.figures.stats().depth - client.channel.figures.stats().backend_depth for client in clients
    )
    assert (in_memory, engine._stores.budgets.queues.used) == (3, 3 * COST_BYTES)
    for client in clients:
        client.ready(10)
        assert len(client.bodies) == 2
    assert engine._stores.budgets.queues.used == 0


def test_what_comes_back_counts_and_goes_to_disk_beyond_the_limit(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock, mem_queue_bytes=2 * COST_BYTES)
    client = Client(engine, "orders", "billing", ready=10)
    publish(engine, 6)
    assert len(client.bodies) == 6
    client.ready(0)
    client.leave()
    stats = client.channel.figures.stats()
    assert stats.depth == 6
    assert stats.depth - stats.backend_depth <= 4, "as much came back as may wait, and as much waits"
    again = Client(engine, "orders", "billing", ready=10)
    assert [one.attempts for one in again.sink.received] == [2] * 6


@pytest.mark.parametrize("fits", [0, 1, 3])
def test_an_ephemeral_topic_drops_what_exceeds_its_bytes_and_counts_it(
    tmp_path: Path, clock: ManualClock, fits: int
) -> None:
    engine = make_engine(tmp_path, clock, mem_queue_bytes=fits * COST_BYTES + 50)
    client = Client(engine, "orders#ephemeral", "billing#ephemeral")
    engine.publish("orders#ephemeral", [BODY] * 2)
    settle(engine)
    publish(engine, 3, "orders#ephemeral")
    stats = client.channel.figures.stats()
    assert (stats.depth, stats.dropped_count, stats.message_count) == (fits, 5 - fits, 5)
    client.ready(10)
    assert len(client.bodies) == fits
    assert engine._stores.budgets.queues.used == 0


def test_an_ephemeral_topic_without_channels_drops_and_counts_too(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock, mem_queue_size=2)
    client = Client(engine, "orders#ephemeral", "billing")
    engine.acts.pause_topic("orders#ephemeral")
    publish(engine, 5, "orders#ephemeral")
    (topic,) = engine.stats.now(include_clients=False).topics
    assert (topic.depth, topic.dropped_count) == (2, 3)
    engine.acts.unpause_topic("orders#ephemeral")
    client.ready(5)
    assert len(client.bodies) == 2


@pytest.mark.parametrize("end", ["empty", "delete channel", "delete topic", "empty topic"])
def test_the_queues_budget_counts_back_to_nothing(tmp_path: Path, clock: ManualClock, end: str) -> None:
    engine = make_engine(tmp_path, clock)
    client = Client(engine, "orders", "billing", ready=2)
    publish(engine, 7)
    client.leave()
    engine.acts.pause_topic("orders")
    publish(engine, 2)
    budget = engine._stores.budgets.queues
    assert budget.used == 9 * COST_BYTES
    if end == "empty":
        engine.acts.empty_channel("orders", "billing")
        assert budget.used == 2 * COST_BYTES
    elif end == "delete channel":
        engine.acts.delete_channel("orders", "billing")
        assert budget.used == 2 * COST_BYTES
    elif end == "empty topic":
        engine.acts.empty_topic("orders", channels_too=True)
        assert budget.used == 0
    else:
        engine.acts.delete_topic("orders")
        assert budget.used == 0


def test_a_large_batch_is_counted_until_its_last_message_is_taken(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock)
    client = Client(engine, "orders", "billing", ready=1)
    engine.publish("orders", [b"x" * 1_000] * 50)
    settle(engine)
    budget = engine._stores.budgets.queues
    assert budget.used == 50 * (1_034 + 100), "its first message is out, and the batch is one buffer"
    client.ready(49)
    assert budget.used == 50 * (1_034 + 100)
    client.ready(50)
    assert budget.used == 0
