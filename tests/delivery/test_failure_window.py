"""The last minute of failures in a channel: who requeued and let time out how much, and which message came back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from queue_engine.delivery.failure_window import FailureWindow
from queue_engine.delivery.stats import RecentFailures
from queue_engine.engine.engine import Engine
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, settle

TIMEOUT_MS = 1_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def engine(tmp_path: Path, clock: ManualClock) -> Iterator[Engine]:
    engine = make_engine(tmp_path, clock)
    yield engine
    engine.close()


def consumer(engine: Engine, name: str, ready: int = 0) -> Client:
    client = Client(engine, "orders", "billing", msg_timeout_ms=TIMEOUT_MS)
    client.consumer.name = name
    if ready:
        client.ready(ready)
    return client


def publish(engine: Engine, count: int) -> None:
    engine.publish("orders", [b"%d" % number for number in range(count)])
    settle(engine)


def requeue(client: Client, count: int, clock: ManualClock) -> None:
    """Requeue the newest so many; they are deferred for an hour."""
    for message in client.sink.received[-count:]:
        client.channel.requeue(client.consumer, message.id, 3_600_000_000_000, clock.monotonic_ns())


def look(client: Client) -> RecentFailures:
    failures = client.channel.figures.stats().failures
    assert failures is not None
    return failures


def test_a_channel_where_nothing_fails_keeps_nothing(engine: Engine) -> None:
    client = consumer(engine, "payments-1", ready=5)
    publish(engine, 5)
    client.finish(*[message.id for message in client.sink.received])
    assert client.channel.figures.stats().failures is None


def test_it_names_who_requeued_most_and_how_many_did(engine: Engine, clock: ManualClock) -> None:
    first, second = consumer(engine, "payments-1", ready=10), consumer(engine, "payments-2", ready=10)
    publish(engine, 20)
    requeue(first, 2, clock)
    requeue(second, 8, clock)
    failures = look(first)
    assert (failures.requeued, failures.timed_out, failures.requeued_recently) == (10, 0, 10)
    most = failures.most_requeued
    assert most is not None
    assert (most.name, most.client_key, most.count, most.consumers) == ("payments-2", second.consumer.key, 8, 2)
    assert failures.most_timed_out is None


def test_a_minute_later_it_is_forgotten(engine: Engine, clock: ManualClock) -> None:
    client = consumer(engine, "payments-2", ready=4)
    publish(engine, 4)
    requeue(client, 4, clock)
    assert look(client).requeued_recently == 4
    clock.advance(ms=20_000)
    assert (look(client).requeued, look(client).requeued_recently) == (4, 0)
    clock.advance(ms=60_000)
    assert client.channel.figures.stats().failures is None


@pytest.mark.parametrize("phase_ms", [0, 1, 300, 999])
def test_a_steady_failure_counts_sixty_seconds_at_every_second(
    engine: Engine, clock: ManualClock, phase_ms: int
) -> None:
    """Sixty looks, as the rates beside it, wherever the minute begins in a bucket; and all of it is one message's."""
    one = consumer(engine, "payments-1").consumer
    window = FailureWindow(clock.time_ns)
    counts = []
    clock.advance(ms=phase_ms)
    for second in range(1, 141):
        clock.advance(ms=1_000)
        one.requeue_count += 8
        failures = window.look([one], one.requeue_count, 0, attempts_max=one.requeue_count + 1, attempts_max_id="a")
        if second > 65 and failures is not None:
            counts.append((failures.requeued, failures.repeated))
    assert counts == [(480, 480)] * 75


def test_looks_in_between_count_nothing_twice(engine: Engine, clock: ManualClock) -> None:
    """A scrape of /metrics looks, too."""
    one = consumer(engine, "payments-1").consumer
    window = FailureWindow(clock.time_ns)
    for second in range(1, 141):
        for step_ms, grown in ((990, 8), (10, 0)):
            clock.advance(ms=step_ms)
            one.requeue_count += grown
            failures = window.look([one], one.requeue_count, 0, attempts_max=9, attempts_max_id="a")
            assert second <= 65 or (failures is not None and 472 <= failures.requeued <= 488)


def test_what_a_consumer_did_before_it_left_is_still_its_own(engine: Engine, clock: ManualClock) -> None:
    client, other = consumer(engine, "payments-2", ready=4), consumer(engine, "payments-1")
    publish(engine, 4)
    requeue(client, 3, clock)
    client.leave()
    most = look(other).most_requeued
    assert most is not None
    assert (most.name, most.count) == ("payments-2", 3)


def test_what_an_operator_requeues_is_no_consumers_failure(engine: Engine) -> None:
    client = consumer(engine, "payments-1", ready=4)
    publish(engine, 4)
    client.engine.acts.requeue_channel(client.channel.topic_name, client.channel.name)
    stats = client.channel.figures.stats()
    assert (stats.requeue_count, stats.failures) == (4, None)


def test_timeouts_are_counted_apart(engine: Engine, clock: ManualClock) -> None:
    client = consumer(engine, "payments-3", ready=6)
    publish(engine, 6)
    client.ready(0)
    clock.advance(ms=TIMEOUT_MS + 1)
    client.channel.expire(clock.monotonic_ns())
    failures = look(client)
    assert (failures.requeued, failures.timed_out) == (0, 6)
    assert failures.most_timed_out is not None
    assert failures.most_timed_out.name == "payments-3"


def test_timeouts_of_a_consumer_that_has_left_are_counted_and_nobodys(engine: Engine, clock: ManualClock) -> None:
    client, other = consumer(engine, "payments-3", ready=6), consumer(engine, "payments-1")
    publish(engine, 6)
    client.channel.remove_consumer(client.consumer)
    clock.advance(ms=TIMEOUT_MS + 1)
    client.channel.expire(clock.monotonic_ns())
    failures = look(other)
    assert (failures.timed_out, failures.most_timed_out) == (6, None)


def test_one_message_that_comes_back_again_and_again_is_counted(engine: Engine, clock: ManualClock) -> None:
    client = consumer(engine, "payments-1", ready=1)
    publish(engine, 1)
    for _ in range(10):
        client.channel.requeue(client.consumer, client.sink.received[-1].id, 0, clock.monotonic_ns())
        settle(engine)
        failures = look(client)
        clock.advance(ms=1_000)
    stats = client.channel.figures.stats()
    assert (failures.requeued, stats.attempts_max) == (10, 11)
    assert failures.repeated == 9, "all but the first two deliveries, which name no message yet"


def test_many_messages_that_come_back_are_no_single_ones_fault(engine: Engine, clock: ManualClock) -> None:
    client = consumer(engine, "payments-1", ready=20)
    publish(engine, 20)
    for _ in range(6):
        for message in client.sink.received[-20:]:
            client.channel.requeue(client.consumer, message.id, 0, clock.monotonic_ns())
        settle(engine)
        failures = look(client)
        clock.advance(ms=1_000)
    assert failures.requeued == 120
    assert failures.repeated <= 6


def test_a_clock_set_back_forgets_the_minute(engine: Engine, clock: ManualClock) -> None:
    client = consumer(engine, "payments-1", ready=4)
    publish(engine, 4)
    requeue(client, 2, clock)
    look(client)
    clock.set_back(ms=3_600_000)
    assert client.channel.figures.stats().failures is None


def test_deliveries_of_one_message_are_not_counted_for_the_next(engine: Engine, clock: ManualClock) -> None:
    one = consumer(engine, "payments-1").consumer
    window = FailureWindow(clock.time_ns)

    def repeated(requeues: int, attempts: int, message_id: str) -> int:
        one.requeue_count += requeues
        failures = window.look([one], one.requeue_count, 0, attempts_max=attempts, attempts_max_id=message_id)
        assert failures is not None
        clock.advance(ms=6_000)
        return failures.repeated

    assert repeated(1, 90, "a") == 1
    assert repeated(2, 92, "a") == 3
    assert repeated(4, 5, "b") == 3, "a was finished, and b may have come back three times since it is named"
    assert repeated(1, 6, "b") == 4
