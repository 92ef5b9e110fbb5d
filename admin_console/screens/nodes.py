"""The nodes of the cluster: a row each, the nsqlookupds that name them, and those that went in the last day."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.reading.nodes import Answers, ClusterState, Lookupd, Node
from admin_console.cluster.reading.totals import Total
from admin_console.gateway.cluster_view import ClusterView, OwnNode
from admin_console.gateway.gateway import full_version
from admin_console.screens.cells import BaseCell, BesideCell, Cell, Chip, ProgressCell, StateCell, TimesCell
from admin_console.screens.links import node_url
from admin_console.screens.list_links import URGENCY, ListQuery, PageOf, count_texts, list_bar, parse_sort, with_sorts
from admin_console.screens.parts import Column, Empty, Stat, Table
from admin_console.vocabulary import units

PAGE_ROWS = 100
ALL, ATTENTION = "all", "attention"
_ZONES_MAX = 8  # that have a filter
_ZONE = re.compile(r"[A-Za-z0-9._-]{1,32}")
_NOTE_LENGTH_MAX = 34  # of a card's note: one line at 1440 pixels
_HEALTHY = ("", "OK")
_RANKS = {"danger": 3, "warning": 2, "held": 1}


@dataclass(frozen=True, slots=True)
class NodeLine:
    """One node as a row; None and "" where unknown. beside: words beside its name; host: its host's name. lookups: at
    how many nsqlookupds it is registered, None without any; misses: whether an nsqlookupd that answers lacks it.
    failing_since_ms: Unix; 0 where it answers. error: why it is not read, a sentence."""

    name: str
    beside: str
    host: str
    product: str
    zone: str
    region: str
    lookups: int | None
    misses: bool
    topics: int | None
    clients: int | None
    depth: int | None
    in_flight: int | None
    messages: int | None
    published_s: float | None
    finished_s: float | None
    answered_at_ms: int
    chips: tuple[Chip, ...]
    failing_since_ms: int = 0
    error: str = ""
    is_silent: bool = False
    is_called: bool = True  # False where the rules refuse its address

    @property
    def gravity(self) -> int:
        return max([_RANKS.get(chip.tone, 0) for chip in self.chips], default=0)

    @property
    def urgency(self) -> tuple[float, ...]:
        return (self.gravity, self.depth or 0)

    @property
    def place(self) -> str:
        return " · ".join(filter(None, (self.region, self.zone)))


_SORTS: dict[str, Callable[[NodeLine], Any]] = {
    "name": lambda line: line.name,
    URGENCY: lambda line: line.urgency,
    "version": lambda line: release_of(line.product),
    "zone": lambda line: line.place,
    "topics": lambda line: line.topics or 0,
    "clients": lambda line: line.clients or 0,
    "depth": lambda line: line.depth or 0,
    "messages": lambda line: line.messages or 0,
    "published": lambda line: line.published_s or 0,
    "finished": lambda line: line.finished_s or 0,
    "share": lambda line: line.published_s or 0,
    "answered": lambda line: -line.answered_at_ms,
}
_COLUMNS = (
    Column("name", "Node", "name"),
    Column("state", "State", "state"),
    Column("version", "Version", "text", help="Amber where another node of the same program is newer"),
    Column("zone", "Zone", "text", help="Region and zone, as the node names them"),
    Column("lookups", "Lookups", help="nsqlookupds at which it is registered"),
    Column("topics", "Topics"),
    Column("clients", "Clients", help="Consumers of its channels"),
    Column("depth", "Depth", help="Messages that wait, at its topics and in its channels"),
    Column("messages", "Messages", help="Messages published to it since it started"),
    Column("published", "Published /s"),
    Column("finished", "Finished /s", help="Of an nsqd: worked out from messages that came and those that are there"),
    Column("share", "Share", "progress", help="Of all that is published to the cluster now"),
    Column("answered", "Answered", help="How long ago it answered"),
)
_LOOKUPD_COLUMNS = (
    Column("name", "nsqlookupd", "name"),
    Column("state", "State", "state"),
    Column("why", "Why", "text"),
    Column("nodes", "Nodes", help="Named in its last answer"),
    Column("answered", "Answered", help="How long ago it answered"),
)
_GONE_COLUMNS = (
    Column("name", "Node", "name"),
    Column("version", "Version", "text"),
    Column("since", "Gone since (UTC)", "text"),
    Column("for", "For"),
)


def parts(view: ClusterView, query: ListQuery) -> dict[str, Any]:
    """The parts of the screen. An unknown filter, order or page number falls back to the usual one."""
    state = view.state
    lines = lines_of(view)
    named = [line for line in lines if query.wanted in f"{line.name} {line.beside} {line.host}".lower()]
    passes = _filters(lines)
    labels = {name: label for name, (label, _) in passes.items()}
    show = query.show if query.show in passes else ALL
    counts = {name: sum(map(check, named)) for name, (_, check) in passes.items()}
    sort_name, is_descending = parse_sort(query.sort, _SORTS)
    ordered = sorted(filter(passes[show][1], named), key=lambda line: line.name)
    ordered.sort(key=_SORTS[sort_name], reverse=is_descending)
    page = PageOf.build(query, len(ordered), PAGE_ROWS)
    newest = newest_releases(line.product for line in lines)
    published_s = sum(line.published_s or 0 for line in lines)
    rows = [(line.name, _cells(line, state, newest, published_s)) for line in ordered[page.first : page.end]]
    silent = [line for line in lines if line.is_silent]
    return {
        "subtitle": _summary(lines, state),
        "stats": _stats(lines) if state.addresses.has_any else (),
        "list_bar": list_bar(query, show, ALL, labels, counts, page.links(query)),
        "tables": {
            "nodes": Table.build("nodes", "Nodes", with_sorts(_COLUMNS, query, _SORTS), rows, _empty(query)),
            "lookupds": Table.build(
                "lookupds", "nsqlookupds", _LOOKUPD_COLUMNS, list(map(_lookupd_row, state.lookupds)), Empty("")
            ),
            "gone": Table.build(
                "gone", "Nodes that are gone", _GONE_COLUMNS, list(map(_gone_row, state.gone)), Empty("")
            ),
        },
        "flags": {
            **page.flags,
            "has_lookupds": bool(state.lookupds),
            "has_gone": bool(state.gone),
            "alone": not state.addresses.has_any,
            "has_own": view.own is not None,
            "partial": bool(silent),
        },
        "texts": {**page.texts, **count_texts(labels, counts), "partial": partial_words(lines)},
    }


def lines_of(view: ClusterView) -> list[NodeLine]:
    """All nodes that are configured or named, by their address; this server first."""
    own = [] if view.own is None else [_own_line(view.own, view.state)]
    return own + [_line(node, view.state) for node in view.state.nodes]


def partial_words(lines: Iterable[NodeLine]) -> str:
    """The sentence about nodes without an answer, which all partial sums lack; "" where all that are called answer."""
    lines = [line for line in lines if line.is_called]
    silent = [line for line in lines if line.is_silent]
    if not silent:
        return ""
    longest = min(silent, key=lambda line: line.failing_since_ms or units.now_ms())
    words = f"≥: {len(silent)} of {units.plural(len(lines), 'node')} not answering"
    if longest.error:
        words += f", {longest.name} for {ago(longest.failing_since_ms)}: {longest.error}"
    return words


def release_of(product: str) -> tuple[str, tuple[int, ...]]:
    """The program and the numbers of its version; () where the version has none."""
    program, _, version = product.partition(" ")
    numbers = re.match(r"[0-9]{1,9}(?:\.[0-9]{1,9})*", version)
    return program, tuple(map(int, numbers[0].split("."))) if numbers else ()


def newest_releases(products: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """By program: nsqds are compared with nsqds, Penstocks with Penstocks."""
    newest: dict[str, tuple[int, ...]] = {}
    for program, numbers in map(release_of, products):
        newest[program] = max(newest.get(program, ()), numbers)
    return newest


def is_older(product: str, newest: Mapping[str, tuple[int, ...]]) -> bool:
    program, numbers = release_of(product)
    return bool(numbers) and numbers < newest.get(program, ())


def _filters(lines: Iterable[NodeLine]) -> dict[str, tuple[str, Callable[[NodeLine], bool]]]:
    """Name → label, and which lines pass. A zone has one where nodes are in several."""
    found: dict[str, tuple[str, Callable[[NodeLine], bool]]] = {
        ALL: ("All", lambda line: True),
        ATTENTION: ("Needs attention", lambda line: line.gravity >= _RANKS["warning"]),
    }
    zones = sorted({line.zone for line in lines if _ZONE.fullmatch(line.zone)})
    for zone in zones[:_ZONES_MAX] if len(zones) > 1 else ():
        found[f"zone-{zone}"] = (zone, partial(_is_in, zone))
    return found


def _is_in(zone: str, line: NodeLine) -> bool:
    return line.zone == zone


def _summary(lines: Iterable[NodeLine], state: ClusterState) -> str:
    """ "12 nodes, 5 Penstock and 7 nsqd · 2 nsqlookupds · 3 zones"."""
    lines = list(lines)
    programs: dict[str, int] = {}
    for line in lines:
        if line.product:
            program = release_of(line.product)[0]
            programs[program] = programs.get(program, 0) + 1
    words = units.plural(len(lines), "node")
    if len(programs) > 1:
        words += ", " + " and ".join(f"{count} {program}" for program, count in sorted(programs.items()))
    zones = {line.place for line in lines if line.place}
    return " · ".join(
        [
            words,
            *([units.plural(len(state.lookupds), "nsqlookupd")] if state.lookupds else []),
            *([units.plural(len(zones), "zone")] if len(zones) > 1 else []),
        ]
    )


def _stats(lines: list[NodeLine]) -> tuple[Stat, ...]:
    """The nodes that are called. One that does not answer now makes a total partial, whatever it answered last."""
    called = [line for line in lines if line.is_called]
    answering = [line for line in called if not line.is_silent]
    silent = [line for line in called if line.is_silent]
    rates = [line.published_s for line in answering]
    published_s = sum(rate for rate in rates if rate is not None)
    largest = max(answering, key=lambda line: line.published_s or 0, default=None)
    not_called = len(lines) - len(called)
    rest = f" · {not_called} not called" if not_called else ""
    note = Cell(f"of {len(called)}{rest}")
    if silent:
        words = f"of {len(called)} · {silent[0].name} is silent{rest}"
        if len(silent) > 1 or len(words) > _NOTE_LENGTH_MAX:
            words = f"of {len(called)} · {len(silent)} silent{rest}"
        note = Cell(words, ", ".join(line.name for line in silent[:20]), "danger")
    share = units.UNKNOWN if largest is None or not published_s else units.share(largest.published_s or 0, published_s)
    name = "" if largest is None or share == units.UNKNOWN else largest.name

    def total(values: Iterable[int | None]) -> Cell:
        found = Total.of([*values, *([None] * len(silent))])
        return Cell(f"{'≥ ' if found.is_partial else ''}{units.number(found.count)}", units.exact(found.count))

    def rate(values: list[float | None]) -> Cell:
        counted = [value for value in values if value is not None]
        if not counted:
            return Cell(units.UNKNOWN)
        is_partial = bool(silent) or None in values
        return Cell(f"{'≥ ' if is_partial else ''}{units.rate(sum(counted))}")

    return (
        Stat("answering", "Answering", Cell(units.number(len(answering))), note),
        Stat("depth", "Depth", total(line.depth for line in answering), Cell("at topics and in channels")),
        Stat("published", "Published", rate(rates), Cell("over 30 s")),
        Stat("finished", "Finished", rate([line.finished_s for line in answering]), Cell("over 30 s")),
        Stat("share", "Largest share", Cell(share), Cell(name, name), "Of messages published now"),
        Stat("clients", "Clients", total(line.clients for line in answering), Cell("consumers of all channels")),
    )


def _own_line(own: OwnNode, state: ClusterState) -> NodeLine:
    lookups = {lookupd for member in state.embedded for lookupd in member.registrations}
    misses = bool(missed_by(lookups, state))
    health = own.snapshot.health
    sums = own.sums
    chips = [*_health_chips(health), *_lookup_chips(len(lookups), state, misses=misses), *_paused_chips(sums.paused)]
    return NodeLine(
        name=own.name,
        beside="this server",
        host="",
        product=f"Penstock {full_version().partition('+')[0]}",
        zone="",
        region="",
        lookups=len(lookups) if state.lookupds else None,
        misses=misses,
        topics=sums.topics,
        clients=sums.clients,
        depth=sums.depth,
        in_flight=sums.in_flight,
        messages=sums.messages,
        published_s=own.rates.published_s,
        finished_s=own.rates.finished_s,
        answered_at_ms=own.snapshot.taken_at_ns // 1_000_000,
        chips=tuple(chips),
    )


def _line(node: Node, state: ClusterState) -> NodeLine:
    """A silent node keeps its last counts, which are muted; its measures of now are unknown."""
    info, member, registration = node.info, node.member, node.member.registration
    chips, error = state_of(node.answers)
    if member.refusal:
        error = f"{member.refusal[0].upper()}{member.refusal[1:]}."
        chips = [Chip("not called", "warning", error)]
    sums = node.sums
    is_answering = node.answers.is_answering
    misses = bool(missed_by(member.registrations, state))
    chips += _lookup_chips(len(member.registrations), state, misses=misses)
    tombstoned = {topic for one in member.registrations.values() for topic in one.tombstoned}
    if tombstoned:
        words = f"tombstoned, {units.plural(len(tombstoned), 'topic')}"
        chips.append(Chip(words, "warning", ", ".join(sorted(tombstoned)[:20])))
    if is_answering:
        chips += _health_chips(node.stats.health if node.stats else "")
        chips += _paused_chips(sums.paused if sums else 0)
    product = info.product if info is not None else f"nsqd {registration.version}" if registration is not None else ""
    host = info.identity.hostname if info is not None else registration.hostname if registration is not None else ""
    return NodeLine(
        name=node.name,
        beside="",
        host=host if host != member.named.host else "",
        product=product,
        zone=info.zone if info else "",
        region=info.region if info else "",
        lookups=len(member.registrations) if state.lookupds else None,
        misses=misses,
        topics=sums.topics if sums else None,
        clients=sums.clients if sums else None,
        depth=sums.depth if sums and is_answering else None,
        in_flight=sums.in_flight if sums and is_answering else None,
        messages=sums.messages if sums and is_answering else None,
        published_s=node.rates.published_s if is_answering else None,
        finished_s=node.rates.finished_s if is_answering else None,
        answered_at_ms=node.answers.answered_at_ms,
        chips=tuple(chips),
        failing_since_ms=node.answers.failing_since_ms,
        error=error,
        is_silent=not is_answering and not member.refusal,
        is_called=not member.refusal,
    )


def missed_by(registered: Collection[HttpAddress], state: ClusterState) -> frozenset[HttpAddress]:
    """The nsqlookupds that answer and lack a node. registered: those that name it; without any, the node registers
    nowhere (--nsqd-http-address alone, a server without --lookupd-tcp-address), and none lacks it. A silent one has its
    last answer, which may be older than the node."""
    answering = (one.address for one in state.lookupds if one.answers.is_answering)
    return frozenset(one for one in answering if registered and one not in registered)


def _lookup_chips(count: int, state: ClusterState, *, misses: bool) -> list[Chip]:
    words = f"{count} of {units.plural(len(state.lookupds), 'lookup')}"
    return [Chip(words, "warning", "An nsqlookupd that answers does not name it")] if misses else []


def _health_chips(health: str) -> list[Chip]:
    return [] if health in _HEALTHY else [Chip("not healthy", "danger", health)]


def _paused_chips(count: int) -> list[Chip]:
    return [Chip(f"❚❚ {units.number(count)} paused", "held", "Topics and channels that are paused")] if count else []


def state_of(answers: Answers) -> tuple[list[Chip], str]:
    """The chip of an address that is called, and why it does not answer."""
    if answers.error:
        words, why = f"not answering {ago(answers.failing_since_ms)}", f"{answers.error}."
        return [Chip(words, "danger", f"Since {units.moment(answers.failing_since_ms)} UTC: {why}")], why
    return ([], "") if answers.answered_at_ms else ([Chip("not read yet")], "")


def ago(unix_ms: int) -> str:
    return units.duration(max(0, units.now_ms() - unix_ms) / 1_000) if unix_ms else units.UNKNOWN


def answered_cell(at_ms: int, *, is_silent: bool = False) -> Cell:
    title = f"{units.moment(at_ms)} UTC" if at_ms else ""
    return Cell(ago(at_ms), title, "danger" if is_silent else "muted")


def _cells(
    line: NodeLine, state: ClusterState, newest: Mapping[str, tuple[int, ...]], published_s: float
) -> tuple[BaseCell, ...]:
    lookups = "" if line.lookups is None else f"{line.lookups} of {len(state.lookupds)}"
    tone = "muted" if line.is_silent else ""
    return (
        BesideCell(line.name, node_url(line.name), line.beside, line.host),
        StateCell(line.chips),
        Cell(line.product or units.UNKNOWN, tone="warning" if is_older(line.product, newest) else ""),
        Cell(line.place),
        Cell(lookups, tone="warning" if line.misses else ""),
        Cell(units.number(line.topics), tone=tone),
        Cell(units.number(line.clients), units.exact(line.clients), tone or ("" if line.clients else "muted")),
        Cell(units.number(line.depth), units.exact(line.depth), "" if line.depth else "muted"),
        Cell(units.number(line.messages), units.exact(line.messages), "" if line.messages else "muted"),
        _rate(line.published_s),
        _rate(line.finished_s),
        _share(line, published_s),
        answered_cell(line.answered_at_ms, is_silent=line.is_silent),
    )


def _rate(per_second: float | None) -> Cell:
    return Cell(units.bare(units.rate(per_second)), tone="" if per_second else "muted")


def _share(line: NodeLine, published_s: float) -> BaseCell:
    if line.published_s is None or not published_s:
        return Cell(units.UNKNOWN, tone="muted")
    promille = round(1_000 * line.published_s / published_s)
    return ProgressCell(f"share of {line.name}", promille, 1_000, units.share(line.published_s, published_s))


def _lookupd_row(lookupd: Lookupd) -> tuple[str, tuple[BaseCell, ...]]:
    chips, note = state_of(lookupd.answers)
    if lookupd.unusable and not note:
        note = f"{units.plural(lookupd.unusable, 'entry', 'entries')} of its answer can't be used."
    at_ms = lookupd.answers.answered_at_ms
    address = str(lookupd.address)
    return address, (
        Cell(address),
        StateCell(tuple(chips)),
        Cell(note),
        Cell(units.number(lookupd.node_count if at_ms else None)),
        answered_cell(at_ms, is_silent=bool(lookupd.answers.error)),
    )


def _gone_row(node: Node) -> tuple[str, tuple[BaseCell, ...]]:
    return node.name, (
        Cell(node.name),
        Cell(node.info.product if node.info else units.UNKNOWN),
        TimesCell((node.gone_since_ms,)),
        Cell(ago(node.gone_since_ms)),
    )


def _empty(query: ListQuery) -> Empty:
    if query.wanted:
        return Empty(f"No node matches “{query.query.strip()}”", "", href=query.href(q=""), link="Show all nodes")
    if query.show != ATTENTION:
        return Empty("No nodes yet")
    return Empty("No node passes the filter", "", href=query.href(show=""), link="Show all nodes")
