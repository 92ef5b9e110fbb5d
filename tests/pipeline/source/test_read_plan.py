"""Which parts of a read share a task."""

import pytest

from queue_engine.lake.source.read_plan import HttpPart, tasks_of
from queue_engine.lake.source.wanted_range import WantedRange

MIB = 1 << 20


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([40, 16, 16, 1, 1, 100, 20], [[40], [16, 16], [1, 1], [100], [20]]),
        # An eighth of all is less than what a task may read.
        ([16] * 5, [[16], [16], [16], [16], [16]]),
        # Less than that is not worth a task.
        ([1] * 8, [[1] * 4, [1] * 4]),
        ([0] * 200, [[0] * 200]),
        ([], []),
    ],
    ids=str,
)
def test_small_parts_share_a_task_and_large_ones_have_their_own(sizes: list[int], expected: list[list[int]]) -> None:
    parts = [HttpPart(WantedRange("orders", 1, 0, at, at + 1), "lease", size * MIB) for at, size in enumerate(sizes)]
    tasks = tasks_of(parts, 32 * MIB)
    assert [[one.bytes // MIB for one in task] for task in tasks] == expected
    assert [one for task in tasks for one in task] == parts
