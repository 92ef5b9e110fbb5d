"""The oldest unfinished message of a channel: waiting, in flight, or deferred and due. Its age does not jump."""

import gc
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from queue_engine.delivery.stats import ChannelStats
from queue_engine.engine.acts.log_acts import Target
from queue_engine.engine.engine import Engine
from queue_engine.vocabulary.clock import NS_PER_MS
from tests.support.clock import ManualClock
from tests.support.engine import Client, Received, make_engine, pass_time, settle


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


class Channel:
    """orders/billing, and how old its oldest message is said to be."""

    def __init__(self, path: Path, clock: ManualClock, **options: object) -> None:
        self.clock = clock
        self.engine: Engine = make_engine(path, clock, **options)
        self.client = Client(self.engine, "orders", "billing", ready=0)

    def publish(self, *bodies: bytes, defer_ms: int = 0) -> None:
        self.engine.publish("orders", list(bodies), defer_ms=defer_ms)
        settle(self.engine)

    def receive(self, count: int = 1) -> list[Received]:
        """Let the consumer have so many more."""
        before = len(self.client.sink.received)
        self.client.ready(self.client.consumer.in_flight_count + count)
        self.client.ready(0)
        return self.client.sink.received[before:]

    def requeue(self, message: Received, delay_ms: int = 0) -> None:
        self.client.channel.requeue(self.client.consumer, message.id, delay_ms * NS_PER_MS, self.clock.monotonic_ns())
        settle(self.engine)

    @property
    def stats(self) -> ChannelStats:
        return self.client.channel.figures.stats()

    @property
    def age_ms(self) -> float | None:
        oldest_ns = self.stats.oldest_ns
        return None if oldest_ns is None else (self.clock.time_ns() - oldest_ns) / NS_PER_MS

    def wait(self, ms: int) -> None:
        pass_time(self.engine, self.clock, ms)


def test_a_message_in_flight_is_the_oldest_until_it_is_finished(tmp_path: Path, clock: ManualClock) -> None:
    channel = Channel(tmp_path, clock)
    assert channel.age_ms is None
    channel.publish(b"old")
    channel.wait(10_000)
    channel.publish(b"young")
    (old,) = channel.receive()
    assert (old.body, channel.age_ms) == (b"old", 10_000)
    channel.client.finish(old.id)
    assert channel.age_ms == 0
    (young,) = channel.receive()
    channel.wait(500)
    assert channel.age_ms == 500
    channel.client.finish(young.id)
    assert channel.age_ms is None


def test_its_age_does_not_jump_while_messages_go_round(tmp_path: Path, clock: ManualClock) -> None:
    """The head of the queue is another message each time; the oldest is not."""
    channel = Channel(tmp_path, clock, mem_queue_size=3)
    for _ in range(10):
        channel.publish(b"x")
        channel.wait(1_000)
    ages = []
    for _ in range(25):
        (message,) = channel.receive()
        ages.append(channel.age_ms)
        channel.requeue(message)
        ages.append(channel.age_ms)
    assert set(ages) == {10_000}


def test_what_is_not_due_does_not_count_and_then_its_age_runs_from_its_due_time(
    tmp_path: Path, clock: ManualClock
) -> None:
    channel = Channel(tmp_path, clock)
    channel.publish(b"later", defer_ms=60_000)
    channel.wait(59_000)
    assert (channel.stats.deferred_count, channel.age_ms) == (1, None)
    channel.wait(4_000)
    assert channel.age_ms == 3_000
    (later,) = channel.receive()
    channel.wait(1_000)
    assert channel.age_ms == 4_000
    channel.requeue(later)
    assert channel.age_ms == 4_000
    (later,) = channel.receive()
    channel.requeue(later, delay_ms=5_000)
    assert channel.age_ms is None
    channel.wait(7_000)
    assert channel.age_ms == 2_000
    channel.client.finish(channel.receive()[0].id)
    assert channel.age_ms is None


def test_what_an_operator_releases_is_due_now(tmp_path: Path, clock: ManualClock) -> None:
    channel = Channel(tmp_path, clock)
    channel.publish(b"later", defer_ms=60_000)
    channel.wait(10_000)
    channel.engine.acts.release_deferred("orders", "billing")
    channel.wait(2_000)
    assert channel.age_ms == 2_000
    channel.receive()
    channel.wait(1_000)
    assert channel.age_ms == 3_000


def test_a_younger_message_counts_while_an_older_one_is_deferred(tmp_path: Path, clock: ManualClock) -> None:
    channel = Channel(tmp_path, clock)
    channel.publish(b"old")
    channel.wait(10_000)
    channel.publish(b"young")
    (old,) = channel.receive()
    channel.requeue(old, delay_ms=30_000)
    channel.wait(1_000)
    assert channel.age_ms == 1_000


def test_what_waits_at_a_topic_counts_from_when_it_is_due(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock)
    ages = []
    for defer_ms in (2_000, 0):
        engine.publish("orders", [b"x"], defer_ms=defer_ms)
        settle(engine)
        for _ in range(2):
            pass_time(engine, clock, 1_500)
            oldest_ns = engine.topics["orders"].store.oldest_ns()
            ages.append(None if oldest_ns is None else (clock.time_ns() - oldest_ns) / NS_PER_MS)
    assert ages == [None, 1_000, 2_500, 4_000]
    Client(engine, "orders", "billing", ready=1)
    assert engine.topics["orders"].store.oldest_ns() is None


def test_what_an_ephemeral_channel_dropped_is_not_old(tmp_path: Path, clock: ManualClock) -> None:
    channel = Channel(tmp_path, clock, mem_queue_size=3)
    channel.client.leave()
    channel.client = Client(channel.engine, "orders", "tail#ephemeral", ready=0)
    channel.publish(b"0")
    (held,) = channel.receive()
    for number in range(1, 8):
        channel.wait(1_000)
        channel.publish(b"%d" % number)
    assert (channel.stats.depth, channel.stats.dropped_count, channel.age_ms) == (3, 4, 7_000)
    channel.client.finish(held.id)
    left = b"5" if channel.engine.catalog.topic("orders").store.kind == "log" else b"1"
    (oldest,) = channel.receive()
    assert (oldest.body, channel.age_ms) == (left, (7 - int(left)) * 1_000)


def test_emptied_nothing_is_old(tmp_path: Path, clock: ManualClock) -> None:
    channel = Channel(tmp_path, clock)
    channel.publish(b"a", b"b", b"c")
    channel.publish(b"d", defer_ms=1_000)
    channel.wait(5_000)
    channel.receive(2)
    channel.engine.acts.empty_channel("orders", "billing")
    settle(channel.engine)
    assert (channel.age_ms, channel.stats.attempts_max) == (None, 0)
    channel.publish(b"e")
    assert channel.age_ms == 0


def test_a_restart_keeps_ages(tmp_path: Path, clock: ManualClock) -> None:
    channel = Channel(tmp_path, clock)
    channel.publish(b"first")
    channel.wait(1_000)
    channel.publish(b"second", defer_ms=2_000)
    channel.publish(b"third")
    channel.wait(3_000)
    third = next(one for one in channel.receive(3) if one.body == b"third")
    channel.requeue(third, delay_ms=500)
    channel.wait(1_500)
    channel.engine.close()
    again = Channel(tmp_path, clock)
    ages = [again.age_ms]
    for message in sorted(again.receive(3), key=lambda one: one.timestamp_ns)[:2]:
        again.client.finish(message.id)
        ages.append(again.age_ms)
    assert ages == [5_500, 2_500, 1_000]


@pytest.mark.parametrize("mem_queue_size", [0, 3, 1_000])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_oldest_whatever_happens(tmp_path: Path, clock: ManualClock, seed: int, mem_queue_size: int) -> None:
    """Compared with a list of all messages."""
    rng = random.Random(seed)
    channel = Channel(tmp_path, clock, mem_queue_size=mem_queue_size)
    since: dict[bytes, int] = {}  # body → from when its age runs; until it is due, that is in the future
    held: dict[bytes, Received] = {}
    number = 0
    for _ in range(200):
        act = rng.choice(["publish", "publish", "defer", "receive", "receive", "finish", "requeue", "later", "wait"])
        if act in ("publish", "defer"):
            bodies = [b"%d" % (number + index) for index in range(rng.randrange(1, 4))]
            number += len(bodies)
            defer_ms = rng.randrange(1, 3_000) if act == "defer" else 0
            channel.publish(*bodies, defer_ms=defer_ms)
            since.update(dict.fromkeys(bodies, clock.time_ns() + defer_ms * NS_PER_MS))
        elif act == "receive":
            held.update((one.body, one) for one in channel.receive(rng.randrange(1, 6)))
        elif act == "wait":
            channel.wait(rng.randrange(1, 1_500))
        elif held:
            message = held.pop(rng.choice(sorted(held)))
            if act == "finish":
                channel.client.finish(message.id)
                del since[message.body]
            elif act == "requeue":
                channel.requeue(message)
            else:
                delay_ms = rng.randrange(1, 3_000)
                channel.requeue(message, delay_ms=delay_ms)
                since[message.body] = clock.time_ns() + delay_ms * NS_PER_MS
        due = [time_ns for time_ns in since.values() if time_ns <= clock.time_ns()]
        assert channel.stats.oldest_ns == min(due, default=None), act


def test_a_channel_that_was_moved_back_is_as_old_as_what_it_delivers_again(tmp_path: Path, clock: ManualClock) -> None:
    channel = Channel(tmp_path, clock)
    channel.publish(b"deferred", defer_ms=500)
    channel.wait(1_000)
    channel.publish(b"a")
    channel.client.finish(*[one.id for one in channel.receive(2)])
    assert channel.age_ms is None
    channel.engine.acts.rewind_channel("orders", "billing", target=Target(offset=0))
    settle(channel.engine)
    channel.wait(1_000)
    assert channel.age_ms == 1_500
    deferred, _ = channel.receive(2)
    channel.client.finish(deferred.id)
    assert channel.age_ms == 1_000


def calls_of(call: Callable[[], object]) -> int:
    """How many functions it calls, built-in ones included.

    The garbage collector rests meanwhile: it may run at any allocation, and its callbacks (Hypothesis
    has one) and the finalizers of others' objects would be counted as well.
    """
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def test_its_cost_does_not_grow_with_what_waits_behind_a_message_that_stays(tmp_path: Path, clock: ManualClock) -> None:
    channel = Channel(tmp_path, clock, mem_queue_size=100)
    channel.publish(b"stays")
    channel.receive()
    costs = []
    for _ in range(10):
        for _ in range(10):
            channel.publish(*[b"x"] * 100)
            # A part is finished, a part goes round, a part waits.
            for index, one in enumerate(channel.receive(60)):
                channel.requeue(one) if index % 3 else channel.client.finish(one.id)
            channel.wait(10)
            assert channel.age_ms is not None
        costs.append(calls_of(lambda: channel.stats))
    assert channel.age_ms == 1_000
    assert max(costs) <= costs[0] + 5, costs


def test_the_message_with_the_most_attempts_is_known_until_it_is_finished(tmp_path: Path, clock: ManualClock) -> None:
    channel = Channel(tmp_path, clock)
    channel.publish(b"poison", b"fine")
    poison, fine = channel.receive(2)
    assert (poison.body, channel.stats.attempts_max) == (b"poison", 0)
    channel.client.finish(fine.id)
    for _ in range(30):
        channel.requeue(poison)
        (poison,) = channel.receive()
    stats = channel.stats
    assert stats.attempts_max in (30, 31), "the delivery it is in may count or not"
    assert stats.attempts_max_id == poison.id.decode()
    channel.client.finish(poison.id)
    assert (channel.stats.attempts_max, channel.stats.attempts_max_id) == (0, "")


def test_attempts_by_timeout_count_and_survive_a_restart(tmp_path: Path, clock: ManualClock, storage_kind: str) -> None:
    channel = Channel(tmp_path, clock)
    channel.client.leave()
    channel.client = Client(channel.engine, "orders", "billing", ready=1, msg_timeout_ms=1_000)
    channel.publish(b"poison")
    for _ in range(25):
        channel.wait(1_001)
    assert channel.stats.attempts_max in (25, 26)
    channel.engine.close()
    again = Channel(tmp_path, clock)
    if storage_kind == "log":
        assert again.stats.attempts_max == 26
    (poison,) = again.receive()
    again.requeue(poison)
    assert again.stats.attempts_max == 27 == poison.attempts
