"""Closes what a test file leaves open: an engine that a test drops, as a kill would, keeps its descriptors here.

In a whole run they add up to thousands, and what libraries do with `select()` fails from descriptor 1,024 on: Spark's
Python side waits for ever then.
"""

import gc
import os
from pathlib import Path

from tests.support.disks.files import close_left_open

DESCRIPTORS_MAX = 256  # a fourth of what select() takes: one test file's share comes on top


def open_below(directories: set[Path]) -> list[int]:
    """The descriptors of this process whose files lie, or lay, in one of the directories."""
    roots = tuple(f"{directory}/" for directory in directories)
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue  # the descriptor of this very listing
        if target.startswith(roots):
            found.append(int(name))
    return found


def close_below(directories: set[Path]) -> int:
    """Close the descriptors of files in the directories; answers how many this process still has, of all kinds.

    Python's own file objects are collected first: each closes its descriptor itself, and may not do so once its number
    belongs to another file.
    """
    close_left_open()
    if open_below(directories):
        gc.collect()
        for fd in open_below(directories):
            os.close(fd)
    return len(os.listdir("/proc/self/fd")) - 1
