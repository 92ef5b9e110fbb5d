"""What acts put into a channel or took out of it at once, told from what flows through it.

Emptying, rewinding and deleting are no flow: without this, an emptied channel would look as if it drained.
"""

from typing import NamedTuple


class Held(NamedTuple):
    """What a channel, or a topic itself, held in one snapshot. Counters count since the process started."""

    depth: int
    unfinished: int  # waiting, in flight and deferred
    dropped: int


def moved_in_channel(before: Held | None, now: Held, arrived: float, finished: float) -> float:
    """How much of a channel's change of depth was an act; all of it in a second in which more or less is there than
    what came and what was finished explain."""
    if before is None or now.unfinished - before.unfinished == arrived - finished - (now.dropped - before.dropped):
        return 0.0
    return float(now.depth - before.depth)


def moved_at_topic(before: Held | None, now: Held, arrived: float, passed_on: float) -> float:
    """The same of what waits at a topic itself. passed_on: the most that any of its channels got."""
    if before is None or before.depth + arrived - now.depth - (now.dropped - before.dropped) <= passed_on:
        return 0.0
    return float(now.depth - before.depth)
