"""One act with the nodes that do it: checked, done, and audited before and after."""

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cached_property
from typing import Any

from django.db import DatabaseError
from django.http import HttpRequest
from django.views import View

from admin_console.answers import drafts
from admin_console.audit.models import AuditRow, Verdict
from admin_console.audit.record import ActInProgress, begin_act, intent_of, write_together
from admin_console.gateway.fan_out import DETAIL_LENGTH, by_node, fault_of
from admin_console.gateway.gateway import (
    FAILED,
    UNKNOWN,
    ActOrder,
    ActResult,
    Asker,
    ChannelStats,
    EngineUnavailableError,
    TopicStats,
    get_gateway,
)
from admin_console.gateway.sentences import within
from admin_console.views.on_nodes import NODE, Holder, OnNodes, names_in, on_nodes
from admin_console.views.question import SHOWN

logger = logging.getLogger(__name__)

STATE_CHANGED = "STATE_CHANGED"
NONE_TICKED = "No node is ticked. Nothing was done."


class ComplaintError(Exception):
    """The form was filled in wrongly; each text is a sentence. Nothing was done."""

    def __init__(self, *sentences: str) -> None:
        super().__init__(*sentences)
        self.sentences = sentences


class NotThereError(Exception):
    """The topic or channel is not there; the text is a sentence about it."""


def by_node_field(field: str) -> str:
    """The field with a number of each node that a question showed, a line `NODE NUMBER` each. field: its name for one
    server."""
    return f"{field}_by_node"


TOGETHER_MAX = 8  # acts of one request on other nodes, at once


class AuditedAct(View):
    """Base of the pages of acts. `action` is the URL's name, the audit's word and the permission table's key."""

    action = ""
    is_confirmed = False  # it was confirmed for all of a selection at once
    counted_at: tuple[str, ...] = ()  # the nodes that the question of a selection counted it at

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

    @cached_property
    def nodes(self) -> OnNodes | None:
        """The nodes that do the act; None where this server alone is concerned."""
        wanted = self.named_nodes()
        channel = self.channel if self.action != "create_channel" else ""
        return on_nodes(self.gateway, self.action, self.topic, channel, wanted)

    def named_nodes(self) -> Sequence[str]:
        """The nodes that the request names; empty for all."""
        return self.counted_at or names_in(self.request.POST.getlist(NODE)) or names_in(self.request.GET.getlist(NODE))

    # For subclasses to define.

    def details(self) -> dict[str, Any]:
        """The gateway's further arguments from the form. Raises ComplaintError, NotThereError."""
        return {}

    def details_at(self, holder: Holder) -> Mapping[str, Any]:
        """Further arguments for one node of several."""
        return {}

    def sent_by_node(self, field: str) -> Mapping[str, str]:
        """Node → the text of the form's field about it."""
        if field not in self._by_node:
            lines = self.request.POST.get(by_node_field(field), "").splitlines()
            self._by_node[field] = dict(line.rpartition(" ")[::2] for line in lines)
        return self._by_node[field]

    @cached_property
    def _by_node(self) -> dict[str, Mapping[str, str]]:
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
            return ActResult(FAILED, NONE_TICKED, "NOT_SUPPORTED")
        if not nodes.chosen:
            return ActResult(FAILED, f"Nothing was done to {self.name}. {' '.join(nodes.reasons())}", "NOT_SUPPORTED")
        order = self.order(details)
        texts = self.sent_by_node(self.expected_name())
        expected = {
            name: int(text)
            for name, text in texts.items()
            if name in nodes.chosen_names and text.isascii() and text.isdecimal() and len(text) < 16
        }
        own = {holder.name: self.details_at(holder) for holder in nodes.chosen}
        if not nodes.has_own:
            result = self.done_beside(lambda: nodes.do(order, expected, own))
        elif changed := self.gateway.changed_since(self.action, self.topic, self.channel, self.asker()):
            return ActResult(FAILED, f"{changed} Nothing was done.", STATE_CHANGED)
        else:
            result = nodes.do(order, expected, own)
        own_result = nodes.own_result
        self.note(result if own_result is None else own_result)
        return result

    def note(self, result: ActResult) -> None:
        """Store the part of the result that the undo needs."""

    def expected_name(self) -> str:
        """The name of the field with the count of the messages that the user chose to remove."""
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

    def intent(self, details: dict[str, Any]) -> AuditRow:
        """The audit row of the act that is about to be done."""
        names = [holder.name for holder in self.nodes.chosen] if self.nodes is not None else []
        on = f"on {within(names, DETAIL_LENGTH, ', ')}" if names else ""
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
        try:
            result = self.do(details)
        except (NotThereError, EngineUnavailableError) as exc:
            # They have pages of their own; the row gets its end all the same.
            verdict = FAILED if isinstance(exc, NotThereError) else UNKNOWN
            self.finish(act, ActResult(verdict, str(exc), "NOT_DONE"))
            raise
        except Exception:
            result = fault_of(ActOrder(self.action, self.topic, self.channel, self.asker(), {}))
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


def perform_together(wanted: Sequence[tuple[AuditedAct, dict[str, Any]]]) -> list[ActResult]:
    """Do acts of one request with these `details`, as `perform` does each: their audit rows are written in two writes
    instead of two for each. Where the disk refuses that, each is done for itself. Those of other nodes are done
    several at once: each waits for its nodes."""
    acts = [ActInProgress(page.intent(details)) for page, details in wanted]
    if not wanted or not write_together([act.intent for act in acts]):
        return [page.perform(details) for page, details in wanted]
    own = [(page, details) for page, details in wanted if page.nodes is None]
    results: dict[AuditedAct, ActResult] = {}
    if own:
        done = own[0][0].gateway.acts([page.order(details) for page, details in own])
        results |= {page: result for (page, _), result in zip(own, done, strict=True)}
    others = [(page, details) for page, details in wanted if page.nodes is not None]
    if others:
        with ThreadPoolExecutor(min(TOGETHER_MAX, len(others)), "penstock-acts-on-nodes") as threads:
            begun = [(page, threads.submit(copy_context().run, _done, page, details)) for page, details in others]
            results |= {page: future.result() for page, future in begun}
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


def _done(page: AuditedAct, details: dict[str, Any]) -> ActResult:
    """A fault of one act leaves the others their results, and each audit row its end."""
    try:
        return page.do(details)
    except Exception:
        return fault_of(page.order(details))
