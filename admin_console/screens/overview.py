"""The overview: all topics in six figures, two graphs, and the channels that need somebody first."""

from typing import Any

from admin_console.accounts.roles import Role
from admin_console.live.hub import TOTAL, Reading
from admin_console.live.rings import Rings
from admin_console.screens import graphs, units
from admin_console.screens.diagnosis import overview_meaning
from admin_console.screens.links import channel_cell, pause_cell, topic_cell, url_of
from admin_console.screens.log_panel import log_table
from admin_console.screens.parts import Cell, Column, Empty, Figure, SparkCell, StateCell, Table
from admin_console.screens.vitals import DANGER, WARNING, Vitals, age_s, all_vitals, spark_letters

ROWS_MAX = 20
SIDE_ROWS_MAX = 8
TREND_SPAN_S = 5

_URGENT_COLUMNS = (
    Column("name", "Channel ↓ most urgent", "name"),
    Column("state", "State", "state"),
    Column("depth", "Depth"),
    Column("growth", "Growth, 30 s"),
    Column("in_flight", "In flight"),
    Column("timeouts", "Timeouts /min"),
    Column("oldest", "Oldest"),
    Column("spark", "Depth, 15 min", "spark"),
    Column("action", "Act", "action"),
)
_SIDE_COLUMNS = (Column("name", "Name", "name"), Column("depth", "Waiting"), Column("oldest", "Oldest"))


def parts(reading: Reading | None, role: Role, http_address: str) -> dict[str, Any]:
    """The parts of the screen."""
    plans = graphs.overview_plans(reading)
    points = graphs.points_of(reading, plans)
    urgent = all_vitals(reading) if reading else []
    return {
        "subtitle": _subtitle(reading),
        "meaning": overview_meaning(reading, urgent, lambda *names: url_of("channel", *names)) if reading else None,
        "strip": _strip(reading, urgent),
        "graphs": graphs.graphs_of(plans, points),
        "points": points,
        "tables": {
            "urgent": _urgent_table(reading, urgent, role, http_address),
            "paused": _paused_table(reading),
            "unconsumed": _unconsumed_table(urgent),
            "unchannelled": _unchannelled_table(reading),
            "log": log_table(reading),
        },
        "flags": {
            "first_run": reading is not None and not reading.snapshot.topics,
            "more": len(urgent) > ROWS_MAX,
            "log": reading is not None and reading.snapshot.log is not None,
        },
        "texts": {"more": f"The {ROWS_MAX} most urgent of {units.plural(len(urgent), 'channel')}."},
    }


def _subtitle(reading: Reading | None) -> str:
    if reading is None:
        return "The engine has not told its figures yet."
    snapshot = reading.snapshot
    clients = sum(channel.client_count for channel in reading.channels.values())
    return " · ".join(
        (
            units.plural(len(snapshot.topics), "topic"),
            units.plural(len(reading.channels), "channel"),
            units.plural(clients, "consumer"),
            units.plural(snapshot.producer_count, "producer"),
        )
    )


def _strip(reading: Reading | None, urgent: list[Vitals]) -> tuple[Figure, ...]:
    rings = reading.rings.get(TOTAL) if reading else None
    waiting = in_flight = ready = deferred = None
    if reading is not None:
        waiting = sum(topic.depth for topic in reading.snapshot.topics) + sum(v.stats.depth for v in urgent)
        in_flight = sum(v.stats.in_flight_count for v in urgent)
        deferred = sum(v.stats.deferred_count for v in urgent)
        ready = sum(v.stats.ready_count for v in urgent)
    timeouts = rings.count("timeouts") if rings else None
    worst = max(urgent, key=lambda vitals: vitals.timeouts_min or 0, default=None)
    timeouts_note = Cell("none in the last minute") if timeouts == 0 else Cell("in the last minute")
    if timeouts and worst is not None and worst.timeouts_min:
        timeouts_note = Cell(
            f"{units.share(worst.timeouts_min, timeouts)} on {worst.topic_name}/{worst.channel_name}",
            tone="danger" if worst.is_timing_out else "",
        )
    return (
        Figure(
            "waiting",
            "Waiting",
            Cell(units.number(waiting), units.exact(waiting)),
            depth_note(rings, "waiting", waiting),
        ),
        Figure(
            "published",
            "Published",
            Cell(units.rate(rings.rate("messages") if rings else None)),
            _average(rings, "messages"),
        ),
        Figure(
            "finished",
            "Finished",
            Cell(units.rate(rings.rate("finished") if rings else None)),
            _average(rings, "finished"),
        ),
        Figure(
            "in_flight",
            "In flight",
            Cell(units.number(in_flight), units.exact(in_flight)),
            Cell(f"of {units.number(ready)} RDY" + (f" · {units.number(deferred)} deferred" if deferred else "")),
        ),
        Figure("timeouts", "Timeouts", Cell(units.per_minute(timeouts)), timeouts_note),
        _oldest_figure(reading, urgent),
    )


def depth_note(rings: Rings | None, gauge: str, waiting: float | None) -> Cell:
    """Where a depth is heading: a rate with an arrow but no alarm; growth alone is no fault.

    The span is short and named: the graph beside it shows every second, and both must tell the same story.
    """
    growth = rings.rate(gauge, TREND_SPAN_S) if rings else None
    if growth is None:
        return Cell("trend not known yet")
    text = units.growth(growth)
    if text == "0/s":
        return Cell("steady" if waiting else "nothing waits")
    return Cell(f"{'▲' if growth > 0 else '▼'} {units.rate(abs(growth))} over {TREND_SPAN_S} s")


def _average(rings: Any, name: str) -> Cell:
    change = rings.change(name, 899) if rings else None
    if change is None:
        return Cell("average not known yet")
    grown, elapsed_s = change
    span = f"{elapsed_s / 60:.0f} min" if elapsed_s >= 90 else f"{elapsed_s:.0f} s"
    return Cell(f"{span} average {units.rate(grown / elapsed_s)}")


def _oldest_figure(reading: Reading | None, urgent: list[Vitals]) -> Figure:
    if reading is None:
        return Figure("oldest", "Oldest message", Cell(units.UNKNOWN))
    health = reading.snapshot.health
    ages = [(v.oldest_s, f"{v.topic_name}/{v.channel_name}", v.level) for v in urgent if v.oldest_s is not None]
    ages += [
        (age, topic.topic_name, 0)
        for topic in reading.snapshot.topics
        if (age := age_s(reading, topic.oldest_ns)) is not None
    ]
    oldest = max(ages, default=None)
    value = Cell(units.duration(oldest[0] if oldest else None))
    if health != "OK":
        return Figure("oldest", "Oldest message", value, Cell(f"▲ engine: {health}", tone="danger"))
    if oldest is None:
        return Figure("oldest", "Oldest message", value, Cell("nothing waits · engine OK"))
    return Figure("oldest", "Oldest message", value, Cell(f"on {oldest[1]} · engine OK"))


def _urgent_table(reading: Reading | None, urgent: list[Vitals], role: Role, http_address: str) -> Table:
    rows = []
    for vitals in urgent[:ROWS_MAX]:
        assert reading is not None, "there are vitals only where there is a reading"
        stats = vitals.stats
        key = (vitals.topic_name, vitals.channel_name)
        rows.append(
            (
                "/".join(key),
                (
                    channel_cell(*key),
                    StateCell(vitals.chips()),
                    Cell(units.number(stats.depth), units.exact(stats.depth)),
                    growth_cell(vitals),
                    Cell(units.number(stats.in_flight_count)),
                    timeouts_cell(vitals),
                    oldest_cell(vitals),
                    SparkCell(spark_letters(reading.rings_of(*key)), vitals.tone),
                    pause_cell(*key, role, is_paused=stats.paused),
                ),
            )
        )
    return Table.build(
        "urgent", "Channels, the most urgent first", _URGENT_COLUMNS, rows, _nothing(reading, http_address)
    )


def growth_cell(vitals: Vitals) -> Cell:
    """Signed growth, toned only when it is part of the trouble."""
    text = units.growth(vitals.growth_s)
    if vitals.level == DANGER and vitals.is_growing:
        return Cell(text, tone="danger")
    return Cell(text, tone="muted" if text in ("0/s", units.UNKNOWN) else "")


def timeouts_cell(vitals: Vitals) -> Cell:
    text = units.number(vitals.timeouts_min)
    if vitals.is_timing_out:
        return Cell(text, tone="danger")
    return Cell(text, tone="" if vitals.timeouts_min else "muted")


def oldest_cell(vitals: Vitals) -> Cell:
    tone = vitals.tone if vitals.level >= WARNING and (vitals.oldest_s or 0) >= 60 else ""
    return Cell(units.duration(vitals.oldest_s), tone=tone)


def _nothing(reading: Reading | None, http_address: str) -> Empty:
    if reading is None:
        return Empty("Waiting for the engine's first figures", "They come every second; reload if this stays.")
    if not reading.snapshot.topics:
        return first_run(http_address)
    return Empty(
        "No channels yet",
        "Messages wait at their topics until a channel is created: a consumer that subscribes does that by itself.",
    )


def first_run(http_address: str) -> Empty:
    """What a new installation shows: how to make the first topic."""
    return Empty(
        "Nothing here yet: publish a first message",
        "Publishing makes the topic. Any NSQ client library will do, and so will this:",
        f"curl -d hello 'http://{http_address or '127.0.0.1:4151'}/pub?topic=greetings'",
    )


def _paused_table(reading: Reading | None) -> Table:
    rows = []
    for topic in reading.snapshot.topics if reading else ():
        if topic.paused:
            oldest = age_s(reading, topic.oldest_ns) if reading else None
            rows.append(
                (
                    topic.topic_name,
                    (topic_cell(topic.topic_name), Cell(units.number(topic.depth)), Cell(units.duration(oldest))),
                )
            )
        rows.extend(
            (
                f"{topic.topic_name}/{channel.channel_name}",
                (
                    channel_cell(topic.topic_name, channel.channel_name),
                    Cell(units.number(channel.depth), units.exact(channel.depth)),
                    Cell(units.duration(age_s(reading, channel.oldest_ns)) if reading else units.UNKNOWN),
                ),
            )
            for channel in topic.channels
            if channel.paused
        )
    return Table.build("paused", "What is paused", _SIDE_COLUMNS, rows[:SIDE_ROWS_MAX], Empty("", "Nothing is paused."))


def _unconsumed_table(urgent: list[Vitals]) -> Table:
    rows = [
        (
            f"{vitals.topic_name}/{vitals.channel_name}",
            (
                channel_cell(vitals.topic_name, vitals.channel_name),
                Cell(units.number(vitals.stats.depth), units.exact(vitals.stats.depth)),
                Cell(units.duration(vitals.oldest_s)),
            ),
        )
        for vitals in urgent
        if not vitals.stats.client_count
    ]
    return Table.build(
        "unconsumed",
        "Channels without consumers",
        _SIDE_COLUMNS,
        rows[:SIDE_ROWS_MAX],
        Empty("", "Every channel has a consumer."),
    )


def _unchannelled_table(reading: Reading | None) -> Table:
    topics = [topic for topic in reading.snapshot.topics if not topic.channels] if reading else []
    topics.sort(key=lambda topic: topic.depth, reverse=True)
    rows = [
        (
            topic.topic_name,
            (
                topic_cell(topic.topic_name),
                Cell(units.number(topic.depth), units.exact(topic.depth)),
                Cell(units.duration(age_s(reading, topic.oldest_ns)) if reading else units.UNKNOWN),
            ),
        )
        for topic in topics[:SIDE_ROWS_MAX]
    ]
    return Table.build(
        "unchannelled",
        "Topics without a channel: their messages wait at the topic",
        _SIDE_COLUMNS,
        rows,
        Empty("", "Every topic has a channel."),
    )
