"""The overview: six stats of all topics, two graphs, and the channels that need an operator first."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from admin_console.diagnosis.backing_off import BACKING_OFF
from admin_console.diagnosis.diagnosis import Diagnosis
from admin_console.diagnosis.falling_behind import FALLING_BEHIND
from admin_console.diagnosis.old_messages import OLD_MESSAGES
from admin_console.diagnosis.saturated import SATURATED
from admin_console.diagnosis.stuck import STUCK
from admin_console.diagnosis.timing_out import TIMING_OUT
from admin_console.gateway.gateway import CHANNEL_HELP
from admin_console.hub.hub import TOTAL, Key, LiveState
from admin_console.rings import figures
from admin_console.screens import channel_list, graphs, partial
from admin_console.screens.cells import Cell, SparkCell
from admin_console.screens.channel_rows import age_s, diagnosis_of, grave_count, ill, spark_levels, state_cell
from admin_console.screens.diagnosis import overview_banner
from admin_console.screens.links import channel_cell, pause_cell, selection_of, url_of
from admin_console.screens.list_links import ListQuery, PageOf, count_texts, list_bar, with_sorts
from admin_console.screens.log_panel import LOG_OF, is_anything_aside, log_table
from admin_console.screens.node_table import node_count, with_node_count
from admin_console.screens.parts import Column, Empty, Stat, Table
from admin_console.screens.rates import (
    GROWTH_COLUMN,
    average_note,
    depth_stat,
    growth_cell,
    quiet_cell,
    rate_cell,
    requeued_cell,
    timeouts_cell,
)
from admin_console.vocabulary import units
from admin_console.vocabulary.current_cluster import current_cluster
from admin_console.vocabulary.roles import Role

ROWS_MAX = 20

_CHANNEL_COLUMNS = (
    Column("name", "Channel", "name"),
    Column("state", "State", "state"),
    Column("depth", "Depth", help=CHANNEL_HELP["depth"]),
    GROWTH_COLUMN,
    Column("in_flight", "In flight", help=CHANNEL_HELP["in_flight_count"]),
    Column("deferred", "Deferred", help=CHANNEL_HELP["deferred_count"]),
    Column("requeued", "Requeued /min", help=CHANNEL_HELP["requeue_count"]),
    Column("timeouts", "Timeouts /min", help=CHANNEL_HELP["timeout_count"]),
    Column("oldest", "Oldest", help=CHANNEL_HELP["oldest_age_ms"]),
    Column("spark", "Depth, 15 min", "spark"),
    Column("action", "Act", "action"),
)


def parts(live: LiveState | None, role: Role, query: ListQuery, http_address: str) -> dict[str, Any]:
    """The parts of the screen. An unknown filter, order or page number falls back to the usual one."""
    plans = graphs.overview_plans(live, graphs.chosen_channels(query.draw))
    points = graphs.points_of(live, plans)
    show = query.show if query.show in channel_list.FILTERS else channel_list.BUSY
    counts = channel_list.counts(live, query.wanted) if live else dict.fromkeys(channel_list.FILTERS, 0)
    found = channel_list.passing(live, show, query.wanted, query.sort) if live else []
    page = PageOf.build(query, len(found), ROWS_MAX)
    filters = {
        name: label
        for name, label in channel_list.FILTERS.items()
        # The quiet ones have a line of their own below the list.
        if name != channel_list.QUIET or show == channel_list.QUIET
    }
    links = {**page.links(query), "quiet": query.href(show=channel_list.QUIET), "deepest": query.href(draw="")}
    drawn = [line.label for line in plans[-1].lines]
    drawn += [""] * (graphs.TOP_CHANNELS - len(drawn))
    unchannelled = (
        sum([not topic.channels and not live.silent_of(topic.topic_name) for topic in live.snapshot.topics])
        if live
        else 0
    )
    return partial.nodes_of(live) | {
        "subtitle": _subtitle(live),
        "banner": overview_banner(live, ill(live), grave_count(live), role) if live else None,
        "stats": partial.least_stats(
            partial.stats(_stats(live), live.silent_of("") if live else ()), live.partial_total if live else ()
        ),
        "graphs": graphs.graphs_of(live, plans),
        "points": points,
        "list_bar": list_bar(query, show, channel_list.BUSY, filters, counts, links, drawn),
        "tables": {
            "urgent": _channel_table(live, found[page.first : page.end], role, query, http_address),
            "log": log_table(live),
        },
        "flags": {
            "first_run": live is not None and not live.snapshot.topics and not live.silent_of(""),
            "quiet": show == channel_list.BUSY and counts[channel_list.QUIET] > 0,
            "unchannelled": unchannelled > 0,
            "log": live is not None and (live.snapshot.log is not None or is_anything_aside(live.snapshot.aside)),
            **page.flags,
        },
        "texts": {
            **page.texts,
            **count_texts(filters, counts),
            **(_quiet_texts(live, query, counts[channel_list.QUIET]) if live else {}),
            "log_of": LOG_OF if live is None or live.cluster is None else f"of this server, {LOG_OF}",
            "unchannelled": f"{units.plural(unchannelled, 'topic')} without a channel",
        },
    }


def _quiet_texts(live: LiveState, query: ListQuery, count: int) -> dict[str, str]:
    """The line for the channels that the list of the busy ones leaves out."""
    unconsumed = channel_list.quiet_without_consumer(live, query.wanted)
    text = ": nothing is in them, and nothing moved for 15 minutes."
    if unconsumed:
        text += f" {units.number(unconsumed)} {'has' if unconsumed == 1 else 'have'} no consumer."
    return {"quiet": units.plural(count, "quiet channel"), "quiet_rest": text}


def _subtitle(live: LiveState | None) -> str:
    if live is None:
        return "No figures have come from the engine yet."
    snapshot = live.snapshot
    clients = sum(channel.client_count for channel in live.channels.values())
    is_partial = bool(live.silent_of("") or live.partial_total)
    counts = (
        (len(snapshot.topics), "topic"),
        (len(live.channels), "channel"),
        (clients, "consumer"),
        (snapshot.producer_count, "producer"),
    )
    words = [partial.least(units.plural(count, noun), is_partial=is_partial) for count, noun in counts]
    if live.cluster is not None:
        # An nsqd does not report its producers.
        words[-1] = units.plural(partial.node_count(live), "node")
    return " · ".join(words)


def _stats(live: LiveState | None) -> tuple[Stat, ...]:
    rings = live.rings.get(TOTAL) if live else None
    depth = in_flight = ready = deferred = None
    quarantined = 0
    if live is not None:
        depth = sum([topic.depth for topic in live.snapshot.topics])
        in_flight = deferred = 0
        ready = units.total([one.ready_count for one in live.channels.values()])
        for one in live.channels.values():
            depth += one.depth
            in_flight += one.in_flight_count
            deferred += one.deferred_count
            quarantined += one.quarantined_count
    timeouts = figures.TIMEOUTS_MIN.count(rings)
    failing = [each for each in list(live.diagnoses.values()) if each.vitals.stats.failures is not None] if live else []
    worst = max(failing, key=lambda each: each.vitals.timeouts_min or 0, default=None)
    timeouts_note = Cell("none in the last minute") if timeouts == 0 else Cell("in the last minute")
    requeued = figures.REQUEUED_MIN.count(rings)
    if requeued:
        timeouts_note = Cell(f"{units.per_minute(requeued)} requeued")
    if timeouts and worst is not None and worst.vitals.timeouts_min:
        name = f"{worst.vitals.topic.topic_name}/{worst.vitals.stats.channel_name}"
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
            Cell(
                ("RDY unknown" if ready is None else f"of {units.number(ready)} RDY")
                + (f" · {units.number(deferred)} deferred" if deferred else "")
            ),
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
        return Stat("oldest", "Oldest message", value, Cell(f"▲ {health.removeprefix('NOK - ')}", tone="danger"))
    # An nsqd reports no ages: one that it has may be older.
    is_unknown = any(one.depth and one.oldest_ns is None for one in live.channels.values()) or any(
        topic.depth and topic.oldest_ns is None for topic in live.snapshot.topics
    )
    if oldest is None:
        note = "not every node reports it" if is_unknown else "every message is finished"
        return Stat("oldest", "Oldest message", value, Cell(note))
    return Stat("oldest", "Oldest message", replace(value, is_least=is_unknown), Cell(f"in {oldest[1]}"))


def _channel_table(
    live: LiveState | None, keys: Sequence[Key], role: Role, query: ListQuery, http_address: str
) -> Table:
    rows = []
    columns = with_node_count(live, _CHANNEL_COLUMNS)
    for key in keys:
        assert live is not None, "channels come from a live state"
        diagnosis = diagnosis_of(live, live.topics[key[0]], live.channels[key])
        stats = diagnosis.vitals.stats
        rows.append(
            (
                "/".join(key),
                partial.row_cells(
                    columns,
                    (
                        channel_cell(*key),
                        state_cell(diagnosis, live),
                        *node_count(live, *key),
                        quiet_cell(stats.depth),
                        growth_cell(diagnosis),
                        Cell(units.number(stats.in_flight_count)),
                        quiet_cell(stats.deferred_count),
                        requeued_cell(diagnosis),
                        timeouts_cell(diagnosis),
                        oldest_cell(diagnosis),
                        SparkCell(spark_levels(live.rings_of(*key)), diagnosis.tone),
                        pause_cell(*key, role, is_paused=stats.paused),
                    ),
                    live.silent_of(*key),
                ),
            )
        )
    return Table.build(
        "urgent",
        "Channels",
        with_sorts(columns, query, channel_list.SORTS),
        rows,
        _nothing(live, query, http_address),
        selection=selection_of("urgent", role),
    )


def oldest_cell(diagnosis: Diagnosis) -> Cell:
    tone = diagnosis.tone_of(FALLING_BEHIND, SATURATED, STUCK, BACKING_OFF, OLD_MESSAGES)
    return Cell(
        units.duration(diagnosis.vitals.oldest_s), tone=tone or ("muted" if diagnosis.vitals.oldest_s is None else "")
    )


def _nothing(live: LiveState | None, query: ListQuery, http_address: str) -> Empty:
    if live is None:
        return Empty("No figures have come from the engine yet", "They come every second; reload if none appear.")
    if not live.snapshot.topics:
        return no_topics(live, http_address)
    if not live.channels:
        silent = live.silent_of("")
        return Empty(
            f"The channels are {partial.until(silent)}" if silent else "No channels yet",
            "Messages stay at their topics until a channel is created; a consumer that subscribes creates its own.",
        )
    if query.wanted:
        title = f"No channel of this filter matches “{query.query.strip()}”"
        return Empty(title, "", href=query.href(show=channel_list.ALL), link="Look among all channels")
    found, silent = _NONE.get(query.show) or _NONE[channel_list.BUSY], live.silent_of("")
    if not silent:
        return found
    return replace(found, text=f"{found.text} The figures are without {partial.listed(silent)}.".strip())


# The empty state of a filter that no channel passes.
_NONE = {
    channel_list.BUSY: Empty("No channel is busy", "Nothing is in any of them, and nothing moved for 15 minutes."),
    channel_list.ATTENTION: Empty("No channel needs attention"),
    channel_list.PAUSED: Empty("No channel is paused"),
    channel_list.NO_CONSUMER: Empty("Every channel has a consumer"),
    channel_list.QUIET: Empty("No channel is quiet", "Each has messages or had some in the last 15 minutes."),
}


def no_topics(live: LiveState, http_address: str) -> Empty:
    """The empty state without a topic. A node that does not answer, or is not read yet, may have some."""
    silent = live.silent_of("")
    return Empty(f"The topics are {partial.until(silent)}") if silent else _first_run(http_address)


def _first_run(http_address: str) -> Empty:
    """The empty state of a new installation: how to make the first topic. http_address: "" where this console has no
    queue of its own."""
    if not http_address:
        return Empty(
            "No topics yet",
            (f"The cluster {name}" if (name := current_cluster()) else "This console has no queue of its own: it")
            + " shows the topics of the nodes that it calls. Their addresses come from --lookupd-http-address and "
            "--nsqd-http-address, or an admin enters them on the page Nodes.",
            href=url_of("nodes"),
            link="Nodes and their addresses",
        )
    return Empty(
        "Nothing here yet: publish a first message",
        "Publishing creates the topic. Use any NSQ client library, or this:",
        f"curl -d hello 'http://{http_address}/pub?topic=greetings'",
    )
