"""A restore is made in short steps, between which everything goes on; nothing that fails leaves it half done."""

from collections.abc import Generator
from pathlib import Path

import pytest

from queue_engine.engine.engine import Engine
from queue_engine.storage.log_store.channel_places import ChannelPlaces
from queue_engine.storage.log_store.channel_restore import ChannelRestore
from queue_engine.storage.log_store.log_backlog import LogBacklog
from queue_engine.storage.progress import joining
from queue_engine.storage.progress.joining import Joined
from queue_engine.vocabulary import pieces
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, settle

BODIES = [b"%d" % number for number in range(400)]
LEFT = BODIES[1::2]


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """orders/billing was emptied with every second message of 400 finished: 200 ranges. billing lives on."""
    engine = make_engine(tmp_path, ManualClock())
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    engine.publish("orders", BODIES)
    settle(engine)
    client = Client(engine, "orders", "billing", ready=len(BODIES))
    client.finish(*[one.id for one in client.sink.received[::2]])
    client.leave()
    engine.acts.empty_channel("orders", "billing")
    settle(engine)
    return engine


def begin(engine: Engine):
    (entry,) = engine.trash.list()
    return engine.trash.restore_trash("orders", trash=entry.id)[1]


def test_others_get_their_messages_between_the_steps(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_NS", 0)
    engine.publish("orders", [b"new-1", b"new-2", b"new-3"])
    settle(engine)
    client = Client(engine, "orders", "billing")
    ticket = begin(engine)
    turns = 0
    finished = 0
    client.channel.set_ready(client.consumer, 1)
    while not ticket.done:
        turns += 1
        assert engine.has_work
        engine.turn()
        if finished < 2 and client.sink.received:
            assert turns < len(LEFT), "delivery waited for the restore"
            one = client.sink.received.pop()
            assert client.channel.finish(client.consumer, [one.id]) == []
            finished += 1
    assert turns > len(LEFT)
    assert finished == 2
    client.ready(1_000)
    got = sorted((one.body, one.attempts) for one in client.sink.received)
    assert got == sorted([(b"new-3", 1), *((body, 2) for body in LEFT)])
    engine.close()


def test_it_is_computed_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    joins = joining.joining
    monkeypatch.setattr(
        "queue_engine.storage.log_store.channel_restore.joining", lambda *a, **k: calls.append(1) or joins(*a, **k)
    )
    ticket = begin(engine)
    settle(engine)
    assert (ticket.done, ticket.error, calls) == (True, None, [1])
    engine.close()


@pytest.mark.parametrize("step", ["take_over", "place"])
def test_an_error_behind_the_durable_step_fences_and_a_retry_has_all(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fails(self: ChannelPlaces, joined: Joined) -> Generator[None, None, None]:
        yield
        raise ZeroDivisionError("a bug")

    with monkeypatch.context() as patched:
        if step == "place":
            patched.setattr(ChannelPlaces, "place_joined", fails)
        else:
            join = LogBacklog.join

            def join_and_fail(self: LogBacklog, joined: Joined) -> None:
                join(self, joined)
                raise ZeroDivisionError("a bug")

            patched.setattr(LogBacklog, "join", join_and_fail)
        ticket = begin(engine)
        settle(engine)
    assert (ticket.done, ticket.error) == (True, None)
    assert engine.trash.list() == ()
    assert engine.topics["orders"].channels["billing"].figures.stats().fenced
    engine.acts.retry_channel("orders", "billing")
    settle(engine)
    client = Client(engine, "orders", "billing", ready=1_000)
    assert sorted(client.bodies) == sorted(LEFT)
    engine.close()


def test_an_error_before_the_durable_step_changes_nothing(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: ChannelRestore) -> Generator[None, None, None]:
        yield
        raise ZeroDivisionError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr(ChannelRestore, "compute", fails)
        ticket = begin(engine)
        settle(engine)
        assert isinstance(ticket.error, ZeroDivisionError)
    assert engine.topics["orders"].channels["billing"].figures.stats().depth == 0
    assert begin(engine).error is None
    settle(engine)
    assert engine.topics["orders"].channels["billing"].figures.stats().depth == len(LEFT)
    engine.close()
