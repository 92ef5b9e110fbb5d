"""The paths that act: on every node that has the topic or channel, with one audit row before and one after."""

import logging
from collections.abc import Sequence
from typing import Any, cast

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse

from admin_console.accounts.models import User
from admin_console.audit.models import Verdict
from admin_console.audit.record import begin_act, intent_of, record_refusal
from admin_console.gateway.acting_nodes import ActingNode, acting_nodes
from admin_console.gateway.fan_out import NodeResult, by_node, delete_in_order, fan_out, fault_of, summary
from admin_console.gateway.gateway import DONE, FAILED, ActOrder, ActResult, Asker, is_valid_name
from admin_console.hub.hub import get_hub
from admin_console.nsqadmin.answers import (
    complaint,
    not_found_upstream,
    refused_upstream,
    too_large,
    upstream,
    warned,
)
from admin_console.nsqadmin.callers import may_act
from admin_console.nsqadmin.cluster_now import ClusterNow
from admin_console.nsqadmin.go_json import GoJsonError, texts_in
from admin_console.nsqadmin.unknown import nothing_to_act_on
from admin_console.permissions.allowed import may_use

logger = logging.getLogger(__name__)

BODY_BYTES_MAX = 16 << 10
_MISSING = ("TOPIC_NOT_FOUND", "CHANNEL_NOT_FOUND")
_ACTIONS = {"pause": "pause", "unpause": "unpause", "empty": "empty"}


class _RefusedError(Exception):
    """The request can't be carried out: its answer."""

    def __init__(self, response: HttpResponse) -> None:
        super().__init__()
        self.response = response


def create(request: HttpRequest) -> HttpResponse:
    """POST /api/topics: a topic, or a channel of it, at the nsqlookupds and on nodes."""
    try:
        topic, channel = _body(request, "topic", "channel")
        if not is_valid_name(topic):
            return complaint("INVALID_TOPIC", status=400)
        if channel and not is_valid_name(channel):
            return complaint("INVALID_CHANNEL", status=400)
        action = "create_channel" if channel else "create_topic"
        _check(request, action, topic, channel)
    except _RefusedError as exc:
        return exc.response
    now = ClusterNow()
    act = _Act(request, now, action, topic, channel)
    return act.do(lambda: act.create())


def act_on(request: HttpRequest, topic: str, channel: str = "") -> HttpResponse:
    """POST /api/topics/TOPIC[/CHANNEL]: pause, unpause, empty."""
    scope = "channel" if channel else "topic"
    try:
        (word,) = _body(request, "action")
        if word not in _ACTIONS:
            return complaint("INVALID_ACTION", status=400)
        action = f"{word}_{scope}"
        _check(request, action, topic, channel)
        _check_names(topic, channel)
    except _RefusedError as exc:
        return exc.response
    act = _Act(request, ClusterNow(), action, topic, channel)
    return act.do(act.on_holders)


def delete(request: HttpRequest, topic: str, channel: str = "") -> HttpResponse:
    """DELETE /api/topics/TOPIC[/CHANNEL], in the order of `fan_out.delete_in_order`."""
    action = "delete_channel" if channel else "delete_topic"
    try:
        _check(request, action, topic, channel)
        _check_names(topic, channel)
    except _RefusedError as exc:
        return exc.response
    act = _Act(request, ClusterNow(), action, topic, channel)
    return act.do(act.delete)


def tombstone(request: HttpRequest, node: str) -> HttpResponse:
    """DELETE /api/nodes/NODE: hide the node for a topic, and delete the topic there."""
    try:
        (topic,) = _body(request, "topic", code="INVALID_BODY")
        if not is_valid_name(topic):
            return complaint("INVALID_TOPIC", status=400)
        _check(request, "tombstone_producer", topic, "")
        _check(request, "delete_topic", topic, "")
    except _RefusedError as exc:
        return exc.response
    act = _Act(request, ClusterNow(), "tombstone_producer", topic, "", detail=f"{node}, and delete the topic there")
    return act.do(lambda: act.tombstone(node))


class _Act:
    """One act with its audit rows."""

    def __init__(
        self, request: HttpRequest, now: ClusterNow, action: str, topic: str, channel: str, *, detail: str = ""
    ) -> None:
        self._request = request
        self._now = now
        self._action = action
        self._topic = topic
        self._channel = channel
        self._detail = detail
        self._failures: list[str] = []  # of nodes and nsqlookupds that took no part
        self._lacking = 0  # nodes that have the topic, and not the channel
        self._lookupd_errors: list[str] = []

    def do(self, work: Any) -> HttpResponse:
        intent = intent_of(self._request, self._action, topic=self._topic, channel=self._channel, detail=self._detail)
        try:
            begun = begin_act(intent)
        except DatabaseError:
            logger.exception("intent not audited action=%s topic=%s", self._action, self._topic)
            return complaint("NOT_AUDITED: the audit list can't be written, and nothing was done", status=503)
        results: list[NodeResult] = []
        try:
            results = work()
            one = self._as_one(results)
        except Exception:
            one = fault_of(self._order())
            self._failures.append(one.message)
        get_hub().note_act()
        try:
            begun.finish(Verdict(one.verdict), one.message, one.counts, detail=by_node(results) or self._detail)
        except DatabaseError:
            logger.exception("result not audited action=%s topic=%s", self._action, self._topic)
        return self._answer(results)

    def _as_one(self, results: Sequence[NodeResult]) -> ActResult:
        if not results:
            return ActResult(FAILED, " ".join(self._failures) or "No node has it. Nothing was done.", "TOPIC_NOT_FOUND")
        return results[0].result if len(results) == 1 else summary(self._order(), results)

    def _answer(self, results: Sequence[NodeResult]) -> HttpResponse:
        failures = [
            *self._failures,
            *(_sentence_of(one) for one in results if one.result.verdict != DONE),
        ]
        lacking = [not_found_upstream("CHANNEL_NOT_FOUND")] * self._lacking
        if any(one.result.verdict == DONE for one in results):
            return warned({}, [*self._lookupd_errors, *failures, *lacking])
        if self._failures or any(one.result.code not in _MISSING for one in results):
            return upstream("nsqd", failures)
        if results or self._lacking or self._now.lists(self._topic):
            return warned({}, [*self._lookupd_errors, *failures, *lacking])
        return nothing_to_act_on(self._now)

    def _order(self, action: str = "") -> ActOrder:
        user = cast(User, self._request.user)
        return ActOrder(action or self._action, self._topic, self._channel, Asker(user.get_username()), {})

    def _holders(self) -> list[ActingNode]:
        """The nodes that have it at this moment."""
        found = self._now.figures(topic=self._topic)
        self._failures += found.failures
        having = found.having(self._topic).answers
        if self._channel and self._action != "create_channel":
            holders = [one for one in having if one.topics and self._channel in one.topics[self._topic].channels]
            self._lacking = len(having) - len(holders)
            having = tuple(holders)
        return self._acting(one.name for one in having)

    def _acting(self, names: Any) -> list[ActingNode]:
        acting = acting_nodes(self._now.gateway)
        return [acting[name] for name in names if name in acting]

    def on_holders(self) -> list[NodeResult]:
        order = self._order()
        self._lookupd_errors = self._now.lookupd_errors
        return fan_out([(node, order) for node in self._holders()])

    def delete(self) -> list[NodeResult]:
        holders, order = self._holders(), self._order()
        if not holders:
            # Its name may still stand at nsqlookupds.
            return self._forgotten()
        orders = [(node, order) for node in holders]
        return delete_in_order(self._now.cluster, orders, is_everywhere=not self._failures)

    def _forgotten(self) -> list[NodeResult]:
        if self._failures or not self._now.lists(self._topic):
            return []
        scope = "channel" if self._channel else "topic"
        return self._at_lookupds(f"/{scope}/delete")

    def create(self) -> list[NodeResult]:
        """A channel also on the nodes that have the topic. Without nsqlookupds, where nsqadmin does nothing: the topic
        on the engine of this process, else on every node."""
        results = self._at_lookupds("/channel/create" if self._channel else "/topic/create")
        holders = self._holders() if self._channel else []
        if not holders and not self._now.has_lookupds:
            own = self._now.own_name
            holders = self._acting([own] if own else [one.name for one in self._now.cluster.state.called])
            if not holders:
                self._failures.append("this cluster has no node")
        order = self._order()
        return [*results, *fan_out([(node, order) for node in holders])]

    def tombstone(self, node: str) -> list[NodeResult]:
        at = [one.address for one in self._now.lookupds if any(each.address.bare == node for each in one.nodes)]
        acting = self._acting([node])
        if not at and not acting:
            self._failures.append(f"{node} is no node of this cluster")
            return []
        results = self._at_lookupds("/topic/tombstone", node=node, at=at)
        order = self._order("delete_topic")
        return [*results, *fan_out([(one, order) for one in acting])]

    def _at_lookupds(self, path: str, *, node: str = "", at: Sequence[Any] | None = None) -> list[NodeResult]:
        query = {"topic": self._topic, "channel": self._channel, "node": node}
        addresses = [one.address for one in self._now.cluster.state.lookupds] if at is None else at
        outcomes = self._now.cluster.lookupds.act(addresses, path, {key: text for key, text in query.items() if text})
        return [
            NodeResult(
                one.address.bare,
                ActResult(FAILED, one.error, "UNREACHABLE") if one.error else ActResult(DONE, "Registered there."),
            )
            for one in outcomes
        ]


def _sentence_of(one: NodeResult) -> str:
    """Why a node did not do it: nsqadmin's words where the node has no such topic or channel."""
    if one.result.code in _MISSING:
        return not_found_upstream(one.result.code)
    return f"{one.node}: {one.result.message}"


def _body(request: HttpRequest, *names: str, code: str = "") -> list[str]:
    """The texts of the named fields. code: of a refusal; "" for Go's sentence."""
    if sentence := too_large(request.body, BODY_BYTES_MAX):
        raise _RefusedError(complaint(f"INVALID_REQUEST: {sentence}", status=413))
    try:
        return list(texts_in(request.body, names).values())
    except GoJsonError as exc:
        raise _RefusedError(complaint(code or str(exc), status=400)) from exc


def _check_names(topic: str, channel: str) -> None:
    """Names that no topic or channel can have: answered as unknown ones, without an act."""
    if is_valid_name(topic) and (not channel or is_valid_name(channel)):
        return
    now = ClusterNow()
    having = now.figures(topic=topic).having(topic).answers if is_valid_name(topic) else ()
    if having:
        raise _RefusedError(warned({}, [refused_upstream("INVALID_ARG_CHANNEL")] * len(having)))
    raise _RefusedError(nothing_to_act_on(now))


def _check(request: HttpRequest, action: str, topic: str, channel: str) -> None:
    user = cast(User, request.user)
    if not may_use(user, action) or not may_act(request, topic):
        why = "The caller may not do this over nsqadmin's interface."
        record_refusal(request, action, topic=topic, channel=channel, why=why)
        raise _RefusedError(complaint("FORBIDDEN", status=403))
