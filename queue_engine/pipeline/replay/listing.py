"""What was asked of a replay and what its dry run found, for people to look at; no Spark.

pipeline/replays/<id>/request.json     what was asked for (job/requests.py)
pipeline/replays/<id>/plan.json        what the dry run found (replay.py)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from queue_engine.pipeline.job.requests import REPLAYS_DIRECTORY, read_replay_request
from queue_engine.pipeline.lake.lake import Lake

PLAN_NAME = "plan.json"


@dataclass(frozen=True, slots=True)
class ReplayAsked:
    """A replay as it was asked for. Times: Unix ms, None for no bound. rate_per_s: None for as fast as it goes."""

    topic: str
    target: str
    start_time_ms: int | None
    end_time_ms: int | None
    key: str
    expression: str
    rate_per_s: int | None


@dataclass(frozen=True, slots=True)
class ReplayPlanned:
    """What the dry run found: how many messages of how many files, and who would receive them."""

    count: int
    file_count: int
    channels: tuple[str, ...]


def read_asked(lake_path: Path, replay_id: str) -> ReplayAsked:
    """Raises PipelineError when nobody asked, or the file is broken."""
    told = read_replay_request(lake_path, replay_id)
    return ReplayAsked(
        topic=_text(told, "topic"),
        target=_text(told, "target"),
        start_time_ms=_number(told, "start_time_ms"),
        end_time_ms=_number(told, "end_time_ms"),
        key=_text(told, "key"),
        expression=_text(told, "expression"),
        rate_per_s=_number(told, "rate_per_s"),
    )


def read_planned(lake_path: Path, replay_id: str) -> ReplayPlanned | None:
    """None while there is no plan. Raises PipelineError, OSError."""
    content = Lake(str(lake_path)).read_manifest(f"{REPLAYS_DIRECTORY}/{replay_id}/{PLAN_NAME}")
    if content is None:
        return None
    channels = content.get("channels") or ()
    return ReplayPlanned(
        count=_number(content, "count") or 0,
        file_count=len(content.get("files") or ()),
        channels=tuple(str(one) for one in channels)[:1000],
    )


def _text(told: Mapping[str, Any], name: str) -> str:
    value = told.get(name)
    return value[:4000] if isinstance(value, str) else ""


def _number(told: Mapping[str, Any], name: str) -> int | None:
    value = told.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
