"""Requests to the worker: the console or a command writes a file, the worker handles and removes it.

    pipeline/requests/<Unix ms, 13 digits>-<9 hex>.json    {"kind": "stop_job", "job": "archive"}

Kinds and their fields: stop_job, start_job, cancel_job {job}; plan_replay, run_replay, cancel_replay {id}.
`put_request` returns when the file is synced. The worker removes it once the request's effect is on disk: a worker that
is killed in between handles it again, so each kind must be harmless when it is handled twice.

    pipeline/replays/<id>/request.json    {"topic": "orders", …}    the request of a replay
"""

import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from queue_engine.lake.directory.status_file import (
    BrokenStatusFileError,
    names_in,
    read_status_file,
    write_status_file,
)
from queue_engine.lake.job.state import REPLAY_PREFIX, is_job_name
from queue_engine.vocabulary.errors import PipelineError

STOP_JOB = "stop_job"
START_JOB = "start_job"
CANCEL_JOB = "cancel_job"
PLAN_REPLAY = "plan_replay"
RUN_REPLAY = "run_replay"
CANCEL_REPLAY = "cancel_replay"
KINDS = (STOP_JOB, START_JOB, CANCEL_JOB, PLAN_REPLAY, RUN_REPLAY, CANCEL_REPLAY)

DIRECTORY = "requests"
REPLAYS_DIRECTORY = "replays"
REPLAY_REQUEST_NAME = "request.json"
REQUEST_BYTES_MAX = 64 << 10
REQUESTS_MAX = 200


@dataclass(frozen=True, slots=True)
class JobRequest:
    """One request. kind: "" for a file that is no request; `complaint` is then the sentence about it."""

    kind: str
    details: dict[str, Any] = field(default_factory=dict)
    complaint: str = ""


def put_request(lake_path: Path, kind: str, **details: Any) -> Path:
    """Write a request; returns its file. Raises PipelineError when too many wait or it is too large, OSError."""
    if kind not in KINDS:
        raise ValueError(f"there is no request {kind!r}")
    directory = lake_path / DIRECTORY
    waiting = len(names_in(directory, REQUESTS_MAX))
    if waiting >= REQUESTS_MAX:
        raise PipelineError(f"{waiting} requests wait for the pipeline's worker, the most that may wait")
    bytes_near = sum(len(str(value).encode()) for value in details.values())
    if bytes_near > REQUEST_BYTES_MAX // 2:
        raise PipelineError(f"the request has about {bytes_near:,} bytes; the most is {REQUEST_BYTES_MAX // 2:,}")
    # Names sort by time, within a millisecond as well: requests are handled in their order.
    ms, rest_ns = divmod(time.time_ns(), 1_000_000)
    path = directory / f"{ms:013d}-{rest_ns:05x}{secrets.token_hex(2)}.json"
    write_status_file(path, {"kind": kind, **details}, is_durable=True)
    return path


def has_requests(lake_path: Path) -> bool:
    """Whether a request waits."""
    return bool(names_in(lake_path / DIRECTORY, 1))


def has_request_about(lake_path: Path, replay_id: str) -> bool:
    """Whether a request about this replay waits."""
    directory = lake_path / DIRECTORY
    for name in names_in(directory, REQUESTS_MAX):
        try:
            if read_status_file(directory / name, REQUEST_BYTES_MAX).get("id") == replay_id:
                return True
        except (FileNotFoundError, BrokenStatusFileError):
            continue  # it was taken, or `take_requests` complains about it
    return False


def take_requests(lake_path: Path) -> Iterator[JobRequest]:
    """The requests that wait, oldest first. Each is removed when the caller comes back for the next one."""
    for name in names_in(lake_path / DIRECTORY, REQUESTS_MAX):
        path = lake_path / DIRECTORY / name
        try:
            content = read_status_file(path, REQUEST_BYTES_MAX)
            kind = content.pop("kind", "")
            if kind not in KINDS:
                raise BrokenStatusFileError(f"{DIRECTORY}/{name} has the kind {str(kind)[:80]!r}, which does not exist")
            yield JobRequest(str(kind), content)
        except FileNotFoundError:
            continue
        except BrokenStatusFileError as exc:
            yield JobRequest("", {}, str(exc))
        _remove(path)


def ask_for_replay(lake_path: Path, replay_id: str, **details: Any) -> None:
    """Write a replay's request, and request its plan. Raises PipelineError, OSError."""
    write_status_file(_replay_path(lake_path, replay_id), details, is_durable=True)
    put_request(lake_path, PLAN_REPLAY, id=replay_id)


def replay_ids(lake_path: Path, count_max: int) -> list[str]:
    """The ids of all replays that were requested, in descending order."""
    try:
        names = os.listdir(lake_path / REPLAYS_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted((name for name in names if is_job_name(REPLAY_PREFIX + name)), reverse=True)[:count_max]


def has_replay(lake_path: Path, replay_id: str) -> bool:
    """Whether a replay of this id was requested; the id may be anything."""
    return is_job_name(REPLAY_PREFIX + replay_id) and (lake_path / REPLAYS_DIRECTORY / replay_id).is_dir()


def read_replay_request(lake_path: Path, replay_id: str) -> dict[str, Any]:
    """A replay's request. Raises PipelineError when there is none."""
    try:
        return read_status_file(_replay_path(lake_path, replay_id), REQUEST_BYTES_MAX)
    except FileNotFoundError as exc:
        raise PipelineError(f"there is no request of the replay {replay_id}") from exc


def _replay_path(lake_path: Path, replay_id: str) -> Path:
    return lake_path / REPLAYS_DIRECTORY / replay_id / REPLAY_REQUEST_NAME


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except IsADirectoryError:
        # A directory is no request; renamed, it is not reported again.
        path.rename(path.with_name(f".{path.name}.bad"))
