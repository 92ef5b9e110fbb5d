"""/stats beside two hundred channels, a fifth of the target's: what it takes of the processor, in short steps."""

import time
from collections.abc import Generator
from pathlib import Path
from typing import TypeVar

import pytest

from queue_engine.service.http.stats import Wanted, stats_json, stats_text
from tests.benchmarks.stats_reads import READ_MS_MAX, stats_reads
from tests.support.clock import ManualClock
from tests.support.engine import make_engine, settle

TOPICS, CHANNELS, PART = 40, 5, 5  # a fifth of 200 topics
STEP_MS_MAX = 1.0
PATIENCE = 4  # the machine may be busy with other tests, and its processors share their caches


T = TypeVar("T")


@pytest.mark.parametrize("is_json", [True, False])
def test_stats_take_a_fifth_of_their_time_in_short_steps(tmp_path: Path, *, is_json: bool) -> None:
    engine = make_engine(tmp_path, ManualClock(), e2e_processing_latency_percentile=(0.99, 0.5))
    for number in range(TOPICS):
        engine.acts.create_topic(f"t{number}")
        settle(engine)
        for other in range(CHANNELS):
            engine.acts.create_channel(f"t{number}", f"c{other}")
    settle(engine)
    steps_ms: list[list[float]] = []
    for _ in range(9):
        taken: list[float] = []
        figures = _drive(engine.stats.figures_in_slices(), taken)
        body = _drive((stats_json if is_json else stats_text)(figures, Wanted()), taken)
        steps_ms.append(taken)
    assert len(body) > TOPICS * CHANNELS * 100
    assert min(map(sum, steps_ms)) <= PATIENCE * READ_MS_MAX / PART
    assert min(map(max, steps_ms)) <= PATIENCE * STEP_MS_MAX
    engine.close()


def _drive(steps: Generator[None, None, T], taken_ms: list[float]) -> T:
    """Run a generator to its end; what each step took of the processor goes to `taken_ms`."""
    while True:
        began_s = time.thread_time()
        try:
            next(steps)
        except StopIteration as stop:
            returned: T = stop.value
            return returned
        finally:
            taken_ms.append((time.thread_time() - began_s) * 1_000)


@pytest.mark.slow(reason="reads the stats of a real server for a second")
@pytest.mark.timeout(120)
def test_the_stats_of_a_server_are_read_beside_messages(tmp_path: Path) -> None:
    found = stats_reads(tmp_path / "data", 4, 5, seconds=0.5, rounds=1, has_consumers=True)
    assert found.read_bytes > 10_000
    assert list(found.read_ms) == [0, 4]
    assert all(found.read_ms.values())
    assert min(*found.alone[0], *found.beside[0]) > 0
