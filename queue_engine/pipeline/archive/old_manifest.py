"""Archives of earlier versions: a manifest names the files of each topic, until `conversion.py` makes tables of them.

    <data>/pipeline/archive/<topic>/<number>-<id base, 16 hex digits>/manifest.json, a manifest of lake.py
    <data>/pipeline/archive/<topic>/<number>-<id base>/date=YYYY-MM-DD/hour=HH/g<generation>-<n>-<first>-<next>.parquet

    manifest: {"version": 1, "topic", "number", "id_base", "begin_offset", "next_offset",
               "files": [{"path", "date", "rows", "bytes", …}, …],
               "gaps": [{"first_offset", "next_offset", "reason", "at_ms"}, …],
               "replayed_skipped": replayed messages that were left out, "updated_ms", …}

Every offset from begin_offset up to next_offset is a row of one file, lies in a gap, or was a replayed message that was
left out. Paths are relative to the manifest's folder.
"""

import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from queue_engine.pipeline.archive.archive_gap import ArchiveGap
from queue_engine.pipeline.archive.archive_table import ARCHIVE, ArchivedIdentity, archive_path, archive_table
from queue_engine.pipeline.lake.lake import MANIFEST_NAME, Lake
from queue_engine.pipeline.tables.tables import LakeTables
from queue_engine.vocabulary.errors import LakeDamagedError, NotConvertedError
from queue_engine.vocabulary.names import is_valid_name

VERSION = 1
CONVERT_COMMAND = "penstock pipeline convert"
_PLAIN_FIELDS = ("topic", "number", "id_base", "begin_offset", "next_offset", "replayed_skipped", "updated_ms")
_FOLDER = re.compile(r"\d+-[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class OldFile:
    """A file that a manifest names. path: relative to its folder."""

    path: str
    date: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class OldArchive:
    """One topic's archive of an earlier version. folder: relative to the pipeline's directory."""

    folder: str
    topic: str
    number: int
    id_base: int
    begin_offset: int
    next_offset: int
    files: tuple[OldFile, ...]
    gaps: tuple[ArchiveGap, ...]
    replayed_skipped: int
    updated_ms: int

    def identity(self, server: str) -> ArchivedIdentity:
        return ArchivedIdentity(self.topic, server, self.number, self.id_base)

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.files)


@dataclass(frozen=True, slots=True)
class OldFolder:
    """Where the archive of an earlier version is. path: relative to the pipeline's directory; its last part is the
    topic's number and id base, as in the app id of a commit."""

    topic: str
    path: str


def old_folders(lake: Lake) -> Iterator[OldFolder]:
    """The archives of earlier versions in the pipeline's directory; no manifest is read. Raises OSError."""
    for topic in _names_in(lake.within(ARCHIVE)):
        if not is_valid_name(topic):
            continue
        for name in _names_in(lake.within(archive_path(topic))):
            path = f"{archive_path(topic)}/{name}"
            if _FOLDER.fullmatch(name) and os.path.lexists(lake.within(f"{path}/{MANIFEST_NAME}")):
                yield OldFolder(topic, path)


def read_old_archive(lake: Lake, folder: OldFolder) -> OldArchive:
    """Raises LakeDamagedError, OSError."""
    content = lake.read_manifest(f"{folder.path}/{MANIFEST_NAME}")
    if content is None:
        raise LakeDamagedError(f"archive {folder.path}: its manifest is gone")
    return _archive_of(content, folder.path)


def is_converted(one: OldFolder, tables: LakeTables, server: str) -> bool:
    """By the table alone: all that the manifest names was committed at once, and the manifest is not needed any more.
    Raises StoreError, TableError."""
    app_id = f"{server}/{posixpath.basename(one.path)}"
    return archive_table(tables, one.topic).transaction(app_id) is not None


def check_converted(lake: Lake, tables: LakeTables, server: str) -> None:
    """Raises NotConvertedError while an archive of an earlier version is not in its table; StoreError, TableError,
    OSError."""
    waiting = [one for one in old_folders(lake) if not is_converted(one, tables, server)]
    if waiting:
        more = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
        raise NotConvertedError(
            f"the archive of {waiting[0].topic}{more} was written by an earlier version: stop the server, run"
            f" {CONVERT_COMMAND}, and start it again; until then the log keeps what is not archived"
        )


def _archive_of(content: Mapping[str, Any], folder: str) -> OldArchive:
    if content.get("version") != VERSION:
        raise LakeDamagedError(f"archive {folder}: version {content.get('version')} of its manifest is not {VERSION}")
    try:
        gaps = [
            ArchiveGap(one["first_offset"], one["next_offset"], one["reason"], one["at_ms"]) for one in content["gaps"]
        ]
        found = OldArchive(
            folder=folder,
            files=tuple(OldFile(*(one[name] for name in OldFile.__slots__)) for one in content["files"]),
            gaps=tuple(gaps),
            **{name: content[name] for name in _PLAIN_FIELDS},
        )
    except (TypeError, KeyError) as exc:
        raise LakeDamagedError(f"archive {folder}: its manifest has other fields than it should: {exc}") from exc
    missing = sum(gap.count for gap in gaps)
    if found.rows + found.replayed_skipped + missing != found.next_offset - found.begin_offset:
        raise LakeDamagedError(
            f"archive {folder}: offsets {found.begin_offset} to {found.next_offset} are {found.rows} rows, "
            f"{found.replayed_skipped} replayed and {missing} in gaps, which does not add up"
        )
    return found


def _names_in(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except (FileNotFoundError, NotADirectoryError):
        return []
