"""Lines of offsets kept as ranges, and offsets by due times, against plain lists."""

from random import Random

from queue_engine.storage.log_store.offset_lines import OFFSET_COST_BYTES, DueOffsets, OffsetLine
from queue_engine.vocabulary.byte_budget import ByteBudget


def ranges_in_any_order(rng: Random) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    at = 0
    for _ in range(rng.randrange(1, 30)):
        count = rng.choice([1, 1, 1, 2, 5])
        ranges.append((at, count))
        at += count + rng.randrange(3)
    rng.shuffle(ranges)
    return ranges


def test_what_is_removed_from_a_line_is_told_with_its_places() -> None:
    for seed in range(30):
        _remove_from_a_line(seed)


def _remove_from_a_line(seed: int) -> None:
    rng = Random(seed)
    line = OffsetLine()
    model: list[int] = []
    for first, count in ranges_in_any_order(rng):
        line.append(first, count)
        model += range(first, first + count)
    while model:
        wanted = sorted({*rng.sample(model, rng.randrange(len(model) + 1)), rng.randrange(200)})
        here = [offset for offset in wanted if offset in model]
        assert line.found_in(wanted) == set(here)
        assert line.remove(wanted) == sorted(model.index(offset) for offset in here)
        model = [offset for offset in model if offset not in here]
        assert (list(line.offsets()), line.count) == (model, len(model))
        if model:
            dropped = min(line.first()[1], rng.randrange(1, 4))
            line.drop(dropped)
            del model[:dropped]


def test_what_is_due_comes_by_its_time_however_it_was_put() -> None:
    for seed in range(30):
        _put_what_is_due(seed)


def _put_what_is_due(seed: int) -> None:
    rng = Random(seed)
    budget = ByteBudget(1 << 30)
    due = DueOffsets(budget)
    model: dict[int, int] = {}
    at = 0
    for _ in range(40):
        entries: list[tuple[int, int, int]] = []
        for _ in range(rng.choice([0, 1, 2, 30])):
            count = rng.choice([1, 1, 3])
            entries.append((rng.randrange(1_000), at, count))
            at += count
        for due_ns, first, count in entries:
            model |= dict.fromkeys(range(first, first + count), due_ns)
        if rng.random() < 0.5:
            due.put_all(entries)
        else:
            for due_ns, first, count in entries:
                due.put(first, count, due_ns)
        for offset in rng.sample(sorted(model), min(len(model), rng.randrange(3))):
            due.withdraw(offset)
            del model[offset]
        assert dict(due.earliest()) == model
        assert [due_ns for _, due_ns in due.earliest()] == sorted(model.values())
        assert due.next_due_ns() == min(model.values(), default=None)
        assert (due.count, budget.used) == (len(model), OFFSET_COST_BYTES * len(model))
        now_ns = rng.randrange(1_000)
        popped = {
            offset: due_ns
            for due_ns, first, count in due.pop_due(now_ns, 10_000)
            for offset in range(first, first + count)
        }
        assert popped == {offset: due_ns for offset, due_ns in model.items() if due_ns <= now_ns}
        model = {offset: due_ns for offset, due_ns in model.items() if due_ns > now_ns}
