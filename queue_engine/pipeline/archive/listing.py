"""Lists the archived topics from their manifests, for the console and other processes without Spark.

pipeline/archive/<topic>/<number>-<id base, 16 hex>/manifest.json     one for each topic that ever had this name
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from queue_engine.pipeline.archive.manifest import ArchiveGap
from queue_engine.pipeline.lake.lake import MANIFEST_NAME, Lake
from queue_engine.vocabulary.errors import PenstockError

DIRECTORY = "archive"
IDENTITIES_MAX = 2_000


@dataclass(frozen=True, slots=True)
class ArchivedTopic:
    """One topic's archive. `number` and `id_base` tell topics of one name apart. Times: Unix ms, None while empty."""

    topic: str
    number: int
    id_base: int
    next_offset: int
    first_offset: int
    file_count: int
    rows: int
    bytes: int
    first_time_ms: int | None
    last_time_ms: int | None
    damaged_count: int
    gaps: tuple[ArchiveGap, ...]


class ArchiveListing:
    """Lists the archive; reads a manifest again only when it was replaced. For one thread at a time."""

    def __init__(self, lake_path: Path) -> None:
        self._lake = Lake(str(lake_path))
        self._lake_path = lake_path
        self._known: dict[str, tuple[tuple[int, int, int], ArchivedTopic]] = {}

    def read(self) -> tuple[list[ArchivedTopic], list[str]]:
        """Every archived topic, by name and number, and a sentence for each manifest that can't be read."""
        topics: list[ArchivedTopic] = []
        broken: list[str] = []
        seen: dict[str, tuple[tuple[int, int, int], ArchivedTopic]] = {}
        for place in self._places():
            path = f"{DIRECTORY}/{place}/{MANIFEST_NAME}"
            try:
                status = os.lstat(self._lake_path / path)
                sign = (status.st_ino, status.st_mtime_ns, status.st_size)
                known = self._known.get(path)
                if known is None or known[0] != sign:
                    content = self._lake.read_manifest(path)
                    if content is None:
                        continue
                    known = (sign, _topic_of(content))
            except FileNotFoundError:
                continue  # nothing archived yet, or gone meanwhile
            except (PenstockError, OSError, ValueError, KeyError, TypeError) as exc:
                reason = str(exc) if isinstance(exc, PenstockError | OSError) else "it has not the fields of a manifest"
                broken.append(f"the manifest of {place} can't be read: {reason[:200]}")
                continue
            seen[path] = known
            topics.append(known[1])
        self._known = seen
        return sorted(topics, key=lambda one: (one.topic, one.number)), broken

    def _places(self) -> list[str]:
        """<topic>/<identity> of every archived topic, at most IDENTITIES_MAX."""
        found: list[str] = []
        root = self._lake_path / DIRECTORY
        for topic in _names(root):
            found.extend(f"{topic}/{identity}" for identity in _names(root / topic))
            if len(found) >= IDENTITIES_MAX:
                break
        return found[:IDENTITIES_MAX]


def _names(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _topic_of(content: dict[str, Any]) -> ArchivedTopic:
    """Raises KeyError, TypeError or ValueError for content that is no topic's manifest."""
    files = content["files"]
    gaps = tuple(
        ArchiveGap(int(one["first_offset"]), int(one["next_offset"]), str(one["reason"]), int(one["at_ms"]))
        for one in content.get("gaps", ())
    )
    next_offset = int(content["next_offset"])
    return ArchivedTopic(
        topic=str(content["topic"]),
        number=int(content["number"]),
        id_base=int(content["id_base"]),
        next_offset=next_offset,
        first_offset=min((int(one["first_offset"]) for one in files), default=next_offset),
        file_count=len(files),
        rows=sum(int(one["rows"]) for one in files),
        bytes=sum(int(one["bytes"]) for one in files),
        first_time_ms=min((int(one["first_time_ms"]) for one in files), default=None),
        last_time_ms=max((int(one["last_time_ms"]) for one in files), default=None),
        damaged_count=int(content.get("damaged_count", 0)),
        gaps=gaps,
    )
