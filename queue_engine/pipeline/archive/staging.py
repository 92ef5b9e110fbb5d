"""Checks the files that one step of the archive has staged against the step's ranges, before they count.

    <step>/rows/part_topic=<index>/part_kept=<true|false>/part_hour=<hours since 1970>/*.parquet
    <step>/missing/*.json    messages that the readers did not find (part_reader.py draws them)

Rows that are not kept are replayed messages, written only to be counted. Each offset of a range that has a message must
be in exactly one row or one missing range; offsets without a message must be in none; and the rows of a file must rise
by offset. Otherwise the step is not published.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow.parquet as pq

from queue_engine.disk.no_follow import read_no_follow, refuse_link
from queue_engine.pipeline.archive.manifest import ArchivedFile
from queue_engine.pipeline.source.wanted_range import WantedRange
from queue_engine.vocabulary.errors import ArchiveMismatchError

ROWS = "rows"
MISSING = "missing"
PART_TOPIC, PART_KEPT, PART_HOUR = "part_topic", "part_kept", "part_hour"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class StagedTopic:
    """One range of one topic. files: with absolute paths. missing: (first offset, next offset, reason)."""

    wanted: WantedRange
    files: list[ArchivedFile] = field(default_factory=list)
    missing: list[tuple[int, int, str]] = field(default_factory=list)
    replayed_skipped: int = 0


def staged_topics(directory: Path, ranges: Sequence[WantedRange]) -> list[StagedTopic]:
    """The content of a step's directory, one entry for each range in their order.

    Raises ArchiveMismatchError unless it has every message of the ranges exactly once.
    """
    topics = [StagedTopic(one) for one in ranges]
    seen = [_Seen(one) for one in ranges]
    for index, is_kept, hours, path in _parquet_files(directory / ROWS):
        staged, offsets = _staged_file(path, hours)
        wanted = ranges[index]
        if offsets[0] < wanted.first_offset or offsets[-1] >= wanted.next_offset or (np.diff(offsets) <= 0).any():
            raise ArchiveMismatchError(
                f"{path}: offsets do not rise from {wanted.first_offset} to {wanted.next_offset}"
            )
        seen[index].add(offsets, path)
        if is_kept:
            topics[index].files.append(staged)
        else:
            topics[index].replayed_skipped += staged.rows
    by_number = {one.number: index for index, one in enumerate(ranges)}
    for number, first, after, reason in _reports(directory / MISSING):
        index = by_number[number]
        topics[index].missing.append((first, after, reason))
        seen[index].add_missing(first, after)
    for topic, counts in zip(topics, (one.counts for one in seen), strict=True):
        if (counts != 1).any():
            wanted = topic.wanted
            raise ArchiveMismatchError(
                f"{wanted.topic}, offsets {wanted.first_offset} to {wanted.next_offset}: {(counts == 0).sum()} messages"
                f" are missing and {(counts > 1).sum()} are there more than once; nothing of the step is kept"
            )
        topic.files.sort(key=lambda one: one.first_offset)
        topic.missing.sort()
    return topics


class _Seen:
    """Counts how often each message of a range was staged: one count for each, in the order of their offsets."""

    def __init__(self, wanted: WantedRange) -> None:
        self.counts = np.zeros(wanted.count, np.uint8)
        self._first_offset = wanted.first_offset
        self._unused = np.array([*wanted.unused, (wanted.next_offset, wanted.next_offset)], np.int64)
        lengths = self._unused[:, 1] - self._unused[:, 0]
        self._unused_before = np.cumsum(lengths) - lengths

    def add(self, offsets: Any, path: Path) -> None:
        """Raises ArchiveMismatchError when one of them has no message."""
        # Of each offset, the first unused range that does not end before it.
        index = np.searchsorted(self._unused[:, 1], offsets, side="right")
        if (offsets >= self._unused[index, 0]).any():
            raise ArchiveMismatchError(f"{path}: rows have offsets that belong to no message of the topic")
        self.counts[offsets - self._first_offset - self._unused_before[index]] += 1

    def add_missing(self, first: int, after: int) -> None:
        index = np.searchsorted(self._unused[:, 1], first, side="right")
        place = first - self._first_offset - int(self._unused_before[index])
        self.counts[place : place + after - first] += 1


def _parquet_files(root: Path) -> Iterator[tuple[int, bool, int, Path]]:
    for folder, _, names in os.walk(root):
        for name in names:
            if name.endswith(".parquet") and not name.startswith("."):
                path = Path(folder, name)
                values = dict(part.split("=", 1) for part in path.relative_to(root).parts[:-1])
                yield int(values[PART_TOPIC]), values[PART_KEPT] == "true", int(values[PART_HOUR]), path


def _staged_file(path: Path, hours: int) -> tuple[ArchivedFile, Any]:
    """A file, and its offsets. hours: since 1970 UTC, of its rows' publish times."""
    refuse_link(path)
    with pq.ParquetFile(path) as file:
        table = file.read(columns=["offset", "published_at", "replayed"])
    offsets = table.column("offset").to_numpy()
    times = table.column("published_at").to_numpy().astype("datetime64[ms]").astype(np.int64)
    staged = ArchivedFile(
        path=str(path),
        date=(_EPOCH + timedelta(hours=hours)).strftime("%Y-%m-%d"),
        hour=f"{hours % 24:02d}",
        first_offset=int(offsets[0]),
        next_offset=int(offsets[-1]) + 1,
        rows=len(offsets),
        bytes=path.stat().st_size,
        first_time_ms=int(times.min()),
        last_time_ms=int(times.max()),
        replayed_rows=int(np.count_nonzero(table.column("replayed").to_numpy())),
    )
    return staged, offsets


def _reports(root: Path) -> Iterator[tuple[int, int, int, str]]:
    """(topic number, first offset, next offset, reason) of all missing messages."""
    if not root.is_dir():
        return
    for path in sorted(root.glob("*.json")):
        values = orjson.loads(read_no_follow(path))
        for one in values["missing"]:
            yield values["number"], one["first_offset"], one["next_offset"], one["reason"]
