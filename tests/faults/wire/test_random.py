"""The random test over the wire: a few of its runs, and the faults on purpose that it notices.

At 897736b it finds that the server ends by itself with `--storage log`: seed 3 at step 36, seed 4 at 106, seed 5 at
102, seed 6 at 123. Messages larger than one run to a consumer were given back, see test_large_bodies.py.
"""

from pathlib import Path

import pytest

from queue_engine.delivery.channel import RUN_BYTES_MAX
from tests.faults.wire.model import BrokenPromiseError
from tests.faults.wire.mutants import MUTANTS
from tests.faults.wire.sizes import limits_of_the_code
from tests.faults.wire_random import run

pytestmark = [pytest.mark.slow(reason="starts and kills real servers"), pytest.mark.timeout(300)]

RUNS = [("log", 3), ("diskqueue", 2)]  # `python -m tests.faults.wire_random --forever` goes on
STEPS = 60
MUTANT_SEEDS = {
    "lost": ("log", 3),
    "altered": ("log", 1),
    "returned": ("log", 5),
    "returned-by-hand": ("log", 40),
    "fin-forgotten": ("log", 25),
}


@pytest.mark.parametrize(("storage", "seed"), RUNS)
def test_the_server_lives_and_keeps_its_word(tmp_path: Path, storage: str, seed: int) -> None:
    assert run(tmp_path / "data", seed, storage, steps=STEPS) > 0


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_fault_on_purpose_is_noticed(tmp_path: Path, mutant: str) -> None:
    storage, first = MUTANT_SEEDS[mutant]
    # The first should do; when a message comes depends on the machine as well.
    for seed in range(first, first + 10):
        try:
            run(tmp_path / str(seed), seed, storage, mutant=mutant)
        except BrokenPromiseError:
            return
    pytest.fail(f"nothing was noticed of {mutant}")


def test_sizes_are_drawn_around_the_limits_of_the_code() -> None:
    limits = limits_of_the_code()
    assert limits["queue_engine.delivery.channel.RUN_BYTES_MAX"] == RUN_BYTES_MAX
    assert {16 << 10, 64 << 10, 256 << 10, 1 << 20} <= set(limits.values())
