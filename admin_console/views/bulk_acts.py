"""One act on several topics or channels that were selected in a list: asked once, done one by one, a result for each.

Each of them is the act itself, with its own audit rows: this page adds no right and skips no check.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views import View

from admin_console.answers import drafts
from admin_console.answers.refusal import refusal, wants_fragment, wants_json
from admin_console.gateway.gateway import (
    DONE,
    FAILED,
    ActResult,
    ChannelStats,
    Gateway,
    TopicStats,
    get_gateway,
    is_valid_name,
)
from admin_console.gateway.sentences import counted, message_counts
from admin_console.views import pausing, risky_acts
from admin_console.views.act_page import ActPage, ComplaintError, NotThereError
from admin_console.views.question import SHOWN, Field, Question, ask, reason_field, typed_name_field

# Done one after the other, each until it is durable. Their names, of up to 130 characters, fit into one URL.
SELECTED_MAX = 100


@dataclass(frozen=True, slots=True)
class Kind:
    """An act that can be done on a selection. verb and past: of the sentences. consequence: what happens to all.

    asks_like_one: the act's own fields, such as how long a pause lasts, are asked once for all.
    """

    page: type[ActPage]
    verb: str
    past: str
    consequence: str
    asks_like_one: bool = False
    is_dangerous: bool = False


KINDS = {
    "pause_topic": Kind(
        pausing.PausePage, "Pause", "Paused", "Their messages stay at the topics until they are resumed.", True
    ),
    "unpause_topic": Kind(
        pausing.ResumePage, "Resume", "Resumed", "Messages at the topics go on to their channels.", True
    ),
    "empty_topic": Kind(
        risky_acts.EmptyTopic,
        "Empty",
        "Emptied",
        "Only messages at the topics themselves are removed; messages in their channels stay.",
        is_dangerous=True,
    ),
    "delete_topic": Kind(
        risky_acts.DeleteTopic,
        "Delete",
        "Deleted",
        "The topics, their channels and all their messages are deleted; their consumers are disconnected.",
        is_dangerous=True,
    ),
    "pause_channel": Kind(
        pausing.PausePage, "Pause", "Paused", "Their consumers get nothing until they are resumed.", True
    ),
    "unpause_channel": Kind(
        pausing.ResumePage,
        "Resume",
        "Resumed",
        "Their consumers receive the messages as fast as they can take them.",
        True,
    ),
    "empty_channel": Kind(
        risky_acts.EmptyChannel,
        "Empty",
        "Emptied",
        "All their queued, deferred and in-flight messages are removed.",
        is_dangerous=True,
    ),
    "delete_channel": Kind(
        risky_acts.DeleteChannel,
        "Delete",
        "Deleted",
        "The channels are deleted with all their messages; their consumers are disconnected.",
        is_dangerous=True,
    ),
    "requeue_channel": Kind(
        risky_acts.RequeueChannel,
        "Requeue",
        "Requeued",
        "Messages in flight go back to the queue. They may be processed twice: consumers may still work on them.",
    ),
}


@dataclass(frozen=True, slots=True)
class Target:
    """One selected topic, or channel of a topic."""

    topic: str
    channel: str = ""

    @property
    def name(self) -> str:
        return f"{self.topic}/{self.channel}" if self.channel else self.topic


@dataclass(frozen=True, slots=True)
class RowResult:
    """What came of the act on one of them."""

    target: Target
    result: ActResult
    undo_url: str = ""
    undo_link: str = ""

    @property
    def is_done(self) -> bool:
        return self.result.verdict == DONE

    @property
    def sentence(self) -> str:
        """The result in words, which name the topic or channel."""
        message = self.result.message
        return message if self.target.name in message else f"{self.target.name}: {message}"


class BulkAct(View):
    """GET asks, POST does. `on` names what is selected: TOPIC, TOPIC/CHANNEL, or a channel of the topic `of`."""

    http_method_names = ["get", "head", "post"]
    action = ""

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().setup(request, *args, **kwargs)
        drafts.take(request)
        self.gateway: Gateway = get_gateway()
        self.kind = KINDS[self.action]

    def get(self, request: HttpRequest) -> HttpResponse:
        try:
            targets = self._targets()
        except ComplaintError as exc:
            if not request.GET.getlist("on") and not wants_fragment(request):
                messages.warning(request, str(exc))
                return HttpResponseRedirect(self._cancel_url([]))
            return refusal(request, str(exc), status=400)
        return ask(request, self._question(targets))

    def post(self, request: HttpRequest) -> HttpResponse:
        try:
            targets = self._targets()
        except ComplaintError as exc:
            return refusal(request, str(exc), status=400)
        try:
            self._check_typed(targets)
            # A wrong field is one of all: found before the first of them is done.
            self._one(targets[0]).details()
        except ComplaintError as exc:
            if wants_json(request):
                return JsonResponse({"ok": False, "message": " ".join(exc.sentences)}, status=400)
            return ask(request, self._question(targets), complaints=exc.sentences)
        except NotThereError:
            pass  # told in its row
        return self._answer(self._perform(targets))

    # What is selected.

    def _targets(self) -> list[Target]:
        """Raises ComplaintError where none is named, too many are, or one can't be a name."""
        asked = self.request.POST or self.request.GET
        texts = list(dict.fromkeys(asked.getlist("on")))
        if not texts:
            raise ComplaintError(f"Nothing is selected: choose the {self._noun}s first. Nothing was done.")
        if len(texts) > SELECTED_MAX:
            raise ComplaintError(
                f"{len(texts)} {self._noun}s are selected, and at most {SELECTED_MAX} can be acted on at once. "
                "Nothing was done."
            )
        return [self._target(text, asked.get("of", "")) for text in texts]

    def _target(self, text: str, of: str) -> Target:
        names = [of, text] if of and "/" not in text else text.split("/")
        if len(names) != (1 if self._noun == "topic" else 2) or not all(is_valid_name(name) for name in names):
            raise ComplaintError(f"{text[:140]!r} is not the name of a {self._noun}. Nothing was done.")
        return Target(*names)

    @property
    def _noun(self) -> str:
        return self.action.rpartition("_")[2]

    def _cancel_url(self, targets: Sequence[Target]) -> str:
        topics = {target.topic for target in targets}
        if self._noun == "channel" and len(topics) == 1:
            return reverse("topic", args=(targets[0].topic,))
        return reverse("topics") if self._noun == "topic" else reverse("overview")

    # The question.

    def _question(self, targets: Sequence[Target]) -> Question:
        count = counted(len(targets), self._noun)
        posted = self.request.POST
        marks = [self._mark(target) for target in targets]
        rows = [self._counts_of(target) for target in targets]
        return Question(
            title=f"{self.kind.verb} {count}",
            button=f"{self.kind.verb} {count}",
            post_url=reverse(f"bulk_{self.action}"),
            cancel_url=self._cancel_url(targets),
            consequences=[self.kind.consequence, *self._afterwards(targets)],
            rows=rows,
            selected=[target.name for target in targets],
            fields=[
                *marks,
                *(self._shared_fields(targets) if self.kind.asks_like_one else ()),
                *([*self._expected(targets), typed_name_field(count)] if self.kind.is_dangerous else ()),
                reason_field(posted.get("reason", "")),
            ],
            is_dangerous=self.kind.is_dangerous,
        )

    def _mark(self, target: Target) -> Field:
        """Stands for the state that its row shows; that of the first question, where this one is asked again."""
        page = self._one(target)
        value = page.shown() or self.gateway.mark(target.topic, target.channel)
        return Field(page.shown_field, "", kind="hidden", value=value)

    def _shared_fields(self, targets: Sequence[Target]) -> list[Any]:
        """The act's own fields, as its question for the first of them has them; its reason is asked anyway."""
        for target in targets:
            try:
                return [field for field in self._one(target).question().fields if field.name != "reason"]
            except NotThereError:
                continue
        return []

    def _expected(self, targets: Sequence[Target]) -> list[Field]:
        """How many messages of each the user is told of, as its own form would have it: the engine counts again."""
        found = []
        for target in targets:
            with contextlib.suppress(NotThereError):
                own = (field for field in self._one(target).question().fields if field.name == "expected")
                found += [replace(field, name=f"expected:{target.name}") for field in own]
        return found

    def _afterwards(self, targets: Sequence[Target]) -> list[str]:
        """What can be undone of an act that removes messages, a sentence for each that is true of some of them."""
        pages = [(self._one(target), self._topics.get(target.topic)) for target in targets]
        sentences = [
            page.afterwards(topic.storage) for page, topic in pages if topic and isinstance(page, risky_acts.Removal)
        ]
        return list(dict.fromkeys(sentences))

    @cached_property
    def _topics(self) -> dict[str, TopicStats | None]:
        return {}

    def _counts_of(self, target: Target) -> str:
        """`orders/billing: 12 messages (depth 10, 2 in flight), 3 consumers`, of this moment."""
        if target.topic not in self._topics:
            found = [one for one in self.gateway.exact(target.topic).topics if one.topic_name == target.topic]
            self._topics[target.topic] = found[0] if found else None
        topic = self._topics[target.topic]
        channels: Sequence[ChannelStats] = topic.channels if topic else ()
        if target.channel:
            channels = [one for one in channels if one.channel_name == target.channel]
        if topic is None or (target.channel and not channels):
            return f"{target.name}: it no longer exists"
        clients = sum(one.client_count for one in channels)
        if self.action == "empty_topic":
            channels = ()  # what they hold stays
        depth = sum(one.depth for one in channels) + (0 if target.channel else topic.depth)
        held = message_counts(
            depth,
            sum(one.in_flight_count for one in channels),
            sum(one.deferred_count for one in channels),
            sum(one.quarantined_count for one in channels),
        )
        paused = ", paused" if (channels[0].paused if target.channel else topic.paused) else ""
        held = f"{held or 'no messages'}{' at the topic itself' if self.action == 'empty_topic' else ''}"
        return f"{target.name}: {held}, {counted(clients, 'consumer')}{paused}"

    def _check_typed(self, targets: Sequence[Target]) -> None:
        if not self.kind.is_dangerous:
            return
        wanted, typed = counted(len(targets), self._noun), self.request.POST.get("typed_name", "").strip()
        if typed != wanted:
            raise ComplaintError(
                f"{typed[:140]!r} is not {wanted}. Nothing was done."
                if typed
                else f"Type {wanted} to confirm. Nothing was done."
            )

    # The act.

    def _one(self, target: Target) -> ActPage:
        page = self.kind.page(action=self.action)
        kwargs = {"topic": target.topic, **({"channel": target.channel} if target.channel else {})}
        page.setup(self.request, **kwargs)
        page.is_confirmed = True
        page.shown_field = f"{SHOWN}:{target.name}"
        return page

    def _perform(self, targets: Sequence[Target]) -> list[RowResult]:
        rows: list[RowResult] = []
        for target in targets:
            page = self._one(target)
            try:
                result = page.perform(self._details(page, target))
            except (ComplaintError, NotThereError) as exc:
                result = ActResult(FAILED, str(exc))
            is_done = result.verdict == DONE
            rows.append(RowResult(target, result, *((page.undo_url(), page.undo_link()) if is_done else ())))
            if result.code in ("ENGINE_BUSY", "EXITING"):
                # Each further one would wait for its deadline.
                sentence = "Not tried: the engine did not answer the one before."
                rows += [RowResult(left, ActResult(FAILED, sentence, result.code)) for left in targets[len(rows) :]]
                break
        return rows

    def _details(self, page: ActPage, target: Target) -> dict[str, Any]:
        details = page.details()
        expected = self.request.POST.get(f"expected:{target.name}", "")
        if expected.isascii() and expected.isdigit() and len(expected) < 16:
            details["expected"] = int(expected)
        return details

    def _answer(self, rows: list[RowResult]) -> HttpResponse:
        done = sum(row.is_done for row in rows)
        if wants_json(self.request):
            results = [
                {
                    "name": row.target.name,
                    "ok": row.is_done,
                    "message": row.result.message,
                    "code": row.result.code,
                    "counts": dict(row.result.counts),
                    "undo": row.undo_url,
                }
                for row in rows
            ]
            return JsonResponse({"ok": done == len(rows), "done": done, "results": results})
        title = (
            f"{self.kind.past} {counted(done, self._noun)}"
            if done == len(rows)
            else f"{self.kind.past} {done:,} of {counted(len(rows), self._noun)}"
        )
        context = {
            "title": title,
            "rows": sorted(rows, key=lambda row: row.is_done),
            "close_url": self._cancel_url([row.target for row in rows]),
            # What failed stays selected, so that it can be tried again.
            "again": [row.target.name for row in rows if not row.is_done],
            "again_url": reverse(f"bulk_{self.action}"),
            "verb": self.kind.verb,
        }
        template = "acts/_bulk_results.html" if wants_fragment(self.request) else "acts/bulk_results.html"
        return render(self.request, template, context)
