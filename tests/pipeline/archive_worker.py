"""The archive and its housekeeping beside each other, as a worker runs them, in a process that can be killed.

    python -m tests.pipeline.archive_worker LAKE ENGINE_URL PLACE STEP_ROWS

PLACE: of the tables, "" for the lake itself. Both jobs are the product's own, with short waits: housekeeping looks at
all tables each half second, merges two neighbours of any age, and removes what they were made of at once. Tasks run in
this process, without Java.
"""

import functools
import signal
import sys
import threading
from pathlib import Path

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake import jobs
from queue_engine.lake.archive import archive, rounds
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.housekeeping import choices, housekeeping
from queue_engine.lake.job.archive_settings import ArchiveSettings
from queue_engine.lake.job.context import JobResources
from queue_engine.lake.job.reports import JobReports
from queue_engine.lake.job.thread import JobThread
from queue_engine.lake.tables.housekeeping import vacuum
from queue_engine.vocabulary import log_lines
from queue_engine.vocabulary.clock import SystemClock
from tests.pipeline.job_process import end_with_parent
from tests.pipeline.local_tasks import LocalTasks

LOOK_S = 0.5
RETRY_S = 0.5
UNNAMED_AGE_MS = 86_400_000
READY = "ready"
JOBS = ("archive", "housekeeping")


def shorten_waits(step_rows: int) -> None:
    """Have the jobs of this process work all the time, in steps of `step_rows` messages."""
    archive.Archiver.__init__.__kwdefaults__["step_rows"] = step_rows
    rounds.ROUND_S = 0
    jobs.ARCHIVE_LOOK_S = jobs.HOUSEKEEPING_EVERY_S = jobs.HOUSEKEEPING_LOOK_S = LOOK_S
    jobs.HOUSEKEEPING_BEGINS_AFTER_S = 0.0
    choices.FAN_IN = 2
    choices.FIRST_SIZE_BYTES = 128 << 20
    choices.CLOSED_AFTER_MS = housekeeping.CLOSED_AFTER_MS = -60_000
    housekeeping.VACUUM_EVERY_MS = 0
    # What no commit names may be of a step that runs.
    housekeeping.vacuum = functools.partial(_vacuum_at_once)  # type: ignore[assignment]


def _vacuum_at_once(table: object, *, retention_ms: int, unnamed_age_ms: int) -> object:
    return vacuum(table, retention_ms=0, unnamed_age_ms=UNNAMED_AGE_MS)  # type: ignore[arg-type]


def main(lake_path: str, engine_url: str, place: str, step_rows: str) -> None:
    end_with_parent()
    log_lines.configure({})
    stop = threading.Event()
    shorten_waits(int(step_rows))
    lake, clock = Lake(lake_path), SystemClock()
    with lake.lock():
        reports = JobReports(Path(lake_path), clock)
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        resources = JobResources(
            LocalTasks(), lake, lambda: LogClient(engine_url), clock, reports, archive=ArchiveSettings(place)
        )
        threads = [
            JobThread(
                name,
                lambda context, run=jobs.JOBS[name].run: run(context, "", False),  # type: ignore[misc]
                resources,
                unit=jobs.JOBS[name].unit,
                retry_first_s=RETRY_S,
            )
            for name in JOBS
        ]
        for one in threads:
            one.start()
        print(READY, flush=True)
        while not stop.wait(LOOK_S):
            reports.flush()
        for one in threads:
            one.request_stop("waiting")
        for one in threads:
            one.join(60)
        reports.flush(is_last=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
