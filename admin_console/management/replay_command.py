"""`penstock pipeline replay`: plan, run, watch, list and stop replays; the Pipeline page sees the same ones.

A command leaves a request for the worker, as the page does, and reads the files that the worker writes. Ctrl-C ends
the command alone: the worker goes on.
"""

import os
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

from django.core.management.base import CommandError

from admin_console.gateway.gateway import DONE
from admin_console.gateway.pipeline import JobState, Pipeline, ReplayRequest, ReplayView
from admin_console.gateway.replay_sources import left_out_sentence, replay_sources, request_words, source_words
from admin_console.gateway.sentences import and_list, counted
from admin_console.management.audited_command import audited
from admin_console.management.command import DamageFound
from admin_console.paths import account_name
from admin_console.vocabulary import units
from admin_console.vocabulary.times import time_of
from queue_engine.vocabulary.errors import PenstockError, PipelineError

LOOK_S = 1.0
# Of a run that goes on; a new state is printed at once.
PRINT_EVERY_S = 5.0
_ENDED = ("done", "cancelled", "stopped")
_HEADINGS = ("REPLAY", "STATE", "MESSAGES", "OF", "FROM", "TO", "ERROR")


def command_line() -> ArgumentParser:
    """The commands of `penstock pipeline replay`."""
    parser = ArgumentParser("penstock pipeline replay", description="Publish archived messages again.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    plan = verbs.add_parser(
        "plan", help="count the messages that a replay would publish; publishes nothing, prints the replay's ID"
    )
    plan.add_argument("topic", metavar="TOPIC", help="the archived topic")
    plan.add_argument("--to", required=True, dest="target", metavar="TOPIC", help="the topic to publish to")
    plan.add_argument(
        "--server", default="", metavar="ID", help="that archived it, or how its ID begins (default: this one)"
    )
    plan.add_argument(
        "--incarnation", type=int, metavar="NUMBER", help="of topics that had the name (default: the newest)"
    )
    plan.add_argument(
        "--from", dest="start", default="", metavar="TIME", help="of publishing, such as 2026-11-20T10:00 (UTC)"
    )
    plan.add_argument("--until", dest="end", default="", metavar="TIME", help="not itself included")
    plan.add_argument("--key", default="", help="messages of this key alone")
    plan.add_argument("--expression", default="", help="such as: body.amount >= 100 and not replayed")
    plan.add_argument("--rate", type=int, metavar="N", help="messages a second (default: no limit)")
    run = verbs.add_parser("run", help="publish the planned messages; status 1 when that fails or is cancelled")
    run.add_argument("id", metavar="ID", help="of the plan")
    for verb in (plan, run):
        verb.add_argument("--no-wait", action="store_true", help="end once the worker has the request")
    watch = verbs.add_parser("watch", help="print a replay's progress until it ends, with the status of run")
    watch.add_argument("id", metavar="ID")
    stop = verbs.add_parser("stop", help="discard a plan, or cancel a run; published messages stay published")
    stop.add_argument("id", metavar="ID")
    verbs.add_parser("list", help="list the newest replays")
    return parser


class ReplayCommand:
    """One call of the command, on one lake."""

    def __init__(
        self, lake_path: Path, output: TextIO | Any, errors: TextIO | Any, *, wait: Callable[[float], None] = time.sleep
    ) -> None:
        """output, errors: as Django's commands have them: `write` ends a line. wait: for the next look."""
        self._pipeline = Pipeline(lake_path)
        self._output = output
        self._errors = errors
        self._wait = wait

    def run(self, arguments: Sequence[str]) -> None:
        """Raises CommandError, and DamageFound for a replay that failed or was cancelled."""
        given = command_line().parse_args(arguments)
        try:
            getattr(self, f"_{given.verb}")(given)
        except PenstockError as exc:
            raise CommandError(f"{exc}. Nothing was done.") from exc

    def _plan(self, given: Namespace) -> None:
        request = self._request_of(given)
        details = {name: getattr(request, name) for name in ReplayRequest.__slots__ if name != "replay_id"}
        self._request("plan_replay", request.replay_id, request, **details)
        if given.no_wait:
            self._output.write(request.replay_id)
            return
        replay = self._followed(request.replay_id, lambda one, _: not _is_being_planned(one))
        if replay.planned is None:
            raise DamageFound(f"The replay {replay.replay_id} can't be planned. {_error_of(replay)}".strip())
        for line in _plan_lines(replay):
            self._output.write(line)

    def _run(self, given: Namespace) -> None:
        replay = self._replay(given.id)
        if replay.why_not_run:
            raise CommandError(replay.why_not_run)
        self._request("run_replay", given.id, replay.request)
        if not given.no_wait:
            # Until the worker has taken the request, it is still a plan.
            self._report(self._followed(given.id, lambda one, _: one.run_job is not None and _has_ended(one)))

    def _watch(self, given: Namespace) -> None:
        if self._pipeline.has_request_about(given.id):
            self._errors.write(f"A request about {given.id} waits until a worker runs.")
        # That request may be the one to run it.
        self._report(
            self._followed(given.id, lambda one, waits: _has_ended(one) and (one.run_job is not None or not waits))
        )

    def _report(self, replay: ReplayView) -> None:
        """Print a plan that waits to be run. Raises DamageFound for a replay that came to another end than done."""
        if replay.word == "planned":
            for line in _plan_lines(replay):
                self._output.write(line)
        elif replay.word != "done":
            raise DamageFound(f"The replay {replay.replay_id} is {replay.word}. {_error_of(replay)}".strip())

    def _stop(self, given: Namespace) -> None:
        replay = self._replay(given.id)
        if replay.why_not_cancel:
            raise CommandError(replay.why_not_cancel)
        self._request("cancel_replay", given.id, replay.request)

    def _list(self, _: Namespace) -> None:
        replays = self._pipeline.view().replays
        if not replays:
            self._output.write("There are no replays.")
            return
        for line in table_lines([_HEADINGS, *(_row(one) for one in replays)]):
            self._output.write(line)

    # Parts of these.

    def _request_of(self, given: Namespace) -> ReplayRequest:
        """The request, checked. Raises PipelineError, CommandError."""
        try:
            bounds = [int(time_of(text).timestamp() * 1000) if text else None for text in (given.start, given.end)]
        except ValueError as exc:
            raise CommandError(str(exc)) from exc
        request = ReplayRequest(
            self._pipeline.new_replay_id(),
            given.topic,
            given.target,
            start_time_ms=bounds[0],
            end_time_ms=bounds[1],
            key=given.key,
            expression=given.expression,
            rate_per_s=given.rate,
            **self._which(given),
        )
        request.check()
        return request

    def _which(self, given: Namespace) -> dict[str, Any]:
        """The fields that name one of the topics of a name. Raises PipelineError for none that is archived."""
        sources = [one for one in replay_sources(self._pipeline.view().topics) if one.topic == given.topic]
        if not sources:
            raise PipelineError(f"nothing is archived of a topic {given.topic[:80]!r}")
        if not given.server and given.incarnation is None:
            return {}
        for source in sources:
            one = source.incarnation
            if one is not None and one.server.startswith(given.server) and given.incarnation in (None, one.number):
                return {"server": one.server, "number": one.number, "id_base": one.id_base}
        there = and_list([f"number {one.number} of server {one.server}" for one in _incarnations(sources)] or ["none"])
        raise PipelineError(f"the archive has no such {given.topic}; it has {there}")

    def _request(self, action: str, replay_id: str, request: ReplayRequest | None, **details: Any) -> None:
        """Leave the request, audited. Raises PipelineError when it can't be written."""
        words = f"{replay_id}: {request_words(request)}" if request is not None else replay_id
        with audited(account_name(os.getuid()), action, words, topic=request.topic if request else "") as sentences:
            result = self._pipeline.request_job(action, replay_id, **details)
            if result.verdict != DONE:
                raise PipelineError(result.message.removesuffix("."))
            sentences.append(result.message)
        self._errors.write(sentences[-1])

    def _replay(self, replay_id: str) -> ReplayView:
        found = self._pipeline.replay(replay_id)
        if found is None:
            raise CommandError(f"There is no replay {replay_id[:80]!r}.")
        return found

    def _followed(self, replay_id: str, is_over: Callable[[ReplayView, bool], bool]) -> ReplayView:
        """Print a line for each state and each few seconds of progress, until is_over: of the replay, and whether a
        request about it waits for the worker."""
        printed, printed_s = "", 0.0
        try:
            while True:
                # Before the replay is read: a request ends once its effect is there.
                waits = self._pipeline.has_request_about(replay_id)
                replay = self._replay(replay_id)
                line, now_s = _progress_line(replay), time.monotonic()
                is_new = line.partition(":")[0] != printed.partition(":")[0]
                over = is_over(replay, waits)
                if line != printed and (is_new or over or now_s - printed_s >= PRINT_EVERY_S):
                    self._errors.write(line)
                    printed, printed_s = line, now_s
                if over:
                    return replay
                self._wait(LOOK_S)
        except KeyboardInterrupt:
            self._errors.write(f"It goes on in the worker: penstock pipeline replay watch {replay_id}")
            raise


def table_lines(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Rows as lines whose columns stand one below the other."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def _has_ended(replay: ReplayView) -> bool:
    """Whether nothing more happens by itself: a job that failed may be tried again."""
    run = replay.run_job
    if run is None:
        return not _is_being_planned(replay)
    return run.state in _ENDED or (run.state == "failed" and not run.next_try_ms)


def _is_being_planned(replay: ReplayView) -> bool:
    return replay.word == "being planned" or replay.is_planned_again


def _progress_line(replay: ReplayView) -> str:
    run = replay.run_job
    line = f"{replay.replay_id} {replay.word}"
    if run is None:
        return line
    parts = [f"{run.done:,} of {counted(run.total, 'message')}"] if run.total else []
    if run.state == "running" and run.rows_per_s:
        parts += [f"{run.rows_per_s:,.0f}/s", f"{units.duration((run.total - run.done) / run.rows_per_s)} left"]
    parts += [run.error] if run.error else []
    return f"{line}: {', '.join(parts)}" if parts else line


def _plan_lines(replay: ReplayView) -> Iterable[str]:
    planned, request = replay.planned, replay.request
    if planned is None:
        return
    yield replay.replay_id
    if request is not None:
        yield f"Would publish {counted(planned.count, 'message')}: {request_words(request)}."
    if source := source_words(planned):
        yield f"They are of the topic {source}."
    if left_out := left_out_sentence(planned):
        yield left_out
    to = f"the channels {and_list(list(planned.channels))}" if planned.channels else "no channel yet"
    yield f"They go to {to}. Run it: penstock pipeline replay run {replay.replay_id}"


def _incarnations(sources: Iterable[Any]) -> Iterable[Any]:
    return [one.incarnation for one in sources if one.incarnation is not None]


def _error_of(replay: ReplayView) -> str:
    job: JobState | None = replay.run_job or replay.plan_job
    return job.error if job is not None else ""


def _row(replay: ReplayView) -> tuple[str, ...]:
    run, planned, request = replay.run_job, replay.planned, replay.request
    return (
        replay.replay_id,
        replay.word,
        f"{run.done:,}" if run is not None else "-",
        f"{planned.count:,}" if planned is not None else "-",
        request.topic if request is not None else "-",
        request.target if request is not None else "-",
        _error_of(replay),
    )
