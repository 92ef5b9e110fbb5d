"""What happens to a message between publish and FIN: states, counts, errors. Time moves by hand."""

from collections.abc import Generator
from pathlib import Path

import pytest

from queue_engine.delivery.stats import EngineSnapshot
from queue_engine.engine.engine import Engine
from queue_engine.vocabulary.errors import LimitError, NotInFlightError
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, pass_time, settle


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def engine(tmp_path: Path, clock: ManualClock) -> Engine:
    return make_engine(tmp_path, clock)


def publish(engine: Engine, topic: str, *bodies: bytes, defer_ms: int = 0) -> None:
    ticket = engine.publish(topic, list(bodies), defer_ms=defer_ms)
    settle(engine)
    assert ticket.done
    assert ticket.error is None


def test_a_message_reaches_the_channel_with_its_id_and_body(engine: Engine) -> None:
    client = Client(engine, "orders", "billing", ready=1)
    publish(engine, "orders", b"one")
    (message,) = client.sink.received
    assert message.body == b"one"
    assert message.attempts == 1
    assert len(message.id) == 16
    assert engine.catalog.channel("orders", "billing").in_flight_count == 1


def test_every_channel_gets_every_message_under_the_same_id(engine: Engine) -> None:
    first = Client(engine, "orders", "billing", ready=10)
    second = Client(engine, "orders", "archive", ready=10)
    publish(engine, "orders", b"a", b"b")
    assert first.bodies == second.bodies == [b"a", b"b"]
    assert [m.id for m in first.sink.received] == [m.id for m in second.sink.received]


def test_the_first_channel_gets_what_waited_at_the_topic_and_a_second_does_not(engine: Engine) -> None:
    publish(engine, "orders", b"early")
    assert engine.catalog.topic("orders").store.depth == 1
    first = Client(engine, "orders", "billing", ready=10)
    second = Client(engine, "orders", "archive", ready=10)
    publish(engine, "orders", b"late")
    assert first.bodies == [b"early", b"late"]
    assert second.bodies == [b"late"]


def test_a_put_after_the_last_channel_is_deleted_stays_at_the_topic(engine: Engine) -> None:
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    engine.acts.delete_channel("orders", "billing")
    publish(engine, "orders", b"one")
    assert engine.catalog.topic("orders").store.depth == 1


def test_ready_count_bounds_what_is_in_flight(engine: Engine) -> None:
    client = Client(engine, "orders", "billing", ready=2)
    publish(engine, "orders", b"a", b"b", b"c")
    assert client.bodies == [b"a", b"b"]
    client.finish(client.sink.received[0].id)
    assert client.bodies == [b"a", b"b", b"c"]


def test_nothing_is_sent_to_a_consumer_that_is_not_ready(engine: Engine) -> None:
    client = Client(engine, "orders", "billing")
    publish(engine, "orders", b"a")
    assert client.bodies == []
    assert engine.catalog.channel("orders", "billing").backlog.depth == 1


def test_consumers_share_what_waits(engine: Engine) -> None:
    publish(engine, "orders", *[b"%d" % i for i in range(100)])
    engine.acts.create_channel("orders", "billing")
    clients = [Client(engine, "orders", "billing") for _ in range(4)]
    for client in clients:
        client.channel.set_ready(client.consumer, 100)
    settle(engine)
    assert sorted(len(client.bodies) for client in clients) == [25, 25, 25, 25]


def test_a_consumer_whose_buffer_is_full_is_sent_nothing(engine: Engine) -> None:
    client = Client(engine, "orders", "billing")
    client.sink.is_writable = False
    client.ready(10)
    publish(engine, "orders", b"a")
    assert client.bodies == []
    assert engine.catalog.channel("orders", "billing").in_flight_count == 0


def test_fin_of_an_unknown_id_and_of_anothers_message_are_told_apart(engine: Engine) -> None:
    owner = Client(engine, "orders", "billing", ready=1)
    other = Client(engine, "orders", "billing")
    publish(engine, "orders", b"a")
    message_id = owner.sink.received[0].id
    assert other.finish(message_id) == ["client does not own message"]
    assert owner.finish(b"0" * 16) == ["ID not in flight"]
    assert owner.finish(message_id) == []
    assert owner.finish(message_id) == ["ID not in flight"]


def test_a_series_of_fins_with_a_bad_one_finishes_the_others(engine: Engine) -> None:
    client = Client(engine, "orders", "billing", ready=10)
    publish(engine, "orders", b"a", b"b", b"c")
    ids = [message.id for message in client.sink.received]
    assert client.finish(ids[0], b"f" * 16, ids[1], ids[1], ids[2]) == ["ID not in flight", "ID not in flight"]
    channel = engine.catalog.channel("orders", "billing")
    assert (channel.in_flight_count, channel.finish_count, client.consumer.in_flight_count) == (0, 3, 0)


def test_a_message_not_finished_in_time_comes_again_with_one_attempt_more(engine: Engine, clock: ManualClock) -> None:
    client = Client(engine, "orders", "billing", ready=1, msg_timeout_ms=1_000)
    publish(engine, "orders", b"a")
    pass_time(engine, clock, 999)
    assert len(client.sink.received) == 1
    pass_time(engine, clock, 2)
    assert [message.attempts for message in client.sink.received] == [1, 2]
    channel = engine.catalog.channel("orders", "billing")
    assert (channel.timeout_count, channel.requeue_count, client.consumer.timeout_count) == (1, 0, 1)


def test_a_late_fin_is_an_error_and_the_other_delivery_stands(engine: Engine, clock: ManualClock) -> None:
    slow = Client(engine, "orders", "billing", ready=1, msg_timeout_ms=1_000)
    publish(engine, "orders", b"a")
    slow.ready(0)
    pass_time(engine, clock, 1_500)
    quick = Client(engine, "orders", "billing", ready=1)
    message_id = quick.sink.received[0].id
    assert slow.finish(message_id) == ["client does not own message"]
    assert quick.finish(message_id) == []


def test_touch_prolongs_one_message_of_a_run_only(engine: Engine, clock: ManualClock) -> None:
    client = Client(engine, "orders", "billing", ready=3, msg_timeout_ms=1_000)
    publish(engine, "orders", b"a", b"b", b"c")
    clock.advance(ms=600)
    client.channel.touch(client.consumer, client.sink.received[1].id, clock.monotonic_ns())
    client.ready(0)
    pass_time(engine, clock, 600)
    channel = engine.catalog.channel("orders", "billing")
    assert (channel.in_flight_count, channel.timeout_count, channel.backlog.depth) == (1, 2, 2)
    pass_time(engine, clock, 500)
    assert (channel.in_flight_count, channel.timeout_count) == (0, 3)


def test_a_timed_out_message_stands_behind_what_waits(engine: Engine, clock: ManualClock) -> None:
    client = Client(engine, "orders", "billing", ready=1, msg_timeout_ms=1_000)
    publish(engine, "orders", b"slow", b"b", b"c")
    pass_time(engine, clock, 1_001)
    for expected in ([b"slow", b"b"], [b"slow", b"b", b"c"], [b"slow", b"b", b"c", b"slow"]):
        assert client.bodies == expected
        client.finish(client.sink.received[-1].id)
        settle(engine)


def test_touch_goes_no_further_than_the_longest_timeout(engine: Engine, clock: ManualClock) -> None:
    client = Client(engine, "orders", "billing", ready=1, msg_timeout_ms=60_000)
    publish(engine, "orders", b"a")
    client.ready(0)
    message_id = client.sink.received[0].id
    for _ in range(20):
        pass_time(engine, clock, 50_000)
        try:
            client.channel.touch(client.consumer, message_id, clock.monotonic_ns())
        except NotInFlightError:
            break
    assert engine.catalog.channel("orders", "billing").timeout_count == 1
    assert clock.monotonic_ns() - 10**9 <= 950_000 * 10**6


def test_requeue_at_once_and_with_delay_keeps_attempts(engine: Engine, clock: ManualClock) -> None:
    client = Client(engine, "orders", "billing", ready=1)
    publish(engine, "orders", b"a")
    channel = client.channel
    channel.requeue(client.consumer, client.sink.received[-1].id, 0, clock.monotonic_ns())
    settle(engine)
    channel.requeue(client.consumer, client.sink.received[-1].id, 5_000 * 10**6, clock.monotonic_ns())
    settle(engine)
    assert [message.attempts for message in client.sink.received] == [1, 2]
    assert (channel.backlog.deferred_count, channel.backlog.depth, channel.requeue_count) == (1, 0, 2)
    pass_time(engine, clock, 4_999)
    assert len(client.sink.received) == 2
    pass_time(engine, clock, 1)
    assert [message.attempts for message in client.sink.received] == [1, 2, 3]


def test_a_deferred_publish_is_deferred_in_every_channel_and_never_early(engine: Engine, clock: ManualClock) -> None:
    clients = [Client(engine, "orders", name, ready=1) for name in ("billing", "archive")]
    publish(engine, "orders", b"later", defer_ms=3_000)
    for client in clients:
        assert client.channel.figures.stats().deferred_count == 1
        assert client.channel.figures.stats().message_count == 1
    pass_time(engine, clock, 2_999)
    assert [client.bodies for client in clients] == [[], []]
    pass_time(engine, clock, 1)
    assert [client.bodies for client in clients] == [[b"later"], [b"later"]]


def test_a_deferred_publish_keeps_its_due_time_while_it_waits_for_a_channel(engine: Engine, clock: ManualClock) -> None:
    publish(engine, "orders", b"later", defer_ms=3_000)
    pass_time(engine, clock, 1_000)
    client = Client(engine, "orders", "billing", ready=1)
    pass_time(engine, clock, 1_999)
    assert client.bodies == []
    pass_time(engine, clock, 1)
    assert client.bodies == [b"later"]


def test_deferred_messages_beyond_the_limit_are_refused_with_the_limit(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock, max_deferred_per_channel=2)
    client = Client(engine, "orders", "billing", ready=1)
    for _ in range(2):
        publish(engine, "orders", b"x", defer_ms=1_000)
    with pytest.raises(LimitError, match="orders/billing: 2 messages are deferred and the most is 2"):
        engine.publish("orders", [b"x"], defer_ms=1_000)
    publish(engine, "orders", b"now")
    assert client.bodies == [b"now"]


def test_a_consumer_that_leaves_gives_its_messages_back_at_once_with_attempts_kept(engine: Engine) -> None:
    gone = Client(engine, "orders", "billing", ready=3)
    publish(engine, "orders", b"a", b"b", b"c")
    gone.finish(gone.sink.received[1].id)
    gone.leave()
    channel = engine.catalog.channel("orders", "billing")
    assert (channel.disconnect_count, channel.requeue_count, channel.timeout_count) == (2, 0, 0)
    heir = Client(engine, "orders", "billing", ready=5)
    assert [(m.body, m.attempts) for m in heir.sink.received] == [(b"a", 2), (b"c", 2)]


def test_a_lost_consumers_messages_wait_for_their_timeout_where_that_was_chosen(
    tmp_path: Path, clock: ManualClock
) -> None:
    engine = make_engine(tmp_path, clock, requeue_on_disconnect=False)
    gone = Client(engine, "orders", "billing", ready=1, msg_timeout_ms=1_000)
    publish(engine, "orders", b"a")
    gone.leave()
    channel = engine.catalog.channel("orders", "billing")
    assert (channel.in_flight_count, channel.backlog.depth) == (1, 0)
    pass_time(engine, clock, 1_001)
    assert (channel.in_flight_count, channel.backlog.depth, channel.timeout_count) == (0, 1, 1)


def test_a_paused_channel_sends_nothing_and_its_timeouts_go_on(engine: Engine, clock: ManualClock) -> None:
    client = Client(engine, "orders", "billing", ready=1, msg_timeout_ms=1_000)
    publish(engine, "orders", b"a", b"b")
    engine.acts.pause_channel("orders", "billing")
    client.finish(client.sink.received[0].id)
    assert client.bodies == [b"a"]
    engine.acts.unpause_channel("orders", "billing")
    settle(engine)
    assert client.bodies == [b"a", b"b"]
    engine.acts.pause_channel("orders", "billing")
    pass_time(engine, clock, 1_001)
    assert client.channel.figures.stats().timeout_count == 1


def test_a_paused_topic_keeps_what_is_published_and_lets_it_go_in_order(engine: Engine) -> None:
    client = Client(engine, "orders", "billing", ready=10)
    engine.acts.pause_topic("orders")
    publish(engine, "orders", b"a")
    publish(engine, "orders", b"b")
    assert (engine.catalog.topic("orders").store.depth, client.channel.backlog.depth) == (2, 0)
    engine.acts.unpause_topic("orders")
    settle(engine)
    assert client.bodies == [b"a", b"b"]
    assert engine.catalog.topic("orders").store.depth == 0


def test_emptying_a_channel_drops_what_waits_is_deferred_and_is_in_flight(engine: Engine) -> None:
    client = Client(engine, "orders", "billing", ready=25)
    publish(engine, "orders", *[b"x"] * 30)
    publish(engine, "orders", b"later", defer_ms=1_000)
    outcome, _ = engine.acts.empty_channel("orders", "billing")
    assert (outcome.depth, outcome.in_flight, outcome.deferred) == (5, 25, 1)
    stats = client.channel.figures.stats()
    assert (stats.depth, stats.in_flight_count, stats.deferred_count) == (0, 0, 0)
    assert client.consumer.in_flight_count == 0


def test_emptying_a_topic_leaves_its_channels_unless_they_are_asked_for(engine: Engine) -> None:
    Client(engine, "orders", "billing")
    publish(engine, "orders", b"a")
    engine.acts.pause_topic("orders")
    publish(engine, "orders", b"b", b"c")
    outcome, _ = engine.acts.empty_topic("orders")
    assert (outcome.depth, outcome.channels) == (2, 0)
    assert engine.catalog.channel("orders", "billing").backlog.depth == 1
    outcome, _ = engine.acts.empty_topic("orders", channels_too=True)
    assert (outcome.depth, outcome.channels) == (1, 1)


def test_deleting_a_channel_disconnects_its_consumers(engine: Engine) -> None:
    client = Client(engine, "orders", "billing", ready=1)
    publish(engine, "orders", b"a", b"b")
    outcome, _ = engine.acts.delete_channel("orders", "billing")
    assert (outcome.depth, outcome.in_flight, outcome.clients) == (1, 1, 1)
    assert client.sink.is_closed
    client.leave()
    assert engine.catalog.topic("orders").channels == {}


def test_deleting_a_topic_tells_all_that_went_with_it(engine: Engine) -> None:
    Client(engine, "orders", "billing", ready=1)
    Client(engine, "orders", "archive")
    publish(engine, "orders", b"a", b"b")
    outcome, _ = engine.acts.delete_topic("orders")
    assert (outcome.depth, outcome.in_flight, outcome.channels, outcome.clients) == (3, 1, 2, 2)
    assert engine.topics == {}


def test_requeue_puts_back_one_message_one_clients_or_all(engine: Engine) -> None:
    first = Client(engine, "orders", "billing", ready=2)
    publish(engine, "orders", b"a", b"b")
    second = Client(engine, "orders", "billing", ready=2)
    publish(engine, "orders", b"c", b"d")
    for client in (first, second):
        client.ready(0)
    one = first.sink.received[0].id.decode()
    assert engine.acts.requeue_channel("orders", "billing", message_id=one)[0].in_flight == 1
    with pytest.raises(NotInFlightError):
        engine.acts.requeue_channel("orders", "billing", message_id=one)
    assert engine.acts.requeue_channel("orders", "billing", client_key=second.consumer.key)[0].in_flight == 2
    assert engine.acts.requeue_channel("orders", "billing")[0].in_flight == 1
    stats = first.channel.figures.stats()
    assert (stats.depth, stats.in_flight_count, stats.requeue_count) == (4, 0, 4)


def test_released_deferred_messages_wait_like_the_others(engine: Engine) -> None:
    client = Client(engine, "orders", "billing", ready=5)
    publish(engine, "orders", b"a", defer_ms=60_000)
    assert engine.acts.release_deferred("orders", "billing")[0].deferred == 1
    settle(engine)
    assert client.bodies == [b"a"]


def test_an_ephemeral_channel_goes_with_its_last_client_and_its_topic_too(engine: Engine) -> None:
    first = Client(engine, "events#ephemeral", "tail#ephemeral")
    second = Client(engine, "events#ephemeral", "tail#ephemeral")
    first.leave()
    assert "events#ephemeral" in engine.topics
    second.leave()
    assert engine.topics == {}


def test_an_ephemeral_channel_drops_what_is_beyond_its_memory(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock, mem_queue_size=10)
    client = Client(engine, "events", "tail#ephemeral")
    publish(engine, "events", *[b"%d" % i for i in range(25)])
    assert client.channel.backlog.depth == 10
    assert not list(tmp_path.glob("*tail*"))


def test_the_limit_of_consumers_is_told_with_nsqds_words(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock, max_channel_consumers=1)
    Client(engine, "orders", "billing")
    with pytest.raises(LimitError, match="consumers for orders:billing exceeds limit of 1"):
        Client(engine, "orders", "billing")


def test_redeliveries_and_new_messages_take_turns(engine: Engine, clock: ManualClock) -> None:
    client = Client(engine, "orders", "billing", ready=1)
    publish(engine, "orders", *[b"%d" % i for i in range(4)])
    # The first is always given back: the others come through all the same.
    for _ in range(8):
        message = client.sink.received[-1]
        if message.body == b"0":
            client.channel.requeue(client.consumer, message.id, 0, clock.monotonic_ns())
            settle(engine)
        else:
            client.finish(message.id)
    assert {message.body for message in client.sink.received} == {b"0", b"1", b"2", b"3"}


def test_in_flight_messages_are_listed_with_owner_attempts_and_deadline(engine: Engine, clock: ManualClock) -> None:
    client = Client(engine, "orders", "billing", ready=2, msg_timeout_ms=1_000)
    publish(engine, "orders", b"abc", b"d")
    clock.advance(ms=400)
    listed = engine.stats.in_flight("orders", "billing")
    assert [(one.body_bytes, one.attempts, one.held_ms, one.deadline_in_ms) for one in listed] == [
        (3, 1, 400, 600),
        (1, 1, 400, 600),
    ]
    assert {one.client_key for one in listed} == {client.consumer.key}
    assert len(engine.stats.in_flight("orders", "billing", limit=1)) == 1


def test_thousands_of_channels_due_at_once_are_handled_pass_by_pass(engine: Engine, clock: ManualClock) -> None:
    clients = [Client(engine, "orders", f"c{i}", ready=1, msg_timeout_ms=1_000) for i in range(500)]
    publish(engine, "orders", b"x")
    clock.advance(ms=1_001)
    passes = 0
    while engine.is_pass_dirty(*engine.scan_pass()):
        passes += 1
    assert passes == 25
    assert sum(client.channel.timeout_count for client in clients) == 500


def test_a_pass_that_found_nothing_is_not_followed_by_another(engine: Engine) -> None:
    Client(engine, "orders", "billing", ready=1)
    publish(engine, "orders", b"x")
    assert engine.scan_pass() == (0, 0)


def test_messages_of_a_client_that_is_gone_can_be_requeued_while_they_wait_for_their_timeout(
    tmp_path: Path, clock: ManualClock
) -> None:
    engine = make_engine(tmp_path, clock, requeue_on_disconnect=False)
    gone = Client(engine, "orders", "billing", ready=2)
    publish(engine, "orders", b"a", b"b")
    gone.leave()
    assert engine.acts.requeue_channel("orders", "billing", client_key=gone.consumer.key)[0].in_flight == 2
    assert engine.catalog.channel("orders", "billing").backlog.depth == 2


def test_finished_messages_do_not_keep_the_scan_from_what_is_due(engine: Engine, clock: ManualClock) -> None:
    """More channels than one pass takes come up for what they finished long ago; behind them one is really due."""
    clients = [Client(engine, "work", f"c{number}", ready=2, msg_timeout_ms=1_000) for number in range(50)]
    publish(engine, "work", b"early")
    clock.advance(ms=500)
    publish(engine, "work", b"late")
    for client in clients[:-1]:
        client.finish(client.sink.received[0].id)
    pass_time(engine, clock, 600)
    assert [client.channel.timeout_count for client in clients] == [0] * 49 + [1]


def test_what_was_published_before_an_act_comes_before_it_though_it_is_the_same_turn(engine: Engine) -> None:
    client = Client(engine, "orders", "billing", ready=10)
    engine.publish("orders", [b"before"])
    engine.acts.pause_topic("orders")
    engine.publish("orders", [b"after"])
    settle(engine)
    assert (client.bodies, engine.catalog.topic("orders").store.depth) == ([b"before"], 1)
    engine.publish("orders", [b"emptied"])
    assert engine.acts.empty_topic("orders")[0].depth == 2
    deleted = engine.publish("orders", [b"deleted with it"])
    engine.acts.delete_topic("orders")
    settle(engine)
    assert deleted.done
    assert engine.topics == {}


def test_deferred_messages_that_wait_for_a_channel_are_limited_too(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock, max_deferred_per_channel=2)
    for _ in range(2):
        publish(engine, "orders", b"x", defer_ms=1_000)
    with pytest.raises(LimitError, match="orders: 2 messages are deferred and the most is 2"):
        engine.publish("orders", [b"x"], defer_ms=1_000)
    client = Client(engine, "orders", "billing", ready=5)
    assert client.channel.backlog.deferred_count == 2
    with pytest.raises(LimitError, match="orders/billing: 2 messages are deferred"):
        engine.publish("orders", [b"x"], defer_ms=1_000)


def test_large_messages_go_from_topic_to_channels_a_mebibyte_at_a_time(engine: Engine) -> None:
    client = Client(engine, "orders", "billing")
    engine.acts.pause_topic("orders")
    for _ in range(5):
        publish(engine, "orders", *[b"x" * 500_000] * 2)
    engine.acts.unpause_topic("orders")
    engine.turn()
    assert 1 <= client.channel.backlog.depth <= 4
    settle(engine)
    assert client.channel.backlog.depth == 10


class SlowClock(ManualClock):
    """Time goes on with every look at it, as if the work took that long."""

    def monotonic_ns(self) -> int:
        self.advance(ns=100_000)
        return super().monotonic_ns()


def test_a_turn_leaves_the_rest_to_the_next_and_forgets_nobody(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, SlowClock())
    clients = [Client(engine, "orders", f"c{number}", ready=2) for number in range(100)]
    engine.publish("orders", [b"x"])
    delivered: list[int] = []
    while engine.has_work:
        engine.turn()
        delivered.append(sum(len(client.bodies) for client in clients))
    assert 0 < delivered[0] < 50
    assert len(delivered) > 2
    assert [client.bodies for client in clients] == [[b"x"]] * 100


def result_of(slices: Generator[None, None, EngineSnapshot]) -> EngineSnapshot:
    while True:
        try:
            next(slices)
        except StopIteration as stop:
            snapshot: EngineSnapshot = stop.value
            return snapshot


def test_a_snapshot_is_made_in_slices_while_channels_come_and_go(engine: Engine) -> None:
    engine.acts.create_topic("orders")
    for number in range(250):
        engine.acts.create_channel("orders", f"c{number:03}")
    engine.acts.create_topic("second")
    slices = engine.stats.in_slices(lambda topic, channel: False)
    next(slices)
    engine.acts.delete_channel("orders", "c240")
    next(slices)
    engine.acts.delete_topic("second")
    (topic,) = result_of(slices).topics
    assert [channel.channel_name for channel in topic.channels] == [f"c{n:03}" for n in range(250) if n != 240]
