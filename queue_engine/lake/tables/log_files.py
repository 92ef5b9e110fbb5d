"""The files of a table's log: their names, and whether a commit is whole.

    _delta_log/00000000000000000007.json                   commit 7: one action in JSON a line, its information first
    _delta_log/00000000000000000007.json#1                 delta-rs writes it, and links it under its name
    _delta_log/00000000000000000100.checkpoint.parquet     all that counts after commit 100
    _delta_log/_last_checkpoint                            JSON: which checkpoint is the last
    _delta_log/00000000000000000007.json.torn-<uuid>       a torn file, renamed; also of a checkpoint

The information of each commit of ours has the number of actions that follow ("penstockActions"): without it a commit
that was cut between two lines would count as a smaller one.
"""

import posixpath
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import orjson

from queue_engine.lake.tables.storage import TableStorage
from queue_engine.vocabulary.errors import TableDamagedError

LOG = "_delta_log"
ACTIONS_KEY = "penstockActions"
COMMIT_BYTES_MAX = 1 << 28
HINT_BYTES_MAX = 1 << 20
# Each waits for two answers of the store.
CHECK_THREADS = 8

_COMMIT = re.compile(r"(\d{20})\.json")
# In one file, as delta-rs writes it, or in parts, as other programs may.
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\..+)?\.(?:parquet|json)")
_LEFT = re.compile(r".+(?:#\d+|\.torn-.+)")


@dataclass(frozen=True, slots=True)
class LogListing:
    """The names of a log. commits: versions. checkpoints: version → names of its files. left: names of unfinished files
    and of torn ones that were renamed."""

    commits: frozenset[int]
    checkpoints: dict[int, list[str]]
    left: list[str]

    @property
    def last(self) -> int:
        """The table's version; -1 for no table."""
        return max(self.commits | self.checkpoints.keys(), default=-1)

    def first_missing(self, base: int) -> int | None:
        """The first commit behind `base`, up to the last, that is not there."""
        return next((one for one in range(base + 1, self.last + 1) if one not in self.commits), None)


def log_listing(names: list[str]) -> LogListing:
    """names: of a log directory."""
    commits = set()
    checkpoints: dict[int, list[str]] = {}
    left = []
    for name in names:
        if match := _COMMIT.fullmatch(name):
            commits.add(int(match[1]))
        elif match := _CHECKPOINT.fullmatch(name):
            checkpoints.setdefault(int(match[1]), []).append(name)
        elif _LEFT.fullmatch(name):
            left.append(name)
    return LogListing(frozenset(commits), checkpoints, left)


def log_path(table: str, name: str) -> str:
    return posixpath.join(table, LOG, name)


def commit_path(table: str, version: int) -> str:
    """The path of a commit."""
    return log_path(table, f"{version:020d}.json")


def checkpoint_path(table: str, version: int) -> str:
    """The path of a checkpoint as delta-rs writes it: one file."""
    return log_path(table, f"{version:020d}.checkpoint.parquet")


def last_checkpoint_path(table: str) -> str:
    return log_path(table, "_last_checkpoint")


def is_whole_commit(storage: TableStorage, table: str, version: int) -> bool:
    """Whether commit `version`, which exists, has all its actions."""
    return _is_whole(storage.read(commit_path(table, version), COMMIT_BYTES_MAX) or b"", version)


def check_commits(storage: TableStorage, table: str, versions: Iterable[int]) -> None:
    """Raise TableDamagedError for the first of these commits that has not all its actions. Commits that are not there
    are left to delta-rs, which misses them."""

    def is_damaged(version: int) -> bool:
        data = storage.read(commit_path(table, version), COMMIT_BYTES_MAX)
        return data is not None and not _is_whole(data, version)

    listed = list(versions)
    if not listed:
        return
    with ThreadPoolExecutor(min(CHECK_THREADS, len(listed)), "commit-check") as pool:
        found = list(pool.map(is_damaged, listed))
    if any(found):
        raise TableDamagedError(
            f"{storage.at(commit_path(table, listed[found.index(True)]))} was emptied or cut off: the table is damaged."
            " Restore this file from a backup, or move the table away, so that a new one begins"
        )


def last_checkpoint(storage: TableStorage, table: str, version: int) -> int:
    """The checkpoint from which `version` can be read, from `_last_checkpoint`, or else from the list of the log; -1
    for none."""
    hinted = read_hint(storage, table).get("version")
    if isinstance(hinted, int) and hinted <= version:
        return hinted
    listing = log_listing(storage.names(posixpath.join(table, LOG)))
    return max((one for one in listing.checkpoints if one <= version), default=-1)


def read_hint(storage: TableStorage, table: str) -> dict[str, object]:
    """The content of `_last_checkpoint`; empty when there is none that can be read."""
    try:
        hint = orjson.loads(storage.read(last_checkpoint_path(table), HINT_BYTES_MAX) or b"")
    except ValueError:
        return {}
    return hint if isinstance(hint, dict) else {}


def _is_whole(data: bytes, version: int) -> bool:
    try:
        actions = [orjson.loads(line) for line in data.splitlines()]
    except ValueError:
        return False
    if not actions or not all(isinstance(one, dict) for one in actions):
        return False
    kinds = [kind for one in actions for kind in one]
    if version == 0 and not {"protocol", "metaData"} <= set(kinds):
        return False
    expected = next((one["commitInfo"].get(ACTIONS_KEY) for one in actions if "commitInfo" in one), None)
    return expected is None or expected == len(kinds) - kinds.count("commitInfo")
