"""Stats that are kept while nothing changed are those that would be made anew, whatever was done before."""

import random
from collections.abc import Callable
from pathlib import Path

from queue_engine.delivery.channel import Channel
from queue_engine.delivery.stats import ChannelStats, age_ms
from queue_engine.engine.acts.log_acts import Target
from queue_engine.engine.engine import Engine
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S
from queue_engine.vocabulary.errors import PenstockError
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, pass_time, settle
from tests.support.stats_answer import stats_answer

ROUNDS, ACTS = 40, 50


def made_anew(channel: Channel) -> ChannelStats:
    known = channel.figures._cached_stats, channel.figures.backlog_stats._cached
    channel.figures._cached_stats = channel.figures.backlog_stats._cached = None
    made = channel.figures.stats()
    channel.figures._cached_stats, channel.figures.backlog_stats._cached = known
    return made


def check_figures(engine: Engine) -> None:
    """What `/stats` writes is what the stats have."""
    (topic, *_), now_ns = stats_answer(engine)["topics"][::-1], engine.clock.time_ns()
    assert topic["topic_name"] == "t"
    for written, channel in zip(topic["channels"], engine.topics["t"].channels.values(), strict=True):
        stats = made_anew(channel)
        assert written["oldest_age_ms"] == age_ms(stats.oldest_ns, now_ns)
        assert written["pause"] == (stats.pause and stats.pause.document())
        assert written["redrive"] == (stats.redrive and stats.redrive.document())
        quarantine = stats.quarantine
        assert written["quarantined_bytes"] == quarantine.bytes
        assert written["max_attempts"] == quarantine.max_attempts
        assert len(written.pop("clients")) == stats.client_count
        same = written.keys() & ChannelStats.__dataclass_fields__.keys() - {"pause", "redrive", "ramp"}
        assert len(same) >= 20
        assert {name: written[name] for name in same} == {name: getattr(stats, name) for name in same}


def test_cached_stats_equal_those_made_anew(tmp_path: Path) -> None:
    kept = 0
    for seed in range(ROUNDS):
        (directory := tmp_path / str(seed)).mkdir()
        kept += _play(random.Random(seed), directory)
    assert kept > ROUNDS * ACTS // 2  # it is not always made anew


def _play(chance: random.Random, directory: Path) -> int:
    clock = ManualClock()
    engine = make_engine(directory, clock)
    acts = engine.acts
    for name in ("t", "other"):
        acts.create_topic(name)
        settle(engine)
    for name in ("a", "b"):
        acts.create_channel("t", name)
        settle(engine)
    topic = engine.topics["t"]
    client = Client(engine, "t", "a", ready=3, msg_timeout_ms=500)

    def held() -> list[bytes]:
        return [one.id for one in client.sink.received if one.id in client.channel.held]

    def one_held(act: Callable[[bytes], object]) -> None:
        if ids := held():
            act(chance.choice(ids))

    def some_offsets() -> list[int]:
        return [chance.randrange(topic.message_count + 1)]

    def pass_some_time() -> None:
        pass_time(engine, clock, chance.choice((1, 200, 800)))

    def requeue(delay_ms: int = 0) -> None:
        one_held(lambda one: client.channel.requeue(client.consumer, one, delay_ms * NS_PER_MS, clock.monotonic_ns()))

    always: list[Callable[[], object]] = [
        lambda: engine.publish("t", [b"x" * chance.randrange(1, 300)]),
        lambda: engine.publish("other", [b"x"]),
        lambda: engine.publish("t", [b"y"] * 5),
        lambda: one_held(client.finish),
        lambda: client.ready(chance.randrange(4)),
    ]
    # What is done and undone stands together, so that a round does both, again and again.
    others: list[list[Callable[[], object]]] = [
        [lambda: acts.pause_topic("t"), lambda: acts.unpause_topic("t")],
        [lambda: acts.pause_channel("t", "b"), lambda: acts.unpause_channel("t", "b")],
        [requeue, pass_some_time],
        [
            lambda: requeue(300),
            pass_some_time,
            lambda: acts.release_deferred("t", "a"),
        ],
        [
            lambda: engine.publish("t", [b"z"], defer_ms=chance.choice((1, 700))),
            pass_some_time,
            lambda: acts.release_deferred("t", "b"),
            lambda: engine.message_acts.finish_messages("t", "b", offsets=some_offsets()),
        ],
        [
            lambda: acts.empty_channel("t", "b"),
            lambda: acts.rewind_channel("t", "b", target=Target(offset=some_offsets()[0])),
        ],
        [
            lambda: acts.rewind_channel("t", "a", target=Target(offset=some_offsets()[0])),
            lambda: acts.requeue_channel("t", "a"),
        ],
        [
            lambda: engine.quarantine.set_max_attempts("t", "a", max_attempts=chance.choice((0, 2))),
            requeue,
            lambda: engine.quarantine.redrive_channel("t", "a", rate=1_000),
            pass_some_time,
        ],
        [
            lambda: engine.message_acts.quarantine_messages("t", "b", offsets=some_offsets()),
            lambda: engine.message_acts.redrive_messages("t", "b", offsets=some_offsets()),
            lambda: engine.message_acts.finish_messages("t", "b", offsets=some_offsets()),
        ],
        [lambda: engine.message_acts.finish_messages("t", "b", offsets=some_offsets())],
        [lambda: engine.message_acts.requeue_messages("t", "a", offsets=some_offsets()), requeue],
    ]
    # Two kinds in a round: what is deferred, for one, would have all of it made anew.
    moves = always + [act for acts_of_kind in chance.sample(others, 2) for act in acts_of_kind]
    kept = 0
    for _ in range(ACTS):
        before = [channel.figures.stats() for channel in topic.channels.values()]
        clock.advance(ms=1)
        try:
            chance.choice(moves)()
        except PenstockError:
            pass  # it has nothing to act on
        settle(engine)
        check_figures(engine)  # before anything else looks for the oldest message
        for old, channel in zip(before, topic.channels.values(), strict=True):
            stats = channel.figures.stats()
            assert stats == made_anew(channel)
            assert stats == old or stats is not old
            kept += stats is old
    engine.close()
    return kept


def test_the_oldest_age_goes_on_from_the_next_due_time(tmp_path: Path) -> None:
    """Of two messages in flight that were deferred, the one that was due first is finished: nothing else changes."""
    clock = ManualClock()
    engine = make_engine(tmp_path, clock)
    engine.acts.create_topic("t")
    settle(engine)
    engine.acts.create_channel("t", "a")
    settle(engine)
    client = Client(engine, "t", "a", ready=10, msg_timeout_ms=60_000)
    for delay_s in (9, 3):
        engine.publish("t", [b"due in %d s" % delay_s], defer_ms=delay_s * 1000)
        settle(engine)
    for _ in range(10):
        pass_time(engine, clock, 1000)
    late, early = sorted(client.sink.received, key=lambda one: one.id)
    before = client.channel.figures.stats()
    assert (before.in_flight_count, client.channel.figures.stats().oldest_ns) == (2, before.oldest_ns)
    client.finish(early.id)
    settle(engine)
    after = client.channel.figures.stats()
    assert after == made_anew(client.channel)
    assert before.oldest_ns is not None
    assert after.oldest_ns is not None
    assert after.oldest_ns - before.oldest_ns == 6 * NS_PER_S
    client.finish(late.id)
    settle(engine)
    assert client.channel.figures.stats().oldest_ns is None
    engine.close()


def test_the_oldest_age_goes_on_behind_a_quarantined_message(tmp_path: Path) -> None:
    """The first unsettled offset stays where it is: nothing but the age changes when the next one is finished."""
    clock = ManualClock()
    engine = make_engine(tmp_path, clock)
    engine.acts.create_topic("t")
    settle(engine)
    engine.acts.create_channel("t", "a")
    settle(engine)
    for _ in range(3):
        engine.publish("t", [b"x"])
        pass_time(engine, clock, 1000)
    engine.message_acts.quarantine_messages("t", "a", offsets=[0])
    settle(engine)
    client = Client(engine, "t", "a", ready=10, msg_timeout_ms=60_000)
    settle(engine)
    before = client.channel.figures.stats()
    assert before.in_flight_count == 2
    client.finish(min(one.id for one in client.sink.received))
    settle(engine)
    after = client.channel.figures.stats()
    assert after == made_anew(client.channel)
    assert before.oldest_ns is not None
    assert after.oldest_ns is not None
    assert after.oldest_ns - before.oldest_ns == NS_PER_S
    engine.close()
