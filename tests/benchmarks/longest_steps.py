"""How long acts hold the engine in one go, on channels of every shape: other topics wait so long.

    python -m tests.benchmarks.longest_steps                                  # 100,000 messages: an hour
    python -m tests.benchmarks.longest_steps --messages 2000000 --acts "release all" \\
        --shapes "deferred by REQ and finished, alternating"
    python -m tests.benchmarks.longest_steps --channels 4410                  # topics with so many channels are removed

What counts is the processor's time of the engine's thread in one call: the act's own, or one of the turns and ticks
that follow. What the worker does is left out. Acts and shapes are those of `act_costs.py`.
"""

import argparse
import gc
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from queue_engine.engine.engine import Engine
from tests.benchmarks.act_costs import ACTS
from tests.benchmarks.shapes import SHAPES, ShapedChannel
from tests.support.clock import ManualClock
from tests.support.engine import make_engine, make_topic, settle

STEP_MS_MAX = 50.0


class ProcessorClock(ManualClock):
    """Time goes on by the processor's time of this thread, so that a piece of work is as long as on an idle machine."""

    def monotonic_ns(self) -> int:
        return super().monotonic_ns() + time.thread_time_ns()


class AwayBackground:
    """Does each job at once, and counts how long the thread was away with it."""

    def __init__(self) -> None:
        self.away_ns = 0

    def submit(self, job: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        began_ns = time.thread_time_ns()
        error: Exception | None = None
        try:
            job()
        except Exception as exc:
            error = exc
        self.away_ns += time.thread_time_ns() - began_ns
        done(error)


class Steps:
    """The calls of an engine, with the time of each. longest: ms, and the call's name."""

    def __init__(self, engine: Engine, background: AwayBackground) -> None:
        self.longest = (0.0, "")
        self.count = 0
        self._background = background
        for owner, names in self._calls(engine):
            for name in names:
                setattr(owner, name, self._timed(getattr(owner, name), name))

    @staticmethod
    def _calls(engine: Engine) -> Iterator[tuple[object, Sequence[str]]]:
        yield engine, ("turn", "tick", "scan_pass", "close")
        yield engine.catalog, ("leave",)
        yield engine.messages, ("list",)
        yield engine.trash, ("restore_trash",)
        for acts in (engine.acts, engine.message_acts, engine.quarantine):
            yield acts, [name for name in dir(acts) if "_" in name[1:] and name[0] != "_" and name != "on_act"]

    def _timed(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            away_ns, began_ns = self._background.away_ns, time.thread_time_ns()
            try:
                return call(*args, **kwargs)
            finally:
                taken_ns = time.thread_time_ns() - began_ns - (self._background.away_ns - away_ns)
                self.longest = max(self.longest, (taken_ns / 1e6, name))
                self.count += 1

        return timed


def longest_step(made: ShapedChannel, name: str) -> tuple[float, str]:
    """The longest step of an act on a copy of what was made: ms, and the call."""
    act = ACTS[name]
    with tempfile.TemporaryDirectory(dir=made.directory.parent) as directory:
        shaped = made.copied(Path(directory) / "data")
        shaped.clock = ProcessorClock(time_ns=made.clock.time_ns())
        shaped.background = background = AwayBackground()
        shaped.open()
        act.prepare(shaped)
        settle(shaped.engine)
        steps = Steps(shaped.engine, background)
        gc.collect()
        act.run(shaped)
        settle(shaped.engine)
        longest = steps.longest
        shaped.engine.close()
    return longest


def removed(kind: str, act: str, channels: int, directory: Path) -> tuple[float, str]:
    """The same of `act` on a topic with so many channels."""
    background = AwayBackground()
    options = {"max_channels_per_topic": channels, "mem_queue_size": 1}
    engine = make_engine(directory, ProcessorClock(), background=background, storage=kind, **options)
    make_topic(engine, "orders", *(f"c{number}" for number in range(channels)))
    engine.publish("orders", [b"x", b"y"])
    settle(engine)
    steps = Steps(engine, background)
    gc.collect()
    _, ticket = getattr(engine.acts, act)("orders", **({"channels_too": True} if act == "empty_topic" else {}))
    settle(engine)
    assert ticket.done
    assert ticket.error is None
    longest = steps.longest
    engine.close()
    return longest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    acts = [name for name, act in ACTS.items() if not act.is_start and name != "stop"]
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--acts", nargs="+", choices=acts, default=acts, metavar="ACT")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES), metavar="SHAPE")
    parser.add_argument("--channels", type=int, default=0, help="remove topics with so many channels, instead")
    parser.add_argument("--directory", default=None, help="where to make the channels")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    missed = 0

    def report(what: str, longest: tuple[float, str]) -> None:
        nonlocal missed
        is_missed = longest[0] > STEP_MS_MAX
        missed += is_missed
        print(f"{what} | {longest[0]:.1f} ms | {longest[1]}{' | MISSED' if is_missed else ''}", flush=True)

    if options.channels:
        for kind in ("log", "diskqueue"):
            for act in ("delete_topic", "empty_topic"):
                with tempfile.TemporaryDirectory(dir=options.directory) as directory:
                    report(f"{act} | {kind}", removed(kind, act, options.channels, Path(directory)))
        return 1 if missed else 0
    for shape in options.shapes:
        with tempfile.TemporaryDirectory(dir=options.directory) as directory:
            made = ShapedChannel(Path(directory) / "made", SHAPES[shape].states(options.messages))
            made.open()
            made.fill()
            made.engine.close()
            for act in options.acts:
                report(f"{act} | {shape}", longest_step(made, act))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
