"""What goes on in topics of disk queues whose readings are kept is told."""

from pathlib import Path
from typing import Any

from queue_engine.engine import Engine
from queue_engine.service.http.stats_templates import StatsTemplates
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, make_topic, pass_time, settle
from tests.support.kept_readings import answered, kept_names, read_anew, two_resting

WAITING = ("depth", "backend_depth", "message_count", "dropped_count", "oldest_age_ms")


def until_kept(engine: Engine, *names: str) -> None:
    for _ in range(2):
        answered(engine, StatsTemplates())
    assert kept_names(engine) >= set(names)


def channels_of(engine: Engine, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = {one["topic_name"]: one for one in answered(engine, StatsTemplates())}[name][
        "channels"
    ]
    return found


def publish(engine: Engine, name: str, *bodies: bytes, defer_ms: int = 0) -> None:
    engine.publish(name, list(bodies), defer_ms=defer_ms)
    settle(engine)


def test_messages_that_go_to_disk_are_told(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = make_engine(tmp_path, clock, mem_queue_size=7)
    two_resting(engine)
    until_kept(engine, "t", "other")
    clock.advance(ms=70)
    publish(engine, "t", b"6", b"7")
    publish(engine, "t", b"8", b"9" * 100)
    assert kept_names(engine) == {"t", "other"}
    for one in channels_of(engine, "t"):
        assert [one[key] for key in WAITING] == [9, 2, 9, 0, 70]
        assert one["disk_bytes"] > 100
    assert answered(engine, StatsTemplates()) == read_anew(engine)
    engine.close()


def test_messages_that_an_ephemeral_channel_drops_are_told(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, ManualClock(), mem_queue_size=7)
    make_topic(engine, "t", "kept", "some#ephemeral")
    publish(engine, "t", *[b"x"] * 5)
    until_kept(engine, "t")
    publish(engine, "t", *[b"y"] * 2)
    assert kept_names(engine) == {"t"}
    publish(engine, "t", *[b"z"] * 3)
    assert [[one[key] for key in WAITING[:4]] for one in channels_of(engine, "t")] == [[10, 3, 10, 0], [7, 0, 10, 3]]
    engine.close()


def test_messages_that_turn_out_unreadable_are_told(tmp_path: Path) -> None:
    """Nothing is delivered of them."""
    engine = make_engine(tmp_path, ManualClock(), mem_queue_size=0)
    make_topic(engine, "t", "a")
    publish(engine, "t", b"x")
    consumer = Client(engine, "t", "a", ready=1)
    consumer.ready(0)
    (data_file,) = tmp_path.rglob("t:a.diskqueue.000000.dat")
    written = data_file.stat().st_size
    publish(engine, "t", b"y", b"z")  # not read ahead
    until_kept(engine, "t")
    assert [one["depth"] for one in channels_of(engine, "t")] == [2]
    data_file.write_bytes(data_file.read_bytes()[:written] + b"\xff" * written * 2)
    consumer.ready(9)
    for _ in range(3):
        assert [one["depth"] for one in channels_of(engine, "t")] == [0]
    assert consumer.bodies == [b"x"]
    engine.close()


def test_deferred_messages_that_come_to_a_kept_topic_are_told(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = make_engine(tmp_path, clock)
    two_resting(engine)
    until_kept(engine, "t")
    publish(engine, "t", b"later", defer_ms=100)
    assert kept_names(engine) == {"other"}
    assert [(one["depth"], one["deferred_count"]) for one in channels_of(engine, "t")] == [(5, 1)] * 2
    pass_time(engine, clock, 200)
    until_kept(engine, "t")
    assert [(one["depth"], one["deferred_count"]) for one in channels_of(engine, "t")] == [(6, 0)] * 2
    engine.close()


def test_a_message_published_after_the_clock_was_set_back_is_the_oldest(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = make_engine(tmp_path, clock)
    two_resting(engine)
    until_kept(engine, "t")
    clock.set_back(ms=90)
    publish(engine, "t", b"of before")
    clock.advance(ms=30)
    assert [one["oldest_age_ms"] for one in channels_of(engine, "t")] == [30, 30]
    until_kept(engine, "t")
    publish(engine, "t", b"of now")
    assert kept_names(engine) == {"t", "other"}
    engine.close()


def test_the_clock_may_be_set_back_over_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = make_engine(tmp_path, clock, mem_queue_size=0)
    two_resting(engine)
    engine.close()
    clock.set_back(ms=90)
    engine = make_engine(tmp_path, clock, mem_queue_size=0)
    until_kept(engine, "t")
    publish(engine, "t", b"of before")
    clock.advance(ms=30)
    assert [one["oldest_age_ms"] for one in channels_of(engine, "t")] == [30, 30]
    engine.close()


def test_a_message_published_before_the_time_when_the_oldest_was_due_is_the_oldest(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = make_engine(tmp_path, clock)
    make_topic(engine, "t", "a")
    publish(engine, "t", b"later", defer_ms=100)
    pass_time(engine, clock, 200)
    until_kept(engine, "t")
    clock.set_back(ms=150)
    publish(engine, "t", b"behind its publish time")
    clock.advance(ms=80)
    assert [one["oldest_age_ms"] for one in channels_of(engine, "t")] == [80]
    engine.close()


def test_nothing_kept_is_used_while_messages_in_flight_take_all_their_memory(tmp_path: Path) -> None:
    """The topics that they hold back say so."""
    engine = make_engine(tmp_path, ManualClock(), max_in_flight_bytes=1_000)
    two_resting(engine)
    Client(engine, "t", "a", ready=1).ready(0)
    until_kept(engine, "t", "other")
    publish(engine, "other", b"x" * 2_000)
    consumer = Client(engine, "other", "a", ready=6)
    assert kept_names(engine) == set()
    assert [bool(one["held_back"]) for one in channels_of(engine, "t")] == [True, False]
    consumer.finish(*(one.id for one in consumer.sink.received))
    assert [bool(one["held_back"]) for one in channels_of(engine, "t")] == [False, False]
    until_kept(engine, "t", "other")
    engine.close()


def test_a_reading_that_counts_lost_messages_is_not_kept(tmp_path: Path) -> None:
    """Looking for the oldest one finds that they are unreadable, behind counting them."""
    engine = make_engine(tmp_path, ManualClock())
    two_resting(engine)
    store = engine.topics["t"].store
    assert store.resting({"a": 5, "b": 5}) is not None
    assert store.resting({"a": 5, "b": 6}) is None
    engine.close()


def test_messages_that_an_ephemeral_topic_without_channels_drops_are_told(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, ManualClock(), mem_queue_size=0)
    make_topic(engine, "t#ephemeral")
    until_kept(engine, "t#ephemeral")
    publish(engine, "t#ephemeral", b"x")
    for _ in range(2):
        (topic,) = answered(engine, StatsTemplates())
        assert [topic[key] for key in ("depth", "message_count", "dropped_count")] == [0, 1, 1]
    engine.close()
