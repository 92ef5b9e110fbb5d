"""A channel: its stats, why it does not drain, its consumers, and the messages in flight."""

import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from admin_console.cluster.merging.node_clients import KEY
from admin_console.diagnosis.diagnosis import Diagnosis
from admin_console.diagnosis.failing import FAILING
from admin_console.diagnosis.finding import TONES
from admin_console.diagnosis.paused import RAMP
from admin_console.diagnosis.timing_out import TIMING_OUT
from admin_console.diagnosis.vitals import Vitals
from admin_console.gateway.gateway import CHANNEL_HELP, CLIENT_HELP, ChannelStats, ClientStats, TopicStats
from admin_console.gateway.in_flight_list import LIMIT as IN_FLIGHT_MAX
from admin_console.gateway.sentences import not_listed
from admin_console.hub.hub import LiveState
from admin_console.rings import figures
from admin_console.rings.rings import Rings
from admin_console.screens import connections, graphs, latency, partial, quarantine
from admin_console.screens.cells import AnchorCell, BaseCell, BesideCell, Cell, LineCell, NameCell
from admin_console.screens.channel_rows import chips_of, diagnosis_of
from admin_console.screens.diagnosis import channel_banner
from admin_console.screens.links import act_cell, client_url, consumer_anchor, message_url
from admin_console.screens.node_table import node_table
from admin_console.screens.parts import Column, Empty, Stat, Table
from admin_console.screens.pauses import panel_texts, pause_flags, ramp_text
from admin_console.screens.rates import depth_note, over
from admin_console.vocabulary import units
from admin_console.vocabulary.roles import Role

if TYPE_CHECKING:
    from admin_console.cluster.merging.merged import Place
    from admin_console.gateway.gateway import InFlightStats
    from admin_console.gateway.in_flight_list import InFlightElsewhere, InFlightList

CLIENTS_MAX = 200

_CLIENT_COLUMNS = (
    Column("name", "Consumer", "text"),
    Column("agent", "User agent", "text"),
    Column("attributes", "Attributes", "text"),
    Column("in_flight", "In flight", help=CLIENT_HELP["in_flight_count"]),
    Column("ready", "RDY", help=CLIENT_HELP["ready_count"]),
    Column("finished", "Finished", help=CLIENT_HELP["finish_count"]),
    Column("requeued", "Requeued", help=CLIENT_HELP["requeue_count"]),
    Column("timeouts", "Timeouts", help=CLIENT_HELP["timeout_count"]),
    Column("messages", "Messages", help=CLIENT_HELP["message_count"]),
    Column("connected", "Connected"),
    Column("action", "Act", "action"),
)
_CLIENT_NODE = Column("node", "Node", "text")  # in a cluster, behind the name
_IN_FLIGHT_COLUMNS = (
    Column("name", "Message", "text"),
    Column("owner", "Held by", "text"),
    Column("attempts", "Attempts"),
    Column("bytes", "Size"),
    Column("age", "Published"),
    Column("held", "Held"),
    Column("deadline", "Times out in"),
    Column("action", "Act", "action"),
)
_STATS = (
    ("depth", "Depth", CHANNEL_HELP["depth"]),
    ("in_flight", "In flight", CHANNEL_HELP["in_flight_count"]),
    ("deferred", "Deferred", CHANNEL_HELP["deferred_count"]),
    ("timeouts", "Timeouts", CHANNEL_HELP["timeout_count"]),
    ("requeued", "Requeued", CHANNEL_HELP["requeue_count"]),
    ("oldest", "Oldest message", CHANNEL_HELP["oldest_age_ms"]),
)


def parts(
    live: LiveState | None, role: Role, topic_name: str, name: str, in_flight: "InFlightList | None"
) -> dict[str, Any]:
    """The parts of the screen; `flags["gone"]` when there is no such channel.

    in_flight: the messages in flight; None when they were not read or the engine did not answer.
    """
    topic = live.topics.get(topic_name) if live else None
    stats = live.channels.get((topic_name, name)) if live else None
    plans = (*graphs.node_plans(live, topic_name, name), *graphs.channel_plans(topic_name, name))
    points = graphs.points_of(live, plans)
    silent = live.silent_of(topic_name, name) if live else ()
    common = {"graphs": graphs.graphs_of(live, plans), "points": points, **partial.nodes_of(live, topic_name, name)}
    by_node = {"by_node": node_table(live, role, topic_name, name)} if live and live.cluster else {}
    if live is None or topic is None or stats is None:
        return common | {
            "flags": {"gone": live is not None and not silent},
            "stats": tuple(Stat(stat, label, Cell(units.UNKNOWN), help=text) for stat, label, text in _STATS),
            "tables": {
                "clients": _client_table(
                    None, role, topic_name, name, of_nodes=[] if live and live.cluster else None, silent=silent
                ),
                "in_flight": _in_flight_table(None, None, role, topic_name, name, silent, live),
                **by_node,
            },
        }
    diagnosis = diagnosis_of(live, topic, stats)
    places = live.cluster.places(topic_name, name) if live.cluster else None
    of_nodes = _consumers(live, places) if places is not None else None
    clients = partial.least(units.number(stats.client_count), is_partial=bool(silent))
    banner, ramp = channel_banner(live, diagnosis, role), ramp_text(live, stats)
    return common | {
        "subtitle": partial.least_in(_subtitle(stats)) if silent else _subtitle(stats),
        "chips": chips_of(diagnosis, live),
        "banner": banner,
        "stats": partial.stats(_stats(diagnosis, live.rings_of(topic_name, name)), silent, growing="depth"),
        "tables": {
            "clients": _client_table(stats, role, topic_name, name, diagnosis, of_nodes, silent),
            "in_flight": _in_flight_table(stats, in_flight, role, topic_name, name, silent, live),
            **by_node,
        },
        "flags": {
            **pause_flags(live, stats, topic_name, name),
            "gone": False,
            "has_latency": latency.is_known(stats.window),
            "has_in_flight": stats.in_flight_count > 0,
            "has_deferred": stats.deferred_count > 0,
            "stopped": bool(stats.fenced or stats.unreadable),
            # The banner has it, where no graver finding heads the page.
            "ramping": bool(ramp) and (banner is None or not banner.cause.startswith(RAMP.name)),
            **quarantine.flags(stats),
        },
        "texts": {
            **panel_texts(live, stats),
            "ramp": ramp,
            "in_flight_count": _shown(in_flight, stats.in_flight_count, is_partial=bool(silent)),
            "clients_count": f"{clients} · each row counts since it connected" if stats.client_count else clients,
            **quarantine.texts(stats, live.snapshot.taken_at_ns),
            **latency.texts(stats.window, live.snapshot, silent),
        },
    }


def _subtitle(stats: ChannelStats) -> str:
    memory = stats.depth - stats.backend_depth
    # An nsqd does not report its files.
    disk = "" if stats.disk_bytes is None else f" · {units.byte_count(stats.disk_bytes)} on disk"
    return (
        f"{units.number(memory)} in memory, {units.number(stats.backend_depth)} on disk{disk} ·  "
        f"{units.plural(stats.message_count, 'message')}, {units.number(stats.finish_count)} finished since start"
        + (f" · {units.number(stats.dropped_count)} dropped for lack of room" if stats.dropped_count else "")
    )


def _shown(in_flight: "InFlightList | None", count: int, *, is_partial: bool) -> str:
    """The count, and why some are not in the list."""
    number = partial.least(units.number(count), is_partial=is_partial)
    if in_flight is None:
        return number
    # The list and the count come from two answers: a few messages may come or go between them, which is no cut list.
    length = len(in_flight.own or ()) + len(in_flight.elsewhere)
    shown = f"the first {units.number(IN_FLIGHT_MAX)} of {number}" if IN_FLIGHT_MAX <= length < count else number
    return " · ".join([shown, *not_listed(in_flight.lacking.items())])


def _stats(diagnosis: Diagnosis, rings: Rings | None) -> tuple[Stat, ...]:
    vitals = diagnosis.vitals
    stats = vitals.stats
    notes = {
        "depth": (
            Cell(units.number(stats.depth), units.exact(stats.depth)),
            _depth_note(vitals, rings),
        ),
        "in_flight": (
            Cell(units.number(stats.in_flight_count)),
            Cell(f"{units.plural(stats.client_count, 'consumer')}, RDY {units.number(stats.ready_count)}"),
        ),
        "deferred": (Cell(units.number(stats.deferred_count)), _due_note(vitals)),
        "timeouts": (
            Cell(units.per_minute(vitals.timeouts_min)),
            Cell(f"{units.number(stats.timeout_count)} since start", tone=diagnosis.tone_of(TIMING_OUT)),
        ),
        "requeued": (
            Cell(units.per_minute(vitals.requeued_min), tone=diagnosis.tone_of(FAILING)),
            Cell(
                f"{units.number(stats.requeue_count)} since start"
                + (
                    f" · {units.number(stats.disconnect_count)} more from lost connections"
                    if stats.disconnect_count
                    else ""
                ),
            ),
        ),
        "oldest": (
            Cell(units.duration(vitals.oldest_s)),
            Cell(
                f"{units.rate(vitals.inflow_s)} in · {units.rate(vitals.outflow_s)} finished",
                f"averages {over(figures.ARRIVED, rings)}",
            ),
        ),
    }
    return tuple(Stat(name, label, *notes[name], help=text) for name, label, text in _STATS)


def _depth_note(vitals: Vitals, rings: Rings | None) -> Cell:
    """Where the depth is heading, and how long until it is 0 if it shrinks."""
    note = depth_note(rings, has_unfinished=vitals.has_unfinished)
    drained_in_s = vitals.drained_in_s
    return note if drained_in_s is None else Cell(f"{note.text} · empty in {units.about(drained_in_s)}")


def _due_note(vitals: Vitals) -> Cell:
    in_s = vitals.next_due_s
    if in_s is None:
        return Cell("none deferred" if not vitals.stats.deferred_count else "due time unknown")
    return Cell(f"next due in {units.duration(in_s)}" if in_s > 0 else "due now")


# Where it is connected, None on one server; its figures; its messages that timed out, which an nsqd does not count.
_Consumer = tuple["Place | None", ClientStats, int | None]


def _consumers(live: LiveState, places: "Sequence[Place]") -> "Sequence[_Consumer]":
    """Those of all nodes that answer."""
    nodes = {node.name: node for node in live.cluster.state.nodes} if live.cluster else {}
    found: list[_Consumer] = []
    for place in places:
        stats, node = place.stats, nodes.get(place.node)
        if place.is_answering and not isinstance(stats, TopicStats):
            counts = node is None or node.info is None or node.info.is_penstock
            found += [(place, client, client.timeout_count if counts else None) for client in stats.clients or ()]
    return found


def _client_table(
    stats: ChannelStats | None,
    role: Role,
    topic: str,
    name: str,
    diagnosis: Diagnosis | None = None,
    of_nodes: "Sequence[_Consumer] | None" = None,
    silent: Sequence[str] = (),
) -> Table:
    """The consumers that a state names come first: a long list is cut. of_nodes: in a cluster, whose rows have their
    node. silent: nodes whose consumers are unknown."""
    rows = []
    columns = _CLIENT_COLUMNS if of_nodes is None else (_CLIENT_COLUMNS[0], _CLIENT_NODE, *_CLIENT_COLUMNS[1:])
    now_s = time.time()
    tones = {}
    for state in diagnosis.states if diagnosis else ():
        tones[state.finding.kind, state.finding.client_key] = TONES[state.finding.level]
    named = {key for _, key in tones if key}
    listed: Sequence[_Consumer] = of_nodes or ()
    if of_nodes is None and stats:
        listed = [(None, client, client.timeout_count) for client in stats.clients or ()]
    first = sorted(listed, key=lambda each: each[1].client_key not in named)[:CLIENTS_MAX]
    for place, client, timeouts in first:
        is_here = place is None or place.is_embedded
        key = str(client.client_key)
        requeue = (
            act_cell("Requeue now…", "requeue_channel", role, topic, name, query={"client": key})
            if client.in_flight_count and is_here
            else act_cell("", "requeue_channel", role, topic, name)
        )
        rows.append(
            (
                key,
                (
                    AnchorCell(
                        _client_name(client),
                        consumer_anchor(client.client_key),
                        f"{client.remote_address} · {client.hostname}",
                    )
                    if is_here
                    else _remote_name(place, client),
                    *((BesideCell(place.node, ""),) if place else ()),
                    Cell(client.user_agent or units.UNKNOWN),
                    Cell(connections.agreed(client), connections.title(client)),
                    Cell(units.number(client.in_flight_count)),
                    Cell(units.number(client.ready_count), tone="warning" if not client.ready_count else ""),
                    Cell(units.number(client.finish_count), units.exact(client.finish_count)),
                    Cell(units.number(client.requeue_count), tone=tones.get((FAILING, client.client_key), "")),
                    Cell(
                        units.number(timeouts),
                        tone=tones.get((TIMING_OUT, client.client_key), "" if timeouts else "muted"),
                    ),
                    Cell(units.number(client.message_count), units.exact(client.message_count)),
                    connections.connected_cell(client, now_s),
                    requeue,
                ),
            )
        )
    if stats and stats.client_count and not listed:
        empty = Empty("", f"{units.plural(stats.client_count, 'consumer')}: their figures come with the next second.")
    elif silent:
        empty = Empty("", f"The consumers are {partial.until(silent)}.")
    else:
        empty = Empty("", "No consumer is connected to this channel.")
    return Table.build("clients", "Connected consumers", columns, rows, empty)


def _client_name(client: Any) -> str:
    name = client.client_id or client.hostname
    return f"{name} {client.remote_address}" if name else client.remote_address


def _remote_name(place: "Place | None", client: ClientStats) -> BaseCell:
    """A link to the client's page, but for an address that no page has."""
    name, title = _client_name(client), f"{client.remote_address} · {client.hostname}"
    if place is None or not re.fullmatch(KEY, client.remote_address):
        return Cell(name, title)
    return LineCell(name, client_url(place.node, client.remote_address), title=title)


def _in_flight_table(
    stats: ChannelStats | None,
    in_flight: "InFlightList | None",
    role: Role,
    topic: str,
    name: str,
    silent: Sequence[str] = (),
    live: LiveState | None = None,
) -> Table:
    """Earliest deadline first; in a cluster each with its node. silent: nodes at which messages may be in flight."""
    cluster = live.cluster if live is not None else None
    places = cluster.places(topic, name) if cluster is not None else ()
    of_own = next((place for place in places if place.is_embedded), None)
    own_stats = stats if cluster is None else of_own.stats if of_own is not None else None
    clients = own_stats.clients if isinstance(own_stats, ChannelStats) else ()
    owners = {client.client_key: _client_name(client) for client in clients or ()}
    columns: tuple[Column, ...] = _IN_FLIGHT_COLUMNS
    if cluster is not None:
        columns = (columns[0], _CLIENT_NODE, *columns[1:])
    listed: list[tuple[InFlightElsewhere | None, InFlightStats]] = [
        (None, one) for one in (in_flight and in_flight.own) or ()
    ]
    listed += [(one, one.stats) for one in (in_flight.elsewhere if in_flight else ())]
    if in_flight is not None and in_flight.elsewhere:
        listed.sort(key=lambda each: each[1].deadline_in_ms)
    now_ns = time.time_ns()
    rows = []
    for at, held in listed[:IN_FLIGHT_MAX]:
        is_late = held.deadline_in_ms < 0
        at_node = {"node": at.node} if at is not None else {}
        url = message_url(topic, name, held.message_id)
        node = (Cell(at.node if at is not None else of_own.node if of_own else units.UNKNOWN),)
        rows.append(
            (
                held.message_id if at is None else f"{held.message_id}@{at.node}",
                (
                    NameCell(held.message_id, f"{url}?{urlencode(at_node)}" if at_node else url),
                    *(node if cluster is not None else ()),
                    Cell(
                        (at.owner if at is not None else owners.get(held.client_key)) or f"consumer {held.client_key}"
                    ),
                    Cell(units.number(held.attempts), tone="warning" if held.attempts > 5 else ""),
                    Cell(units.byte_count(held.body_bytes)),
                    Cell(
                        f"{units.duration((now_ns - held.published_at_ns) / 1e9)} ago"
                        if held.published_at_ns
                        else units.UNKNOWN
                    ),
                    Cell(units.duration(held.held_ms / 1000)),
                    Cell(
                        "due now" if is_late else units.duration(held.deadline_in_ms / 1000),
                        tone="warning" if is_late else "",
                    ),
                    # This server's act on a channel can name a message; another node's can't.
                    act_cell("Requeue now…", "requeue_channel", role, topic, name, query={"message": held.message_id})
                    if at is None
                    else act_cell(
                        "Requeue now…", "requeue_messages", role, topic, name, query={"id": held.message_id, **at_node}
                    ),
                ),
            )
        )
    if in_flight is not None and in_flight.lacking:
        empty = Empty("", " ".join(not_listed(in_flight.lacking.items())))
    elif (in_flight is None or in_flight.own is None) and stats and stats.in_flight_count:
        empty = Empty("", f"{units.plural(stats.in_flight_count, 'message')}; the list is not available here now.")
    elif silent:
        empty = Empty("", f"Which messages are in flight is {partial.until(silent)}.")
    else:
        empty = Empty("", "No message is in flight.")
    return Table.build("in_flight", "Messages in flight", columns, rows, empty)
