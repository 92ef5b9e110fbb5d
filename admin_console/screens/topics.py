"""The topics: searched, sorted and cut into pages by the server, so that thousands stay one short list."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from admin_console.diagnosis.diagnosis import Diagnosis
from admin_console.diagnosis.finding import CALM, TONES, WARNING
from admin_console.hub.hub import TOTAL, LiveState
from admin_console.rings import figures
from admin_console.screens.cells import Cell, Chip, NameCell, SparkCell, StateCell
from admin_console.screens.channel_rows import chips_of, diagnosis_of, peak_depth, spark_levels
from admin_console.screens.links import pause_cell, selection_of, topic_cell, url_of
from admin_console.screens.overview import first_run
from admin_console.screens.parts import NOTHING, Column, Empty, Table
from admin_console.screens.pauses import paused_chip
from admin_console.screens.topic_groups import SEPARATOR, grouped, level_above, total
from admin_console.vocabulary import units
from admin_console.vocabulary.roles import Role

if TYPE_CHECKING:
    from admin_console.gateway.gateway import TopicStats

PAGE_ROWS = 50
BY_GROUP = "group"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the page was asked for. by: "" for a flat list, or BY_GROUP. under: the group that is open, as "orders."."""

    query: str = ""
    sort: str = ""
    number: str = ""
    by: str = ""
    under: str = ""

    def href(self, **changes: str) -> str:
        """The list with these changes; from its first page on, unless that is one of them."""
        wanted = {"q": self.query, "sort": self.sort, "by": self.by, "under": self.under, **changes}
        text = urlencode({name: value for name, value in wanted.items() if value})
        return f"{url_of('topics')}?{text}" if text else url_of("topics")


@dataclass(frozen=True, slots=True)
class Line:
    """The figures of one topic, its channels included, or of a group of topics. None is unknown.

    stats: of the topic, or of the group's gravest one. members: how many topics are in the group; 1 for a topic.
    """

    name: str
    stats: "TopicStats"
    depth: int  # at the topic and in its channels
    peak_depth: float  # the highest depth in the last fifteen minutes
    in_flight: int
    deferred: int
    requeued_min: float | None
    timeouts_min: float | None
    published_s: float | None
    finished_s: float | None
    channels: int
    clients: int
    level: int
    paused_channels: int
    paused_topics: int = 0
    members: int = 1

    @property
    def urgency(self) -> tuple[float, ...]:
        is_unheard = not self.channels and self.depth > 0
        return (max(self.level, WARNING if is_unheard else CALM), self.peak_depth)


# Column name → what it sorts by; names sort upwards first, figures downwards.
_SORTS: dict[str, Callable[[Line], Any]] = {
    "urgency": lambda line: line.urgency,
    "name": lambda line: line.name,
    "state": lambda line: (line.level, line.paused_channels),
    "depth": lambda line: line.depth,
    "in_flight": lambda line: line.in_flight,
    "deferred": lambda line: line.deferred,
    "requeued": lambda line: line.requeued_min or 0,
    "timeouts": lambda line: line.timeouts_min or 0,
    "published": lambda line: line.published_s or 0,
    "finished": lambda line: line.finished_s or 0,
    "channels": lambda line: line.channels,
    "clients": lambda line: line.clients,
}
_COLUMNS = (
    Column("name", "Topic", "name"),
    Column("state", "State", "state"),
    Column("depth", "Depth"),
    Column("in_flight", "In flight"),
    Column("deferred", "Deferred"),
    Column("requeued", "Requeued /min"),
    Column("timeouts", "Timeouts /min"),
    Column("published", "Published /s"),
    Column("finished", "Finished /s"),
    Column("channels", "Channels"),
    Column("clients", "Consumers"),
    Column("spark", "Depth, 15 min", "spark"),
    Column("action", "Act", "action"),
)


def parts(live: LiveState | None, role: Role, asked: Asked, http_address: str) -> dict[str, Any]:
    """The parts of the screen. An unknown sort or page number falls back to the most urgent and the first."""
    lines = _lines(live) if live else []
    wanted = asked.query.strip().lower()
    found = [line for line in lines if _matches(line, wanted)] if wanted else lines
    is_grouped = asked.by == BY_GROUP
    sort_name, is_descending = parse_sort(asked.sort)
    ordered = sorted(_by_group(found, asked.under) if is_grouped else found, key=lambda line: line.name)
    ordered.sort(key=_SORTS[sort_name], reverse=is_descending)
    pages = max(1, -(-len(ordered) // PAGE_ROWS))
    number = asked.number
    page = min(max(1, int(number) if number.isascii() and number.isdigit() else 1), pages)
    shown = ordered[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
    columns = tuple(_with_sort(column, asked, sort_name, is_descending) for column in _COLUMNS)
    rows = [(line.name, _cells(live, line, role, asked)) for line in shown if live]
    subtitle = units.plural(len(lines), "topic")
    if wanted:
        subtitle = f"{units.number(len(found))} of {subtitle} match “{asked.query.strip()}”"
    rings = live.rings.get(TOTAL) if live else None
    if rings:
        published, finished = (units.rate(one.rate(rings)) for one in (figures.ARRIVED, figures.FINISHED))
        subtitle += f" · {published} published · {finished} finished"
    table = Table.build(
        "topics",
        "Topics",
        columns,
        rows,
        _empty(live, asked, wanted, http_address),
        # A group is no topic: what is to be selected is inside it.
        selection="" if is_grouped else selection_of("topics", role),
    )
    return {
        "subtitle": subtitle,
        "tables": {"topics": table},
        "flags": {
            "pages": pages > 1,
            "earlier": page > 1,
            "later": page < pages,
            "grouped": is_grouped,
            "can_group": is_grouped or any(SEPARATOR in line.name for line in lines),
            "inside": is_grouped and bool(asked.under),
        },
        "texts": {
            "page": f"{units.number((page - 1) * PAGE_ROWS + 1)}–{units.number((page - 1) * PAGE_ROWS + len(shown))} "
            f"of {units.number(len(ordered))}",
            "earlier_href": asked.href(number=_page_text(page - 1)),
            "later_href": asked.href(number=_page_text(page + 1)),
            "list_href": asked.href(by="", under=""),
            "group_href": asked.href(by=BY_GROUP),
            "under": f"In {asked.under}",
            "above": level_above(asked.under) or "all groups",
            "above_href": asked.href(under=level_above(asked.under)),
        },
    }


def _page_text(page: int) -> str:
    return str(page) if page > 1 else ""


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
        peak_depth=sum(line.peak_depth for line in members),
        in_flight=sum(line.in_flight for line in members),
        deferred=sum(line.deferred for line in members),
        requeued_min=total([line.requeued_min for line in members]),
        timeouts_min=total([line.timeouts_min for line in members]),
        published_s=total([line.published_s for line in members]),
        finished_s=total([line.finished_s for line in members]),
        channels=sum(line.channels for line in members),
        clients=sum(line.clients for line in members),
        level=max(line.level for line in members),
        paused_channels=sum(line.paused_channels for line in members),
        paused_topics=sum(line.paused_topics for line in members),
        members=len(members),
    )


def parse_sort(sort: str) -> tuple[str, bool]:
    """The column and whether it descends, of "depth" or "-depth"; the most urgent first for anything else."""
    name = sort.removeprefix("-")
    if name not in _SORTS:
        return "urgency", True
    return name, sort.startswith("-")


def _with_sort(column: Column, asked: Asked, sort_name: str, is_descending: bool) -> Column:
    if column.name not in _SORTS:
        return column
    if column.name == sort_name:
        other = column.name if is_descending else f"-{column.name}"
        direction = "descending" if is_descending else "ascending"
        return Column(column.name, column.label, column.kind, asked.href(sort=other), direction)
    first = column.name if column.name == "name" else f"-{column.name}"
    return Column(column.name, column.label, column.kind, asked.href(sort=first))


def _matches(line: Line, wanted: str) -> bool:
    """By the topic's name, a channel's name, or both as topic/channel."""
    if wanted in line.name.lower():
        return True
    return any(wanted in f"{line.name}/{channel.channel_name}".lower() for channel in line.stats.channels)


def _lines(live: LiveState) -> list[Line]:
    known = live.derived.get("topics")
    if isinstance(known, list):
        return known
    made = []
    for topic in live.snapshot.topics:
        channels = [diagnosis_of(live, topic, channel) for channel in topic.channels]
        rings = live.rings_of(topic.topic_name)
        made.append(
            Line(
                name=topic.topic_name,
                stats=topic,
                depth=topic.depth + sum(each.vitals.stats.depth for each in channels),
                peak_depth=peak_depth(rings, topic.depth + sum(each.vitals.stats.depth for each in channels)),
                in_flight=sum(each.vitals.stats.in_flight_count for each in channels),
                deferred=sum(each.vitals.stats.deferred_count for each in channels),
                requeued_min=figures.REQUEUED_MIN.count(rings),
                timeouts_min=figures.TIMEOUTS_MIN.count(rings),
                published_s=figures.ARRIVED.rate(rings),
                finished_s=figures.FINISHED.rate(rings),
                channels=len(channels),
                clients=sum(each.vitals.stats.client_count for each in channels),
                level=max((each.level for each in channels), default=CALM),
                paused_channels=sum(each.vitals.stats.paused for each in channels),
                paused_topics=int(topic.paused),
            )
        )
    live.derived["topics"] = made
    return made


def _chips(line: Line, live: LiveState) -> tuple[Chip, ...]:
    """What is gravest in a topic or a group, and where; how much of it is paused."""
    is_group = line.members > 1
    chips: list[Chip] = []
    gravest = _gravest(line, live)
    if gravest is not None:
        worst, where = chips_of(gravest)[0], gravest.vitals.channel_name
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
    elif not line.channels:
        title = "Messages stay at the topic until a channel is created"
        chips.append(Chip("no channels", "warning" if line.depth else "", title))
    return tuple(chips)


def _gravest(line: Line, live: LiveState) -> Diagnosis | None:
    """The channel of the line's topic that is in the gravest state; None where none is in danger."""
    channels = (diagnosis_of(live, line.stats, channel) for channel in line.stats.channels)
    gravest = max(channels, key=lambda each: each.level, default=None)
    return gravest if gravest is not None and gravest.level >= WARNING else None


def _cells(live: LiveState, line: Line, role: Role, asked: Asked) -> tuple[Any, ...]:
    is_group = line.members > 1
    tone = "held" if line.stats.paused and not is_group else TONES[line.level]
    return (
        NameCell(f"{line.name}*", asked.href(under=line.name)) if is_group else topic_cell(line.name),
        StateCell(_chips(line, live)),
        Cell(units.number(line.depth), units.exact(line.depth)),
        _quiet(units.number(line.in_flight)),
        _quiet(units.number(line.deferred)),
        _quiet(units.number(line.requeued_min)),
        _quiet(units.number(line.timeouts_min)),
        _quiet(units.bare(units.rate(line.published_s))),
        _quiet(units.bare(units.rate(line.finished_s))),
        Cell(units.number(line.channels)),
        _quiet(units.number(line.clients)),
        # A group has no rings of its own.
        NOTHING if is_group else SparkCell(spark_levels(live.rings_of(line.name)), tone),
        NOTHING if is_group else pause_cell(line.name, "", role, is_paused=line.stats.paused),
    )


def _quiet(text: str) -> Cell:
    """A number, muted while it is 0, so that others stand out."""
    return Cell(text, tone="muted" if text in ("0", units.UNKNOWN) else "")


def _empty(live: LiveState | None, asked: Asked, wanted: str, http_address: str) -> Empty:
    if live is None:
        return Empty("No figures have come from the engine yet", "They come every second; reload if none appear.")
    if wanted and live.snapshot.topics:
        return Empty(
            f"No topic or channel matches “{asked.query.strip()}”", "", href=url_of("topics"), link="Show all topics"
        )
    if asked.under and live.snapshot.topics:
        return Empty(f"No topic begins with {asked.under[:64]}", "", href=url_of("topics"), link="Show all topics")
    return first_run(http_address)
