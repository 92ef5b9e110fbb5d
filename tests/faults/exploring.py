"""What all crash states share: scripts by their seeds until so many states are judged, and the command."""

import argparse
import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol


class PromiseBrokenError(BaseException):
    """A state in which something promised does not hold."""


class PowerOffError(BaseException):
    """The end of the process during recovery: no code handles this exception."""


@dataclass
class Tally:
    """Counts of the cases that were tried. nested: states that were cut again in the next start."""

    states: int = 0
    nested: int = 0
    scripts: int = 0
    kinds: Counter[str] = field(default_factory=Counter)


class Script(Protocol):
    def run(self) -> None:
        """One life; counts each state that it judges. Raises PromiseBrokenError."""


ScriptOf = Callable[[int, Tally, int], Script]
"""A script of (seed, tally, states_max)."""


def explore(script_of: ScriptOf, states: int, seed: int) -> Tally:
    """Judge so many states. Raises PromiseBrokenError, naming the script's seed."""
    tally = Tally()
    while tally.states < states:
        try:
            script_of(seed, tally, states).run()
        except PromiseBrokenError as exc:
            raise PromiseBrokenError(f"seed {seed}, state {tally.states}: {exc}") from exc
        seed += 1
    return tally


def run_command(described: str | None, script_of: ScriptOf, states: int) -> None:
    """described: what `--help` says. states: how many when the command line does not say."""
    parser = argparse.ArgumentParser(description=described, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, default=states)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)  # thousands of full disks and errors have nothing to tell anybody
    began = time.perf_counter()
    tally = explore(script_of, arguments.states, arguments.seed)
    rate = tally.states / (time.perf_counter() - began)
    again = f", {tally.nested} of them cut again in the next start" if tally.nested else ""
    print(f"{tally.states} states of {tally.scripts} scripts from seed {arguments.seed}{again}: every promise held.")
    print(f"{rate:.0f} states/s")
    for kind, count in sorted(tally.kinds.items()):
        print(f"  {kind}: {count}")
