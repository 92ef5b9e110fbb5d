"""The files of a replay: the plan, which the dry run makes before anything is published, and the progress.

    replays/<id>/plan.json        {"version": 1, "id", "request": {…as ReplayRequest…}, "created_ms",
                                   "source": {"topic", "number", "id_base"}: of the archive,
                                   "target": {"topic", "number", "id_base"}: null both while there is no such topic,
                                   "channels": [names of the target's channels, which will receive it],
                                   "count", "bytes": of the messages' bodies,
                                   "files": [{"path": relative to the lake, "count"}, …],
                                   "steps": [[file, first row, next row, count, bytes, first offset, next offset], …]}
    replays/<id>/rows.json        {"version": 1, "created_ms": of the plan,
                                   "rows": [of each step a text: which of its rows match, see `packed_rows`]}
    replays/<id>/progress.json    {"version": 1, "number", "id_base": of the target, "next_step", "sent": messages,
                                   "known": of them, those that the topic had already, "is_done", "updated_ms"}

All are manifests of `lake.py`. rows.json is written before its plan; plans of earlier versions have none, and get one
before they go on (`planning.py`). A step is the rows from first to next (excluded) of one file that match the request,
with their count and bytes. It is published as one batch under a key made of the replay, the file and the rows. So a
step that is done twice is published once, and a step whose rows differ from the plan is refused. Files of the archive
never change, and their names are never used again.
"""

import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np

from queue_engine.pipeline.expression.expressions import Expression, parse_expression
from queue_engine.pipeline.lake.lake import Lake
from queue_engine.vocabulary.errors import LakeDamagedError, PipelineError
from queue_engine.vocabulary.names import is_valid_name

VERSION = 1
REPLAYS = "replays"
STEP_ROWS_MAX = 1_000
STEP_BYTES_MAX = 2 << 20  # a larger message more
RATE_MAX = 10_000_000
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """Which archived messages of `topic` go to the topic `target`.

    number, id_base: which of the topics of that name; None for the newest that is archived. Times: Unix ms, by publish
    time, end_time_ms excluded; None for no bound. key: "" for all messages, else only those with that key. expression:
    "" for all messages, else as `expressions.py` reads it. rate_per_s: messages a second, None for no limit.
    """

    replay_id: str
    topic: str
    target: str
    number: int | None = None
    id_base: int | None = None
    start_time_ms: int | None = None
    end_time_ms: int | None = None
    key: str = ""
    expression: str = ""
    rate_per_s: int | None = None

    def check(self) -> Expression | None:
        """Returns the parsed expression; None without one. Raises ExpressionError, and PipelineError for any other
        field that is not valid."""
        _check_id(self.replay_id)
        for name in (self.topic, self.target):
            if not isinstance(name, str) or not is_valid_name(name):
                raise PipelineError(f"{str(name)[:80]!r} is not a topic's name")
        for bound in (self.start_time_ms, self.end_time_ms, self.number, self.id_base):
            if bound is not None and (not isinstance(bound, int) or not 0 <= bound < 1 << 63):
                raise PipelineError(f"{str(bound)[:80]!r} is neither a time nor a number from 0 to 2^63")
        start_ms, end_ms = self.start_time_ms, self.end_time_ms
        if start_ms is not None and end_ms is not None and start_ms >= end_ms:
            raise PipelineError(f"the time range is empty: it begins at {start_ms} and ends at {end_ms}")
        check_rate(self.rate_per_s)
        if not isinstance(self.key, str) or not isinstance(self.expression, str):
            raise PipelineError("key and expression must be texts")
        return parse_expression(self.expression) if self.expression else None


def check_rate(rate_per_s: int | None) -> None:
    """Raises PipelineError for a rate that is not valid."""
    if rate_per_s is not None and (not isinstance(rate_per_s, int) or not 1 <= rate_per_s <= RATE_MAX):
        raise PipelineError(f"rate_per_s={str(rate_per_s)[:40]} is not a whole number from 1 to {RATE_MAX}")


@dataclass(frozen=True, slots=True)
class ReplayStep:
    """One batch; the fields are drawn above."""

    file: int
    first_row: int
    next_row: int
    count: int
    bytes: int
    first_offset: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """The dry run's result; the fields are drawn above. files: (path, messages)."""

    request: ReplayRequest
    created_ms: int
    source_number: int
    source_id_base: int
    target_number: int | None
    target_id_base: int | None
    channels: tuple[str, ...]
    files: tuple[tuple[str, int], ...]
    steps: tuple[ReplayStep, ...]

    @property
    def count(self) -> int:
        return sum(step.count for step in self.steps)

    @property
    def body_bytes(self) -> int:
        return sum(step.bytes for step in self.steps)

    def key_of(self, step: ReplayStep) -> bytes:
        """The batch key of a step: 16 bytes."""
        parts = (self.request.replay_id, self.files[step.file][0], f"{step.first_row}-{step.next_row}")
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
    version: int = VERSION


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
            "source": {"topic": request.topic, "number": plan.source_number, "id_base": plan.source_id_base},
            "target": {"topic": request.target, "number": plan.target_number, "id_base": plan.target_id_base},
            "channels": list(plan.channels),
            "count": plan.count,
            "bytes": plan.body_bytes,
            "files": [{"path": path, "count": count} for path, count in plan.files],
            "steps": [
                [
                    step.file,
                    step.first_row,
                    step.next_row,
                    step.count,
                    step.bytes,
                    step.first_offset,
                    step.next_offset,
                ]
                for step in plan.steps
            ],
        },
    )


def read_plan(lake: Lake, replay_id: str) -> ReplayPlan | None:
    """None before the dry run. Raises LakeDamagedError, PipelineError for an id that is not valid, OSError."""
    content = _read(lake, replay_id, "plan.json")
    if content is None:
        return None
    try:
        return ReplayPlan(
            request=ReplayRequest(**content["request"]),
            created_ms=content["created_ms"],
            source_number=content["source"]["number"],
            source_id_base=content["source"]["id_base"],
            target_number=content["target"]["number"],
            target_id_base=content["target"]["id_base"],
            channels=tuple(content["channels"]),
            files=tuple((one["path"], one["count"]) for one in content["files"]),
            steps=tuple(ReplayStep(*one) for one in content["steps"]),
        )
    except (KeyError, TypeError) as exc:
        raise LakeDamagedError(f"the plan of the replay {replay_id} has other fields than it should: {exc}") from exc


def write_rows(lake: Lake, replay_id: str, created_ms: int, rows: Sequence[str]) -> None:
    """Write which rows match: one text of `packed_rows` for each step of the plan that was created at created_ms.

    Raises PipelineError without the lock, OSError."""
    lake.write_manifest(
        _path(replay_id, "rows.json"), {"version": VERSION, "created_ms": created_ms, "rows": list(rows)}
    )


def read_rows(lake: Lake, plan: ReplayPlan) -> list[str] | None:
    """One text of `packed_rows` for each step; None when the file is missing or belongs to another plan.

    Raises LakeDamagedError, OSError."""
    content = _read(lake, plan.request.replay_id, "rows.json")
    if (
        content is None
        or content.get("created_ms") != plan.created_ms
        or len(content.get("rows", ())) != len(plan.steps)
    ):
        return None
    return [str(one) for one in content["rows"]]


def packed_rows(step: ReplayStep, rows: Sequence[int]) -> str:
    """Which rows of a step match: a bit for each row, the first row's first, deflated, as base64; "" for all."""
    if step.count == step.next_row - step.first_row:
        return ""
    bits = np.zeros(step.next_row - step.first_row, np.bool_)
    bits[np.array(rows) - step.first_row] = True
    return b64encode(zlib.compress(np.packbits(bits).tobytes())).decode()


def unpacked_rows(step: ReplayStep, packed: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """For each row of a step whether it matches."""
    count = step.next_row - step.first_row
    if not packed:
        return np.ones(count, np.bool_)
    bits = np.frombuffer(zlib.decompress(b64decode(packed)), np.uint8)
    return np.unpackbits(bits, count=count).astype(np.bool_)


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


def _read(lake: Lake, replay_id: str, name: str) -> Mapping[str, Any] | None:
    content = lake.read_manifest(_path(replay_id, name))
    if content is not None and content.get("version") != VERSION:
        raise LakeDamagedError(f"{name} of the replay {replay_id} has version {content.get('version')}, not {VERSION}")
    return content


def _path(replay_id: str, name: str) -> str:
    _check_id(replay_id)
    return f"{REPLAYS}/{replay_id}/{name}"


def _check_id(replay_id: str) -> None:
    if not isinstance(replay_id, str) or not _ID.fullmatch(replay_id):
        raise PipelineError(f"{str(replay_id)[:80]!r} is not a replay's id: 1 to 64 of A-Za-z0-9_-")
