"""An act is in force when it is durable, or not at all: refused, nothing changed, now and after a kill."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from queue_engine.engine.acts.log_acts import Target
from queue_engine.engine.engine import Engine
from queue_engine.storage.disk.background import Backgrounds, InlineBackground
from queue_engine.vocabulary.acts.parameters import END
from queue_engine.vocabulary.errors import ChannelNotFoundError, OutcomeUnknownError, TopicNotFoundError
from queue_engine.vocabulary.ticket import DONE, Ticket
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles
from tests.support.engine import Client, settle
from tests.support.storage_kinds import engine_options
from tests.support.stores.background import HeldBackground

Act = Callable[[Engine], tuple[object, Ticket]]


def create_with_found_channels(engine: Engine) -> tuple[object, Ticket]:
    """As after an answer of an nsqlookupd."""
    engine.catalog.find_channels = lambda topic: (DONE, ["billing", "shipping"])
    return engine.acts.create_topic("new")


ACTS: dict[str, Act] = {
    "delete the topic": lambda engine: engine.acts.delete_topic("orders"),
    "delete a channel": lambda engine: engine.acts.delete_channel("orders", "billing"),
    "delete the last channel": lambda engine: engine.acts.delete_channel("single", "only"),
    "pause the topic": lambda engine: engine.acts.pause_topic("orders"),
    "unpause the topic": lambda engine: engine.acts.unpause_topic("still"),
    "pause a channel": lambda engine: engine.acts.pause_channel("orders", "billing"),
    "unpause a channel": lambda engine: engine.acts.unpause_channel("orders", "still"),
    "create a topic": lambda engine: engine.acts.create_topic("new"),
    "create a topic with channels that other nodes have": create_with_found_channels,
    "create a channel": lambda engine: engine.acts.create_channel("orders", "new"),
    "create the first channel": lambda engine: engine.acts.create_channel("waiting", "new"),
}


def begin(directory: Path, files: FaultyFiles, clock: ManualClock, *, is_held: bool = False) -> Engine:
    engine = Engine(
        engine_options(data_path=str(directory)),
        clock=clock,
        files=files,
        backgrounds=Backgrounds.of(HeldBackground() if is_held else InlineBackground()),
    )
    engine.open()
    return engine


def prepared(directory: Path, files: FaultyFiles, clock: ManualClock) -> Engine:
    """Topics and channels, each with messages, after a clean start: what waits is on the disk, whatever its kind."""
    engine = begin(directory, files, clock)
    for topic, channels in {"orders": ["billing", "still"], "single": ["only"], "still": ["c"], "waiting": []}.items():
        engine.acts.create_topic(topic)
        for channel in channels:
            engine.acts.create_channel(topic, channel)
        if topic == "still":
            engine.acts.pause_topic(topic)
        engine.publish(topic, [b"%d" % number for number in range(50)])
        settle(engine)
    engine.acts.pause_channel("orders", "still")
    engine.close()
    engine = begin(directory, files, clock)
    settle(engine)
    return engine


def state_of(engine: Engine) -> dict[str, Any]:
    """What there is, by name: pauses and depths."""
    return {
        name: (
            topic.paused,
            topic.store.depth,
            {one.name: (one.paused, one.backlog.depth, one.is_deleted) for one in topic.channels.values()},
        )
        for name, topic in sorted(engine.topics.items())
    }


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS.keys())
@pytest.mark.parametrize("operation", ["write", "sync_data"])
@pytest.mark.slow(reason="ends at every act")
def test_what_the_disk_refuses_changes_nothing_now_and_after_a_kill(tmp_path: Path, act: Act, operation: str) -> None:
    files, clock = FaultyFiles(), ManualClock()
    engine = prepared(tmp_path, files, clock)
    before = state_of(engine)
    files.fail(operation, errno.EIO)
    error = act(engine)[1].error
    assert error is not None
    assert isinstance(error, OutcomeUnknownError) is (operation == "sync_data")
    settle(engine)
    assert state_of(engine) == before
    clock.advance(ms=1_000)
    engine.tick()
    settle(engine)
    assert engine.stats.health == "OK"
    assert state_of(engine) == before
    files.abandon()
    again = begin(tmp_path, FaultyFiles(), clock)
    settle(again)
    assert state_of(again) == before
    assert act(again)[1].error is None, "and then it can be done"


@pytest.mark.parametrize("operation", ["write", "sync_data"])
def test_messages_that_were_requeued_or_released_are_not_called_refused(tmp_path: Path, operation: str) -> None:
    files, clock = FaultyFiles(), ManualClock()
    engine = prepared(tmp_path, files, clock)
    Client(engine, "orders", "billing", ready=5)
    engine.publish("orders", [b"later"], defer_ms=60_000)
    settle(engine)
    for act in (engine.acts.requeue_channel, engine.acts.release_deferred):
        files.fail(operation, errno.EIO)
        outcome, ticket = act("orders", "billing")
        assert outcome.in_flight + outcome.deferred > 0
        assert ticket.error is None or isinstance(ticket.error, OutcomeUnknownError)
        assert (ticket.error is None) is (engine.topics["orders"].store.kind == "diskqueue")
        files.heal()
        settle(engine)
        clock.advance(ms=1_000)
        engine.tick()
        settle(engine)


@pytest.mark.parametrize("is_paused", [False, True], ids=["flowing", "paused"])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_emptying_a_topic_with_its_channels_is_refused_as_a_whole(tmp_path: Path, nth: int, is_paused: bool) -> None:
    files, clock = FaultyFiles(), ManualClock()
    engine = prepared(tmp_path, files, clock)
    if is_paused:
        engine.acts.pause_topic("orders")
    engine.publish("orders", [b"more"] * 5)
    settle(engine)
    before = state_of(engine)["orders"]
    files.fail("write", errno.EIO, nth=nth)
    error = engine.acts.empty_topic("orders", channels_too=True)[1].error
    if not isinstance(error, OutcomeUnknownError):
        assert (state_of(engine)["orders"] == before) is (error is not None)
    files.abandon()
    again = begin(tmp_path, FaultyFiles(), clock)
    settle(again)
    if error is None:
        assert {one: depth for one, (_, depth, _) in state_of(again)["orders"][2].items()} == {"billing": 0, "still": 0}
    elif not isinstance(error, OutcomeUnknownError) and again.topics["orders"].store.kind == "log":
        assert state_of(again)["orders"] == before


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS.keys())
@pytest.mark.slow(reason="ends at every act")
def test_what_was_answered_is_so_after_a_kill(tmp_path: Path, act: Act) -> None:
    files, clock = FaultyFiles(), ManualClock()
    engine = prepared(tmp_path, files, clock)
    assert act(engine)[1].error is None
    settle(engine)
    after = state_of(engine)
    files.abandon()
    again = begin(tmp_path, FaultyFiles(), clock)
    settle(again)
    assert state_of(again) == after


# Topic still had 50 messages on the disk when it was let flow. They went on to its channel; its files know that later.
DROPPING_ACTS: dict[str, Act] = {
    "empty the channel": lambda engine: engine.acts.empty_channel("still", "c"),
    "empty the topic with its channel": lambda engine: engine.acts.empty_topic("still", channels_too=True),
    "delete the channel": lambda engine: engine.acts.delete_channel("still", "c"),
    "delete the topic": lambda engine: engine.acts.delete_topic("still"),
}


def flowing(directory: Path, files: FaultyFiles, clock: ManualClock, *, is_held: bool = False) -> Engine:
    prepared(directory, FaultyFiles(), clock).close()
    engine = begin(directory, files, clock, is_held=is_held)
    ticket = engine.acts.unpause_topic("still")[1]
    if is_held:
        held_of(engine).finish()
    assert ticket.error is None
    settle(engine)
    assert state_of(engine)["still"] == (False, 0, {"c": (False, 50, False)})
    return engine


def held_of(engine: Engine) -> HeldBackground:
    background = engine.catalog._changes._background
    assert isinstance(background, HeldBackground)
    return background


@pytest.mark.parametrize("act", DROPPING_ACTS.values(), ids=DROPPING_ACTS.keys())
@pytest.mark.slow(reason="ends at every act")
def test_what_a_topic_had_passed_on_and_an_act_dropped_does_not_come_again_after_a_kill(
    tmp_path: Path, act: Act
) -> None:
    files, clock = FaultyFiles(), ManualClock()
    engine = flowing(tmp_path, files, clock)
    assert act(engine)[1].error is None
    dropped = state_of(engine)
    files.abandon()
    again = begin(tmp_path, FaultyFiles(), clock)
    settle(again)
    assert state_of(again) == dropped


@pytest.mark.parametrize("act", DROPPING_ACTS.values(), ids=DROPPING_ACTS.keys())
def test_dropping_messages_is_answered_when_a_power_cut_can_not_undo_it(tmp_path: Path, act: Act) -> None:
    """The last thing before the answer is a sync, on the worker, of the directory that names are gone from."""
    files, clock = FaultyFiles(), ManualClock()
    engine = flowing(tmp_path, files, clock, is_held=True)
    client = Client(engine, "still", "c", ready=5)
    ticket = act(engine)[1]
    assert len(client.bodies) == 5
    files.calls.clear()
    while not ticket.done:
        held_of(engine).work()
        held_of(engine).answer()
    assert ticket.error is None
    changes = [call for call in files.calls if call in ("rename", "unlink", "sync")]
    assert "sync" in changes
    assert changes[-1] == "sync" or "rename" in changes, "old files go once the meta file does not need them"


@pytest.mark.parametrize("act", list(DROPPING_ACTS.values())[:3], ids=list(DROPPING_ACTS)[:3])
def test_when_the_disk_does_not_say_that_what_was_dropped_is_gone_the_outcome_is_unknown(
    tmp_path: Path, act: Act
) -> None:
    files, clock = FaultyFiles(), ManualClock()
    engine = flowing(tmp_path, files, clock, is_held=True)
    ticket = act(engine)[1]
    while any(depth for _, depth, _ in state_of(engine)["still"][2].values()):
        held_of(engine).work()
        held_of(engine).answer()
    assert not ticket.done
    files.fail("sync", errno.EIO, count=9)
    held_of(engine).finish()
    assert isinstance(ticket.error, OutcomeUnknownError)
    files.heal()
    later = engine.acts.empty_topic("still")[1]
    held_of(engine).finish()
    assert later.error is None, "the next act syncs what that one could not"
    files.abandon()
    again = begin(tmp_path, FaultyFiles(), clock)
    settle(again)
    _, depth, channels = state_of(again)["still"]
    assert depth + sum(waiting for _, waiting, _ in channels.values()) == 0


def test_until_it_is_on_the_disk_a_deleted_topic_goes_on_and_then_it_is_gone(tmp_path: Path) -> None:
    prepared(tmp_path, FaultyFiles(), ManualClock()).close()
    engine = begin(tmp_path, FaultyFiles(), ManualClock(), is_held=True)
    background = engine.catalog._changes._background
    assert isinstance(background, HeldBackground)
    client = Client(engine, "orders", "billing", ready=10)
    outcome, deleted = engine.acts.delete_topic("orders")
    second = engine.acts.delete_topic("orders")[1]
    created = engine.acts.create_channel("orders", "late")[1]
    engine.publish("orders", [b"between"])
    settle(engine)
    assert client.bodies[:2] == [b"0", b"1"]
    assert not client.sink.is_closed
    background.finish()
    assert (deleted.error, client.sink.is_closed, "orders" in engine.topics) == (None, True, False)
    assert (outcome.channels, outcome.clients, outcome.in_flight) == (2, 1, 10)
    assert isinstance(second.error, TopicNotFoundError)
    assert isinstance(created.error, TopicNotFoundError)


def test_who_subscribes_to_a_topic_that_is_being_deleted_gets_a_new_one(tmp_path: Path) -> None:
    prepared(tmp_path, FaultyFiles(), ManualClock()).close()
    engine = begin(tmp_path, FaultyFiles(), ManualClock(), is_held=True)
    background = engine.catalog._changes._background
    assert isinstance(background, HeldBackground)
    old = engine.catalog.topic("orders").number
    engine.acts.delete_topic("orders")
    ticket = Client(engine, "orders", "billing").ticket
    assert not ticket.done
    background.finish()
    assert ticket.error is None
    assert engine.catalog.topic("orders").number > old
    assert len(engine.catalog.channel("orders", "billing").consumers) == 1


def test_a_pause_and_its_end_come_in_the_order_they_were_asked_for(tmp_path: Path) -> None:
    prepared(tmp_path, FaultyFiles(), ManualClock()).close()
    engine = begin(tmp_path, FaultyFiles(), ManualClock(), is_held=True)
    background = engine.catalog._changes._background
    assert isinstance(background, HeldBackground)
    tickets = [
        act("orders")[1]
        for act in (
            engine.acts.pause_topic,
            engine.acts.unpause_topic,
            engine.acts.pause_topic,
            engine.acts.unpause_topic,
        )
    ]
    tickets += [act("orders", "billing")[1] for act in (engine.acts.unpause_channel, engine.acts.pause_channel)]
    background.finish()
    assert [ticket.error for ticket in tickets] == [None] * 6
    assert (engine.catalog.topic("orders").paused, engine.catalog.channel("orders", "billing").paused) == (False, True)


def test_what_is_published_while_a_pause_is_on_its_way_waits_for_it_and_is_not_lost(tmp_path: Path) -> None:
    prepared(tmp_path, FaultyFiles(), ManualClock()).close()
    files = FaultyFiles()
    engine = begin(tmp_path, files, ManualClock(), is_held=True)
    background = engine.catalog._changes._background
    assert isinstance(background, HeldBackground)
    background.finish()
    files.fail("write", errno.EIO)
    ticket = engine.acts.pause_topic("single")[1]
    background.work()
    engine.publish("single", [b"more"])
    settle(engine)
    background.finish()
    assert ticket.error is not None
    settle(engine)
    assert (engine.catalog.topic("single").store.depth, engine.catalog.channel("single", "only").backlog.depth) == (
        0,
        51,
    )


def test_a_channel_that_is_gone_refuses_what_waited_behind_its_deletion(tmp_path: Path) -> None:
    prepared(tmp_path, FaultyFiles(), ManualClock()).close()
    engine = begin(tmp_path, FaultyFiles(), ManualClock(), is_held=True)
    background = engine.catalog._changes._background
    assert isinstance(background, HeldBackground)
    engine.acts.delete_channel("orders", "billing")
    paused = engine.acts.pause_channel("orders", "billing")[1]
    background.finish()
    assert isinstance(paused.error, ChannelNotFoundError)


def test_a_topic_that_is_refused_loses_nothing_of_what_the_disk_has_of_its_name(tmp_path: Path) -> None:
    """Files of its name, as nsqd leaves them, without a meta file: they are set aside once."""
    left = tmp_path / "new.diskqueue.000000.dat"
    content = (30).to_bytes(4, "big") + bytes(10) + b"0123456789abcdef" + b"body"
    left.write_bytes(content)
    files, clock = FaultyFiles(), ManualClock()
    engine = begin(tmp_path, files, clock)
    descriptors = len(files.open_fds)
    for _ in range(3):
        files.fail("sync_data", errno.EIO)
        assert engine.acts.create_topic("new", storage="diskqueue")[1].error is not None
        for _ in range(4):
            clock.advance(ms=1_000)
            engine.tick()
            settle(engine)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("new.*")} == {f"{left.name}.bad": content}
    assert len(files.open_fds) == descriptors
    assert engine.acts.create_topic("new", storage="diskqueue")[1].error is None
    assert engine.catalog.topic("new").store.depth == 0


# What the progress journal and the file of cursors say. Only the log has them.

JOURNAL_ACTS: dict[str, Act] = {
    "empty a channel": lambda engine: engine.acts.empty_channel("orders", "billing"),
    "empty a topic with its channels": lambda engine: engine.acts.empty_topic("orders", channels_too=True),
    "empty a topic that has no channel": lambda engine: engine.acts.empty_topic("waiting"),
    "seek to the end": lambda engine: engine.acts.rewind_channel("orders", "billing", target=Target(word=END)),
    "seek into the midst": lambda engine: engine.acts.rewind_channel("orders", "billing", target=Target(20)),
    "skip into the midst": lambda engine: engine.acts.rewind_channel(
        "orders", "billing", target=Target(20), keep_finished=True
    ),
    "make a cursor": lambda engine: engine.cursors.create("orders", cursor="new"),
    "end a cursor": lambda engine: engine.cursors.delete("orders", cursor="archive"),
}
FAULTS = {
    "no room": ("write", errno.ENOSPC, 12),
    "an error of writing": ("write", errno.EIO, 1),
    "an error of syncing": ("sync_data", errno.EIO, 1),
}


def log_state_of(engine: Engine) -> dict[str, Any]:
    cursors = [(one.cursor, one.offset) for one in engine.cursors.all().cursors]
    return state_of(engine) | {"cursors": cursors, "ended": len(engine.cursors.all().ended)}


def with_cursor(directory: Path, files: FaultyFiles, clock: ManualClock) -> Engine:
    engine = prepared(directory, files, clock)
    engine.cursors.create("orders", cursor="archive")
    client = Client(engine, "orders", "billing", ready=10)
    client.finish(*[one.id for one in client.sink.received])
    client.leave()
    return engine


@pytest.mark.parametrize("act", JOURNAL_ACTS.values(), ids=JOURNAL_ACTS.keys())
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
@pytest.mark.slow(reason="ends at every act")
def test_what_the_journal_can_not_take_changes_nothing_now_and_after_a_kill(
    tmp_path: Path, act: Act, fault: tuple[str, int, int]
) -> None:
    files, clock = FaultyFiles(), ManualClock()
    engine = with_cursor(tmp_path, files, clock)
    before = log_state_of(engine)
    operation, number, count = fault
    files.fail(operation, number, count=count)
    if operation == "sync_data":
        files.fail("sync", number, count=count)
    error = act(engine)[1].error
    assert error is not None
    files.heal()
    settle(engine)
    assert log_state_of(engine) == before
    for _ in range(4):
        clock.advance(ms=1_100)
        engine.tick()
        settle(engine)
    assert engine.stats.health == "OK"
    assert log_state_of(engine) == before
    files.abandon()
    again = begin(tmp_path, FaultyFiles(), clock)
    settle(again)
    assert log_state_of(again) == before
    assert act(again)[1].error is None, "and then it can be done"


@pytest.mark.parametrize("act", JOURNAL_ACTS.values(), ids=JOURNAL_ACTS.keys())
@pytest.mark.slow(reason="ends at every act")
def test_what_the_journal_took_is_so_after_a_kill(tmp_path: Path, act: Act) -> None:
    files, clock = FaultyFiles(), ManualClock()
    engine = with_cursor(tmp_path, files, clock)
    before = log_state_of(engine)
    assert act(engine)[1].error is None
    after = log_state_of(engine)
    assert after != before
    files.abandon()
    again = begin(tmp_path, FaultyFiles(), clock)
    settle(again)
    assert log_state_of(again) == after
