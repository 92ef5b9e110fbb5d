"""Chooses which files of one archive table are merged, and which go because of their age or of the table's size.

Pure functions over the table's list of files. A table's date is a partition of it; a file belongs to one topic of one
server (its `identity`), and the files of an identity follow one another by offset.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

# The size of a merged file; other writers of Delta tables aim at the same.
TARGET_BYTES = 128 << 20
# So many neighbours of one size are merged into one of the next size: a message is then written once for each size,
# and a date that still grows has fewer than FAN_IN files of each.
FAN_IN = 8
FIRST_SIZE_BYTES = 64 << 10
# A file whose newest message is younger is left alone for now: its hour still grows.
CLOSED_AFTER_MS = 5 * 60_000
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A file as the table lists it. identity: server, topic number and id base. Times: Unix ms, of its messages."""

    path: str
    date: str
    identity: str
    first_offset: int
    rows: int
    bytes: int
    last_time_ms: int


def merges(
    files: Sequence[ArchivedFile], today: str, now_ms: int, *, target_bytes: int = TARGET_BYTES
) -> list[tuple[ArchivedFile, ...]]:
    """Groups of files, each of which becomes one file; dates that are over first, then by date.

    today: UTC, as dates are named. On a date that is over all small neighbours are merged. On a date that still grows,
    neighbours of about the same size are, FAN_IN of them or more.
    """
    found: list[tuple[ArchivedFile, ...]] = []
    ordered = sorted(files, key=lambda one: (one.date >= today, one.date, one.identity, one.first_offset))
    for (is_growing, _, _), group in groupby(ordered, key=lambda one: (one.date >= today, one.date, one.identity)):
        neighbours = list(group)
        # A clock that was set back may leave a date of tomorrow: its files are closed by their age alone.
        closed = [one for one in neighbours if one.last_time_ms <= now_ms - CLOSED_AFTER_MS]
        if is_growing:
            found += _of_one_size(closed, target_bytes)
        else:
            found += _filled(closed, target_bytes)
    return found


def _filled(files: Sequence[ArchivedFile], target_bytes: int) -> list[tuple[ArchivedFile, ...]]:
    """Neighbours, put together until a file has about target_bytes."""
    groups: list[list[ArchivedFile]] = [[]]
    size = 0
    for one in files:
        if groups[-1] and size + one.bytes > target_bytes:
            groups.append([])
            size = 0
        groups[-1].append(one)
        size += one.bytes
    return [tuple(group) for group in groups if len(group) > 1]


def _of_one_size(files: Sequence[ArchivedFile], target_bytes: int) -> list[tuple[ArchivedFile, ...]]:
    """Runs of FAN_IN neighbours or more whose sizes are of one step; small ones between larger ones count as those."""
    found: list[tuple[ArchivedFile, ...]] = []
    run: list[ArchivedFile] = []
    # From the newest back: sizes fall towards the newest file, and a smaller one before it was left by a smaller merge.
    step = 0
    for one in reversed(files):
        if run and _step(one) > step:
            found += _enough(run, target_bytes)
            run = []
        step = max(step, _step(one)) if run else _step(one)
        run.append(one)
    return (found + _enough(run, target_bytes))[::-1]


def _enough(run: list[ArchivedFile], target_bytes: int) -> list[tuple[ArchivedFile, ...]]:
    if len(run) < FAN_IN:
        return []
    return _filled(run[::-1], target_bytes)[::-1]


def _step(one: ArchivedFile) -> int:
    """0 up to 64 KiB, 1 up to 512 KiB, and so on: a factor of FAN_IN each."""
    step, limit = 0, FIRST_SIZE_BYTES
    while one.bytes > limit:
        step, limit = step + 1, limit * FAN_IN
    return step


def outdated(
    files: Sequence[ArchivedFile], now_ms: int, *, keep_ms: int | None, keep_bytes: int | None
) -> list[ArchivedFile]:
    """The files that go: those whose newest message is older than keep_ms, then the oldest until keep_bytes are left.

    None: no limit. The newest file stays, however small keep_bytes is: an archive that was just written is not empty.
    """
    by_age = sorted(files, key=lambda one: (one.last_time_ms, one.first_offset))
    gone = [one for one in by_age if keep_ms is not None and one.last_time_ms < now_ms - keep_ms]
    left = by_age[len(gone) :]
    if keep_bytes is not None:
        size = sum(one.bytes for one in left)
        while len(left) > 1 and size > keep_bytes:
            size -= left[0].bytes
            gone.append(left.pop(0))
    return gone
