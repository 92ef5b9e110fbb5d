"""What the trash keeps on the disk: the figure of each entry and of all, and what is given up for room."""

from pathlib import Path

import pytest

from queue_engine.engine.engine import Engine
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.vocabulary.errors import StorageError
from tests.support.clock import ManualClock
from tests.support.engine import make_engine, pass_time, settle

SMALL_SEGMENTS = {"log_segment_bytes": 1 << 20, "max_msg_size": 60_000, "max_body_size": 60_000}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def publish(engine: Engine, topic: str, number: int) -> None:
    engine.publish(topic, [b"%d" % number + bytes(50_000)])
    settle(engine)


def test_an_entry_s_bytes_are_what_stays_on_the_disk_for_it_alone(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock, log_retention_bytes=2 << 20, **SMALL_SEGMENTS)
    engine.acts.create_topic("orders")
    for name in ("billing", "audit", "late"):
        engine.acts.create_channel("orders", name)
    for number in range(120):
        publish(engine, "orders", number)
    engine.acts.empty_channel("orders", "late")
    settle(engine)
    for number in range(20):
        publish(engine, "orders", number)
    log = engine._stores.log
    assert log is not None
    sizes = [one.end - one.position for one in log.segments.list if one.is_sealed]
    on_disk = sum(sizes)
    assert on_disk > 5 << 20

    def figures() -> tuple[list[int], int]:
        page = engine.trash.page(50)
        assert page.bytes == engine.trash.bytes
        assert page.entries == engine.trash.list()
        return [one.bytes for one in page.entries], page.bytes

    pass_time(engine, clock, 1_100)
    assert figures() == ([0], 0)  # billing and audit need these messages anyway
    engine.acts.empty_channel("orders", "billing")
    settle(engine)
    pass_time(engine, clock, 1_100)
    assert figures() == ([0, 0], 0)  # so does audit
    engine.acts.empty_channel("orders", "audit")
    settle(engine)
    pass_time(engine, clock, 1_100)
    # Each would keep all but what the retention keeps anyway, and all together keep no more than one.
    entries, in_all = figures()
    assert entries == [in_all, in_all, in_all]
    assert on_disk - (3 << 20) <= in_all <= on_disk - (1 << 20)
    for one in engine.trash.list():
        engine.trash.delete_trash("orders", trash=one.id)
        settle(engine)
    for _ in range(3):
        pass_time(engine, clock, 1_100)
    assert figures() == ([], 0)
    left = sum(one.end - one.position for one in log.segments.list if one.is_sealed)
    assert on_disk - left == in_all, "the figure is what the disk got back"


def emptied_in_turn(engine: Engine, clock: ManualClock) -> int:
    """Empties the channels of the topics `second` and `first`, and lets the engine tidy; the id of the first entry."""
    ids = []
    for topic in ("second", "first"):
        outcome, _ = engine.acts.empty_channel(topic, "billing")
        settle(engine)
        ids.append(outcome.trash)
        clock.advance(ms=10)
    for _ in range(20):
        pass_time(engine, clock, 1_100)
    return ids[0]


def test_an_entry_whose_segments_stay_anyway_is_not_given_up_for_room(tmp_path: Path, clock: ManualClock) -> None:
    limits = {"trash_max_bytes": 2 << 20, "log_retention_bytes": 4 << 20}
    engine = make_engine(tmp_path, clock, **limits, **SMALL_SEGMENTS)
    for topic in ("first", "second"):
        engine.acts.create_topic(topic)
        engine.acts.create_channel(topic, "billing")
    for topic, count in (("first", 120), ("second", 40)):
        for number in range(count):
            publish(engine, topic, number)
    oldest = emptied_in_turn(engine, clock)
    # The oldest is that of the second topic, and the retention keeps its segments: without it nothing would go.
    assert [one.id for one in engine.trash.list()] == [oldest]
    assert engine.trash.bytes <= 2 << 20


def test_an_entry_that_would_make_no_room_is_not_given_up_though_it_is_the_oldest(
    tmp_path: Path, clock: ManualClock
) -> None:
    engine = make_engine(tmp_path, clock, trash_max_bytes=4 << 20, **SMALL_SEGMENTS)
    for topic in ("first", "second"):
        engine.acts.create_topic(topic)
        engine.acts.create_channel(topic, "billing")
        for number in range(60):
            publish(engine, topic, number)
    oldest = emptied_in_turn(engine, clock)
    # The newer one keeps the oldest segments: while it is there, none goes without the older one.
    assert [one.id for one in engine.trash.list()] == [oldest]
    assert 1 << 20 < engine.trash.bytes <= 4 << 20


def test_more_than_the_limit_of_bytes_gives_up_the_oldest_only(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock, trash_max_bytes=6 << 20, **SMALL_SEGMENTS)
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    ids = []
    for _ in range(3):
        for number in range(50):
            publish(engine, "orders", number)
        outcome, _ = engine.acts.empty_channel("orders", "billing")
        settle(engine)
        ids.append(outcome.trash)
        clock.advance(ms=10)
    for _ in range(20):
        pass_time(engine, clock, 1_100)
    assert [one.id for one in engine.trash.list()] == [ids[2], ids[1]]
    assert 2 << 20 < engine.trash.bytes <= 6 << 20


def test_entries_are_listed_and_restored_while_their_bytes_can_not_be_read(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine(tmp_path, clock, **SMALL_SEGMENTS)
    for topic in ("orders", "damaged"):
        engine.acts.create_topic(topic)
        engine.acts.create_channel(topic, "billing")
        publish(engine, topic, 1)
    outcome, _ = engine.acts.empty_channel("orders", "billing")
    settle(engine)

    def unreadable(topic: LogTopicStore, until: int) -> int:
        raise StorageError(f"the consume queue of {topic.name} can't be read")

    monkeypatch.setattr(LogTopicStore, "needed_position_without_trash", unreadable)
    assert [(one.id, one.restorable, one.bytes) for one in engine.trash.list()] == [(outcome.trash, 1, 0)]
    assert engine.trash.page(50).entries == engine.trash.list()
    assert engine.trash.one(outcome.trash, "orders").restorable == 1
    engine.trash.restore_trash("orders", trash=outcome.trash)
    settle(engine)
    assert engine.topics["orders"].channels["billing"].figures.stats().depth == 1
