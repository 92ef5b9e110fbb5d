"""Runs that wait in memory: first in, first out, within limits, and counted to the byte."""

from collections import deque
from random import Random

import pytest

from queue_engine.storage.disk_queue.run_line import MemoryLimits, RunLine, cost_of
from queue_engine.vocabulary.byte_budget import MESSAGE_COST_BYTES, ByteBudget
from queue_engine.vocabulary.run import Batch, Run


def batch_of(random: Random, first: int, count: int) -> Batch:
    ids = [b"%016x" % number for number in range(first, first + count)]
    return Batch(1, ids, [b"x" * random.choice([1, 20, 300]) for _ in ids])


def test_it_gives_back_what_it_got_in_order_and_counts_it() -> None:
    for seed in range(30):
        _put_and_take(seed)


def _put_and_take(seed: int) -> None:
    random = Random(seed)
    budget = ByteBudget(random.choice([0, 5_000, 1 << 20]))
    lines = [RunLine(MemoryLimits(random.choice([10, 100]), random.choice([3_000, 20_000]), budget)) for _ in range(2)]
    expected: list[deque[bytes]] = [deque(), deque()]
    number = 0
    for _ in range(400):
        which = random.randrange(2)
        line, waiting = lines[which], expected[which]
        act = random.random()
        if act < 0.5:
            batch = batch_of(random, number, random.randrange(1, 12))
            number += len(batch)
            given = batch if random.random() < 0.5 else batch.run()
            fits = line.has_room_for(given)
            assert fits == (line.count_that_fits(batch.run()) == len(batch))
            assert line.append_if_it_fits(given) == fits
            if not fits and random.random() < 0.2:
                line.append(batch.run())
                fits = True
            if fits:
                waiting.extend(batch.ids)
        elif act < 0.6:
            batch = batch_of(random, number, random.randrange(1, 5))
            number += len(batch)
            line.prepend(batch.run())
            waiting.extendleft(reversed(batch.ids))
        elif act < 0.95 and line:
            count_max, bytes_max = random.randrange(1, 15), random.choice([0, 100, 1_000, 1 << 20])
            run = line.take(count_max, bytes_max)
            assert [waiting.popleft() for _ in run.ids] == run.ids
            assert len(run) == 1 or len(run.frames) <= bytes_max
            assert len(run) <= count_max
        elif act < 0.98:
            popped = line.pop_run()
            assert (popped is None) == (not waiting)
            for one in popped.ids if popped is not None else ():
                assert waiting.popleft() == one
        else:
            line.clear()
            waiting.clear()
        assert [one for run in line for one in run.ids] == list(waiting)
        assert line.count == len(waiting)
        assert budget.used >= sum(cost_of(run) for line in lines for run in line)
    for line in lines:
        line.drain()
    assert (budget.used, [line.count for line in lines]) == (0, [0, 0])


@pytest.mark.parametrize("spare_bytes", [-1, 0, 1])
def test_as_many_fit_as_the_bytes_allow(spare_bytes: int) -> None:
    run = Batch(1, [b"%016x" % number for number in range(5)], [b"x" * 66] * 5).run()
    each = 100 + MESSAGE_COST_BYTES
    line = RunLine(MemoryLimits(100, 3 * each + spare_bytes, ByteBudget(1 << 20)))
    assert line.count_that_fits(run) == 3 - (spare_bytes < 0)
    assert line.count_that_fits(run.slice(0, 1)) == 1


def test_what_a_batch_will_cost_is_what_its_run_costs() -> None:
    batch = batch_of(Random(1), 0, 7)
    assert cost_of(batch) == cost_of(batch.run())


def test_a_line_over_its_limits_takes_nothing_more_but_what_must_stay() -> None:
    line = RunLine(MemoryLimits(1, 1 << 20, ByteBudget(1 << 20)))
    first, second, third = (Run(b"frame", [b"%016x" % number], 0) for number in range(3))
    assert line.append_if_it_fits(first)
    assert not line.append_if_it_fits(second)
    line.append(third)
    assert [run.ids for run in line.drain()] == [first.ids, third.ids]
