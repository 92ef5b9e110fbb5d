"""The console's access to the data pipeline: states and manifests in files, requests as files, the worker process.

The only module of the console that imports the pipeline, besides commands; none of its imports needs Spark.
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from admin_console.gateway.gateway import DONE, FAILED, ActResult, EngineSnapshot
from queue_engine.lake.archive.listing import ArchiveListing
from queue_engine.lake.archive.summary import ArchivedTopic
from queue_engine.lake.directory.lake_lock import LakeHolder, holder_of
from queue_engine.lake.directory.status_file import BrokenStatusFileError
from queue_engine.lake.housekeeping.limits import ArchiveLimits, read_limits, write_limits
from queue_engine.lake.housekeeping.report import HousekeepingReport, HousekeepingRun, read_report
from queue_engine.lake.job import requests as job_requests
from queue_engine.lake.job import state as job_state
from queue_engine.lake.job.archive_settings import ArchiveSettings
from queue_engine.lake.job.state import (
    CANCELLED,
    PLAN_PREFIX,
    REPLAY_PREFIX,
    STATES,
    JobState,
    read_state,
    read_states,
)
from queue_engine.lake.jobs import JOBS
from queue_engine.lake.replay.listing import ReplayPlanSummary, read_plan_summary, read_request
from queue_engine.lake.replay.request import ReplayRequest
from queue_engine.lake.spark.worker_limits import WorkerLimits
from queue_engine.lake.worker.pending_work import PendingWork
from queue_engine.lake.worker.process import IDLE, RESTING, RUNNING, WorkerProcess, WorkerProcessState
from queue_engine.lake.worker.process import STATES as WORKER_STATES
from queue_engine.lake.worker.scratch import log_bytes, temporary_bytes
from queue_engine.lake.worker.state import WorkerState, read_worker_state
from queue_engine.vocabulary.clock import SystemClock
from queue_engine.vocabulary.errors import ExpressionError, PenstockError, StorePlaceError
from queue_engine.vocabulary.lake_place import check_directory
from queue_engine.vocabulary.names import ARCHIVE_CURSOR

__all__ = [
    "JOB_SENTENCES",
    "STATES",
    "WORKER_STATES",
    "ArchiveLimits",
    "ArchiveSettings",
    "ArchivedTopic",
    "HousekeepingRun",
    "JobState",
    "LakeHolder",
    "Pipeline",
    "PipelineView",
    "ReplayPlanSummary",
    "ReplayRequest",
    "ReplayView",
    "WorkerLimits",
    "WorkerProcessState",
    "WorkerState",
    "get_pipeline",
    "make_pipeline",
    "set_pipeline",
]

logger = logging.getLogger(__name__)

# Updates for several roles and pages are made in the same second: they share one reading of the files.
FRESH_FOR_S = 0.5
REPLAYS_SHOWN_MAX = 50
MEASURE_EVERY_S = 30.0

JOB_SENTENCES = {job.name: job.sentence for job in JOBS.values() if job.is_service}

_WORDS = {
    job_requests.STOP_JOB: "stop",
    job_requests.START_JOB: "start",
    job_requests.CANCEL_JOB: "cancel",
    job_requests.CANCEL_REPLAY: "cancel",
    job_requests.RUN_REPLAY: "run",
    job_requests.PLAN_REPLAY: "plan",
}


@dataclass(frozen=True, slots=True)
class ReplayView:
    """One replay: its request, its plan and its progress. plan_job and run_job: None before them."""

    replay_id: str
    request: ReplayRequest | None
    planned: ReplayPlanSummary | None
    plan_job: JobState | None
    run_job: JobState | None

    @property
    def awaits_run(self) -> bool:
        """Whether the plan is ready and waits for Run or Discard."""
        return self.planned is not None and self.run_job is None

    @property
    def is_over(self) -> bool:
        return self.run_job is not None and self.run_job.state in ("done", CANCELLED)

    @property
    def word(self) -> str:
        """Its state: being planned, planned, not planned, or that of its run."""
        if self.run_job is not None:
            return self.run_job.state
        if self.planned is not None:
            return "planned"
        return "not planned" if self.plan_job is not None and self.plan_job.state == "failed" else "being planned"

    @property
    def is_planned_again(self) -> bool:
        """Whether its plan failed and is tried again by itself."""
        return self.word == "not planned" and self.plan_job is not None and self.plan_job.next_try_ms > 0

    @property
    def why_not_run(self) -> str:
        """Why it can't be run now, in a sentence; "" when it can."""
        if self.run_job is not None:
            return f"The replay {self.replay_id} is {self.run_job.state} already."
        return "" if self.planned is not None else f"The replay {self.replay_id} has no plan yet."

    @property
    def why_not_cancel(self) -> str:
        return f"The replay {self.replay_id} is over already." if self.is_over else ""


@dataclass(frozen=True, slots=True)
class PipelineView:
    """All that pages show of the pipeline, at most half a second old. complaints: a sentence for each broken file.

    process: of the worker that `serve` runs; None where it is switched off, or this is not `serve`. holder: the process
    that holds the lake, that worker or another one. worker_state: the newest state that the holder wrote of itself.
    temporary_bytes, log_bytes: of the worker's own files on the disk, at most half a minute old.
    """

    process: WorkerProcessState | None
    holder: LakeHolder | None
    worker_state: WorkerState | None
    jobs: dict[str, JobState]
    topics: tuple[ArchivedTopic, ...]
    replays: tuple[ReplayView, ...]
    requests_waiting: bool
    complaints: tuple[str, ...]
    temporary_bytes: int = 0
    log_bytes: int = 0
    housekeeping: HousekeepingReport = field(default_factory=HousekeepingReport)

    @property
    def is_switched_on(self) -> bool:
        return self.process is not None

    def replay(self, replay_id: str) -> ReplayView | None:
        return next((one for one in self.replays if one.replay_id == replay_id), None)


class Pipeline:
    """A lake, and the worker that this process runs for it, if it does. Any thread."""

    def __init__(
        self,
        lake_path: Path,
        process: WorkerProcess | None = None,
        *,
        usual_limits: ArchiveLimits | None = None,
        archive_place: str = "",
    ) -> None:
        """usual_limits: of archived topics without limits of their own. archive_place: of their tables (--lake), "" for
        lake_path."""
        self._lake_path = lake_path
        self._archive_place = archive_place
        self._usual_limits = usual_limits or ArchiveLimits()
        self._process = process
        self._archive = ArchiveListing(lake_path)
        self._mutex = threading.Lock()
        self._view: PipelineView | None = None
        self._read_at_s = 0.0
        self._own_bytes = (0, 0)  # of temporary files and of log files
        self._measured_s: float | None = None

    @property
    def is_switched_on(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        """Start looking for work, unless the pipeline is switched off."""
        if self._process is not None:
            self._process.start()

    def stop(self) -> None:
        """End the worker; within five seconds."""
        if self._process is not None:
            self._process.stop()

    def view(self, replay_id: str = "") -> PipelineView:
        """The newest view, at most FRESH_FOR_S old. replay_id: of a replay that it has, too, however old that is."""
        with self._mutex:
            now_s = time.monotonic()
            if self._view is None or now_s - self._read_at_s >= FRESH_FOR_S:
                self._view = self._read()
                self._read_at_s = time.monotonic()
            view = self._view
        if not replay_id or view.replay(replay_id) is not None:
            return view
        try:
            older = self.replay(replay_id)
        except BrokenStatusFileError as exc:
            return replace(view, complaints=(*view.complaints, str(exc)))
        return view if older is None else replace(view, replays=(*view.replays, older))

    def replay(self, replay_id: str) -> ReplayView | None:
        """One replay as its files have it now; the view has the newest alone. Raises BrokenStatusFileError."""
        if not job_requests.has_replay(self._lake_path, replay_id):
            return None
        names = (PLAN_PREFIX + replay_id, REPLAY_PREFIX + replay_id)
        states = {name: read_state(self._lake_path, name) for name in names}
        return self._replay(replay_id, states, [])

    @property
    def has_requests(self) -> bool:
        """Whether a request waits for the worker, at this moment."""
        return job_requests.has_requests(self._lake_path)

    def has_request_about(self, replay_id: str) -> bool:
        """Whether a request about this replay waits for the worker, at this moment."""
        return job_requests.has_request_about(self._lake_path, replay_id)

    def request_job(self, kind: str, name: str, **details: Any) -> ActResult:
        """Write a request for the worker, durably; `name` is that of the job or replay."""
        already = self._already(kind, name)
        key = "id" if kind in (job_requests.PLAN_REPLAY, job_requests.RUN_REPLAY, job_requests.CANCEL_REPLAY) else "job"
        try:
            if kind == job_requests.PLAN_REPLAY:
                job_requests.ask_for_replay(self._lake_path, name, **details)
            else:
                job_requests.put_request(self._lake_path, kind, **{key: name})
        except (PenstockError, OSError) as exc:
            return ActResult(FAILED, f"The request was not stored: {exc}. Nothing was done.", "STORAGE_ERROR")
        with self._mutex:
            self._view = None
        if self._process is not None:
            self._process.wake()
        return ActResult(DONE, f"{already}Requested: {_WORDS[kind]} {name}. {self._when_it_is_done()}")

    def _already(self, kind: str, name: str) -> str:
        """A sentence where the job already has the requested state; the request is written all the same, since a worker
        that has just read an opposite request has not changed the state yet."""
        view = self.view()
        job = view.jobs.get(name)
        if job is None or self.has_requests:
            return ""
        is_running = job.state == job_state.RUNNING and view.holder is not None
        is_so = {job_requests.STOP_JOB: job.state == job_state.STOPPED, job_requests.START_JOB: is_running}
        return f"{name} is {job.state} already. " if is_so.get(kind) else ""

    @property
    def usual_limits(self) -> ArchiveLimits:
        """Of archived topics without limits of their own."""
        return self._usual_limits

    def complaint_about_place(self) -> str:
        """Why no table can lie at the archive's place, as a sentence; "" where one can."""
        place = self._archive_place or str(self._lake_path)
        try:
            if "://" not in place:
                check_directory(place)
        except StorePlaceError as exc:
            return f"{str(exc)[:1].upper()}{str(exc)[1:]}."
        return ""

    def archive_limits(self, topic: str) -> tuple[ArchiveLimits | None, str]:
        """A topic's own limits, None without any; and a sentence when they can't be read, else ""."""
        try:
            return read_limits(self._lake_path).get(topic), ""
        except BrokenStatusFileError as exc:
            return None, f"The limits of topics can't be read, and housekeeping removes nothing: {exc}."

    def set_archive_limits(self, topic: str, limits: ArchiveLimits | None) -> ActResult:
        """Set a topic's limits, durably; None: it has those of all topics again. Housekeeping follows them."""
        try:
            if read_limits(self._lake_path).get(topic) == limits:
                text = f"The limits of the archive of {topic} are so already; nothing was changed."
                return ActResult(DONE, text, already=True)
            write_limits(self._lake_path, topic, limits)
        except (PenstockError, OSError) as exc:
            return ActResult(FAILED, f"Nothing was changed: {exc}.", "STORAGE_ERROR")
        if self._process is not None:
            self._process.wake()
        return ActResult(
            DONE, f"Set the limits of the archive of {topic}; messages beyond them are removed within minutes."
        )

    def new_replay_id(self) -> str:
        """A new replay's name: the time, and random digits."""
        return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"

    def _when_it_is_done(self) -> str:
        word = self._process.state.word if self._process is not None else ""
        if word == RUNNING:
            return "The worker does it within seconds."
        if word in (IDLE, RESTING):
            return "The worker is starting, and does it then."
        return "A worker does it within seconds, once one runs."

    def failing(self) -> tuple[str, ...]:
        """A sentence for each job that fails at each try. Reads no file."""
        return () if self._process is None else self._process.failing.sentences

    def _read(self) -> PipelineView:
        states = read_states(self._lake_path)
        topics, broken = self._archive.read()
        complaints = [*states.broken, *broken]
        worker_state: WorkerState | None = None
        holder: LakeHolder | None = None
        housekeeping = HousekeepingReport()
        try:
            housekeeping = read_report(self._lake_path)
        except BrokenStatusFileError as exc:
            complaints.append(str(exc))
        try:
            worker_state = read_worker_state(self._lake_path)
        except BrokenStatusFileError as exc:
            complaints.append(str(exc))
        try:
            holder = holder_of(str(self._lake_path))
        except OSError as exc:
            complaints.append(f"the lake's lock can't be looked at: {exc.strerror}")
        jobs = dict(states.by_name)
        self._measure()
        is_of_holder = holder is not None and worker_state is not None and worker_state.pid == holder.pid
        return PipelineView(
            process=self._process.state if self._process is not None else None,
            holder=holder,
            worker_state=worker_state if is_of_holder else None,
            jobs=jobs,
            topics=tuple(topics),
            replays=self._replays(jobs, complaints),
            requests_waiting=self.has_requests,
            complaints=tuple(complaints),
            temporary_bytes=self._own_bytes[0],
            log_bytes=self._own_bytes[1],
            housekeeping=housekeeping,
        )

    def _measure(self) -> None:
        now_s = time.monotonic()
        if self._measured_s is None or now_s - self._measured_s >= MEASURE_EVERY_S:
            self._measured_s = now_s
            self._own_bytes = (temporary_bytes(self._lake_path), log_bytes(self._lake_path))

    def _replays(self, jobs: Mapping[str, JobState], complaints: list[str]) -> tuple[ReplayView, ...]:
        # Their names begin with their times: the newest first.
        ids = job_requests.replay_ids(self._lake_path, REPLAYS_SHOWN_MAX)
        return tuple(self._replay(one, jobs, complaints) for one in ids)

    def _replay(self, replay_id: str, jobs: Mapping[str, JobState | None], complaints: list[str]) -> ReplayView:
        request: ReplayRequest | None = None
        planned: ReplayPlanSummary | None = None
        try:
            request = read_request(self._lake_path, replay_id)
            planned = read_plan_summary(self._lake_path, replay_id)
        except (PenstockError, OSError) as exc:
            complaints.append(f"the replay {replay_id}: {exc}")
        return ReplayView(
            replay_id, request, planned, jobs.get(PLAN_PREFIX + replay_id), jobs.get(REPLAY_PREFIX + replay_id)
        )


def complaint_about(expression: str) -> str:
    """A complaint about a boolean expression, a sentence; "" for a valid one."""
    # Here, since it needs sqlglot, which takes as long to import as a twentieth of a start.
    from queue_engine.lake.expression.expressions import parse_expression

    try:
        parse_expression(expression)
    except ExpressionError as exc:
        return str(exc)
    return ""


def make_pipeline(
    data_path: Path,
    *,
    engine_url: str,
    token: str,
    limits: WorkerLimits,
    archive: ArchiveSettings,
    snapshot: Callable[[], EngineSnapshot | None],
    has_samples: bool,
    is_switched_on: bool,
) -> Pipeline:
    """The pipeline of a server. Nothing is started before its `start`."""
    lake_path = data_path / "pipeline"
    usual = ArchiveLimits(archive.keep_ms, archive.keep_bytes)
    if not is_switched_on:
        return Pipeline(lake_path, usual_limits=usual, archive_place=archive.place)

    def archive_depth() -> int:
        figures = snapshot()
        cursors = [cursor for topic in figures.topics for cursor in topic.cursors] if figures else []
        return sum(cursor.depth for cursor in cursors if cursor.cursor == ARCHIVE_CURSOR)

    work = PendingWork(lake_path, SystemClock(), archive_depth=archive_depth, has_samples=lambda: has_samples)
    process = WorkerProcess(data_path, engine_url, token=token, find_work=work.find, limits=limits, archive=archive)
    return Pipeline(lake_path, process, usual_limits=usual, archive_place=archive.place)


_current: Pipeline | None = None


def set_pipeline(pipeline: Pipeline | None) -> None:
    """Called by `serve` before the console listens, and with None when it has ended."""
    global _current
    _current = pipeline


def get_pipeline(data_path: Path) -> Pipeline:
    """The pipeline of this process; where `serve` has set none, one without a worker."""
    return _current or Pipeline(data_path / "pipeline")
