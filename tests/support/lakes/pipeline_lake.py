"""A lake as workers leave it, written here without one."""

from pathlib import Path
from typing import Any

from queue_engine.pipeline.job.requests import ask_for_replay, take_requests
from queue_engine.pipeline.job.state import JobState, write_state
from queue_engine.pipeline.lake.lake import Lake


def planned_replay(lake_path: Path, replay_id: str, *, topic: str, **plan: Any) -> None:
    """A replay that is planned and waits for an answer."""
    ask_for_replay(lake_path, replay_id, topic=topic, target=topic, expression="", key="", rate_per_s=100)
    assert [request.kind for request in take_requests(lake_path)][-1] == "plan_replay"
    write_state(lake_path, JobState(f"plan-{replay_id}", "done", unit="files"))
    content = {"version": 1, "count": 1200, "files": [{}, {}], "channels": ["billing", "mail"], **plan}
    lake = Lake(str(lake_path))
    with lake.lock():
        lake.write_manifest(f"replays/{replay_id}/plan.json", content)


def archived_topic(lake_path: Path, topic: str, number: int, id_base: int, **manifest: Any) -> None:
    """An archive of 3,000 messages in two files, with a gap of 100 between them."""
    hour = {"date": "2026-03-01", "hour": 14, "replayed_rows": 0}
    files = [
        {"path": "a.parquet", "first_offset": 0, "next_offset": 1000, "rows": 1000, "bytes": 40_000, **hour},
        {"path": "b.parquet", "first_offset": 1100, "next_offset": 3100, "rows": 2000, "bytes": 60_000, **hour},
    ]
    for file, first_ms in zip(files, (1_772_375_400_000, 1_772_375_500_000), strict=True):
        file |= {"first_time_ms": first_ms, "last_time_ms": first_ms + 50_000}
    content = {
        "version": 1,
        "topic": topic,
        "number": number,
        "id_base": id_base,
        "step": 2,
        "next_offset": 3100,
        "files": files,
        "gaps": [{"first_offset": 1000, "next_offset": 1100, "reason": "retention", "at_ms": 1_772_375_460_000}],
        "damaged_count": 0,
        **manifest,
    }
    lake = Lake(str(lake_path))
    with lake.lock():
        lake.write_manifest(f"archive/{topic}/{number}-{id_base:016x}/manifest.json", content)
