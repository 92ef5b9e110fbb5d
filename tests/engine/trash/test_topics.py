"""A topic of the log that was emptied or deleted comes back with its channels, also while its name lives again."""

from pathlib import Path

import pytest

from queue_engine.engine.engine import Engine
from queue_engine.vocabulary.errors import ChannelNotFoundError, TrashConflictError, TrashNotFoundError
from queue_engine.wire.trash import TrashStats
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, pass_time, settle

DAY_MS = 24 * 3_600_000
FILLED = {b"b": 2, b"c": 1, b"d": 1}
ALL = dict.fromkeys([b"a", b"b", b"c", b"d"], 1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def engine(tmp_path: Path, clock: ManualClock) -> Engine:
    return make_engine(tmp_path, clock)


def publish(engine: Engine, *bodies: bytes, topic: str = "orders") -> None:
    engine.publish(topic, bodies)
    settle(engine)


def fill(engine: Engine) -> None:
    """orders/billing has finished a, tried b once, and c and d wait; orders/mail is paused and has all four."""
    engine.acts.create_topic("orders")
    for name in ("billing", "mail"):
        engine.acts.create_channel("orders", name)
    engine.acts.pause_channel("orders", "mail", by="anna", reason="bad deploy")
    publish(engine, b"a", b"b", b"c", b"d")
    client = Client(engine, "orders", "billing", ready=2)
    client.ready(0)
    client.finish(client.sink.received[0].id)
    client.leave()


def received(engine: Engine, channel: str = "billing", topic: str = "orders") -> dict[bytes, int]:
    """Body → attempts of all that a new consumer gets, which it finishes."""
    client = Client(engine, topic, channel, ready=1_000)
    got = {one.body: one.attempts for one in client.sink.received}
    assert client.finish(*[one.id for one in client.sink.received]) == []
    client.leave()
    return got


def only(engine: Engine) -> TrashStats:
    (one,) = engine.trash.list()
    return one


def restore(engine: Engine, *, swap: bool = False) -> str:
    """Restore the newest entry; returns the name of the topic."""
    outcome, ticket = engine.trash.restore_trash("orders", trash=engine.trash.list()[0].id, swap=swap)
    settle(engine)
    assert ticket.done
    assert ticket.error is None
    return outcome.name


@pytest.mark.parametrize("restart", [False, True])
def test_a_deleted_topic_comes_back_with_its_channels(tmp_path: Path, clock: ManualClock, restart: bool) -> None:
    engine = make_engine(tmp_path, clock)
    fill(engine)
    consumer = Client(engine, "orders", "billing")
    outcome, ticket = engine.acts.delete_topic("orders", by="anna")
    settle(engine)
    assert ticket.done
    assert consumer.sink.is_closed
    assert (outcome.depth, outcome.channels, outcome.clients) == (7, 2, 1)
    one = only(engine)
    assert (one.id, one.topic, one.channel, one.by) == (outcome.trash, "orders", "", "anna")
    assert (one.waiting, one.channels, one.restorable) == (7, 2, 7)
    assert "orders" not in engine.topics
    if restart:
        engine.close()
        engine = make_engine(tmp_path, clock)
        assert only(engine).restorable == 7
    assert restore(engine) == "orders"
    mail = engine.topics["orders"].channels["mail"]
    assert mail.paused
    assert mail.pause is not None
    assert mail.pause.reason == "bad deploy"
    assert received(engine) == FILLED
    publish(engine, b"e")
    assert received(engine) == {b"e": 1}
    engine.acts.unpause_channel("orders", "mail")
    settle(engine)
    assert received(engine, "mail") == ALL | {b"e": 1}
    assert engine.trash.list() == ()
    engine.close()
    engine = make_engine(tmp_path, clock)
    assert received(engine) == {}
    assert received(engine, "mail") == {}


def test_while_its_name_lives_it_gets_another(engine: Engine) -> None:
    fill(engine)
    engine.acts.delete_topic("orders")
    settle(engine)
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    publish(engine, b"new")
    assert restore(engine) == "orders.restored"
    assert received(engine, topic="orders.restored") == FILLED
    assert received(engine) == {b"new": 1}
    engine.acts.delete_topic("orders")
    settle(engine)
    publish(engine, b"newer")
    assert restore(engine) == "orders.restored-2"


def test_or_it_swaps_places_with_the_living_one(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock)
    fill(engine)
    engine.acts.delete_topic("orders")
    settle(engine)
    old = only(engine).id
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    publish(engine, b"new")
    consumer = Client(engine, "orders", "billing")
    assert restore(engine, swap=True) == "orders"
    assert consumer.sink.is_closed
    assert only(engine).id != old
    engine.close()
    engine = make_engine(tmp_path, clock)
    assert received(engine) == FILLED
    assert restore(engine) == "orders.restored"
    assert received(engine, topic="orders.restored") == {b"new": 1}


def test_a_disk_queue_does_not_swap_places(engine: Engine) -> None:
    fill(engine)
    engine.acts.delete_topic("orders")
    settle(engine)
    engine.acts.create_topic("orders", storage="diskqueue")
    settle(engine)
    with pytest.raises(TrashConflictError, match="storage kind diskqueue"):
        engine.trash.restore_trash("orders", trash=only(engine).id, swap=True)
    assert restore(engine) == "orders.restored"


def test_a_channel_of_a_deleted_topic_waits_for_it(engine: Engine, clock: ManualClock) -> None:
    fill(engine)
    engine.acts.delete_channel("orders", "billing")
    settle(engine)
    clock.advance(ms=1)
    engine.acts.delete_topic("orders")
    settle(engine)
    _, channel = engine.trash.list()
    assert channel.channel == "billing"
    with pytest.raises(TrashConflictError, match="restore the topic first"):
        engine.trash.restore_trash("orders", trash=channel.id)
    restore(engine)
    with pytest.raises(ChannelNotFoundError):
        engine.catalog.channel("orders", "billing")
    restore(engine)
    assert received(engine) == FILLED


def test_a_deleted_topic_that_expires_takes_all_with_it(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock)
    fill(engine)
    engine.acts.delete_topic("orders")
    settle(engine)
    number = only(engine).id
    clock.advance(ms=DAY_MS)
    for _ in range(3):
        pass_time(engine, clock, 1_100)
    assert engine.trash.list() == ()
    with pytest.raises(TrashNotFoundError):
        engine.trash.restore_trash("orders", trash=number)
    engine.close()
    engine = make_engine(tmp_path, clock)
    assert engine.trash.list() == ()
    assert engine.topics == {}


@pytest.mark.parametrize("channels_too", [False, True])
def test_an_emptied_topic_gets_back_what_waited_there_and_in_its_channels(
    tmp_path: Path, clock: ManualClock, channels_too: bool
) -> None:
    engine = make_engine(tmp_path, clock)
    fill(engine)
    engine.acts.pause_topic("orders")
    publish(engine, b"e", b"f")
    outcome, _ = engine.acts.empty_topic("orders", channels_too=channels_too)
    settle(engine)
    assert (outcome.depth, outcome.channels) == ((9, 2) if channels_too else (2, 0))
    assert engine.topics["orders"].store.depth == 0
    engine.close()
    engine = make_engine(tmp_path, clock)
    engine.acts.unpause_topic("orders")
    engine.acts.unpause_channel("orders", "mail")
    publish(engine, b"g")
    back = {b"e": 1, b"f": 1}
    assert received(engine) == ({} if channels_too else FILLED) | {b"g": 1}
    assert received(engine, "mail") == ({} if channels_too else ALL) | {b"g": 1}
    restore(engine)
    assert received(engine) == (FILLED | back if channels_too else back)
    assert received(engine, "mail") == (ALL | back if channels_too else back)
    engine.close()
    engine = make_engine(tmp_path, clock)
    assert received(engine) == received(engine, "mail") == {}


@pytest.mark.parametrize("restart", [False, True])
def test_what_waits_at_a_deleted_topic_without_channels_is_counted_and_comes_back(
    tmp_path: Path, clock: ManualClock, restart: bool
) -> None:
    engine = make_engine(tmp_path, clock)
    engine.acts.create_topic("orders")
    publish(engine, b"a", b"b")
    engine.acts.delete_topic("orders")
    settle(engine)
    if restart:
        engine.close()
        engine = make_engine(tmp_path, clock)
    one = only(engine)
    assert (one.waiting, one.channels, one.restorable) == (2, 0, 2)
    assert restore(engine) == "orders"
    engine.acts.create_channel("orders", "billing")
    settle(engine)
    assert received(engine) == {b"a": 1, b"b": 1}


@pytest.mark.parametrize("channel", ["", "before", "after"])
def test_what_waited_at_a_topic_without_channels_waits_again_or_goes_to_the_first(
    tmp_path: Path, clock: ManualClock, channel: str
) -> None:
    engine = make_engine(tmp_path, clock)
    engine.acts.create_topic("orders")
    publish(engine, b"a", b"b")
    engine.acts.empty_topic("orders")
    publish(engine, b"c")
    engine.close()
    engine = make_engine(tmp_path, clock)
    assert only(engine).restorable == 2
    if channel:
        engine.acts.create_channel("orders", "billing")
        settle(engine)
        assert received(engine) == {b"c": 1}
    if channel == "after":
        clock.advance(ms=1)
        engine.acts.delete_channel("orders", "billing")
        settle(engine)
        with pytest.raises(TrashConflictError, match="create the channel"):
            engine.trash.restore_trash("orders", trash=engine.trash.list()[-1].id)
        return
    restore(engine)
    assert engine.topics["orders"].store.depth == (0 if channel else 3)
    engine.close()
    engine = make_engine(tmp_path, clock)
    assert received(engine) == ({b"a": 1, b"b": 1} if channel else {b"a": 1, b"b": 1, b"c": 1})
