"""An act on a topic or channel that several nodes have: which of them, the question by node, and a result for each.

The nodes are those that the request names (`node`, of the link or the form), or all that have the topic or channel. A
node that can't do the act is left out, with the reason. The newest figures of the cluster say which nodes have it; this
server's own are read at this moment.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from admin_console.cluster.cluster import Cluster, get_cluster
from admin_console.cluster.merging.merged import TopicPlace
from admin_console.cluster.merging.node_figures import NO_TOPIC_ROW
from admin_console.cluster.merging.topic_sums import merged_topic
from admin_console.gateway.acting_nodes import ActingNode, EmbeddedNode, acting_nodes, has_engine
from admin_console.gateway.fan_out import NodeResult, delete_in_order, fan_out, summary
from admin_console.gateway.gateway import DONE, FAILED, ActOrder, ActResult, ChannelStats, Gateway, TopicStats
from admin_console.gateway.held import has_grown, now_and_then
from admin_console.gateway.node_requests import why_node_can_not
from admin_console.gateway.sentences import counted, further_unable, in_one_phrase, message_counts
from admin_console.hub.hub import get_hub
from admin_console.views.question import NodeRow, Question
from admin_console.vocabulary import units
from admin_console.vocabulary.form_limits import NODES_MAX

if TYPE_CHECKING:
    from admin_console.cluster.reading.nodes import Node

NODE = "node"  # the field, or the parameter of a link, with the name of a node; several times for several
# Acts on topics and channels that a page can have other nodes do.
ON_NODES = frozenset(
    f"{verb}_{scope}" for verb in ("delete", "empty", "pause", "unpause", "retry") for scope in ("topic", "channel")
) | {
    "create_channel",
    "publish",
    "requeue_channel",
    "release_deferred",
    "set_max_attempts",
    "rewind_channel",
    "redrive_channel",
    "cancel_redrive",
}
# On single messages: at the node that the request names.
ON_MESSAGES = frozenset(f"{verb}_messages" for verb in ("finish", "requeue", "release", "quarantine", "redrive")) | {
    "publish_again"
}
ON_ONE = frozenset({"publish"})  # on one node at a time
CREATES = "create_topic"  # on nodes that do not have it: any of the cluster
_REASONS_MAX = 3
_OF_NSQD = re.compile(r"(.* is an nsqd and )(.*?)(\. .*|\.)")


@dataclass(frozen=True, slots=True)
class Holder:
    """A node that has the topic or channel. place: its topic; of this server as it is at this moment."""

    place: TopicPlace
    node: ActingNode

    @property
    def name(self) -> str:
        return self.place.node

    def stats(self, channel: str) -> TopicStats | ChannelStats:
        """Of the topic, or of its channel."""
        found = self.place.of(channel)
        assert found is not None
        return found.stats


class OnNodes:
    """The nodes of one act. left_out: why each of the others takes no part, without a full stop."""

    def __init__(
        self, cluster: Cluster | None, action: str, holders: Sequence[Holder], channel: str, wanted: Collection[str]
    ) -> None:
        """cluster: None on a server without one. wanted: the names of nodes that the request names; empty for all."""
        self._cluster = cluster
        self._action = action
        self._channel = channel
        self._holders = holders
        self.left_out: dict[str, str] = {}
        self.chosen: list[Holder] = []
        self.able: list[Holder] = []  # the chosen ones, and those that are not ticked
        self.results: list[NodeResult] = []
        # A form whose nodes are all unticked names "" alone.
        for holder in holders:
            is_wanted = not wanted or holder.name in wanted
            if not (reason := holder.node.why_not(action)):
                self.able.append(holder)
                self.chosen += [holder] if is_wanted else []
            elif is_wanted:
                self.left_out[holder.name] = reason
        for name in sorted({*wanted} - {"", *(holder.name for holder in holders)}):
            self.left_out[name] = f"{name[:80]} does not have it"
        if action in ON_ONE:
            # This server, else one that answers.
            self.chosen.sort(key=lambda one: (not one.place.is_embedded, not one.place.is_answering))
            self.chosen = self.chosen[:1]
        # A form that names none has unticked all.
        self.is_none_ticked = not self.chosen and not self.left_out

    @property
    def names(self) -> tuple[str, ...]:
        """Those that the question is about: with the ones that can't do it, and no other."""
        return (*(holder.name for holder in self.chosen), *self.left_out)

    @cached_property
    def chosen_names(self) -> frozenset[str]:
        return frozenset(holder.name for holder in self.chosen)

    @property
    def is_all(self) -> bool:
        """Whether no other node has it."""
        return len(self.chosen) == len(self._holders)

    @property
    def has_lookupds(self) -> bool:
        """Whether nodes are looked up at any."""
        return self._cluster is not None and bool(self._cluster.state.lookupds)

    @property
    def has_own(self) -> bool:
        """Whether this server is one of them."""
        return any(holder.place.is_embedded for holder in self.chosen)

    @cached_property
    def topic(self) -> TopicStats | None:
        """Merged over the chosen ones; None where no node has it."""
        places = [holder.place for holder in self.chosen or self._holders]
        return merged_topic(places[0].stats.topic_name, places) if places else None

    @property
    def where(self) -> str:
        """` on 3 nodes`, ` on nsq-b2:4151`."""
        names = [holder.name for holder in self.chosen]
        return f" on {names[0]}" if len(names) == 1 else f" on {counted(len(names), 'node')}"

    # The question.

    def posed(self, question: Question, rows: Sequence[NodeRow]) -> Question:
        """The question of the act, with its nodes."""
        if not self.chosen and not (self.is_none_ticked and rows):
            return replace(question, consequences=self.reasons(), fields=[], button="", is_dangerous=False)
        if not question.button:
            return question
        return replace(
            question,
            # Of a new topic the rows that are not ticked are there, too.
            title=question.title + (self.where if self.chosen and self._action != CREATES else ""),
            button=question.button + (f" on {rows[0].name}" if len(rows) == 1 else " on the ticked nodes"),
            consequences=[
                *question.consequences,
                # The form's boxes change no sentence.
                *(["A node that you untick is left as it is."] if len(rows) > 1 and question.is_dangerous else []),
                *self.reasons(),
            ],
            nodes=list(rows),
        )

    def too_many(self, question: Question) -> Question:
        """A question about more nodes than a form names."""
        sentence = (
            f"{len(self.chosen):,} nodes are concerned, and a form names {NODES_MAX:,} at most. Tick up to "
            f"{NODES_MAX:,} rows of the table of nodes on the page, and act on those. Nothing was done."
        )
        return replace(question, consequences=[sentence], fields=[], button="", is_dangerous=False)

    def reasons(self) -> list[str]:
        """Why nodes are left out, a sentence each, different reasons first; the last one counts those beyond three."""
        first = {reason.removeprefix(name): reason for name, reason in reversed(self.left_out.items())}
        texts = [f"{reason}." for reason in sorted(self.left_out.values(), key=lambda one: one not in first.values())]
        return [*texts[:_REASONS_MAX], *filter(None, [further_unable(max(0, len(texts) - _REASONS_MAX))])]

    def words_of(self, holder: Holder) -> str:
        """Its messages and consumers."""
        if self._action == CREATES:
            return self._words_of_maker(holder.place)
        place, one = holder.place, holder.stats(self._channel)
        if not place.is_answering:
            if not place.read_at_ms:
                return "it does not answer"
            ago = units.duration(max(0, units.now_ms() - place.read_at_ms) / 1000)
            return f"it does not answer; it had {_held(one)} {ago} ago"
        paused = ", paused" if one.paused else ""
        own = " (this server)" if place.is_embedded else ""
        return f"{_held(one)}{paused}{own}"

    def _words_of_maker(self, place: TopicPlace) -> str:
        if place.is_embedded:
            return "this server"
        return "it answers" if place.is_answering else "it does not answer"

    # The act.

    def do(
        self, order: ActOrder, expected: Mapping[str, int], own: Mapping[str, Mapping[str, Any]] | None = None
    ) -> ActResult:
        """Have all of them do it. expected: by node, the messages that the question counted there; a question that
        counted those of all together has them in the order. own: by node, details of it alone."""
        if not expected and (complaint := self._complaint_about_counts(order)):
            return ActResult(FAILED, complaint, "COUNTS_CHANGED")
        orders = [
            (holder.node, self._order_of(holder, order, expected, (own or {}).get(holder.name, {})))
            for holder in self.chosen
        ]
        if self._cluster is not None and order.action in ("delete_topic", "delete_channel"):
            self.results = delete_in_order(self._cluster, orders, is_everywhere=self.is_all)
        else:
            self.results = fan_out(orders)
        return self._result_of_one(self.results[0]) if len(self.results) == 1 else summary(order, self.results)

    def _result_of_one(self, one: NodeResult) -> ActResult:
        """Its sentence names the node where others have it, too."""
        is_named = len(self._holders) == 1 or one.node in one.result.message
        return one.result if is_named else replace(one.result, message=f"{one.node}: {one.result.message}")

    def _complaint_about_counts(self, order: ActOrder) -> str:
        expected = order.details.get("expected")
        if expected is None:
            return ""
        is_all = order.action == "delete_topic" or order.details.get("channels_too")
        count = sum(
            messages_in_all(one.place.stats) if is_all else messages_in(one.stats(self._channel)) for one in self.chosen
        )
        if not has_grown(count, expected):
            return ""
        name = f"{order.topic}/{order.channel}" if order.channel else order.topic
        return f"Nothing was done to {name}: {now_and_then(count, expected)}."

    def _order_of(
        self, holder: Holder, order: ActOrder, expected: Mapping[str, int], own: Mapping[str, Any]
    ) -> ActOrder:
        details = {name: value for name, value in order.details.items() if name != "expected"} | dict(own)
        if holder.name in expected:
            details["expected"] = expected[holder.name]
        return replace(order, details=details)

    @property
    def own_result(self) -> ActResult | None:
        """This server's; None where it took no part."""
        own = {holder.name for holder in self.chosen if holder.place.is_embedded}
        return next((one.result for one in self.results if one.node in own), None)

    def left(self) -> list[str]:
        """The nodes that did not do it."""
        return [one.node for one in self.results if one.result.verdict != DONE]


def on_nodes(gateway: Gateway, action: str, topic: str, channel: str, wanted: Collection[str]) -> OnNodes | None:
    """None where this server alone is concerned: no other node has it, and the request names none. An act that names
    another node never goes to this server instead, though that node has lost the topic or left the cluster."""
    if action == CREATES:
        return _makers(gateway, wanted)
    if action not in ON_NODES | ON_MESSAGES or (action in ON_MESSAGES and not any(wanted)):
        return None
    cluster, live = get_cluster(), get_hub().live
    merged = live.cluster if live is not None else None
    holders: list[Holder] = []
    if cluster is not None and merged is not None:
        nodes = {node.name: node for node in merged.state.nodes}
        places = [place for place in merged.by_topic.get(topic, ()) if place.of(channel) is not None]
        others = [place for place in places if not place.is_embedded and place.node in nodes]
        holders = [_remote(place, nodes[place.node], cluster) for place in others]
    if not holders and (not wanted or {*wanted} - {""} == {gateway.node().name}):
        return None
    own = [one for one in gateway.exact(topic).topics if one.topic_name == topic] if has_engine(gateway) else []
    if own:
        taken = TopicPlace.of_engine(gateway.node().name, own[0], units.now_ms())
        if taken.of(channel) is not None:
            holders.insert(0, Holder(taken, EmbeddedNode(gateway)))
    return OnNodes(cluster, action, sorted(holders, key=lambda one: one.name), channel, wanted)


def _makers(gateway: Gateway, wanted: Collection[str]) -> OnNodes | None:
    """The nodes that can make a new topic, this server ticked where the request names none; None where there is no
    other."""
    cluster, own = get_cluster(), gateway.node().name
    if cluster is None or not cluster.state.called:
        return None
    answering = {node.name for node in cluster.state.answering} | {own}
    nodes = {node.name: node for node in acting_nodes(gateway).values()}
    holders = [
        Holder(TopicPlace("", name, name == own, name in answering, 0, None, 0, NO_TOPIC_ROW, {}, {}), node)
        for name, node in sorted(nodes.items())
    ]
    return OnNodes(cluster, CREATES, holders, "", wanted or [own])


@dataclass(frozen=True, slots=True)
class Doers:
    """The nodes that an act's button is about. count: how many of them can do it; 0 for one that is no matter of nodes.
    why_not: why none can, a sentence; "" where one can."""

    count: int
    why_not: str = ""

    @property
    def where(self) -> str:
        """Behind the button's label."""
        return f" on {counted(self.count, 'node')}" if self.count else ""


def doers_of(gateway: Gateway, action: str, topic: str, channel: str) -> Doers | None:
    """By the newest figures; None where this server alone has the topic or channel."""
    live = get_hub().live
    if live is None or live.cluster is None:
        return None
    places = live.cluster.places(topic, channel)
    if all(place.is_embedded for place in places):
        return None
    nodes = {node.name: node for node in live.cluster.state.nodes}
    has_own = any(place.is_embedded for place in places) and has_engine(gateway)
    others = [nodes[place.node] for place in places if place.node in nodes]
    reasons = [reason for node in others if (reason := why_node_can_not(node, action))]
    if action not in ON_NODES:
        reasons = reasons or [f"{node.name} does this at its own console alone" for node in others]
        return Doers(0, "" if has_own else in_short(reasons))
    count = len(others) - len(reasons) + has_own
    is_counted = len(places) > 1 and action not in ON_ONE
    return Doers(count if is_counted else 0, "" if count else in_short(reasons))


def reasons_by_node(gateway: Gateway) -> dict[str, Callable[[str], str]]:
    """Node → of an act, why the node can't do it, without a full stop; "" where it can. This server and those that it
    reads; made once for a page of many nodes and acts."""
    cluster, own = get_cluster(), EmbeddedNode(gateway)
    nodes = cluster.state.nodes if cluster is not None else ()
    return {**{node.name: partial(why_node_can_not, node) for node in nodes}, own.name: own.why_not}


def unable_nodes(why_not: Mapping[str, Callable[[str], str]], action: str, topic: str, channel: str) -> dict[str, str]:
    """Node → why it can't do the act, without a full stop; of the nodes that have the topic or channel by the newest
    figures. why_not: of `reasons_by_node`."""
    live = get_hub().live
    places = live.cluster.places(topic, channel) if live is not None and live.cluster is not None else ()
    found = {place.node: why_not[place.node](action) for place in places if place.node in why_not}
    return {name: reason for name, reason in found.items() if reason}


def in_short(reasons: Sequence[str]) -> str:
    return f"{reasons[0]}. {further_unable(len(reasons) - 1)}".strip() if reasons else ""


def all_in_words(reasons: Iterable[str]) -> list[str]:
    """Reasons why acts can't be done, as sentences: those of one nsqd share one."""
    phrases: dict[tuple[str, str], dict[str, None]] = {}
    for reason in filter(None, reasons):
        found = _OF_NSQD.fullmatch(reason)
        before, phrase, behind = found.groups() if found is not None else (reason, "", "")
        phrases.setdefault((before, behind), {})[phrase] = None
    return [f"{before}{in_one_phrase(found)}{behind}" for (before, behind), found in phrases.items()]


def _remote(place: TopicPlace, node: "Node", cluster: Cluster) -> Holder:
    # Here: a server without other nodes starts without an HTTP client.
    from admin_console.gateway.node_gateway import NodeGateway

    return Holder(place, NodeGateway(node, cluster))


def left_out(count: int) -> list[str]:
    """Of so many nodes that can create it, why a form does not list all."""
    if count <= NODES_MAX:
        return []
    return [f"A form lists {NODES_MAX:,} nodes at most: {count - NODES_MAX:,} further ones are left out."]


def names_in(texts: Iterable[str]) -> list[str]:
    """The names of nodes in fields, of which one may have several, a line each; "" for a field without any."""
    return [name for text in texts for name in text.splitlines() or [""]]


def with_nodes(url: str, names: Sequence[str]) -> str:
    """A link to a question about these nodes alone."""
    return f"{url}{'&' if '?' in url else '?'}{urlencode({NODE: names}, doseq=True)}" if url and names else url


def messages_in(one: TopicStats | ChannelStats) -> int:
    """Messages at a topic itself, or in a channel."""
    if isinstance(one, TopicStats):
        return one.depth
    return one.depth + one.in_flight_count + one.deferred_count + one.quarantined_count


def messages_in_all(topic: TopicStats) -> int:
    return topic.depth + sum(map(messages_in, topic.channels))


def _held(one: TopicStats | ChannelStats) -> str:
    if isinstance(one, TopicStats):
        channels = counted(len(one.channels), "channel")
        return f"{counted(messages_in_all(one), 'message')}, of these {one.depth:,} at the topic itself; {channels}"
    held = message_counts(one.depth, one.in_flight_count, one.deferred_count, one.quarantined_count) or "no messages"
    return f"{held}, {counted(one.client_count, 'consumer')}"
