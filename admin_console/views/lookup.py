"""Lookup: the nsqlookupds with their state, this server's registrations, and the topics that they list."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import NoReverseMatch, reverse
from django.views.decorators.http import require_safe

from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.cluster import get_cluster
from admin_console.cluster.lookupds.lookupd_answers import ListedProducer, ListedTopic, LookupdReport, topics_listed
from admin_console.gateway.acting_nodes import own_names
from admin_console.gateway.gateway import LookupdStats, get_gateway, why_no_engine
from admin_console.gateway.sentences import and_list
from admin_console.permissions.allowed import CheckedRequest
from admin_console.views.standing import stands
from admin_console.vocabulary import units

# Topics that the page lists; beyond, the filter finds them.
TOPICS_SHOWN_MAX = 200
LONELY_SHOWN_MAX = 200


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
class LookupdLine:
    """One nsqlookupd by its HTTP API. source: the option or registration that names it."""

    address: str
    source: str
    state: str
    tone: str
    note: str
    servers: str
    topics: str
    answered: str
    answered_at: str


@dataclass(frozen=True, slots=True)
class ProducerChip:
    """A server as producer of a topic. url: of its page, "" without one. note: the reason why consumers do not find it,
    "" if they do. tombstone_url: "" for one that is hidden already."""

    node: str
    url: str
    is_this_server: bool
    note: str
    pinged: str
    tombstone_url: str


@dataclass(frozen=True, slots=True)
class TopicLine:
    """lookupds: at how many of them; missing: those that do not list it, for one that differs."""

    topic: str
    channels: str
    producers: list[ProducerChip]
    lookupds: str
    missing: str


@dataclass(frozen=True, slots=True)
class LonelyLine:
    """A topic or channel without a producer. action, url: of the act that removes it; "" where its name fits no URL."""

    name: str
    kind: str
    why: str
    lookupds: str
    action: str
    url: str


@require_safe
@stands("tombstone_producer", "The producers in nsqlookupds")
def lookup_page(request: CheckedRequest) -> HttpResponse:
    gateway = get_gateway()
    snapshot = gateway.snapshot()
    lookupds = snapshot.lookupds if snapshot is not None else ()
    sources = lookupd_sources(lookupds)
    reports = reports_of(sources)
    answered = [one for one in reports if one is not None and one.answered_at_ms]
    listed = topics_listed(answered)
    query = request.GET.get("q", "").strip()[:130]
    found = [one for one in listed if query in one.topic]
    answering = [one.address for one in answered if not one.error]
    lonely = [line for one in found for line in _lonely(one)]
    own, cluster = own_names(gateway), get_cluster()
    pages = {node.name for node in cluster.state.nodes} | own if cluster is not None else own
    context = {
        "lines": [_registration(one) for one in lookupds],
        "lookupds": [
            _lookupd(address, source, report)
            for (address, source), report in zip(sources.items(), reports, strict=True)
        ],
        "topics": [_topic(one, answering, own, pages) for one in found[:TOPICS_SHOWN_MAX]],
        "topic_count": units.plural(len(listed), "topic"),
        "further": max(0, len(found) - TOPICS_SHOWN_MAX),
        "lonely": lonely[:LONELY_SHOWN_MAX],
        "lonely_further": max(0, len(lonely) - LONELY_SHOWN_MAX),
        "query": query,
        "has_answers": bool(answered),
        "has_several": len(sources) > 1,
        "has_engine": not why_no_engine("publish"),
        "config_url": f"http://{gateway.node().http_address}/config/nsqlookupd_tcp_addresses",
    }
    return render(request, "pages/lookup.html", context)


def lookupd_sources(own: Iterable[LookupdStats]) -> dict[HttpAddress, str]:
    """The HTTP addresses of all nsqlookupds, each with its source: the options of the console, or the registration
    of this server."""
    cluster = get_cluster()
    state = cluster.state if cluster is not None else None
    lookupds = [one.address for one in state.lookupds] if state is not None else []
    found = dict.fromkeys(lookupds, "the addresses of nodes")
    registered: dict[HttpAddress, list[str]] = {}
    for one in own:
        try:
            registered.setdefault(HttpAddress.parse(one.http_address), []).append(one.address)
        except ValueError:
            continue  # it is not connected, or names no address of its HTTP API
    for address, at in registered.items():
        found.setdefault(address, f"this server registers at {', '.join(at)}")
    return found


def reports_of(addresses: Iterable[HttpAddress], *, is_new: bool = False) -> list[LookupdReport | None]:
    """As `Lookupds.reports`."""
    cluster = get_cluster()
    return [None for _ in addresses] if cluster is None else cluster.lookupds.reports(list(addresses), is_new=is_new)


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


def _lookupd(address: HttpAddress, source: str, report: LookupdReport | None) -> LookupdLine:
    """One that does not answer keeps its last counts."""
    state, tone, note = "", "", ""
    if report is None:
        state, note = "not read yet", "It has not answered yet: reload the page."
    elif report.error:
        state, tone = f"not answering for {_ago(report.failing_since_ms)}", "danger"
        note = f"{report.error}."
    is_read = report is not None and bool(report.answered_at_ms)
    at_ms = report.answered_at_ms if report is not None else 0
    return LookupdLine(
        str(address),
        source,
        state,
        tone,
        note,
        units.number(report.server_count if report is not None and is_read else None),
        units.number(len(report.topics) if report is not None and is_read else None),
        _ago(at_ms) if at_ms else units.UNKNOWN,
        units.moment(at_ms) if at_ms else "",
    )


def _topic(
    one: ListedTopic, answering: Sequence[HttpAddress], own: Collection[str], pages: Collection[str]
) -> TopicLine:
    """own: the names of this server; pages: those of nodes with a page."""
    missing = [str(address) for address in answering if address not in one.at]
    return TopicLine(
        one.topic,
        ", ".join(one.channels) or "–",
        [_producer(one.topic, producer, own, pages) for producer in one.producers],
        f"{len(one.at)} of {len(set(one.at) | set(answering))}",
        f"Not listed at {and_list(missing)}." if missing else "",
    )


def _producer(topic: str, one: ListedProducer, own: Collection[str], pages: Collection[str]) -> ProducerChip:
    hidden, count = len(one.tombstoned_at), len(one.at)
    note = "inactive" if one.is_silent else ""
    if hidden:
        note = "tombstoned" if hidden == count else f"tombstoned at {hidden} of {count}"
    pinged = f"last ping {_ago(one.pinged_at_ms)} ago" if one.pinged_at_ms else ""
    url = _url("node", one.node) if one.node in pages else ""
    tombstone_url = _url("tombstone_producer", topic, one.node) if one.visible_at else ""
    return ProducerChip(one.node, url, one.node in own, note, pinged, tombstone_url)


def _lonely(one: ListedTopic) -> Iterable[LonelyLine]:
    if one.is_lonely:
        silent = [producer.node for producer in one.producers]
        why = f"{and_list(silent)} sent no PING for longer than the nsqlookupd waits." if silent else ""
        lookupds = and_list([str(address) for address in one.at])
        url = _url("unregister_topic", one.topic)
        yield LonelyLine(one.topic, "topic", why, lookupds, "unregister_topic", url)
    for channel, at in one.lonely.items():
        lookupds = and_list([str(address) for address in at])
        url = _url("unregister_channel", one.topic, channel)
        yield LonelyLine(f"{one.topic}/{channel}", "channel", "", lookupds, "unregister_channel", url)


def _url(name: str, *args: str) -> str:
    """ "" for a name that another program registered and that no URL of ours can have."""
    try:
        return reverse(name, args=args)
    except NoReverseMatch:
        return ""


def _ago(unix_ms: int) -> str:
    return units.duration(max(0, units.now_ms() - unix_ms) / 1_000)
