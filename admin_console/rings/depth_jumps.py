"""Jumps of a depth: the part of its change that an act made at once, apart from the flow of messages.

Emptying, rewinding and deleting are no flow: if trends counted them, an emptied channel would look as if it drained.
"""

# The depth, the unfinished messages (waiting, in flight, deferred, quarantined), and those dropped since the process
# started: of a channel, or of a topic itself, in one snapshot.
DepthCounts = tuple[int, int, int]
NOTHING: DepthCounts = (0, 0, 0)


def jump_in_channel(before: DepthCounts | None, now: DepthCounts, arrived: int, finished: int) -> int:
    """The part of a channel's change of depth that an act made.

    That is the whole change in a second in which arrivals, finished and dropped messages do not explain it, else 0.
    """
    if before is None or now[1] - before[1] == arrived - finished - (now[2] - before[2]):
        return 0
    return now[0] - before[0]


def jump_at_topic(before: DepthCounts | None, now: DepthCounts, arrived: int, passed_on: int) -> int:
    """The same for the messages at a topic itself. passed_on: the most that any of its channels got.

    A topic without earlier figures has, beyond its arrivals, the messages that an act brought back.
    """
    if before is None:
        return 0
    if before is NOTHING:
        return max(0, now[0] - arrived)
    if before[0] + arrived - now[0] - (now[2] - before[2]) <= passed_on:
        return 0
    return now[0] - before[0]
