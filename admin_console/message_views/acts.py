"""Acts on single messages: one, or those that are selected. Each gets its own result; failed ones stay selected."""

import json
import re
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.urls import reverse

from admin_console.answers.next_page import next_page
from admin_console.answers.refusal import wants_fragment, wants_json
from admin_console.gateway.gateway import NAME_LENGTH_MAX, ActResult, MessageResult, ReadRefusedError, is_valid_name
from admin_console.gateway.sentences import counted
from admin_console.message_views import lists
from admin_console.message_views.sources import channel_of
from admin_console.messages.channel_snapshot import ChannelSnapshot
from admin_console.messages.message_filter import filter_of, is_message_id, is_offset
from admin_console.messages.single_acts import SINGLE_ACTS, as_sentence
from admin_console.permissions.allowed import CheckedRequest
from admin_console.views.act_page import CHANNEL, ActPage
from admin_console.views.audited_act import ComplaintError, NotThereError
from admin_console.views.on_nodes import with_nodes
from admin_console.views.question import Field, Question

SELECTED_MAX = 1_000  # as the engine takes at once
SHOWN_MAX = 100  # results on a page


@dataclass(frozen=True, slots=True)
class Failed:
    """A message to which nothing was done, and why: a sentence."""

    message: str
    url: str
    text: str


@dataclass(frozen=True, slots=True)
class Results:
    """The messages that an act on several messages did not change."""

    title: str
    failed: tuple[Failed, ...]


class MessageAct(ActPage):
    """POST takes the messages of `id`, each given once or all in one field; `only` stands for a row's own button."""

    routes = {
        "finish_messages": f"{CHANNEL}/~messages/~finish/",
        "requeue_messages": f"{CHANNEL}/~messages/~requeue/",
        "release_messages": f"{CHANNEL}/~messages/~release/",
        "quarantine_messages": f"{CHANNEL}/~messages/~quarantine/",
        "redrive_messages": f"{CHANNEL}/~messages/~redrive/",
    }

    @property
    def snapshot(self) -> ChannelSnapshot:
        try:
            found = channel_of(self.request, self.topic, self.channel)
        except ReadRefusedError as exc:
            raise NotThereError(str(exc)) from exc
        if found is None:
            raise NotThereError(f"There is no channel {self.name}.")
        return found

    @property
    def page_url(self) -> str:
        url = reverse("channel_messages", args=(self.topic, self.channel))
        return url if self.nodes is None else with_nodes(url, [one.name for one in self.nodes.chosen])

    def question(self) -> Question:
        one = SINGLE_ACTS[self.action]
        snapshot = self.snapshot
        wanted = self.wanted()
        messages_text = counted(len(wanted), "message") if wanted else "messages"
        reason = snapshot.why_not(self.action)
        return self.pose(
            self._title(one.verb.removesuffix(" now"), f"{messages_text} of {self.name}"),
            [f"Not possible: {reason}."] if reason else one.consequences,
            [
                Field(
                    "id",
                    "Messages",
                    kind="area",
                    value="\n".join(wanted),
                    help=f"Ids or offsets, a line each; {SELECTED_MAX:,} at most.",
                    is_required=True,
                    rows=min(max(len(wanted), 2), 6),
                ),
                *self.more_fields(),
            ],
            is_dangerous=one.asks,
        )

    def _title(self, verb: str, messages_text: str) -> str:
        return f"{verb} {messages_text}"

    def more_fields(self) -> list[Field]:
        return []

    def wanted(self) -> list[str]:
        """The given messages, as they were typed, each once."""
        fields = self.request.POST or self.request.GET
        texts = [fields["only"]] if fields.get("only") else fields.getlist("id")
        return list(dict.fromkeys(re.findall(r"[^\s,]+", " ".join(texts))))

    def details(self) -> dict[str, Any]:
        wanted = self.wanted()
        if not wanted:
            raise ComplaintError("Select the messages first, or name them: none was given. Nothing was done.")
        if len(wanted) > SELECTED_MAX:
            raise ComplaintError(
                f"{len(wanted):,} messages are too many at once: the most is {SELECTED_MAX:,}. Nothing was done."
            )
        for one in wanted:
            if not is_message_id(one) and not is_offset(one):
                raise ComplaintError(
                    f"{one[:40]!r} is neither a message id of 16 hex digits nor an offset. Nothing was done."
                )
        reason = self.snapshot.why_not(self.action)
        if reason:
            raise ComplaintError(f"Nothing was done: {reason}.")
        return {
            "ids": [one for one in wanted if is_message_id(one)],
            "offsets": [int(one) for one in wanted if not is_message_id(one)],
        }

    def audit_detail(self, details: dict[str, Any]) -> str:
        wanted = [*details["ids"], *map(str, details["offsets"])]
        more = f" and {len(wanted) - 8} more" if len(wanted) > 8 else ""
        return f"{'message' if len(wanted) == 1 else 'messages'} {', '.join(wanted[:8])}{more}"

    def _answer(self, result: ActResult) -> HttpResponse:
        """Back to the page with a sentence; where something was not done, the page again with a result for each."""
        failed = [one for one in result.results if one.code]
        if wants_json(self.request):
            return self._json(result)
        if not failed or wants_fragment(self.request):
            return super()._answer(result)
        return self._with_results(result, failed)

    def _json(self, result: ActResult) -> HttpResponse:
        answer = super()._answer(result)
        body = json.loads(answer.content)
        body["results"] = [
            {"message": one.reference, "ok": not one.code, "code": one.code, "text": one.text, "was": one.was}
            for one in result.results
        ]
        return JsonResponse(body, status=answer.status_code)

    def _with_results(self, result: ActResult, failed: list[MessageResult]) -> HttpResponse:
        """The page of the act with its current list, and the messages that failed still selected."""
        snapshot = self.snapshot
        one = SINGLE_ACTS[self.action]
        done = len(result.results) - len(failed)
        title = f"{one.past} {done:,} of {counted(len(result.results), 'message')} of {self.name}."
        shown = Results(
            title,
            tuple(
                Failed(each.reference, snapshot.message_url(each.reference), as_sentence(each.text))
                for each in failed[:SHOWN_MAX]
            ),
        )
        chosen = frozenset(each.reference for each in failed)
        query = QueryDict(urlsplit(next_page(self.request)).query)
        self.request.method = "GET"
        return lists.answer_list(
            cast(CheckedRequest, self.request),
            snapshot,
            filter_of(query.dict()),
            status=409,
            results=shown,
            chosen=chosen,
            here=next_page(self.request) or snapshot.list_url,
        )


class PublishAgain(MessageAct):
    """The first form has the messages alone; the question has a field for the topic that they are published to."""

    routes = {"publish_again": f"{CHANNEL}/~messages/~publish-again/"}

    def post(self, request: HttpRequest, **kwargs: str) -> HttpResponse:
        if "to" not in request.POST and not wants_json(request):
            return self.ask_again()
        return super().post(request, **kwargs)

    def _title(self, verb: str, messages_text: str) -> str:
        return f"Publish {messages_text} again"

    def more_fields(self) -> list[Field]:
        return [
            Field(
                "to",
                "To the topic",
                value=self.request.POST.get("to", "") or self.topic,
                is_required=True,
                length_max=NAME_LENGTH_MAX,
                help="It must exist. All its channels get the new messages.",
            )
        ]

    def details(self) -> dict[str, Any]:
        to = self.request.POST.get("to", "").strip() or self.topic
        if not is_valid_name(to):
            raise ComplaintError(f"{to[:80]!r} is not a topic name. Nothing was done.")
        return super().details() | {"to": to}

    def audit_detail(self, details: dict[str, Any]) -> str:
        return f"to {details['to']}: {super().audit_detail(details)}"
