"""The manifest that named the history's files before they were tables; it is read until they are converted.

    history/manifest.json
    {"version": 1, "step": 12, "samples_offset": 51840, "closed_until_s": 1800057600,
     "rollup": {"checkpoint": "9f0c…", "batch": 311},
     "files": [{"level": "minutes", "kind": "fresh", "path": "minutes/g000003-000017-fresh.parquet",
                "first_s": 1800057600, "end_s": 1800057660, "rows": 41, "bytes": 17033, "day": null,
                "source": "stream"}, …]}

first_s and end_s are Unix seconds: a file's windows start at first_s or later and end at end_s or before. In a "fresh"
file, which the stream wrote, only windows from `closed_until_s` on count; in a "day" file all do. `rollup`: the
stream's checkpoint and the last batch of it that is in the files.
"""

import os
from dataclasses import dataclass

from queue_engine.pipeline.history.levels import DIRECTORY
from queue_engine.pipeline.lake.lake import Lake
from queue_engine.vocabulary.errors import LakeDamagedError

OLD_MANIFEST = f"{DIRECTORY}/manifest.json"
VERSION = 1


@dataclass(frozen=True, slots=True)
class OldFile:
    """A file that the manifest names. path: relative to history/. from_s: windows that start before it do
    not count; 0: all count."""

    level: str
    path: str
    first_s: int
    end_s: int
    from_s: int


@dataclass(frozen=True, slots=True)
class OldHistory:
    """The manifest; the fields are drawn above. checkpoint: "" when no stream has written yet."""

    closed_until_s: int
    checkpoint: str
    batch: int
    files: tuple[OldFile, ...]

    def of(self, level: str) -> list[OldFile]:
        """The files of a level that have windows which count, by time."""
        found = (one for one in self.files if one.level == level and one.from_s < one.end_s)
        return sorted(found, key=lambda one: (one.first_s, one.end_s))


def has_old_history(lake: Lake) -> bool:
    """Whether an earlier version has left its manifest, converted or not."""
    return os.path.lexists(lake.within(OLD_MANIFEST))


def read_old_history(lake: Lake) -> OldHistory | None:
    """None without a manifest. Raises LakeDamagedError, OSError."""
    content = lake.read_manifest(OLD_MANIFEST)
    if content is None:
        return None
    if content["version"] != VERSION:
        raise LakeDamagedError(f"{OLD_MANIFEST} is of version {content['version']}, expected {VERSION}")
    closed_until_s, rollup = content["closed_until_s"], content.get("rollup") or {}
    files = tuple(
        OldFile(
            level=one["level"],
            path=one["path"],
            first_s=one["first_s"],
            end_s=one["end_s"],
            from_s=closed_until_s if one["kind"] == "fresh" and one["first_s"] < closed_until_s else 0,
        )
        for one in content["files"]
    )
    return OldHistory(closed_until_s, rollup.get("checkpoint", ""), rollup.get("batch", -1), files)
