"""A real server, random acts of clients and operators over real sockets, and kills between them.

    python -m tests.faults.wire_random [--seed N] [--steps N] [--storage log|diskqueue] [--mutant NAME] [--forever]

The seed gives the server's options and the acts; the time of a message depends on the machine as well. Checked at
each step: the server lives; what was acknowledged is delivered until it is finished; nothing is invented, altered or
early; nothing finished returns; the counts of /stats add up. `wire/model.py` says what a kill may take.
"""

import argparse
import itertools
import random
import sys
import tempfile
from pathlib import Path

from tests.faults.wire.acts import Acts
from tests.faults.wire.engine import MUTANT_FLAG, WireEngine
from tests.faults.wire.model import BrokenPromiseError
from tests.faults.wire.setting import Setting
from tests.faults.wire.world import World

STORAGES = ("log", "diskqueue")
STEPS = 150
_SHOWN_STEPS = 25
_SHOWN_CHARACTERS = 300


def run(directory: Path, seed: int, storage: str, *, steps: int = STEPS, mutant: str = "") -> int:
    """One server's life; returns how many messages it delivered. Raises BrokenPromiseError with the last
    steps and the server's output."""
    name = f"{storage} {seed}"
    rng = random.Random(name)
    setting = Setting.of(rng, storage)
    server = WireEngine(directory, options=[*setting.flags, *([MUTANT_FLAG + mutant] if mutant else [])])
    server.start()
    world = World(setting, rng, server)
    acts = Acts(world, name, is_wide=not mutant)
    try:
        for _ in range(steps):
            acts.step()
        acts.done.append("the last drain")
        world.drain()
        server.stop()
        if "Traceback" in server.log:
            raise BrokenPromiseError("the server's log has a traceback")
    except Exception as exc:
        state = "the server runs" if server.runs_on() else "the server ended by itself"
        server.kill9()
        shown = "\n".join(f"  {one[:_SHOWN_CHARACTERS]}" for one in acts.done[-_SHOWN_STEPS:])
        raise BrokenPromiseError(
            f"seed {seed}, {storage}, step {len(acts.done)}: {type(exc).__name__}: {exc} ({state})\n"
            f"{' '.join(setting.flags)}\n{shown}\n--- the server's log\n{server.log[-4_000:]}"
        ) from exc
    return world.delivered_count


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.wire_random")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--storage", choices=STORAGES, help="both by default")
    parser.add_argument("--mutant", default="", help="a fault on purpose, of wire/mutants.py")
    parser.add_argument("--forever", action="store_true", help="one seed after the other; tells of faults and goes on")
    asked = parser.parse_args()
    failed = 0
    for seed in itertools.count(asked.seed) if asked.forever else [asked.seed]:
        for storage in [asked.storage] if asked.storage else STORAGES:
            with tempfile.TemporaryDirectory(prefix="penstock-wire-") as directory:
                try:
                    count = run(Path(directory) / "data", seed, storage, steps=asked.steps, mutant=asked.mutant)
                except BrokenPromiseError as exc:
                    failed += 1
                    print(f"FAILED {exc}", flush=True)
                else:
                    print(f"seed {seed} {storage}: {count} messages delivered, {failed} runs failed", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
