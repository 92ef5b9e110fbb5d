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
from admin_console.cluster.totals import NodeSums, Total
from admin_console.gateway.gateway import DONE, FAILED, ActResult, EngineSnapshot, full_version, get_gateway
from admin_console.screens.cells import Cell
from admin_console.screens.parts import Stat
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
    is_silent: bool = False


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
    own = None if snapshot is None else _own_sums(snapshot)
    lines = [_own_line(state, own, snapshot)] if snapshot is not None and own is not None else []
    lines += [_line(node, state) for node in state.nodes]
    context = {
        "lines": lines,
        "strip": {"stats": _stats(state, own)} if state.addresses.has_any else None,
        "gone": [_gone_line(node) for node in state.gone],
        "lookupds": [_lookupd_line(one) for one in state.lookupds],
        "summary": _summary(state, has_own=own is not None),
        "has_notes": any(line.note for line in lines),
        "has_addresses": state.addresses.has_any,
        "has_own": own is not None,
    }
    return render(request, "pages/nodes.html", context)


def _summary(state: ClusterState, *, has_own: bool) -> str:
    words = [units.plural(len(state.called) + has_own, "node")]
    if state.lookupds:
        words.append(units.plural(len(state.lookupds), "nsqlookupd"))
    return " · ".join(words)


def _stats(state: ClusterState, own: NodeSums | None) -> list[Stat]:
    """The whole cluster. A node that does not answer now makes a total partial, whatever it answered last."""
    silent = [node for node in state.called if not node.answers.is_answering]
    count = len(state.called) + (own is not None)
    parts = [own] if own is not None else []
    parts += [NodeSums.of(node.stats) for node in state.answering if node.stats is not None]
    unknown = [None] * len(silent)

    def stat(name: str, label: str, note: str, values: Iterable[int | None]) -> Stat:
        total = Total.of([*values, *unknown])
        text = f"≥ {units.number(total.count)}" if total.is_partial else units.number(total.count)
        return Stat(name, label, Cell(text), Cell(note))

    note = Cell(f"of {count}")
    if silent:
        longest = min(silent, key=lambda node: node.answers.failing_since_ms or units.now_ms())
        ago = _ago(longest.answers.failing_since_ms)
        note = Cell(f"of {count} · {longest.name} silent for {ago}"[:60], tone="danger" if ago != units.UNKNOWN else "")
    return [
        Stat("answering", "Answering", Cell(units.number(count - len(silent))), note),
        stat("depth", "Depth", "at topics and in channels", [one.depth for one in parts]),
        stat("messages", "Messages", "published since each start", [one.messages for one in parts]),
        stat("clients", "Clients", "consumers of all channels", [one.clients for one in parts]),
    ]


def _own_sums(snapshot: EngineSnapshot) -> NodeSums:
    """Those of the engine of this process, whose figures need no call."""
    channels = [channel for topic in snapshot.topics for channel in topic.channels]
    return NodeSums(
        len(snapshot.topics),
        sum(channel.client_count for channel in channels),
        sum(topic.depth for topic in snapshot.topics) + sum(channel.depth for channel in channels),
        sum(topic.message_count for topic in snapshot.topics),
    )


def _own_line(state: ClusterState, sums: NodeSums, snapshot: EngineSnapshot) -> NodeLine:
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
        topics=units.number(sums.topics),
        clients=units.number(sums.clients),
        depth=units.number(sums.depth),
        messages=units.number(sums.messages),
        answered=_ago(taken_ms),
        answered_at=units.moment(taken_ms),
        note="",
    )


def _line(node: Node, state: ClusterState) -> NodeLine:
    """A silent node keeps its last counts, which are muted; its depth is unknown."""
    info, member, registration = node.info, node.member, node.member.registration
    word, tone, note = _state_of(node.answers)
    if member.refusal:
        word, tone, note = "not called", "warning", f"{member.refusal[0].upper()}{member.refusal[1:]}."
    sums = None if node.stats is None else NodeSums.of(node.stats)
    is_answering = node.answers.is_answering
    product = info.product if info is not None else f"nsqd {registration.version}" if registration is not None else ""
    host = info.identity.hostname if info is not None else registration.hostname if registration is not None else ""
    # A silent nsqlookupd counts with its last answer, which may lack a new node.
    answering = [one.address for one in state.lookupds if one.answers.is_answering]
    return NodeLine(
        name=node.name,
        host=host if host != member.named.host else "",
        state=word,
        tone=tone,
        product=product or units.UNKNOWN,
        lookups=_share(len(member.registrations), state),
        misses_lookups=bool(member.registrations) and any(one not in member.registrations for one in answering),
        topics=units.number(sums.topics if sums else None),
        clients=units.number(sums.clients if sums else None),
        depth=units.number(sums.depth if sums and is_answering else None),
        messages=units.number(sums.messages if sums and is_answering else None),
        answered=_ago(node.answers.answered_at_ms),
        answered_at=units.moment(node.answers.answered_at_ms) if node.answers.answered_at_ms else "",
        note=note,
        is_silent=not is_answering,
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
