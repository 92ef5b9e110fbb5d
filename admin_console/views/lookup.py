"""Discovery: this server's registrations at each nsqlookupd, and what those know of all servers."""

from dataclasses import dataclass

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from admin_console.gateway.gateway import LookupdStats, get_gateway
from admin_console.gateway.lookups import LookupdProducer, LookupdReport, LookupdTopic, get_lookup_reports
from admin_console.permissions.allowed import CheckedRequest
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
    """A server as producer of a topic. note: what keeps consumers from it, "" for nothing."""

    node: str
    note: str
    pinged: str


@dataclass(frozen=True, slots=True)
class TopicLine:
    topic: str
    channels: str
    producers: list[ProducerChip]


@dataclass(frozen=True, slots=True)
class KnownPanel:
    """What one nsqlookupd knows. note: how much that is, or that it has not answered."""

    address: str
    note: str
    error: str
    lines: list[TopicLine]
    further: int


@require_safe
def lookup_page(request: CheckedRequest) -> HttpResponse:
    gateway = get_gateway()
    snapshot = gateway.snapshot()
    lookupds = snapshot.lookupds if snapshot is not None else ()
    asked: dict[str, list[str]] = {}
    for one in lookupds:
        if one.http_address:
            asked.setdefault(one.http_address, []).append(one.address)
    reports = get_lookup_reports().of(list(asked))
    context = {
        "lines": [_registration(one) for one in lookupds],
        "panels": [
            _panel(address, registered, report)
            for (address, registered), report in zip(asked.items(), reports, strict=True)
        ],
        "config_url": f"http://{gateway.node().http_address}/config/nsqlookupd_tcp_addresses",
    }
    return render(request, "pages/lookup.html", context)


def _registration(one: LookupdStats) -> RegistrationLine:
    if not one.is_connected:
        state, tone = "Not connected", "danger"
    elif one.is_up_to_date:
        state, tone = "Registered", "good"
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
    return TopicLine(one.topic, ", ".join(one.channels) or "–", [_producer(producer) for producer in one.producers])


def _producer(one: LookupdProducer) -> ProducerChip:
    note = "tombstoned" if one.is_tombstoned else "inactive" if one.is_inactive else ""
    return ProducerChip(one.node, note, f"last ping {_ago(one.pinged_at_ms)} ago" if one.pinged_at_ms else "")


def _ago(unix_ms: int) -> str:
    return units.duration(max(0, units.now_ms() - unix_ms) / 1_000)
