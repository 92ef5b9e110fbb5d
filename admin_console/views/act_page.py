"""One act as a resource: GET shows the question, POST does the act, with an audit row before and after it."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.html import format_html
from django.views import View

from admin_console.answers import drafts
from admin_console.answers.next_page import next_page
from admin_console.answers.refusal import refusal, wants_fragment, wants_json
from admin_console.audit.models import AuditRow, Verdict
from admin_console.audit.record import ActInProgress, begin_act, intent_of, write_together
from admin_console.gateway.fan_out import by_node, fault_of
from admin_console.gateway.gateway import (
    DONE,
    FAILED,
    UNKNOWN,
    ActOrder,
    ActResult,
    Asker,
    ChannelStats,
    EngineUnavailableError,
    TopicStats,
    get_gateway,
    why_no_engine,
)
from admin_console.views.node_answers import node_results, node_row
from admin_console.views.on_nodes import NODE, ON_MESSAGES, ON_ONE, Holder, OnNodes, on_nodes
from admin_console.views.question import SHOWN, Field, NodeRow, Question, reason_field, show_question
from admin_console.views.standing import CHANGED, GONE, STILL, standing

logger = logging.getLogger(__name__)

STATE_CHANGED = "STATE_CHANGED"
_NONE_TICKED = "No node is ticked. Nothing was done."
_STATUS_OF_CODE = {
    "TOPIC_NOT_FOUND": 404,
    "CHANNEL_NOT_FOUND": 404,
    "CURSOR_NOT_FOUND": 404,
    "NOT_IN_FLIGHT": 409,
    "TRASH_NOT_FOUND": 404,
    "TRASH_CONFLICT": 409,
    "COUNTS_CHANGED": 409,
    STATE_CHANGED: 409,
    "NOT_OWNER": 409,
    "FENCED": 409,
    "LIMIT_REACHED": 409,
    "UNREACHABLE": 502,
    "ENGINE_BUSY": 503,
    "EXITING": 503,
    "STORAGE_ERROR": 503,
    "OUTCOME_UNKNOWN": 504,
    "INTERNAL_ERROR": 500,
    "NOT_AUDITED": 503,
}


class ComplaintError(Exception):
    """The form was filled in wrongly; each text is a sentence. Nothing was done."""

    def __init__(self, *sentences: str) -> None:
        super().__init__(*sentences)
        self.sentences = sentences


class NotThereError(Exception):
    """The topic or channel is not there; the text is a sentence about it."""


TOGETHER_MAX = 8  # acts of one request on other nodes, at once
TOPIC = "topics/<name:topic>"
CHANNEL = f"{TOPIC}/<name:channel>"


class ActPage(View):
    """Base of all acts. `action` is the URL's name, the audit's word and the permission table's key; routes: the acts
    that a subclass is the page of, with their paths (`admin_console/urls.py`)."""

    http_method_names = ["get", "head", "post"]
    action = ""
    routes: Mapping[str, str] = {}
    is_confirmed = False  # it was confirmed for all of a selection at once
    is_anew = False  # the question is shown again since the state has changed

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().setup(request, *args, **kwargs)
        drafts.take(request)
        self.gateway = get_gateway()
        self.topic: str = kwargs.get("topic", "")
        self.channel: str = kwargs.get("channel", "")

    @property
    def name(self) -> str:
        """The object of the act: orders, or orders/billing."""
        return f"{self.topic}/{self.channel}" if self.channel else self.topic

    @property
    def url(self) -> str:
        return reverse(self.action, kwargs=self.kwargs)

    @property
    def page_url(self) -> str:
        """The page of the topic or channel; where Cancel leads."""
        if self.channel:
            return reverse("channel", args=(self.topic, self.channel))
        return reverse("topic", args=(self.topic,)) if self.topic else reverse("topics")

    @cached_property
    def nodes(self) -> OnNodes | None:
        """The nodes that do the act; None where this server alone is concerned."""
        wanted = self.request.POST.getlist(NODE) or self.request.GET.getlist(NODE)
        channel = self.channel if self.action != "create_channel" else ""
        return on_nodes(self.gateway, self.action, self.topic, channel, wanted)

    # For subclasses to define.

    def question(self) -> Question:
        """The question on GET, and again after a complaint. Raises NotThereError."""
        raise NotImplementedError

    def details(self) -> dict[str, Any]:
        """The gateway's further arguments from the form. Raises ComplaintError, NotThereError."""
        return {}

    def audit_detail(self, details: dict[str, Any]) -> str:
        """Which part of the object the act is about, such as one consumer."""
        return ""

    def audit_topic(self) -> str:
        """The topic that the act is about, for the audit list."""
        return self.topic

    @property
    def part(self) -> str:
        """The object of the act, where that is neither a topic nor a channel: `trash 5`."""
        return ""

    def do(self, details: dict[str, Any]) -> ActResult:
        """Do the act, and wait until it is durable."""
        if self.nodes is not None:
            return self._do_on(self.nodes, details)
        result = self.gateway.act(self.action, self.topic, self.channel, self.asker(), **details)
        self.note(result)
        return result

    def _do_on(self, nodes: OnNodes, details: dict[str, Any]) -> ActResult:
        if nodes.is_none_ticked:
            return ActResult(FAILED, _NONE_TICKED, "NOT_SUPPORTED")
        if not nodes.chosen:
            return ActResult(FAILED, f"Nothing was done to {self.name}. {' '.join(nodes.reasons())}", "NOT_SUPPORTED")
        order = self.order(details)
        field, posted = self.expected_name(), self.request.POST
        texts = {holder.name: posted.get(f"{field}:{holder.name}", "") for holder in nodes.chosen}
        expected = {name: int(text) for name, text in texts.items() if text.isdecimal() and len(text) < 16}
        if not nodes.has_own:
            result = self.done_beside(lambda: nodes.do(order, expected))
        elif changed := self.gateway.changed_since(self.action, self.topic, self.channel, self.asker()):
            return ActResult(FAILED, f"{changed} Nothing was done.", STATE_CHANGED)
        else:
            result = nodes.do(order, expected)
        own = nodes.own_result
        self.note(result if own is None else own)
        return result

    def note(self, result: ActResult) -> None:
        """Store the part of the result that the undo needs."""

    def expected_of(self, holder: Holder) -> dict[str, int]:
        """By field, how many messages of a node the question counts."""
        return {}

    def expected_name(self) -> str:
        """The name of the field with the count of the messages that the user chose to remove."""
        return ""

    def undo_on(self, holder: Holder) -> str:
        """The undo at a node, and its end; "" for an act that loses nothing."""
        return ""

    def after_url(self) -> str:
        """The page that the browser goes to after the act."""
        return self.page_url

    def undo_url(self) -> str:
        """The act that takes this one back; "" where there is none."""
        return ""

    # The same for all acts.

    def asker(self) -> Asker:
        """Who wants the act, and the mark of the question that was answered: of the form, or of the link to it."""
        return Asker(self.request.user.get_username(), self.shown(), self.part)

    def shown(self) -> str:
        return str(self.request.POST.get(SHOWN) or self.request.GET.get(SHOWN, ""))[:100]

    def done_beside(self, do: Callable[[], ActResult]) -> ActResult:
        """Do an act that is not the engine's, unless the state that its question showed has changed."""
        return self.gateway.act_beside(self.action, self.topic, self.channel, self.asker(), do)

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if (sentence := why_no_engine(self.action)) and self.nodes is None:
            return refusal(request, sentence, status=404)
        try:
            return super().dispatch(request, *args, **kwargs)
        except NotThereError as exc:
            return refusal(request, self._gone(exc), status=404)

    def _gone(self, error: NotThereError) -> str:
        return " ".join([str(error), *self._who_deleted()])

    def _who_deleted(self) -> list[str]:
        found = self.gateway.deletion_of(self.topic, self.channel) if self.topic else None
        if found is not None or not self.shown():
            return [found.sentence] if found is not None else []
        return [self.gateway.changed_since(self.action, self.topic, self.channel, self.asker())]

    def get(self, request: HttpRequest, **_: str) -> HttpResponse:
        if STILL in request.GET:
            return self._standing()
        complaints: tuple[str, ...] = ()
        if self.shown():
            # The link is from an act, such as the Undo of one: it does not revert later acts.
            changed = self.gateway.changed_since(self.action, self.topic, self.channel, self.asker())
            complaints = (changed,) if changed else ()
        return self.ask_again(complaints, status=200)

    def _standing(self) -> HttpResponse:
        """For a question that is open. It comes every two seconds: nothing but the mark is read until that differs."""
        sentence = self.gateway.changed_since(self.action, self.topic, self.channel, self.asker())
        if not sentence:
            return standing(CHANGED, "")
        try:
            self.question()
        except NotThereError as exc:
            return standing(GONE, self._gone(exc))
        return standing(CHANGED, sentence)

    def posed(self) -> Question:
        """The question with its nodes. Raises NotThereError."""
        question, nodes = self.question(), self.nodes
        if nodes is None:
            return question
        # A form that comes back has all its rows, as they were ticked; a link is about the nodes that it names.
        shown = nodes.able if NODE in self.request.POST and self.action not in ON_ONE | ON_MESSAGES else nodes.chosen
        rows = [
            NodeRow(
                holder.name,
                "; ".join(filter(None, (nodes.words_of(holder), self.undo_on(holder)))),
                tuple(self.expected_of(holder).items()),
                is_ticked=holder in nodes.chosen,
            )
            for holder in shown
        ]
        return nodes.posed(question, rows)

    def ask_again(self, complaints: Iterable[str] = (), *, status: int = 400) -> HttpResponse:
        """The question with the state of this moment."""
        shown = self.gateway.mark(self.topic, self.channel)
        return show_question(
            self.request,
            self.posed(),
            complaints=tuple(complaints),
            next_url=next_page(self.request),
            complaint_status=status,
            shown=shown,
        )

    def post(self, request: HttpRequest, **_: str) -> HttpResponse:
        is_none_ticked = self.nodes is not None and self.nodes.is_none_ticked
        try:
            details = self.details()
            if is_none_ticked:
                raise ComplaintError(_NONE_TICKED)
        except ComplaintError as exc:
            if wants_json(request):
                return JsonResponse({"ok": False, "message": " ".join(exc.sentences)}, status=400)
            # The user decided on the state that the first question showed.
            shown = self.shown() or self.gateway.mark(self.topic, self.channel)
            next_url = next_page(self.request)
            return show_question(
                request,
                self.posed(),
                complaints=exc.sentences,
                next_url=next_url,
                shown=shown,
                is_filled_in=is_none_ticked,
            )
        return self._answer(self.perform(details))

    def intent(self, details: dict[str, Any]) -> AuditRow:
        """The audit row of the act that is about to be done."""
        names = [holder.name for holder in self.nodes.chosen] if self.nodes is not None else []
        on = f"on {', '.join(names)}" if names else ""
        return intent_of(
            self.request,
            self.action,
            topic=self.audit_topic(),
            channel=self.channel,
            detail="; ".join(filter(None, (self.audit_detail(details), on))),
            reason=self.request.POST.get("reason", "").strip(),
        )

    def order(self, details: dict[str, Any]) -> ActOrder:
        """The act as one of several that the gateway does at once."""
        return ActOrder(self.action, self.topic, self.channel, self.asker(), details)

    def perform(self, details: dict[str, Any]) -> ActResult:
        """Do the act with these `details`, audited before and after."""
        try:
            act = begin_act(self.intent(details))
        except DatabaseError:
            logger.exception("intent not audited action=%s topic=%s channel=%s", self.action, self.topic, self.channel)
            sentence = f"Nothing was done to {self.name}: the audit list can't be written."
            return ActResult(FAILED, sentence, "NOT_AUDITED")
        result = self.do(details)
        self.finish(act, result)
        return result

    @property
    def outcomes(self) -> str:
        """The outcome of each node, for the audit list; "" on one server."""
        return by_node(self.nodes.results) if self.nodes is not None else ""

    def finish(self, act: ActInProgress, result: ActResult) -> None:
        try:
            act.finish(Verdict(result.verdict), result.message, result.counts, detail=self.outcomes)
        except DatabaseError:
            # The intent is on disk; the user gets the result all the same.
            logger.exception("result not audited action=%s topic=%s channel=%s", self.action, self.topic, self.channel)

    def _answer(self, result: ActResult) -> HttpResponse:
        is_done = result.verdict == DONE
        is_in_dialog = wants_fragment(self.request)
        nodes = self.nodes.results if self.nodes is not None else []
        url = next_page(self.request) or (self.after_url() if is_done else self.page_url)
        if wants_json(self.request):
            body = {
                "ok": is_done,
                "message": result.message,
                "code": result.code,
                "counts": dict(result.counts),
                "undo": self.undo_url() if is_done else "",
            }
            if nodes:
                body["nodes"] = [node_row(one) for one in nodes]
            return JsonResponse(body, status=200 if is_done else _STATUS_OF_CODE.get(result.code, 400))
        if self.nodes is not None and len(nodes) > 1:
            act = f"{self.action.replace('_', ' ').capitalize()} {self.name}"
            undo_url = self.undo_link(url)
            return node_results(self.request, act, nodes, again_url=self.url, close_url=url, undo_url=undo_url)
        if result.verdict == FAILED and (is_in_dialog or result.code == STATE_CHANGED):
            return self._refused_in_dialog(result)
        if is_done and (undo_url := self.undo_link(url)):
            sentence: str = format_html('{} <a href="{}" data-dialog>Undo</a>', result.message, undo_url)
        else:
            sentence = result.message
        if is_done:
            messages.success(self.request, sentence)
        elif result.verdict == UNKNOWN:
            messages.warning(self.request, sentence)
        else:
            messages.error(self.request, sentence)
        # A script would follow a redirect by itself, and use up the messages of the next page.
        return HttpResponse(status=204, headers={"X-Next": url}) if is_in_dialog else HttpResponseRedirect(url)

    def undo_link(self, back_url: str = "") -> str:
        """To the question of the undo, which lists the acts since this one. "" where there is no undo."""
        undo_url = self.undo_url()
        if not undo_url:
            return ""
        query = {"next": back_url} if back_url else {}
        # The act was done: report that even if the engine does not answer by now.
        with suppress(EngineUnavailableError):
            query[SHOWN] = self.gateway.mark(self.topic, self.channel)
        return f"{undo_url}{'&' if '?' in undo_url else '?'}{urlencode(query)}" if query else undo_url

    def _refused_in_dialog(self, result: ActResult) -> HttpResponse:
        """The form once more, with its filled-in fields and the reason why nothing was done."""
        status = _STATUS_OF_CODE.get(result.code, 400)
        self.is_anew = result.code == STATE_CHANGED
        try:
            return self.ask_again((result.message,), status=status)
        except (NotThereError, EngineUnavailableError):
            return refusal(self.request, result.message, status=status)

    # For several acts.

    def topic_stats(self) -> TopicStats:
        """The topic at this moment, of all the nodes that do the act. Raises NotThereError."""
        if self.nodes is not None:
            if self.nodes.topic is None:
                raise NotThereError(" ".join(self.nodes.reasons()) or f"There is no topic {self.topic}.")
            return self.nodes.topic
        for topic in self.gateway.exact(self.topic).topics:
            if topic.topic_name == self.topic:
                return topic
        raise NotThereError(f"There is no topic {self.topic}.")

    def channel_stats(self) -> ChannelStats:
        """The channel at this moment, with its clients. Raises NotThereError."""
        if self.nodes is not None:
            return next(one for one in self.topic_stats().channels if one.channel_name == self.channel)
        for topic in self.gateway.exact(self.topic, self.channel).topics:
            if topic.topic_name == self.topic:
                for channel in topic.channels:
                    if channel.channel_name == self.channel:
                        return channel
        raise NotThereError(f"There is no channel {self.name}.")

    def pose(
        self,
        title: str,
        consequences: Iterable[str],
        fields: Iterable[Field] = (),
        *,
        button: str = "",
        dismiss: str = "Cancel",
        is_dangerous: bool = False,
    ) -> Question:
        """A question of this act; its last field is the reason. button: its label, where it is not `title`."""
        return Question(
            title=title,
            button=button or title,
            post_url=self.url,
            cancel_url=self.page_url,
            dismiss=dismiss,
            consequences=list(consequences),
            fields=[*fields, reason_field(self.request.POST.get("reason", ""))],
            is_dangerous=is_dangerous,
        )

    def check_typed_name(self) -> None:
        """Raises ComplaintError unless the name was typed as it is."""
        if self.is_confirmed:
            return
        typed = self.request.POST.get("typed_name", "").strip()
        if typed != self.name:
            raise ComplaintError(
                f"{typed[:140]!r} is not {self.name}. Nothing was done."
                if typed
                else f"Type {self.name} to confirm. Nothing was done."
            )


def perform_together(wanted: Sequence[tuple[ActPage, dict[str, Any]]]) -> list[ActResult]:
    """Do acts of one request with these `details`, as `ActPage.perform` does each: their audit rows are written in two
    writes instead of two for each. Where the disk refuses that, each is done for itself. Those of other nodes are done
    several at once: each waits for its nodes."""
    acts = [ActInProgress(page.intent(details)) for page, details in wanted]
    if not wanted or not write_together([act.intent for act in acts]):
        return [page.perform(details) for page, details in wanted]
    own = [(page, details) for page, details in wanted if page.nodes is None]
    results: dict[ActPage, ActResult] = {}
    if own:
        done = own[0][0].gateway.acts([page.order(details) for page, details in own])
        results |= {page: result for (page, _), result in zip(own, done, strict=True)}
    others = [(page, details) for page, details in wanted if page.nodes is not None]
    if others:
        with ThreadPoolExecutor(min(TOGETHER_MAX, len(others)), "penstock-acts-on-nodes") as threads:
            for (page, _), result in zip(others, threads.map(lambda one: _done(*one), others), strict=True):
                results[page] = result
    ends = []
    for (page, _), act in zip(wanted, acts, strict=True):
        result = results[page]
        if page.nodes is None:
            page.note(result)
        ends.append(act.result(Verdict(result.verdict), result.message, result.counts, detail=page.outcomes))
    if not write_together(ends):
        for (page, _), act in zip(wanted, acts, strict=True):
            page.finish(act, results[page])
    return [results[page] for page, _ in wanted]


def _done(page: ActPage, details: dict[str, Any]) -> ActResult:
    """A fault of one act leaves the others their results, and each audit row its end."""
    try:
        return page.do(details)
    except Exception:
        return fault_of(page.order(details))
