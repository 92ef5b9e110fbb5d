"""All connections of the cluster: searched, sorted and cut into pages by the server."""

from collections.abc import Callable, Iterable
from typing import Any

from admin_console.gateway.client_list import Client, ClientList
from admin_console.gateway.cluster_view import ClusterView
from admin_console.gateway.gateway import CLIENT_HELP
from admin_console.screens import connections
from admin_console.screens.cells import BaseCell, BesideCell, Cell, NameCell, ProgressCell, StateCell
from admin_console.screens.client_lines import ClientLine, lines_of, texts_of
from admin_console.screens.links import channel_cell, client_url, node_url, url_of
from admin_console.screens.list_links import URGENCY, ListQuery, PageOf, count_texts, list_bar, parse_sort, with_sorts
from admin_console.screens.partial import least
from admin_console.screens.parts import Banner, Column, Empty, Stat, Table
from admin_console.vocabulary import units

PAGE_ROWS = 50
ALL = "all"
_FILTERS: dict[str, tuple[str, Callable[[ClientLine], bool]]] = {
    ALL: ("All", lambda line: True),
    "outliers": ("Outliers", lambda line: bool(line.reason)),
    "failing": ("Failing", lambda line: line.client.failed_share >= 0.1 and line.client.failed > 0),
    "rdy-0": ("RDY 0", lambda line: bool(line.client.topic) and not line.client.stats.ready_count),
    "other-zone": ("Other zone", lambda line: line.client.is_local is False),
    "producers": ("Producers", lambda line: not line.client.topic),
}
_SORTS: dict[str, Callable[[ClientLine], Any]] = {
    "name": lambda line: line.client.name,
    URGENCY: lambda line: line.urgency,
    "node": lambda line: line.client.node,
    "channel": lambda line: (line.client.topic, line.client.channel),
    "in_flight": lambda line: line.client.stats.in_flight_count,
    "ready": lambda line: line.client.stats.ready_count,
    "rate": lambda line: line.client.rates.finished_s if line.client.rates else -1.0,
    "finished": lambda line: line.client.stats.finish_count,
    "requeued": lambda line: line.client.stats.requeue_count,
    "timeouts": lambda line: line.client.timeouts or 0,
    "connected": lambda line: -line.client.stats.connect_ts,
}
_COLUMNS = (
    Column("name", "Client", "name"),
    Column("state", "State", "state"),
    Column("node", "Node", "text"),
    Column("channel", "Channel", "text"),
    Column("in_flight", "In flight", "progress", help="Of all that the channel's consumers hold"),
    Column("ready", "RDY", help=CLIENT_HELP["ready_count"]),
    Column("rate", "Finished /s", help="Over the last 10 to 20 s"),
    Column("finished", "Finished", help=CLIENT_HELP["finish_count"]),
    Column("requeued", "Requeued", help=CLIENT_HELP["requeue_count"]),
    Column("timeouts", "Timeouts", help=f"{CLIENT_HELP['timeout_count']} An nsqd does not count them."),
    Column("attributes", "Attributes", "text"),
    Column("zone", "Zone", "text", help="local: that of its node"),
    Column("connected", "Connected"),
)


def parts(view: ClusterView, query: ListQuery) -> dict[str, Any]:
    """The parts of the screen. An unknown filter, order or page number falls back to the usual one."""
    clients = view.clients or ClientList()
    # Not by the clients, who come a moment after a page that was not open before, and no column comes with them.
    has_zones = any(node.info is not None and node.info.zone for node in view.state.nodes)
    key = ("screen", query, has_zones)
    made = clients.derived.get(key)
    if not isinstance(made, dict):
        made = clients.derived[key] = _parts(clients, query, has_zones=has_zones)
    return made


def _parts(clients: ClientList, query: ListQuery, *, has_zones: bool) -> dict[str, Any]:
    lines = lines_of(clients)
    named = matching(clients, query.wanted)
    passes = {name: one for name, one in _FILTERS.items() if name != "other-zone" or has_zones}
    labels = {name: label for name, (label, _) in passes.items()}
    show = query.show if query.show in passes else ALL
    counts = {name: sum(map(check, named)) for name, (_, check) in passes.items()}
    sort_name, is_descending = parse_sort(query.sort, _SORTS)
    ordered = sorted(filter(passes[show][1], named), key=_SORTS[sort_name], reverse=is_descending)
    page = PageOf.build(query, len(ordered), PAGE_ROWS)
    columns = [
        column
        for column in with_sorts(_COLUMNS, query, _SORTS)
        if (column.name != "zone" or has_zones) and (column.name != "node" or clients.node_count > 1)
    ]
    names = {column.name for column in columns}
    rows = [(row_key(line.client), cells(line, names)) for line in ordered[page.first : page.end]]
    return {
        "subtitle": _subtitle(clients, lines, query, len(named)),
        "banner": _banner(lines),
        "stats": _stats(clients, lines, has_zones=has_zones),
        "list_bar": list_bar(query, show, ALL, labels, counts, page.links(query)),
        "tables": {"connections": Table.build("connections", "Clients", columns, rows, _empty(clients, query))},
        "flags": {**page.flags, "partial": bool(clients.lacking)},
        "texts": {
            **page.texts,
            **count_texts(labels, counts),
            "partial": lacking_words(clients),
            "every": f"read every {clients.every_s:.0f} s, other nodes every 10 s while this page is open"
            if clients.node_count > 1
            else f"read every {clients.every_s:.0f} s while this page is open",
        },
    }


def row_key(client: Client) -> str:
    return f"{client.node} {client.key}"


def matching(clients: ClientList, wanted: str) -> list[ClientLine]:
    """Those whose words have all parts of the text: "nsq-a2 orders/billing"."""
    found = lines_of(clients)
    parts_wanted = wanted.split()
    if not parts_wanted:
        return found
    return [
        line for line, text in zip(found, texts_of(clients), strict=True) if all(part in text for part in parts_wanted)
    ]


def cells(line: ClientLine, names: Iterable[str]) -> list[BaseCell]:
    """The cells of the columns with these names."""
    client, stats = line.client, line.client.stats
    # The port is on its own page.
    host = stats.remote_address.rpartition(":")[0] or stats.remote_address
    address = f"{host} · {stats.user_agent}" if stats.user_agent else host
    made: dict[str, BaseCell] = {
        "name": BesideCell(
            client.name, client_url(client.node, client.key), address, f"{stats.hostname} {stats.remote_address}"
        ),
        "state": StateCell(line.chips),
        "node": NameCell(client.node, node_url(client.node)),
        "channel": channel_cell(client.topic, client.channel) if client.topic else _published(client),
        "in_flight": ProgressCell(
            f"share of {client.name}",
            stats.in_flight_count,
            line.channel.in_flight if client.topic else 0,
            units.number(stats.in_flight_count),
        ),
        "ready": _count(stats.ready_count),
        "rate": Cell(
            units.bare(units.rate(client.rates.finished_s if client.rates else None)),
            f"{units.number(stats.finish_count)} since it connected",
            "" if client.rates and client.rates.finished_s else "muted",
        ),
        "finished": _count(stats.finish_count),
        "requeued": _count(stats.requeue_count),
        "timeouts": _count(client.timeouts),
        "attributes": Cell(connections.layers(stats), connections.title(stats)),
        "zone": zone_cell(client),
        "connected": connected_cell(client),
    }
    return [made[column.name] for column in _COLUMNS if column.name in names]


def columns_without(*names: str) -> list[Column]:
    """For a short list on another page."""
    return [column for column in _COLUMNS if column.name not in names]


def zone_cell(client: Client) -> Cell:
    if client.is_local:
        return Cell("local", client.zone, "muted")
    return Cell(client.zone or units.UNKNOWN, client.region, "muted" if client.is_local is None else "")


def connected_cell(client: Client) -> Cell:
    since_ms = client.stats.connect_ts * 1_000
    if not since_ms:
        return Cell(units.UNKNOWN, tone="muted")
    return Cell(units.duration(max(0, units.now_ms() - since_ms) / 1_000), f"{units.moment(since_ms)} UTC")


def lacking_words(clients: ClientList) -> str:
    """Which nodes the list lacks; "" for none."""
    if not clients.lacking:
        return ""
    silent = {node: since_ms for node, since_ms in clients.lacking.items() if since_ms}
    if not silent:
        return f"≥: the connections of {units.plural(len(clients.lacking), 'node')} are being read"
    node, since_ms = min(silent.items(), key=lambda one: one[1])
    of = units.plural(clients.node_count, "node")
    ago = units.duration(max(0, units.now_ms() - since_ms) / 1_000)
    unread = len(clients.lacking) - len(silent)
    rest = f"; {units.number(unread)} more being read" if unread else ""
    return f"≥: {len(silent)} of {of} not answering, {node} for {ago}{rest}"


def _published(client: Client) -> Cell:
    topics = [name for name, _ in client.stats.pub_counts]
    more = f" +{len(topics) - 1}" if len(topics) > 1 else ""
    return Cell(f"publishes to {topics[0]}{more}" if topics else "no channel", ", ".join(topics[:20]), "muted")


def _count(value: int | None) -> Cell:
    return Cell(units.number(value), units.exact(value), "" if value else "muted")


def _subtitle(clients: ClientList, lines: list[ClientLine], query: ListQuery, found: int) -> str:
    mark = "≥ " if clients.lacking else ""
    words = f"{mark}{units.plural(len(lines), 'connection')}"
    if query.wanted:
        return f"{units.number(found)} of {words} match “{query.query.strip()}”"
    hosts = {line.client.stats.hostname or line.client.stats.remote_address.rpartition(":")[0] for line in lines}
    if clients.node_count > 1:
        of = units.plural(clients.node_count, "node")
        return f"{words} from {units.plural(len(hosts), 'host')} to {clients.node_count - len(clients.lacking)} of {of}"
    return f"{words} from {units.plural(len(hosts), 'host')}"


def _banner(lines: list[ClientLine]) -> Banner | None:
    """The outlier that holds the most."""
    found = [line for line in lines if line.reason]
    if not found:
        return None
    worst = max(found, key=lambda line: line.urgency)
    client = worst.client
    title = f"{client.name} is an outlier among the consumers of {client.topic}/{client.channel}"
    others = f"{units.plural(len(found) - 1, 'more outlier')}." if len(found) > 1 else ""
    href = client_url(client.node, client.key)
    return Banner("danger", title, worst.reason, href, "Compare it with its peers", others, cause=row_key(client))


def _stats(clients: ClientList, lines: list[ClientLine], *, has_zones: bool) -> tuple[Stat, ...]:
    consumers = [line.client for line in lines if line.client.topic]
    mark = "≥ " if clients.lacking else ""
    rated = [one.rates for one in consumers if one.rates is not None]
    timeouts = [rates.timeouts_min for rates in rated if rates.timeouts_min is not None]
    outliers = [line.client.name for line in lines if line.reason]
    busiest = max(timeouts, default=0.0)

    producers = len(lines) - len(consumers)

    def count(value: int) -> Cell:
        return Cell(f"{mark}{units.number(value)}", units.exact(value))

    def per_minute(values: list[float], *, is_partial: bool) -> Cell:
        return Cell(least(units.per_minute(sum(values) if values else None), is_partial=is_partial))

    is_uncounted = any(one.timeouts is None for one in consumers)
    at_one = f"{units.share(busiest, sum(timeouts))} at one" if busiest else "" if is_uncounted else "by consumers"
    timeouts_note = " · ".join(filter(None, (at_one, "nsqds count none" if is_uncounted else "")))
    calm = "all share the work" if rated and not clients.lacking else ""
    outlier_count = units.number(len(outliers) if rated or not consumers else None)
    local = [one.is_local for one in consumers if one.is_local is not None]
    agents = {one.stats.user_agent for one in consumers if one.stats.user_agent}
    last = (
        Stat("local", "Zone-local", Cell(units.share(sum(local), len(local))), Cell(f"of {len(local)} with a zone"))
        if has_zones
        else Stat("agents", "User agents", count(len(agents)), Cell("of all consumers"))
    )
    return (
        Stat(
            "connections",
            "Connections",
            count(len(lines)),
            Cell(f"{mark}{units.plural(len(consumers), 'consumer')} · {mark}{units.plural(producers, 'producer')}"),
        ),
        Stat(
            "in_flight",
            "In flight",
            count(sum(one.stats.in_flight_count for one in consumers)),
            Cell(f"of {mark}{units.number(sum(one.stats.ready_count for one in consumers))} RDY"),
        ),
        Stat(
            "outliers",
            "Outliers",
            Cell(least(outlier_count, is_partial=bool(clients.lacking))),
            Cell(outliers[0][:32] if outliers else calm, tone="danger" if outliers else ""),
            "Consumers that hold most of their channel's messages and finish few of them",
        ),
        Stat(
            "timeouts",
            "Timeouts",
            per_minute(timeouts, is_partial=bool(clients.lacking) or is_uncounted),
            Cell(timeouts_note),
        ),
        Stat(
            "requeued",
            "Requeued",
            per_minute([rates.requeued_min for rates in rated], is_partial=bool(clients.lacking)),
            Cell("by consumers"),
        ),
        last,
    )


def _empty(clients: ClientList, query: ListQuery) -> Empty:
    if query.wanted or query.show:
        return Empty("No connection is in this list", "", href=url_of("clients"), link="Show all")
    if clients.lacking:
        is_any_silent = any(clients.lacking.values())
        words = lacking_words(clients).removeprefix("≥: ") if is_any_silent else "The nodes are being read"
        return Empty("No connection is listed yet", f"{words}.")
    return Empty("Nothing is connected", "A consumer connects to the TCP address of a node, and so does a producer.")
