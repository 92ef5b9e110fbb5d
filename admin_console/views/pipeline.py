"""Acts on the pipeline: start and stop a job; plan, run, cancel a replay. Each leaves a request for the worker."""

import re
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from admin_console.gateway.gateway import ActResult, is_valid_name
from admin_console.gateway.pipeline import (
    JOB_SENTENCES,
    PipelineView,
    ReplayRequest,
    ReplayView,
    complaint_about,
    get_pipeline,
)
from admin_console.gateway.replay_sources import ReplaySource, left_out_sentence, replay_sources, request_words
from admin_console.gateway.sentences import and_list, counted
from admin_console.views.act_page import ActPage
from admin_console.views.audited_act import ComplaintError, NotThereError
from admin_console.views.question import Choice, Field, Question
from admin_console.vocabulary.times import time_of

_REPLAY_PREFIX = "replay-"
EXPRESSION_LENGTH_MAX = 2_000
KEY_LENGTH_MAX = 255
RATE_MAX = 1_000_000
CHANNELS_NAMED_MAX = 10


class _PipelineAct(ActPage):
    """An act that the worker does: a request file has the act's name. `name` is that of the job or replay."""

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().setup(request, *args, **kwargs)
        self.pipeline = get_pipeline(settings.DATA_PATH)
        self.job: str = kwargs.get("job", "")
        self.replay_id: str = kwargs.get("replay", "")

    @property
    def name(self) -> str:
        return self.job or self.replay_id

    @property
    def part(self) -> str:
        return f"job {self.job}" if self.job else f"replay {self.replay_id}"

    @property
    def page_url(self) -> str:
        if self.requested_replay and self.view.replay(self.requested_replay) is not None:
            return reverse("replay", args=(self.requested_replay,))
        return reverse("pipeline")

    @property
    def requested_replay(self) -> str:
        """The id of the replay that it is about, "" for none."""
        is_of_replay = self.job.startswith(_REPLAY_PREFIX)
        return self.replay_id or (self.job.removeprefix(_REPLAY_PREFIX) if is_of_replay else "")

    @property
    def view(self) -> PipelineView:
        return self.pipeline.view(self.requested_replay)

    def audit_topic(self) -> str:
        found = self.view.replay(self.replay_id) if self.replay_id else None
        return found.request.topic if found is not None and found.request is not None else ""

    def audit_detail(self, details: dict[str, Any]) -> str:
        return self.name

    def do(self, details: dict[str, Any]) -> ActResult:
        return self.done_beside(lambda: self.pipeline.request_job(self.action, self.name, **details))

    def when(self) -> str:
        """A sentence: when the worker does it."""
        view = self.view
        if view.holder is not None:
            return "The worker does this within a second or two."
        if view.is_switched_on:
            return "No worker runs now; one is started for it, which takes some seconds."
        return "The pipeline is switched off: this is done once a worker runs again."

    def replay(self) -> ReplayView:
        """The replay as it is now. Raises NotThereError."""
        found = self.view.replay(self.requested_replay)
        if found is None:
            raise NotThereError(f"There is no replay {self.requested_replay}.")
        return found


class _JobAct(_PipelineAct):
    def check(self) -> None:
        """Raises NotThereError unless there is such a job."""
        if self.job.startswith(_REPLAY_PREFIX):
            self.replay()
        elif self.job not in JOB_SENTENCES:
            raise NotThereError(f"There is no job {self.job}.")

    def details(self) -> dict[str, Any]:
        self.check()
        return {}

    def job_question(self, verb: str, consequences: list[str]) -> Question:
        self.check()
        return self.pose(f"{verb} {self.job}", [*consequences, self.when()])


_STOPPED = {
    "archive": "Nothing is archived until it is started again; the log keeps the messages, up to its limit.",
    "rollup": "The graphs' history gets no new minutes until it is started again; samples stay for seven days.",
    "housekeeping": "Small files of the archive are not merged, and nothing is removed until it is started again.",
    "compact": "Closed days of the history are not recomputed until it is started again.",
}


class StopJob(_JobAct):
    routes = {"stop_job": "pipeline/jobs/<slug:job>/~stop/"}

    def question(self) -> Question:
        sentence = _STOPPED.get(self.job, "It continues where it stopped when it is started again.")
        return self.job_question("Stop", [sentence, "It stays stopped through restarts, until a user starts it."])


class StartJob(_JobAct):
    routes = {"start_job": "pipeline/jobs/<slug:job>/~start/"}

    def question(self) -> Question:
        job_sentence = JOB_SENTENCES.get(self.job)
        return self.job_question("Start", [f"It {job_sentence}." if job_sentence else "It continues where it stopped."])


class PlanReplay(_PipelineAct):
    """The form of a new replay. It starts a dry run, which publishes nothing."""

    routes = {"plan_replay": "pipeline/~replay/"}

    @property
    def name(self) -> str:
        return self.replay_id or "a replay"

    def question(self) -> Question:
        sources = replay_sources(self.view.topics)
        chosen = self._given("topic") or self.request.GET.get("topic", "")
        if not sources:
            return Question(
                title="Plan a replay",
                button="",
                post_url=self.url,
                cancel_url=self.page_url,
                consequences=[
                    "No topic is archived yet: there is nothing that could be published again.",
                    "Open a topic of the log and press Archive…: messages archived from then on can be replayed.",
                ],
            )
        return self.pose(
            "Plan a replay",
            [
                "This is a dry run: it counts the messages and channels before anything is published.",
                self.when(),
            ],
            [
                Field(
                    "topic",
                    "Archived topic",
                    kind="select",
                    choices=tuple(Choice(one.value, one.label, one.value == chosen) for one in sources),
                    help="Each as it is on this server now; below them earlier incarnations, and other servers’."
                    if any(one.which for one in sources)
                    else "",
                ),
                Field(
                    "target",
                    "Publish to topic",
                    value=self._given("target"),
                    help="The topic to publish to; the same topic delivers to all its channels again.",
                    is_required=True,
                    length_max=64,
                ),
                Field("start", "From", "time", self._given("start"), help=_TIME_HELP),
                Field("end", "To", "time", self._given("end"), help="Optional; not itself included."),
                Field("key", "Key", value=self._given("key"), help="Optional: messages of this key alone."),
                Field(
                    "expression",
                    "Expression",
                    value=self._given("expression"),
                    help="Optional, such as: body.amount >= 100 and key like 'eu-%' and not replayed",
                    length_max=EXPRESSION_LENGTH_MAX,
                ),
                Field(
                    "rate",
                    "Rate limit, messages/s",
                    value=self._given("rate"),
                    help="Optional; without it as fast as the engine takes them.",
                    length_max=9,
                ),
            ],
            button="Plan the replay",
        )

    def _given(self, name: str) -> str:
        return str(self.request.POST.get(name, "")).strip()[:EXPRESSION_LENGTH_MAX]

    def source(self) -> ReplaySource | None:
        """The topic that was chosen, None for none that is archived."""
        return next((one for one in replay_sources(self.view.topics) if one.value == self._given("topic")), None)

    def details(self) -> dict[str, Any]:
        complaints: list[str] = []
        topic, target = self._given("topic"), self._given("target")
        source = self.source()
        if source is None:
            complaints.append(f"{topic[:80]!r} is not an archived topic.")
        if not is_valid_name(target):
            complaints.append(f"{target[:80]!r} is not a topic name to publish to.")
        times: dict[str, int | None] = {}
        for name in ("start", "end"):
            try:
                times[name] = _time_ms_of(self._given(name))
            except ValueError as exc:
                complaints.append(str(exc))
        start_ms, end_ms = times.get("start"), times.get("end")
        if start_ms is not None and end_ms is not None and start_ms >= end_ms:
            complaints.append("The time range is empty: it ends before it begins.")
        key = self._given("key")
        if len(key.encode()) > KEY_LENGTH_MAX:
            complaints.append(f"The key has {len(key.encode())} bytes; the most is {KEY_LENGTH_MAX}.")
        expression = self._given("expression")
        if expression and (complaint := complaint_about(expression)):
            complaints.append(f"Expression: {complaint}.")
        rate_text = self._given("rate")
        if rate_text and not (re.fullmatch(r"[0-9]{1,7}", rate_text) and 1 <= int(rate_text) <= RATE_MAX):
            complaints.append(f"{rate_text[:20]!r} is not a rate limit: a whole number, 1 to {RATE_MAX:,} messages/s.")
        if complaints or source is None:
            raise ComplaintError(*complaints)
        self.replay_id = self.pipeline.new_replay_id()
        return {
            "topic": source.topic,
            **source.which,
            "target": target,
            "start_time_ms": start_ms,
            "end_time_ms": end_ms,
            "key": key,
            "expression": expression,
            "rate_per_s": int(rate_text) if rate_text else None,
        }

    def audit_topic(self) -> str:
        source = self.source()
        return source.topic if source is not None else ""

    def audit_detail(self, details: dict[str, Any]) -> str:
        return f"{self.replay_id}: {request_words(ReplayRequest(self.replay_id, **details))}"

    def after_url(self) -> str:
        return reverse("replay", args=(self.replay_id,))


class RunReplay(_PipelineAct):
    routes = {"run_replay": "pipeline/replays/<slug:replay>/~run/"}

    def question(self) -> Question:
        replay = self.replay()
        planned, request = replay.planned, replay.request
        if planned is None or request is None:
            raise NotThereError(f"The replay {self.replay_id} has no plan yet.")
        channels = list(planned.channels)
        if channels:
            named = channels[:CHANNELS_NAMED_MAX]
            more = [f"{len(channels) - len(named)} more"] if len(channels) > len(named) else []
            noun = "channel" if len(channels) == 1 else "channels"
            reach = f"They go to the {noun} {and_list([*named, *more])}."
        else:
            reach = f"{request.target} has no channel: they stay at the topic until there is one."
        count = counted(planned.count, "archived message")
        return self.pose(
            f"Run the replay {self.replay_id}",
            [
                f"{count} of {request.topic} will be published to {request.target}.",
                *filter(None, [left_out_sentence(planned)]),
                reach,
                "Each is published once, however often the replay is interrupted.",
                "It can be cancelled; messages published by then stay published.",
                self.when(),
            ],
            button=f"Publish {counted(planned.count, 'message')} to {request.target}",
        )

    def details(self) -> dict[str, Any]:
        if complaint := self.replay().why_not_run:
            raise ComplaintError(complaint)
        return {}

    def audit_detail(self, details: dict[str, Any]) -> str:
        request = self.replay().request
        return f"{self.replay_id}: {request_words(request)}" if request is not None else self.replay_id


class CancelReplay(_PipelineAct):
    routes = {"cancel_replay": "pipeline/replays/<slug:replay>/~cancel/"}

    def question(self) -> Question:
        replay = self.replay()
        if replay.run_job is None:
            title, consequences = "Discard", ["It has published nothing. It can't be run afterwards."]
        else:
            done = counted(replay.run_job.done, "message")
            title, consequences = "Cancel", [f"{done} published so far stay published. It can't go on afterwards."]
        return self.pose(
            f"{title} the replay {self.replay_id}",
            [*consequences, self.when()],
            button=f"{title} the replay",
            dismiss="Go back",
            is_dangerous=True,
        )

    def details(self) -> dict[str, Any]:
        if complaint := self.replay().why_not_cancel:
            raise ComplaintError(complaint)
        return {}


_TIME_HELP = "Optional; the time of publishing."


def _time_ms_of(text: str) -> int | None:
    """Unix ms of a time in UTC; None for none. Raises ValueError with a sentence."""
    if not text:
        return None
    return int(time_of(text).timestamp() * 1000)
