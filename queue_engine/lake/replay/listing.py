"""A replay's request, and its plan in short, for the console, read without Spark.

pipeline/replays/<id>/request.json     the request (job/requests.py)
pipeline/replays/<id>/plan.json        the result of the dry run (plan.py)
"""

from dataclasses import dataclass
from pathlib import Path

from queue_engine.lake.archive.summary import ArchivedIncarnation
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.directory.status_fields import read_fields
from queue_engine.lake.job.requests import REPLAYS_DIRECTORY, read_replay_request
from queue_engine.lake.replay.request import ReplayRequest
from queue_engine.vocabulary.errors import PipelineError

PLAN_NAME = "plan.json"


@dataclass(frozen=True, slots=True)
class ReplayPlanSummary:
    """The dry run's result: how many messages in how many files, and which channels would receive them. source: the
    topic that was archived; left_out: others of its name, which the replay does not reach."""

    count: int
    file_count: int
    channels: tuple[str, ...]
    source: ArchivedIncarnation | None = None
    left_out: tuple[ArchivedIncarnation, ...] = ()


def read_request(lake_path: Path, replay_id: str) -> ReplayRequest:
    """A replay's request, which nothing has checked, with long texts cut. Raises PipelineError when there is none, or
    its file is broken."""
    content = read_replay_request(lake_path, replay_id)
    try:
        return read_fields(ReplayRequest, {**content, "replay_id": replay_id})
    except ValueError as exc:
        raise PipelineError(f"its request can't be read: {exc}") from exc


def read_plan_summary(lake_path: Path, replay_id: str) -> ReplayPlanSummary | None:
    """None while there is no plan. Raises PipelineError, OSError."""
    content = Lake(str(lake_path)).read_manifest(f"{REPLAYS_DIRECTORY}/{replay_id}/{PLAN_NAME}")
    if content is None:
        return None
    try:
        return read_fields(ReplayPlanSummary, {**content, "file_count": len(content.get("files") or ())})
    except ValueError as exc:
        raise PipelineError(f"its plan can't be read: {exc}") from exc
