"""The latest acts: an act that was decided on an older state is refused in the step in which it would begin."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from queue_engine.delivery.stats import ActRecord, MessageResult, Outcome
from queue_engine.engine.acts import recent_acts
from queue_engine.engine.acts.recent_acts import Order, StateChangedError
from queue_engine.engine.engine import Engine
from queue_engine.vocabulary.errors import TopicNotFoundError
from queue_engine.vocabulary.ticket import Ticket
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, settle
from tests.support.stores.background import HeldBackground

ACTS = frozenset(
    {
        "create_channel",
        "delete_channel",
        "pause_channel",
        "release_deferred",
        "requeue_channel",
        "unpause_channel",
    }
)


@pytest.fixture
def disk() -> HeldBackground:
    return HeldBackground()


@pytest.fixture
def engine(tmp_path: Path, disk: HeldBackground) -> Engine:
    made = make_engine(tmp_path, ManualClock(), background=disk)
    made.acts.create_topic("orders")
    settle_all(made, disk)
    made.acts.create_channel("orders", "billing")
    settle_all(made, disk)
    return made


def settle_all(engine: Engine, disk: HeldBackground) -> None:
    while engine.has_work or disk.is_busy:
        engine.turn()
        disk.finish()


def order(engine: Engine, action: str, by: str, *, channel: str = "billing", shown: str | None = None) -> Order:
    mark = engine.recent_acts.mark("orders", channel) if shown is None else shown
    record = ActRecord(action, "orders", channel, "", "", None, actor=by)
    return Order(record, shown=mark, rivals=ACTS, is_noted=True, with_topic=True, with_channel=bool(channel))


def do(engine: Engine, asked: Order, **details: Any) -> Ticket:
    record = asked.record
    names = (record.topic, record.channel) if record.channel else (record.topic,)
    _, ticket = engine.recent_acts.do(asked, partial(getattr(engine.acts, record.action), *names, **details))
    return ticket


def refused(ticket: Ticket) -> StateChangedError:
    assert isinstance(ticket.error, StateChangedError)
    return ticket.error


def test_an_act_that_waits_for_its_turn_is_compared_when_it_comes(engine: Engine, disk: HeldBackground) -> None:
    asked = order(engine, "pause_channel", "ada")
    outcome, over_http = engine.acts.pause_channel("orders", "billing", by="script")
    over_http.when_done(
        lambda done: engine.recent_acts.record(ActRecord("pause_channel", "orders", "billing", "h:1", "", outcome))
    )
    assert not over_http.done
    ticket = do(engine, asked, by="ada", reason="mine")
    assert not ticket.done
    settle_all(engine, disk)
    (other,) = refused(ticket).acts
    assert other.record.remote_address == "h:1"
    pause = engine.topics["orders"].channels["billing"].pause
    assert pause is not None
    assert (pause.by, pause.reason) == ("script", "")


def test_the_second_of_two_in_one_step_is_refused_though_the_first_is_under_way(
    engine: Engine, disk: HeldBackground
) -> None:
    first, second = order(engine, "pause_channel", "ada"), order(engine, "pause_channel", "grace")
    ticket = do(engine, first, by="ada")
    assert not ticket.done
    with pytest.raises(StateChangedError) as told:
        do(engine, second, by="grace")
    (other,) = told.value.acts
    assert (other.record.actor, other.is_over) == ("ada", False)
    settle_all(engine, disk)
    assert other.is_over
    assert ticket.error is None


def test_an_act_that_failed_or_changed_nothing_hinders_nothing(engine: Engine, disk: HeldBackground) -> None:
    asked = order(engine, "unpause_channel", "ada")
    do(engine, order(engine, "unpause_channel", "grace"))
    settle_all(engine, disk)
    pause = partial(engine.acts.pause_channel, "nothing", "billing")
    with pytest.raises(TopicNotFoundError):
        engine.recent_acts.do(order(engine, "pause_channel", "grace"), pause)
    settle_all(engine, disk)
    engine.recent_acts.end(engine.recent_acts.begin(order(engine, "pause_channel", "grace")), "")
    ticket = do(engine, asked)
    settle_all(engine, disk)
    assert ticket.error is None


def test_acts_without_a_message_and_creations_of_what_is_there_hinder_nothing(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, ManualClock())
    client = Client(engine, "orders", "billing")
    asked = order(engine, "delete_channel", "ada")
    for action in ("requeue_channel", "release_deferred", "create_channel"):
        do(engine, order(engine, action, "grace", shown=""))
        settle(engine)
        outcome, _ = getattr(engine.acts, action)("orders", "billing")
        settle(engine)
        engine.recent_acts.record(ActRecord(action, "orders", "billing", "h:1", "", outcome))
        engine.recent_acts.check(asked)
    client.ready(1)
    engine.publish("orders", [b"x"])
    settle(engine)
    do(engine, order(engine, "requeue_channel", "grace"))
    settle(engine)
    with pytest.raises(StateChangedError) as told:
        engine.recent_acts.check(asked)
    (other,) = told.value.acts
    assert (other.record.action, other.record.outcome) == ("requeue_channel", Outcome(in_flight=1))


def test_without_a_mark_nothing_is_compared(engine: Engine, disk: HeldBackground) -> None:
    do(engine, order(engine, "pause_channel", "ada"))
    settle_all(engine, disk)
    do(engine, order(engine, "pause_channel", "grace", shown=""), reason="later")
    settle_all(engine, disk)
    pause = engine.topics["orders"].channels["billing"].pause
    assert pause is not None
    assert pause.reason == "later"


def test_a_mark_that_is_older_than_the_noted_acts_is_refused(
    engine: Engine, disk: HeldBackground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_acts, "RECENT_MAX", 3)
    asked = order(engine, "pause_channel", "ada")
    for number in range(5):
        engine.recent_acts.end(
            engine.recent_acts.begin(order(engine, "create_channel", "x", channel=f"c{number}", shown="")), "Did it."
        )
    with pytest.raises(StateChangedError) as told:
        do(engine, asked)
    assert told.value.is_unknown


def test_what_is_gone_has_its_deletion_until_it_is_there_again(engine: Engine, disk: HeldBackground) -> None:
    late = order(engine, "pause_channel", "ada")
    assert engine.recent_acts.deletion_of("orders", "billing") is None
    do(engine, order(engine, "delete_channel", "grace"))
    settle_all(engine, disk)
    found = engine.recent_acts.deletion_of("orders", "billing")
    assert found is not None
    assert found.record.actor == "grace"
    with pytest.raises(StateChangedError) as told:
        do(engine, late)
    assert told.value.is_gone
    engine.acts.create_channel("orders", "billing")
    settle_all(engine, disk)
    assert engine.recent_acts.deletion_of("orders", "billing") is None
    with pytest.raises(StateChangedError) as again:
        do(engine, late)
    assert (again.value.is_gone, again.value.is_other) == (False, True)


def test_an_act_that_was_under_way_when_the_question_was_asked_is_found(engine: Engine, disk: HeldBackground) -> None:
    ticket = do(engine, order(engine, "pause_channel", "ada"), reason="a deploy")
    late = order(engine, "pause_channel", "grace")
    assert not engine.topics["orders"].channels["billing"].paused  # which that question shows
    settle_all(engine, disk)
    assert ticket.error is None
    with pytest.raises(StateChangedError) as told:
        do(engine, late)
    assert [act.record.actor for act in told.value.acts] == ["ada"]
    pause = engine.topics["orders"].channels["billing"].pause
    assert pause is not None
    assert pause.reason == "a deploy"


def test_acts_on_many_messages_leave_no_result_of_each(engine: Engine, disk: HeldBackground) -> None:
    results = tuple(MessageResult(f"{number:016x}") for number in range(1_000))
    asked = order(engine, "pause_channel", "ada")
    for action in ("requeue_messages", "publish_again"):
        engine.recent_acts.record(ActRecord(action, "orders", "billing", "h:1", "", Outcome(depth=9, results=results)))
    with pytest.raises(StateChangedError) as told:
        engine.recent_acts.check(replace(asked, rivals=frozenset({"requeue_messages", "publish_again"})))
    (found,) = told.value.acts
    assert found.record.outcome == Outcome(depth=9)
