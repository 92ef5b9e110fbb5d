"""Removes the files of old replays: request, plan, rows, progress and the states of both jobs.

The files of a replay of a million messages take some megabytes, and the page reads those of each replay. So the newest
ENDED_MAX replays that are done or cancelled stay for KEPT_MS; the audit list still has the users of the others. A
replay that is under way, or whose plan waits for an operator, stays.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.directory.status_file import BrokenStatusFileError
from queue_engine.lake.job.requests import REPLAYS_DIRECTORY, replay_ids
from queue_engine.lake.job.state import (
    CANCELLED,
    DIRECTORY,
    DONE,
    PLAN_PREFIX,
    REPLAY_PREFIX,
    JobState,
    read_state,
)

logger = logging.getLogger(__name__)

# Twice as many as the page shows. Each has two of the 500 states that are read.
ENDED_MAX = 100
KEPT_MS = 90 * 24 * 3_600_000
# More replays than any user plans: those beyond are looked at once the first are gone.
_LOOKED_AT_MAX = 100_000


def remove_old_replays(lake: Lake, now_ms: int) -> list[str]:
    """Remove the files of old replays; returns the names of their jobs. now_ms: Unix.

    Call it with the lake's lock. Files that can't be removed are logged, and removed by a later call.
    """
    ended = sorted(_ended(Path(lake.path)), key=lambda state: state.updated_ms, reverse=True)
    old = [state for rank, state in enumerate(ended) if rank >= ENDED_MAX or now_ms - state.updated_ms > KEPT_MS]
    jobs = []
    for state in old:
        replay_id = state.replay_id
        # The states last: without them a start would take the replay for one that has not ended.
        if not lake.remove_tree(f"{REPLAYS_DIRECTORY}/{replay_id}"):
            continue
        names = [PLAN_PREFIX + replay_id, REPLAY_PREFIX + replay_id]
        lake.remove([f"{DIRECTORY}/{name}.json" for name in names])
        jobs += names
    if jobs:
        logger.info("old replays removed count=%d", len(jobs) // 2)
    return jobs


def _ended(lake_path: Path) -> Iterator[JobState]:
    """The states of replays that are done or cancelled."""
    for replay_id in replay_ids(lake_path, _LOOKED_AT_MAX):
        try:
            state = read_state(lake_path, REPLAY_PREFIX + replay_id)
        except BrokenStatusFileError as exc:
            logger.warning("replay not looked at: %s", exc)
            continue
        if state is not None and state.state in (DONE, CANCELLED):
            yield state
