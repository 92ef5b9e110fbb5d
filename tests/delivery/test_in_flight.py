"""What consumers hold: map and deadlines agree, and what is finished costs nothing."""

import time
from random import Random

from queue_engine.delivery.consumer import Consumer
from queue_engine.delivery.in_flight import Delivery, InFlightTable
from queue_engine.delivery.latency import LatencyHistogram
from queue_engine.vocabulary.byte_budget import ByteBudget
from queue_engine.vocabulary.clock import NS_PER_S
from queue_engine.vocabulary.run import Batch, Run
from tests.support.clock import ManualClock
from tests.support.engine import RecordingSink


def consumer(key: int = 1, *, timeout_s: int = 60) -> Consumer:
    return Consumer(key, RecordingSink(), msg_timeout_ns=timeout_s * NS_PER_S, max_msg_timeout_ns=900 * NS_PER_S)


def table_of() -> InFlightTable:
    return InFlightTable(LatencyHistogram(ManualClock().time_ns), ByteBudget(1 << 20))


def run_of(first: int, count: int, body: bytes = b"x") -> Run:
    ids = [b"%016x" % number for number in range(first, first + count)]
    return Batch(1, ids, [body] * count).run()


def outstanding(table: InFlightTable) -> int:
    return sum(delivery.outstanding for delivery in table.deliveries())


def test_the_next_deadline_is_that_of_a_message_still_in_flight() -> None:
    table, owner = table_of(), consumer()
    early, late = run_of(0, 1), run_of(10, 1)
    table.add(owner, early, 0)
    table.add(owner, late, 5 * NS_PER_S)
    table.finish(owner, early.ids)
    assert table.next_deadline_ns() == 65 * NS_PER_S


def test_nothing_stays_behind_once_all_is_finished() -> None:
    table, owner = table_of(), consumer()
    for number in range(10):
        table.add(owner, run_of(number, 1), number)
    table.touch(owner, b"%016x" % 3, 100)
    table.finish(owner, [b"%016x" % number for number in range(10)])
    assert (len(table), table.next_deadline_ns(), table.entry_count) == (0, None, 0)


def test_entries_of_finished_deliveries_never_outnumber_the_living_by_much() -> None:
    table, owner = table_of(), consumer()
    table.add(owner, run_of(0, 1), 0)
    for number in range(1, 10_000):
        table.add(owner, run_of(number, 1), number)
        table.finish(owner, [b"%016x" % number])
        table.touch(owner, b"%016x" % 0, number)
    assert len(table) == outstanding(table) == 1
    assert table.entry_count <= 130


def test_who_leaves_gives_back_its_own_in_the_order_they_were_sent() -> None:
    table, first, second = table_of(), consumer(1), consumer(2)
    for number in range(6):
        table.add((first, second)[number % 2], run_of(number, 1), number)
    given_back = [message_id for _, ids in table.pop_all(first) for message_id in ids]
    assert given_back == [b"%016x" % number for number in (0, 2, 4)]
    assert len(table) == outstanding(table) == 3
    assert table.pop_all(first) == []


def test_one_message_held_for_long_does_not_keep_its_whole_run() -> None:
    table, owner = table_of(), consumer()
    run = run_of(0, 100, b"x" * 1_000)
    table.add(owner, run, 0)
    table.finish(owner, run.ids[:40] + run.ids[41:])
    table.shed()
    (delivery,) = table.deliveries()
    assert delivery.run.ids == [run.ids[40]]
    assert delivery.run.frames == run.frame_at(40)
    table.touch(owner, run.ids[40], 10)
    assert [ids for _, ids in table.pop_expired(901 * NS_PER_S, 10)] == [[run.ids[40]]]
    assert len(table) == 0


def test_runs_still_mostly_held_are_left_alone() -> None:
    table, owner = table_of(), consumer()
    run = run_of(0, 100, b"x" * 1_000)
    delivery: Delivery = table.add(owner, run, 0)
    table.finish(owner, run.ids[:30])
    table.shed()
    assert delivery.run is run


def test_a_series_of_nothing_finishes_nothing() -> None:
    table, owner = table_of(), consumer()
    table.add(owner, run_of(0, 2), 0)
    assert table.finish(owner, []) == ([], [])
    assert len(table) == 2


def test_deliveries_come_by_their_deadlines_whoever_holds_them() -> None:
    table, owners = table_of(), [consumer(1, timeout_s=60), consumer(2, timeout_s=10)]
    rng = Random(5)
    for number in range(300):
        table.add(rng.choice(owners), run_of(10 * number, 2), number)
    for number in rng.sample(range(300), 200):
        held = table.owned(None, b"%016x" % (10 * number))
        if number % 2:
            table.touch(held.consumer, held.ids[0], 1_000 + number)
        else:
            table.finish(held.consumer, list(held.ids))
    deadlines_ns = [delivery.deadline_ns for delivery in table.deliveries()]
    assert deadlines_ns == sorted(deadlines_ns)
    assert outstanding(table) == len(table)


def first_and_last_s(count: int) -> tuple[float, float]:
    """The processor's time of a look at the first delivery, and of a consumer of one message that leaves, while so many
    consumers hold one each."""
    table = table_of()
    owners = [consumer(key) for key in range(count)]
    for number, owner in enumerate(owners):
        table.add(owner, run_of(number, 1), number)
    began_s = time.process_time()
    for _ in range(300):
        assert next(table.deliveries()).consumer is owners[0]
    looked_s = time.process_time()
    for owner in owners[-300:]:
        assert len(table.pop_all(owner)) == 1
    return looked_s - began_s, time.process_time() - looked_s


def test_a_consumer_that_leaves_and_a_page_cost_the_same_however_many_others_hold_messages() -> None:
    small, great = (
        [min(times) for times in zip(*(first_and_last_s(count) for _ in range(3)), strict=True)]
        for count in (1_000, 12_000)
    )
    assert [greater <= 6 * less for less, greater in zip(small, great, strict=True)] == [True, True], (small, great)


def test_an_act_in_steps_leaves_what_was_taken_apart_between_two_of_them() -> None:
    table, owner = table_of(), consumer()
    for number in range(3):
        table.add(owner, run_of(number, 1), number)
    steps = table.popping()
    _, first = next(steps)
    assert [ids for _, ids in table.take_apart()] == [[b"%016x" % 1], [b"%016x" % 2]]
    table.add(owner, run_of(1, 1), 10)  # it is sent again
    assert (first, list(steps)) == ([b"%016x" % 0], [])
    assert len(table) == outstanding(table) == 1
