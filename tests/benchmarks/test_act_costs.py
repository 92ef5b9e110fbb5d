"""Acts on channels of chosen shapes, at a small size: what takes four times the messages takes no more than six times
the processor."""

from pathlib import Path

import pytest

from tests.benchmarks.act_costs import RATIO_MAX, RUNS_MAX, costs, ratio_of
from tests.benchmarks.shapes import SHAPES

SIZES = (2_000, 8_000)


@pytest.mark.parametrize("kind", ["REQ", "DPUB"])
def test_a_start_takes_as_long_as_there_are_deferred_messages(tmp_path: Path, kind: str) -> None:
    shape = SHAPES[f"deferred by {kind} and finished, alternating"]
    (times_s,) = costs(shape, ["start"], sizes=SIZES, runs_max=RUNS_MAX, directory=tmp_path).values()
    assert ratio_of(times_s) <= RATIO_MAX, times_s
