"""When a message that came back has its turn, against a list that is put in order message by message."""

import random
from itertools import product

from queue_engine.storage.return_order import ReturnOrder


def test_it_is_the_order_of_a_list_into_which_each_is_put_in_its_place() -> None:
    for seed, ahead_max in product(range(20), (0, 1, 3, 1_000)):
        _compare_with_a_list(seed, ahead_max)


def _compare_with_a_list(seed: int, ahead_max: int) -> None:
    rng = random.Random(seed)
    order = ReturnOrder(ahead_max)
    line: list[str] = []  # "w" waits, "r" came back
    for _ in range(300):
        kind = rng.choice(("publish", "publish", "come back", "take", "take", "take"))
        count = rng.randint(1, 4)
        if kind == "publish":
            line += ["w"] * count
        elif kind == "come back":
            order.came_back(count, line.count("w"))
            line[_place(line, max(ahead_max, 1)) :] = ["r"] * count + line[_place(line, max(ahead_max, 1)) :]
        else:
            while line and count:
                is_due = order.due_count() > 0 or "w" not in line
                assert line[0] == ("r" if is_due else "w")
                if "r" in line and not is_due:
                    assert order.ahead_count() == line.index("r")
                if line.pop(0) == "w":
                    order.took_waiting(1)
                else:
                    order.took_returned(1)
                count -= 1
        assert _planned(order, line.count("w")) == line


def _place(line: list[str], ahead_max: int) -> int:
    """Behind so many that wait, and behind all that came back before."""
    last = max((index for index, one in enumerate(line) if one == "r"), default=-1)
    waits = [index for index, one in enumerate(line) if one == "w"][:ahead_max]
    return max(last, waits[-1] if waits else -1) + 1


def _planned(order: ReturnOrder, waiting_count: int) -> list[str]:
    planned: list[str] = []
    passed = 0
    for ahead_count, count in order.plan():
        planned += ["w"] * (ahead_count - passed) + ["r"] * count
        passed = ahead_count
    return [*planned, *(["w"] * (waiting_count - passed))]


def test_any_of_what_came_back_can_be_taken_before_its_turn() -> None:
    order = ReturnOrder(10)
    order.came_back(5, 10)
    order.took_returned(2)
    assert list(order.plan()) == [(10, 3)]
    assert (order.due_count(), order.ahead_count()) == (0, 10)
