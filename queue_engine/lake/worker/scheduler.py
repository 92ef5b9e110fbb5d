"""Starts, stops and cancels the jobs of one worker: the services, which always run, and the replays.

A replay has two jobs, one after the other: plan-<id> computes the plan, replay-<id> publishes it.
replay-<id> gets a state only when an operator has requested the run. So after a restart the scheduler goes on with
replays that have a state, and leaves plans that wait for an operator's decision.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from queue_engine.lake.job import requests as job_requests
from queue_engine.lake.job.context import JobContext, JobResources
from queue_engine.lake.job.requests import JobRequest, take_requests
from queue_engine.lake.job.state import (
    CANCELLED,
    DONE,
    FAILED,
    PLAN_PREFIX,
    REPLAY_PREFIX,
    RUNNING,
    STOPPED,
    WAITING,
    JobState,
    is_job_name,
    read_states,
)
from queue_engine.lake.job.thread import JobThread
from queue_engine.lake.jobs import Job
from queue_engine.lake.worker.old_replays import remove_old_replays
from queue_engine.vocabulary.clock import NS_PER_S
from queue_engine.vocabulary.errors import PipelineError

logger = logging.getLogger(__name__)

# A queued replay costs nothing; two that run leave room for archive and rollup.
REPLAYS_RUNNING_MAX = 2
CANCEL_IN_SPARK_AFTER_S = 2.0
REMOVE_EVERY_NS = 3600 * NS_PER_S


class JobScheduler:
    """Runs all jobs of a worker. One thread calls its methods, and `tick` a few times a second."""

    def __init__(self, resources: JobResources, jobs: Mapping[str, Job], *, plan: Callable[[JobContext, str], None]):
        """jobs: by name; the job "replay" runs every replay-<id>. plan: does the dry run of a replay, given its id."""
        self._resources = resources
        self._lake_path = Path(resources.lake.path)
        self._jobs = jobs
        self._plan = plan
        self.reports = resources.reports
        self._threads: dict[str, JobThread] = {}
        self._queue: list[str] = []  # plans and replays that wait to be started, in order
        self._removed_ns = 0
        self._to_restart: set[str] = set()  # jobs that are stopping, and are started again once they have ended

    def start(self) -> None:
        """Start every service that was not stopped, and queue the replays that had not ended."""
        self._remove_old_replays()
        states = read_states(self._lake_path)
        for sentence in states.broken:
            logger.warning("job state skipped: %s", sentence)
        for state in states.by_name.values():
            self.reports.report(state)
            is_replay = state.job.startswith((REPLAY_PREFIX, PLAN_PREFIX))
            if is_replay and state.state in (WAITING, RUNNING, FAILED):
                self._enqueue(state.job)
        for name, job in self._jobs.items():
            last_state = states.by_name.get(name)
            if job.is_service and (last_state is None or last_state.state != STOPPED):
                self._start(name)

    def tick(self) -> None:
        """Handle requests, start queued replays, cancel the Spark jobs of jobs that do not stop, write states, remove
        old replays."""
        if self._resources.clock.monotonic_ns() - self._removed_ns >= REMOVE_EVERY_NS:
            self._remove_old_replays()
        for request in take_requests(self._lake_path):
            self._handle(request)
        for name in [name for name in self._to_restart if not self._is_running(name)]:
            self._to_restart.discard(name)
            self._restart(name)
        running_count = sum(1 for name, thread in self._threads.items() if thread.is_running and self._is_replay(name))
        while self._queue and running_count < REPLAYS_RUNNING_MAX:
            self._start(self._queue.pop(0))
            running_count += 1
        for thread in self._threads.values():
            if thread.stopping_for_s() > CANCEL_IN_SPARK_AFTER_S:
                thread.cancel_in_spark()
            thread.clear_recovered_error()
        self.reports.flush()

    def stop(self) -> None:
        """Request that every job stops, in the state in which the next worker goes on with it."""
        for thread in self._threads.values():
            thread.request_stop(WAITING)

    def wait(self, timeout_s: float) -> bool:
        """Wait until the jobs have ended after `stop`, and write their states. Returns whether all ended in time."""
        deadline_ns = self._resources.clock.monotonic_ns() + int(timeout_s * 1e9)
        ended = [
            thread.join((deadline_ns - self._resources.clock.monotonic_ns()) / 1e9) for thread in self._threads.values()
        ]
        self.reports.flush(is_last=True)
        return all(ended)

    def _remove_old_replays(self) -> None:
        self._removed_ns = self._resources.clock.monotonic_ns()
        try:
            names = remove_old_replays(self._resources.lake, self.reports.now_ms())
        except OSError as exc:
            logger.warning("old replays not removed error=%s", exc)
            return
        for name in names:
            self.reports.forget(name)
            self._threads.pop(name, None)

    # Requests.

    def _handle(self, request: JobRequest) -> None:
        if not request.kind:
            logger.warning("request skipped: %s", request.complaint)
            return
        try:
            self._execute(request)
        except (PipelineError, OSError) as exc:
            logger.warning("request not done kind=%s error=%s", request.kind, exc)

    def _execute(self, request: JobRequest) -> None:
        name = _job_named_by(request)
        logger.info("request kind=%s job=%s", request.kind, name)
        match request.kind:
            case job_requests.STOP_JOB:
                self._end(name, STOPPED)
            case job_requests.CANCEL_JOB:
                self._end(name, CANCELLED)
            case job_requests.CANCEL_REPLAY:
                plan = PLAN_PREFIX + name.removeprefix(REPLAY_PREFIX)
                if self.reports.newest(plan) is not None:
                    self._end(plan, CANCELLED)
                self._end(name, CANCELLED)
            case job_requests.START_JOB:
                self._begin(name)
            case job_requests.PLAN_REPLAY:
                self._plan_anew(PLAN_PREFIX + name.removeprefix(REPLAY_PREFIX))
            case job_requests.RUN_REPLAY:
                newest = self.reports.newest(name)
                if newest is not None and newest.state in (DONE, CANCELLED):
                    raise PipelineError(f"{name} is {newest.state}")
                self._mark(name, WAITING)
                self._enqueue(name)

    def _plan_anew(self, name: str) -> None:
        """Queue a plan; one that is being computed for an earlier request of the replay stops first."""
        if self._is_running(name):
            self._threads[name].request_stop(WAITING)
            self._to_restart.add(name)
        self._mark(name, WAITING)
        self._enqueue(name)

    def _restart(self, name: str) -> None:
        """Start a job that was to start while it stopped, unless it was cancelled or has come to its end meanwhile."""
        if name.startswith(PLAN_PREFIX):
            self._plan_anew(name)
            return
        try:
            self._begin(name)
        except PipelineError as exc:
            logger.warning("job not started again error=%s", exc)

    def _begin(self, name: str) -> None:
        if self._is_running(name):
            if self._threads[name].stopping_for_s():
                self._to_restart.add(name)
            return
        if self._is_replay(name):
            newest = self.reports.newest(name)
            if newest is None or newest.state in (DONE, CANCELLED):
                raise PipelineError(f"{name} is {newest.state if newest else 'not there'}: there is nothing to start")
            self._mark(name, WAITING)
            self._enqueue(name)
        elif name in self._jobs:
            self._start(name)
        else:
            raise PipelineError(f"there is no job {name!r}")

    def _end(self, name: str, state: str) -> None:
        if not self._is_replay(name) and name not in self._jobs:
            raise PipelineError(f"there is no job {name!r}")
        if state == CANCELLED and not self._is_replay(name):
            # A service never ends by itself, so there is nothing to cancel.
            state = STOPPED
        self._to_restart.discard(name)
        if name in self._queue:
            self._queue.remove(name)
        if self._is_running(name):
            self._threads[name].request_stop(state)
            # The state is written before the request is removed: a worker killed in between does not start the job.
            self._mark(name, state)
        else:
            newest = self.reports.newest(name)
            if newest is None or newest.state not in (DONE, CANCELLED):
                self._mark(name, state)

    # Threads.

    def _is_replay(self, name: str) -> bool:
        return name.startswith((REPLAY_PREFIX, PLAN_PREFIX))

    def _is_running(self, name: str) -> bool:
        return name in self._threads and self._threads[name].is_running

    def _enqueue(self, name: str) -> None:
        if name not in self._queue and not self._is_running(name):
            self._queue.append(name)

    def _start(self, name: str) -> None:
        if name.startswith(PLAN_PREFIX):
            replay_id, unit = name.removeprefix(PLAN_PREFIX), "files"
            is_retried, first_state = False, RUNNING
            run: Callable[[JobContext], None] = lambda context: self._plan(context, replay_id)  # noqa: E731
        else:
            is_replay = name.startswith(REPLAY_PREFIX)
            job = self._jobs["replay" if is_replay else name]
            argument, unit = name.removeprefix(REPLAY_PREFIX) if is_replay else "", job.unit
            is_retried, first_state = job.is_service, job.first_state
            run = lambda context: job.run(context, argument, False)  # noqa: E731
        thread = self._threads[name] = JobThread(
            name,
            run,
            self._resources,
            unit=unit,
            first_state=first_state,
            is_retried=is_retried,
        )
        thread.start()

    def _mark(self, name: str, state: str) -> None:
        newest = self.reports.newest(name) or JobState(name, state)
        now_ms = self.reports.now_ms()
        error = newest.error if state == FAILED else ""
        self.reports.report(replace(newest, state=state, updated_ms=now_ms, error=error, next_try_ms=0))


def _job_named_by(request: JobRequest) -> str:
    """The job that a request names. Raises PipelineError when it names none."""
    is_replay = request.kind in (job_requests.PLAN_REPLAY, job_requests.RUN_REPLAY, job_requests.CANCEL_REPLAY)
    given = request.details.get("id" if is_replay else "job")
    name = f"{REPLAY_PREFIX}{given}" if is_replay else given
    if not isinstance(given, str) or not isinstance(name, str) or not given or not is_job_name(name):
        raise PipelineError(f"{request.kind} names no job: {str(given)[:80]!r}")
    return name
