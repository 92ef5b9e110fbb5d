"""The counter: how many messages there were and how many come now, over the whole cluster."""

from dataclasses import replace
from typing import Any

from admin_console.hub.hub import TOTAL, LiveState
from admin_console.rings import figures
from admin_console.screens.cells import Cell
from admin_console.screens.partial import lacks, least, least_in
from admin_console.screens.parts import Stat
from admin_console.screens.rates import average_note
from admin_console.vocabulary import units

_NAMED_MAX = 3


def parts(live: LiveState | None) -> dict[str, Any]:
    """The parts of the screen. Nodes that do not answer, or lack counts, make all figures the least
    that they can be."""
    rings = live.rings.get(TOTAL) if live else None
    silent = live.silent_of("") if live else ()
    lacking = live.partial_total if live else ()
    is_partial = bool(silent or lacking)
    mark = "≥ " if is_partial else ""
    title = lacks(lacking) if lacking else ""
    published = finished = copies = None
    if live is not None:
        published = sum([topic.message_count for topic in live.snapshot.topics])
        copies = sum([channel.message_count for channel in live.channels.values()])
        finished = sum([channel.finish_count for channel in live.channels.values()])

    def count(name: str, label: str, number: int | None, note: str, help: str) -> Stat:
        text = units.UNKNOWN if number is None else f"{mark}{number:,}"
        return Stat(name, label, Cell(text, title), Cell(note), help)

    def rate(name: str, label: str, short: figures.Figure, long: figures.Figure) -> Stat:
        now = short.rate(rings)
        note = average_note(long, rings)
        if is_partial:
            note = replace(note, text=least_in(note.text))
        return Stat(name, label, Cell(least(units.rate(now), is_partial=is_partial), title), note)

    return {
        "subtitle": "counted since each node started" if live is not None else "No figures have come yet.",
        "stats": (
            count("published", "Published", published, "messages of all topics", "Each message once"),
            rate("published_rate", "Published now", figures.ARRIVED, figures.ARRIVED_LONG),
            count("copies", "In channels", copies, "a copy for each channel", "As nsqadmin's Counter adds them"),
            count("finished", "Finished", finished, "copies, by consumers", "Of an nsqd: worked out from its counts"),
            rate("finished_rate", "Finished now", figures.FINISHED, figures.FINISHED_LONG),
        ),
        "flags": {"partial": is_partial},
        "texts": {"partial": " ".join(filter(None, (_partial(silent), f"≥: {title}." if title else "")))},
    }


def _partial(silent: tuple[str, ...]) -> str:
    if not silent:
        return ""
    more = f" and {len(silent) - _NAMED_MAX} more" if len(silent) > _NAMED_MAX else ""
    does, its = ("does", "its") if len(silent) == 1 else ("do", "their")
    return f"≥: {', '.join(silent[:_NAMED_MAX])}{more} {does} not answer; no figure has {its} messages."
