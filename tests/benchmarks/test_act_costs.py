"""Acts on channels of chosen shapes, at a small size: four times the messages take no more than six times the
processor."""

import time
from pathlib import Path

import pytest

from tests.benchmarks.act_costs import ACTS, RATIO_MAX, RUNS_MAX, allowed_ratio, costs, ratio_of
from tests.benchmarks.shapes import DELAY_MS, SHAPES, TOPIC
from tests.support.clock import ManualClock
from tests.support.engine import make_engine, settle


def test_acts_take_as_long_as_there_are_messages(tmp_path: Path) -> None:
    sizes = (500, 4_000)
    shape = SHAPES["all states, random"]
    found = costs(shape, ACTS, sizes=sizes, runs_max=RUNS_MAX, directory=tmp_path)
    assert not {act: times_s for act, times_s in found.items() if ratio_of(times_s) > allowed_ratio(sizes)}


@pytest.mark.parametrize("kind", ["REQ", "DPUB"])
def test_a_start_takes_as_long_as_there_are_deferred_messages(tmp_path: Path, kind: str) -> None:
    shape = SHAPES[f"deferred by {kind} and finished, alternating"]
    (times_s,) = costs(shape, ["start"], sizes=(2_000, 8_000), runs_max=RUNS_MAX, directory=tmp_path).values()
    assert ratio_of(times_s) <= RATIO_MAX, times_s


def test_a_deferred_publish_costs_the_same_however_many_wait_at_its_topic(tmp_path: Path) -> None:
    """Each is counted against the limit."""
    engine = make_engine(tmp_path, ManualClock(), storage="log", max_deferred_bytes=1 << 40)
    engine.acts.create_topic(TOPIC)
    settle(engine)
    times_s: list[float] = []
    for waiting in (1_000, 100_000):
        store = engine.topics[TOPIC].store
        while store.deferred_count < waiting:
            engine.publish(TOPIC, [b"x"] * 1_000, defer_ms=DELAY_MS)
            settle(engine)
        runs_s: list[float] = []
        for _ in range(RUNS_MAX):
            began_s = time.process_time()
            for _ in range(200):
                engine.publish(TOPIC, [b"x"], defer_ms=DELAY_MS)
            runs_s.append(time.process_time() - began_s)
            settle(engine)
        times_s.append(min(runs_s))
    engine.close()
    assert times_s[1] <= RATIO_MAX * times_s[0]
