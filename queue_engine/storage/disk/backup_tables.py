"""Delta tables in a backup: each as it was at the moment of the backup, though it is linked later.

A table can have tens of thousands of files, so the engine rests only while the tables' versions are noted. Files of a
table never change, and none is removed within a day of being replaced: its commits up to the noted one are the table of
that moment, and all their data files are still there when they are linked. Commits may go meanwhile, when a newer
checkpoint stands for them: then the table is taken as it is by then.
"""

import json
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from queue_engine.storage.disk.no_follow import read_no_follow

LOG = "_delta_log"
HINT = "_last_checkpoint"
_VERSIONED = re.compile(r"(\d{20})\.(?!.*#)(checkpoint\.)?.*")


@dataclass(frozen=True, slots=True)
class NotedTable:
    """path: of the table, in the data directory. version: of its last commit at that moment; None: unknown, then the
    table is taken as it is."""

    path: str
    version: int | None


def noted_table(data_path: str, path: str) -> NotedTable:
    """Find a table's version by a few looks, whatever the number of its commits: they are numbered without gaps."""
    log = os.path.join(data_path, path, LOG)
    base = hinted_version(log)
    last = -1 if base is None else base
    step = 1
    while _has_commit(log, last + step):
        last += step
        step *= 2
    while step := step // 2:
        if _has_commit(log, last + step):
            last += step
    return NotedTable(path, None if last < 0 else last)


def hinted_version(log: str) -> int | None:
    """The version of the checkpoint that a log's hint names; None without a hint that can be read."""
    try:
        return int(json.loads(read_no_follow(os.path.join(log, HINT)))["version"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def log_names(log: str, version: int | None) -> list[str]:
    """The names of a log up to a version; all of them for None. Files that another process has not finished are left
    out."""
    names = []
    for name in os.listdir(log):
        match = _VERSIONED.fullmatch(name)
        if match and (version is None or int(match[1]) <= version):
            names.append(name)
    hinted = hinted_version(log)
    if hinted is not None and (version is None or hinted <= version):
        names.append(HINT)
    return names


def is_whole(names: Iterable[str]) -> bool:
    """Whether the names of a log make a table: every commit behind the last checkpoint is there."""
    commits: set[int] = set()
    checkpoints: set[int] = set()
    for name in names:
        if match := _VERSIONED.fullmatch(name):
            (checkpoints if match[2] else commits).add(int(match[1]))
    base = max(checkpoints, default=-1)
    return bool(commits | checkpoints) and commits.issuperset(range(base + 1, max(commits, default=base) + 1))


def has_checkpoint(names: Iterable[str], version: int | None) -> bool:
    """Whether the checkpoint of this version is among the names of a log."""
    return version is not None and any(name.startswith(f"{version:020d}.checkpoint.") for name in names)


def data_files(data_path: str, path: str) -> Iterable[str]:
    """The paths of a table's files beside its log, in the data directory."""
    for folder, folders, names in os.walk(os.path.join(data_path, path)):
        with suppress(ValueError):
            folders.remove(LOG)
        inside = os.path.relpath(folder, data_path)
        yield from (f"{inside}/{name}" for name in names if not name.endswith(".tmp"))


def _has_commit(log: str, version: int) -> bool:
    return os.path.exists(os.path.join(log, f"{version:020d}.json"))
