"""What was emptied or deleted of a channel of the log comes back exactly: waiting, deferred, in flight, attempts."""

from dataclasses import replace
from pathlib import Path

import pytest

from admin_console.gateway.act_sentences import sentence_of
from queue_engine.delivery.stats import ActRecord
from queue_engine.engine.acts.log_acts import Target
from queue_engine.engine.catalog.trash import LEAST_MS
from queue_engine.engine.engine import Engine
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.errors import CountsChangedError, TrashNotFoundError
from queue_engine.wire.trash import TrashStats
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, pass_time, settle

DAY_MS = 24 * 3_600_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def engine(tmp_path: Path, clock: ManualClock) -> Engine:
    return make_engine(tmp_path, clock)


def publish(engine: Engine, *bodies: bytes) -> None:
    engine.publish("orders", bodies)
    settle(engine)


def fill(engine: Engine, clock: ManualClock) -> None:
    """Ten messages in orders/billing: 0 and 3 finished, 1 in flight, 2 deferred after a delivery, the rest waits."""
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    publish(engine, *[b"%d" % number for number in range(10)])
    client = Client(engine, "orders", "billing", ready=4)
    ids = [one.id for one in client.sink.received]
    client.ready(0)
    client.finish(ids[0], ids[3])
    client.channel.requeue(client.consumer, ids[2], 60_000 * NS_PER_MS, clock.monotonic_ns())
    settle(engine)


def only(engine: Engine) -> TrashStats:
    (one,) = engine.trash.list()
    return one


def restore(engine: Engine) -> tuple[int, int]:
    """The counts of waiting and deferred messages that came back."""
    outcome, ticket = engine.trash.restore_trash("orders", trash=only(engine).id)
    settle(engine)
    assert ticket.done
    assert ticket.error is None
    return outcome.depth, outcome.deferred


def received(engine: Engine, channel: str = "billing") -> dict[bytes, int]:
    """Body → attempts of all that a new consumer gets, which it finishes."""
    client = Client(engine, "orders", channel, ready=1_000)
    got = {one.body: one.attempts for one in client.sink.received}
    assert len(got) == len(client.sink.received)
    assert client.finish(*[one.id for one in client.sink.received]) == []
    client.leave()
    return got


FILLED = {b"1": 2, **{b"%d" % number: 1 for number in range(4, 10)}}


def restarted(engine: Engine, directory: Path, clock: ManualClock, *, is_killed: bool = False) -> Engine:
    if not is_killed:
        engine.close()
    return make_engine(directory, clock)


@pytest.mark.parametrize("act", ["empty_channel", "delete_channel"])
@pytest.mark.parametrize("restart", ["", "stop"])
def test_all_comes_back_as_it_was(tmp_path: Path, clock: ManualClock, act: str, restart: str) -> None:
    engine = make_engine(tmp_path, clock)
    fill(engine, clock)
    outcome, ticket = getattr(engine.acts, act)("orders", "billing", by="anna")
    settle(engine)
    assert ticket.done
    assert (outcome.depth, outcome.in_flight, outcome.deferred) == (6, 1, 1)
    one = only(engine)
    assert outcome.trash == one.id
    assert (one.act, one.topic, one.channel, one.by) == (act, "orders", "billing", "anna")
    assert (one.waiting, one.in_flight, one.deferred, one.restorable) == (6, 1, 1, 8)
    assert one.until_ms - one.at_ms == DAY_MS
    if act == "empty_channel":
        assert engine.topics["orders"].channels["billing"].backlog.depth == 0
    else:
        assert "billing" not in engine.topics["orders"].channels
    if restart:
        engine.close()
        engine = make_engine(tmp_path, clock)
        assert replace(only(engine), bytes=0) == one
    assert restore(engine) == (7, 1)
    assert engine.trash.list() == ()
    channel = engine.topics["orders"].channels["billing"]
    assert (channel.backlog.depth, channel.backlog.deferred_count) == (7, 1)
    assert received(engine) == FILLED
    pass_time(engine, clock, 60_000)
    assert received(engine) == {b"2": 2}
    publish(engine, b"new")
    assert received(engine) == {b"new": 1}
    engine.close()
    engine = make_engine(tmp_path, clock)
    assert received(engine) == {}


def test_a_channel_that_lives_again_is_joined(engine: Engine, clock: ManualClock) -> None:
    fill(engine, clock)
    engine.acts.delete_channel("orders", "billing")
    settle(engine)
    client = Client(engine, "orders", "billing", ready=1)  # it makes the channel anew
    publish(engine, b"a", b"b", b"c")
    assert client.bodies == [b"a"]
    assert restore(engine) == (7, 1)
    held = client.sink.received[0]
    # What the living one has in flight stays there, and its consumer finishes it.
    assert client.finish(held.id) == []
    client.ready(0)
    assert client.bodies == [b"a", b"1"]
    client.leave()
    assert received(engine) == FILLED | {b"1": 3, b"b": 1, b"c": 1}
    pass_time(engine, clock, 60_000)
    assert received(engine) == {b"2": 2}


def test_messages_between_the_deletion_and_the_new_channel_come_back(engine: Engine, clock: ManualClock) -> None:
    fill(engine, clock)
    engine.acts.create_channel("orders", "other")
    settle(engine)
    engine.acts.delete_channel("orders", "billing")
    settle(engine)
    publish(engine, b"between")
    engine.acts.create_channel("orders", "billing")
    publish(engine, b"after")
    assert received(engine) == {b"after": 1}
    restore(engine)
    assert received(engine) == FILLED | {b"between": 1}


@pytest.mark.parametrize("order", ["channel", "channel topic", "topic channel"])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_deleted_channel_has_what_waited_at_its_topic_though_that_was_emptied(
    tmp_path: Path, clock: ManualClock, order: str, is_restarted: bool
) -> None:
    """Each message once, in whichever order both are restored, and also where the channel alone is."""
    engine = make_engine(tmp_path, clock)
    fill(engine, clock)
    engine.acts.pause_topic("orders")
    publish(engine, b"waits", b"too")
    channel = engine.acts.delete_channel("orders", "billing")[0].trash
    topic = engine.acts.empty_topic("orders")[0].trash
    settle(engine)
    if is_restarted:
        engine.close()
        engine = make_engine(tmp_path, clock)
    entries = {"channel": channel, "topic": topic}
    for one in order.split():
        ticket = engine.trash.restore_trash("orders", trash=entries[one])[1]
        settle(engine)
        assert ticket.error is None
    engine.acts.unpause_topic("orders")
    clock.advance(ms=61_000)
    pass_time(engine, clock, 1_000)
    client = Client(engine, "orders", "billing", ready=100)
    assert sorted(client.bodies) == sorted([b"1", b"2", *[b"%d" % one for one in range(4, 10)], b"waits", b"too"])
    engine.close()


def test_what_the_new_channel_finished_stays_finished_though_it_was_deleted_too(
    engine: Engine, clock: ManualClock
) -> None:
    fill(engine, clock)
    engine.acts.delete_channel("orders", "billing")
    settle(engine)
    engine.acts.create_channel("orders", "billing")
    publish(engine, b"a", b"b")
    assert received(engine) == {b"a": 1, b"b": 1}
    publish(engine, b"c")
    engine.acts.delete_channel("orders", "billing")
    settle(engine)
    newest, oldest = engine.trash.list()
    assert (newest.waiting, oldest.waiting) == (1, 6)
    engine.trash.restore_trash("orders", trash=oldest.id)
    settle(engine)
    assert received(engine) == FILLED
    engine.trash.restore_trash("orders", trash=newest.id)
    settle(engine)
    assert received(engine) == {b"c": 1}


def test_a_rewind_takes_its_messages_out_of_the_trash(engine: Engine, clock: ManualClock) -> None:
    fill(engine, clock)
    engine.acts.empty_channel("orders", "billing")
    settle(engine)
    engine.acts.rewind_channel("orders", "billing", target=Target(offset=6))
    settle(engine)
    assert only(engine).restorable == 4
    assert received(engine) == {b"%d" % number: 1 for number in range(6, 10)}
    restore(engine)
    assert received(engine) == {b"1": 2, b"4": 1, b"5": 1}


def test_emptied_twice_and_restored_in_any_order(engine: Engine, clock: ManualClock) -> None:
    fill(engine, clock)
    engine.acts.empty_channel("orders", "billing")
    publish(engine, b"a", b"b")
    engine.acts.empty_channel("orders", "billing")
    settle(engine)
    second, first = engine.trash.list()
    for one in (first, second):
        engine.trash.restore_trash("orders", trash=one.id)
        settle(engine)
    assert received(engine) == FILLED | {b"a": 1, b"b": 1}


def test_a_channel_deleted_while_paused_is_restored_paused(engine: Engine, clock: ManualClock) -> None:
    fill(engine, clock)
    engine.acts.pause_channel("orders", "billing")
    engine.quarantine.set_max_attempts("orders", "billing", max_attempts=7)
    engine.acts.delete_channel("orders", "billing")
    settle(engine)
    restore(engine)
    assert engine.topics["orders"].channels["billing"].paused
    assert engine.stats.now().topics[0].channels[0].quarantine.max_attempts == 7
    assert received(engine) == {}


def test_a_restored_channel_has_its_max_attempts_and_what_was_quarantined(engine: Engine, clock: ManualClock) -> None:
    fill(engine, clock)
    engine.quarantine.set_max_attempts("orders", "billing", max_attempts=7)
    engine.message_acts.quarantine_messages("orders", "billing", offsets=list(range(20)))
    settle(engine)
    before = engine.topics["orders"].channels["billing"].backlog.quarantine_stats()
    assert before.count > 0
    engine.acts.delete_channel("orders", "billing")
    settle(engine)
    restore(engine)
    after = engine.topics["orders"].channels["billing"].backlog.quarantine_stats()
    assert (after.max_attempts, after.count, after.bytes) == (7, before.count, before.bytes)
    assert received(engine) == {}


def test_an_empty_channel_is_created_again(engine: Engine) -> None:
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    engine.acts.delete_channel("orders", "billing")
    settle(engine)
    publish(engine, b"waits at the topic")
    assert restore(engine) == (0, 0)
    assert received(engine) == {b"waits at the topic": 1}


def test_the_log_keeps_what_the_trash_needs_until_it_expires(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock, log_segment_bytes=1 << 20, max_msg_size=60_000, max_body_size=60_000)
    acts = []
    engine.trash.on_act = acts.append
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    for number in range(80):
        publish(engine, b"%d" % number + bytes(50_000))
    log = engine._stores.log
    assert log is not None
    segments = len(log.segments.list)
    assert segments >= 4
    engine.acts.empty_channel("orders", "billing")
    for _ in range(10):
        pass_time(engine, clock, 1_100)
    assert len(log.segments.list) == segments
    one = only(engine)
    assert one.bytes > 2 << 20
    assert engine.trash.bytes > 2 << 20
    clock.advance(ms=DAY_MS)
    for _ in range(10):
        pass_time(engine, clock, 1_100)
    assert engine.trash.list() == ()
    assert engine.trash.bytes == 0
    assert len(log.segments.list) <= 2
    assert [(act.action, act.topic, act.channel) for act in acts] == [("expire_trash", "orders", "billing")]
    with pytest.raises(TrashNotFoundError):
        engine.trash.restore_trash("orders", trash=one.id)
    engine.close()
    engine = make_engine(tmp_path, clock, log_segment_bytes=1 << 20, max_msg_size=60_000, max_body_size=60_000)
    assert engine.trash.list() == ()


def test_an_entry_that_expired_while_the_server_was_down_goes_at_the_start(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock)
    fill(engine, clock)
    engine.acts.delete_channel("orders", "billing")
    settle(engine)
    engine.close()
    clock.advance(ms=DAY_MS)
    engine = make_engine(tmp_path, clock)
    engine.tick()
    assert len(engine.trash.list()) == 1  # the clock may be wrong until the network corrects it
    pass_time(engine, clock, LEAST_MS)
    assert engine.trash.list() == ()


@pytest.mark.parametrize("restarts", [False, True])
def test_a_clock_that_is_set_forward_does_not_empty_the_trash(
    tmp_path: Path, clock: ManualClock, restarts: bool
) -> None:
    engine = make_engine(tmp_path, clock)
    fill(engine, clock)
    engine.acts.delete_channel("orders", "billing")
    settle(engine)
    if restarts:
        engine.close()
    clock.set_back(ms=-100 * DAY_MS)
    if restarts:
        engine = make_engine(tmp_path, clock)
        pass_time(engine, clock, LEAST_MS - 1_000)
        clock.set_back(ms=100 * DAY_MS)  # as it should be
    pass_time(engine, clock, DAY_MS - LEAST_MS - 1_000)
    assert sum(restore(engine)) == 8
    engine.close()


def test_deleted_for_good_it_never_comes_back(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock)
    fill(engine, clock)
    engine.acts.empty_channel("orders", "billing")
    settle(engine)
    outcome, ticket = engine.trash.delete_trash("orders", trash=only(engine).id)
    settle(engine)
    assert ticket.done
    assert outcome.depth == 6
    engine.close()
    engine = make_engine(tmp_path, clock)
    assert engine.trash.list() == ()
    assert received(engine) == {}


def test_without_an_age_nothing_is_kept(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock, trash_age_ms=0)
    fill(engine, clock)
    outcome, _ = engine.acts.empty_channel("orders", "billing")
    settle(engine)
    assert (outcome.depth, outcome.trash) == (6, 0)
    assert engine.trash.list() == ()


def test_far_more_than_expected_is_refused_with_the_new_count(engine: Engine, clock: ManualClock) -> None:
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    publish(engine, *[b"x"] * 1_500)
    for act in (engine.acts.empty_channel, engine.acts.delete_channel):
        with pytest.raises(CountsChangedError, match=r"1,500 messages now, and 10 were expected"):
            act("orders", "billing", expected=10)
    assert engine.topics["orders"].channels["billing"].backlog.depth == 1_500
    outcome, _ = engine.acts.delete_channel("orders", "billing", expected=600)
    assert outcome.depth == 1_500


def test_what_was_quarantined_comes_back_so_and_is_counted(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock)
    fill(engine, clock)
    engine.message_acts.quarantine_messages("orders", "billing", offsets=[5, 6])
    emptied, _ = engine.acts.empty_channel("orders", "billing")
    settle(engine)
    assert (emptied.depth, emptied.quarantined) == (4, 2)
    assert (only(engine).waiting, only(engine).quarantined) == (4, 2)
    outcome, _ = engine.trash.restore_trash("orders", trash=only(engine).id)
    settle(engine)
    assert (outcome.depth, outcome.deferred, outcome.quarantined) == (5, 1, 2)
    assert sentence_of("restore_trash", "orders", "", {}, outcome) == (
        "Restored orders/billing from the trash: 8 messages (depth 5, 1 deferred, 2 quarantined) came back."
    )
    assert sorted(engine.topics["orders"].channels["billing"].backlog.progress.quarantined) == [5, 6]


def test_without_a_trash_a_deleted_topic_takes_its_older_entries_with_it(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock)
    fill(engine, clock)
    engine.acts.empty_channel("orders", "billing")
    settle(engine)
    engine.close()
    engine = make_engine(tmp_path, clock, trash_age_ms=0)
    assert only(engine).channel == "billing"
    engine.acts.delete_topic("orders")
    settle(engine)
    assert engine.trash.list() == ()
    clock.advance(ms=DAY_MS)
    pass_time(engine, clock, 1_100)


def test_beyond_so_many_entries_the_oldest_go(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queue_engine.engine.catalog.trash.ENTRIES_MAX", 3)
    engine = make_engine(tmp_path, clock)
    fill(engine, clock)
    acts: list[ActRecord] = []
    engine.trash.on_act = acts.append
    ids = []
    for _ in range(5):
        outcome, _ticket = engine.acts.empty_channel("orders", "billing")
        settle(engine)
        clock.advance(ms=1)
        ids.append(outcome.trash)
    pass_time(engine, clock, 1_100)
    assert [one.id for one in engine.trash.list()] == ids[:1:-1]
    assert [act.action for act in acts] == ["give_up_trash"] * 2


class Killed(BaseException):
    """The process ends here."""


def test_a_kill_in_a_rewind_brings_no_finished_message_back(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine(tmp_path, clock)
    fill(engine, clock)
    engine.acts.empty_channel("orders", "billing")
    settle(engine)

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("queue_engine.storage.log_store.log_backlog.LogBacklog.seek", killed)
        with pytest.raises(Killed):
            engine.acts.rewind_channel("orders", "billing", target=Target(offset=6))
    engine = restarted(engine, tmp_path, clock, is_killed=True)
    assert set(received(engine)) == {b"6", b"7", b"8", b"9"}
    assert restore(engine) == (3, 1)
    assert set(received(engine)) == {b"1", b"4", b"5"}
