"""Reading without consuming, rewinding, and channels that begin elsewhere: what only a topic of the log can do."""

from collections.abc import Callable
from pathlib import Path

import pytest

from queue_engine.engine.acts.log_acts import Target
from queue_engine.engine.engine import Engine
from queue_engine.vocabulary.errors import InvalidStorageError, LimitError
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, settle

START, END = Target(word="start"), Target(word="end")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def engine(tmp_path: Path, clock: ManualClock) -> Engine:
    return make_engine(tmp_path, clock)


def publish(engine: Engine, *bodies: bytes, topic: str = "orders") -> None:
    engine.publish(topic, bodies)
    settle(engine)


def bodies_at(engine: Engine, target: Target, count_max: int = 100) -> list[bytes]:
    return [one.body for one in engine.log.read_messages("orders", target, count_max).messages]


def test_messages_are_read_from_anywhere_and_stay(engine: Engine, clock: ManualClock) -> None:
    publish(engine, b"a", b"b")
    clock.advance(ms=1_000)
    later_ns = clock.time_ns()
    publish(engine, b"c", b"d")
    engine.acts.create_channel("orders", "billing")
    settle(engine)
    assert bodies_at(engine, START) == [b"a", b"b", b"c", b"d"]
    assert bodies_at(engine, Target(offset=1), 2) == [b"b", b"c"]
    assert bodies_at(engine, Target(time_ns=later_ns)) == [b"c", b"d"]
    assert bodies_at(engine, Target(time_ns=later_ns + 1)) == []
    assert bodies_at(engine, END) == []
    page = engine.log.read_messages("orders", Target(offset=1), 2)
    assert (page.next_offset, page.oldest_offset, page.end_offset) == (3, 0, 4)
    client = Client(engine, "orders", "billing", ready=10)
    assert client.bodies == [b"a", b"b", b"c", b"d"]
    assert [one.message_id.encode() for one in page.messages] == [one.id for one in client.sink.received[1:3]]


def test_a_peek_shows_what_comes_next_in_its_order(engine: Engine) -> None:
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    publish(engine, b"a", b"b", b"c", b"d")
    client = Client(engine, "orders", "billing", ready=1)
    peeked = engine.log.peek_channel("orders", "billing", 2)
    assert [one.body for one in peeked.messages] == [b"b", b"c"]
    client.finish(client.sink.received[0].id)
    assert client.bodies == [b"a", b"b"]


def test_bulk_frames_are_what_a_consumer_gets(engine: Engine) -> None:
    publish(engine, *[b"%d" % number for number in range(500)])
    engine.acts.create_channel("orders", "billing")
    settle(engine)
    client = Client(engine, "orders", "billing", ready=1_000)
    whole = b"".join(run.frames for run in client.sink.runs)
    read, at = b"", 0
    while at < 500:
        frames = engine.log.read_frames("orders", at, 5_000)
        assert frames.first_offset == at
        assert 0 < len(frames.frames) <= 5_000
        assert frames.synced_offset == 500
        read, at = read + frames.frames, frames.next_offset
    assert read == whole


@pytest.mark.parametrize("bytes_max", [0, 1, 50])
def test_bulk_frames_go_on_by_a_message_however_few_bytes_are_asked_for(engine: Engine, bytes_max: int) -> None:
    publish(engine, b"x" * 1_000, b"y" * 2_000, b"z")
    settle(engine)
    counts, at = [], 0
    while at < 3 and len(counts) < 10:
        frames = engine.log.read_frames("orders", at, bytes_max)
        counts.append(frames.count)
        at = frames.next_offset
    assert counts == [1, 1, 1]


def test_nothing_unsynced_is_read_in_bulk(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock, sync="os")
    publish(engine, b"a")
    frames = engine.log.read_frames("orders", 0, 5_000)
    assert (frames.count, frames.next_offset, frames.synced_offset) == (0, 0, 0)
    assert bodies_at(engine, START) == [b"a"]


def test_a_rewind_delivers_again_and_a_late_fin_is_not_taken(engine: Engine) -> None:
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    publish(engine, b"a", b"b", b"c")
    client = Client(engine, "orders", "billing", ready=2)
    client.finish(client.sink.received[0].id)
    held = client.sink.received[1].id
    preview = engine.log.seek_preview("orders", "billing", START)
    assert (preview.offset, preview.depth, preview.depth_now) == (0, 3, 2)
    client.ready(0)
    outcome, ticket = engine.acts.rewind_channel("orders", "billing", target=START)
    settle(engine)
    assert (outcome.depth, outcome.in_flight, ticket.error) == (3, 2, None)
    assert client.finish(held) == ["ID not in flight"]
    client.ready(10)
    assert client.bodies[3:] == [b"a", b"b", b"c"]


def test_a_skip_to_the_end_is_a_skip_for_good(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock)
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    publish(engine, b"a", b"b")
    engine.acts.rewind_channel("orders", "billing", target=END)
    settle(engine)
    publish(engine, b"c")
    engine.close()
    engine = make_engine(tmp_path, clock)
    assert Client(engine, "orders", "billing", ready=10).bodies == [b"c"]


def test_a_skip_delivers_nothing_again_that_was_finished_behind_it(tmp_path: Path, clock: ManualClock) -> None:
    """A consumer that has passed the offset in the meantime gets nothing twice but what it holds."""
    engine = make_engine(tmp_path, clock)
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    publish(engine, b"a", b"b", b"c", b"d", b"e")
    client = Client(engine, "orders", "billing", ready=4)
    received = {one.body: one.id for one in client.sink.received}
    client.finish(received[b"c"])  # then it gets e
    outcome, ticket = engine.acts.rewind_channel("orders", "billing", target=Target(offset=2), keep_finished=True)
    settle(engine)
    assert (ticket.error, outcome.in_flight, outcome.depth) == (None, 4, 2)
    assert client.finish(received[b"a"]) == ["ID not in flight"]
    assert client.bodies == [b"a", b"b", b"c", b"d", b"e", b"d", b"e"]
    engine.close()
    engine = make_engine(tmp_path, clock)
    again = Client(engine, "orders", "billing", ready=10)
    assert [(one.body, one.attempts) for one in again.sink.received] == [(b"d", 3), (b"e", 3)]


def test_a_skip_beyond_what_was_handed_out_goes_there(engine: Engine) -> None:
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    publish(engine, b"a", b"b", b"c")
    preview = engine.log.seek_preview("orders", "billing", END)
    assert (preview.offset, preview.next_offset) == (3, 0)
    publish(engine, b"d")
    engine.acts.rewind_channel("orders", "billing", target=Target(offset=preview.offset), keep_finished=True)
    settle(engine)
    assert Client(engine, "orders", "billing", ready=10).bodies == [b"d"]


def test_a_preview_counts_messages_finished_by_hand_ahead_of_the_cursor_among_those_repeated(
    tmp_path: Path, clock: ManualClock
) -> None:
    """So they come back by a rewind to a place at or before them, also after a restart."""
    engine = make_engine(tmp_path, clock)
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    publish(engine, b"a", b"b", b"c", b"d")
    engine.message_acts.finish_messages("orders", "billing", offsets=[0, 2])
    settle(engine)
    for is_restarted in (False, True):
        if is_restarted:
            engine.close()
            engine = make_engine(tmp_path, clock)
        for place, depth in ((START, 4), (Target(offset=2), 2)):
            preview = engine.log.seek_preview("orders", "billing", place)
            assert (preview.next_offset, preview.depth, preview.depth_now) == (3, depth, 2), (is_restarted, place)
    preview = engine.log.seek_preview("orders", "billing", Target(offset=3))
    assert (preview.next_offset, preview.depth) == (3, 1)
    engine.acts.rewind_channel("orders", "billing", target=START, is_exact=True)
    settle(engine)
    assert Client(engine, "orders", "billing", ready=10).bodies == [b"a", b"b", b"c", b"d"]


def test_an_exact_place_that_is_gone_is_refused(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock, log_segment_bytes=1 << 20)
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    client = Client(engine, "orders", "billing", ready=10)
    for _ in range(4):
        publish(engine, *[b"x" * 500_000] * 2)
        client.finish(*[one.id for one in client.sink.received[-2:]])
        clock.advance(ms=61_000)
        engine.tick()
        settle(engine)
    oldest = engine.log.seek_preview("orders", "billing", START).offset
    assert oldest > 0
    with pytest.raises(LimitError, match=f"offset 0 of orders is gone: the oldest is {oldest}"):
        engine.acts.rewind_channel("orders", "billing", target=Target(offset=0), is_exact=True)


def test_a_seek_survives_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock)
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    engine.acts.create_channel("orders", "keeper")
    publish(engine, b"a", b"b", b"c")
    client = Client(engine, "orders", "billing", ready=10)
    client.finish(*[one.id for one in client.sink.received])
    engine.acts.rewind_channel("orders", "billing", target=Target(offset=1))
    engine.close()
    engine = make_engine(tmp_path, clock)
    assert Client(engine, "orders", "billing", ready=10).bodies == [b"b", b"c"]


def test_a_new_channel_begins_where_it_is_told(engine: Engine, clock: ManualClock) -> None:
    publish(engine, b"a")
    clock.advance(ms=1_000)
    later_ns = clock.time_ns()
    publish(engine, b"b")
    engine.acts.create_channel("orders", "first")
    settle(engine)
    for name, start in (("all", START), ("none", END), ("later", Target(time_ns=later_ns)), ("one", Target(offset=1))):
        engine.acts.create_channel("orders", name, start=start)
    settle(engine)
    depths = {name: channel.backlog.depth for name, channel in engine.catalog.topic("orders").channels.items()}
    assert depths == {"first": 2, "all": 2, "none": 0, "later": 1, "one": 1}


def test_a_place_beyond_the_end_is_refused(engine: Engine) -> None:
    publish(engine, b"a")
    engine.acts.create_channel("orders", "billing")
    with pytest.raises(LimitError, match="offset 2 of orders is beyond its end, 1"):
        engine.acts.rewind_channel("orders", "billing", target=Target(offset=2))


def test_a_disk_queue_says_that_it_can_not(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock)
    engine.acts.create_topic("old", storage="diskqueue")
    engine.acts.create_channel("old", "c")
    with pytest.raises(InvalidStorageError, match="topic old has storage kind diskqueue"):
        engine.log.read_messages("old", START, 1)
    with pytest.raises(InvalidStorageError):
        engine.acts.rewind_channel("old", "c", target=START)
    with pytest.raises(InvalidStorageError):
        engine.acts.create_channel("old", "d", start=START)
    assert list(engine.catalog.topic("old").channels) == ["c"]


def test_a_look_with_a_wrong_argument_stops_no_channel(engine: Engine) -> None:
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    publish(engine, b"a", b"b")
    wrong: list[Callable[[], object]] = [
        lambda: engine.log.peek_channel("orders", "billing", "two"),
        lambda: engine.log.seek_preview("orders", "billing", Target(offset="2")),
        lambda: engine.log.seek_preview("orders", "billing", Target()),
    ]
    for look in wrong:
        with pytest.raises((TypeError, AssertionError)):
            look()
        assert engine.topics["orders"].channels["billing"].figures.stats().fenced == ""
    assert [one.body for one in engine.log.peek_channel("orders", "billing", 2).messages] == [b"a", b"b"]
