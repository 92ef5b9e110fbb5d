"""Nodes: every node that the console calls with its state, the nsqlookupds that name them, and their addresses."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from admin_console.cluster.cluster import Cluster, NotChangedError, get_cluster
from admin_console.cluster.nodes import Answers, ClusterState, Lookupd, Node
from admin_console.cluster.options import Addresses
from admin_console.gateway.gateway import DONE, FAILED, ActResult, EngineSnapshot, full_version, get_gateway
from admin_console.views.act_page import ActPage, ComplaintError, NotThereError
from admin_console.views.question import Field, Question
from admin_console.views.standing import stands
from admin_console.vocabulary import units

_TEXT_LENGTH_MAX = 20_000  # of a form's field: some hundred addresses


@dataclass(frozen=True, slots=True)
class NodeLine:
    """One node as a row. Figures are "–" where they are unknown. tone: of the state's chip. lookups: at how many of the
    nsqlookupds it is registered; "" without any. note: the sentence under the name."""

    name: str
    host: str
    state: str
    tone: str
    product: str
    lookups: str
    misses_lookups: bool
    topics: str
    clients: str
    depth: str
    messages: str
    answered: str
    answered_at: str
    note: str


@dataclass(frozen=True, slots=True)
class LookupdLine:
    address: str
    state: str
    tone: str
    nodes: str
    answered: str
    answered_at: str
    note: str


@require_safe
@stands("set_addresses", "The addresses of nodes")
def nodes_page(request: HttpRequest) -> HttpResponse:
    snapshot = get_gateway().snapshot()
    cluster = get_cluster()
    state = ClusterState() if cluster is None else cluster.state
    lines = [_own_line(state, snapshot)] if snapshot is not None else []
    lines += [_line(node, state) for node in state.nodes]
    context = {
        "lines": lines,
        "gone": [_gone_line(node) for node in state.gone],
        "lookupds": [_lookupd_line(one) for one in state.lookupds],
        "summary": _summary(state, has_own=snapshot is not None),
        "has_notes": any(line.note for line in lines),
        "has_addresses": state.addresses.has_any,
    }
    return render(request, "pages/nodes.html", context)


def _summary(state: ClusterState, *, has_own: bool) -> str:
    called = len(state.called) + has_own
    answering = len(state.answering) + has_own
    words = [units.plural(called, "node") if answering == called else f"{answering} of {called} nodes answer"]
    if state.lookupds:
        words.append(units.plural(len(state.lookupds), "nsqlookupd"))
    return " · ".join(words)


def _own_line(state: ClusterState, snapshot: EngineSnapshot) -> NodeLine:
    """The engine of this process, whose figures need no call."""
    channels = [channel for topic in snapshot.topics for channel in topic.channels]
    lookups = {lookupd for member in state.embedded for lookupd in member.registrations}
    taken_ms = snapshot.taken_at_ns // 1_000_000
    return NodeLine(
        name=get_gateway().node().http_address,
        host="this server",
        state="",
        tone="",
        product=f"Penstock {full_version()}",
        lookups=_share(len(lookups), state),
        misses_lookups=False,
        topics=units.number(len(snapshot.topics)),
        clients=units.number(sum(channel.client_count for channel in channels)),
        depth=units.number(sum(one.depth for one in snapshot.topics) + sum(one.depth for one in channels)),
        messages=units.number(sum(topic.message_count for topic in snapshot.topics)),
        answered=_ago(taken_ms),
        answered_at=units.moment(taken_ms),
        note="",
    )


def _line(node: Node, state: ClusterState) -> NodeLine:
    info, stats, member = node.info, node.stats, node.member
    word, tone, note = _state_of(node.answers)
    if member.refusal:
        word, tone, note = "not called", "warning", f"{member.refusal[0].upper()}{member.refusal[1:]}."
    registration = member.registration
    topics = list(stats.topics.values()) if stats is not None else []
    channels = [channel for topic in topics for channel in topic.channels.values()]
    waiting = [*(one.figures for one in topics), *(one.figures for one in channels)]
    is_known = stats is not None
    product = info.product if info is not None else f"nsqd {registration.version}" if registration is not None else ""
    host = info.identity.hostname if info is not None else registration.hostname if registration is not None else ""
    looked_up = bool(member.registrations)
    # A silent nsqlookupd counts with its last answer, which may lack a new node.
    answering = [one.address for one in state.lookupds if one.answers.is_answering]
    return NodeLine(
        name=node.name,
        host=host if host != member.named.host else "",
        state=word,
        tone=tone,
        product=product or units.UNKNOWN,
        lookups=_share(len(member.registrations), state),
        misses_lookups=looked_up and any(one not in member.registrations for one in answering),
        topics=units.number(len(topics) if is_known else None),
        clients=units.number(_sum(channel.figures["client_count"] for channel in channels) if is_known else None),
        depth=units.number(_sum(figures["depth"] for figures in waiting) if is_known else None),
        messages=units.number(_sum(topic.figures["message_count"] for topic in topics) if is_known else None),
        answered=_ago(node.answers.answered_at_ms),
        answered_at=units.moment(node.answers.answered_at_ms) if node.answers.answered_at_ms else "",
        note=note,
    )


def _gone_line(node: Node) -> tuple[str, str, str]:
    """Its name, for how long no nsqlookupd names it, and since when."""
    return node.name, _ago(node.gone_since_ms), units.moment(node.gone_since_ms)


def _lookupd_line(lookupd: Lookupd) -> LookupdLine:
    word, tone, note = _state_of(lookupd.answers)
    if lookupd.unusable and not note:
        note = f"{units.plural(lookupd.unusable, 'entry', 'entries')} of its answer can't be used."
    at_ms = lookupd.answers.answered_at_ms
    return LookupdLine(
        str(lookupd.address),
        word,
        tone,
        units.number(lookupd.node_count if at_ms else None),
        _ago(at_ms),
        units.moment(at_ms) if at_ms else "",
        note,
    )


def _state_of(answers: Answers) -> tuple[str, str, str]:
    """A word, its tone, and why."""
    if answers.error:
        return f"not answering for {_ago(answers.failing_since_ms)}", "danger", f"{answers.error}."
    return ("", "", "") if answers.answered_at_ms else ("not read yet", "", "")


def _sum(figures: Iterable[int | None]) -> int | None:
    """None where one of them is unknown: a part is no total."""
    total = 0
    for one in figures:
        if one is None:
            return None
        total += one
    return total


def _share(count: int, state: ClusterState) -> str:
    return f"{count} of {len(state.lookupds)}" if state.lookupds else ""


def _ago(unix_ms: int) -> str:
    return units.duration(max(0, units.now_ms() - unix_ms) / 1_000) if unix_ms else units.UNKNOWN


class SetAddresses(ActPage):
    """Which nsqlookupds and nodes the console calls, from now on."""

    routes = {"set_addresses": "nodes/~addresses/"}

    @property
    def page_url(self) -> str:
        return reverse("nodes")

    @property
    def name(self) -> str:
        return "the addresses of nodes"

    @property
    def cluster(self) -> Cluster:
        """Raises NotThereError."""
        cluster = get_cluster()
        if cluster is None:
            raise NotThereError("The console reads no nodes yet: it is starting or stopping.")
        return cluster

    def question(self) -> Question:
        addresses = self.cluster.state.addresses
        posted = self.request.POST
        lookupds = "\n".join(map(str, addresses.lookupds))
        nsqds = "\n".join(map(str, addresses.nsqds))
        return self.pose(
            "Change the addresses of nodes",
            [
                "The console calls these addresses from now on, also after a restart.",
                "A start with other values of --lookupd-http-address or --nsqd-http-address replaces them.",
                "Nodes themselves, their messages and their consumers are not touched.",
            ],
            [
                Field(
                    "lookupds",
                    "nsqlookupds",
                    kind="area",
                    rows=4,
                    value=posted.get("lookupds", lookupds)[:_TEXT_LENGTH_MAX],
                    length_max=_TEXT_LENGTH_MAX,
                    help="HTTP addresses, one a line, such as lookup-a:4161. All nodes that they name are shown.",
                ),
                Field(
                    "nsqds",
                    "Nodes",
                    kind="area",
                    rows=4,
                    value=posted.get("nsqds", nsqds)[:_TEXT_LENGTH_MAX],
                    length_max=_TEXT_LENGTH_MAX,
                    help="HTTP addresses of nodes that no nsqlookupd names, one a line, such as nsq-a:4151.",
                ),
            ],
            button="Change addresses",
        )

    def details(self) -> dict[str, Any]:
        texts = [self.request.POST.get(name, "").replace(",", " ").split() for name in ("lookupds", "nsqds")]
        try:
            return {"addresses": Addresses.parse(*texts)}
        except ValueError as exc:
            raise ComplaintError(*(f"{line}. Nothing was changed." for line in str(exc).splitlines()[:10])) from exc

    def audit_detail(self, details: dict[str, Any]) -> str:
        addresses: Addresses = details["addresses"]
        listed = (", ".join(map(str, one)) or "none" for one in (addresses.lookupds, addresses.nsqds))
        return "nsqlookupds: {}; nodes: {}".format(*listed)[:200]

    def do(self, details: dict[str, Any]) -> ActResult:
        return self.done_beside(lambda: self._change(details["addresses"]))

    def _change(self, addresses: Addresses) -> ActResult:
        try:
            self.cluster.change(addresses)
        except NotChangedError as exc:
            return ActResult(FAILED, str(exc))
        lookupds = units.plural(len(addresses.lookupds), "nsqlookupd")
        nodes = units.plural(len(addresses.nsqds), "node")
        return ActResult(DONE, f"Changed the addresses: the console now calls {lookupds} and {nodes}.")
