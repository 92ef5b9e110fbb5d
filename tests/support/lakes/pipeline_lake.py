"""A lake as workers leave it, written here without one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from queue_engine.lake.archive.archive_gap import ArchiveGap
from queue_engine.lake.archive.summary import ArchivedTopic, ArchiveSummary
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.job.requests import ask_for_replay, take_requests
from queue_engine.lake.job.state import JobState, write_state
from queue_engine.vocabulary.clock import SystemClock


def planned_replay(lake_path: Path, replay_id: str, *, topic: str, expression: str = "", **plan: Any) -> None:
    """A replay that is planned and waits for an answer."""
    ask_for_replay(lake_path, replay_id, topic=topic, target=topic, expression=expression, key="", rate_per_s=100)
    assert [request.kind for request in take_requests(lake_path)][-1] == "plan_replay"
    write_state(lake_path, JobState(f"plan-{replay_id}", "done", unit="files"))
    content = {"version": 1, "count": 1200, "files": [{}, {}], "channels": ["billing", "mail"], **plan}
    lake = Lake(str(lake_path))
    with lake.lock():
        lake.write_manifest(f"replays/{replay_id}/plan.json", content)


def archived_topic(lake_path: Path, topic: str, number: int, id_base: int, **fields: Any) -> None:
    """The summary of an archive of 3,000 messages in two files, with a gap of 100 between them; others' stay."""
    one = ArchivedTopic(
        topic=topic,
        server="5f1c",
        number=number,
        id_base=id_base,
        first_offset=0,
        next_offset=3_100,
        rows=3_000,
        bytes=100_000,
        file_count=2,
        first_time_ms=1_772_375_400_000,
        last_time_ms=1_772_375_550_000,
        table_version=2,
        committed_ms=1_772_375_560_000,
        gaps=(ArchiveGap(1_000, 1_100, "retention", 1_772_375_460_000),),
    )
    lake = Lake(str(lake_path))
    with lake.lock():
        summary = ArchiveSummary(lake, SystemClock())
        summary.put(replace(one, **fields))
        summary.write(is_last=True)
