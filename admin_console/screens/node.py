"""One node: what it is, where it is registered, and its topics, channels and clients."""

import platform
from collections.abc import Mapping, Sequence
from typing import Any

from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.merging.node_figures import topic_stats
from admin_console.cluster.reading.nodes import ClusterState, Node
from admin_console.cluster.reading.registrations import Registration
from admin_console.gateway.client_list import ClientList
from admin_console.gateway.cluster_view import ClusterView, OwnNode
from admin_console.gateway.gateway import CHANNEL_HELP, ChannelStats, TopicStats, full_version
from admin_console.gateway.node_requests import lacking
from admin_console.screens.cells import BaseCell, BesideCell, Cell, Chip, StateCell
from admin_console.screens.client_lines import lines_of as client_lines
from admin_console.screens.clients import cells, columns_without, row_key
from admin_console.screens.latency import p99_cell
from admin_console.screens.links import act_cell, channel_cell, pause_cell, selection_of, topic_cell, url_of
from admin_console.screens.nodes import NodeLine, ago, lines_of, missed_by
from admin_console.screens.parts import Banner, Column, Empty, Stat, Table
from admin_console.vocabulary import units
from admin_console.vocabulary.roles import Role

ROWS_MAX = 200  # topics, and channels
CLIENTS_MAX = 50

_FACT_COLUMNS = (Column("what", "", "text"), Column("value", "", "text"))
_REGISTRATION_COLUMNS = (
    Column("name", "nsqlookupd", "name"),
    Column("state", "State", "state"),
    Column("address", "Named as", "text"),
    Column("from", "Connected from", "text"),
    Column("topics", "Topics"),
    Column("tombstoned", "Tombstoned"),
)
_TOPIC_COLUMNS = (
    Column("name", "Topic", "name"),
    Column("state", "State", "state"),
    Column("depth", "Depth", help="Messages that wait at the topic itself"),
    Column("on_disk", "On disk", help="Those of them that are on disk"),
    Column("messages", "Messages", help="Published since the node started"),
    Column("channels", "Channels"),
    Column("act", "Act", "action"),
)
_CHANNEL_COLUMNS = (
    Column("name", "Channel", "name"),
    Column("state", "State", "state"),
    Column("depth", "Depth", help=CHANNEL_HELP["depth"]),
    Column("on_disk", "On disk", help=CHANNEL_HELP["backend_depth"]),
    Column("in_flight", "In flight", help=CHANNEL_HELP["in_flight_count"]),
    Column("deferred", "Deferred", help=CHANNEL_HELP["deferred_count"]),
    Column("requeued", "Requeued", help=CHANNEL_HELP["requeue_count"]),
    Column("timeouts", "Timeouts", help=CHANNEL_HELP["timeout_count"]),
    Column("messages", "Messages", help=CHANNEL_HELP["message_count"]),
    Column("clients", "Consumers", help=CHANNEL_HELP["client_count"]),
    Column("latency", "p99 to FIN", help="Of the messages that were finished lately"),
    Column("act", "Act", "action"),
)


def parts(view: ClusterView, role: Role, name: str) -> dict[str, Any]:
    """The parts of the screen; `flags["gone"]` when no address and no nsqlookupd names such a node."""
    line = next((one for one in lines_of(view) if one.name == name), None)
    if line is None:
        gone = next((one for one in view.state.gone if one.name == name), None)
        since = f"No nsqlookupd has named it since {units.moment(gone.gone_since_ms)} UTC" if gone else ""
        return {"flags": {"gone": True}, "texts": {"partial": since}}
    own = view.own if view.own is not None and view.own.name == name else None
    node = next((one for one in view.state.nodes if one.name == name), None) if own is None else None
    topics = _topics(own, node)
    channels = [channel for topic in topics for channel in topic.channels]
    registrations = _registrations(view.state, node)
    missed = missed_by(registrations, view.state)
    connected, of_clients = _clients(view.clients or ClientList(), name)
    return {
        "subtitle": _subtitle(line),
        "chips": line.chips,
        "banner": _banner(line, node),
        "stats": _stats(line),
        "tables": {
            "facts": Table.build("facts", "The node", _FACT_COLUMNS, _facts(line, own, node), Empty("")),
            "registrations": Table.build(
                "registrations",
                "Registrations",
                _REGISTRATION_COLUMNS,
                [
                    _registration_row(one.address, registrations.get(one.address), is_missed=one.address in missed)
                    for one in view.state.lookupds
                ],
                Empty("", "No nsqlookupd is configured."),
            ),
            "node_topics": _topic_table(
                topics, registrations, role, name, _nothing(node, "topics", "The node has no topic.")
            ),
            "node_channels": _channel_table(
                channels, role, name, _nothing(node, "channels", "Its topics have no channel.")
            ),
            "connections": connected,
        },
        "flags": {"gone": False, "has_lookupds": bool(view.state.lookupds), "silent": line.is_silent},
        "texts": {
            "topics": _shown(len(topics), ROWS_MAX),
            "channels": _shown(len(channels), ROWS_MAX),
            "clients": of_clients,
            "clients_url": f"{url_of('clients')}?q={name}",
        },
    }


def _shown(count: int, most: int) -> str:
    return f"the {most} deepest of {units.number(count)}" if count > most else units.number(count)


def _topics(own: OwnNode | None, node: Node | None) -> Sequence[TopicStats]:
    if own is not None:
        return own.snapshot.topics
    if node is None or node.stats is None:
        return ()
    return [topic_stats(topic, node.answers.answered_at_ms) for topic in node.stats.topics.values()]


def _registrations(state: ClusterState, node: Node | None) -> Mapping[HttpAddress, Registration]:
    if node is not None:
        return node.member.registrations
    return {lookupd: one for member in state.embedded for lookupd, one in member.registrations.items()}


def _subtitle(line: NodeLine) -> str:
    """ "nsqd 1.3.0 · eu · eu-a · answered 0.3 s ago"."""
    answered = f"answered {ago(line.answered_at_ms)} ago" if line.answered_at_ms else ""
    return " · ".join(filter(None, (line.beside, line.product, line.place, answered)))


def _banner(line: NodeLine, node: Node | None) -> Banner | None:
    if node is not None and node.member.refusal:
        title = f"{line.name} is not called"
        return Banner(
            "warning", title, f"{line.error} An option --allowed-node lets the console call it.", cause="rules"
        )
    if line.is_silent and line.error:
        since = units.moment(line.answered_at_ms) if line.answered_at_ms else ""
        last = f"The figures below are its last ones, of {since} UTC." if since else "It has not answered yet."
        title = f"{line.name} has not answered for {ago(line.failing_since_ms)}"
        return Banner("danger", title, f"{line.error} {last}", cause="silent")
    health = next((chip.title for chip in line.chips if chip.text == "not healthy"), "")
    return Banner("danger", f"{line.name} reports that it is not healthy", health, cause="health") if health else None


def _stats(line: NodeLine) -> tuple[Stat, ...]:
    def count(value: int | None) -> Cell:
        return Cell(units.number(value), units.exact(value))

    return (
        Stat("depth", "Depth", count(line.depth), Cell("at topics and in channels")),
        Stat("in_flight", "In flight", count(line.in_flight), Cell("with its consumers")),
        Stat("published", "Published", Cell(units.rate(line.published_s)), Cell("over 30 s")),
        Stat("finished", "Finished", Cell(units.rate(line.finished_s)), Cell("over 30 s")),
        Stat("messages", "Messages", count(line.messages), Cell("published since it started")),
        Stat("clients", "Clients", count(line.clients), Cell("consumers of its channels")),
    )


def _facts(line: NodeLine, own: OwnNode | None, node: Node | None) -> list[tuple[str, list[BaseCell]]]:
    facts: list[tuple[str, str]] = []
    if own is not None:
        facts = [
            ("Program", f"Penstock {full_version()}, Python {platform.python_version()}"),
            ("Host name", platform.node()),
            ("TCP address", own.node.tcp_address),
            ("HTTP address", own.node.http_address),
            ("Storage", f"new topics: {own.node.storage}, --sync {own.node.sync}"),
            ("Started", _since(own.snapshot.started_at_ns // 1_000_000)),
            ("Health", own.snapshot.health),
        ]
    elif node is not None:
        info, target = node.info, node.member.target
        answers = node.answers
        if info is not None:
            who = info.identity
            facts = [
                (
                    "Program",
                    info.product if info.product.endswith(info.version) else f"{info.product}, version {info.version}",
                ),
                ("Host name", who.hostname),
                ("Broadcast address", who.broadcast_address),
                ("Ports", f"TCP {who.tcp_port}, HTTP {who.http_port}"),
                ("Region", info.region),
                ("Zone", info.zone),
                ("Started", _since(who.started_s * 1_000)),
                ("Limits", lacking(node)),
            ]
        facts += [
            ("Called at", target.url),
            ("Named by", "the console's options" if node.member.is_configured else "nsqlookupds"),
            ("Health", node.stats.health if node.stats else ""),
            ("Last answer", f"took {answers.took_ms} ms" if answers.answered_at_ms else "none yet"),
        ]
        if node.stats is not None and node.stats.unreadable:
            facts.append(("Left out", f"{units.plural(node.stats.unreadable, 'entry', 'entries')} that can't be read"))
    return [(fact, [Cell(fact, tone="muted"), Cell(value)]) for fact, value in facts if value]


def _since(unix_ms: int) -> str:
    return f"{units.moment(unix_ms)} UTC, {ago(unix_ms)} ago" if unix_ms else ""


def _registration_row(lookupd: HttpAddress, one: Registration | None, *, is_missed: bool) -> tuple[str, list[BaseCell]]:
    chips = (Chip("not registered", "warning"),) if is_missed else ()
    return str(lookupd), [
        Cell(str(lookupd)),
        StateCell(chips),
        BesideCell(one.address.bare if one else units.UNKNOWN, ""),
        Cell(one.remote_address if one else units.UNKNOWN),
        Cell(units.number(len(one.topics) if one else None)),
        Cell(
            units.number(len(one.tombstoned) if one else None),
            ", ".join(sorted(one.tombstoned)[:20]) if one else "",
            "warning" if one and one.tombstoned else "muted",
        ),
    ]


def _count(value: int) -> Cell:
    return Cell(units.number(value), units.exact(value), "" if value else "muted")


def _paused(*, is_paused: bool) -> list[Chip]:
    return [Chip("❚❚ paused", "held")] if is_paused else []


def _nothing(node: Node | None, nouns: str, none: str) -> Empty:
    """none: the sentence for a node that answered, with none of them."""
    is_unread = node is not None and node.stats is None
    return Empty("", f"Its {nouns} are unknown: it has not answered yet." if is_unread else none)


def _topic_table(
    topics: Sequence[TopicStats],
    registrations: Mapping[HttpAddress, Registration],
    role: Role,
    node: str,
    nothing: Empty,
) -> Table:
    """A row's act is Tombstone where an nsqlookupd names the node for the topic; all others are those of selected
    rows."""
    tombstoned = {topic for one in registrations.values() for topic in one.tombstoned}
    deepest = sorted(topics, key=lambda topic: (-topic.depth, topic.topic_name))[:ROWS_MAX]
    rows: list[tuple[str, list[BaseCell]]] = []
    for topic in deepest:
        chips = _paused(is_paused=topic.paused)
        if topic.topic_name in tombstoned:
            chips.append(Chip("tombstoned", "warning", "Consumers that poll nsqlookupds do not find it here"))
        rows.append(
            (
                topic.topic_name,
                [
                    topic_cell(topic.topic_name),
                    StateCell(tuple(chips)),
                    _count(topic.depth),
                    _count(topic.backend_depth),
                    _count(topic.message_count),
                    _count(len(topic.channels)),
                    _tombstone_cell(topic.topic_name, registrations, role)
                    or pause_cell(topic.topic_name, "", role, is_paused=topic.paused, node=node),
                ],
            )
        )
    selection = selection_of("node_topics", role)
    return Table.build("node_topics", "Topics", _TOPIC_COLUMNS, rows, nothing, selection=selection)


def _tombstone_cell(topic: str, registrations: Mapping[HttpAddress, Registration], role: Role) -> BaseCell | None:
    """As on the page Lookup; None where no nsqlookupd names the node to consumers."""
    visible = [one for one in registrations.values() if topic in one.topics and topic not in one.tombstoned]
    return act_cell("Tombstone…", "tombstone_producer", role, topic, visible[0].address.bare) if visible else None


def _channel_table(channels: Sequence[ChannelStats], role: Role, node: str, nothing: Empty) -> Table:
    deepest = sorted(channels, key=lambda one: (-one.depth, one.topic_name, one.channel_name))[:ROWS_MAX]
    rows: list[tuple[str, list[BaseCell]]] = [
        (
            f"{one.topic_name}/{one.channel_name}",
            [
                channel_cell(one.topic_name, one.channel_name),
                StateCell(tuple(_paused(is_paused=one.paused))),
                _count(one.depth),
                _count(one.backend_depth),
                _count(one.in_flight_count),
                _count(one.deferred_count),
                _count(one.requeue_count),
                _count(one.timeout_count),
                _count(one.message_count),
                _count(one.client_count),
                p99_cell(one.window),
                pause_cell(one.topic_name, one.channel_name, role, is_paused=one.paused, node=node),
            ],
        )
        for one in deepest
    ]
    selection = selection_of("node_channels", role)
    return Table.build("node_channels", "Channels", _CHANNEL_COLUMNS, rows, nothing, selection=selection)


def _clients(clients: ClientList, name: str) -> tuple[Table, str]:
    """Those with most in flight, and how many there are."""
    found = [line for line in client_lines(clients) if line.client.node == name]
    found.sort(key=lambda line: line.urgency, reverse=True)
    columns = columns_without("node", "zone")
    names = {column.name for column in columns}
    rows = [(row_key(line.client), cells(line, names)) for line in found[:CLIENTS_MAX]]
    if name in clients.lacking:
        since_ms = clients.lacking[name]
        words = f"not answering for {ago(since_ms)}" if since_ms else "being read"
        return Table.build("connections", "Clients", columns, rows, Empty("", "They are not read now.")), words
    count = f"the first {CLIENTS_MAX} of {units.number(len(found))}" if len(found) > CLIENTS_MAX else ""
    empty = Empty("", "Nothing is connected.")
    return Table.build("connections", "Clients", columns, rows, empty), count or units.number(len(found))
