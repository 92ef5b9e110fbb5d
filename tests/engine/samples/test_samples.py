"""Samples: what they tell agrees with what was published and finished, and nobody else ever meets them."""

import errno
import logging
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from queue_engine.engine.acts.log_acts import Target
from queue_engine.engine.engine import Engine
from queue_engine.engine.samples.sample_format import decode_sample
from queue_engine.storage.disk.background import Backgrounds, InlineBackground
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.acts.parameters import START
from queue_engine.vocabulary.errors import ReservedTopicError, TopicNotFoundError
from queue_engine.vocabulary.latency.latency_buckets import bucket_of
from queue_engine.vocabulary.names import SAMPLES_TOPIC
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles
from tests.support.engine import Client, make_engine, settle
from tests.support.samples import INTERVAL_MS, channel_row, samples_of, take_sample, topic_row
from tests.support.storage_kinds import engine_options
from tests.support.stores.background import HeldBackground

MS = 1_000_000
COUNTERS = ("messages", "message_bytes", "finished", "requeued", "timeouts", "disconnects")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def sampled(path: Path, clock: ManualClock, **options: Any) -> Engine:
    return make_engine(path, clock, samples_interval_ms=INTERVAL_MS, broadcast_address="here", **options)


def publish(engine: Engine, *bodies: bytes, topic: str = "orders") -> None:
    engine.publish(topic, bodies)
    settle(engine)


def offer(engine: Engine) -> None:
    """A snapshot, as there is one each second."""
    engine.offer_sample(engine.stats.now(include_clients=False))


def latencies(sample: dict[str, Any], topic: str = "orders", channel: str = "billing") -> dict[int, int]:
    flat = channel_row(sample, topic, channel)["latency"]
    assert flat[::2] == sorted(flat[::2])
    return dict(zip(flat[::2], flat[1::2], strict=True))


def test_a_sample_tells_what_happened_since_the_last_and_how_things_stand(tmp_path: Path, clock: ManualClock) -> None:
    engine = sampled(tmp_path, clock)
    publish(engine, b"waits", topic="idle")
    client = Client(engine, "orders", "billing", ready=4)
    publish(engine, b"1", b"22", b"333", b"4444", b"55555", b"666666")
    engine.publish("orders", [b"later"], defer_ms=3_600_000)
    settle(engine)
    clock.advance(ms=5)
    ids = [one.id for one in client.sink.received]
    client.finish(*ids[:2])
    client.channel.requeue(client.consumer, ids[2], 0, clock.monotonic_ns())
    take_sample(engine, clock, ms=INTERVAL_MS - 5)
    [sample] = samples_of(engine)
    assert (sample["node"], sample["sequence"]) == ("here", 1)
    assert sample["taken_ms"] == clock.time_ns() // MS
    assert sample["started_ms"] == engine.started_at_ns // MS
    figures = sample["engine"]
    assert [figures[name] for name in ("connections", "producers", "topics", "channels", "healthy")] == [1, 0, 2, 1, 1]
    assert figures["rss_bytes"] > 10 << 20
    assert figures["cpu_ms"] > 0
    assert 0 < sample["disk"]["free_bytes"] < sample["disk"]["total_bytes"]
    log = engine.stats.now(include_clients=False).log
    assert (sample["log"] is None) == (log is None)
    if log is not None:
        assert sample["log"]["written_bytes"] == log.written_bytes > 0
        assert (sample["log"]["full"], sample["log"]["damaged"]) == (0, 0)
    idle = topic_row(sample, "idle")
    assert (idle["depth"], idle["waiting"], idle["messages"], idle["clients"]) == (1, 1, 1, 0)
    orders = topic_row(sample, "orders")
    assert (orders["depth"], orders["in_flight"], orders["deferred"], orders["clients"]) == (0, 4, 1, 1)
    assert orders["waiting"] == 0
    assert [orders[name] for name in COUNTERS] == [7, 26, 2, 1, 0, 0]
    assert [orders[f"{name}_total"] for name in COUNTERS] == [7, 26, 2, 1, 0, 0]
    billing = channel_row(sample, "orders", "billing")
    assert (billing["in_flight"], billing["deferred"], billing["messages"], billing["paused"]) == (4, 1, 7, 0)
    assert billing["oldest_age_ms"] == INTERVAL_MS  # of what is in flight
    assert latencies(sample) == {bucket_of(5 * MS): 2}
    assert orders["storage"] == engine.topics["orders"].store.kind
    # The next one: what came since.
    client.finish(client.sink.received[3].id)
    publish(engine, b"7")
    engine.acts.pause_channel("orders", "billing")
    take_sample(engine, clock)
    _, sample = samples_of(engine)
    assert sample["sequence"] == 2
    orders = topic_row(sample, "orders")
    assert [orders[name] for name in COUNTERS] == [1, 1, 1, 0, 0, 0]
    assert [orders[f"{name}_total"] for name in COUNTERS] == [8, 27, 3, 1, 0, 0]
    billing = channel_row(sample, "orders", "billing")
    assert (billing["messages"], billing["messages_total"], billing["finished"], billing["paused"]) == (1, 8, 1, 1)
    assert latencies(sample) == {bucket_of(INTERVAL_MS * MS): 1}


def test_what_was_redelivered_counts_from_when_it_was_published(tmp_path: Path, clock: ManualClock) -> None:
    engine = sampled(tmp_path, clock)
    client = Client(engine, "orders", "billing", ready=10, msg_timeout_ms=2_000)
    publish(engine, b"requeued")
    clock.advance(ms=1)
    publish(engine, b"timed out")
    first, second = client.sink.received
    client.channel.requeue(client.consumer, first.id, 500 * MS, clock.monotonic_ns())
    for _ in range(30):
        clock.advance(ms=100)
        engine.scan_pass()
        settle(engine)
    again = {one.id: one for one in client.sink.received[2:]}
    assert set(again) == {first.id, second.id}
    client.finish(first.id, second.id)
    take_sample(engine, clock)
    [sample] = samples_of(engine)
    assert latencies(sample) == {bucket_of(3_000 * MS): 2}
    assert bucket_of(3_000 * MS) == bucket_of(3_001 * MS)
    row = topic_row(sample, "orders")
    assert [row[name] for name in COUNTERS] == [2, 17, 2, 1, 2, 0]


def test_growth_adds_up_over_restarts_to_what_was_published_and_finished(tmp_path: Path, clock: ManualClock) -> None:
    for _ in range(3):
        engine = sampled(tmp_path, clock)
        client = Client(engine, "orders", "billing", ready=100)
        for _ in range(4):
            publish(engine, b"x", b"y")
            clock.advance(ms=2)
            client.finish(*[one.id for one in client.sink.received[-2:]])
            take_sample(engine, clock)
        publish(engine, b"z")  # and no sample before the stop
        client.finish(client.sink.received[-1].id)
        engine.close()
        clock.advance(ms=60_000)
    engine = sampled(tmp_path, clock)
    samples = samples_of(engine)
    assert [one["sequence"] for one in samples] == [1, 2, 3, 4, 5] * 3
    assert len({one["started_ms"] for one in samples}) == 3
    rows = [channel_row(one, "orders", "billing") for one in samples]
    assert sum(row["finished"] for row in rows) == 27
    assert sum(topic_row(one, "orders")["messages"] for one in samples) == 27
    assert [row["finished_total"] for row in rows] == [2, 4, 6, 8, 9] * 3
    assert sum(sum(row["latency"][1::2]) for row in rows) == 27
    page = engine.log.read_messages(SAMPLES_TOPIC, Target(word=START), 100)
    assert [one.offset for one in page.messages] == list(range(15))


def test_a_kill_loses_no_sample_and_no_offset_is_given_twice(tmp_path: Path, clock: ManualClock) -> None:
    for _ in range(3):
        files = FaultyFiles()
        engine = sampled(tmp_path, clock, files=files)
        publish(engine, b"x")
        take_sample(engine, clock)
        take_sample(engine, clock)
        files.abandon()
    engine = sampled(tmp_path, clock)
    page = engine.log.read_messages(SAMPLES_TOPIC, Target(word=START), 100)
    offsets = [one.offset for one in page.messages]
    assert len(offsets) == 6
    assert offsets == sorted(set(offsets))
    assert [topic_row(decode_sample(one.body), "orders")["messages"] for one in page.messages] == [1, 0] * 3
    assert page.oldest_offset == 0


def test_what_is_deleted_and_made_again_grows_from_nothing(tmp_path: Path, clock: ManualClock) -> None:
    engine = sampled(tmp_path, clock)
    client = Client(engine, "orders", "billing", ready=10)
    publish(engine, b"1", b"2", b"3", b"4")
    client.finish(*[one.id for one in client.sink.received])
    take_sample(engine, clock)
    engine.acts.delete_channel("orders", "billing")
    client = Client(engine, "orders", "billing", ready=10)
    publish(engine, b"5", b"6", b"7", b"8", b"9")
    client.finish(*[one.id for one in client.sink.received])
    take_sample(engine, clock)
    row = channel_row(samples_of(engine)[-1], "orders", "billing")
    # More than before: only the number tells that it is another.
    assert (row["messages"], row["finished"], row["finished_total"]) == (5, 5, 5)
    assert sum(row["latency"][1::2]) == 5
    assert topic_row(samples_of(engine)[-1], "orders")["messages"] == 5
    engine.acts.delete_topic("orders")
    publish(engine, *[b"x"] * 20)
    take_sample(engine, clock)
    row = topic_row(samples_of(engine)[-1], "orders")
    assert (row["messages"], row["messages_total"], row["finished"]) == (20, 20, 0)


def test_a_sample_that_could_not_be_written_is_told_by_the_next(
    tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    files = FaultyFiles()
    engine = sampled(tmp_path, clock, files=files)
    client = Client(engine, "orders", "billing", ready=10)
    take_sample(engine, clock)
    publish(engine, b"1", b"2")
    client.finish(*[one.id for one in client.sink.received])
    caplog.set_level(logging.INFO)
    files.bytes_free = 0
    for _ in range(3):
        clock.advance(ms=INTERVAL_MS)
        offer(engine)
    assert engine.stats.health == "OK"
    files.heal()
    publish(engine, b"3")  # the topics' log met no trouble
    assert len([message for message in caplog.messages if "samples left out" in message]) == 1
    for _ in range(3):
        clock.advance(ms=1_000)
        engine.tick()
    take_sample(engine, clock, ms=INTERVAL_MS)
    first, second = samples_of(engine)
    assert (first["sequence"], second["sequence"]) == (1, 5)
    row = topic_row(second, "orders")
    assert (row["messages"], row["finished"], row["messages_total"]) == (3, 2, 3)
    assert sum(latencies(second).values()) == 2
    assert "samples go on left_out=3" in caplog.messages


def test_a_fault_of_the_disk_ends_samples_and_nothing_else(tmp_path: Path, clock: ManualClock) -> None:
    files = FaultyFiles()
    engine = sampled(tmp_path, clock, files=files)
    publish(engine, b"1")
    take_sample(engine, clock)
    files.fail("write", errno.EIO)
    clock.advance(ms=INTERVAL_MS)
    offer(engine)
    ticket = engine.publish("orders", [b"2"])
    settle(engine)
    assert ticket.done
    assert ticket.error is None
    assert engine.stats.health == "OK"
    take_sample(engine, clock)
    assert len(samples_of(engine)) == 1
    engine.close()
    engine = sampled(tmp_path, clock)
    take_sample(engine, clock)
    assert len(samples_of(engine)) == 2


def test_a_sample_is_encoded_on_the_worker_and_the_next_waits_for_it(
    tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    background = HeldBackground()
    engine = Engine(
        engine_options(data_path=str(tmp_path), samples_interval_ms=INTERVAL_MS),
        clock=clock,
        files=Files(),
        backgrounds=Backgrounds(background, InlineBackground(), background),
    )
    engine.open()
    engine.acts.create_topic("orders")
    background.finish()

    def growths(engine: Engine) -> list[int]:
        return [topic_row(one, "orders")["messages"] for one in samples_of(engine)]

    def publish_and_offer(count: int) -> None:
        engine.publish("orders", [b"x"] * count)
        settle(engine)
        clock.advance(ms=INTERVAL_MS)
        offer(engine)

    publish_and_offer(1)
    assert growths(engine) == []
    publish_and_offer(2)  # the worker is not done with the first
    background.finish()
    assert growths(engine) == [1]
    publish_and_offer(4)
    background.finish()
    assert growths(engine) == [1, 6]
    publish_and_offer(8)
    engine.publish("orders", [b"late"])
    settle(engine)
    engine.close()
    background.finish()  # too late: the last sample told what it would have
    assert not any("left out" in message for message in caplog.messages)
    assert growths(sampled(tmp_path, clock)) == [1, 6, 9]


def test_snapshots_between_two_samples_make_none(tmp_path: Path, clock: ManualClock) -> None:
    engine = sampled(tmp_path, clock)
    for _ in range(35):
        clock.advance(ms=1_000)
        offer(engine)
    assert [one["taken_ms"] - engine.started_at_ns // MS for one in samples_of(engine)] == [10_000, 20_000, 30_000]


def test_samples_show_up_nowhere_else(tmp_path: Path, clock: ManualClock) -> None:
    engine = sampled(tmp_path, clock)
    take_sample(engine, clock)
    take_sample(engine, clock)
    snapshot = engine.stats.now(include_clients=False)
    assert snapshot.topics == ()
    assert snapshot.log is None or snapshot.log.written_bytes == 0
    assert samples_of(engine)[-1]["topics"]["topic"] == []
    assert SAMPLES_TOPIC.encode() not in (tmp_path / "topology.json").read_bytes()
    assert engine.stats.health == "OK"
    place = engine.log.topic_state(SAMPLES_TOPIC)
    assert (place.number, place.oldest_offset, place.synced_offset, place.end_offset) == (1, 0, 2, 2)
    assert engine.log.read_frames(SAMPLES_TOPIC, 0, 1 << 20).count == 2
    assert len(engine.log.read_records(SAMPLES_TOPIC, 1, 1 << 20).records) > 0


def test_nobody_uses_the_reserved_name(tmp_path: Path, clock: ManualClock) -> None:
    engine = sampled(tmp_path, clock)
    take_sample(engine, clock)
    acts: list[tuple[Any, ...]] = [
        ("publish", SAMPLES_TOPIC, [b"x"]),
        ("publish_turn", SAMPLES_TOPIC, [b"x"]),
        ("acts.create_topic", SAMPLES_TOPIC),
        ("acts.delete_topic", SAMPLES_TOPIC),
        ("acts.empty_topic", SAMPLES_TOPIC),
        ("acts.pause_topic", SAMPLES_TOPIC),
        ("acts.unpause_topic", SAMPLES_TOPIC),
        ("acts.create_channel", SAMPLES_TOPIC, "c"),
        ("acts.delete_channel", SAMPLES_TOPIC, "c"),
        ("acts.pause_channel", SAMPLES_TOPIC, "c"),
        ("log.peek_channel", SAMPLES_TOPIC, "c", 1),
    ]
    for name, *arguments in acts:
        with pytest.raises(ReservedTopicError, match="is reserved: the server keeps its own samples there"):
            attrgetter(name)(engine)(*arguments)
    with pytest.raises(ReservedTopicError):
        engine.log.write_batch(SAMPLES_TOPIC, [b"x"], batch_key=b"k" * 16)
    with pytest.raises(ReservedTopicError):
        engine.log.lease(SAMPLES_TOPIC, 0, ttl_ms=60_000)
    with pytest.raises(ReservedTopicError):
        Client(engine, SAMPLES_TOPIC, "c")
    assert engine.topics == {}
    assert len(samples_of(engine)) == 1


def test_without_an_interval_nothing_is_made(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock, samples_interval_ms=0)
    take_sample(engine, clock)
    assert not (tmp_path / "samples").exists()
    with pytest.raises(TopicNotFoundError, match="no samples are stored"):
        engine.log.read_messages(SAMPLES_TOPIC, Target(word=START), 1)
    engine.close()


def test_a_topic_from_before_the_name_was_reserved_is_kept_until_it_is_deleted(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as before:
        before.setattr("queue_engine.engine.catalog.catalog.is_reserved", lambda name: False)
        engine = make_engine(tmp_path, clock)
        publish(engine, b"old", topic=SAMPLES_TOPIC)
        engine.close()
    engine = sampled(tmp_path, clock)
    assert any("no samples are taken until it is deleted" in message for message in caplog.messages)
    take_sample(engine, clock)
    assert engine.catalog.topic(SAMPLES_TOPIC).store.depth == 1
    with pytest.raises(ReservedTopicError):
        engine.catalog.subscribe(SAMPLES_TOPIC, "c", None)
    engine.acts.delete_topic(SAMPLES_TOPIC)
    take_sample(engine, clock)
    assert len(samples_of(engine)) == 1
