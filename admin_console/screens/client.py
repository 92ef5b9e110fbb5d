"""One connection: what it is, and its figures beside those of the other consumers of its channel."""

from collections.abc import Callable
from typing import Any

from admin_console.gateway.client_list import Client, ClientList
from admin_console.gateway.cluster_view import ClusterView
from admin_console.screens import connections
from admin_console.screens.cells import BaseCell, Cell, NameCell, ProgressCell
from admin_console.screens.client_lines import ClientLine, lines_of, mean
from admin_console.screens.clients import cells, columns_without, connected_cell, lacking_words, row_key
from admin_console.screens.links import channel_cell, node_url, topic_cell, url_of
from admin_console.screens.parts import Banner, Column, Empty, Stat, Table
from admin_console.vocabulary import units

PEERS_MAX = 50
_Figure = Callable[[Client], float | None]
# A figure's name, its words, what it is of a client, and how it is written.
_FIGURES: tuple[tuple[str, str, _Figure, Callable[[float | None], str]], ...] = (
    ("in_flight", "In flight", lambda one: one.stats.in_flight_count, units.number),
    ("ready", "RDY", lambda one: one.stats.ready_count, units.number),
    ("rate", "Finished /s", lambda one: one.rates.finished_s if one.rates else None, units.rate),
    ("requeued", "Requeued /min", lambda one: one.rates.requeued_min if one.rates else None, units.per_minute),
    ("timeouts", "Timeouts /min", lambda one: one.rates.timeouts_min if one.rates else None, units.per_minute),
    ("delivered", "Delivered since it connected", lambda one: one.stats.message_count, units.number),
    ("finished", "Finished since it connected", lambda one: one.stats.finish_count, units.number),
    ("given_back", "Requeued since it connected", lambda one: one.stats.requeue_count, units.number),
    ("timed_out", "Timed out since it connected", lambda one: one.timeouts, units.number),
)
_PEER_COLUMNS = (
    Column("what", "Figure", "text"),
    Column("own", "This one"),
    Column("peers", "Its peers, each", help="The mean of the other consumers of the channel, at all nodes"),
    Column("share", "Share of the channel", "progress"),
)
_FACT_COLUMNS = (Column("what", "", "text"), Column("value", "", "text"))
_PUBLISHED_COLUMNS = (Column("name", "Topic", "name"), Column("messages", "Messages"))


def parts(view: ClusterView, node: str, key: str) -> dict[str, Any]:
    """The parts of the screen; `flags["gone"]` when there is no such connection, or its node is not read now."""
    clients = view.clients or ClientList()
    line = next((one for one in lines_of(clients) if one.client.key == key and one.client.node == node), None)
    if line is None:
        lacking = lacking_words(clients) if node in clients.lacking else ""
        return {"flags": {"gone": True}, "texts": {"partial": lacking.removeprefix("≥: ")}}
    client = line.client
    peers = clients.peers_of(client) if client.topic else []
    return {
        "subtitle": _subtitle(client),
        "chips": line.chips,
        "banner": Banner("danger", f"{client.name} is an outlier", line.reason, cause="outlier")
        if line.reason
        else None,
        "stats": _stats(line, peers),
        "tables": {
            "compared": Table.build("compared", "Beside its peers", _PEER_COLUMNS, _compared(client, peers), Empty("")),
            "facts": Table.build("facts", "The connection", _FACT_COLUMNS, _facts(client), Empty("")),
            "published": Table.build("published", "Published", _PUBLISHED_COLUMNS, _published(client), Empty("")),
            "connections": _peer_table(clients, client, peers),
        },
        "flags": {
            "gone": False,
            "consumes": bool(client.topic),
            "publishes": bool(client.stats.pub_counts),
            "own": client.is_own and bool(client.topic),
            "partial": bool(clients.lacking),
        },
        "texts": {
            "name": client.name,
            "requeue": f"{url_of('requeue_channel', client.topic, client.channel)}?client={client.key}"
            if client.is_own and client.topic
            else "",
            "peers": f"{units.number(len(peers))} at all nodes"
            + (f", the first {PEERS_MAX} here" if len(peers) > PEERS_MAX else ""),
            "partial": lacking_words(clients),
        },
    }


def _subtitle(client: Client) -> str:
    where = f"consumes {client.topic}/{client.channel}" if client.topic else "publishes"
    return " · ".join(filter(None, (where, f"at {client.node}", client.stats.remote_address)))


def _stats(line: ClientLine, peers: list[Client]) -> tuple[Stat, ...]:
    client = line.client
    stats = []
    for name, label, figure, words in _FIGURES[:5]:
        of_peers = mean(map(figure, peers))
        note = f"peers {words(of_peers)}" if peers else "no peers" if client.topic else "no channel"
        stats.append(Stat(name, label.partition(" /")[0], Cell(words(figure(client))), Cell(note)))
    connected = connected_cell(client)
    return (*stats, Stat("connected", "Connected", connected, Cell(client.stats.user_agent[:32]), connected.title))


def _compared(client: Client, peers: list[Client]) -> list[tuple[str, list[BaseCell]]]:
    rows: list[tuple[str, list[BaseCell]]] = []
    for name, label, figure, words in _FIGURES:
        own, of_peers = figure(client), [figure(peer) for peer in peers]
        total = sum(value for value in (own, *of_peers) if value is not None)
        share: BaseCell = Cell(units.UNKNOWN, tone="muted")
        if own is not None and total and peers:
            share = ProgressCell(f"share of {label}", round(1_000 * own / total), 1_000, units.share(own, total))
        rows.append((name, [Cell(label), Cell(words(own)), Cell(words(mean(of_peers))), share]))
    return rows if client.topic else []


def _facts(client: Client) -> list[tuple[str, list[BaseCell]]]:
    stats = client.stats
    facts: list[tuple[str, BaseCell | str]] = [
        ("Node", NameCell(client.node, node_url(client.node))),
        ("Channel", channel_cell(client.topic, client.channel) if client.topic else ""),
        ("Client id", stats.client_id),
        ("Host name", stats.hostname),
        ("Address", stats.remote_address),
        ("User agent", stats.user_agent),
        ("Connected", f"{units.moment(stats.connect_ts * 1_000)} UTC" if stats.connect_ts else ""),
        ("Agreed on", connections.layers(stats) or "a plain connection"),
        ("Cipher suite", stats.tls_cipher_suite),
        ("Message timeout", units.duration(stats.msg_timeout_ms / 1_000) if stats.msg_timeout_ms else ""),
        ("Identity", " · ".join(filter(None, (stats.auth_identity, stats.auth_identity_url)))),
        ("Zone", " · ".join(filter(None, (client.region, client.zone, "that of its node" if client.is_local else "")))),
    ]
    return [
        (fact, [Cell(fact), Cell(value) if isinstance(value, str) else value])
        for fact, value in facts
        if not isinstance(value, str) or value
    ]


def _published(client: Client) -> list[tuple[str, list[BaseCell]]]:
    counts = sorted(client.stats.pub_counts, key=lambda one: -one[1])[:PEERS_MAX]
    return [(topic, [topic_cell(topic), Cell(units.number(count), units.exact(count))]) for topic, count in counts]


def _peer_table(clients: ClientList, client: Client, peers: list[Client]) -> Table:
    there = {id(one) for one in peers}
    lines = [line for line in lines_of(clients) if id(line.client) in there]
    lines.sort(key=lambda line: -line.client.stats.in_flight_count)
    columns = columns_without("channel", "attributes", *(() if clients.node_count > 1 else ("node",)))
    names = {column.name for column in columns}
    rows = [(row_key(line.client), cells(line, names)) for line in lines[:PEERS_MAX]]
    return Table.build("connections", "Its peers", columns, rows, Empty("", "It is the channel's only consumer."))
