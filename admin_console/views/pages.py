"""The pages without acts of their own: overview, topics, a topic, a channel, the pipeline, nodes, clients. The
socket updates them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.http import HttpResponse, HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import reverse

from admin_console.cluster.cluster import get_cluster
from admin_console.cluster.merging.merged import ClusterSnapshot
from admin_console.cluster.reading.nodes import ClusterState
from admin_console.gateway.acting_nodes import own_names
from admin_console.gateway.cluster_view import ClusterView, cluster_view
from admin_console.gateway.gateway import (
    EngineSnapshot,
    EngineUnavailableError,
    Gateway,
    get_gateway,
    why_not,
)
from admin_console.gateway.in_flight_list import InFlightList, in_flight_list
from admin_console.gateway.pipeline import PipelineView, get_pipeline
from admin_console.gateway.sentences import merged_sentences
from admin_console.graphs.empty_figures import KINDS, figures_json
from admin_console.history.picker import picker_of
from admin_console.history.ranges import now_s
from admin_console.history.table import table_of
from admin_console.hub.hub import LiveState, get_hub
from admin_console.permissions.allowed import CheckedRequest
from admin_console.screens.build import FIELD_LENGTH_MAX, LENGTHS_MAX, Request, build_screen
from admin_console.screens.partial import own_storage
from admin_console.views.act_buttons import BUTTONS
from admin_console.views.cluster_switch import first_page
from admin_console.views.on_nodes import ON_NODES, all_in_words, doers_of
from admin_console.views.page_cache import Rendered, cached_page
from admin_console.views.readers import why_unreadable
from admin_console.vocabulary.roles import Role

IN_FLIGHT_WAIT_S = 0.5  # of a page for other nodes; the socket brings the rest
PAGES_WITH_GRAPHS = frozenset({"overview", "topic", "channel"})


def overview(request: CheckedRequest) -> HttpResponse:
    if url := first_page():
        return HttpResponseRedirect(url)
    fields = {name: request.GET.get(name, "")[:FIELD_LENGTH_MAX] for name in ("q", "show", "sort", "number")}
    # The form of the graph's channels has a field for each.
    draw = ",".join(filter(None, request.GET.getlist("draw")))[: LENGTHS_MAX["draw"]]
    return _page(request, Request("overview", _role(request), **fields, draw=draw))


def topics(request: CheckedRequest) -> HttpResponse:
    fields = {
        name: request.GET.get(name, "")[:FIELD_LENGTH_MAX] for name in ("q", "show", "sort", "number", "by", "under")
    }
    return _page(request, Request("topics", _role(request), **fields))


def topic(request: CheckedRequest, topic: str) -> HttpResponse:
    sort = request.GET.get("sort", "")[:FIELD_LENGTH_MAX]
    return _page(request, Request("topic", _role(request), topic=topic, sort=sort))


def channel(request: CheckedRequest, topic: str, channel: str) -> HttpResponse:
    return _page(request, Request("channel", _role(request), topic=topic, channel=channel))


def pipeline(request: CheckedRequest) -> HttpResponse:
    return _page(request, Request("pipeline", _role(request)))


def replay(request: CheckedRequest, replay: str) -> HttpResponse:
    return _page(request, Request("replay", _role(request), replay=replay[:FIELD_LENGTH_MAX]))


def nodes(request: CheckedRequest) -> HttpResponse:
    fields = {name: request.GET.get(name, "")[:FIELD_LENGTH_MAX] for name in ("q", "show", "sort", "number")}
    return _page(request, Request("nodes", _role(request), **fields))


def counter(request: CheckedRequest) -> HttpResponse:
    return _page(request, Request("counter", _role(request)))


def node(request: CheckedRequest, node: str) -> HttpResponse:
    own = get_gateway().node().name
    if node != own and node in own_names(get_gateway()):
        return HttpResponseRedirect(reverse("node", args=(own,)))
    return _page(request, Request("node", _role(request), node=node))


def clients(request: CheckedRequest) -> HttpResponse:
    fields = {name: request.GET.get(name, "")[:FIELD_LENGTH_MAX] for name in ("q", "show", "sort", "number")}
    return _page(request, Request("clients", _role(request), **fields))


def client(request: CheckedRequest, node: str, client: str) -> HttpResponse:
    return _page(request, Request("client", _role(request), node=node, client=client))


def _role(request: CheckedRequest) -> Role:
    return Role(request.user.role)


def _page(request: CheckedRequest, page_request: Request) -> HttpResponse:
    gateway = get_gateway()
    if page_request.page == "channel":
        gateway.watch(page_request.topic, page_request.channel)
    elif page_request.page == "topic":
        gateway.watch("", "")
    view = get_pipeline(settings.DATA_PATH).view(page_request.replay) if page_request.wants_pipeline else None
    # A topic's page lives as long as the engine's figures on it: a second.
    basis: object = None if page_request.page == "topic" else view
    cluster = None
    if page_request.wants_cluster:
        cluster = cluster_view(with_clients=page_request.wants_clients, node=page_request.clients_of)
        basis = cluster.clients or cluster.state
    return cached_page(
        request, page_request, basis, lambda context: _rendered(request, page_request, gateway, view, cluster, context)
    )


def _rendered(
    request: CheckedRequest,
    page_request: Request,
    gateway: Gateway,
    view: PipelineView | None,
    cluster: ClusterView | None,
    filled: Mapping[str, Any],
) -> Rendered:
    """filled: overrides the template's context."""
    live = _fresh(gateway, page_request) if page_request.topic else _newest(gateway)
    in_flight = _in_flight(gateway, live, page_request)
    has_graphs = page_request.page in PAGES_WITH_GRAPHS
    picker = picker_of(page_request, request.GET, now_s(live), _nodes(gateway)) if has_graphs else None
    table = table_of(gateway.history(), live, page_request, picker.range) if picker and picker.wants_table else None
    screen = build_screen(
        page_request,
        live,
        in_flight=in_flight,
        http_address=gateway.node().http_address,
        pipeline=view,
        cluster=cluster,
    )
    context: dict[str, Any] = {
        "screen": screen.unbroken(),
        "age_ms": str(screen.age_ms),
        "age_text": screen.age_text,
        "topic": page_request.topic,
        "channel": page_request.channel,
        "replay": page_request.replay,
        "node": page_request.node,
        "client": page_request.client,
        "picker": picker,
        "range_table": table,
    }
    if screen.graphs:
        context["figures"] = figures_json(page_request.page)
        if any(graph.name in KINDS["nodes"] for graph in screen.graphs):
            context["figures"] = context["figures"] | figures_json("nodes")
    if screen.flags.get("gone"):
        context["deletion"] = (
            gateway.deletion_of(page_request.topic, page_request.channel) if page_request.topic else None
        )
        html = render_to_string("pages/gone.html", {**context, **filled}, request)
        return Rendered(html, 404, screen.taken_at_ms)
    cannot = context["cannot"] = _cannot(live, page_request)
    context["why_not"] = request.why_not.line(
        {
            button.act: button.words
            for button in BUTTONS.get(page_request.page, ())
            if not cannot.get(button.act) and (not button.when or screen.flags.get(button.when))
        }
    )
    html = render_to_string(f"pages/{page_request.page}.html", {**context, **filled}, request)
    return Rendered(html, 400 if picker and picker.complaint else 200, screen.taken_at_ms)


def _nodes(gateway: Gateway) -> Mapping[str, str]:
    """Node, as samples name it, → its name on pages, of those that may have samples; none while this server stands
    alone."""
    cluster = get_cluster()
    state = ClusterState() if cluster is None else cluster.state
    others = {node.name: node.name for node in (*state.called, *state.gone) if node.info is not None}
    node = gateway.node()
    own = {node.broadcast_address: f"{node.name} (this server)"} if node.broadcast_address else {}
    return own | others if others else {}


def _cannot(live: LiveState | None, page_request: Request) -> Mapping[str, Any]:
    """Act → why the topic's kind or nodes can't do it; and the same `sentences`, for readers without a pointer."""
    topic = live.topics.get(page_request.topic) if live and page_request.page in ("topic", "channel") else None
    if live is None or topic is None:
        return {}
    storage = own_storage(live, topic)  # "" where it is at other nodes alone
    names = [name for name in (page_request.topic, page_request.channel) if name]
    acts = [button.act for button in BUTTONS[page_request.page]]
    of_kind = {act: why_not(act, storage, *names) for act in acts} if storage else {}
    doers = {act: doers_of(get_gateway(), act, page_request.topic, page_request.channel) for act in acts}
    of_nodes = {act: found.why_not for act, found in doers.items() if found is not None}
    # Another node may do acts that this server's kind of topic can't.
    of_kind = {act: reason for act, reason in of_kind.items() if act not in of_nodes or act not in ON_NODES}
    reads = {"read_messages": why_unreadable(page_request.topic)} if page_request.page == "topic" else {}
    sentences = [
        *merged_sentences([*reads.values(), *of_kind.values()]),
        *all_in_words(dict.fromkeys(of_nodes.values())),
    ]
    return {**reads, **of_kind, **{act: reason for act, reason in of_nodes.items() if reason}, "sentences": sentences}


def _newest(gateway: Gateway) -> LiveState | None:
    """The hub's live state; before the first one, the engine's own newest figures without any history."""
    live = get_hub().live
    if live is not None:
        return live
    snapshot = gateway.snapshot()
    return LiveState(snapshot, {}) if snapshot else None


def _fresh(gateway: Gateway, page_request: Request) -> LiveState | None:
    """The topic as it is at this moment, so that the page after an act shows its result.

    Consumers and producers come from the newest snapshot; the engine reports them only there.
    """
    newest = _newest(gateway)
    if newest is not None and newest.cluster is not None and _is_elsewhere(newest.cluster, page_request.topic):
        return newest  # the figures of other nodes come with their next answers
    try:
        exact = gateway.exact(page_request.topic)
    except EngineUnavailableError:
        return newest
    if newest is None:
        return LiveState(exact, {})
    return LiveState(
        _with_clients(exact, newest),
        newest.rings,
        newest.second,
        newest.states,
        newest.diagnoses,
        takes_turns=False,
        cluster=newest.cluster,
        node_rings=newest.node_rings,
    )


def _is_elsewhere(cluster: ClusterSnapshot, topic: str) -> bool:
    """Whether another node has it, too."""
    return any(not place.is_embedded for place in cluster.places(topic))


def _with_clients(exact: EngineSnapshot, newest: LiveState) -> EngineSnapshot:
    topics = tuple(
        replace(
            stats,
            channels=tuple(
                replace(channel, clients=old.clients)
                if (old := newest.channels.get((stats.topic_name, channel.channel_name))) and old.clients
                else channel
                for channel in stats.channels
            ),
        )
        for stats in exact.topics
    )
    return replace(exact, topics=topics, producers=newest.snapshot.producers, sequence=newest.snapshot.sequence)


def _in_flight(gateway: Gateway, live: LiveState | None, page_request: Request) -> InFlightList | None:
    if not page_request.wants_in_flight:
        return None
    topic, channel = page_request.topic, page_request.channel
    return in_flight_list(gateway, live.cluster if live else None, topic, channel, wait_s=IN_FLIGHT_WAIT_S)
