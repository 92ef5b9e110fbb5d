"""Jumps of a depth: the part of its change that an act made at once, apart from what messages flow through.

Emptying, rewinding and deleting are no flow: if trends counted them, an emptied channel would look as if it drained.
"""

from typing import NamedTuple


class DepthCounts(NamedTuple):
    """The counts of a channel, or of a topic itself, in one snapshot; `dropped` since the process started."""

    depth: int
    unfinished: int  # waiting, in flight and deferred
    dropped: int


def jump_in_channel(before: DepthCounts | None, now: DepthCounts, arrived: float, finished: float) -> float:
    """The part of a channel's change of depth that an act made.

    That is the whole change in a second in which arrivals, finished and dropped messages do not explain it, else 0.
    """
    if before is None or now.unfinished - before.unfinished == arrived - finished - (now.dropped - before.dropped):
        return 0.0
    return float(now.depth - before.depth)


def jump_at_topic(before: DepthCounts | None, now: DepthCounts, arrived: float, passed_on: float) -> float:
    """The same for the messages at a topic itself. passed_on: the most that any of its channels got."""
    if before is None or before.depth + arrived - now.depth - (now.dropped - before.dropped) <= passed_on:
        return 0.0
    return float(now.depth - before.depth)
