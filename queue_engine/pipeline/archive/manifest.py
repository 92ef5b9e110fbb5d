"""The manifest of a topic's archive: the files that count, the offset it has reached, and its gaps.

    archive/<topic>/<number>-<id base, 16 hex digits>/manifest.json
    archive/<topic>/<number>-<id base>/date=YYYY-MM-DD/hour=HH/g<generation>-<n>-<first offset>-<next offset>.parquet

    manifest: {"version": 1, "topic", "number", "id_base", "step": how often it was written,
               "begin_offset": where the archive began, "next_offset": the next one to be archived,
               "files": [{"path", "date", "hour", "first_offset", "next_offset", "rows", "bytes", "first_time_ms",
                          "last_time_ms", "replayed_rows"}, …],
               "gaps": [{"first_offset", "next_offset", "reason", "at_ms"}, …], "damaged_count": messages in gaps whose
               reason is `damaged`, "replayed_skipped": replayed messages that were left out,
               "updated_ms", "closed_ms": when the topic was found deleted or created again, else null}

A topic that is deleted and created again is another topic, with a folder of its own. Every offset from begin_offset up
to next_offset is a row of one file, lies in a gap, or was a replayed message that was left out: the counts add up
(`check`). Paths are relative to the folder, times are Unix milliseconds, ends are excluded.

To change this: a new field with a default needs nothing; else raise VERSION and read both.
"""

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from queue_engine.pipeline.lake.lake import MANIFEST_NAME, Lake
from queue_engine.vocabulary.errors import LakeDamagedError
from queue_engine.vocabulary.names import is_valid_name
from queue_engine.wire.cursor import CursorStats

VERSION = 1
ARCHIVE = "archive"

# Reasons of gaps. Others are those of the readers (`absent`: no such offsets, as after an unclean stop of the engine)
# and of the cursor (`retention`: it lagged further than may be kept).
DAMAGED = "damaged"
GONE = "gone"  # the log had removed the messages
OFF = "off"  # the topic's archive was switched off


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    path: str
    date: str
    hour: str
    first_offset: int
    next_offset: int
    rows: int
    bytes: int
    first_time_ms: int
    last_time_ms: int
    replayed_rows: int


@dataclass(frozen=True, slots=True)
class ArchiveGap:
    """Messages from first_offset up to but not including next_offset are not in the archive. at_ms: when the manifest
    noted it, Unix."""

    first_offset: int
    next_offset: int
    reason: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class ArchiveManifest:
    """One topic's archive; the fields are drawn above."""

    topic: str
    number: int
    id_base: int
    begin_offset: int
    next_offset: int
    step: int = 0
    files: tuple[ArchivedFile, ...] = ()
    gaps: tuple[ArchiveGap, ...] = ()
    damaged_count: int = 0
    replayed_skipped: int = 0
    updated_ms: int = 0
    closed_ms: int | None = None
    version: int = field(default=VERSION)

    @property
    def folder(self) -> str:
        """Relative to the lake."""
        return archive_folder(self.topic, self.number, self.id_base)

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.files)

    def with_gap(self, next_offset: int, reason: str, at_ms: int) -> "ArchiveManifest":
        """The manifest up to `next_offset`, with the offsets between as a gap."""
        gap = ArchiveGap(self.next_offset, next_offset, reason, at_ms)
        return replace(self, gaps=joined_gaps([*self.gaps, gap]), next_offset=next_offset)

    def check(self) -> None:
        """Raises LakeDamagedError when the counts do not add up."""
        missing = sum(gap.next_offset - gap.first_offset for gap in self.gaps)
        found = self.rows + self.replayed_skipped + missing
        if found != self.next_offset - self.begin_offset:
            raise LakeDamagedError(
                f"archive {self.folder}: offsets {self.begin_offset} to {self.next_offset} are {self.rows} rows, "
                f"{self.replayed_skipped} replayed and {missing} in gaps: {found}, which does not add up"
            )


def joined_gaps(gaps: list[ArchiveGap]) -> tuple[ArchiveGap, ...]:
    """Gaps in order of offset; neighbours with the same reason are joined."""
    joined: list[ArchiveGap] = []
    for gap in sorted(gaps, key=lambda one: one.first_offset):
        last = joined[-1] if joined else None
        if last is not None and last.next_offset == gap.first_offset and last.reason == gap.reason:
            joined[-1] = replace(last, next_offset=gap.next_offset)
        else:
            joined.append(gap)
    return tuple(joined)


def with_gaps_to(manifest: ArchiveManifest, cursor: CursorStats, begin: int, at_ms: int) -> ArchiveManifest:
    """The manifest up to offset `begin`, which lies behind its end; the offsets between are gaps with their reasons.

    cursor: with the gaps at which it was cut off.
    """
    for gap in sorted(cursor.gaps, key=lambda one: one.first_offset):
        first, after = max(gap.first_offset, manifest.next_offset), min(gap.next_offset, begin)
        if first < after:
            if first > manifest.next_offset:
                manifest = manifest.with_gap(first, OFF, at_ms)
            manifest = manifest.with_gap(after, gap.reason, gap.at_ms)
    if manifest.next_offset < begin:
        # OFF: the cursor was created after the archive had ended. GONE: the log removed messages before the cursor.
        manifest = manifest.with_gap(begin, OFF if cursor.offset >= begin else GONE, at_ms)
    return manifest


def archive_folder(topic: str, number: int, id_base: int) -> str:
    """The folder of a topic's archive, relative to the lake."""
    # The name comes from the engine or from a request: as a path it must not lead out of the archive.
    assert is_valid_name(topic), topic
    return f"{ARCHIVE}/{topic}/{number}-{id_base:016x}"


def read_archive(lake: Lake, topic: str, number: int, id_base: int) -> ArchiveManifest | None:
    """None when nothing was archived of this topic. Raises LakeDamagedError, OSError."""
    return _read(lake, archive_folder(topic, number, id_base))


def write_archive(lake: Lake, manifest: ArchiveManifest) -> None:
    """Raises PipelineError without the lock, LakeDamagedError when the counts do not add up, OSError."""
    manifest.check()
    lake.write_manifest(f"{manifest.folder}/{MANIFEST_NAME}", asdict(manifest))


def list_archives(lake: Lake, topic: str = "") -> Iterator[ArchiveManifest]:
    """The manifests of all archives, or of all topics that had this name. Raises LakeDamagedError, OSError."""
    assert not topic or is_valid_name(topic), topic
    for name in [topic] if topic else _names_in(lake, ARCHIVE):
        for identity in _names_in(lake, f"{ARCHIVE}/{name}"):
            manifest = _read(lake, f"{ARCHIVE}/{name}/{identity}")
            if manifest is not None:
                yield manifest


def _names_in(lake: Lake, path: str) -> list[str]:
    try:
        return sorted(os.listdir(lake.within(path)))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _read(lake: Lake, folder: str) -> ArchiveManifest | None:
    content = lake.read_manifest(f"{folder}/{MANIFEST_NAME}")
    return None if content is None else _manifest_of(content, folder)


def _manifest_of(content: dict[str, Any], folder: str) -> ArchiveManifest:
    if content.get("version") != VERSION:
        raise LakeDamagedError(f"archive {folder}: version {content.get('version')} of its manifest is not {VERSION}")
    try:
        lists: dict[str, Any] = {
            "files": tuple(ArchivedFile(**one) for one in content["files"]),
            "gaps": tuple(ArchiveGap(**one) for one in content["gaps"]),
        }
        manifest = ArchiveManifest(**(content | lists))
    except (TypeError, KeyError) as exc:
        raise LakeDamagedError(f"archive {folder}: its manifest has other fields than it should: {exc}") from exc
    return manifest
