"""The oldest of a line, compared with looking at all of it."""

import random

import pytest

from queue_engine.storage.disk_queue.oldest_in_line import ENTRIES_MAX, OldestInLine


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_least_of_all_that_stand_in_the_line(seed: int) -> None:
    rng = random.Random(seed)
    oldest, line, head = OldestInLine(), [], 0
    for _ in range(2_000):
        act = rng.randrange(5)
        time_ns = rng.randrange(1_000)
        if act < 2:
            oldest.append(head + len(line), time_ns, head)
            line.append(time_ns)
        elif act == 2:
            head -= 1
            oldest.prepend(head, time_ns)
            line.insert(0, time_ns)
        elif line:
            count = rng.randrange(1, min(4, len(line)) + 1)
            del line[:count]
            head += count
            oldest.pass_to(head)
        first = oldest.first()
        assert (first and first[1]) == min(line, default=None)
        behind = oldest.second_ns()
        if first is not None and behind is not None:
            assert behind == min(line[first[0] + 1 - head :])


def test_a_long_line_costs_a_bounded_memory_and_its_age_is_at_most_a_little_too_long() -> None:
    oldest, length = OldestInLine(), 100 * ENTRIES_MAX
    for place in range(length):
        oldest.append(place, place * 1_000, 0)
    assert len(oldest._entries) <= ENTRIES_MAX
    for head in range(0, length, 997):
        oldest.pass_to(head)
        first = oldest.first()
        assert first is not None
        assert 0 <= head * 1_000 - first[1] <= length * 1_000 // 250
    oldest.pass_to(length)
    assert oldest.first() is None
