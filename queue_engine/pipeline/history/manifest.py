"""The manifest of the history: the files that count, and up to when days are closed.

    history/manifest.json
    {"version": 1, "step": 12, "samples_offset": 51840, "closed_until_s": 1800057600,
     "rollup": {"checkpoint": "9f0c…", "batch": 311},
     "files": [{"level": "minutes", "kind": "fresh", "path": "minutes/g000003-000017-fresh.parquet",
                "first_s": 1800057600, "end_s": 1800057660, "rows": 41, "bytes": 17033, "day": null,
                "source": "stream"}, …]}

first_s and end_s are Unix seconds: a file's windows start at first_s or later and end at end_s or before.
`closed_until_s` is the end of the last closed day, which was computed again from the raw samples: in a "fresh" file,
which the stream wrote, only windows from there on count; in a "day" file all do. `samples_offset`: up to where the last
batch of the stream had read the samples' topic; null when its source has no offsets. `rollup`: the stream's checkpoint
and the last batch of it that is in the files: by it a batch that Spark repeats after a crash is recognized. `source` of
a file: "stream", "raw", "fresh" (the day's raw samples were gone, so it is made of the stream's minutes) or "raw and
fresh" (the raw samples of the day's beginning were gone).

To add a field: give it a default in `HistoryFile` or `History`; to change the meaning of one: another version.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from queue_engine.pipeline.lake.lake import HISTORY_MANIFEST, Lake
from queue_engine.vocabulary.errors import LakeDamagedError

VERSION = 1
FRESH = "fresh"
DAY = "day"


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """One file of the history; the fields are drawn above. path: relative to history/."""

    level: str
    kind: str
    path: str
    first_s: int
    end_s: int
    rows: int
    bytes: int
    day: str | None = None
    source: str = "stream"


@dataclass(frozen=True, slots=True)
class History:
    """The manifest; the fields are drawn above."""

    step: int = 0
    samples_offset: int | None = None
    closed_until_s: int = 0
    checkpoint: str = ""
    batch: int = -1
    files: tuple[HistoryFile, ...] = field(default=())

    def of(self, level: str, kind: str | None = None) -> list[HistoryFile]:
        """The files of a level, by time; kind None: of both."""
        found = (one for one in self.files if one.level == level and kind in (None, one.kind))
        return sorted(found, key=lambda one: (one.first_s, one.end_s))

    def end_s(self, level: str) -> int:
        """The end of the level's files; 0 without any."""
        return max([self.closed_until_s, *(one.end_s for one in self.files if one.level == level)])


def read_history(lake: Lake) -> History:
    """The current history; an empty one before there is a manifest. Raises LakeDamagedError, OSError."""
    content = lake.read_manifest(HISTORY_MANIFEST)
    if content is None:
        return History()
    if content["version"] != VERSION:
        raise LakeDamagedError(f"{HISTORY_MANIFEST} is of version {content['version']}, expected {VERSION}")
    rollup = content.get("rollup") or {}
    return History(
        step=content["step"],
        samples_offset=content["samples_offset"],
        closed_until_s=content["closed_until_s"],
        checkpoint=rollup.get("checkpoint", ""),
        batch=rollup.get("batch", -1),
        files=tuple(HistoryFile(**one) for one in content["files"]),
    )


def change_history(lake: Lake, change: Callable[[History], History | None]) -> bool:
    """Replace the manifest: `change` gets the current history and returns its successor, or None for no change.

    All files that the successor names must be in place. Files that it no longer names are retired. Returns whether the
    manifest was replaced. Raises LakeDamagedError, OSError: then it was not.
    """
    with lake.changes:
        before = read_history(lake)
        after = change(before)
        if after is None:
            return False
        lake.write_manifest(HISTORY_MANIFEST, _content(replace(after, step=before.step + 1)))
        named = {one.path for one in after.files}
        lake.retire(f"history/{one.path}" for one in before.files if one.path not in named)
    return True


def without(files: Iterable[HistoryFile], gone: Iterable[HistoryFile]) -> tuple[HistoryFile, ...]:
    paths = {one.path for one in gone}
    return tuple(one for one in files if one.path not in paths)


def _content(history: History) -> dict[str, Any]:
    return {
        "version": VERSION,
        "step": history.step,
        "samples_offset": history.samples_offset,
        "closed_until_s": history.closed_until_s,
        "rollup": {"checkpoint": history.checkpoint, "batch": history.batch},
        "files": [asdict(one) for one in history.files],
    }
