"""Builds the screen of a page, for the views and for the socket."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from admin_console.gateway.cluster_view import ClusterView
from admin_console.gateway.gateway import EngineSnapshot
from admin_console.gateway.in_flight_list import InFlightList
from admin_console.hub.hub import LiveState
from admin_console.screens import (
    channel,
    client,
    clients,
    counter,
    differences,
    node,
    nodes,
    overview,
    partial,
    replay,
    topic,
    topics,
)
from admin_console.screens import pipeline as pipeline_screen
from admin_console.screens.list_links import ListQuery
from admin_console.screens.parts import Screen
from admin_console.vocabulary.roles import Role

if TYPE_CHECKING:
    from admin_console.gateway.pipeline import PipelineView

# Our pages send names of at most 64 characters.
FIELD_LENGTH_MAX = 130
# A graph's channels: four names of topics with four of channels.
LENGTHS_MAX = {"draw": 600, "node": 300}
PAGES = (
    "overview", "topics", "topic", "channel", "pipeline", "replay", "nodes", "node", "clients", "client", "counter",
)  # fmt: skip
CLUSTER_PAGES = frozenset({"nodes", "node", "clients", "client"})


@dataclass(frozen=True, slots=True)
class Request:
    """The page, its fields and the user's role: equal requests share one update."""

    page: str
    role: Role
    topic: str = ""
    channel: str = ""
    q: str = ""
    sort: str = ""
    show: str = ""  # the filter of a list
    number: str = ""  # of the page in a long list, from 1
    by: str = ""  # how the list of topics is ordered: "group"
    under: str = ""  # the group of topics that is open
    draw: str = ""  # the channels of the overview's graph: "orders/billing,orders/mail"
    replay: str = ""
    node: str = ""
    client: str = ""  # the key of one at the node

    @classmethod
    def parse(cls, page_fields: object, role: Role) -> "Request":
        """The request in a socket's `subscribe`. Raises ValueError with a sentence for one that no page sends."""
        if not isinstance(page_fields, Mapping):
            raise ValueError("subscribe takes an object")
        field_names = {spec.name for spec in fields(cls)} - {"role"}
        for name, value in page_fields.items():
            if name not in field_names:
                raise ValueError(f"subscribe has no field {str(name)[:40]!r}")
            length_max = LENGTHS_MAX.get(name, FIELD_LENGTH_MAX)
            if not isinstance(value, str) or len(value) > length_max:
                raise ValueError(f"{name} is a text of at most {length_max} characters")
        if page_fields.get("page") not in PAGES:
            raise ValueError(f"page is one of {', '.join(PAGES)}")
        return cls(role=role, **page_fields)

    @property
    def subscription(self) -> dict[str, str]:
        """The body of the script's `subscribe` for this request."""
        return {
            spec.name: value for spec in fields(self) if spec.name != "role" and (value := getattr(self, spec.name))
        }

    @property
    def list_query(self) -> ListQuery:
        """The part of the request that concerns the page's list."""
        of = self.topic if self.page == "topic" else ""
        return ListQuery(self.page, self.q, self.show, self.sort, self.number, self.by, self.under, self.draw, of)

    @property
    def wants_pipeline(self) -> bool:
        return self.page in ("pipeline", "replay", "topic")

    @property
    def wants_cluster(self) -> bool:
        return self.page in CLUSTER_PAGES

    @property
    def wants_clients(self) -> bool:
        return self.page in ("node", "clients", "client")

    @property
    def clients_of(self) -> str:
        """The node whose clients alone the page shows; "" for all: a client's page has its peers at other nodes."""
        return self.node if self.page == "node" else ""

    @property
    def wants_in_flight(self) -> bool:
        return self.page == "channel"


def build_screen(
    request: Request,
    live: LiveState | None,
    *,
    in_flight: InFlightList | None = None,
    http_address: str = "",
    pipeline: "PipelineView | None" = None,
    cluster: ClusterView | None = None,
) -> Screen:
    """The screen of a page. Pure: all that it shows comes in the arguments.

    in_flight: the channel's messages in flight, None where they were not read; http_address: where the HTTP API
    listens, for the commands that empty pages show; pipeline: for its own pages, and for a topic's, which reports a
    lost archive; cluster: for the pages of nodes and clients.
    """
    made = _screen(request, live, in_flight, http_address, pipeline, cluster)
    if live is None or live.cluster is None or request.page not in differences.PAGES or made.flags.get("gone"):
        return made
    more = differences.parts(live, request.role, request.page, request.topic, request.channel)
    return replace(
        made,
        tables={**made.tables, **more["tables"]},
        flags={**made.flags, **more["flags"]},
        texts={**made.texts, **more["texts"]},
    )


def _screen(
    request: Request,
    live: LiveState | None,
    in_flight: InFlightList | None,
    http_address: str,
    pipeline: "PipelineView | None",
    cluster: ClusterView | None,
) -> Screen:
    """The lists are made once for a live state and shared by all pages and sockets; only their age differs."""
    snapshot: EngineSnapshot | None = live.snapshot if live else None
    common: dict[str, Any] = {
        "page": request.page,
        "subscription": request.subscription,
        "sequence": snapshot.sequence if snapshot else 0,
        "taken_at_ms": snapshot.taken_at_ns // 1_000_000 if snapshot else 0,
        "second": live.second if live else None,
        "age_ms": max(0, int((time.time_ns() - snapshot.taken_at_ns) / 1e6)) if snapshot else 0,
        "version": snapshot.version if snapshot else "",
        "has_figures": snapshot is not None,
    }
    if request.page in ("overview", "topics"):
        cached = live.derived.get(request) if live else None
        if isinstance(cached, Screen):
            return replace(cached, age_ms=common["age_ms"])
        if request.page == "overview":
            made = Screen(**common, **overview.parts(live, request.role, request.list_query, http_address))
        else:
            made = Screen(**common, **topics.parts(live, request.role, request.list_query, http_address))
        if live is not None:
            live.derived[request] = made
        return made
    # These pages have a sentence of their own about silent nodes, or no figure of other nodes.
    of_header = {**common, "nodes": partial.header_of(live)}
    if request.page == "counter":
        return Screen(**of_header, **counter.parts(live))
    if request.page in CLUSTER_PAGES:
        assert cluster is not None, "a page about nodes is made from a look at them"
        return Screen(**of_header, **_cluster_parts(request, cluster))
    if request.page in ("pipeline", "replay"):
        assert pipeline is not None, "a page about the pipeline is made from a look at it"
        if request.page == "pipeline":
            made_of = pipeline_screen.parts(live, request.role, pipeline, has_queue=bool(http_address))
            return Screen(**of_header, **made_of)
        return Screen(**of_header, **replay.parts(request.role, pipeline, request.replay))
    if request.page == "topic":
        return Screen(**common, **topic.parts(live, request.role, request.topic, pipeline, request.list_query))
    return Screen(**common, **channel.parts(live, request.role, request.topic, request.channel, in_flight))


def _cluster_parts(request: Request, view: ClusterView) -> dict[str, Any]:
    if request.page == "clients":
        return clients.parts(view, request.list_query)
    if request.page == "client":
        return client.parts(view, request.node, request.client)
    if request.page == "node":
        return node.parts(view, request.role, request.node)
    return nodes.parts(view, request.list_query)
