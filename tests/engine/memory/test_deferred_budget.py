"""Deferred messages have a budget: DPUB is refused beyond it, REQ never; then the channel waits for some to be due."""

from pathlib import Path

import pytest

from queue_engine.engine.engine import Engine
from queue_engine.vocabulary.clock import NS_PER_S
from queue_engine.vocabulary.errors import LimitError
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, pass_time, settle

BODY = b"x" * 10_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def cost_of_one(storage_kind: str) -> int:
    """A deferred message of BODY costs its frame on `diskqueue`, and an offset in the log."""
    return 256 if storage_kind == "log" else 34 + len(BODY) + 100


def publish(engine: Engine, count: int, *, defer_ms: int = 0, topic: str = "orders") -> None:
    for _ in range(count):
        engine.publish(topic, [BODY], defer_ms=defer_ms)
        settle(engine)


def requeue_all(client: Client, clock: ManualClock, delay_s: int) -> None:
    for one in client.sink.received:
        if one.id in client.channel._in_flight:
            client.channel.requeue(client.consumer, one.id, delay_s * NS_PER_S, clock.monotonic_ns())
    settle(client.engine)


@pytest.mark.parametrize("spare_bytes", [-1, 0, 1])
def test_a_deferred_publish_beyond_the_bytes_is_refused_with_the_limit(
    tmp_path: Path, clock: ManualClock, storage_kind: str, spare_bytes: int
) -> None:
    limit = 3 * cost_of_one(storage_kind) + spare_bytes
    engine = make_engine(tmp_path, clock, max_deferred_bytes=limit)
    client = Client(engine, "orders", "billing", ready=10)
    fits = 3 - (spare_bytes < 0)
    publish(engine, fits, defer_ms=1_000)
    with pytest.raises(LimitError, match=rf"orders.*{limit} \(--max-deferred-bytes\); the message is not taken"):
        engine.publish("orders", [BODY], defer_ms=1_000)
    publish(engine, 1)
    assert len(client.bodies) == 1, "what was published so holds nothing else back"
    pass_time(engine, clock, 1_000)
    assert len(client.bodies) == 1 + fits
    publish(engine, fits, defer_ms=1_000)


def test_deferred_publishes_that_are_not_stored_yet_count(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock, max_deferred_per_channel=3)
    Client(engine, "orders", "billing", ready=10)
    tickets = [engine.publish("orders", [BODY], defer_ms=1_000) for _ in range(3)]
    with pytest.raises(LimitError, match="--max-deferred-per-channel"):
        engine.publish("orders", [BODY], defer_ms=1_000)
    settle(engine)
    assert [ticket.done for ticket in tickets] == [True] * 3
    assert engine.catalog.topic("orders").channels["billing"].backlog.deferred_count == 3


@pytest.mark.parametrize("limit", ["bytes", "count"])
def test_req_is_never_refused_and_then_nothing_is_delivered_until_some_are_due(
    tmp_path: Path, clock: ManualClock, storage_kind: str, limit: str
) -> None:
    options = {"max_deferred_bytes": 2 * cost_of_one(storage_kind)} if limit == "bytes" else {}
    if limit == "count":
        options["max_deferred_per_channel"] = 2
    engine = make_engine(tmp_path, clock, **options)
    client = Client(engine, "orders", "billing", ready=5)
    publish(engine, 9)
    assert len(client.bodies) == 5
    requeue_all(client, clock, 10)
    stats = client.channel.figures.stats()
    assert (stats.deferred_count, stats.in_flight_count, stats.depth) == (5, 0, 4)
    assert "nothing is delivered until some are due" in stats.held_back
    assert ("--max-deferred-bytes" if limit == "bytes" else "--max-deferred-per-channel") in stats.held_back
    assert len(client.bodies) == 5
    pass_time(engine, clock, 9_999)
    assert len(client.bodies) == 5
    pass_time(engine, clock, 1)
    assert len(client.bodies) == 10
    assert client.channel.figures.stats().held_back == ""


def test_a_channel_within_the_limits_goes_on_beside_one_that_is_not(
    tmp_path: Path, clock: ManualClock, storage_kind: str
) -> None:
    engine = make_engine(tmp_path, clock, max_deferred_bytes=2 * cost_of_one(storage_kind))
    greedy = Client(engine, "orders", "billing", ready=5)
    modest = Client(engine, "letters", "post", ready=5)
    publish(engine, 9)
    requeue_all(greedy, clock, 10)
    publish(engine, 2, topic="letters")
    assert len(modest.bodies) == 2
    with pytest.raises(LimitError, match="letters"):
        engine.publish("letters", [BODY], defer_ms=1_000)
    # One deferred of its own, and it has a share in that there is no room.
    modest.channel.requeue(modest.consumer, modest.sink.received[0].id, 3_600 * NS_PER_S, clock.monotonic_ns())
    publish(engine, 1, topic="letters")
    assert len(modest.bodies) == 2
    engine.acts.empty_channel("orders", "billing")
    settle(engine)
    assert len(modest.bodies) == 3, "the other one's room is its own now"


@pytest.mark.parametrize("end", ["due", "release", "empty", "delete"])
def test_the_budget_counts_back_to_nothing(tmp_path: Path, clock: ManualClock, storage_kind: str, end: str) -> None:
    engine = make_engine(tmp_path, clock)
    client = Client(engine, "orders", "billing", ready=3)
    publish(engine, 3)
    requeue_all(client, clock, 10)
    publish(engine, 4, defer_ms=10_000)
    budget = engine._stores.budgets.deferred
    assert budget.used == 7 * cost_of_one(storage_kind)
    if end == "due":
        pass_time(engine, clock, 10_000)
    elif end == "release":
        engine.acts.release_deferred("orders", "billing")
    elif end == "empty":
        engine.acts.empty_channel("orders", "billing")
    else:
        engine.acts.delete_channel("orders", "billing")
    assert budget.used == 0


def test_what_a_restart_finds_deferred_counts(tmp_path: Path, clock: ManualClock, storage_kind: str) -> None:
    engine = make_engine(tmp_path, clock)
    Client(engine, "orders", "billing")
    publish(engine, 4, defer_ms=10_000)
    engine.close()
    clock.advance(ms=10)  # ids go by the clock
    engine = make_engine(tmp_path, clock, max_deferred_per_channel=2)
    deferred = 4 if storage_kind == "log" else 0  # a disk queue's come at once after a restart
    assert engine._stores.budgets.deferred.used == deferred * 256
    client = Client(engine, "orders", "billing", ready=10)
    publish(engine, 1)
    # More than the limit allows now: as after REQ, the channel waits for them.
    assert len(client.bodies) == (0 if deferred else 5)
    pass_time(engine, clock, 10_000)
    assert len(client.bodies) == 5
