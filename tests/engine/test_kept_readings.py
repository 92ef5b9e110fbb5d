"""What `/stats` keeps of topics that rest is what reading them anew would make, whatever was done before."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from queue_engine.engine import Engine
from queue_engine.log_acts import Target
from queue_engine.service.http.stats_templates import StatsTemplates
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.errors import PenstockError
from queue_engine.vocabulary.pieces import whole
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, pass_time, settle
from tests.support.stats_answer import stats_answer

ROUNDS, ACTS = 40, 60


def answered(engine: Engine, templates: StatsTemplates) -> list[dict[str, Any]]:
    topics: list[dict[str, Any]] = stats_answer(engine, templates)["topics"]
    return topics


def read_anew(engine: Engine) -> list[dict[str, Any]]:
    """The same of topics that were never read."""
    for topic in engine.topics.values():
        topic.changes.note()
    return answered(engine, StatsTemplates())


def kept_names(engine: Engine, *, has_clients: bool = False) -> set[str]:
    found = whole(engine.stats.readings_in_slices(has_clients=has_clients)).topics
    return {one.topic_name for one in found if one.kept is not None}


def two_resting(engine: Engine) -> None:
    for name in ("t", "other"):
        engine.acts.create_topic(name)
        settle(engine)
        for channel in ("a", "b"):
            engine.acts.create_channel(name, channel)
            settle(engine)
        engine.publish(name, [b"x"] * 5)
        settle(engine)


def test_kept_readings_are_those_made_anew(tmp_path: Path) -> None:
    kept = 0
    for seed in range(ROUNDS):
        (directory := tmp_path / str(seed)).mkdir()
        kept += _play(random.Random(seed), directory)
    assert kept > ROUNDS * ACTS // 4  # else this says nothing


def _play(chance: random.Random, directory: Path) -> int:
    clock = ManualClock()
    engine = make_engine(directory, clock)
    acts = engine.acts
    two_resting(engine)
    topic = engine.topics["t"]
    connected: list[Client] = []

    def come() -> None:
        connected.append(Client(engine, "t", "a", ready=chance.choice((0, 2)), msg_timeout_ms=500))

    def go() -> None:
        if connected:
            connected.pop().leave()

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
        lambda: pass_time(engine, clock, chance.choice((1, 200, 800))),
        lambda: acts.empty_channel("t", "b"),
        throw_away,
    ]
    # What is done and undone stands together, so that the topic rests again.
    others: list[list[Callable[[], object]]] = [
        [come, finish, requeue, go, lambda: acts.requeue_channel("t", "a")],
        [restore, delete_and_create],
        [lambda: acts.create_channel("t", "c"), lambda: acts.delete_channel("t", "c")],
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
    ]
    moves = always + [act for acts_of_kind in chance.sample(others, 2) for act in acts_of_kind]
    kept = 0
    templates = StatsTemplates()
    for _ in range(ACTS):
        clock.advance(ms=1)
        try:
            chance.choice(moves)()
        except PenstockError:
            pass  # it has nothing to act on
        settle(engine)
        # What was kept before this act is used by the first of these answers, what it left by the others.
        given = [answered(engine, templates) for _ in range(3)]
        kept += "t" in kept_names(engine)
        assert given == [read_anew(engine)] * 3
        answered(engine, templates)
        answered(engine, templates)
    engine.close()
    return kept


def test_a_topic_is_kept_from_the_second_reading_on_without_change(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = make_engine(tmp_path, clock)
    two_resting(engine)
    seen = [kept_names(engine) for _ in range(3)]
    assert seen == [set(), set(), {"t", "other"}]
    engine.publish("t", [b"x"])
    settle(engine)
    assert kept_names(engine) == {"other"}
    # An answer of the other kind has clients, which are read.
    assert kept_names(engine, has_clients=True) == set()
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


def test_bytes_and_ages_of_a_kept_topic_go_on(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = make_engine(tmp_path, clock)
    two_resting(engine)
    templates = StatsTemplates()
    for _ in range(3):
        answered(engine, templates)
    before = {one["topic_name"]: one for one in answered(engine, templates)}["t"]
    clock.advance(ms=70)
    engine.publish("other", [b"x" * 1_000])
    settle(engine)
    assert kept_names(engine) == {"t"}
    after = {one["topic_name"]: one for one in answered(engine, templates)}["t"]
    grown = after["disk_bytes"] - before["disk_bytes"]
    assert grown > 1_000
    assert after == before | {
        "disk_bytes": before["disk_bytes"] + grown,
        "channels": [
            one | {"disk_bytes": one["disk_bytes"] + grown, "oldest_age_ms": one["oldest_age_ms"] + 70}
            for one in before["channels"]
        ],
    }
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
