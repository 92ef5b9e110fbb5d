"""Publishing once per batch key, and messages with keys, as callers of the engine see it."""

from pathlib import Path
from typing import Any

import pytest

from queue_engine.engine.acts.log_acts import Target
from queue_engine.engine.engine import Engine
from queue_engine.storage.commit_log.record import HAS_BATCH_KEY, HAS_KEYS, REPLAYED, Record
from queue_engine.storage.disk.background import Backgrounds, InlineBackground
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.vocabulary.errors import (
    BatchKeyConflictError,
    InvalidStorageError,
    InvalidTopicError,
    TopicChangedError,
)
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles
from tests.support.engine import Client, make_engine, settle
from tests.support.storage_kinds import engine_options
from tests.support.stores.background import HeldBackground
from tests.support.stores.log_store import forget_batches

KEY, OTHER_KEY = bytes(range(16)), bytes(range(1, 17))
START = Target(word="start")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def engine(tmp_path: Path, clock: ManualClock) -> Engine:
    return make_engine(tmp_path, clock)


def write(engine: Engine, *bodies: bytes, key: bytes = KEY, topic: str = "orders", **given: object) -> tuple[int, bool]:
    """First offset, and whether it was known."""
    written, ticket = engine.log.write_batch(topic, bodies, batch_key=key, **given)
    settle(engine)
    assert ticket.done
    assert ticket.error is None
    assert written.count == len(bodies)
    return written.first_offset, written.is_repeat


def records(engine: Engine, topic: str = "orders") -> list[Record]:
    store = engine.catalog.topic(topic).store
    assert isinstance(store, LogTopicStore)
    found, at = [], store.oldest_offset
    while at < store.end_offset:
        place = store.queue.locate(at)
        assert place is not None
        found.append(store.segments.read_record(*place))
        at = found[-1].header.end_offset
    return found


def bodies_of(engine: Engine, topic: str = "orders") -> list[bytes]:
    return [one.body for one in engine.log.read_messages(topic, START, 1_000).messages]


def test_a_batch_is_written_once_per_key_and_stays_so(engine: Engine, tmp_path: Path, clock: ManualClock) -> None:
    assert write(engine, b"a", b"b") == (0, False)
    assert write(engine, b"a", b"b") == (0, True)
    assert write(engine, b"c", key=OTHER_KEY) == (2, False)
    for _ in range(3):
        engine.close()
        engine = make_engine(tmp_path, clock)
        assert write(engine, b"a", b"b") == (0, True)
        assert write(engine, b"c", key=OTHER_KEY) == (2, True)
    assert bodies_of(engine) == [b"a", b"b", b"c"]


def test_the_same_key_is_of_each_topic_alone(engine: Engine) -> None:
    assert write(engine, b"a") == (0, False)
    assert write(engine, b"b", topic="invoices") == (0, False)
    assert write(engine, b"b", topic="invoices") == (0, True)


@pytest.mark.parametrize(
    ("bodies", "keys"),
    [
        ((b"a", b"c"), None),
        ((b"ab",), None),
        ((b"a", b"b", b"c"), None),
        ((b"a", b"b"), (b"", b"k")),
    ],
)
def test_other_content_under_the_key_is_a_conflict(
    engine: Engine, tmp_path: Path, clock: ManualClock, bodies: tuple[bytes, ...], keys: tuple[bytes, ...] | None
) -> None:
    write(engine, b"a", b"b")
    for one in (engine, None):
        one = one or make_engine(tmp_path, clock)
        with pytest.raises(BatchKeyConflictError, match=f"{KEY.hex()} was used for other content: 2 messages"):
            one.log.write_batch("orders", bodies, batch_key=KEY, keys=keys)
        assert bodies_of(one) == [b"a", b"b"]
        one.close()


def test_a_batch_is_a_record_of_its_own_between_what_came_before_and_after(engine: Engine) -> None:
    engine.publish("orders", [b"before"])
    engine.log.write_batch("orders", [b"a", b"b"], batch_key=KEY, keys=[b"", b"k"], is_replayed=True)
    engine.publish("orders", [b"after"])
    engine.publish("orders", [b"after it"])
    settle(engine)
    assert bodies_of(engine) == [b"before", b"a", b"b", b"after", b"after it"]
    found = records(engine)
    assert [one.header.count for one in found] == [1, 2, 2]
    assert [one.header.flags for one in found] == [0, HAS_BATCH_KEY | HAS_KEYS | REPLAYED, 0]
    assert [one.header.batch_key for one in found] == [bytes(16), KEY, bytes(16)]
    assert (found[1].key_at(0), found[1].key_at(1)) == (b"", b"k")


def test_keys_of_no_bytes_are_none(engine: Engine) -> None:
    assert write(engine, b"a", b"b", keys=[b"", b""]) == (0, False)
    assert write(engine, b"a", b"b") == (0, True)
    assert records(engine)[0].header.flags == HAS_BATCH_KEY


def test_channels_get_a_batch_as_any_publish_and_it_is_counted(engine: Engine) -> None:
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    client = Client(engine, "orders", "billing", ready=10)
    write(engine, b"a", b"bb")
    write(engine, b"a", b"bb")
    engine.log.publish_keyed("orders", b"c", b"k")
    settle(engine)
    assert client.bodies == [b"a", b"bb", b"c"]
    topic = engine.catalog.topic("orders")
    assert (topic.message_count, topic.message_bytes) == (3, 4)


@pytest.mark.parametrize("is_cached", [True, False])
def test_a_messages_key_is_shown(engine: Engine, is_cached: bool) -> None:
    engine.publish("orders", [b"a"])
    ticket = engine.log.publish_keyed("orders", b"b", b"\xff key")
    write(engine, b"c", b"d", keys=[b"", b"k"])
    assert (ticket.done, ticket.error) == (True, None)
    if not is_cached:
        store = engine.catalog.topic("orders").store
        assert isinstance(store, LogTopicStore)
        forget_batches(store._batches)
    shown = [(one.body, one.key) for one in engine.log.read_messages("orders", START, 10).messages]
    assert shown == [(b"a", b""), (b"b", b"\xff key"), (b"c", b""), (b"d", b"k")]


def test_another_topic_of_the_name_is_not_written_to(engine: Engine) -> None:
    write(engine, b"a")
    number = engine.catalog.topic("orders").number
    assert write(engine, b"b", key=OTHER_KEY, number=number) == (1, False)
    engine.acts.delete_topic("orders")
    settle(engine)
    with pytest.raises(TopicChangedError, match=f"topic orders does not exist, and number {number} is meant"):
        engine.log.write_batch("orders", [b"b"], batch_key=OTHER_KEY, number=number)
    assert write(engine, b"a") == (0, False)
    with pytest.raises(
        TopicChangedError, match=f"has number {engine.catalog.topic('orders').number}, and number {number} is"
    ):
        engine.log.write_batch("orders", [b"b"], batch_key=OTHER_KEY, number=number)
    assert bodies_of(engine) == [b"a"]


def test_a_topic_that_was_made_again_has_no_key_of_the_one_before(
    engine: Engine, tmp_path: Path, clock: ManualClock
) -> None:
    write(engine, b"a")
    engine.acts.delete_topic("orders")
    settle(engine)
    assert write(engine, b"other") == (0, False)
    engine.close()
    engine = make_engine(tmp_path, clock)
    assert write(engine, b"other") == (0, True)


def test_a_disk_queue_refuses_by_name_and_none_is_made_for_a_key(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock, storage="diskqueue")
    engine.acts.create_topic("old")
    for publish in (
        lambda topic: engine.log.write_batch(topic, [b"a"], batch_key=KEY),
        lambda topic: engine.log.publish_keyed(topic, b"a", b"k"),
    ):
        with pytest.raises(InvalidStorageError, match="topic old has storage kind diskqueue: only the log keeps keys"):
            publish("old")
        with pytest.raises(InvalidStorageError, match="topic new would have storage kind diskqueue"):
            publish("new")
        with pytest.raises(InvalidTopicError):
            publish("no name")
    assert list(engine.topics) == ["old"]


class Waiting:
    """An engine whose syncs take until they are told to end."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.files = FaultyFiles()
        self.sync = HeldBackground()
        self.engine = Engine(
            engine_options(data_path=str(path), storage="log", **options),
            clock=ManualClock(),
            files=self.files,
            backgrounds=Backgrounds(InlineBackground(), self.sync, InlineBackground()),
        )
        self.engine.open()
        self.engine.acts.create_topic("orders")
        settle(self.engine)


def test_a_second_write_waits_for_the_sync_of_the_first(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    engine = waiting.engine
    first, one = engine.log.write_batch("orders", [b"a"], batch_key=KEY)
    settle(engine)
    second, other = engine.log.write_batch("orders", [b"a"], batch_key=KEY)
    settle(engine)
    assert (first.is_repeat, second.is_repeat, second.first_offset) == (False, True, 0)
    assert (one.done, other.done) == (False, False)
    with pytest.raises(BatchKeyConflictError):
        engine.log.write_batch("orders", [b"b"], batch_key=KEY)
    waiting.sync.finish()
    settle(engine)
    assert (one.done, one.error, other.done, other.error) == (True, None, True, None)
    assert bodies_of(engine) == [b"a"]


def test_a_batch_that_was_not_written_is_forgotten_and_can_be_written_again(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    engine = waiting.engine
    waiting.files.bytes_free = 10
    tickets = [engine.log.write_batch("orders", [b"a" * 100], batch_key=KEY)[1] for _ in range(2)]
    settle(engine)
    waiting.sync.finish()
    assert all(ticket.done and ticket.error is not None for ticket in tickets)
    _, ticket = engine.log.write_batch("orders", [b"a" * 100], batch_key=KEY)
    assert ticket.error is not None, "the log refuses while there is no room"
    waiting.files.heal()
    engine.clock.advance(ms=1_100)
    engine.tick()
    waiting.sync.finish()
    again, ticket = engine.log.write_batch("orders", [b"b"], batch_key=KEY)
    settle(engine)
    waiting.sync.finish()
    assert (again.is_repeat, again.first_offset, ticket.error) == (False, 0, None)
    assert bodies_of(engine) == [b"b"]


def test_a_topic_deleted_meanwhile_leaves_no_key(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path, trash_age_ms=0)  # the trash keeps its keys as long as the topic
    engine = waiting.engine
    store = engine.catalog.topic("orders").store
    assert isinstance(store, LogTopicStore)
    _, ticket = engine.log.write_batch("orders", [b"a"], batch_key=KEY, keys=[b"k"])
    settle(engine)
    engine.acts.delete_topic("orders")
    waiting.sync.finish()
    settle(engine)
    assert ticket.done
    assert len(store._batch_keys) == 0
