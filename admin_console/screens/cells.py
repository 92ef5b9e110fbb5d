"""The cells of tables. Only this module makes a cell's HTML, so the page and its updates carry the same.

On the wire a cell is its HTML, or [HTML, tone, title] where its <td> has a tone or a title.
"""

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from html import escape

from django.utils.html import format_html

from admin_console.screens.names import breakable
from admin_console.vocabulary import units
from admin_console.vocabulary.times import column_time

SPARK_TOP = 35  # of a sparkline's levels, from 0


# typed: a text and HTML with the same characters are equal, and must not share an entry.
@lru_cache(maxsize=8_192, typed=True)
def _element(template: str, *values: object) -> str:
    """`template` with the values escaped, except those that this function made. Most are the same every second."""
    return format_html(template, *values)


class BaseCell:
    """tone: "danger", "warning", "held", "ok" or "muted", for state. title: the tooltip, with the exact value."""

    __slots__ = ()
    tone: str = ""
    title: str = ""

    @property
    @abstractmethod
    def html(self) -> str:
        """The content of the <td>, escaped."""

    def wire(self) -> str | list[str]:
        if self.title:
            return [self.html, self.tone, self.title]
        return [self.html, self.tone] if self.tone else self.html


@dataclass(frozen=True, slots=True)
class Cell(BaseCell):
    """A text. is_least: a part of the figure is unknown, so that it is the least that it can be (partial.py)."""

    text: str
    title: str = ""
    tone: str = ""
    is_least: bool = False

    @property
    def html(self) -> str:
        return f'<span class="least">≥</span> {escape(self.text)}' if self.is_least else escape(self.text)


@dataclass(frozen=True, slots=True)
class TimesCell(BaseCell):
    """A moment, or from when to when, in a column whose label ends with "(UTC)". Unix milliseconds."""

    at_ms: tuple[int, ...]
    title: str = ""

    @property
    def html(self) -> str:
        return " – ".join(map(column_time, self.at_ms))


@dataclass(frozen=True, slots=True)
class NameCell(BaseCell):
    """A link to a thing's own page; `parent` stands before it where the list mixes topics."""

    text: str
    href: str
    parent: str = ""

    @property
    def html(self) -> str:
        name = breakable(self.text)
        if not self.parent:
            return _element('<a href="{}">{}</a>', self.href, name)
        # A narrow list cuts each of them at its own end.
        both = '<a href="{}"><small>{} /</small> <span>{}</span></a>'
        return _element(both, self.href, breakable(self.parent), name)


@dataclass(frozen=True, slots=True)
class BesideCell(BaseCell):
    """A link to a thing's own page, or its name without `href`, and small words beside it."""

    text: str
    href: str
    beside: str = ""
    title: str = ""

    @property
    def html(self) -> str:
        name = _element('<a href="{}">{}</a>', self.href, breakable(self.text)) if self.href else breakable(self.text)
        return _element("{} <small>{}</small>", name, self.beside) if self.beside else name


@dataclass(frozen=True, slots=True)
class SentenceCell(BaseCell):
    """A sentence, and its consequence in grey."""

    text: str
    rest: str = ""

    @property
    def html(self) -> str:
        rest = _element(' <span class="muted">{}</span>', self.rest) if self.rest else ""
        # In one element: at 360 pixels a cell's parts stand side by side.
        return _element("<span><strong>{}</strong>{}</span>", units.unbroken(self.text), rest)


@dataclass(frozen=True, slots=True)
class LineCell(BaseCell):
    """A link, behind a dot in the colour of its line in the graphs; series 0: it has none."""

    text: str
    href: str
    series: int = 0
    title: str = ""

    @property
    def html(self) -> str:
        dot = _element('<span class="dot series-{}"></span>', self.series) if self.series else ""
        return _element('{}<a href="{}">{}</a>', dot, self.href, breakable(self.text))


@dataclass(frozen=True, slots=True)
class LinkCell(BaseCell):
    """A link that looks like a button, to an object that a banner names."""

    text: str
    href: str

    @property
    def html(self) -> str:
        return _element('<a class="button button-small" href="{}">{}</a>', self.href, self.text)


@dataclass(frozen=True, slots=True)
class AnchorCell(BaseCell):
    """A text that links lead to. anchor: its id in the page."""

    text: str
    anchor: str
    title: str = ""

    @property
    def html(self) -> str:
        return _element('<span id="{}">{}</span>', self.anchor, self.text)


@dataclass(frozen=True, slots=True)
class Chip:
    """A state in a word or two."""

    text: str
    tone: str = ""
    title: str = ""

    @property
    def html(self) -> str:
        tone = f" chip-{self.tone}" if self.tone else ""
        title = _element(' title="{}"', self.title) if self.title else ""
        return _element('<span class="chip{}"{}>{}</span>', tone, title, self.text)


_GRAVITY = ("danger", "warning", "held")


@dataclass(frozen=True, slots=True)
class StateCell(BaseCell):
    """The gravest state in a chip. The others are "+2" behind it, listed under the pointer and on focus; the page of
    the row's thing shows them all."""

    chips: tuple[Chip, ...] = ()

    @property
    def html(self) -> str:
        if len(self.chips) < 2:
            return "".join(chip.html for chip in self.chips)
        ordered = sorted(
            self.chips, key=lambda chip: _GRAVITY.index(chip.tone) if chip.tone in _GRAVITY else len(_GRAVITY)
        )
        others = "\n".join(f"{chip.text}: {chip.title}" if chip.title else chip.text for chip in ordered[1:])
        more = '<span class="chip chip-more" role="note" tabindex="0" title="{}" aria-label="{}">+{}</span>'
        return ordered[0].html + _element(more, others, others, len(ordered) - 1)


@dataclass(frozen=True, slots=True)
class SparkCell(BaseCell):
    """The last fifteen minutes of one gauge as levels from 0 to SPARK_TOP, None where unknown."""

    levels: tuple[int | None, ...]
    stroke: str = ""  # a tone

    @property
    def html(self) -> str:
        return _element(
            '<svg{} viewBox="0 -2 {} {}" preserveAspectRatio="none" aria-hidden="true"><path d="{}"/></svg>',
            _element(' class="spark-{}"', self.stroke) if self.stroke else "",
            len(self.levels) - 1,
            SPARK_TOP + 4,
            spark_path(self.levels),
        )


@lru_cache(maxsize=2_048)
def spark_path(levels: tuple[int | None, ...]) -> str:
    """The SVG path, relative: a line through the levels, with a gap where there is none."""
    steps: list[str] = []
    is_drawing = False
    last_x = last_y = 0
    for x, level in enumerate(levels):
        if level is None:
            is_drawing = False
            continue
        y = SPARK_TOP - level
        if is_drawing and y == last_y and level in levels[x + 1 : x + 2]:
            continue  # inside a horizontal stretch
        steps.append(f"{'' if is_drawing else 'm'}{x - last_x} {y - last_y}")
        is_drawing, last_x, last_y = True, x, y
    return " ".join(steps)


@dataclass(frozen=True, slots=True)
class ProgressCell(BaseCell):
    """A bar from 0 to `total`, called `label`, and words beside it; no bar where `total` is 0, which means unknown."""

    label: str
    done: int
    total: int
    text: str
    title: str = ""

    @property
    def html(self) -> str:
        bar = '<progress aria-label="{}" max="{}" value="{}"></progress>'
        return _element(
            "{}<span>{}</span>",
            _element(bar, self.label, self.total, self.done) if self.total else "",
            self.text,
        )


@dataclass(frozen=True, slots=True)
class ActionCell(BaseCell):
    """An act as a button: a link to its question, opened as a dialog where scripts run. Without `href` it is disabled,
    with `reason` as its tooltip. when: the flag of the screen that shows it, "" for always; is_on: that flag now;
    stays: once shown, it stays."""

    text: str = ""
    href: str = ""
    reason: str = ""
    css: str = "button-small"
    when: str = ""
    is_on: bool = True
    stays: bool = False

    @property
    def html(self) -> str:
        if not self.text:
            return ""
        flag = ""
        if self.when:
            rest = f"{' data-stays' if self.stays else ''}{'' if self.is_on else ' hidden'}"
            flag = _element(' data-when="{}"{}', self.when, rest)
        css = f" {self.css}" if self.css and (self.href or self.css == "button-small") else ""
        if self.href:
            return _element('<a class="button{}" href="{}" data-dialog{}>{}</a>', css, self.href, flag, self.text)
        return _element(
            '<span class="button{}" aria-disabled="true" title="{}"{}>{}</span>', css, self.reason, flag, self.text
        )
