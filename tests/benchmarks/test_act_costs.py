"""Acts on channels of chosen shapes, at a small size: four times the messages take no more than six times the
processor."""

import subprocess
import sys
import time
from pathlib import Path

from tests.benchmarks.act_costs import ACTS, RATIO_MAX, RUNS_MAX
from tests.benchmarks.shapes import DELAY_MS, TOPIC
from tests.support.clock import ManualClock
from tests.support.engine import make_engine, settle
from tests.support.processes.penstock_command import TIMEOUT_S
from tests.support.processes.server import ROOT


def measured(directory: Path, *arguments: str) -> list[str]:
    """Run the command, which fails where a ratio is too great. Returns each act and shape of its table.

    In a process of its own: each measurement collects garbage, which takes long beside the objects of all tests."""
    command = [sys.executable, "-m", "tests.benchmarks.act_costs", "--directory", str(directory), *arguments]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert run.returncode == 0, run.stdout + run.stderr
    return [" | ".join(line.split(" | ")[:2]) for line in run.stdout.splitlines()[1:]]


def test_acts_take_as_long_as_there_are_messages(tmp_path: Path) -> None:
    shape = "all states, random"
    found = measured(tmp_path, "--messages", "500", "4000", "--shapes", shape)
    assert found == [f"{act} | {shape}" for act in ACTS]


def test_a_start_takes_as_long_as_there_are_deferred_messages(tmp_path: Path) -> None:
    shapes = [f"deferred by {kind} and finished, alternating" for kind in ("REQ", "DPUB")]
    found = measured(tmp_path, "--messages", "2000", "8000", "--acts", "start", "--shapes", *shapes)
    assert found == [f"start | {shape}" for shape in shapes]


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
