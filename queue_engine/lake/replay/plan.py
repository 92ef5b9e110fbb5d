"""The files of a replay: the plan, which the dry run makes before anything is published, and the progress.

    replays/<id>/plan.json        {"version": 2, "id", "request": {…as ReplayRequest…}, "created_ms",
                                   "source": {"topic", "server", "number", "id_base", "table_version"}: of the archive,
                                   "left_out": [{"number", "id_base", "server", "rows"}, …]: the other topics of that
                                   name that the archive has, which the replay does not reach; not in earlier plans,
                                   "target": {"topic", "number", "id_base"}: null both while there is no such topic,
                                   "channels": [names of the target's channels, which will receive it],
                                   "count", "bytes": of the messages' bodies,
                                   "files": [paths relative to the topic's table, which had them then],
                                   "steps": [[first offset, next offset, count, bytes], …]}
    replays/<id>/rows.json        {"version": 1, "created_ms": of the plan,
                                   "rows": [of each step a text: which of its offsets match, see `packed_offsets`]}
    replays/<id>/progress.json    {"version": 1, "number", "id_base": of the target, "next_step", "sent": messages,
                                   "known": of them, those that the topic had already, "is_done", "updated_ms"}

All are manifests of `lake.py`. rows.json is written before its plan. A step is those messages from its first offset to
its next (excluded) that match the request. It is published as one batch under a key made of the replay, the topic that
was archived, and the offsets. So a step that is done twice is published once, and a step whose messages differ from the
plan is refused. No file has a part in that: the files may be compacted and removed between plan, run and repeat.

Plans of version 1, which no release wrote, are refused.
"""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np

from queue_engine.lake.archive.archive_table import ArchivedIdentity
from queue_engine.lake.archive.summary import ArchivedIncarnation
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.replay.request import ReplayRequest, check_id
from queue_engine.vocabulary.errors import LakeDamagedError

VERSION = 2
OTHER_VERSION = 1  # of the other two files
REPLAYS = "replays"
STEP_ROWS_MAX = 1_000
STEP_BYTES_MAX = 2 << 20  # a larger message more
Offsets = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class ReplayStep:
    """One batch; the fields are drawn above."""

    first_offset: int
    next_offset: int
    count: int
    body_bytes: int


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """The dry run's result; the fields are drawn above. source: the topic that was archived. left_out: others of its
    name that have messages."""

    request: ReplayRequest
    created_ms: int
    source: ArchivedIdentity
    table_version: int
    target_number: int | None
    target_id_base: int | None
    channels: tuple[str, ...]
    files: tuple[str, ...]
    steps: tuple[ReplayStep, ...]
    left_out: tuple[ArchivedIncarnation, ...] = ()

    @property
    def count(self) -> int:
        return sum(step.count for step in self.steps)

    @property
    def body_bytes(self) -> int:
        return sum(step.body_bytes for step in self.steps)

    def key_of(self, step: ReplayStep) -> bytes:
        """The batch key of a step: 16 bytes."""
        parts = (self.request.replay_id, self.source.app_id, f"{step.first_offset}-{step.next_offset}")
        return blake2b("\0".join(parts).encode(), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class ReplayProgress:
    """How far a replay has come; the fields are drawn above."""

    number: int
    id_base: int
    next_step: int = 0
    sent: int = 0
    known: int = 0
    is_done: bool = False
    updated_ms: int = 0
    version: int = OTHER_VERSION


def write_plan(lake: Lake, plan: ReplayPlan) -> None:
    """Raises PipelineError without the lock, OSError."""
    request = plan.request
    lake.write_manifest(
        _path(request.replay_id, "plan.json"),
        {
            "version": VERSION,
            "id": request.replay_id,
            "request": asdict(request),
            "created_ms": plan.created_ms,
            "source": {**asdict(plan.source), "table_version": plan.table_version},
            "left_out": [asdict(one) for one in plan.left_out],
            "target": {"topic": request.target, "number": plan.target_number, "id_base": plan.target_id_base},
            "channels": list(plan.channels),
            "count": plan.count,
            "bytes": plan.body_bytes,
            "files": list(plan.files),
            "steps": [[step.first_offset, step.next_offset, step.count, step.body_bytes] for step in plan.steps],
        },
    )


def read_plan(lake: Lake, replay_id: str) -> ReplayPlan | None:
    """None before the dry run. Raises LakeDamagedError, PipelineError for an id that is not valid, OSError."""
    content = _read(lake, replay_id, "plan.json", VERSION)
    if content is None:
        return None
    try:
        source, target, files = content["source"], content["target"], content["files"]
        return ReplayPlan(
            request=ReplayRequest(**content["request"]),
            created_ms=content["created_ms"],
            source=ArchivedIdentity(source["topic"], source["server"], source["number"], source["id_base"]),
            table_version=source["table_version"],
            target_number=target["number"],
            target_id_base=target["id_base"],
            channels=tuple(content["channels"]),
            files=tuple(files),
            steps=tuple(ReplayStep(*one) for one in content["steps"]),
            left_out=tuple(ArchivedIncarnation(**one) for one in content.get("left_out", ())),
        )
    except (KeyError, TypeError) as exc:
        raise LakeDamagedError(f"the plan of the replay {replay_id} has other fields than it should: {exc}") from exc


def write_rows(lake: Lake, replay_id: str, created_ms: int, rows: Sequence[str]) -> None:
    """Write which offsets match: one text of `packed_offsets` for each step of the plan that was created at created_ms.

    Raises PipelineError without the lock, OSError."""
    lake.write_manifest(
        _path(replay_id, "rows.json"), {"version": OTHER_VERSION, "created_ms": created_ms, "rows": list(rows)}
    )


def read_rows(lake: Lake, plan: ReplayPlan) -> list[str] | None:
    """One text of `packed_offsets` for each step; None when the
    file is missing or belongs to another plan.

    Raises LakeDamagedError, OSError."""
    content = _read(lake, plan.request.replay_id, "rows.json")
    if (
        content is None
        or content.get("created_ms") != plan.created_ms
        or len(content.get("rows", ())) != len(plan.steps)
    ):
        return None
    return [str(one) for one in content["rows"]]


def packed_offsets(offsets: Offsets) -> str:
    """Ascending offsets: the differences between neighbours as 64-bit numbers, deflated, as base64; "" for consecutive
    ones. The first is the step's first offset."""
    steps = np.diff(offsets)
    return "" if (steps == 1).all() else b64encode(zlib.compress(steps.astype("<i8").tobytes())).decode()


def unpacked_offsets(step: ReplayStep, packed: str) -> Offsets:
    """The offsets of a step's messages."""
    if not packed:
        return np.arange(step.first_offset, step.first_offset + step.count)
    steps = np.frombuffer(zlib.decompress(b64decode(packed)), "<i8")
    return np.cumsum(np.append(step.first_offset, steps))


def write_progress(lake: Lake, replay_id: str, progress: ReplayProgress, now_ms: int) -> None:
    """Raises PipelineError without the lock, OSError."""
    lake.write_manifest(_path(replay_id, "progress.json"), asdict(replace(progress, updated_ms=now_ms)))


def read_progress(lake: Lake, replay_id: str) -> ReplayProgress | None:
    """None before the run has begun. Raises LakeDamagedError, PipelineError for an id that is not valid, OSError."""
    content = _read(lake, replay_id, "progress.json")
    try:
        return None if content is None else ReplayProgress(**content)
    except TypeError as exc:
        raise LakeDamagedError(f"the progress of the replay {replay_id} has other fields: {exc}") from exc


def _read(lake: Lake, replay_id: str, name: str, version: int = OTHER_VERSION) -> Mapping[str, Any] | None:
    content = lake.read_manifest(_path(replay_id, name))
    if content is not None and content.get("version") != version:
        raise LakeDamagedError(
            f"{name} of the replay {replay_id} has version {content.get('version')}, not {version}: plan another one"
        )
    return content


def _path(replay_id: str, name: str) -> str:
    check_id(replay_id)
    return f"{REPLAYS}/{replay_id}/{name}"
