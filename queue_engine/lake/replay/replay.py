"""Publishes the messages of a replay's plan, each once, however often this process dies meanwhile.

`plan_replay` of `planning.py` has written every batch into the plan. `run_replay` publishes the batches in the order of
their offsets. No batch is published twice: the plan never changes, each batch has a key of its own, and the engine
publishes a key once. No batch is left out: all batches before the progress are durable, and a run begins there. The
messages are flagged as replayed; the archive leaves those out.
"""

import logging
from dataclasses import replace

from queue_engine.lake.job.context import JobContext
from queue_engine.lake.job.state import DONE, REPLAY_PREFIX, RUNNING, WAITING, JobState
from queue_engine.lake.replay.plan import (
    ReplayPlan,
    ReplayProgress,
    read_plan,
    read_progress,
    write_progress,
)
from queue_engine.lake.replay.planning import matching_rows
from queue_engine.lake.replay.rate_limit import RateLimit
from queue_engine.lake.replay.request import check_rate
from queue_engine.lake.replay.step_messages import StepMessages
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S
from queue_engine.vocabulary.errors import PipelineError, TopicMissingError, TopicReplacedError

logger = logging.getLogger(__name__)

# Batches after the last written progress are sent again after a kill, and the engine recognizes their keys.
PROGRESS_INTERVAL_NS = NS_PER_S


def run_replay(context: JobContext, replay_id: str, *, rate_per_s: int | None = None) -> int:
    """Publish the plan's batches from where the last run ended, until all are published or context.stop is set.

    Returns the number of messages published by all runs. rate_per_s: overrides the request's. Raises PipelineError
    without a plan or when files differ from it, TopicReplacedError when the target was deleted or created again
    meanwhile, EngineUnreachableError, OSError.
    """
    check_rate(rate_per_s)
    plan = read_plan(context.lake, replay_id)
    if plan is None:
        raise PipelineError(f"the replay {replay_id} has no plan")
    progress = read_progress(context.lake, replay_id)
    if progress is None:
        progress = _begin(context, plan)
    elif not progress.is_done:
        _check_target(context, plan, progress)
    return _Sending(context, plan, progress, rate_per_s or plan.request.rate_per_s).run()


def _begin(context: JobContext, plan: ReplayPlan) -> ReplayProgress:
    """Write the first progress before anything is sent: it names the one topic that the replay goes to."""
    engine, target = context.engine, plan.request.target
    if plan.target_number is None:
        engine.create_topic(target)
    state = engine.topic(target)
    progress = ReplayProgress(state.number, state.id_base)
    if plan.target_number is not None and plan.target_number != state.number:
        raise _replaced(plan, plan.target_number)
    write_progress(context.lake, plan.request.replay_id, progress, context.clock.time_ns() // NS_PER_MS)
    return progress


def _check_target(context: JobContext, plan: ReplayPlan, progress: ReplayProgress) -> None:
    try:
        state = context.engine.topic(plan.request.target)
    except TopicMissingError as exc:
        raise _replaced(plan, progress.number) from exc
    if (state.number, state.id_base) != (progress.number, progress.id_base):
        raise _replaced(plan, progress.number)


def _replaced(plan: ReplayPlan, number: int) -> TopicReplacedError:
    request = plan.request
    return TopicReplacedError(
        f"the replay {request.replay_id} goes to the topic {request.target} with the number {number}, which was "
        "deleted or created again: plan another one"
    )


class _Sending:
    """One run of a replay."""

    def __init__(self, context: JobContext, plan: ReplayPlan, progress: ReplayProgress, rate_per_s: int | None) -> None:
        self._context = context
        self._plan = plan
        self._progress = progress
        self._written = progress
        self._written_ns = context.clock.monotonic_ns()
        self._started_ns = context.clock.monotonic_ns()
        self._started_sent = progress.sent
        self._steps = plan.steps
        is_done = progress.next_step == len(self._steps)
        tables = context.open_tables()
        rows = [] if is_done else matching_rows(context, tables, plan)
        self._messages = StepMessages(tables, plan.source, plan.steps, rows)
        self._limit = RateLimit(context.clock, rate_per_s)

    def run(self) -> int:
        steps = self._steps
        self._report(RUNNING)
        try:
            while self._progress.next_step < len(steps) and self._may_go_on():
                self._send()
                if self._context.clock.monotonic_ns() - self._written_ns >= PROGRESS_INTERVAL_NS:
                    self._write_progress()
                self._report(RUNNING)
        finally:
            self._messages.close()
            self._write_progress()
        is_done = self._progress.next_step == len(steps)
        if is_done and not self._progress.is_done:
            self._progress = replace(self._progress, is_done=True)
            self._write_progress()
            logger.info("replay done id=%s messages=%d", self._plan.request.replay_id, self._progress.sent)
        self._report(DONE if is_done else WAITING)
        return self._progress.sent

    def _may_go_on(self) -> bool:
        """Wait until the rate allows the next batch. Returns False when the job has to stop."""
        stop = self._context.stop
        while not stop.is_set() and (wait_ns := self._limit.wait_ns()):
            if wait_ns > PROGRESS_INTERVAL_NS:
                self._write_progress()
            stop.wait(wait_ns / NS_PER_S)
        return not stop.is_set()

    def _send(self) -> None:
        plan, progress = self._plan, self._progress
        step = self._steps[progress.next_step]
        bodies, keys = self._messages.messages(progress.next_step)
        found = (len(bodies), sum(map(len, bodies)))
        if found != (step.count, step.body_bytes):
            raise PipelineError(
                f"offsets {step.first_offset} to {step.next_offset} of {plan.request.topic} are {found[0]} messages of "
                f"{found[1]} bytes in the archive, and were {step.count} of {step.body_bytes} when the replay "
                f"{plan.request.replay_id} was planned: plan another one"
            )
        self._limit.spend(step.count)
        written = self._context.engine.write(
            plan.request.target,
            bodies,
            batch_key=plan.key_of(step),
            keys=keys if any(keys) else None,
            is_replayed=True,
            number=progress.number,
        )
        if (written.number, written.id_base) != (progress.number, progress.id_base):
            raise _replaced(plan, progress.number)
        self._progress = replace(
            progress,
            next_step=progress.next_step + 1,
            sent=progress.sent + step.count,
            known=progress.known + (step.count if written.is_repeat else 0),
        )

    def _write_progress(self) -> None:
        if self._progress != self._written:
            now_ms = self._context.clock.time_ns() // NS_PER_MS
            write_progress(self._context.lake, self._plan.request.replay_id, self._progress, now_ms)
            self._written = self._progress
        self._written_ns = self._context.clock.monotonic_ns()

    def _report(self, state: str) -> None:
        plan, progress, clock = self._plan, self._progress, self._context.clock
        elapsed_s = max(clock.monotonic_ns() - self._started_ns, 1) / NS_PER_S
        total = plan.count
        self._context.report(
            JobState(
                f"{REPLAY_PREFIX}{plan.request.replay_id}",
                state,
                started_ms=(clock.time_ns() - (clock.monotonic_ns() - self._started_ns)) // NS_PER_MS,
                updated_ms=clock.time_ns() // NS_PER_MS,
                done=progress.sent,
                total=total,
                unit="messages",
                rows_per_s=round((progress.sent - self._started_sent) / elapsed_s, 1) if state == RUNNING else None,
                lag=total - progress.sent,
            )
        )
