"""Summaries of a replay's request and plan for the console, read without Spark.

pipeline/replays/<id>/request.json     the request (job/requests.py)
pipeline/replays/<id>/plan.json        the result of the dry run (plan.py)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from queue_engine.pipeline.job.requests import REPLAYS_DIRECTORY, read_replay_request
from queue_engine.pipeline.lake.lake import Lake

PLAN_NAME = "plan.json"


@dataclass(frozen=True, slots=True)
class ReplayRequestSummary:
    """A replay's request. Times: Unix ms, None for no bound. rate_per_s: None for no limit."""

    topic: str
    target: str
    start_time_ms: int | None
    end_time_ms: int | None
    key: str
    expression: str
    rate_per_s: int | None


@dataclass(frozen=True, slots=True)
class ReplayPlanSummary:
    """The dry run's result: how many messages in how many files, and which channels would receive them."""

    count: int
    file_count: int
    channels: tuple[str, ...]


def read_request_summary(lake_path: Path, replay_id: str) -> ReplayRequestSummary:
    """Raises PipelineError when there is no such request, or its file is broken."""
    content = read_replay_request(lake_path, replay_id)
    return ReplayRequestSummary(
        topic=_text(content, "topic"),
        target=_text(content, "target"),
        start_time_ms=_number(content, "start_time_ms"),
        end_time_ms=_number(content, "end_time_ms"),
        key=_text(content, "key"),
        expression=_text(content, "expression"),
        rate_per_s=_number(content, "rate_per_s"),
    )


def read_plan_summary(lake_path: Path, replay_id: str) -> ReplayPlanSummary | None:
    """None while there is no plan. Raises PipelineError, OSError."""
    content = Lake(str(lake_path)).read_manifest(f"{REPLAYS_DIRECTORY}/{replay_id}/{PLAN_NAME}")
    if content is None:
        return None
    channels = content.get("channels") or ()
    return ReplayPlanSummary(
        count=_number(content, "count") or 0,
        file_count=len(content.get("files") or ()),
        channels=tuple(str(one) for one in channels)[:1000],
    )


def _text(content: Mapping[str, Any], name: str) -> str:
    value = content.get(name)
    return value[:4000] if isinstance(value, str) else ""


def _number(content: Mapping[str, Any], name: str) -> int | None:
    value = content.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
