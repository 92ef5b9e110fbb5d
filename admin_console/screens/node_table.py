"""A topic or a channel by node: a row for each with all its figures, and one for all together."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from admin_console.diagnosis import pause_words
from admin_console.gateway.gateway import CHANNEL_HELP, TOPIC_HELP, TopicStats, full_version
from admin_console.hub.hub import LiveState
from admin_console.rings import figures
from admin_console.rings.rings import Rings
from admin_console.screens import graphs, partial
from admin_console.screens.cells import BaseCell, BesideCell, Cell, Chip, LineCell, StateCell
from admin_console.screens.channel_rows import age_s
from admin_console.screens.latency import p99_cell
from admin_console.screens.links import node_url, selection_of
from admin_console.screens.parts import ALL, Column, Empty, Table
from admin_console.screens.rates import GROWTH_COLUMN
from admin_console.vocabulary import units
from admin_console.vocabulary.roles import Role

if TYPE_CHECKING:
    from admin_console.cluster.merging.merged import Place
    from admin_console.cluster.reading.nodes import Node
    from admin_console.gateway.gateway import ChannelStats

# Rows of nodes that never answered, whose cells are all unknown: an nsqlookupd may name thousands.
UNREAD_ROWS_MAX = 20
_OWN_PRODUCT = f"Penstock {full_version().partition('+')[0]}"

_HEAD = (
    Column("name", "Node", "name"),
    Column("state", "State", "state"),
    Column("version", "Version", "text"),
    Column("depth", "Depth"),
)
_TAIL = (
    Column("clients", "Consumers"),
    Column("oldest", "Oldest"),
    Column("disk", "On disk"),
    Column("latency", "p99 to FIN"),
    Column("read", "Read"),
)
_TOPIC_COLUMNS = (
    *_HEAD,
    Column("places", "At the topic, memory + disk", help=TOPIC_HELP["depth"]),
    GROWTH_COLUMN,
    Column("published", "Published /s"),
    Column("messages", "Messages", help=TOPIC_HELP["message_count"]),
    Column("bytes", "Bytes", help=TOPIC_HELP["message_bytes"]),
    Column("in_flight", "In flight", help=CHANNEL_HELP["in_flight_count"]),
    Column("deferred", "Deferred", help=CHANNEL_HELP["deferred_count"]),
    Column("channels", "Channels"),
    *_TAIL,
)
_CHANNEL_COLUMNS = (
    *_HEAD,
    Column("places", "Memory + disk"),
    GROWTH_COLUMN,
    Column("in_flight", "In flight", help=CHANNEL_HELP["in_flight_count"]),
    Column("deferred", "Deferred", help=CHANNEL_HELP["deferred_count"]),
    Column("finished", "Finished /s", help=CHANNEL_HELP["finish_count"]),
    Column("requeued", "Requeued /min", help=CHANNEL_HELP["requeue_count"]),
    Column("timeouts", "Timeouts /min", help=CHANNEL_HELP["timeout_count"]),
    Column("messages", "Messages", help=CHANNEL_HELP["message_count"]),
    *_TAIL,
)


_NODE_COUNT = Column("nodes", "Nodes", help="Nodes that have it, those that do not answer among them.")


def with_node_count(live: LiveState | None, columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns of a list of topics or channels; those of a cluster have one more, behind name and state."""
    return tuple(columns) if live is None or live.cluster is None else (*columns[:2], _NODE_COUNT, *columns[2:])


def node_count(live: LiveState, topic: str, channel: str = "") -> tuple[Cell, ...]:
    """The cell of that column; none for one server. topic: "" for a group of topics, whose cell is empty."""
    if live.cluster is None:
        return ()
    parts = live.cluster.by_topic.get(topic, ())
    count = sum([not channel or channel in part.rows for part in parts])
    return (Cell(units.number(count) if topic else ""),)


def node_table(live: LiveState, role: Role, topic: str, channel: str = "") -> Table:
    """The nodes of a topic or channel, to be selected for acts. A silent node has its last figures, muted, and no
    rates; of those that never answered the first ones have a row."""
    assert live.cluster is not None, "one server has no table by node"
    places = live.cluster.places(topic, channel)
    nodes = {node.name: node for node in live.cluster.state.nodes}
    series = graphs.node_series(live, topic, channel)
    rings = live.rings_of_nodes(topic, channel)
    columns = _CHANNEL_COLUMNS if channel else _TOPIC_COLUMNS
    rows: list[tuple[str, Sequence[BaseCell]]] = [
        (place.node, _place_cells(live, place, nodes.get(place.node), series, rings.get(place.node), columns))
        for place in _with_a_row(places)
    ]
    if len(places) > 1:
        rows.append((ALL, _all_cells(live, places, len(places) - len(rows), topic, channel, columns)))
    title = f"{topic}/{channel}" if channel else topic
    return Table.build(
        "by_node",
        f"{title} by node",
        columns,
        rows,
        Empty("", "No node has it."),
        selection=selection_of("by_node", role),
        selected_as="node",
    )


def _with_a_row(places: Sequence["Place"]) -> Sequence["Place"]:
    unread = [place for place in places if not place.read_at_ms]
    without = {place.node for place in unread[UNREAD_ROWS_MAX:]}
    return [place for place in places if place.node not in without]


def _place_cells(
    live: LiveState,
    place: "Place",
    node: "Node | None",
    series: Mapping[str, int],
    rings: Rings | None,
    columns: Sequence[Column],
) -> list[BaseCell]:
    info = node.info if node is not None else None
    where = " · ".join(filter(None, (info.region, info.zone))) if info is not None else ""
    product = info.product if info is not None else _OWN_PRODUCT if place.is_embedded else units.UNKNOWN
    cells: dict[str, BaseCell] = {
        "name": LineCell(place.node, node_url(place.node), series.get(place.node, 0) if len(series) > 1 else 0, where),
        "state": StateCell(_chips(live, place, node)),
        "version": Cell(product),
        "read": Cell(_ago(live, place.read_at_ms)),
    }
    if not place.read_at_ms:
        return [cells.get(column.name, Cell(units.UNKNOWN, tone="muted")) for column in columns]
    cells |= _figures(live, place.stats, rings if place.is_answering else None)
    if not place.is_answering:
        unknown = Cell(units.UNKNOWN, partial.until([place.node]), "muted")
        last = {
            name: Cell(cell.text, f"{cell.title} · its last answer".removeprefix(" · "), "muted")
            for name, cell in cells.items()
            if isinstance(cell, Cell) and name not in ("version", "read")
        }
        cells |= last | {"growth": unknown, "oldest": unknown}
    return [cells[column.name] for column in columns]


def _all_cells(
    live: LiveState, places: "Sequence[Place]", hidden: int, topic: str, channel: str, columns: Sequence[Column]
) -> Sequence[BaseCell]:
    """hidden: how many of the places have no row."""
    stats = live.channels.get((topic, channel)) if channel else live.topics.get(topic)
    cells: dict[str, BaseCell] = {
        "name": BesideCell(
            f"All {units.plural(len(places), 'node')}",
            "",
            f"without a row: {hidden:,} that never answered" if hidden else "",
        ),
        "state": StateCell(),
        "version": Cell(""),
        "read": Cell(""),
    }
    if stats is None:  # no node that has it answers
        return [cells.get(column.name, Cell(units.UNKNOWN, tone="muted")) for column in columns]
    cells |= _figures(live, stats, live.rings_of(topic, channel))
    return partial.row_cells(columns, [cells[column.name] for column in columns], live.silent_of(topic, channel))


def _chips(live: LiveState, place: "Place", node: "Node | None") -> tuple[Chip, ...]:
    chips = []
    if not place.is_answering:
        since_ms = node.answers.failing_since_ms if node is not None else 0
        lasts = f" {_ago(live, since_ms)}" if since_ms else ""
        # The row has the figures of its last answer; its states may be others by now.
        return (Chip(f"not answering{lasts}", "danger", node.answers.error if node is not None else ""),)
    stats = place.stats
    if stats.paused:
        now_ms = live.snapshot.taken_at_ns // 1_000_000
        left = pause_words.left(stats.pause, now_ms) or "no end"
        by = f" by {pause_words.who(stats.pause)}," if stats.pause is not None and stats.pause.by else ""
        since = f"Paused{pause_words.since(stats.pause, now_ms)}."
        details = pause_words.details(stats.pause, now_ms)
        chips.append(Chip(f"❚❚{by} {left}", "held", f"{since} {details}".rstrip()))
    if not isinstance(stats, TopicStats):
        ramp, redrive = stats.ramp, stats.redrive
        now_ms = live.snapshot.taken_at_ns // 1_000_000
        if ramp is not None and ramp.until_ms > now_ms:
            chips.append(Chip("ramp", "", pause_words.ramp(ramp, now_ms)))
        if redrive is not None and not redrive.ended:
            by = f", by {redrive.redrive.by}" if redrive.redrive.by else ""
            share = f"{units.number(redrive.done)} of {units.number(redrive.redrive.total)}"
            chips.append(Chip(f"redrive {share}", "", f"Redriving {share} quarantined messages{by}"))
    if stats.fenced:
        chips.append(Chip("■ fenced", "danger", stats.fenced))
    if stats.unreadable:
        chips.append(Chip("▲ unreadable", "danger", stats.unreadable))
    return tuple(chips)


def _figures(live: LiveState, stats: "TopicStats | ChannelStats", rings: Rings | None) -> dict[str, BaseCell]:
    """By column. rings: None where there are none yet."""
    of_kind = _topic_figures(stats, rings) if isinstance(stats, TopicStats) else _channel_figures(stats, rings)
    return {
        **of_kind,
        "places": memory_and_disk(stats),
        "growth": _quiet(units.bare(units.growth(figures.GROWTH.rate(rings)))),
        "messages": _count(stats.message_count),
        "latency": p99_cell(stats.window),
        "oldest": _quiet(units.duration(age_s(live, _oldest_ns(stats)))),
        "disk": _quiet(units.byte_count(stats.disk_bytes)),
    }


def memory_and_disk(stats: "TopicStats | ChannelStats") -> Cell:
    """Where its waiting messages are."""
    return Cell(f"{units.number(stats.depth - stats.backend_depth)} + {units.number(stats.backend_depth)}")


def _topic_figures(topic: TopicStats, rings: Rings | None) -> dict[str, BaseCell]:
    channels = topic.channels

    def sum_of(name: str) -> Cell:
        return _count(sum([getattr(one, name) for one in channels]))

    return {
        "depth": _count(topic.depth + sum([one.depth for one in channels])),
        "published": _quiet(units.bare(units.rate(figures.ARRIVED.rate(rings)))),
        "bytes": Cell(units.byte_count(topic.message_bytes), f"{topic.message_bytes:,} bytes"),
        "in_flight": sum_of("in_flight_count"),
        "deferred": sum_of("deferred_count"),
        "channels": _count(len(channels)),
        "clients": sum_of("client_count"),
    }


def _channel_figures(channel: "ChannelStats", rings: Rings | None) -> dict[str, BaseCell]:
    return {
        "depth": _count(channel.depth),
        "in_flight": _count(channel.in_flight_count),
        "deferred": _count(channel.deferred_count),
        "finished": _since_start(units.bare(units.rate(figures.FINISHED.rate(rings))), channel.finish_count),
        "requeued": _since_start(units.number(figures.REQUEUED_MIN.count(rings)), channel.requeue_count),
        "timeouts": _since_start(units.number(figures.TIMEOUTS_MIN.count(rings)), channel.timeout_count),
        "clients": _count(channel.client_count),
    }


def _oldest_ns(stats: "TopicStats | ChannelStats") -> int | None:
    channels = stats.channels if isinstance(stats, TopicStats) else ()
    return min([one.oldest_ns for one in (stats, *channels) if one.oldest_ns is not None], default=None)


def _count(value: int) -> Cell:
    return Cell(units.number(value), units.exact(value), "" if value else "muted")


def _since_start(text: str, count: int) -> Cell:
    return Cell(text, f"{units.number(count)} since start", "muted" if text in ("0", units.UNKNOWN) else "")


def _quiet(text: str) -> Cell:
    return Cell(text, tone="muted" if text in ("0", units.UNKNOWN) else "")


def _ago(live: LiveState, unix_ms: int) -> str:
    now_ms = live.snapshot.taken_at_ns // 1_000_000
    return units.duration(max(0, now_ms - unix_ms) / 1_000) if unix_ms else units.UNKNOWN
