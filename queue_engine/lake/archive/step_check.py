"""Checks the files of a step against its ranges, message by message, before they count.

Each message of a range must be in exactly one file, or replayed and left out, or reported as missing; offsets without a
message must be in none. The runs of offsets show that: no two may overlap, and together they are as many as the range
has messages. Otherwise the step is not committed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from queue_engine.lake.archive.step_writer import Runs, TopicRows
from queue_engine.lake.source.wanted_range import WantedRange
from queue_engine.lake.tables.parquet_files import DataFile
from queue_engine.vocabulary.errors import ArchiveMismatchError


@dataclass(frozen=True, slots=True)
class WrittenRange:
    """A range that is written as it was wanted. left_out: runs of replayed messages. missing: (first offset, next
    offset, reason), ascending."""

    wanted: WantedRange
    files: tuple[DataFile, ...]
    left_out: Runs
    missing: tuple[tuple[int, int, str], ...]

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.files)


def checked_ranges(ranges: Sequence[WantedRange], found: Iterable[TopicRows]) -> list[WrittenRange]:
    """Check the tasks' files, and return one entry for each range, in their order. Raises ArchiveMismatchError unless
    it has every message of the ranges exactly once."""
    by_topic: dict[str, list[TopicRows]] = {one.topic: [] for one in ranges}
    for one in found:
        by_topic[one.topic].append(one)
    return [_checked(one, by_topic[one.topic]) for one in ranges]


def _checked(wanted: WantedRange, parts: Sequence[TopicRows]) -> WrittenRange:
    files = tuple(file for part in parts for file in part.files)
    left_out = _sorted([runs for part in parts for runs in part.left_out])
    missing = tuple(sorted((one.first_offset, one.next_offset, one.reason) for part in parts for one in part.missing))
    written = [runs for part in parts for runs in part.written]
    rows = sum(int(np.sum(runs[:, 1] - runs[:, 0])) for runs in written)
    place = f"{wanted.topic}, offsets {wanted.first_offset} to {wanted.next_offset}"
    if rows != sum(file.rows for file in files):
        raise ArchiveMismatchError(f"{place}: the files have other rows than were written; nothing of the step counts")
    # An offset without a message counts as a run of its own: so a row that has it overlaps.
    runs = _sorted([*written, left_out, _pairs((first, after) for first, after, _ in missing), _pairs(wanted.unused)])
    if len(runs) and (runs[0, 0] < wanted.first_offset or runs[-1, 1] > wanted.next_offset):
        raise ArchiveMismatchError(f"{place}: offsets {runs[0, 0]} to {runs[-1, 1]} were written")
    ends = np.maximum.accumulate(np.append(wanted.first_offset, runs[:, 1]))
    covered = int(np.sum(np.maximum(ends[1:] - np.maximum(runs[:, 0], ends[:-1]), 0)))
    twice = int(np.sum(runs[:, 1] - runs[:, 0])) - covered
    lost = wanted.next_offset - wanted.first_offset - covered
    if twice or lost:
        raise ArchiveMismatchError(
            f"{place}: {lost} messages are missing and {twice} are there more than once, or have offsets of no message;"
            " nothing of the step counts"
        )
    return WrittenRange(wanted, files, left_out, missing)


def _sorted(runs: Sequence[Runs]) -> Runs:
    joined = np.concatenate([np.empty((0, 2), np.int64), *runs])
    return joined[np.argsort(joined[:, 0], kind="stable")]


def _pairs(ranges: Iterable[tuple[int, int]]) -> Runs:
    return np.array(list(ranges), np.int64).reshape(-1, 2)
