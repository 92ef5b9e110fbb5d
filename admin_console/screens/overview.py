"""The overview: six stats of all topics, two graphs, and the channels that need an operator first."""

from typing import Any

from admin_console.diagnosis.backing_off import BACKING_OFF
from admin_console.diagnosis.diagnosis import Diagnosis
from admin_console.diagnosis.falling_behind import FALLING_BEHIND
from admin_console.diagnosis.old_messages import OLD_MESSAGES
from admin_console.diagnosis.saturated import SATURATED
from admin_console.diagnosis.stuck import STUCK
from admin_console.diagnosis.timing_out import TIMING_OUT
from admin_console.hub.hub import TOTAL, LiveState
from admin_console.rings import figures
from admin_console.screens import graphs
from admin_console.screens.cells import Cell, SparkCell
from admin_console.screens.channel_rows import age_s, grave_count, most_urgent, spark_levels, state_cell
from admin_console.screens.diagnosis import overview_banner
from admin_console.screens.links import channel_cell, pause_cell, selection_of, topic_cell
from admin_console.screens.log_panel import is_anything_aside, log_table
from admin_console.screens.parts import Column, Empty, Stat, Table
from admin_console.screens.pauses import paused_table
from admin_console.screens.rates import (
    GROWTH_LABEL,
    average_note,
    depth_stat,
    growth_cell,
    quiet_cell,
    rate_cell,
    requeued_cell,
    timeouts_cell,
)
from admin_console.vocabulary import units
from admin_console.vocabulary.roles import Role

ROWS_MAX = 20
SIDE_ROWS_MAX = 8

_URGENT_COLUMNS = (
    Column("name", "Channel ↓ most urgent", "name"),
    Column("state", "State", "state"),
    Column("depth", "Depth"),
    Column("growth", GROWTH_LABEL),
    Column("in_flight", "In flight"),
    Column("deferred", "Deferred"),
    Column("requeued", "Requeued /min"),
    Column("timeouts", "Timeouts /min"),
    Column("oldest", "Oldest"),
    Column("spark", "Depth, 15 min", "spark"),
    Column("action", "Act", "action"),
)
_SIDE_COLUMNS = (Column("name", "Name", "name"), Column("depth", "Depth"), Column("oldest", "Oldest"))


def parts(live: LiveState | None, role: Role, http_address: str) -> dict[str, Any]:
    """The parts of the screen."""
    plans = graphs.overview_plans(live)
    points = graphs.points_of(live, plans)
    urgent = most_urgent(live, ROWS_MAX) if live else []
    channel_count = len(live.channels) if live else 0
    return {
        "subtitle": _subtitle(live),
        "banner": overview_banner(live, urgent, grave_count(live), role) if live else None,
        "stats": _stats(live),
        "graphs": graphs.graphs_of(live, plans),
        "points": points,
        "tables": {
            "urgent": _urgent_table(live, urgent, role, http_address),
            "paused": paused_table(live),
            "unconsumed": _unconsumed_table(live),
            "unchannelled": _unchannelled_table(live),
            "log": log_table(live),
        },
        "flags": {
            "first_run": live is not None and not live.snapshot.topics,
            "more": channel_count > ROWS_MAX,
            "log": live is not None and (live.snapshot.log is not None or is_anything_aside(live.snapshot.aside)),
        },
        "texts": {"more": f"The {ROWS_MAX} most urgent of {units.plural(channel_count, 'channel')}."},
    }


def _subtitle(live: LiveState | None) -> str:
    if live is None:
        return "No figures have come from the engine yet."
    snapshot = live.snapshot
    clients = sum(channel.client_count for channel in live.channels.values())
    return " · ".join(
        (
            units.plural(len(snapshot.topics), "topic"),
            units.plural(len(live.channels), "channel"),
            units.plural(clients, "consumer"),
            units.plural(snapshot.producer_count, "producer"),
        )
    )


def _stats(live: LiveState | None) -> tuple[Stat, ...]:
    rings = live.rings.get(TOTAL) if live else None
    depth = in_flight = ready = deferred = None
    quarantined = 0
    if live is not None:
        depth = sum([topic.depth for topic in live.snapshot.topics])
        in_flight = deferred = ready = 0
        for one in live.channels.values():
            depth += one.depth
            in_flight += one.in_flight_count
            deferred += one.deferred_count
            ready += one.ready_count
            quarantined += one.quarantined_count
    timeouts = figures.TIMEOUTS_MIN.count(rings)
    failing = [each for each in list(live.diagnoses.values()) if each.vitals.stats.failures is not None] if live else []
    worst = max(failing, key=lambda each: each.vitals.timeouts_min or 0, default=None)
    timeouts_note = Cell("none in the last minute") if timeouts == 0 else Cell("in the last minute")
    requeued = figures.REQUEUED_MIN.count(rings)
    if requeued:
        timeouts_note = Cell(f"{units.per_minute(requeued)} requeued")
    if timeouts and worst is not None and worst.vitals.timeouts_min:
        name = f"{worst.vitals.topic_name}/{worst.vitals.channel_name}"
        timeouts_note = Cell(
            f"{units.share(worst.vitals.timeouts_min, timeouts)} on {name}", tone=worst.tone_of(TIMING_OUT)
        )
    return (
        depth_stat(rings, depth, has_unfinished=bool(depth or in_flight or deferred or quarantined)),
        Stat("published", "Published", rate_cell(figures.ARRIVED, rings), average_note(figures.ARRIVED_LONG, rings)),
        Stat("finished", "Finished", rate_cell(figures.FINISHED, rings), average_note(figures.FINISHED_LONG, rings)),
        Stat(
            "in_flight",
            "In flight",
            Cell(units.number(in_flight), units.exact(in_flight)),
            Cell(f"of {units.number(ready)} RDY" + (f" · {units.number(deferred)} deferred" if deferred else "")),
        ),
        Stat("timeouts", "Timeouts", Cell(units.per_minute(timeouts)), timeouts_note),
        _oldest_stat(live),
    )


def _oldest_stat(live: LiveState | None) -> Stat:
    if live is None:
        return Stat("oldest", "Oldest message", Cell(units.UNKNOWN))
    health = live.snapshot.health
    found: list[tuple[int, tuple[str, ...]]]
    found = [(one.oldest_ns, key) for key, one in live.channels.items() if one.oldest_ns is not None]
    found += [(topic.oldest_ns, (topic.topic_name,)) for topic in live.snapshot.topics if topic.oldest_ns is not None]
    oldest_ns, names = min(found) if found else (None, ())
    oldest = None if oldest_ns is None else (age_s(live, oldest_ns), "/".join(names))
    value = Cell(units.duration(oldest[0] if oldest else None))
    if health != "OK":
        return Stat("oldest", "Oldest message", value, Cell(f"▲ engine: {health}", tone="danger"))
    if oldest is None:
        return Stat("oldest", "Oldest message", value, Cell("none unfinished · engine OK"))
    return Stat("oldest", "Oldest message", value, Cell(f"on {oldest[1]} · engine OK"))


def _urgent_table(live: LiveState | None, urgent: list[Diagnosis], role: Role, http_address: str) -> Table:
    rows = []
    for diagnosis in urgent[:ROWS_MAX]:
        assert live is not None, "diagnoses come from a live state"
        vitals = diagnosis.vitals
        stats = vitals.stats
        key = (vitals.topic_name, vitals.channel_name)
        rows.append(
            (
                "/".join(key),
                (
                    channel_cell(*key),
                    state_cell(diagnosis),
                    Cell(units.number(stats.depth), units.exact(stats.depth)),
                    growth_cell(diagnosis),
                    Cell(units.number(stats.in_flight_count)),
                    quiet_cell(stats.deferred_count),
                    requeued_cell(diagnosis),
                    timeouts_cell(diagnosis),
                    oldest_cell(diagnosis),
                    SparkCell(spark_levels(live.rings_of(*key)), diagnosis.tone),
                    pause_cell(*key, role, is_paused=stats.paused),
                ),
            )
        )
    return Table.build(
        "urgent",
        "Channels, the most urgent first",
        _URGENT_COLUMNS,
        rows,
        _nothing(live, http_address),
        selection=selection_of("urgent", role),
    )


def oldest_cell(diagnosis: Diagnosis) -> Cell:
    tone = diagnosis.tone_of(FALLING_BEHIND, SATURATED, STUCK, BACKING_OFF, OLD_MESSAGES)
    return Cell(units.duration(diagnosis.vitals.oldest_s), tone=tone)


def _nothing(live: LiveState | None, http_address: str) -> Empty:
    if live is None:
        return Empty("No figures have come from the engine yet", "They come every second; reload if none appear.")
    if not live.snapshot.topics:
        return first_run(http_address)
    return Empty(
        "No channels yet",
        "Messages stay at their topics until a channel is created; a consumer that subscribes creates its own.",
    )


def first_run(http_address: str) -> Empty:
    """What a new installation shows: how to make the first topic."""
    return Empty(
        "Nothing here yet: publish a first message",
        "Publishing creates the topic. Use any NSQ client library, or this:",
        f"curl -d hello 'http://{http_address or '127.0.0.1:4151'}/pub?topic=greetings'",
    )


def _unconsumed_table(live: LiveState | None) -> Table:
    urgent = most_urgent(live, SIDE_ROWS_MAX, unconsumed=True) if live else []
    rows = [
        (
            f"{vitals.topic_name}/{vitals.channel_name}",
            (
                channel_cell(vitals.topic_name, vitals.channel_name),
                Cell(units.number(vitals.stats.depth), units.exact(vitals.stats.depth)),
                Cell(units.duration(vitals.oldest_s)),
            ),
        )
        for vitals in (each.vitals for each in urgent)
    ]
    return Table.build(
        "unconsumed",
        "Channels without consumers",
        _SIDE_COLUMNS,
        rows,
        Empty("", "Every channel has a consumer."),
    )


def _unchannelled_table(live: LiveState | None) -> Table:
    topics = [topic for topic in live.snapshot.topics if not topic.channels] if live else []
    topics.sort(key=lambda topic: topic.depth, reverse=True)
    rows = [
        (
            topic.topic_name,
            (
                topic_cell(topic.topic_name),
                Cell(units.number(topic.depth), units.exact(topic.depth)),
                Cell(units.duration(age_s(live, topic.oldest_ns)) if live else units.UNKNOWN),
            ),
        )
        for topic in topics[:SIDE_ROWS_MAX]
    ]
    return Table.build(
        "unchannelled",
        "Topics without a channel: their messages stay at the topic",
        _SIDE_COLUMNS,
        rows,
        Empty("", "Every topic has a channel."),
    )
