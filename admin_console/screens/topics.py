"""The topics: searched, sorted and cut into pages by the server, so that thousands stay one short list."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from admin_console.diagnosis.diagnosis import Diagnosis
from admin_console.diagnosis.finding import CALM, TONES, WARNING
from admin_console.hub.hub import TOTAL, LiveState
from admin_console.rings import figures
from admin_console.rings.rings import SECONDS, Rings
from admin_console.screens import partial
from admin_console.screens.cells import Cell, Chip, NameCell, SparkCell, StateCell
from admin_console.screens.channel_list import ALL, is_unconsumed
from admin_console.screens.channel_rows import age_s, chips_of, spark_levels
from admin_console.screens.links import pause_cell, selection_of, topic_cell, url_of
from admin_console.screens.list_links import URGENCY, ListQuery, PageOf, count_texts, list_bar, parse_sort, with_sorts
from admin_console.screens.node_table import node_count, with_node_count
from admin_console.screens.overview import no_topics
from admin_console.screens.parts import NOTHING, Column, Empty, Table
from admin_console.screens.pauses import paused_chip
from admin_console.screens.rates import GROWTH_COLUMN
from admin_console.screens.topic_groups import SEPARATOR, grouped, level_above, total
from admin_console.vocabulary import units
from admin_console.vocabulary.roles import Role

if TYPE_CHECKING:
    from admin_console.gateway.gateway import TopicStats

PAGE_ROWS = 50
BY_GROUP = "group"


@dataclass(frozen=True, slots=True)
class Line:
    """The figures of one topic, its channels included, or of a group of topics. None is unknown.

    stats: of the topic, or of the group's gravest one. members: how many topics are in the group; 1 for a topic.
    """

    name: str
    stats: "TopicStats"
    depth: int  # at the topic and in its channels
    growth_s: float | None
    flow: float  # arrivals and finished messages of the last fifteen minutes
    in_flight: int
    deferred: int
    requeued_min: float | None
    timeouts_min: float | None
    published_s: float | None
    finished_s: float | None
    channels: int
    clients: int
    oldest_ns: int | None
    level: int
    paused_channels: int
    unconsumed: int  # channels without a consumer
    is_busy: bool
    paused_topics: int = 0
    members: int = 1
    silent: tuple[str, ...] = ()  # nodes whose part is missing

    @property
    def urgency(self) -> tuple[float, ...]:
        """The gravest state comes first, then the highest flow, then quiet topics."""
        return (self.gravity, self.is_busy, self.flow)

    @property
    def gravity(self) -> int:
        """The level of the gravest state, one without a channel for its messages included."""
        return max(self.level, WARNING if self.is_unchannelled and self.depth else CALM)

    @property
    def is_unchannelled(self) -> bool:
        """Without a channel at any node: at a silent one, it may have some."""
        return not self.channels and not self.silent

    @property
    def is_paused(self) -> bool:
        return bool(self.paused_topics or self.paused_channels)


# Column name → its sort key; names sort upwards first, figures downwards.
_SORTS: dict[str, Callable[[Line], Any]] = {
    "name": lambda line: line.name,
    URGENCY: lambda line: line.urgency,
    "depth": lambda line: line.depth,
    "growth": lambda line: line.growth_s or 0,
    "in_flight": lambda line: line.in_flight,
    "deferred": lambda line: line.deferred,
    "requeued": lambda line: line.requeued_min or 0,
    "timeouts": lambda line: line.timeouts_min or 0,
    "published": lambda line: line.published_s or 0,
    "finished": lambda line: line.finished_s or 0,
    "channels": lambda line: line.channels,
    "clients": lambda line: line.clients,
    "oldest": lambda line: -(line.oldest_ns or 1 << 63),
}
_FILTERS = {
    "busy": "Busy",
    "attention": "Needs attention",
    "paused": "Paused",
    "no-consumer": "No consumer",
    "no-channel": "No channel",
    ALL: "All",
}
_PASSES: dict[str, Callable[[Line], bool]] = {
    "busy": lambda line: line.is_busy,
    "attention": lambda line: line.gravity >= WARNING,
    "paused": lambda line: line.is_paused,
    "no-consumer": lambda line: line.unconsumed > 0,
    "no-channel": lambda line: line.is_unchannelled,
    ALL: lambda line: True,
}
_COLUMNS = (
    Column("name", "Topic", "name"),
    Column("state", "State", "state"),
    Column("depth", "Depth"),
    GROWTH_COLUMN,
    Column("in_flight", "In flight"),
    Column("deferred", "Deferred"),
    Column("requeued", "Requeued /min"),
    Column("timeouts", "Timeouts /min"),
    Column("published", "Published /s"),
    Column("finished", "Finished /s"),
    Column("channels", "Channels"),
    Column("clients", "Consumers"),
    Column("oldest", "Oldest"),
    Column("spark", "Depth, 15 min", "spark"),
    Column("action", "Act", "action"),
)


def parts(live: LiveState | None, role: Role, query: ListQuery, http_address: str) -> dict[str, Any]:
    """The parts of the screen. An unknown filter, order or page number falls back to the usual one."""
    lines = _lines(live) if live else []
    named = _named(lines, query.wanted)
    is_grouped = query.by == BY_GROUP
    show = query.show if query.show in _FILTERS else ALL
    counts = {name: sum(map(passes, named)) for name, passes in _PASSES.items()}
    found = passing(live, show, query.wanted) if live else []
    sort_name, is_descending = parse_sort(query.sort, _SORTS)
    ordered = sorted(_by_group(found, query.under) if is_grouped else found, key=lambda line: line.name)
    ordered.sort(key=_SORTS[sort_name], reverse=is_descending)
    page = PageOf.build(query, len(ordered), PAGE_ROWS)
    columns = with_node_count(live, _COLUMNS)
    rows = [
        (line.name, partial.row_cells(columns, _cells(live, line, role, query), line.silent))
        for line in ordered[page.first : page.end]
        if live
    ]
    is_partial = bool(live and (live.silent_of("") or live.partial_total))
    subtitle = partial.least(units.plural(len(lines), "topic"), is_partial=is_partial)
    if query.wanted:
        subtitle = f"{units.number(len(named))} of {subtitle} match “{query.query.strip()}”"
    rings = live.rings.get(TOTAL) if live else None
    if rings:
        published, finished = (
            partial.least(units.rate(one.rate(rings)), is_partial=is_partial)
            for one in (figures.ARRIVED, figures.FINISHED)
        )
        subtitle += f" · {published} published · {finished} finished"
    table = Table.build(
        "topics",
        "Topics",
        with_sorts(columns, query, _SORTS),
        rows,
        _empty(live, query, http_address),
        # A group is no topic: only the topics in it can be selected.
        selection="" if is_grouped else selection_of("topics", role),
    )
    links = {
        **page.links(query),
        "list": query.href(by="", under=""),
        "group": query.href(by=BY_GROUP),
        "above": query.href(under=level_above(query.under)),
    }
    return partial.nodes_of(live) | {
        "subtitle": subtitle,
        "list_bar": list_bar(query, show, ALL, _FILTERS, counts, links),
        "tables": {"topics": table},
        "flags": {
            **page.flags,
            "grouped": is_grouped,
            "can_group": is_grouped or any(SEPARATOR in line.name for line in lines),
            "inside": is_grouped and bool(query.under),
        },
        "texts": {
            **page.texts,
            **count_texts(_FILTERS, counts),
            "under": f"In {query.under}",
            "above": level_above(query.under) or "all groups",
        },
    }


def passing(live: LiveState, show: str, wanted: str = "") -> list[Line]:
    """The topics that pass a filter; an unknown one is the usual one."""
    return list(filter(_PASSES.get(show, _PASSES[ALL]), _named(_lines(live), wanted)))


def _named(lines: list[Line], wanted: str) -> list[Line]:
    return [line for line in lines if _matches(line, wanted)] if wanted else lines


def _by_group(lines: Sequence[Line], under: str) -> list[Line]:
    by_name = {line.name: line for line in lines}
    made = []
    for group, names in grouped(by_name, under).items():
        members = [by_name[name] for name in names]
        made.append(members[0] if len(members) == 1 else _group_line(group, members))
    return made


def _group_line(name: str, members: Sequence[Line]) -> Line:
    return Line(
        name=name,
        stats=max(members, key=lambda line: line.urgency).stats,
        depth=sum(line.depth for line in members),
        growth_s=total([line.growth_s for line in members]),
        flow=sum(line.flow for line in members),
        in_flight=sum(line.in_flight for line in members),
        deferred=sum(line.deferred for line in members),
        requeued_min=total([line.requeued_min for line in members]),
        timeouts_min=total([line.timeouts_min for line in members]),
        published_s=total([line.published_s for line in members]),
        finished_s=total([line.finished_s for line in members]),
        channels=sum(line.channels for line in members),
        clients=sum(line.clients for line in members),
        oldest_ns=min((line.oldest_ns for line in members if line.oldest_ns is not None), default=None),
        level=max(line.level for line in members),
        paused_channels=sum(line.paused_channels for line in members),
        unconsumed=sum(line.unconsumed for line in members),
        is_busy=any(line.is_busy for line in members),
        paused_topics=sum(line.paused_topics for line in members),
        members=len(members),
        silent=tuple(sorted({node for line in members for node in line.silent})),
    )


def _matches(line: Line, wanted: str) -> bool:
    """By the topic's name, a channel's name, or both as topic/channel."""
    if wanted in line.name.lower():
        return True
    return any(wanted in f"{line.name}/{channel.channel_name}".lower() for channel in line.stats.channels)


def _lines(live: LiveState) -> list[Line]:
    cached = live.derived.get("topics")
    if isinstance(cached, list):
        return cached
    made = [_line(live, topic) for topic in live.snapshot.topics]
    live.derived["topics"] = made
    return made


def _line(live: LiveState, topic: "TopicStats") -> Line:
    """A topic is busy as its channels are: while it or one of them has a state or messages, or any moved lately."""
    name, channels = topic.topic_name, topic.channels
    rings = live.rings_of(name)
    found = [live.diagnoses.get((name, channel.channel_name)) for channel in channels]
    depth = topic.depth + sum([channel.depth for channel in channels])
    in_flight = sum([channel.in_flight_count for channel in channels])
    deferred = sum([channel.deferred_count for channel in channels])
    level = max([each.level for each in found if each is not None], default=CALM)
    oldest_ns_of_each = [channel.oldest_ns for channel in channels] + [topic.oldest_ns]
    return Line(
        name=name,
        stats=topic,
        depth=depth,
        growth_s=figures.GROWTH.rate(rings),
        flow=rings.flow() if rings else 0.0,
        in_flight=in_flight,
        deferred=deferred,
        requeued_min=figures.REQUEUED_MIN.count(rings),
        timeouts_min=figures.TIMEOUTS_MIN.count(rings),
        published_s=figures.ARRIVED.rate(rings),
        finished_s=figures.FINISHED.rate(rings),
        channels=len(channels),
        clients=sum([channel.client_count for channel in channels]),
        oldest_ns=min([one_ns for one_ns in oldest_ns_of_each if one_ns is not None], default=None),
        level=level,
        paused_channels=sum([channel.paused for channel in channels]),
        unconsumed=sum([is_unconsumed(live, (name, channel.channel_name)) for channel in channels]),
        is_busy=bool(level or depth or in_flight or deferred or topic.paused) or _has_moved(live, rings),
        paused_topics=int(topic.paused),
        silent=live.silent_of(name),
    )


def _has_moved(live: LiveState, rings: Rings | None) -> bool:
    moved_s = rings.moved_s if rings else None
    return moved_s is not None and (live.second or 0) - moved_s < SECONDS


def _chips(line: Line, live: LiveState) -> tuple[Chip, ...]:
    """The gravest finding in a topic or a group, with its channel; and how much of it is paused."""
    is_group = line.members > 1
    chips: list[Chip] = []
    gravest = _gravest(line, live)
    if gravest is not None:
        worst, where = chips_of(gravest, live)[0], gravest.vitals.stats.channel_name
        where = f"{line.stats.topic_name}/{where}" if is_group else where
        chips.append(Chip(worst.text, worst.tone, f"{where}: {worst.title}"))
    if is_group:
        if line.paused_topics:
            chips.append(Chip(f"❚❚ {units.plural(line.paused_topics, 'topic')}", "held", "Paused"))
    elif line.stats.paused:
        chips.append(paused_chip(live, line.stats))
    if line.paused_channels:
        chips.append(Chip(f"❚❚ {units.plural(line.paused_channels, 'channel')}", "held", "Paused"))
    if is_group:
        chips.append(Chip(units.plural(line.members, "topic")))
    elif line.silent and not line.channels:
        chips.append(Chip("channels unknown", "", f"Its channels are {partial.until(line.silent)}"))
    elif line.is_unchannelled:
        title = "Messages stay at the topic until a channel is created"
        chips.append(Chip("no channels", "warning" if line.depth else "", title))
    return tuple(chips)


def _gravest(line: Line, live: LiveState) -> Diagnosis | None:
    """The channel of the line's topic that is in the gravest state; None where none is in danger."""
    names = ((line.stats.topic_name, channel.channel_name) for channel in line.stats.channels)
    found = [each for name in names if (each := live.diagnoses.get(name)) is not None]
    gravest = max(found, key=lambda each: each.level, default=None)
    return gravest if gravest is not None and gravest.level >= WARNING else None


def _cells(live: LiveState, line: Line, role: Role, query: ListQuery) -> tuple[Any, ...]:
    is_group = line.members > 1
    tone = "held" if line.stats.paused and not is_group else TONES[line.level]
    return (
        NameCell(f"{line.name}*", query.href(under=line.name)) if is_group else topic_cell(line.name),
        StateCell(_chips(line, live)),
        # A group is at the nodes of its topics.
        *node_count(live, "" if is_group else line.name),
        Cell(units.number(line.depth), units.exact(line.depth)),
        _quiet(units.bare(units.growth(line.growth_s))),
        _quiet(units.number(line.in_flight)),
        _quiet(units.number(line.deferred)),
        _quiet(units.number(line.requeued_min)),
        _quiet(units.number(line.timeouts_min)),
        _quiet(units.bare(units.rate(line.published_s))),
        _quiet(units.bare(units.rate(line.finished_s))),
        Cell(units.number(line.channels)),
        _quiet(units.number(line.clients)),
        _quiet(units.duration(age_s(live, line.oldest_ns))),
        # A group has no rings of its own.
        NOTHING if is_group else SparkCell(spark_levels(live.rings_of(line.name)), tone),
        NOTHING if is_group else pause_cell(line.name, "", role, is_paused=line.stats.paused),
    )


def _quiet(text: str) -> Cell:
    """A number, muted while it is 0, so that others stand out."""
    return Cell(text, tone="muted" if text in ("0", units.UNKNOWN) else "")


def _empty(live: LiveState | None, query: ListQuery, http_address: str) -> Empty:
    if live is None:
        return Empty("No figures have come from the engine yet", "They come every second; reload if none appear.")
    if not live.snapshot.topics:
        return no_topics(live, http_address)
    if query.wanted:
        title = f"No topic or channel matches “{query.query.strip()}”"
    elif query.under:
        title = f"No topic begins with {query.under[:64]}"
    else:
        title = f"No topic passes the filter “{_FILTERS.get(query.show, _FILTERS[ALL])}”"
    return Empty(title, "", href=url_of("topics"), link="Show all topics")
