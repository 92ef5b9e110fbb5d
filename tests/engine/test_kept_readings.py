"""What `/stats` keeps of topics that rest is what reading them anew would make, whatever was done before."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from queue_engine.delivery.stats import CLIENT_STATE_CLOSING, CLIENT_STATE_SUBSCRIBED
from queue_engine.log_acts import Target
from queue_engine.service.http.stats_templates import StatsTemplates
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.errors import PenstockError
from queue_engine.vocabulary.flow.redrive import Redrive, RedriveState
from queue_engine.vocabulary.pieces import whole
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, make_topic, pass_time, settle
from tests.support.kept_readings import answered, kept_names, read_anew, two_resting

ROUNDS, ACTS = 40, 60


def test_kept_readings_are_those_made_anew(tmp_path: Path) -> None:
    kept = 0
    for seed in range(ROUNDS):
        (directory := tmp_path / str(seed)).mkdir()
        kept += _play(random.Random(seed), directory)
    assert kept > ROUNDS * ACTS // 5  # else this says nothing


def _play(chance: random.Random, directory: Path) -> int:
    clock = ManualClock()
    # Segments that a few messages fill; the other is of a disk queue.
    engine = make_engine(directory, clock, log_segment_bytes=64 << 10, mem_queue_size=chance.choice((0, 4, 10_000)))
    acts = engine.acts
    two_resting(engine)
    topic = engine.topics["t"]
    connected: list[Client] = []

    def come() -> None:
        connected.append(Client(engine, "t", "a", ready=chance.choice((0, 0, 2)), msg_timeout_ms=500))

    def go() -> None:
        if connected:
            connected.pop().leave()

    def want() -> None:
        for one in connected:
            one.ready(chance.choice((0, 2, 9)))

    def finish() -> None:
        for one in connected:
            held = [each.id for each in one.sink.received if each.id in one.channel.held]
            if held:
                one.finish(chance.choice(held))

    def requeue() -> None:
        for one in connected:
            for each in one.sink.received:
                if each.id in one.channel.held:
                    delay_ns = chance.choice((0, 300 * NS_PER_MS))
                    one.channel.requeue(one.consumer, each.id, delay_ns, clock.monotonic_ns())
                    break

    def some_offsets() -> list[int]:
        return [chance.randrange(topic.message_count + 1)]

    def restore() -> None:
        for one in engine.trash.list():
            engine.trash.restore_trash(one.topic, trash=one.id)
            settle(engine)

    def throw_away() -> None:
        for one in engine.trash.list():
            engine.trash.delete_trash(one.topic, trash=one.id)
            settle(engine)

    def delete_and_create() -> None:
        acts.delete_channel("t", "b")
        settle(engine)
        acts.create_channel("t", "b")

    always: list[Callable[[], object]] = [
        lambda: engine.publish("other", [b"x"]),
        lambda: engine.publish("t", [b"y"] * 3),
        lambda: engine.publish("t", [b"z" * 20_000]),
        lambda: pass_time(engine, clock, chance.choice((1, 200, 800))),
        lambda: acts.empty_channel("t", "b"),
        throw_away,
    ]
    # What is done and undone stands together, so that the topic rests again.
    others: list[list[Callable[[], object]]] = [
        [come, want, finish, finish, finish, requeue, go, lambda: acts.requeue_channel("t", "a")],
        [restore, delete_and_create],
        [lambda: acts.create_channel("t", "c"), lambda: acts.delete_channel("t", "c")],
        [lambda: acts.create_channel("t", "d#ephemeral"), lambda: acts.empty_channel("t", "d#ephemeral")],
        [lambda: clock.set_back(ms=50)],
        [lambda: acts.pause_topic("t", for_ms=400), lambda: acts.unpause_topic("t"), lambda: acts.empty_topic("t")],
        [lambda: acts.pause_channel("t", "b", for_ms=400), lambda: acts.unpause_channel("t", "b")],
        [lambda: engine.publish("t", [b"z"], defer_ms=300), lambda: acts.release_deferred("t", "b")],
        [
            lambda: acts.rewind_channel("t", "b", target=Target(offset=some_offsets()[0])),
            lambda: acts.rewind_channel("t", "b", target=Target(offset=some_offsets()[0]), keep_finished=True),
        ],
        [lambda: engine.quarantine.set_max_attempts("t", "b", max_attempts=chance.choice((0, 2)))],
        [lambda: engine.message_acts.finish_messages("t", "b", offsets=some_offsets())],
        [
            lambda: engine.message_acts.quarantine_messages("t", "b", offsets=some_offsets()),
            lambda: engine.message_acts.redrive_messages("t", "b", offsets=some_offsets()),
            lambda: engine.quarantine.redrive_channel("t", "b", rate=1_000),
        ],
        [
            lambda: topic.channels["b"].stop("being tested", RuntimeError("on purpose")),
            lambda: acts.retry_channel("t", "b"),
        ],
        [lambda: topic.stop("being tested", RuntimeError("on purpose")), lambda: acts.retry_topic("t")],
        [
            lambda: engine.cursors.create("t", cursor="reader"),
            lambda: engine.cursors.delete("t", cursor="reader"),
        ],
    ]
    moves = always + [act for acts_of_kind in chance.sample(others, 2) for act in acts_of_kind]
    kept = 0
    has_clients = chance.random() < 0.5
    templates = StatsTemplates()
    for _ in range(ACTS):
        clock.advance(ms=1)
        sign, noted = topic.rest_sign(), (topic.changes.count, topic.changes.stored_count)
        try:
            chance.choice(moves)()
        except PenstockError:
            pass  # it has nothing to act on
        settle(engine)
        # Who looks at the changes alone need not ask for the sign, while no reader comes.
        if sign not in (None, topic.rest_sign()) and not engine.cursors.all("t").cursors:
            assert (topic.changes.count, topic.changes.stored_count) != noted
        # What was kept before this act is used by the first of these answers, what it left by the others.
        given = [answered(engine, templates, has_clients=has_clients) for _ in range(3)]
        kept += "t" in kept_names(engine, has_clients=has_clients)
        assert given == [read_anew(engine, has_clients=has_clients)] * 3
        for _ in range(2):
            answered(engine, templates, has_clients=has_clients)
    engine.close()
    return kept


def test_a_topic_is_kept_from_its_first_reading_on(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = make_engine(tmp_path, clock)
    two_resting(engine)
    assert [kept_names(engine) for _ in range(2)] == [set(), {"t", "other"}]
    engine.acts.create_channel("t", "c")
    settle(engine)
    assert [kept_names(engine) for _ in range(2)] == [{"other"}, {"t", "other"}]
    # An answer of the other kind has clients, which are read.
    assert kept_names(engine, has_clients=True) == set()
    engine.close()


def test_a_topic_that_changed_before_it_was_used_is_kept_once_it_rests_for_two_readings(tmp_path: Path) -> None:
    """Keeping what changes each time would cost more than reading it."""
    engine = make_engine(tmp_path, ManualClock())
    two_resting(engine)
    kept_names(engine)
    for name in ("c", "d"):
        engine.acts.create_channel("t", name)
        settle(engine)
        assert kept_names(engine) == {"other"}
    assert [kept_names(engine) for _ in range(2)] == [{"other"}, {"t", "other"}]
    engine.close()


def test_a_topic_whose_messages_were_deferred_is_read_each_time(tmp_path: Path) -> None:
    """Limits of memory, which other topics use up, may hold such a channel back."""
    clock = ManualClock()
    engine = make_engine(tmp_path, clock)
    two_resting(engine)
    engine.publish("t", [b"later"], defer_ms=100)
    settle(engine)
    pass_time(engine, clock, 200)
    answered(engine, StatsTemplates())
    (one,) = [topic for topic in answered(engine, StatsTemplates()) if topic["topic_name"] == "t"]
    assert [(each["depth"], each["deferred_count"]) for each in one["channels"]] == [(6, 0), (6, 0)]
    assert kept_names(engine) == {"other"}
    engine.close()


def test_what_goes_on_in_a_kept_topic_is_told(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = make_engine(tmp_path, clock)
    two_resting(engine)
    Client(engine, "t", "a")
    templates = StatsTemplates()

    def of_t() -> dict[str, Any]:
        return {one["topic_name"]: one for one in answered(engine, templates, has_clients=True)}["t"]

    for _ in range(3):
        of_t()
    before = of_t()
    clock.advance(ms=70)
    engine.publish("other", [b"x" * 1_000])
    engine.publish("t", [b"four", b"more"])
    settle(engine)
    engine.acts.pause_channel("other", "a")  # a state, so that it is not kept
    settle(engine)
    assert kept_names(engine, has_clients=True) == {"t"}
    after = of_t()
    grown = after["disk_bytes"] - before["disk_bytes"]
    assert grown > 1_000

    def goes_on(channel: dict[str, Any]) -> dict[str, Any]:
        return channel | {
            "depth": 7,
            "backend_depth": 7,
            "message_count": 7,
            "disk_bytes": channel["disk_bytes"] + grown,
            "oldest_age_ms": channel["oldest_age_ms"] + 70,
        }

    assert [len(channel["clients"]) for channel in before["channels"]] == [1, 0]
    assert after == before | {
        "message_count": 7,
        "message_bytes": before["message_bytes"] + 8,
        "disk_bytes": before["disk_bytes"] + grown,
        "channels": [goes_on(channel) for channel in before["channels"]],
    }
    engine.close()


def test_the_first_message_of_an_empty_channel_is_its_oldest(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = make_engine(tmp_path, clock)
    two_resting(engine)
    engine.acts.empty_channel("t", "b")
    settle(engine)
    for one in engine.trash.list():
        engine.trash.delete_trash("t", trash=one.id)
        settle(engine)
    for _ in range(3):
        answered(engine, StatsTemplates())
    assert kept_names(engine) == {"t", "other"}
    clock.advance(ms=70)
    engine.publish("t", [b"x"])
    settle(engine)
    assert kept_names(engine) == {"other"}
    clock.advance(ms=5)
    (_, one) = answered(engine, StatsTemplates())
    assert [(each["depth"], each["oldest_age_ms"]) for each in one["channels"]] == [(6, 75), (1, 5)]
    assert kept_names(engine) == {"t", "other"}
    engine.close()


def test_a_reading_that_a_publish_came_into_is_not_kept(tmp_path: Path) -> None:
    """Some of its channels would count that message twice."""
    engine = make_engine(tmp_path, ManualClock())
    make_topic(engine, "t", *(f"c{number}" for number in range(40)))
    engine.publish("t", [b"x"])
    settle(engine)
    steps = engine.stats.readings_in_slices(has_clients=False)
    next(steps)  # the first channels are read
    engine.publish("t", [b"y"])
    settle(engine)
    whole(steps)
    (one,) = answered(engine, StatsTemplates())
    assert {each["depth"] for each in one["channels"]} == {2}
    assert kept_names(engine) == {"t"}
    engine.close()


def test_what_consumers_of_a_kept_topic_do_is_told(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, ManualClock())
    make_topic(engine, "empty", "a")
    consumer = Client(engine, "empty", "a")

    def clients_after(act: Callable[[], object]) -> list[tuple[int, int]]:
        """State and RDY of each, after an act on what is kept."""
        for _ in range(2):
            answered(engine, StatsTemplates(), has_clients=True)
        assert kept_names(engine, has_clients=True) == {"empty"}
        act()
        (one,) = answered(engine, StatsTemplates(), has_clients=True)
        return [(client["state"], client["ready_count"]) for client in one["channels"][0]["clients"]]

    assert clients_after(lambda: consumer.ready(5)) == [(CLIENT_STATE_SUBSCRIBED, 5)]
    assert clients_after(lambda: consumer.ready(0)) == [(CLIENT_STATE_SUBSCRIBED, 0)]
    assert clients_after(lambda: consumer.channel.set_closing(consumer.consumer)) == [(CLIENT_STATE_CLOSING, 0)]
    assert clients_after(consumer.leave) == []
    engine.close()


def test_a_topic_whose_consumer_publishes_is_read_each_time(tmp_path: Path) -> None:
    """That is no act on its channel."""
    engine = make_engine(tmp_path, ManualClock())
    two_resting(engine)
    consumer = Client(engine, "t", "a")
    Client(engine, "other", "a").authed = True
    for _ in range(3):
        answered(engine, StatsTemplates(), has_clients=True)
    assert kept_names(engine, has_clients=True) == {"t", "other"}
    consumer.pub_counts["elsewhere"] = 3
    (_, one) = answered(engine, StatsTemplates(), has_clients=True)
    assert one["channels"][0]["clients"][0]["pub_counts"] == [{"topic": "elsewhere", "count": 3}]
    assert kept_names(engine, has_clients=True) == {"other"}
    engine.close()


def test_deliveries_of_a_kept_topic_are_told(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, ManualClock())
    two_resting(engine)
    consumer = Client(engine, "t", "a")
    consumer.sink.is_writable = False  # its connection is full
    consumer.ready(1)
    for _ in range(3):
        answered(engine, StatsTemplates())
    assert kept_names(engine) == {"t", "other"}
    consumer.sink.is_writable = True
    consumer.ready(1)
    (_, one) = answered(engine, StatsTemplates())
    assert [(each["depth"], each["in_flight_count"]) for each in one["channels"]] == [(4, 1), (5, 0)]
    for _ in range(2):
        answered(engine, StatsTemplates())
    assert kept_names(engine) == {"t", "other"}
    consumer.ready(0)
    for _ in range(2):
        answered(engine, StatsTemplates())
    assert kept_names(engine) == {"t", "other"}
    consumer.finish(consumer.sink.received[0].id)
    (_, one) = answered(engine, StatsTemplates())
    assert [(each["finish_count"], each["in_flight_count"]) for each in one["channels"]] == [(1, 0), (0, 0)]
    engine.close()


def test_a_topic_whose_consumers_are_at_work_is_kept(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, ManualClock())
    make_topic(engine, "t", "a")
    engine.publish("t", [b"x"])
    settle(engine)
    Client(engine, "t", "a", ready=1)
    for _ in range(2):
        answered(engine, StatsTemplates())
    assert kept_names(engine) == {"t"}
    engine.publish("t", [b"y"])
    settle(engine)
    assert kept_names(engine) == {"t"}
    assert answered(engine, StatsTemplates()) == read_anew(engine)
    engine.close()


def test_messages_in_flight_of_a_kept_topic_time_out(tmp_path: Path) -> None:
    """Their consumer may be gone before."""
    clock = ManualClock()
    engine = make_engine(tmp_path, clock)
    two_resting(engine)
    Client(engine, "t", "a", ready=2, msg_timeout_ms=500).ready(0)
    for _ in range(2):
        answered(engine, StatsTemplates())
    assert kept_names(engine) == {"t", "other"}
    pass_time(engine, clock, 600)
    (_, one) = answered(engine, StatsTemplates())
    assert [(each["in_flight_count"], each["timeout_count"]) for each in one["channels"]] == [(0, 2), (0, 0)]
    engine.close()


def test_a_lost_message_that_nobody_gets_is_told(tmp_path: Path) -> None:
    """Trying to deliver it is all that happens."""
    clock = ManualClock()
    engine = make_engine(tmp_path, clock, mem_queue_size=0)
    make_topic(engine, "t", "a")
    consumer = Client(engine, "t", "a", ready=5)
    consumer.sink.is_writable = False
    engine.publish("t", [b"QQQQQQQQ" * 20])
    settle(engine)
    for _ in range(2):
        answered(engine, StatsTemplates())
    assert kept_names(engine) == {"t"}
    for one in tmp_path.rglob("*"):
        if one.is_file() and b"QQQQQQQQ" in (data := one.read_bytes()):
            one.write_bytes(data.replace(b"QQQQQQQQ", b"QQQQQQQZ"))
    for _ in range(10):
        pass_time(engine, clock, 10_000)  # the engine lets go what it has read
    consumer.sink.is_writable = True
    consumer.ready(5)
    is_lost = consumer.bodies == []
    assert is_lost == (engine.topics["t"].store.kind == "log")  # a disk queue's file has no checksums
    (topic,) = answered(engine, StatsTemplates())
    assert [one["depth"] for one in topic["channels"]] == [0]
    engine.close()


def test_a_redrive_that_begins_when_its_messages_are_gone_is_told(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, ManualClock())
    two_resting(engine)
    for _ in range(2):
        answered(engine, StatsTemplates())
    assert kept_names(engine) == {"t", "other"}
    engine.topics["t"].channels["a"].redrive = RedriveState(Redrive(10, 1, 1_500_000_000_000, False, ""), 0, "done")
    (_, topic) = answered(engine, StatsTemplates())
    assert [one["redrive"] and one["redrive"]["ended"] for one in topic["channels"]] == ["done", None]
    engine.close()


def test_a_topic_at_which_messages_wait_is_read_each_time(tmp_path: Path) -> None:
    """Its own oldest message has an age that goes on."""
    clock = ManualClock()
    engine = make_engine(tmp_path, clock)
    two_resting(engine)
    make_topic(engine, "waits")
    engine.publish("waits", [b"x"])
    settle(engine)
    for _ in range(3):
        answered(engine, StatsTemplates())
    assert kept_names(engine) == {"t", "other"}
    engine.close()


def test_a_channel_deleted_while_a_kept_topic_is_listed_is_not_in_the_answer(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = make_engine(tmp_path, clock)
    two_resting(engine)
    for number in range(20):
        engine.acts.create_topic(f"z{number}")
        settle(engine)
    for _ in range(3):
        kept_names(engine)
    steps = engine.stats.readings_in_slices(has_clients=False)
    next(steps)  # the first topics are read
    engine.acts.delete_channel("t", "a")
    settle(engine)
    try:
        while True:
            next(steps)
    except StopIteration as stop:
        found = {one.topic_name: [each.channel_name for each in one.channels] for one in stop.value.topics}
    assert found["t"] == ["b"]
    assert found["other"] == ["a", "b"]
    engine.close()


def test_a_topic_that_a_reader_or_the_trash_needs_is_read_each_time(tmp_path: Path) -> None:
    """What they need moves without a publish and without an act on a channel, and the topic's bytes with it."""
    clock = ManualClock()
    engine = make_engine(tmp_path, clock)
    two_resting(engine)
    templates = StatsTemplates()

    def bytes_of_topic() -> int:
        for _ in range(3):
            one = answered(engine, templates)[1]
        assert one["topic_name"] == "t"
        size: int = one["disk_bytes"]
        return size

    whole_bytes = bytes_of_topic()
    assert kept_names(engine) == {"t", "other"}
    for channel in ("a", "b"):
        engine.acts.empty_channel("t", channel)
        settle(engine)
    assert (bytes_of_topic(), kept_names(engine)) == (whole_bytes, {"other"})
    for one in engine.trash.list():
        engine.trash.delete_trash("t", trash=one.id)
        settle(engine)
    assert bytes_of_topic() == 0
    assert kept_names(engine) == {"t", "other"}
    engine.cursors.create("t", cursor="reader")
    settle(engine)
    assert (bytes_of_topic(), kept_names(engine)) == (whole_bytes, {"other"})
    engine.close()
