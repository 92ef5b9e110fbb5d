"""One act on several topics or channels that were selected in a list: one question, then one act after another, and a
result for each.

Each of them is the act itself, with its own audit rows: this page adds no right and skips no check. With `all=1` the
selection is all rows that pass the list's filter when the question is made; the question names them, and the answer is
about exactly those.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse, QueryDict
from django.shortcuts import render
from django.urls import NoReverseMatch, reverse
from django.views import View

from admin_console.answers import drafts
from admin_console.answers.refusal import refusal, wants_fragment, wants_json
from admin_console.gateway.gateway import (
    ACTS,
    DONE,
    FAILED,
    ActResult,
    Asker,
    ChannelStats,
    Gateway,
    TopicStats,
    get_gateway,
    is_valid_name,
    why_not,
)
from admin_console.gateway.sentences import counted, message_counts, of_nodes, some_of
from admin_console.hub.hub import get_hub
from admin_console.screens import channel_list, topics
from admin_console.views import risky_acts
from admin_console.views.act_page import ActPage
from admin_console.views.audited_act import ComplaintError, NotThereError, perform_together
from admin_console.views.bulk_kinds import KINDS
from admin_console.views.on_nodes import NODE, names_in
from admin_console.views.question import SHOWN, Field, Question, reason_field, show_question, typed_name_field
from admin_console.vocabulary import units
from admin_console.vocabulary.form_limits import BYTES_MAX

# At 160 bytes a name, with its count, they are a tenth of the largest form; the engine remembers twice as many acts
# (queue_engine/engine/acts/recent_acts.py), so that none of them outlives the mark of their question.
SELECTED_MAX = 5_000
# Begun together: their audit rows are one write, and the engine's syncs are shared. In the time that half of them take
# on a slow disk (50 ms each) the gateway does not lose its patience.
TOGETHER = 50
# Of the names in a form, whose signs may take three bytes each.
SELECTED_BYTES_MAX = BYTES_MAX // 3
SHOWN_MAX = 20  # names in the question, and in each half of the answer
_AT = "@"  # a line of the selection with the nodes of those below it, which no name begins with


@dataclass(frozen=True, slots=True)
class Target:
    """One selected topic, or channel of a topic. expected: how many messages of it the question counted, at these
    nodes; without nodes at those that the request names, or at all."""

    topic: str
    channel: str = ""
    expected: int | None = None
    nodes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.topic}/{self.channel}" if self.channel else self.topic


@dataclass(frozen=True, slots=True)
class RowResult:
    """The result of the act on one of them. page: None where it was not tried."""

    target: Target
    page: ActPage | None
    result: ActResult

    @property
    def is_done(self) -> bool:
        return self.result.verdict == DONE

    @property
    def undo_url(self) -> str:
        return self.page.undo_of_nodes() if self.page is not None and self.is_done else ""

    @property
    def undo_link(self) -> str:
        return self.page.undo_link() if self.page is not None and self.is_done else ""

    @property
    def undo_nodes(self) -> Sequence[str]:
        return self.page.undo_nodes() if self.page is not None else ()

    @property
    def is_engine_silent(self) -> bool:
        """Whether this server's own engine gave no answer: another node's is that node's alone."""
        nodes = self.page.nodes if self.page is not None else None
        result = self.result if nodes is None or not nodes.results else nodes.own_result
        return result is not None and result.code in ("ENGINE_BUSY", "EXITING", "OUTCOME_UNKNOWN")

    @property
    def sentence(self) -> str:
        """The result in words, which name the topic or channel."""
        message = self.result.message
        return message if self.target.name in message else f"{self.target.name}: {message}"


class BulkAct(View):
    """GET shows the question, POST does the act. `on` names the selection: TOPIC, TOPIC/CHANNEL, or a channel of the
    topic `of`; `node` the nodes that do it."""

    http_method_names = ["get", "head", "post"]
    action = ""

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().setup(request, *args, **kwargs)
        drafts.take(request)
        self.gateway: Gateway = get_gateway()
        self.kind = KINDS[self.action]

    def get(self, request: HttpRequest) -> HttpResponse:
        if "still" in request.GET:
            return self._standing()
        try:
            targets = self._targets(request.POST or request.GET)  # a form that the session's end interrupted
        except ComplaintError as exc:
            return self._refused(request.GET, exc)
        return self._ask(targets)

    def _refused(self, sent: QueryDict, error: ComplaintError) -> HttpResponse:
        """sent: the fields of the question, or none. Where they select none, the list comes back."""
        if not sent.keys() & {"on", "all"} and not wants_fragment(self.request):
            messages.warning(self.request, str(error))
            return HttpResponseRedirect(self._cancel_url([]))
        return refusal(self.request, str(error), status=400)

    def post(self, request: HttpRequest) -> HttpResponse:
        try:
            targets = self._targets(request.POST)
        except ComplaintError as exc:
            if "ask" in request.POST:
                return self._refused(request.POST, exc)
            return refusal(request, str(exc), status=400)
        if "ask" in request.POST:  # the names may be too many for a link
            return self._ask(targets)
        try:
            self._check_typed(targets)
            # A wrong field is one of all: found before the first of them is done.
            self._one(targets[0]).details()
        except ComplaintError as exc:
            if wants_json(request):
                return JsonResponse({"ok": False, "message": " ".join(exc.sentences)}, status=400)
            return self._ask(targets, exc.sentences)
        except NotThereError:
            pass  # its row has the refusal
        return self._answer(self._perform(targets))

    def _ask(self, targets: Sequence[Target], complaints: tuple[str, ...] = ()) -> HttpResponse:
        # The user decided on the state that the first question showed.
        shown = self.request.POST.get(SHOWN, "")[:100] or self.gateway.mark("")
        try:
            question = self._question(targets)
        except ComplaintError as exc:
            return refusal(self.request, str(exc), status=400)
        return show_question(self.request, question, complaints=complaints, shown=shown)

    def _standing(self) -> HttpResponse:
        """For an open dialog: the acts on anything since its question, 204 without any. The dialog has the
        names; thousands of them are too much for a question every two seconds."""
        asker = Asker(self.request.user.get_username(), self.request.GET.get(SHOWN, "")[:100])
        found = self.gateway.changes_since(self.action, asker)
        if not found:
            return HttpResponse(status=204)
        return JsonResponse(dict(found), headers={"X-Standing": "several"})

    # The selected topics or channels.

    def _targets(self, fields: QueryDict) -> list[Target]:
        """Raises ComplaintError where none is named, too many are, or one can't be a name."""
        if fields.get("all") == "1":
            found = self._passing(fields)
        else:
            # A name, or a line for each, with the number of messages that the question counted; lines of nodes.
            lines = [line for text in fields.getlist("on") for line in text.splitlines() if line.strip()]
            found = list({target.name: target for target in self._read(lines, fields.get("of", ""))}.values())
        if not found:
            raise ComplaintError(f"Nothing is selected: choose the {self._noun}s first. Nothing was done.")
        return found

    def _read(self, lines: Sequence[str], of: str) -> Iterator[Target]:
        self._check_count(sum(not line.startswith(_AT) for line in lines))
        nodes: tuple[str, ...] = ()
        for line in lines:
            if line.startswith(_AT):
                nodes = tuple(line.removeprefix(_AT).split()) or ("",)  # a server without a queue has no name
                continue
            name, _, expected = line.partition(" ")
            names = [of, name] if of and "/" not in name else name.split("/")
            if len(names) != (1 if self._noun == "topic" else 2) or not all(map(is_valid_name, names)):
                raise ComplaintError(f"{name[:140]!r} is not the name of a {self._noun}. Nothing was done.")
            yield Target(names[0], "".join(names[1:]), risky_acts.expected_of(expected).get("expected"), nodes)

    def _passing(self, fields: QueryDict) -> list[Target]:
        """All that pass the filter of the list which the page shows, at this moment."""
        live = get_hub().live
        if live is None:
            raise ComplaintError("No figures have come from the engine yet: try again in a second. Nothing was done.")
        show, wanted = fields.get("show", ""), fields.get("q", "").strip().lower()
        if self._noun == "topic":
            found = [Target(line.name) for line in topics.passing(live, show, wanted)]
        else:
            # A link may select all channels of a topic, whose page shows each of them.
            of = fields.get("of", "")
            keys = channel_list.passing(live, channel_list.ALL if of else show, wanted)
            found = [Target(*key) for key in keys if of in ("", key[0])]
        self._check_count(len(found))
        return found

    def _check_count(self, count: int) -> None:
        if count > SELECTED_MAX:
            raise ComplaintError(
                f"{count:,} {self._noun}s are selected, and at most {SELECTED_MAX:,} can be acted on at once. "
                "Narrow the list by its filter or by a part of the name. Nothing was done."
            )

    @property
    def _noun(self) -> str:
        return self.action.rpartition("_")[2]

    @cached_property
    def _node_names(self) -> list[str]:
        """The nodes that the request names, as for one act (`on_nodes.py`); none for all."""
        fields = self.request.POST if NODE in self.request.POST else self.request.GET
        return [name for name in names_in(fields.getlist(NODE)) if name]

    def _cancel_url(self, targets: Sequence[Target]) -> str:
        if len(self._node_names) == 1:
            with suppress(NoReverseMatch):
                return reverse("node", args=self._node_names)
        topics = {target.topic for target in targets}
        if self._noun == "channel" and len(topics) == 1:
            return reverse("topic", args=(targets[0].topic,))
        return reverse("topics") if self._noun == "topic" else reverse("overview")

    # The question.

    def _question(self, targets: Sequence[Target]) -> Question:
        count = counted(len(targets), self._noun)
        held = [self._held_by(target) for target in targets]
        rows = [f"{target.name}: {one.words}" for target, one in zip(targets[:SHOWN_MAX], held, strict=False)]
        if len(targets) > SHOWN_MAX:
            rows.append(f"and {len(targets) - SHOWN_MAX:,} more")
        on = f" on {some_of(self._node_names)}" if self._node_names else ""
        expected = [f" {one.count}" if self.kind.is_dangerous and one.is_there else "" for one in held]
        # One that another node gets by the answer is not done there.
        selected = self._lines(
            (target.name + text, one.nodes) for target, text, one in zip(targets, expected, held, strict=True)
        )
        if len(selected) > SELECTED_BYTES_MAX:
            raise ComplaintError(
                f"The {self._noun}s and the nodes that have them are {units.byte_count(len(selected))} of names, and a "
                f"form takes {units.byte_count(SELECTED_BYTES_MAX)} at most. Select fewer. Nothing was done."
            )
        return Question(
            title=f"{self.kind.verb} {count}{on}",
            button=f"{self.kind.verb} {count}{on}",
            post_url=reverse(f"bulk_{self.action}"),
            cancel_url=self._cancel_url(targets),
            consequences=[self.kind.consequence, *self._in_all(held), *self._afterwards(targets)],
            rows=rows,
            selected=selected,
            fields=[
                *([Field(NODE, "", kind="hidden", value="\n".join(self._node_names))] if self._node_names else []),
                *(self._shared_fields(targets) if self.kind.has_own_fields else ()),
                *([typed_name_field(count)] if self.kind.is_dangerous else ()),
                reason_field(self.request.POST.get("reason", "")),
            ],
            is_dangerous=self.kind.is_dangerous,
        )

    def _in_all(self, held: Sequence["_Held"]) -> list[str]:
        """The sum, where the rows show some of them."""
        if len(held) <= SHOWN_MAX:
            return []
        gone = sum(not one.is_there for one in held)
        messages_of_all = counted(sum(one.count for one in held), "message")
        sentence = f"In all {messages_of_all} and {counted(sum(one.clients for one in held), 'consumer')}."
        return [sentence, *([f"{gone:,} of them no longer {'exists' if gone == 1 else 'exist'}."] if gone else [])]

    def _shared_fields(self, targets: Sequence[Target]) -> list[Any]:
        """The act's own fields, as its question for the first of them has them; its reason has its own field."""
        for target in targets:
            try:
                return [field for field in self._one(target).question().fields if field.name != "reason"]
            except NotThereError:
                continue
        return []

    def _afterwards(self, targets: Sequence[Target]) -> list[str]:
        """Sentences about the undo of an act that removes messages, one for each kind of topic, and about the space it
        frees."""
        page = self.kind.page
        if not issubclass(page, risky_acts.Removal):
            return []
        sentences: list[str] = []
        by_undo: dict[str, dict[str, None]] = {}
        emptied: dict[str, list[str]] = {}
        for target in targets:
            topic = self._topics.get(target.topic)
            if topic is None:
                continue
            one = self._one(target)
            assert isinstance(one, risky_acts.Removal)
            sentences.append(one.afterwards(topic.storage))
            for holder in one.nodes.chosen if one.nodes is not None else ():
                by_undo.setdefault(one.undo_on(holder), {})[holder.name] = None
            if one.nodes is None and not why_not("read_messages", topic.storage, target.topic):
                emptied.setdefault(target.topic, []).append(target.channel)
        sentences += [f"{of_nodes(list(names), undo)}." for undo, names in by_undo.items()]
        return [*dict.fromkeys(sentences), *([page.room_made(self.gateway, emptied)] if emptied else [])]

    @cached_property
    def _topics(self) -> dict[str, TopicStats | None]:
        """The topics at this moment, each read once; None for one that is not there."""
        return {}

    def _held_by(self, target: Target) -> "_Held":
        nodes = self._one(target).nodes
        names = nodes.names if nodes is not None else ()
        if nodes is not None:
            topic_of_all = nodes.topic
            self._topics[target.topic] = topic_of_all
            channels_of_all = topic_of_all.channels if topic_of_all is not None else ()
            self._channels[target.topic] = {one.channel_name: one for one in channels_of_all}
        elif target.topic not in self._topics:
            found = [one for one in self.gateway.exact(target.topic).topics if one.topic_name == target.topic]
            self._topics[target.topic] = found[0] if found else None
            self._channels[target.topic] = {one.channel_name: one for topic in found for one in topic.channels}
        topic, by_name = self._topics[target.topic], self._channels[target.topic]
        if topic is None or (target.channel and target.channel not in by_name):
            return _Held("it no longer exists", nodes=names)
        channels = [by_name[target.channel]] if target.channel else list(by_name.values())
        clients = sum(one.client_count for one in channels)
        if self.action == "empty_topic":
            channels = []  # their messages stay
        held = (
            sum(one.depth for one in channels) + (0 if target.channel else topic.depth),
            sum(one.in_flight_count for one in channels),
            sum(one.deferred_count for one in channels),
            sum(one.quarantined_count for one in channels),
        )
        paused = ", paused" if (channels[0].paused if target.channel else topic.paused) else ""
        at = " at the topic itself" if self.action == "empty_topic" else ""
        where = nodes.where.replace(" on", ", on", 1) if nodes is not None else ""
        words = f"{message_counts(*held) or 'no messages'}{at}, {counted(clients, 'consumer')}{paused}{where}"
        return _Held(words, sum(held), clients, is_there=True, nodes=names)

    @cached_property
    def _channels(self) -> dict[str, dict[str, ChannelStats]]:
        return {}

    def _check_typed(self, targets: Sequence[Target]) -> None:
        if not self.kind.is_dangerous:
            return
        wanted, typed = counted(len(targets), self._noun), self.request.POST.get("typed_name", "").strip()
        if typed.replace(",", "") != wanted.replace(",", ""):
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
        page.counted_at = target.nodes
        return page

    def _perform(self, targets: Sequence[Target]) -> list[RowResult]:
        rows: list[RowResult] = []
        for first in range(0, len(targets), TOGETHER):
            rows += self._perform_together(targets[first : first + TOGETHER])
            if any(row.is_engine_silent for row in rows[first:]):
                # Each further one would wait for its deadline.
                sentence = "Not tried: the engine gave no answer to those before."
                rows += [
                    RowResult(left, None, ActResult(FAILED, sentence, "ENGINE_BUSY")) for left in targets[len(rows) :]
                ]
                break
        return rows

    def _perform_together(self, targets: Sequence[Target]) -> list[RowResult]:
        rows: dict[str, RowResult] = {}
        wanted: list[tuple[Target, ActPage, dict[str, Any]]] = []
        for target in targets:
            page = self._one(target)
            try:
                details = page.details()
            except (ComplaintError, NotThereError) as exc:
                rows[target.name] = RowResult(target, page, ActResult(FAILED, str(exc)))
                continue
            # The number of messages that the question counted: the engine counts again.
            expected = {} if target.expected is None else {"expected": target.expected}
            wanted.append((target, page, {**details, **expected}))
        results = perform_together([(page, details) for _, page, details in wanted])
        for (target, page, _), result in zip(wanted, results, strict=True):
            rows[target.name] = RowResult(target, page, result)
        return [rows[target.name] for target in targets]

    def _lines(self, selected: Iterable[tuple[str, Sequence[str]]]) -> str:
        """A selection as a form has it, of lines with the nodes of each; empty for this server alone."""
        lines: list[str] = []
        before = ""
        for line, nodes in selected:
            at = " ".join([_AT, *(nodes or [self.gateway.node().name])])
            lines += [line] if at == before else [at, line]
            before = at
        return "\n".join(lines)

    def _answer(self, rows: list[RowResult]) -> HttpResponse:
        done = [row for row in rows if row.is_done]
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
            return JsonResponse({"ok": len(done) == len(rows), "done": len(done), "results": results})
        left = [row for row in rows if not row.is_done]
        count = counted(len(rows), self._noun)
        undo = ACTS[self.action].undo
        undone = [row for row in done if row.undo_url] if undo in KINDS else []
        context = {
            "title": f"{self.kind.past} {f'{len(done):,} of ' if left else ''}{count}",
            "parts": [
                (part[:SHOWN_MAX], len(part) - SHOWN_MAX, words)
                for part, words in ((left, "more are not done"), (done, "more are done"))
            ],
            "close_url": self._cancel_url([row.target for row in rows]),
            # Failed ones stay selected, so that the user can try again.
            "again": "\n".join(row.target.name for row in left),
            "nodes": "\n".join(self._node_names),
            "again_count": len(left),
            "again_url": reverse(f"bulk_{self.action}"),
            "verb": self.kind.verb,
            "undo": self._lines((row.target.name, row.undo_nodes) for row in undone) if len(undone) > 1 else "",
            "undo_count": counted(len(undone), self._noun),
            "undo_url": reverse(f"bulk_{undo}") if undone else "",
            "undo_verb": KINDS[undo].verb if undone else "",
            "trash_url": reverse("trash") if len(done) > SHOWN_MAX and self.kind.is_dangerous else "",
        }
        template = "acts/_bulk_results.html" if wants_fragment(self.request) else "acts/bulk_results.html"
        return render(self.request, template, context)


@dataclass(frozen=True, slots=True)
class _Held:
    """The messages of a topic or channel at this moment and its nodes, in words and as counts."""

    words: str
    count: int = 0
    clients: int = 0
    is_there: bool = False
    nodes: tuple[str, ...] = ()  # empty for this server alone
