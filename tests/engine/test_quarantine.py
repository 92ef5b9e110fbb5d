"""Quarantine of a channel: max attempts, by hand, redriven at a rate, cancelled, after a restart, by age."""

from pathlib import Path
from typing import Any

import pytest

from queue_engine.delivery.stats import ChannelStats, MessageResult, Outcome
from queue_engine.engine.engine import Engine
from queue_engine.engine.messages.rows import MessageQuery, MessageRow
from queue_engine.storage.log_store.channel_cursor import ChannelCursor
from queue_engine.vocabulary.errors import InvalidStorageError, QuarantineError
from queue_engine.vocabulary.flow.redrive import RATE_MAX
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, pass_time, settle

NAMES = ("orders", "billing")
DAY_MS = 24 * 3_600_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def made(tmp_path: Path, clock: ManualClock, count: int = 3, max_attempts: int = 2, **options: Any) -> Engine:
    """An engine with so many messages, b"0" and on, in orders/billing."""
    engine = make_engine(tmp_path, clock, **options)
    engine.acts.create_topic("orders", storage="log")
    engine.acts.create_channel(*NAMES)
    do(engine, "quarantine", "set_max_attempts", max_attempts=max_attempts)
    if count:
        engine.publish("orders", [b"%d" % number for number in range(count)])
    settle(engine)
    return engine


def do(engine: Engine, acts: str, act: str, **details: Any) -> Outcome:
    """Raises what the act's ticket was rejected with."""
    outcome, ticket = getattr(getattr(engine, acts), act)(*NAMES, **details)
    settle(engine)
    assert ticket.done
    if ticket.error is not None:
        raise ticket.error
    assert isinstance(outcome, Outcome)
    return outcome


def results_of(engine: Engine, act: str, **details: Any) -> tuple[MessageResult, ...]:
    return do(engine, "message_acts", act, **details).results


def stats_of(engine: Engine) -> ChannelStats:
    (topic,) = engine.stats.now(include_clients=False).topics
    (channel,) = topic.channels
    return channel


def figures(engine: Engine) -> tuple[int, int, int, int]:
    """(waiting, in flight, deferred, quarantined)"""
    stats = stats_of(engine)
    return stats.depth, stats.in_flight_count, stats.deferred_count, stats.quarantined_count


def fail_all(engine: Engine, clock: ManualClock, times: int = 2) -> None:
    """A consumer requeues all that it gets, so many times."""
    client = Client(engine, *NAMES, ready=100)
    for _ in range(times):
        for message in client.sink.received:
            client.channel.requeue(client.consumer, message.id, 0, clock.monotonic_ns())
        client.sink.received.clear()
        settle(engine)
    client.leave()


def rows(engine: Engine, state: str = "quarantined", **query: Any) -> tuple[MessageRow, ...]:
    return engine.messages.list(*NAMES, MessageQuery(state, **query)).rows


def test_a_poison_message_is_set_aside_and_the_others_are_finished(tmp_path: Path, clock: ManualClock) -> None:
    engine = made(tmp_path, clock)
    client = Client(engine, *NAMES, ready=1)
    seen = []
    for _ in range(4):
        (message,) = client.sink.received
        client.sink.received.clear()
        seen.append(message.body)
        if message.body == b"0":
            client.channel.requeue(client.consumer, message.id, 0, clock.monotonic_ns())
            settle(engine)
        else:
            client.finish(message.id)
    assert seen == [b"0", b"1", b"2", b"0"]
    assert figures(engine) == (0, 0, 0, 1)
    assert (stats_of(engine).quarantine.max_attempts, stats_of(engine).quarantine.bytes) == (2, 1)
    (row,) = rows(engine)
    assert (row.state, row.attempts, row.reason, row.body_bytes) == ("quarantined", 2, "requeued", 1)
    assert row.quarantined_at_ns == clock.time_ns()
    assert [one.reason for one in row.history] == ["requeued"]
    assert engine.messages.list(*NAMES, MessageQuery("finished")).counts["finished"] == 2


def test_timeouts_and_disconnects_count_too(tmp_path: Path, clock: ManualClock) -> None:
    engine = made(tmp_path, clock, count=2, max_attempts=1)
    Client(engine, *NAMES, ready=1).leave()
    assert figures(engine) == (1, 0, 0, 1)
    Client(engine, *NAMES, ready=1, msg_timeout_ms=1_000)
    pass_time(engine, clock, 1_100)
    assert figures(engine) == (0, 0, 0, 2)
    assert sorted(row.reason for row in rows(engine)) == ["disconnected", "timed out"]


def test_a_stop_sets_nothing_aside(tmp_path: Path, clock: ManualClock) -> None:
    engine = made(tmp_path, clock, max_attempts=1)
    Client(engine, *NAMES, ready=10)
    engine.close()
    engine = make_engine(tmp_path, clock)
    assert figures(engine) == (3, 0, 0, 0)
    assert stats_of(engine).quarantine.max_attempts == 1


def test_messages_are_set_aside_by_hand_from_any_place(tmp_path: Path, clock: ManualClock) -> None:
    engine = made(tmp_path, clock, count=5, max_attempts=0)
    client = Client(engine, *NAMES, ready=2)
    client.channel.requeue(client.consumer, client.sink.received[1].id, 60_000_000_000, clock.monotonic_ns())
    client.ready(1)
    assert figures(engine) == (3, 1, 1, 0)
    results = results_of(engine, "quarantine_messages", offsets=[0, 1, 3, 9])
    assert [(one.was, one.code) for one in results] == [
        ("in_flight", ""),
        ("deferred", ""),
        ("waiting", ""),
        ("", "MESSAGE_NOT_FOUND"),
    ]
    assert client.finish(client.sink.received[0].id) == ["ID not in flight"]
    settle(engine)
    assert figures(engine) == (1, 1, 0, 3)
    assert {row.reason for row in rows(engine)} == {"by an operator"}
    (again,) = results_of(engine, "quarantine_messages", offsets=[0])
    assert (again.code, again.was) == ("QUARANTINED", "quarantined")
    engine.close()
    engine = make_engine(tmp_path, clock)
    assert figures(engine) == (2, 0, 0, 3)
    client = Client(engine, *NAMES, ready=9)
    assert sorted(client.bodies) == [b"2", b"4"]


def test_one_is_redriven_another_finished_by_hand(tmp_path: Path, clock: ManualClock) -> None:
    engine = made(tmp_path, clock)
    fail_all(engine, clock)
    assert figures(engine) == (0, 0, 0, 3)
    redriven, waiting = results_of(engine, "redrive_messages", offsets=[1]) + results_of(
        engine, "redrive_messages", offsets=[1]
    )
    assert (redriven.code, waiting.code) == ("", "NOT_QUARANTINED")
    (finished,) = results_of(engine, "finish_messages", offsets=[2])
    assert (finished.was, finished.code) == ("quarantined", "")
    assert figures(engine) == (1, 0, 0, 1)
    client = Client(engine, *NAMES, ready=9)
    assert [(one.body, one.attempts) for one in client.sink.received] == [(b"1", 1)]
    engine.close()
    engine = make_engine(tmp_path, clock)
    assert figures(engine) == (1, 0, 0, 1)


def test_a_full_quarantine_refuses_by_hand_and_messages_cycle(tmp_path: Path, clock: ManualClock) -> None:
    engine = made(tmp_path, clock, max_attempts=1, quarantine_max_count=1)
    fail_all(engine, clock, 1)
    assert figures(engine) == (2, 0, 0, 1)
    assert "--quarantine-max-count" in stats_of(engine).quarantine.full
    (row,) = rows(engine)
    (result,) = results_of(engine, "quarantine_messages", offsets=[1 if row.offset == 0 else 0])
    assert result.code == "QUARANTINE_FULL"
    assert figures(engine) == (2, 0, 0, 1)


def test_many_are_set_aside_at_once_as_far_as_there_is_room(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pass over what the cursor leaves out costs time in which nothing else is done."""
    engine = made(tmp_path, clock, count=60, quarantine_max_count=20)
    Client(engine, *NAMES, ready=5)
    passes = []
    skip_all = ChannelCursor.skip_all
    monkeypatch.setattr(
        ChannelCursor, "skip_all", lambda self, offsets: (passes.append(offsets), skip_all(self, offsets))
    )
    results = results_of(engine, "quarantine_messages", offsets=list(range(0, 60, 2)))
    assert [one.code for one in results] == [""] * 20 + ["QUARANTINE_FULL"] * 10
    assert len(passes) == 1
    assert figures(engine)[3] == 20
    assert [row.offset for row in rows(engine)] == list(range(0, 40, 2))


def test_a_redrive_keeps_its_rate_and_says_how_far_it_is(tmp_path: Path, clock: ManualClock) -> None:
    engine = made(tmp_path, clock, count=100, max_attempts=1)
    fail_all(engine, clock, 1)
    assert do(engine, "quarantine", "redrive_channel", rate=10, by="anna").quarantined == 100
    with pytest.raises(QuarantineError, match="being redriven already"):
        do(engine, "quarantine", "redrive_channel", rate=10)
    for _ in range(5):
        pass_time(engine, clock, 1_000)
    assert figures(engine) == (50, 0, 0, 50)
    state = stats_of(engine).redrive
    assert state is not None
    assert (state.done, state.left, state.ended, state.redrive.by) == (50, 50, "", "anna")
    # A stall is not made up for.
    pass_time(engine, clock, 60_000)
    assert figures(engine) == (60, 0, 0, 40)
    for _ in range(4):
        pass_time(engine, clock, 1_000)
    state = stats_of(engine).redrive
    assert state is not None
    assert (figures(engine), state.ended) == ((100, 0, 0, 0), "done")


def test_a_redrive_goes_on_after_a_restart_and_takes_no_message_twice(tmp_path: Path, clock: ManualClock) -> None:
    engine = made(tmp_path, clock, count=10, max_attempts=1)
    fail_all(engine, clock, 1)
    clock.advance(ms=10)
    do(engine, "quarantine", "redrive_channel", rate=2)
    pass_time(engine, clock, 1_000)
    fail_all(engine, clock, 1)  # two of them fail again
    assert figures(engine) == (0, 0, 0, 10)
    engine.close()
    engine = make_engine(tmp_path, clock)
    state = stats_of(engine).redrive
    assert state is not None
    assert (state.left, state.done) == (8, 2)
    for _ in range(4):
        pass_time(engine, clock, 1_000)
    assert figures(engine) == (8, 0, 0, 2)
    engine.close()
    assert stats_of(make_engine(tmp_path, clock)).redrive is None


def test_a_clock_that_was_set_back_leaves_nothing_out_of_a_redrive(tmp_path: Path, clock: ManualClock) -> None:
    engine = made(tmp_path, clock, max_attempts=1)
    fail_all(engine, clock, times=1)
    clock.set_back(ms=DAY_MS)
    do(engine, "quarantine", "redrive_channel", rate=1)
    pass_time(engine, clock, 1_000)
    assert figures(engine) == (1, 0, 0, 2)
    engine.close()
    engine = make_engine(tmp_path, clock)
    for _ in range(2):
        pass_time(engine, clock, 1_000)
    assert figures(engine) == (3, 0, 0, 0)


def test_a_redrive_is_cancelled_and_the_rest_stays(tmp_path: Path, clock: ManualClock) -> None:
    engine = made(tmp_path, clock, count=10, max_attempts=1)
    fail_all(engine, clock, 1)
    do(engine, "quarantine", "redrive_channel", rate=4)
    pass_time(engine, clock, 1_000)
    assert do(engine, "quarantine", "cancel_redrive").quarantined == 6
    pass_time(engine, clock, 5_000)
    state = stats_of(engine).redrive
    assert state is not None
    assert (figures(engine), state.ended) == ((4, 0, 0, 6), "cancelled")
    again = do(engine, "quarantine", "cancel_redrive")
    assert (again.quarantined, again.channels) == (6, 0)
    engine.close()
    assert stats_of(make_engine(tmp_path, clock)).redrive is None


def test_a_message_waits_again_when_it_is_quarantined_too_long(tmp_path: Path, clock: ManualClock) -> None:
    engine = made(tmp_path, clock, count=2, quarantine_max_age_ms=DAY_MS)
    fail_all(engine, clock)
    pass_time(engine, clock, DAY_MS - 20_000)
    assert figures(engine) == (0, 0, 0, 2)
    pass_time(engine, clock, 30_000)
    assert figures(engine) == (2, 0, 0, 0)
    client = Client(engine, *NAMES, ready=9)
    assert {one.attempts for one in client.sink.received} == {1}


def test_emptying_and_deleting_drop_what_is_quarantined_and_say_so(tmp_path: Path, clock: ManualClock) -> None:
    engine = made(tmp_path, clock)
    fail_all(engine, clock)
    assert do(engine, "acts", "empty_channel").quarantined == 3
    assert figures(engine) == (0, 0, 0, 0)
    engine.publish("orders", [b"x"])
    settle(engine)
    fail_all(engine, clock)
    assert do(engine, "acts", "delete_channel").quarantined == 1


@pytest.mark.parametrize(
    ("act", "details", "told"),
    [
        ("set_max_attempts", {"max_attempts": 1_001}, "max_attempts=1001 is not between 0 and 1000"),
        ("set_max_attempts", {"max_attempts": -1}, "max_attempts=-1 is not between"),
        ("redrive_channel", {"rate": 0}, "rate=0 is not between 1 and"),
        ("redrive_channel", {"rate": RATE_MAX + 1}, f"rate={RATE_MAX + 1} is not between"),
    ],
)
def test_limits_are_named(tmp_path: Path, clock: ManualClock, act: str, details: dict[str, int], told: str) -> None:
    engine = made(tmp_path, clock)
    with pytest.raises(QuarantineError, match=told):
        do(engine, "quarantine", act, **details)
    assert stats_of(engine).quarantine.max_attempts == 2


def test_other_kinds_have_no_quarantine(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock)
    for topic, channel, storage in (("files", "c", "diskqueue"), ("t", "c#ephemeral", "log")):
        engine.acts.create_topic(topic, storage=storage)
        engine.acts.create_channel(topic, channel)
        settle(engine)
        with pytest.raises(InvalidStorageError):
            engine.quarantine.set_max_attempts(topic, channel, max_attempts=1)
        with pytest.raises(InvalidStorageError):
            engine.message_acts.quarantine_messages(topic, channel, ids=["0" * 16])


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("act", ["empty_channel", "delete_channel", "delete_topic"])
def test_a_redrive_and_the_histories_come_back_from_the_trash(
    tmp_path: Path, clock: ManualClock, act: str, restarts: bool
) -> None:
    engine = made(tmp_path, clock, count=10)
    fail_all(engine, clock)
    clock.advance(ms=10)
    do(engine, "quarantine", "redrive_channel", rate=2, by="anna")
    pass_time(engine, clock, 1_000)
    assert figures(engine) == (2, 0, 0, 8)
    before = {row.offset: (row.reason, row.attempts, row.history) for row in rows(engine)}
    assert all(history for _, _, history in before.values())
    if act == "delete_topic":
        engine.acts.delete_topic("orders")
    else:
        getattr(engine.acts, act)(*NAMES)
    settle(engine)
    if restarts:
        engine.close()
        engine = make_engine(tmp_path, clock)
    (entry,) = engine.trash.list()
    _, ticket = engine.trash.restore_trash("orders", trash=entry.id)
    settle(engine)
    assert (ticket.done, ticket.error) == (True, None)
    assert figures(engine) == (2, 0, 0, 8)
    assert {row.offset: (row.reason, row.attempts, row.history) for row in rows(engine)} == before
    for _ in range(15):
        pass_time(engine, clock, 1_000)
    state = stats_of(engine).redrive
    assert state is not None
    assert (figures(engine), state.ended, state.redrive.by) == ((10, 0, 0, 0), "done", "anna")
    engine.close()


def test_the_histories_of_what_is_deleted_for_good_go(tmp_path: Path, clock: ManualClock) -> None:
    engine = made(tmp_path, clock)
    fail_all(engine, clock)
    quarantines = engine.topics["orders"].store.quarantines
    engine.acts.delete_channel(*NAMES)
    settle(engine)
    assert len(quarantines._put_away) == 1
    (entry,) = engine.trash.list()
    engine.trash.delete_trash("orders", trash=entry.id)
    settle(engine)
    assert quarantines._put_away == {}
    engine.close()
