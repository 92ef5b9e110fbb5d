"""The query of a list, as its link has it: filter, name, order and page; and links that change one of them.

A list works without scripts: each choice is a link, and a live update does not change the choices of the page's link.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar
from urllib.parse import urlencode

from admin_console.screens.links import url_of
from admin_console.screens.parts import Column, Filter, ListBar
from admin_console.vocabulary import units

# The default order of a list: the gravest state first, then the highest flow.
URGENCY = "state"
WORST_FIRST = "worst first"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ListQuery:
    """page: the list's URL name. by: "" or "group", and under: the open group of the topics. draw: the channels of the
    overview's graph. of: the topic whose page has the list, "" for none."""

    page: str
    query: str = ""
    show: str = ""
    sort: str = ""
    number: str = ""
    by: str = ""
    under: str = ""
    draw: str = ""
    of: str = ""

    @property
    def wanted(self) -> str:
        """The text that a name has to contain, in small letters."""
        return self.query.strip().lower()

    @property
    def fields(self) -> dict[str, str]:
        """The query of the list's link, without the page number: another choice begins with the first page."""
        fields = {
            "q": self.query,
            "show": self.show,
            "sort": self.sort,
            "by": self.by,
            "under": self.under,
            "draw": self.draw,
        }
        return {name: value for name, value in fields.items() if value}

    def href(self, **changes: str) -> str:
        """The list with these changes, by the names of the link's fields."""
        text = urlencode({name: value for name, value in {**self.fields, **changes}.items() if value})
        path = url_of(self.page, *filter(None, [self.of]))
        return f"{path}?{text}" if text else path


def parse_sort(sort: str, sorts: Collection[str]) -> tuple[str, bool]:
    """The column and whether it descends, of "depth" or "-depth"; the most urgent first for anything else."""
    name = sort.removeprefix("-")
    return (name, sort.startswith("-")) if name in sorts else (URGENCY, True)


def with_sorts(columns: Sequence[Column], query: ListQuery, sorts: Collection[str]) -> tuple[Column, ...]:
    """The columns with the links that sort by them. Names rise at first, all others descend."""
    by, is_descending = parse_sort(query.sort, sorts)
    made = []
    for column in columns:
        name = column.name
        if name not in sorts:
            made.append(column)
        elif name != by:
            href = query.href(sort="" if name == URGENCY else name if name == "name" else f"-{name}")
            made.append(replace(column, sort_href=href))
        else:
            other = name if is_descending else "" if name == URGENCY else f"-{name}"
            words = WORST_FIRST if name == URGENCY and is_descending else ""
            direction = "descending" if is_descending else "ascending"
            made.append(replace(column, sort_href=query.href(sort=other), sort_direction=direction, sort_words=words))
    return tuple(made)


def list_bar(
    query: ListQuery,
    chosen: str,
    usual: str,
    filters: Mapping[str, str],
    counts: Mapping[str, int],
    links: Mapping[str, str],
    drawn: Sequence[str] = (),
) -> ListBar:
    """The bar above a list. filters: name → label; usual: the one that needs no name in the link."""
    made = [
        Filter(name, label, units.number(counts[name]), query.href(show="" if name == usual else name), name == chosen)
        for name, label in filters.items()
    ]
    other_fields = {name: value for name, value in query.fields.items() if name != "q"}
    return ListBar(tuple(made), query.query.strip(), tuple(other_fields.items()), links, tuple(drawn))


def count_texts(filters: Collection[str], counts: Mapping[str, int]) -> dict[str, str]:
    """The live texts of the filters' counts."""
    return {f"count_{name}": units.number(counts[name]) for name in filters}


@dataclass(frozen=True, slots=True)
class PageOf:
    """One page of a long list. first: the index of its first row."""

    number: int
    pages: int
    first: int
    end: int
    count: int

    @classmethod
    def build(cls, query: ListQuery, count: int, rows: int) -> "PageOf":
        """The requested page, `rows` long; the first for an invalid number, the last beyond the last."""
        pages = max(1, -(-count // rows))
        text = query.number
        number = min(max(1, int(text) if text.isascii() and text.isdigit() else 1), pages)
        return cls(number, pages, (number - 1) * rows, min(number * rows, count), count)

    @property
    def flags(self) -> dict[str, bool]:
        return {"pages": self.pages > 1, "earlier": self.number > 1, "later": self.number < self.pages}

    @property
    def texts(self) -> dict[str, str]:
        return {
            "page": f"{units.number(self.first + 1)}–{units.number(self.end)} of {units.number(self.count)}",
            "passing": units.number(self.count),
        }

    def links(self, query: ListQuery) -> dict[str, str]:
        return {
            "first": query.href(number=""),
            "earlier": query.href(number=str(self.number - 1) if self.number > 2 else ""),
            "later": query.href(number=str(self.number + 1)),
        }
