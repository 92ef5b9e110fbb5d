"""The bytes of the data directory on its disk, by purpose of the files.

Bytes are those that the file system gave (`st_blocks`), as `du` counts them: zeros written ahead count, holes do not,
and a file with several names counts once. Directories count with their entries. The parts add up to the whole.
"""

import os
import re
import stat
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

_BLOCK_BYTES = 512  # of st_blocks, whatever the file system's own
# A walk over many files takes a while: it is done every ten seconds at most, and takes this share of the time at most.
INTERVAL_S = 10.0
SHARE_MAX = 0.02

SEGMENTS = "log_segments"
PROGRESS = "log_progress"
RESERVE = "reserve"
QUARANTINE = "quarantine"
LOG_OTHER = "log_other"
SET_ASIDE = "set_aside"
SAMPLES = "samples"
PIPELINE = "pipeline"
CONSOLE = "console"
TOPOLOGY = "topology"
BACKUP = "backup"
TOPICS = "topics"
DELETED = "deleted"
OTHER = "other"
KINDS = {
    TOPICS: "files of single topics and their channels: consume queues, key indexes, progress, disk queues",
    SEGMENTS: "the log's segments, which all its topics share",
    PROGRESS: "the journal of channels' progress",
    RESERVE: "room that is given up when the disk is full",
    QUARANTINE: "damaged bytes of the log",
    LOG_OTHER: "the log's checkpoint, batch keys, state of the key index, leases and cursors",
    SET_ASIDE: "files of disk queues that could not be read, or that former ones left (.bad)",
    SAMPLES: "the server's own stats for the history",
    PIPELINE: "archive, history and scratch files of the pipeline",
    CONSOLE: "users, audit list, keys and static files",
    TOPOLOGY: "which topics and channels exist",
    BACKUP: "files that a running backup still needs",
    DELETED: "files of topics and channels that do not exist any more",
    OTHER: "the data directory itself, and files that no part of the server has made",
}

_TOP = {
    "samples": SAMPLES,
    "pipeline": PIPELINE,
    "static": CONSOLE,
    "backup-staging": BACKUP,
    "secret-key": CONSOLE,
    "admin-password": CONSOLE,
    "audit-head": CONSOLE,
}
_LOG = {"segments": SEGMENTS, "progress": PROGRESS, "quarantine": QUARANTINE}
_DATABASE = "console.sqlite3"  # with its journal, and copies that were set aside
_QUEUE_FILE = re.compile(r"(.+)\.diskqueue\.")


class DiskUsage(NamedTuple):
    """The bytes that one walk found. kinds: of files that belong to no single topic. topics, channels: of the log's, by
    number. queues: of disk queues, by name: TOPIC, or TOPIC:CHANNEL."""

    kinds: Counter[str]
    topics: Counter[int]
    channels: Counter[int]
    queues: Counter[str]

    @property
    def total(self) -> int:
        return self.kinds.total() + self.topics.total() + self.channels.total() + self.queues.total()


def disk_usage(directory: str) -> DiskUsage:
    """The present usage. Files that go meanwhile are left out, and so is a directory below that can't be read: that of
    another account, such as the lost+found of a volume. Raises OSError when the data directory can't be read."""
    usage = DiskUsage(Counter(), Counter(), Counter(), Counter())
    usage.kinds[OTHER] += os.stat(directory).st_blocks * _BLOCK_BYTES
    seen: set[tuple[int, int]] = set()

    def walk(path: str, parts: tuple[str, ...]) -> None:
        with os.scandir(path) as entries:
            for entry in entries:
                within = (*parts, entry.name)
                try:
                    found = entry.stat(follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        with suppress(PermissionError):
                            walk(entry.path, within)
                except FileNotFoundError:
                    continue
                if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
                    name = (found.st_dev, found.st_ino)
                    if name in seen:
                        continue
                    seen.add(name)
                _note(usage, within, found.st_blocks * _BLOCK_BYTES)

    walk(directory, ())
    return usage


def _note(usage: DiskUsage, parts: tuple[str, ...], size: int) -> None:
    """Count a file or directory; parts: its path within the data directory."""
    top, second, third = (*parts, "", "")[:3]
    if top == "log":
        if second in ("queues", "keys") and third.isdigit():
            usage.topics[int(third)] += size
        elif second == "progress" and third.isdigit():
            usage.channels[int(third)] += size
        elif second == "progress" and third == "reserve":
            usage.kinds[RESERVE] += size
        else:
            usage.kinds[_LOG.get(second, LOG_OTHER)] += size
    elif not second and (queue := _QUEUE_FILE.match(top)):
        if top.endswith(".bad"):
            usage.kinds[SET_ASIDE] += size
        else:
            usage.queues[queue[1]] += size
    elif top.startswith("topology."):
        usage.kinds[TOPOLOGY] += size
    elif top.startswith(_DATABASE):
        usage.kinds[CONSOLE] += size
    else:
        usage.kinds[_TOP.get(top, OTHER)] += size


class DiskUsageWatch:
    """Walks through a data directory now and then. One thread."""

    def __init__(self, directory: str, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._directory = directory
        self._monotonic_s = monotonic_s
        self._usage: DiskUsage | None = None
        self._next_s = 0.0

    def usage(self) -> DiskUsage | None:
        """The newest; None when the directory can't be read."""
        began_s = self._monotonic_s()
        if began_s >= self._next_s:
            try:
                self._usage = disk_usage(self._directory)
            except OSError:
                self._usage = None
            ended_s = self._monotonic_s()
            self._next_s = ended_s + max(INTERVAL_S, (ended_s - began_s) / SHARE_MAX)
        return self._usage
