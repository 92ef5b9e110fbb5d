"""The jobs of one worker: those that always run, the replays that somebody asked for, and what is asked of either.

A replay has two jobs one after the other: plan-<id> works out what it would do, replay-<id> does it. The second has a
state only once somebody said so; that is what tells a plan that waits for its answer from a replay to go on with.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from queue_engine.pipeline.job import requests as job_requests
from queue_engine.pipeline.job.context import JobContext, JobResources
from queue_engine.pipeline.job.requests import JobRequest, take_requests
from queue_engine.pipeline.job.state import (
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
from queue_engine.pipeline.job.thread import JobThread
from queue_engine.pipeline.jobs import Job
from queue_engine.vocabulary.errors import PipelineError

logger = logging.getLogger(__name__)

# One that waits for its turn costs nothing; two at work leave room for archive and rollup.
REPLAYS_AT_WORK_MAX = 2
CANCEL_IN_SPARK_AFTER_S = 2.0


class WorkerJobs:
    """All jobs of a worker. One thread calls everything here, a few times a second `tick`."""

    def __init__(self, resources: JobResources, jobs: Mapping[str, Job], *, plan: Callable[[JobContext, str], None]):
        """jobs: by name; the one called "replay" is for every replay-<id>. plan: the dry run of a replay by its id."""
        self._resources = resources
        self._lake_path = Path(resources.lake.path)
        self._jobs = jobs
        self._plan = plan
        self.reports = resources.reports
        self._threads: dict[str, JobThread] = {}
        self._turns: list[str] = []  # replays that wait for their turn, in order
        self._again: set[str] = set()  # to be started once they have ended, as they were asked to

    def start(self) -> None:
        """Begin what was not stopped, and go on with the replays that were under way."""
        states = read_states(self._lake_path)
        for sentence in states.broken:
            logger.warning("job state passed over: %s", sentence)
        for state in states.by_name.values():
            self.reports.report(state)
            is_replay = state.job.startswith((REPLAY_PREFIX, PLAN_PREFIX))
            if is_replay and state.state in (WAITING, RUNNING, FAILED):
                self._wait_for_turn(state.job)
        for name, job in self._jobs.items():
            known = states.by_name.get(name)
            if job.is_service and (known is None or known.state != STOPPED):
                self._start(name)

    def tick(self) -> None:
        """Do what is asked, give replays their turn, cancel what does not end by itself, write what is due."""
        for request in take_requests(self._lake_path):
            self._obey(request)
        for name in [name for name in self._again if not self._is_running(name)]:
            self._again.discard(name)
            self._begin(name)
        at_work = sum(1 for name, thread in self._threads.items() if thread.is_running and self._takes_turns(name))
        while self._turns and at_work < REPLAYS_AT_WORK_MAX:
            self._start(self._turns.pop(0))
            at_work += 1
        for thread in self._threads.values():
            if thread.stopping_for_s() > CANCEL_IN_SPARK_AFTER_S:
                thread.cancel_in_spark()
            thread.look_after()
        self.reports.flush()

    def stop(self) -> None:
        """Ask every job to end, so that the next worker goes on with it."""
        for thread in self._threads.values():
            thread.ask_to_stop(WAITING)

    def wait(self, timeout_s: float) -> bool:
        """Wait for all of them after `stop`; whether all ended. States are then written."""
        deadline_ns = self._resources.clock.monotonic_ns() + int(timeout_s * 1e9)
        ended = [
            thread.join((deadline_ns - self._resources.clock.monotonic_ns()) / 1e9) for thread in self._threads.values()
        ]
        self.reports.flush(is_last=True)
        return all(ended)

    # Requests.

    def _obey(self, request: JobRequest) -> None:
        if not request.kind:
            logger.warning("request passed over: %s", request.complaint)
            return
        try:
            self._do(request)
        except (PipelineError, OSError) as exc:
            logger.warning("request not done kind=%s error=%s", request.kind, exc)

    def _do(self, request: JobRequest) -> None:
        name = _name_asked_for(request)
        logger.info("request kind=%s job=%s", request.kind, name)
        match request.kind:
            case job_requests.STOP_JOB:
                self._end(name, STOPPED)
            case job_requests.CANCEL_JOB | job_requests.CANCEL_REPLAY:
                self._end(name, CANCELLED)
            case job_requests.START_JOB:
                self._begin(name)
            case job_requests.PLAN_REPLAY:
                replay_id = name.removeprefix(REPLAY_PREFIX)
                self._mark(PLAN_PREFIX + replay_id, WAITING)
                self._wait_for_turn(PLAN_PREFIX + replay_id)
            case job_requests.RUN_REPLAY:
                known = self.reports.newest(name)
                if known is not None and known.state in (DONE, CANCELLED):
                    raise PipelineError(f"{name} is {known.state}")
                self._mark(name, WAITING)
                self._wait_for_turn(name)

    def _begin(self, name: str) -> None:
        if self._is_running(name):
            if self._threads[name].stopping_for_s():
                self._again.add(name)
            return
        if self._takes_turns(name):
            known = self.reports.newest(name)
            if known is None or known.state in (DONE, CANCELLED):
                raise PipelineError(f"{name} is {known.state if known else 'not known'}: there is nothing to start")
            self._mark(name, WAITING)
            self._wait_for_turn(name)
        elif name in self._jobs:
            self._start(name)
        else:
            raise PipelineError(f"there is no job {name!r}")

    def _end(self, name: str, word: str) -> None:
        if not self._takes_turns(name) and name not in self._jobs:
            raise PipelineError(f"there is no job {name!r}")
        if word == CANCELLED and not self._takes_turns(name):
            # A service has no end that could come early.
            word = STOPPED
        self._again.discard(name)
        if name in self._turns:
            self._turns.remove(name)
        if self._is_running(name):
            self._threads[name].ask_to_stop(word)
            # Its file says so before the request is gone: a worker killed now does not start it again.
            self._mark(name, word)
        else:
            known = self.reports.newest(name)
            if known is None or known.state not in (DONE, CANCELLED):
                self._mark(name, word)

    # Threads.

    def _takes_turns(self, name: str) -> bool:
        return name.startswith((REPLAY_PREFIX, PLAN_PREFIX))

    def _is_running(self, name: str) -> bool:
        return name in self._threads and self._threads[name].is_running

    def _wait_for_turn(self, name: str) -> None:
        if name not in self._turns and not self._is_running(name):
            self._turns.append(name)

    def _start(self, name: str) -> None:
        if name.startswith(PLAN_PREFIX):
            replay_id, unit = name.removeprefix(PLAN_PREFIX), "files"
            is_retried, first_word = False, RUNNING
            run: Callable[[JobContext], None] = lambda context: self._plan(context, replay_id)  # noqa: E731
        else:
            is_replay = name.startswith(REPLAY_PREFIX)
            job = self._jobs["replay" if is_replay else name]
            argument, unit = name.removeprefix(REPLAY_PREFIX) if is_replay else "", job.unit
            is_retried, first_word = job.is_service, job.first_word
            run = lambda context: job.run(context, argument, False)  # noqa: E731
        thread = self._threads[name] = JobThread(
            name,
            run,
            self._resources,
            unit=unit,
            first_word=first_word,
            is_retried=is_retried,
        )
        thread.start()

    def _mark(self, name: str, word: str) -> None:
        known = self.reports.newest(name) or JobState(name, word)
        now_ms = self.reports.now_ms()
        error = known.error if word == FAILED else ""
        self.reports.report(replace(known, state=word, updated_ms=now_ms, error=error, next_try_ms=0))


def _name_asked_for(request: JobRequest) -> str:
    """The job that a request is about. Raises PipelineError when it names none."""
    is_replay = request.kind in (job_requests.PLAN_REPLAY, job_requests.RUN_REPLAY, job_requests.CANCEL_REPLAY)
    told = request.details.get("id" if is_replay else "job")
    name = f"{REPLAY_PREFIX}{told}" if is_replay else told
    if not isinstance(told, str) or not isinstance(name, str) or not told or not is_job_name(name):
        raise PipelineError(f"{request.kind} names no job: {str(told)[:80]!r}")
    return name
