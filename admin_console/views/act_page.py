"""One act as a resource: GET shows the question, POST does the act."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.html import format_html

from admin_console.answers.next_page import next_page
from admin_console.answers.refusal import refusal, wants_fragment, wants_json
from admin_console.gateway.gateway import (
    DONE,
    FAILED,
    UNKNOWN,
    ActResult,
    EngineUnavailableError,
    why_no_engine,
)
from admin_console.gateway.sentences import act_in_words
from admin_console.views.audited_act import (
    NONE_TICKED,
    STATE_CHANGED,
    AuditedAct,
    ComplaintError,
    NotThereError,
    by_node_field,
)
from admin_console.views.node_answers import node_results, node_row
from admin_console.views.on_nodes import (
    CREATES,
    NODE,
    ON_MESSAGES,
    ON_NODES,
    ON_ONE,
    Holder,
    OnNodes,
    left_out,
    with_nodes,
)
from admin_console.views.question import SHOWN, Field, NodeRow, Question, reason_field, show_question
from admin_console.views.standing import CHANGED, GONE, STILL, standing
from admin_console.vocabulary.form_limits import NODES_MAX

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


TOPIC = "topics/<name:topic>"
CHANNEL = f"{TOPIC}/<name:channel>"


class ActPage(AuditedAct):
    """Base of all acts. routes: the acts that a subclass is the page of, with their paths (`admin_console/urls.py`)."""

    http_method_names = ["get", "head", "post"]
    routes: Mapping[str, str] = {}
    is_anew = False  # the question is shown again since the state has changed

    @property
    def url(self) -> str:
        return reverse(self.action, kwargs=self.kwargs)

    @property
    def page_url(self) -> str:
        """The page of the topic or channel; where Cancel leads."""
        if self.channel:
            return reverse("channel", args=(self.topic, self.channel))
        return reverse("topic", args=(self.topic,)) if self.topic else reverse("topics")

    # For subclasses to define.

    def question(self) -> Question:
        """The question on GET, and again after a complaint. Raises NotThereError."""
        raise NotImplementedError

    def expected_of(self, holder: Holder) -> dict[str, int]:
        """By field, how many messages of a node the question counts."""
        return {}

    def undo_on(self, holder: Holder) -> str:
        """The undo at a node, and its end; "" for an act that loses nothing."""
        return ""

    def after_url(self) -> str:
        """The page that the browser goes to after the act."""
        return self.page_url

    def undo_url(self) -> str:
        """The act that takes this one back; "" where there is none."""
        return ""

    def undo_nodes(self) -> list[str]:
        """The nodes that the undo is about; empty for this server alone."""
        return []

    def undo_of_nodes(self) -> str:
        """`undo_url` with the names of its nodes."""
        return with_nodes(self.undo_url(), self.undo_nodes())

    def again_url(self) -> str:
        """The question for the nodes that are left, as it was answered."""
        return self.url

    # The same for all acts.

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if (sentence := why_no_engine(self.action)) and self.nodes is None:
            return refusal(request, sentence, status=404)
        try:
            if request.method == "POST" and "ask" in request.POST:  # the names of nodes may be too many for a link
                return self.get(request, **kwargs)
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
            # Another node may have it by the answer: the question is about this server alone.
            own = [Field(NODE, "", kind="hidden", value=self.gateway.node().name)] if self.action in ON_NODES else []
            return replace(question, fields=[*own, *question.fields])
        # A form that comes back has all its rows, as they were ticked, and so has that of a new topic; a link is about
        # the nodes that it names.
        has_all = self.action == CREATES or (NODE in self.request.POST and "ask" not in self.request.POST)
        shown = nodes.able if has_all and self.action not in ON_ONE | ON_MESSAGES else nodes.chosen
        if len(nodes.chosen) > NODES_MAX:
            return nodes.too_many(question)
        if len(shown) > NODES_MAX:
            question = replace(question, consequences=[*question.consequences, *left_out(len(shown))])
            others = [holder for holder in shown if holder.name not in nodes.chosen_names]
            shown = [*nodes.chosen, *others[: NODES_MAX - len(nodes.chosen)]]
        rows = [self.row_of(nodes, holder) for holder in shown]
        lines: dict[str, list[str]] = {}
        for row in rows:
            for name, number in row.expected:
                lines.setdefault(by_node_field(name), []).append(f"{row.name} {number}")
        by_node = [Field(name, "", kind="hidden", value="\n".join(found)) for name, found in lines.items()]
        return nodes.posed(replace(question, fields=[*by_node, *question.fields]), rows)

    def row_of(self, nodes: OnNodes, holder: Holder) -> NodeRow:
        return NodeRow(
            holder.name,
            "; ".join(filter(None, (nodes.words_of(holder), self.undo_on(holder)))),
            tuple(self.expected_of(holder).items()),
            is_ticked=holder.name in nodes.chosen_names,
        )

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
                raise ComplaintError(NONE_TICKED)
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
                "undo": self.undo_of_nodes() if is_done else "",
            }
            if nodes:
                body["nodes"] = [node_row(one) for one in nodes]
            return JsonResponse(body, status=200 if is_done else _STATUS_OF_CODE.get(result.code, 400))
        if self.nodes is not None and len(nodes) > 1:
            act = f"{act_in_words(self.action)} {self.name}"
            return node_results(
                self.request,
                act,
                nodes,
                again_url=self.again_url(),
                close_url=url,
                undo_url=self._undo_link(self.undo_url(), url),
                undo_nodes=self.undo_nodes(),
            )
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
        return self._undo_link(self.undo_of_nodes(), back_url)

    def _undo_link(self, undo_url: str, back_url: str) -> str:
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
