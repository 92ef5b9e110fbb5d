"""The parts of a screen. Their attributes are for the template; `wire()` is the same for a live update.

Figures become text by `vocabulary/units.py`, in screens and here, so that the page and every later update agree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import orjson
from django.template.loader import render_to_string

from admin_console.screens.cells import BaseCell, Cell, Chip
from admin_console.vocabulary import units

NOTHING = Cell("")
ALL = "*"  # the key of the row of all others together: no topic, channel or node has that name


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a live table. `kind` is name, state, number, text, spark, progress or action."""

    name: str
    label: str
    kind: str = "number"
    sort_href: str = ""
    sort_direction: str = ""  # "ascending", "descending" or ""
    sort_words: str = ""  # the meaning of the order, beside the heading
    help: str = ""  # the tooltip of the heading: the meaning of the figure

    @property
    def css(self) -> str:
        return f"{self.kind}-cell" if self.kind in ("spark", "progress", "action") else self.kind

    @property
    def sort_sign(self) -> str:
        return {"ascending": "↑", "descending": "↓"}.get(self.sort_direction, "")

    @property
    def has_label(self) -> bool:
        """Whether a cell repeats the heading where a narrow window has none."""
        return self.kind not in ("name", "state", "action")

    @property
    def is_quiet(self) -> bool:
        """Whether the heading is for screen readers only."""
        return self.kind == "action"


@dataclass(frozen=True, slots=True)
class Row:
    """A row: a key that stays the same while the thing exists, and a cell for every column."""

    key: str
    cells: tuple[tuple[Column, BaseCell], ...]

    @property
    def is_of_all(self) -> bool:
        return self.key == ALL


@dataclass(frozen=True, slots=True)
class Empty:
    """The empty state of a list: the reason, and a next step."""

    title: str
    text: str = ""
    command: str = ""
    href: str = ""
    link: str = ""

    @property
    def html(self) -> str:
        return _empty_html(self)


@lru_cache(maxsize=256)  # most are the same every second
def _empty_html(empty: Empty) -> str:
    return render_to_string("partials/empty.html", {"empty": empty})


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of a list: a link, and how many rows pass it."""

    name: str
    label: str
    count: str
    href: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class ListBar:
    """The bar above a list: its filters, and the field for a part of a name.

    hidden_fields: of that field's form, so that filter and order stay. links: paths of the same list, by their
    target. drawn: the fields of the form that chooses the lines of a graph.
    """

    filters: tuple[Filter, ...]
    query: str
    hidden_fields: tuple[tuple[str, str], ...]
    links: Mapping[str, str]
    drawn: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A live table. Pages of one second share it, so its HTML is made once.

    selection: the id of the form that its rows are selected for, by their keys; "" where they can't be selected.
    selected_as: the form's field with these keys. The row of all others, `ALL`, is never selected.
    """

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    empty: Empty
    selection: str = ""
    selected_as: str = "on"

    @classmethod
    def build(
        cls,
        name: str,
        caption: str,
        columns: Sequence[Column],
        rows: Sequence[tuple[str, Sequence[BaseCell]]],
        empty: Empty,
        *,
        selection: str = "",
        selected_as: str = "on",
    ) -> "Table":
        """Join every row's cells to the columns, in order."""
        columns = tuple(columns)
        made = tuple(Row(key, tuple(zip(columns, cells, strict=True))) for key, cells in rows)
        return cls(name, caption, columns, made, empty, selection, selected_as)

    @cached_property
    def html(self) -> str:
        return render_to_string("partials/table.html", {"table": self})

    @property
    def blank_row(self) -> Row:
        """The template that the page makes new rows from."""
        return Row("", tuple((column, NOTHING) for column in self.columns))

    def wire(self) -> Any:
        return {
            "keys": [row.key for row in self.rows],
            "columns": {
                column.name: [row.cells[index][1].wire() for row in self.rows]
                for index, column in enumerate(self.columns)
            },
            # Why there are no rows may change, as when a node stops answering.
            **({} if self.rows else {"empty": self.empty.html}),
        }


@dataclass(frozen=True, slots=True)
class Stat:
    """A number on a page: the value large, its context small underneath."""

    name: str
    label: str
    value: Cell
    note: Cell = NOTHING
    help: str = ""  # as of a column

    def wire(self) -> Any:
        return [self.value.wire(), self.note.wire()]


@dataclass(frozen=True, slots=True)
class Banner:
    """One sentence about a problem: its object, its start, its cause and its remedies.

    note: its start, and further problems, in half sentences. acts: the likely act, and links to the object of the
    cause. cause: stays the same while the cause does, though figures change; screen readers announce another one.
    """

    tone: str
    title: str
    text: str
    href: str = ""
    link: str = ""
    note: str = ""
    acts: tuple[BaseCell, ...] = ()
    cause: str = ""

    @property
    def acts_html(self) -> str:
        return "".join(act.html for act in self.acts)

    def unbroken(self) -> "Banner":
        title, text, note = (units.unbroken(words) for words in (self.title, self.text, self.note))
        return replace(self, title=title, text=text, note=note)

    def wire(self) -> Any:
        return [
            self.tone,
            self.title,
            self.text,
            self.href,
            self.link,
            self.note,
            self.acts_html,
            self.cause or self.title,
        ]


@dataclass(frozen=True, slots=True)
class GraphLegend:
    """One line of a graph: the column it draws, its name, its present value."""

    column: str
    label: str
    series: int
    value: str


@dataclass(frozen=True, slots=True)
class Graph:
    """A Plotly graph: the name of its empty figure, its title, its legend, and a summary for screen readers."""

    name: str
    title: str
    legend: tuple[GraphLegend, ...]
    summary: str

    def wire(self) -> Any:
        return {line.column: [line.label, line.value] for line in self.legend}


@dataclass(frozen=True)
class Screen:
    """All that one page shows at one second."""

    page: str
    subscription: dict[str, str]
    sequence: int
    taken_at_ms: int
    second: int | None  # of the points, Unix; None without rings
    age_ms: int
    version: str
    subtitle: str = ""
    chips: tuple[Chip, ...] = ()
    banner: Banner | None = None
    stats: tuple[Stat, ...] = ()
    graphs: tuple[Graph, ...] = ()
    tables: dict[str, Table] = field(default_factory=dict)
    list_bar: ListBar | None = None  # of the page's list
    points: dict[str, float | None] = field(default_factory=dict)  # this second's value of every graph column
    flags: dict[str, bool] = field(default_factory=dict)  # parts that the page shows or hides: "paused", "gone"
    texts: dict[str, str] = field(default_factory=dict)  # further live texts by name
    has_figures: bool = True  # False before the first snapshot came
    nodes: tuple[
        str, ...
    ] = ()  # the header's words about them, and the age of the oldest figures; empty for one server
    silence: str = ""  # the line about nodes that do not answer, as HTML

    @property
    def subscription_json(self) -> str:
        return orjson.dumps(self.subscription).decode()

    @property
    def chips_html(self) -> str:
        return "".join(chip.html for chip in self.chips)

    @property
    def age_text(self) -> str:
        if not self.has_figures:
            return "no figures yet"
        return f"{units.duration(self.age_ms / 1000)} old"

    def unbroken(self) -> "Screen":
        """The same for the eye: a figure and its unit stay on one line, in all words that may wrap."""
        notes = (replace(stat.note, text=units.unbroken(stat.note.text)) for stat in self.stats)
        return replace(
            self,
            subtitle=units.unbroken(self.subtitle),
            banner=self.banner.unbroken() if self.banner else None,
            stats=tuple(replace(stat, note=note) for stat, note in zip(self.stats, notes, strict=True)),
            texts={name: units.unbroken(text) for name, text in self.texts.items()},
        )

    def update_json(self) -> bytes:
        """The live update: the parts that may have changed since the page was rendered."""
        shown = self.unbroken()
        of_nodes = {"nodes": self.nodes, "silence": self.silence} if self.nodes else {}
        return orjson.dumps(
            {
                "seq": self.sequence,
                "t": self.taken_at_ms,
                "second": self.second,
                "subtitle": shown.subtitle,
                "chips": self.chips_html,
                "banner": shown.banner.wire() if shown.banner else None,
                "stats": {stat.name: stat.wire() for stat in shown.stats},
                "legends": {graph.name: graph.wire() for graph in self.graphs},
                "tables": {name: table.wire() for name, table in self.tables.items()},
                "points": self.points,
                "flags": self.flags,
                "texts": shown.texts,
                **of_nodes,
            }
        )
