"""Discovery: this server's registrations at each nsqlookupd, and those of all servers; tombstones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import NoReverseMatch, reverse
from django.views.decorators.http import require_safe

from admin_console.gateway.gateway import ActResult, LookupdStats, get_gateway
from admin_console.gateway.lookups import LookupdProducer, LookupdReport, LookupdTopic, get_lookup_reports, tombstone
from admin_console.permissions.allowed import CheckedRequest
from admin_console.views.act_page import ActPage, NotThereError
from admin_console.views.question import Question
from admin_console.views.standing import stands
from admin_console.vocabulary import units

# Topics that the page lists of one nsqlookupd; beyond, its own API has them.
TOPICS_SHOWN_MAX = 200


@dataclass(frozen=True, slots=True)
class RegistrationLine:
    """This server at one nsqlookupd. state: in a word; since, pinged: how long ago."""

    lookupd: LookupdStats
    state: str
    tone: str
    since: str
    since_at: str
    pinged: str
    pinged_at: str
    error: str


@dataclass(frozen=True, slots=True)
class ProducerChip:
    """A server as producer of a topic. note: the reason why consumers do not find it, "" if they do. tombstone_url: ""
    for one that is hidden already."""

    node: str
    note: str
    pinged: str
    tombstone_url: str


@dataclass(frozen=True, slots=True)
class TopicLine:
    topic: str
    channels: str
    producers: list[ProducerChip]


@dataclass(frozen=True, slots=True)
class KnownPanel:
    """The registrations in one nsqlookupd. note: their number, or its error."""

    address: str
    note: str
    error: str
    lines: list[TopicLine]
    further: int


@require_safe
@stands("tombstone_producer", "The producers in nsqlookupds")
def lookup_page(request: CheckedRequest) -> HttpResponse:
    gateway = get_gateway()
    snapshot = gateway.snapshot()
    lookupds = snapshot.lookupds if snapshot is not None else ()
    addresses = _registered_at(lookupds)
    reports = get_lookup_reports().of(list(addresses))
    context = {
        "lines": [_registration(one) for one in lookupds],
        "panels": [
            _panel(address, registered, report)
            for (address, registered), report in zip(addresses.items(), reports, strict=True)
        ],
        "config_url": f"http://{gateway.node().http_address}/config/nsqlookupd_tcp_addresses",
    }
    return render(request, "pages/lookup.html", context)


class TombstoneProducer(ActPage):
    """Makes the nsqlookupds that list a producer hide it from consumers for a while."""

    routes = {"tombstone_producer": "lookup/<name:topic>/<str:node>/~tombstone/"}

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().setup(request, *args, **kwargs)
        self.node: str = kwargs["node"]

    @property
    def part(self) -> str:
        return f"node {self.node}"

    @property
    def page_url(self) -> str:
        return reverse("lookup")

    def addresses(self) -> list[str]:
        """The HTTP addresses of the nsqlookupds that name the server as a producer. Raises NotThereError."""
        snapshot = self.gateway.snapshot()
        addresses = list(_registered_at(snapshot.lookupds if snapshot is not None else ()))
        found = [
            address
            for address, report in zip(addresses, get_lookup_reports().of(addresses), strict=True)
            if report is not None and _names(report, self.topic, self.node)
        ]
        if not found:
            raise NotThereError(f"No nsqlookupd names {self.node[:80]} as a producer of {self.topic}.")
        return found

    def question(self) -> Question:
        count = units.plural(len(self.addresses()), "nsqlookupd")
        hidden = (
            f"Consumers that look {self.topic} up at {count} do not find {self.node} for a while: 45 s, or the "
            "--tombstone-lifetime of the nsqlookupd. Afterwards they find it again if it still has the topic."
        )
        stays = (
            "Connected consumers stay connected, and the server's messages stay. To end the topic there, delete it "
            "on that server within that time."
        )
        return self.pose(
            f"Tombstone {self.node} for {self.topic}",
            (hidden, stays),
            button=f"Tombstone {self.node}",
        )

    def audit_detail(self, details: dict[str, Any]) -> str:
        return self.node

    def details(self) -> dict[str, Any]:
        return {"addresses": self.addresses()}

    def do(self, details: dict[str, Any]) -> ActResult:
        return self.done_beside(lambda: tombstone(details["addresses"], self.topic, self.node))


def _registered_at(lookupds: Sequence[LookupdStats]) -> dict[str, list[str]]:
    """The HTTP addresses of nsqlookupds, each with those that this server registers at."""
    addresses: dict[str, list[str]] = {}
    for one in lookupds:
        if one.http_address:
            addresses.setdefault(one.http_address, []).append(one.address)
    return addresses


def _names(report: LookupdReport, topic: str, node: str) -> bool:
    producers = (producer for one in report.topics if one.topic == topic for producer in one.producers)
    return any(one.node == node and not one.is_tombstoned and not one.is_inactive for one in producers)


def _registration(one: LookupdStats) -> RegistrationLine:
    if not one.is_connected:
        state, tone = "Not connected", "danger"
    elif one.is_up_to_date:
        state, tone = "Registered", "ok"
    else:
        state, tone = "Registering", "muted"
    since_ms, pinged_ms = one.since_ns // 1_000_000, one.pinged_at_ns // 1_000_000
    return RegistrationLine(
        one,
        state,
        tone,
        _ago(since_ms),
        units.moment(since_ms),
        f"{_ago(pinged_ms)} ago" if pinged_ms else "none yet",
        units.moment(pinged_ms) if pinged_ms else "",
        one.error or "–",
    )


def _panel(address: str, registered: list[str], report: LookupdReport | None) -> KnownPanel:
    """registered: the addresses above, which the nsqlookupd may name in another way than its HTTP API."""
    where = f"the HTTP API of {', '.join(registered)}"
    if report is None:
        return KnownPanel(address, f"{where}; it has not answered yet: reload the page", "", [], 0)
    servers, topics = units.plural(report.server_count, "server"), units.plural(len(report.topics), "topic")
    lines = [_topic(one) for one in report.topics[:TOPICS_SHOWN_MAX]]
    error = f"It does not answer: {report.error}." if report.error else ""
    return KnownPanel(
        address, f"{servers}, {topics}; {where}", error, lines, max(0, len(report.topics) - TOPICS_SHOWN_MAX)
    )


def _topic(one: LookupdTopic) -> TopicLine:
    producers = [_producer(one.topic, producer) for producer in one.producers]
    return TopicLine(one.topic, ", ".join(one.channels) or "–", producers)


def _producer(topic: str, one: LookupdProducer) -> ProducerChip:
    note = "tombstoned" if one.is_tombstoned else "inactive" if one.is_inactive else ""
    pinged = f"last ping {_ago(one.pinged_at_ms)} ago" if one.pinged_at_ms else ""
    return ProducerChip(one.node, note, pinged, "" if note else _tombstone_url(topic, one.node))


def _tombstone_url(topic: str, node: str) -> str:
    """ "" for a name that another program registered and that no URL of ours can have."""
    try:
        return reverse("tombstone_producer", args=(topic, node))
    except NoReverseMatch:
        return ""


def _ago(unix_ms: int) -> str:
    return units.duration(max(0, units.now_ms() - unix_ms) / 1_000)
