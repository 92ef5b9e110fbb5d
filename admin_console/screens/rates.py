"""Rates, growth and counts in words, for the cards, rows and legends of all pages. Each with its window."""

from admin_console.diagnosis.diagnosis import Diagnosis
from admin_console.diagnosis.failing import FAILING
from admin_console.diagnosis.falling_behind import FALLING_BEHIND
from admin_console.diagnosis.saturated import SATURATED
from admin_console.diagnosis.timing_out import TIMING_OUT
from admin_console.rings import figures
from admin_console.rings.figures import Figure
from admin_console.rings.rings import Rings
from admin_console.screens.cells import Cell
from admin_console.screens.parts import Column, Stat
from admin_console.vocabulary import units

GROWTH_COLUMN = Column("growth", "Growth /s", help=f"Over the last {figures.FLOW_S} s")


def depth_stat(rings: Rings | None, depth: int | None, *, has_unfinished: bool) -> Stat:
    """The depth of a topic with its channels, or of all topics."""
    note = depth_note(rings, has_unfinished=has_unfinished)
    return Stat("waiting", "Depth", Cell(units.number(depth), units.exact(depth)), note)


def depth_note(rings: Rings | None, *, has_unfinished: bool) -> Cell:
    """Where a depth is heading: a rate with an arrow but no alarm; growth alone is no fault.

    has_unfinished: whether anything is waiting, in flight, deferred or quarantined.
    """
    growth = figures.GROWTH.rate(rings)
    if growth is None:
        return Cell("trend not available yet")
    text = units.growth(growth)
    if text == "0/s":
        return Cell("steady" if has_unfinished else "no messages")
    return Cell(f"{'▲' if growth > 0 else '▼'} {text[1:]} {over(figures.GROWTH, rings)}")


def rate_cell(figure: Figure, rings: Rings | None) -> Cell:
    """A rate, with its window where the pointer shows it."""
    return Cell(units.rate(figure.rate(rings)), f"average {over(figure, rings)}")


def over(figure: Figure, rings: Rings | None) -> str:
    """The window of a figure in words: "over 30 s"; less for younger topics and channels."""
    change = figure.change(rings)
    return f"over {max(1, round(change[1] if change else figure.span_s))} s"


def average_note(figure: Figure, rings: Rings | None) -> Cell:
    """The rate of a long window: "15 min average 12/s"."""
    change = figure.change(rings)
    if change is None:
        return Cell("average not available yet")
    grown, elapsed_s = change
    span = f"{elapsed_s / 60:.0f} min" if elapsed_s >= 90 else f"{elapsed_s:.0f} s"
    return Cell(f"{span} average {units.rate(grown / elapsed_s)}")


def quiet_cell(count: float | None, tone: str = "") -> Cell:
    """A count, muted while it is 0, so that others stand out."""
    return Cell(units.number(count), units.exact(count), tone or ("" if count else "muted"))


def growth_cell(diagnosis: Diagnosis) -> Cell:
    """Signed growth, its unit in the heading, with a tone only where growth is part of the finding."""
    text = units.bare(units.growth(diagnosis.vitals.growth_s))
    tone = diagnosis.tone_of(FALLING_BEHIND, SATURATED) if diagnosis.vitals.is_growing else ""
    drained_in_s = diagnosis.vitals.drained_in_s
    title = f"empty in {units.about(drained_in_s)}" if drained_in_s is not None else ""
    return Cell(text, title, tone or ("muted" if text in ("0", units.UNKNOWN) else ""))


def requeued_cell(diagnosis: Diagnosis) -> Cell:
    return quiet_cell(diagnosis.vitals.requeued_min, diagnosis.tone_of(FAILING))


def timeouts_cell(diagnosis: Diagnosis) -> Cell:
    return quiet_cell(diagnosis.vitals.timeouts_min, diagnosis.tone_of(TIMING_OUT))
