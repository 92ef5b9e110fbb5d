"""A topic: its own messages, its channels, its producers."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from admin_console.cluster.merging.node_clients import nodes_of_producers
from admin_console.gateway.gateway import CHANNEL_HELP
from admin_console.hub.hub import LiveState
from admin_console.rings import figures
from admin_console.screens import channel_list, connections, graphs, latency, partial
from admin_console.screens.cells import Cell, Chip, SparkCell
from admin_console.screens.channel_rows import diagnosis_of, spark_levels, state_cell
from admin_console.screens.cursors import cursor_table, cursors_of, is_archived, lost_archive, lost_archive_banner
from admin_console.screens.diagnosis import topic_banner
from admin_console.screens.links import channel_cell, pause_cell, selection_of
from admin_console.screens.list_links import ListQuery, with_sorts
from admin_console.screens.node_table import memory_and_disk, node_table
from admin_console.screens.parts import Column, Empty, Stat, Table
from admin_console.screens.pauses import panel_texts, pause_flags, paused_chip
from admin_console.screens.rates import (
    GROWTH_COLUMN,
    depth_stat,
    growth_cell,
    over,
    rate_cell,
    requeued_cell,
    timeouts_cell,
)
from admin_console.vocabulary import units
from admin_console.vocabulary.roles import Role

if TYPE_CHECKING:
    from admin_console.gateway.gateway import TopicStats
    from admin_console.gateway.pipeline import PipelineView

PRODUCERS_MAX = 50

_CHANNEL_COLUMNS = (
    Column("name", "Channel", "name"),
    Column("state", "State", "state"),
    Column("depth", "Depth", help=CHANNEL_HELP["depth"]),
    Column("places", "Memory + disk"),
    GROWTH_COLUMN,
    Column("in_flight", "In flight", help=CHANNEL_HELP["in_flight_count"]),
    Column("deferred", "Deferred", help=CHANNEL_HELP["deferred_count"]),
    Column("requeued", "Requeued /min", help=CHANNEL_HELP["requeue_count"]),
    Column("timeouts", "Timeouts /min", help=CHANNEL_HELP["timeout_count"]),
    Column("messages", "Messages", help=CHANNEL_HELP["message_count"]),
    Column("connections", "Consumers"),
    Column("spark", "Depth, 15 min", "spark"),
    Column("action", "Act", "action"),
)
_PRODUCER_COLUMNS = (
    Column("name", "Producer", "text"),
    Column("agent", "User agent", "text"),
    Column("published", "Published here"),
    Column("connected", "Connected"),
)
_PRODUCER_NODE = Column("node", "Node", "text")  # in a cluster, behind the name


def parts(
    live: LiveState | None,
    role: Role,
    name: str,
    pipeline: "PipelineView | None" = None,
    query: ListQuery | None = None,
) -> dict[str, Any]:
    """The parts of the screen; `flags["gone"]` when there is no such topic. pipeline: None where it is not read.
    query: the order of its channels."""
    query = query or ListQuery("topic", of=name)
    topic = live.topics.get(name) if live else None
    plans = (*graphs.node_plans(live, name), *graphs.topic_plans(name))
    points = graphs.points_of(live, plans)
    silent = live.silent_of(name) if live else ()
    of_nodes = partial.nodes_of(live, name)
    by_node = {"by_node": node_table(live, role, name)} if live and live.cluster else {}
    if live is None or topic is None:
        return of_nodes | {
            "flags": {"gone": live is not None and not silent},
            "stats": _blank_stats(),
            "graphs": graphs.graphs_of(live, plans),
            "points": points,
            "tables": {
                "channels": _channel_table(live, None, role, query),
                "cursors": cursor_table(live, None, role),
                "producers": _producer_table(live, None),
                **by_node,
            },
        }
    lost = lost_archive(topic, pipeline)
    banner = topic_banner(live, name, role)
    if lost is not None and (banner is None or banner.tone != "danger"):
        banner = lost_archive_banner(lost, role)
    return of_nodes | {
        "subtitle": _subtitle(live, topic),
        "chips": _chips(live, topic),
        "banner": banner,
        "stats": partial.stats(_stats(live, topic), silent),
        "graphs": graphs.graphs_of(live, plans),
        "points": points,
        "tables": {
            "channels": _channel_table(live, topic, role, query),
            "cursors": cursor_table(live, topic, role),
            "producers": _producer_table(live, topic),
            **by_node,
        },
        "flags": {
            **pause_flags(live, topic, name),
            "gone": False,
            "has_latency": latency.is_known(topic.window),
            "has_cursors": bool(cursors_of(live, topic)),
            "stopped": bool(topic.fenced or topic.unreadable),
            "archived": is_archived(topic),
            "unarchived": not is_archived(topic),
            "archive_lost": lost is not None and not lost.is_partial,
            "archive_incomplete": lost is not None and lost.is_partial,
        },
        "texts": {**panel_texts(live, topic), **latency.texts(topic.window, live.snapshot, silent)},
    }


def _subtitle(live: LiveState, topic: "TopicStats") -> str:
    channels = partial.least(
        units.plural(len(topic.channels), "channel"), is_partial=bool(live.silent_of(topic.topic_name))
    )
    storage = f"{topic.storage} storage · " if topic.storage else ""
    places = live.cluster.places(topic.topic_name) if live.cluster else ()
    return f"{storage}{channels}" + (f" · {units.plural(len(places), 'node')}" if places else "")


def _chips(live: LiveState, topic: "TopicStats") -> tuple[Chip, ...]:
    chips: list[Chip] = []
    if topic.fenced:
        chips.append(Chip("■ fenced", "danger", "A fault stopped it until an operator lets it try again"))
    if topic.unreadable:
        chips.append(Chip("▲ unreadable", "danger", topic.unreadable))
    if topic.paused:
        chips.append(paused_chip(live, topic))
    return tuple(chips)


def _stats(live: LiveState, topic: "TopicStats") -> tuple[Stat, ...]:
    rings = live.rings_of(topic.topic_name)
    in_channels = sum(channel.depth for channel in topic.channels)
    in_flight = sum(channel.in_flight_count for channel in topic.channels)
    deferred = sum(channel.deferred_count for channel in topic.channels)
    ready = units.total([channel.ready_count for channel in topic.channels])
    quarantined = sum(channel.quarantined_count for channel in topic.channels)
    memory = topic.depth - topic.backend_depth
    depth = topic.depth + in_channels
    # Channels have files of their own, or share the topic's part of the log.
    parts = [topic.disk_bytes]
    if topic.storage == "diskqueue":
        parts += [channel.disk_bytes for channel in topic.channels]
    sizes = [part for part in parts if part is not None]
    disk_bytes = sum(sizes) if len(sizes) == len(parts) else None
    average = topic.message_bytes / topic.message_count if topic.message_count else None
    return (
        depth_stat(rings, depth, has_unfinished=bool(depth or in_flight or deferred or quarantined)),
        Stat(
            "depth",
            "At the topic itself",
            Cell(units.number(topic.depth), units.exact(topic.depth)),
            Cell(
                f"{units.number(memory)} in memory, {units.number(topic.backend_depth)} on disk"
                + (f" · {units.number(topic.dropped_count)} dropped for lack of room" if topic.dropped_count else "")
            ),
        ),
        Stat(
            "published",
            "Published",
            rate_cell(figures.ARRIVED, rings),
            Cell(
                f"{over(figures.ARRIVED, rings)} · {units.number(topic.message_count)} since start",
                units.exact(topic.message_count),
            ),
        ),
        Stat(
            "bytes",
            "Bytes published",
            Cell(units.byte_count(topic.message_bytes), f"{topic.message_bytes:,} bytes"),
            Cell(
                f"{units.byte_count(average)} a message"
                + ("" if disk_bytes is None else f" · {units.byte_count(disk_bytes)} on disk")
            ),
        ),
        Stat(
            "in_flight",
            "In flight",
            Cell(units.number(in_flight)),
            Cell(f"of {units.number(ready)} RDY" + (f" · {units.number(deferred)} deferred" if deferred else "")),
        ),
        Stat(
            "timeouts",
            "Timeouts",
            Cell(units.per_minute(figures.TIMEOUTS_MIN.count(rings))),
            Cell(f"{units.per_minute(figures.REQUEUED_MIN.count(rings))} requeued"),
        ),
    )


def _blank_stats() -> tuple[Stat, ...]:
    labels = ("Depth", "At the topic itself", "Published", "Bytes published", "In flight", "Timeouts")
    names = ("waiting", "depth", "published", "bytes", "in_flight", "timeouts")
    return tuple(Stat(name, label, Cell(units.UNKNOWN)) for name, label in zip(names, labels, strict=True))


def _channel_table(live: LiveState | None, topic: "TopicStats | None", role: Role, query: ListQuery) -> Table:
    rows = []
    keys = []
    if live is not None and topic is not None:
        found = channel_list.passing(live, channel_list.ALL, f"{topic.topic_name}/".lower(), query.sort)
        keys = [key for key in found if key[0] == topic.topic_name]
    for key in keys:
        assert topic is not None, "channels are a topic's"
        assert live is not None, "topics come from a live state"
        channel = live.channels[key]
        diagnosis = diagnosis_of(live, topic, channel)
        rows.append(
            (
                channel.channel_name,
                partial.row_cells(
                    _CHANNEL_COLUMNS,
                    (
                        channel_cell(*key, with_topic=False),
                        state_cell(diagnosis, live),
                        Cell(units.number(channel.depth), units.exact(channel.depth)),
                        memory_and_disk(channel),
                        growth_cell(diagnosis),
                        Cell(units.number(channel.in_flight_count)),
                        Cell(units.number(channel.deferred_count)),
                        replace(requeued_cell(diagnosis), title=f"{units.number(channel.requeue_count)} since start"),
                        replace(timeouts_cell(diagnosis), title=f"{units.number(channel.timeout_count)} since start"),
                        Cell(units.number(channel.message_count), units.exact(channel.message_count)),
                        Cell(units.number(channel.client_count)),
                        SparkCell(spark_levels(live.rings_of(*key)), diagnosis.tone),
                        pause_cell(*key, role, is_paused=channel.paused),
                    ),
                    live.silent_of(*key),
                ),
            )
        )
    silent = live.silent_of(query.of) if live is not None else ()
    empty = Empty(
        f"The channels are {partial.until(silent)}" if silent else "No channels yet",
        "Messages stay at the topic until a channel is created; a consumer that subscribes creates its own.",
    )
    return Table.build(
        "channels",
        "Channels of the topic",
        with_sorts(_CHANNEL_COLUMNS, query, channel_list.SORTS),
        rows,
        empty,
        selection=selection_of("channels", role),
    )


def _producer_table(live: LiveState | None, topic: "TopicStats | None") -> Table:
    rows = []
    columns: tuple[Column, ...] = _PRODUCER_COLUMNS
    nodes: dict[int, str] = {}
    own = units.UNKNOWN
    cluster = live.cluster if live is not None else None
    if cluster is not None:
        columns = (columns[0], _PRODUCER_NODE, *columns[1:])
        if topic is not None:
            nodes = nodes_of_producers(cluster.state.answering, topic.topic_name)
            parts = cluster.by_topic.get(topic.topic_name, ())
            own = next((part.node for part in parts if part.is_embedded), own)
    if live is not None and topic is not None:
        now_s = live.snapshot.taken_at_ns / 1e9
        for client in live.snapshot.producers:
            published = dict(client.pub_counts).get(topic.topic_name)
            if published is None:
                continue
            rows.append(
                (
                    str(client.client_key),
                    (
                        Cell(client.client_id or client.hostname or client.remote_address, client.remote_address),
                        *((Cell(nodes.get(client.client_key, own)),) if cluster is not None else ()),
                        Cell(
                            " · ".join(filter(None, (client.user_agent or units.UNKNOWN, connections.layers(client)))),
                            connections.title(client),
                        ),
                        Cell(units.number(published), units.exact(published)),
                        connections.connected_cell(client, now_s),
                    ),
                )
            )
    empty = Empty("", "No producer is connected over TCP now. Producers over HTTP have no lasting connection.")
    return Table.build("producers", "Connected producers", columns, rows[:PRODUCERS_MAX], empty)
