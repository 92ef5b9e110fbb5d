"""What acts cost on channels of every shape: four times as many messages may take six times the processor at most.

    python -m tests.benchmarks.act_costs                               # 25,000 and 100,000: the better part of an hour
    python -m tests.benchmarks.act_costs --acts start --shapes "deferred by REQ and finished, alternating"
    python -m tests.benchmarks.act_costs --messages 2000000 --acts start    # one size: its times, nothing to compare

A shape (`shapes.py`) is made once on the disk; each run has a copy of its own. What counts is the processor's time of
the whole process, the least of several runs: a count of calls would not see a sort in C. Both sizes run once more while
the ratio is too great, five times at most.
"""

import argparse
import gc
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from queue_engine.engine.acts.log_acts import Target
from queue_engine.engine.messages.rows import BY_AGE, BY_ATTEMPTS, FINISHED, IDS_MAX, SORTS, STATES, MessageQuery
from queue_engine.vocabulary.flow.redrive import RATE_MAX
from tests.benchmarks.shapes import CHANNEL, DELAY_MS, SHAPES, TOPIC, Shape, ShapedChannel
from tests.benchmarks.shapes import FINISHED as FINISHED_STATE
from tests.support.engine import pass_time, settle

RATIO_MAX = 6.0
SIZES = (25_000, 100_000)
RUNS_MAX = 5
# Below this a run is too short to tell anything.
LEAST_S = 0.004


class Act(NamedTuple):
    """run: what is measured, on a channel that `prepare` has made ready. is_start: the start itself is."""

    run: Callable[[ShapedChannel], object]
    prepare: Callable[[ShapedChannel], object] = lambda shaped: shaped.arrange()
    is_start: bool = False


def _act(name: str, **options: object) -> Callable[[ShapedChannel], object]:
    """An act on the channel, by its name as the engine's."""

    def run(shaped: ShapedChannel) -> object:
        engine = shaped.engine
        acts = engine.quarantine if name == "redrive_channel" else engine.acts
        _, ticket = getattr(acts, name)(TOPIC, CHANNEL, **options)
        settle(shaped.engine)
        assert ticket.done
        assert ticket.error is None
        return None

    return run


def _in_trash(name: str) -> Callable[[ShapedChannel], object]:
    def prepare(shaped: ShapedChannel) -> None:
        shaped.arrange()
        _act(name)(shaped)

    return prepare


def _restore(shaped: ShapedChannel) -> None:
    _, ticket = shaped.engine.trash.restore_trash(TOPIC, trash=shaped.engine.trash.list()[0].id)
    settle(shaped.engine)
    assert ticket.done
    assert ticket.error is None


def _read_trash(shaped: ShapedChannel) -> None:
    for _ in range(10):
        (entry,) = shaped.engine.trash.page(10).entries
    assert entry.restorable == len(shaped.states) - shaped.states.count(FINISHED_STATE)


def _fenced(shaped: ShapedChannel) -> None:
    shaped.arrange()
    shaped.channel.stop("measuring", RuntimeError("a fence to retry"))


def _by_hand(name: str, letters: str) -> Callable[[ShapedChannel], object]:
    """An act on as many single messages as one act may name, all over the channel."""

    def run(shaped: ShapedChannel) -> None:
        offsets = shaped.offsets(letters)
        chosen = offsets[:: max(1, -(-len(offsets) // IDS_MAX))]
        if chosen:
            outcome, _ = getattr(shaped.engine.message_acts, name)(TOPIC, CHANNEL, offsets=chosen)
            settle(shaped.engine)
            assert all(not one.code for one in outcome.results)

    return run


def _redrive(shaped: ShapedChannel) -> None:
    _act("redrive_channel", rate=RATE_MAX)(shaped)
    while shaped.counts()[3]:
        pass_time(shaped.engine, shaped.clock, 1_000)


def _read_stats(shaped: ShapedChannel) -> None:
    """As often as pages and monitoring do while messages come."""
    for _ in range(10):
        shaped.engine.publish(TOPIC, [b"x"])
        settle(shaped.engine)
        shaped.engine.stats.now()


def _read_pages(shaped: ShapedChannel) -> None:
    for state in STATES:
        for sort in SORTS:
            if (state, sort) != (FINISHED, BY_ATTEMPTS):
                page = shaped.engine.messages.list(TOPIC, CHANNEL, MessageQuery(state, sort))
                if page.next_cursor:
                    shaped.engine.messages.list(TOPIC, CHANNEL, MessageQuery(state, sort, after=page.next_cursor))
    shaped.engine.messages.one(TOPIC, CHANNEL, offset=len(shaped.states) // 2)
    shaped.engine.log.peek_channel(TOPIC, CHANNEL, 10)
    shaped.engine.log.seek_preview(TOPIC, CHANNEL, Target(offset=len(shaped.states) // 2))
    filtered = MessageQuery(sort=BY_AGE, attempts_min=1, first_offset=len(shaped.states) // 2)
    shaped.engine.messages.list(TOPIC, CHANNEL, filtered)


def _time_passes(shaped: ShapedChannel) -> None:
    """What is in flight times out, and what is deferred is due."""
    pass_time(shaped.engine, shaped.clock, DELAY_MS + 1_000)
    assert shaped.counts()[1:3] == (0, 0)


def _drain(shaped: ShapedChannel) -> None:
    """A consumer finishes all that waits."""
    shaped.deliver()
    ids = shaped.consumer.sink.ids
    for at in range(0, len(ids), IDS_MAX):
        assert not shaped.channel.finish(shaped.consumer, ids[at : at + IDS_MAX])
        settle(shaped.engine)
    assert shaped.counts()[0] == 0


ACTS: dict[str, Act] = {
    "start": Act(lambda shaped: shaped.open(), is_start=True),
    "restore what was deleted": Act(_restore, _in_trash("delete_channel")),
    "restore what was emptied": Act(_restore, _in_trash("empty_channel")),
    "a page of the trash": Act(_read_trash, _in_trash("delete_channel")),
    "retry after a fence": Act(_act("retry_channel"), _fenced),
    "rewind": Act(_act("rewind_channel", target=Target(word="start"))),
    "empty": Act(_act("empty_channel")),
    "requeue all": Act(_act("requeue_channel")),
    "release all": Act(_act("release_deferred")),
    "quarantine by hand": Act(_by_hand("quarantine_messages", "WHRD")),
    "finish by hand": Act(_by_hand("finish_messages", "WHRDQ")),
    "release by hand": Act(_by_hand("release_messages", "RD")),
    "redrive by hand": Act(_by_hand("redrive_messages", "Q")),
    "redrive": Act(_redrive),
    "a consumer vanishes": Act(lambda shaped: shaped.client.leave()),
    "stats": Act(_read_stats),
    "pages": Act(_read_pages),
    "time passes": Act(_time_passes),
    "drain": Act(_drain),
    "stop": Act(lambda shaped: shaped.engine.close()),
}


def run_s(made: ShapedChannel, act: Act) -> float:
    """The processor's time of an act, seconds, on a copy of what was made."""
    with tempfile.TemporaryDirectory(dir=made.directory.parent) as directory:
        shaped = made.copied(Path(directory) / "data")
        if not act.is_start:
            shaped.open()
            act.prepare(shaped)
        # What the act makes is collected as it is in a server; what was there before is not gone through again.
        gc.collect()
        gc.freeze()
        began_s = time.process_time()
        act.run(shaped)
        taken_s = time.process_time() - began_s
        gc.unfreeze()
        if act.is_start:
            shaped.arrange()  # what it found is what was made
        shaped.engine.close()
    return taken_s


def allowed_ratio(sizes: Sequence[int]) -> float:
    """Of the times at the greatest and at the least size."""
    return RATIO_MAX * sizes[-1] / sizes[0] / 4


def ratio_of(times_s: Sequence[float]) -> float:
    return max(times_s[-1], LEAST_S) / max(times_s[0], LEAST_S)


def costs(
    shape: Shape, acts: Iterable[str], *, sizes: Sequence[int], runs_max: int, directory: Path
) -> dict[str, tuple[float, ...]]:
    """Act → the least time at each size."""
    made = []
    for size in sizes:
        shaped = ShapedChannel(directory / f"{size}", shape.states(size))
        shaped.open()
        shaped.fill()
        shaped.engine.close()
        made.append(shaped)
    found: dict[str, tuple[float, ...]] = {}
    for name in acts:
        for _ in range(runs_max):
            before = found.get(name, (float("inf"),) * len(made))
            found[name] = tuple(min(least, run_s(one, ACTS[name])) for one, least in zip(made, before, strict=True))
            if ratio_of(found[name]) <= allowed_ratio(sizes):
                break
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--acts", nargs="+", choices=ACTS, default=list(ACTS), metavar="ACT")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES), metavar="SHAPE")
    parser.add_argument("--runs", type=int, default=RUNS_MAX)
    parser.add_argument("--directory", default=None, help="where to make the channels")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    print("act | shape |", " | ".join(f"{size:,}, ms" for size in options.messages), "| ratio", flush=True)
    missed = 0
    for name in options.shapes:
        with tempfile.TemporaryDirectory(dir=options.directory) as directory:
            found = costs(
                SHAPES[name], options.acts, sizes=options.messages, runs_max=options.runs, directory=Path(directory)
            )
        for act, times_s in found.items():
            is_missed = ratio_of(times_s) > allowed_ratio(options.messages)
            missed += is_missed
            times = " | ".join(f"{1_000 * one:.1f}" for one in times_s)
            print(f"{act} | {name} | {times} | {ratio_of(times_s):.1f}{' MISSED' if is_missed else ''}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
