"""Acts on much are done in steps, between which messages of other topics are published and delivered; what a client
sees between two steps is consistent, and so is what a kill leaves there.

With a piece of 0 ns each turn of the engine does one step.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from queue_engine.delivery import channel
from queue_engine.delivery.stats import Outcome
from queue_engine.engine.engine import Engine
from queue_engine.storage.log_store import channel_places
from queue_engine.storage.progress import journal, journal_format
from queue_engine.vocabulary import next_turn, pieces
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.ticket import Ticket
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles, ProcessDiedError
from tests.support.engine import Client, make_engine, make_topic, settle

CHANNELS = 40
DELIVERIES = 30


class Beside:
    """Another topic, on which a message goes from publisher to consumer with each turn of an act."""

    def __init__(self, engine: Engine) -> None:
        make_topic(engine, "beside", "c")
        self.engine = engine
        self.client = Client(engine, "beside", "c", ready=1_000)
        self.turns = 0

    def until(self, is_over: Callable[[], bool], turns_max: int = 10_000) -> int:
        """Run turns until `is_over`; returns how many."""
        before = self.turns
        while not is_over() and self.turns - before < turns_max:
            self.turns += 1
            body = b"%d" % self.turns
            published = self.engine.publish("beside", [body])
            assert self.engine.has_work
            self.engine.turn()
            assert published.done
            assert published.error is None
            assert self.client.bodies[-1] == body
        return self.turns - before


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setattr(pieces, "PIECE_NS", 0)
    return make_engine(tmp_path, ManualClock())


def holding(engine: Engine, count: int = DELIVERIES) -> Client:
    """A consumer of t/c that holds so many messages, each of a delivery of its own."""
    make_topic(engine, "t", "c")
    client = Client(engine, "t", "c")
    client.sink.run_bytes_max = 1
    engine.publish("t", [b"%d" % number for number in range(count)])
    settle(engine)
    client.ready(count)
    client.channel.set_ready(client.consumer, 0)
    assert client.channel.in_flight_count == count
    return client


def many_channels(engine: Engine) -> None:
    make_topic(engine, "t", *(f"c{number}" for number in range(CHANNELS)))
    engine.publish("t", [b"x", b"y"])
    settle(engine)


def done(begun: tuple[Outcome, Ticket]) -> Outcome:
    outcome, ticket = begun
    assert ticket.done
    assert ticket.error is None
    return outcome


def test_a_topic_of_many_channels_is_deleted_a_channel_with_each_turn(engine: Engine) -> None:
    beside = Beside(engine)
    many_channels(engine)
    begun = engine.acts.delete_topic("t")
    created = engine.acts.create_channel("t", "new")
    assert beside.until(lambda: begun[1].done) >= CHANNELS - 1
    outcome = done(begun)
    assert (outcome.channels, outcome.depth) == (CHANNELS, 2 * CHANNELS)
    assert created[1].error is not None, "its turn comes behind the deletion"
    assert "t" not in engine.topics


def test_a_topic_of_many_channels_is_emptied_a_channel_with_each_turn(engine: Engine) -> None:
    beside = Beside(engine)
    many_channels(engine)
    begun = engine.acts.empty_topic("t", channels_too=True)
    assert beside.until(lambda: begun[1].done) >= CHANNELS - 1
    outcome = done(begun)
    assert (outcome.channels, outcome.depth) == (CHANNELS, 2 * CHANNELS)
    assert engine.topics["t"].counts().depth == 0


def test_what_is_published_amid_an_emptying_comes_to_all_channels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "PIECE_NS", 0)
    engine = make_engine(tmp_path, ManualClock(), trash_age_ms=0)
    many_channels(engine)
    begun = engine.acts.empty_topic("t", channels_too=True)
    for _ in range(CHANNELS // 2):
        engine.turn()
    assert not begun[1].done
    published = engine.publish("t", [b"new"])
    settle(engine)
    done(begun)
    assert published.done
    assert [one.backlog.depth for one in engine.topics["t"].channels.values()] == [1] * CHANNELS


def test_between_two_steps_of_a_deletion_all_counts_add_up(engine: Engine) -> None:
    many_channels(engine)
    for name in engine.topics["t"].channels:
        client = Client(engine, "t", name, ready=2)
        client.finish(*[one.id for one in client.sink.received])
    _, ticket = engine.acts.delete_topic("t")
    steps = 0
    while not ticket.done:
        steps += 1
        snapshot = engine.stats.now(include_clients=False)
        (topic,) = snapshot.topics
        finished = sum(channel.finish_count for channel in topic.channels)
        assert finished + snapshot.gone.by_metric["penstock_messages_finished_total"] == 2 * CHANNELS
        assert topic.message_count + snapshot.gone.by_metric["penstock_messages_published_total"] == 2
        engine.turn()
    gone = engine.stats.now(include_clients=False).gone.by_metric
    assert steps == CHANNELS
    assert gone["penstock_messages_finished_total"] == 2 * CHANNELS
    assert gone["penstock_messages_published_total"] == 2


def test_a_kill_amid_a_deletion_leaves_the_topic_deleted(engine: Engine, tmp_path: Path) -> None:
    many_channels(engine)
    _, ticket = engine.acts.delete_topic("t")
    for _ in range(CHANNELS // 2):
        engine.turn()
    assert not ticket.done
    again = make_engine(tmp_path, ManualClock())
    assert list(again.topics) == []
    again.close()


@pytest.mark.parametrize("options", [{}, {"trash_age_ms": 0}], ids=["trash", "no trash"])
def test_a_merge_and_a_kill_amid_an_emptying_bring_nothing_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, object]
) -> None:
    monkeypatch.setattr(pieces, "PIECE_NS", 0)
    clock = ManualClock()
    engine = make_engine(tmp_path, clock, **options)
    many_channels(engine)
    _, ticket = engine.acts.empty_topic("t", channels_too=True)
    while sum(channel.counts().depth > 0 for channel in engine.topics["t"].channels.values()) > CHANNELS // 2:
        engine.turn()
    assert not ticket.done
    for _ in range(3):
        clock.advance(ms=5_000)  # a merge is due
        engine.tick()
    killed = tmp_path / "killed"
    shutil.copytree(tmp_path, killed)
    again = make_engine(killed, ManualClock(), **options)
    assert {channel.counts().depth for channel in again.topics["t"].channels.values()} == {0}
    again.close()
    while not ticket.done:
        engine.turn()
    assert ticket.error is None
    merged = journal_numbers(tmp_path)
    clock.advance(ms=60_000)
    engine.tick()
    assert journal_numbers(tmp_path) != merged, "merges go on"


def test_a_kill_at_any_write_of_an_emptying_leaves_each_message_in_one_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "ENTRIES_MAX", 1)  # a merge is due with each sync
    (tmp_path / "source").mkdir()
    source = make_engine(tmp_path / "source", ManualClock())
    make_topic(source, "t", "c")
    source.publish("t", [b"x", b"y"])
    source.close()
    places = set()
    for writes in range(100):
        files, killed = FaultyFiles(), tmp_path / str(writes)
        shutil.copytree(tmp_path / "source", killed)
        engine = make_engine(killed, ManualClock(), files=files)
        files.dies_after = writes
        try:
            engine.acts.empty_channel("t", "c")
            settle(engine)
        except ProcessDiedError:
            pass
        is_over = bool(files.dies_after)
        files.abandon()
        again = make_engine(killed, ManualClock())
        waits = again.topics["t"].channels["c"].counts().depth
        kept = sum(entry.restorable for entry in again.trash.list())
        again.close()
        assert waits + kept == 2, writes
        places.add((waits, kept))
        if is_over:
            break
    assert places == {(2, 0), (0, 2)}


def journal_numbers(directory: Path) -> set[str]:
    return {path.name for path in directory.glob("log/progress/*.journal")}


def test_a_stop_amid_a_deletion_ends_it_first(engine: Engine, tmp_path: Path) -> None:
    many_channels(engine)
    ended: list[str] = []
    engine.acts.delete_topic("t")[1].when_done(lambda done: ended.append(str(done.error)))
    engine.turn()
    assert ended == []
    engine.close()
    assert ended == ["None"]
    assert [path.name for path in tmp_path.glob("t*.diskqueue.*")] == []


def test_what_a_consumer_held_that_vanished_waits_again_a_delivery_with_each_turn(engine: Engine) -> None:
    beside = Beside(engine)
    client = holding(engine)
    engine.catalog.leave(client.channel, client.consumer)
    left = client.channel
    seen = []

    def is_over() -> bool:
        stats = left.figures.stats()
        seen.append(stats.in_flight_count)
        assert stats.depth + stats.in_flight_count == DELIVERIES
        return not stats.in_flight_count

    assert beside.until(is_over) >= DELIVERIES - 2
    assert seen == sorted(seen, reverse=True)
    assert left.disconnect_count == DELIVERIES
    other = Client(engine, "t", "c", ready=DELIVERIES)
    assert [int(body) for body in other.bodies] == list(range(DELIVERIES))
    assert {one.attempts for one in other.sink.received} == {2}


def test_what_is_in_flight_is_requeued_a_delivery_with_each_turn(engine: Engine) -> None:
    beside = Beside(engine)
    client = holding(engine)
    begun = engine.acts.requeue_channel("t", "c")
    # It is finished, touched and sent meanwhile as always; what is sent from now on is not requeued.
    ids = [one.id for one in client.sink.received]
    assert client.channel.finish(client.consumer, ids[-1:]) == []
    client.channel.touch(client.consumer, ids[-2], engine.turned_at_ns)
    client.channel.set_ready(client.consumer, DELIVERIES + 1)
    assert beside.until(lambda: begun[1].done) >= DELIVERIES - 3
    assert done(begun).in_flight == DELIVERIES - 1
    assert client.channel.requeue_count == DELIVERIES - 1
    settle(engine)
    again = client.sink.received[DELIVERIES:]
    assert sorted(one.id for one in again) == sorted(ids[:-1]), "each came once more"


def deferring(engine: Engine, monkeypatch: pytest.MonkeyPatch, count: int) -> Client:
    """A consumer of t/c that has deferred so many messages."""
    monkeypatch.setattr(channel, "RELEASED_MESSAGES_MAX", 3)
    client = holding(engine, count)
    for number, one in enumerate(client.sink.received):
        client.channel.requeue(client.consumer, one.id, (1_000 + number) * NS_PER_MS, engine.turned_at_ns)
    settle(engine)
    return client


def test_what_is_deferred_is_released_some_with_each_turn(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = Beside(engine)
    client = deferring(engine, monkeypatch, 30)
    begun = engine.acts.release_deferred("t", "c")
    # What is deferred later than the last of them stays deferred.
    client.channel.set_ready(client.consumer, 1)
    beside.until(lambda: client.consumer.in_flight_count == 1)
    last = client.sink.received[-1].id
    client.channel.set_ready(client.consumer, 0)
    client.channel.requeue(client.consumer, last, 3_600_000 * NS_PER_MS, engine.turned_at_ns)
    assert beside.until(lambda: begun[1].done) >= 30 // 3 - 3
    assert done(begun).deferred == 30
    stats = client.channel.figures.stats()
    assert (stats.depth, stats.deferred_count) == (29, 1)


def test_a_release_ends_where_the_channel_is_emptied_meanwhile(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    client = deferring(engine, monkeypatch, 30)
    _, released = engine.acts.release_deferred("t", "c")
    engine.turn()
    assert not released.done
    begun = engine.acts.empty_channel("t", "c")
    while not begun[1].done:
        engine.turn()
    emptied = done(begun)
    engine.publish("t", [b"deferred since"], defer_ms=1)
    settle(engine)
    assert released.done
    assert emptied.depth + emptied.deferred == 30
    assert client.channel.backlog.deferred_count == 1


def test_acts_that_drop_what_is_in_flight_meet_none_that_is_still_to_be_requeued(engine: Engine) -> None:
    client = holding(engine)
    requeued = engine.acts.requeue_channel("t", "c")
    engine.turn()
    begun = engine.acts.empty_channel("t", "c")
    settle(engine)
    emptied = done(begun)
    assert emptied.depth + emptied.in_flight == DELIVERIES
    assert done(requeued).in_flight == emptied.depth
    stats = client.channel.figures.stats()
    assert (stats.depth, stats.in_flight_count, client.consumer.in_flight_count) == (0, 0, 0)


def test_what_goes_on_while_a_channel_is_emptied_is_in_the_trash_too(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_format, "PART_ENTRIES", 1)
    beside = Beside(engine)
    client = holding(engine)
    ids = [one.id for one in client.sink.received]
    assert client.channel.finish(client.consumer, ids[::2]) == []
    settle(engine)
    begun = engine.acts.empty_channel("t", "c")
    for number in range(1, DELIVERIES - 1, 4):
        assert not begun[1].done
        assert client.channel.finish(client.consumer, [ids[number]]) == []
        beside.until(lambda: True)
        engine.turn()
    beside.until(lambda: begun[1].done)
    left = done(begun).in_flight
    assert 0 < left < DELIVERIES // 2
    again = make_engine(tmp_path, ManualClock())
    (entry,) = again.trash.list()
    _, restored = again.trash.restore_trash("t", trash=entry.id)
    settle(again)
    assert restored.done
    assert again.topics["t"].channels["c"].figures.stats().depth == left
    again.close()


def test_deferred_messages_come_back_from_the_trash_some_with_each_turn(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_places, "PLACED_AT_ONCE", 2)
    beside = Beside(engine)
    client = deferring(engine, monkeypatch, 30)
    begun = engine.acts.empty_channel("t", "c")
    beside.until(lambda: begun[1].done)
    assert done(begun).deferred == 30
    (entry,) = engine.trash.list()
    restored = engine.trash.restore_trash("t", trash=entry.id)
    # 15 steps find them, 15 more give them their places.
    assert beside.until(lambda: restored[1].done) >= 30
    assert done(restored).deferred == client.channel.backlog.deferred_count == 30
    due_ns = engine.turned_at_ns + 1_014 * NS_PER_MS
    assert client.channel.backlog.release_due(due_ns, 100) == 15


def test_a_deletion_of_the_channel_ends_what_goes_on_there(engine: Engine) -> None:
    client = holding(engine)
    requeued = engine.acts.requeue_channel("t", "c")
    engine.turn()
    done(engine.acts.delete_channel("t", "c"))
    settle(engine)
    assert done(requeued).in_flight < DELIVERIES
    assert client.sink.is_closed


def test_large_containers_are_freed_in_parts_by_turns(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(next_turn, "UNFREED_MIN", 10)
    monkeypatch.setattr(next_turn, "FREED_ENTRIES_MAX", 2)
    beside = Beside(engine)
    client = holding(engine)
    _, emptied = engine.acts.empty_channel("t", "c")
    beside.until(lambda: emptied.done)
    assert client.channel.in_flight_count == 0
    assert beside.until(lambda: not engine.has_work) >= DELIVERIES // 2
