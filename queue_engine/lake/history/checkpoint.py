"""Reads Spark's checkpoint of the rollups' stream, without Spark."""

import os

import orjson

from queue_engine.lake.directory.lake import Lake
from queue_engine.storage.disk.no_follow import read_no_follow

# To change the columns or the grouping of `aggregation.minutes`, take another name here: Spark goes on from a
# checkpoint only with the same state schema. The new stream begins where the files end, and nothing is doubled.
CHECKPOINT = "checkpoints/rollup"


def checkpoint_id(lake: Lake) -> str:
    """The id that Spark gave the stream's checkpoint when it made it. Raises OSError."""
    first_line = read_no_follow(os.path.join(lake.within(CHECKPOINT), "metadata")).partition(b"\n")[0]
    return str(orjson.loads(first_line)["id"])


def samples_offset(lake: Lake) -> int | None:
    """The offset up to which the stream has read its topic, by its checkpoint; None before its first batch, and for a
    source without offsets. Raises OSError."""
    directory = lake.within(CHECKPOINT)
    try:
        done = {name for name in os.listdir(f"{directory}/commits") if name.isdigit()}
    except FileNotFoundError:
        return None
    if not done:
        return None
    last = read_no_follow(f"{directory}/offsets/{max(done, key=int)}").rstrip().rsplit(b"\n", 1)[-1]
    try:
        offsets = orjson.loads(last)
    except orjson.JSONDecodeError:
        return None
    numbers = list(offsets.values()) if isinstance(offsets, dict) else []
    return numbers[0] if len(numbers) == 1 and isinstance(numbers[0], int) and "/" in next(iter(offsets)) else None
