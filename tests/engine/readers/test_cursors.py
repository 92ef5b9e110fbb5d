"""Pipeline cursors on a whole engine: no act on channels concerns them, and what they have not passed is there."""

from pathlib import Path

import pytest

from queue_engine.engine.acts import cursor_acts
from queue_engine.engine.acts.log_acts import Target, log_store_of
from queue_engine.engine.engine import Engine
from queue_engine.storage.readers.reader_registry import Maker
from queue_engine.vocabulary.errors import (
    CursorNotFoundError,
    InvalidCursorError,
    InvalidStorageError,
    LimitError,
    TopicChangedError,
    TopicNotFoundError,
)
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, settle

BODY = b"x" * 1_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def started(path: Path, clock: ManualClock, **options: object) -> Engine:
    sizes = {"log_segment_bytes": 1 << 16, "max_msg_size": 2_000, "max_body_size": 4_000}
    return make_engine(path, clock, **sizes, **options)


@pytest.fixture
def engine(tmp_path: Path, clock: ManualClock) -> Engine:
    engine = started(tmp_path, clock)
    engine.acts.create_topic("orders")
    settle(engine)
    return engine


def publish(engine: Engine, count: int) -> None:
    for number in range(count):
        engine.publish("orders", [b"%d " % number + BODY])
        settle(engine)


def later(engine: Engine, clock: ManualClock) -> None:
    for _ in range(3):
        clock.advance(ms=2_000)
        engine.tick()
        settle(engine)


def oldest_offset(engine: Engine) -> int:
    return log_store_of(engine.catalog.topic("orders")).oldest_offset


def number_of(engine: Engine) -> int:
    return engine.catalog.topic("orders").number


def read(engine: Engine, offset: int) -> list[int]:
    page = engine.log.read_messages("orders", Target(offset=offset), 1_000)
    return [int(one.body.split()[0]) for one in page.messages]


def test_a_cursor_begins_where_it_is_told_and_is_created_once(engine: Engine) -> None:
    publish(engine, 5)
    outcome, ticket = engine.cursors.create("orders", cursor="archive")
    assert (outcome.created, outcome.depth, ticket.done, ticket.error) == (True, 5, True, None)
    engine.cursors.create("orders", cursor="tail", start=Target(word="end"))
    engine.cursors.create("orders", cursor="middle", start=Target(offset=3))
    publish(engine, 2)
    assert [(one.cursor, one.offset, one.depth) for one in engine.cursors.all().cursors] == [
        ("archive", 0, 7),
        ("middle", 3, 4),
        ("tail", 5, 2),
    ]
    again, ticket = engine.cursors.create("orders", cursor="tail", start=Target(word="start"))
    assert (again.created, again.depth, ticket.done) == (False, 2, True)
    assert engine.cursors.one("orders", "tail").offset == 5


def test_a_cursor_tells_where_it_stands(engine: Engine, clock: ManualClock) -> None:
    publish(engine, 5)
    created_ms = clock.time_ns() // 1_000_000
    engine.cursors.create("orders", cursor="archive", start=Target(offset=2))
    clock.advance(ms=5_000)
    one = engine.cursors.one("orders", "archive")
    store = log_store_of(engine.catalog.topic("orders"))
    assert (one.topic, one.number, one.id_base) == ("orders", store.number, store.id_base)
    assert (one.oldest_offset, one.offset, one.synced_offset, one.end_offset) == (0, 2, 5, 5)
    assert (one.depth, one.created_ms, one.is_warned, one.gaps) == (3, created_ms, False, ())
    assert 3_000 < one.lag_bytes < 5_000
    assert one.retention_bytes == 10 << 30


def test_a_cursor_is_never_the_first_channel_of_a_topic(engine: Engine) -> None:
    publish(engine, 4)
    engine.cursors.create("orders", cursor="archive")
    publish(engine, 2)
    (topic,) = engine.stats.now(topic="orders").topics
    assert (topic.depth, topic.channels) == (6, ())
    assert [one.cursor for one in topic.cursors] == ["archive"]
    client = Client(engine, "orders", "archive", ready=10)
    assert len(client.sink.received) == 6, "the first channel has what waited, whatever it is called"
    assert engine.cursors.one("orders", "archive").depth == 6


def test_no_act_on_topics_and_channels_moves_a_cursor(engine: Engine, clock: ManualClock) -> None:
    publish(engine, 100)
    engine.cursors.create("orders", cursor="archive", start=Target(offset=10))
    before = engine.cursors.one("orders", "archive")
    engine.acts.empty_topic("orders", channels_too=True)
    engine.acts.create_channel("orders", "archive")
    engine.acts.pause_topic("orders")
    engine.acts.unpause_topic("orders")
    engine.acts.rewind_channel("orders", "archive", target=Target(word="end"))
    engine.acts.pause_channel("orders", "archive")
    engine.acts.empty_channel("orders", "archive")
    engine.acts.delete_channel("orders", "archive")
    later(engine, clock)
    assert engine.cursors.one("orders", "archive") == before
    assert read(engine, 10) == list(range(10, 100))


def test_what_it_has_not_passed_stays_and_moving_lets_go(engine: Engine, clock: ManualClock) -> None:
    engine.acts.create_channel("orders", "billing")
    engine.cursors.create("orders", cursor="archive")
    publish(engine, 200)
    client = Client(engine, "orders", "billing", ready=2_000)
    client.finish(*[one.id for one in client.sink.received])
    later(engine, clock)
    assert oldest_offset(engine) == 0
    assert engine.stats.now(topic="orders", include_clients=False).topics[0].channels[0].depth == 0
    stats, ticket = engine.cursors.move("orders", cursor="archive", number=number_of(engine), offset=120)
    assert (stats.offset, stats.depth, ticket.done, ticket.error) == (120, 80, True, None)
    later(engine, clock)
    assert 50 < oldest_offset(engine) <= 120
    assert read(engine, 120) == list(range(120, 200))
    outcome, _ = engine.cursors.delete("orders", cursor="archive")
    assert outcome.depth == 80
    later(engine, clock)
    assert oldest_offset(engine) > 120
    (ended,) = engine.cursors.all().ended
    assert (ended.cursor.offset, ended.next_offset, ended.reason) == (120, 200, "deleted")


def test_a_cursor_goes_forward_only_within_what_is_on_the_disk_and_on_its_own_topic(engine: Engine) -> None:
    publish(engine, 10)
    number = number_of(engine)
    engine.cursors.create("orders", cursor="archive")
    engine.cursors.move("orders", cursor="archive", number=number, offset=7)
    stats, ticket = engine.cursors.move("orders", cursor="archive", number=number, offset=3)
    assert (stats.offset, ticket.done) == (7, True)
    with pytest.raises(LimitError, match="offset 11 of orders is beyond the synced part of the log, which ends at 10"):
        engine.cursors.move("orders", cursor="archive", number=number, offset=11)
    engine.acts.delete_topic("orders")
    engine.acts.create_topic("orders")
    engine.cursors.create("orders", cursor="archive")
    with pytest.raises(TopicChangedError, match=f"topic orders has the number {number_of(engine)}, not {number}"):
        engine.cursors.move("orders", cursor="archive", number=number, offset=0)
    assert [(one.cursor.topic_number, one.reason) for one in engine.cursors.all("orders").ended] == [
        (number, "topic deleted")
    ]


def test_what_is_not_synced_is_not_passed(tmp_path: Path, clock: ManualClock) -> None:
    engine = started(tmp_path, clock, sync="interval", sync_interval_ms=60_000)
    engine.acts.create_topic("orders")
    engine.cursors.create("orders", cursor="archive")
    publish(engine, 3)
    number = number_of(engine)
    assert engine.cursors.one("orders", "archive").synced_offset == 0
    with pytest.raises(LimitError, match="offset 1 of orders is beyond"):
        engine.cursors.move("orders", cursor="archive", number=number, offset=1)
    clock.advance(ms=61_000)
    engine.tick()
    assert engine.cursors.move("orders", cursor="archive", number=number, offset=3)[0].offset == 3


def test_where_a_token_to_consume_would_keep_too_much_the_refusal_names_the_act(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = Maker("token copier", is_limited=True)
    publish(engine, 5)
    engine.cursors.create("orders", cursor="copy", start=Target(word="end"), maker=maker)
    monkeypatch.setattr(cursor_acts, "CONSUMER_CURSOR_BYTES", 1_000)
    with pytest.raises(LimitError, match="cursor orders/copy is not begun there: at offset 0 it would keep"):
        engine.cursors.restart("orders", cursor="copy", maker=maker)
    with pytest.raises(LimitError, match="cursor orders/more is not created: at offset 0 it would keep"):
        engine.cursors.create("orders", cursor="more", maker=maker)
    assert [(one.cursor, one.offset) for one in engine.cursors.all().cursors] == [("copy", 5)]


def test_a_cursor_outlives_a_restart(engine: Engine, tmp_path: Path, clock: ManualClock) -> None:
    publish(engine, 50)
    engine.cursors.create("orders", cursor="archive")
    engine.cursors.move("orders", cursor="archive", number=number_of(engine), offset=20)
    engine.acts.empty_topic("orders")
    before = engine.cursors.one("orders", "archive")
    engine.close()
    engine = started(tmp_path, clock)
    later(engine, clock)
    after = engine.cursors.one("orders", "archive")
    assert (after.offset, after.depth, after.created_ms) == (20, 30, before.created_ms)
    assert read(engine, 20) == list(range(20, 50))
    engine.close()


def test_beyond_the_limit_messages_are_given_up_and_the_figures_tell(tmp_path: Path, clock: ManualClock) -> None:
    # Without the trash, which would keep what was emptied.
    engine = started(tmp_path, clock, pipeline_retention_bytes=100_000, trash_age_ms=0)
    engine.acts.create_topic("orders")
    engine.cursors.create("orders", cursor="archive")
    publish(engine, 75)
    engine.acts.empty_topic("orders")
    later(engine, clock)
    assert engine.cursors.one("orders", "archive").is_warned
    assert engine.cursors.one("orders", "archive").gaps == ()
    publish(engine, 100)
    engine.acts.empty_topic("orders")
    later(engine, clock)
    ((cursor,),) = [one.cursors for one in engine.stats.now().topics]
    (gap,) = cursor.gaps
    assert (gap.first_offset, gap.next_offset, gap.reason) == (0, cursor.offset, "retention")
    assert cursor.depth == 175 - cursor.offset
    assert cursor.lag_bytes <= 100_000
    assert 0 < oldest_offset(engine) <= cursor.offset
    assert len(read(engine, cursor.offset)) == cursor.depth
    engine.close()


def test_a_damaged_file_is_told_in_the_report_of_the_start(engine: Engine, tmp_path: Path, clock: ManualClock) -> None:
    engine.cursors.create("orders", cursor="archive")
    engine.close()
    path = tmp_path / "log" / "cursors.json"
    path.write_bytes(path.read_bytes()[:-3])
    engine = started(tmp_path, clock)
    log = engine.stats.now().log
    assert log is not None
    assert log.recovery is not None
    assert log.recovery.has_damage
    assert log.recovery.sentences()[-1].startswith("Damaged list of pipeline cursors, set aside;")
    assert engine.cursors.all().cursors == ()
    engine.close()


def test_what_is_no_place_for_a_cursor_is_refused_by_name(engine: Engine) -> None:
    engine.acts.create_topic("old", storage="diskqueue")
    with pytest.raises(TopicNotFoundError):
        engine.cursors.create("none", cursor="archive")
    with pytest.raises(InvalidStorageError, match="topic old has storage kind diskqueue: only topics of the log"):
        engine.cursors.create("old", cursor="archive")
    for name in ("", "a b", "archive#ephemeral"):
        with pytest.raises(InvalidCursorError, match="cursor name"):
            engine.cursors.create("orders", cursor=name)
    with pytest.raises(LimitError, match="offset 1 of orders is not there: it has 0 to 0"):
        engine.cursors.create("orders", cursor="archive", start=Target(offset=1))
    with pytest.raises(CursorNotFoundError, match="cursor orders/none does not exist"):
        engine.cursors.delete("orders", cursor="none")
    with pytest.raises(CursorNotFoundError):
        engine.cursors.move("orders", cursor="none", number=number_of(engine), offset=0)
