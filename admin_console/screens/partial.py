"""Figures that silent nodes touch, and the page's words about those nodes.

A sum of the nodes that answer is the least that it can be: "≥" stands before it. A figure that would mislead without
the others, a growth, a percentile or the oldest message, is unknown. A figure whose nodes all answer has no mark.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING

from admin_console.diagnosis.words import sentence
from admin_console.hub.hub import LiveState
from admin_console.screens.cells import BaseCell, Cell
from admin_console.screens.links import node_url
from admin_console.screens.parts import Column, Stat
from admin_console.vocabulary import units

if TYPE_CHECKING:
    from admin_console.cluster.reading.nodes import Node
    from admin_console.gateway.gateway import TopicStats

NAMES_MAX = 3
NOTE_LENGTH_MAX = 32  # of a card's small words: one line
_REASON_LENGTH_MAX = 60
FRESH_S = 3  # readings of nodes that are read every second have no age worth a word
# Columns and stats that would mislead without a node's part.
_MISLEADING = frozenset(("growth", "oldest", "latency"))
_COUNTED = re.compile(
    r"<?[0-9][0-9,.]*(?: [MGT])?(?=/s|/min|"
    r" (?:RDY|deferred|consumers?|messages?|finished|dropped|requeued|since|more|in memory|on disk)\b)"
    r"|(?<=RDY )[0-9][0-9,.]*"
)
_WHOLE = frozenset(("nodes",))  # silent ones count


def least(text: str, *, is_partial: bool) -> str:
    """A figure in a text."""
    return f"≥ {text}" if is_partial and text != units.UNKNOWN else text


def least_in(text: str) -> str:
    """A note or sentence whose counts and rates lack a part: "≥" before each, and before no time or share."""
    return _COUNTED.sub(r"≥ \g<0>", text)


def marked(cell: BaseCell) -> BaseCell:
    """A count without the part of a silent node."""
    return replace(cell, is_least=True) if isinstance(cell, Cell) and cell.text not in ("", units.UNKNOWN) else cell


def row_cells(columns: Sequence[Column], cells: Sequence[BaseCell], silent: Sequence[str]) -> Sequence[BaseCell]:
    """The cells of a row. silent: the nodes whose part is missing; without any, the cells as they are."""
    if not silent:
        return cells
    unknown = Cell(units.UNKNOWN, until(silent), "muted")
    return [
        cell
        if column.kind != "number" or column.name in _WHOLE
        else unknown
        if column.name in _MISLEADING
        else marked(cell)
        for column, cell in zip(columns, cells, strict=True)
    ]


def stats(made: Sequence[Stat], silent: Sequence[str], *, growing: str = "waiting") -> tuple[Stat, ...]:
    """The cards of a page, as `row_cells`. growing: the card whose small line is its growth."""
    if not silent:
        return tuple(made)
    return tuple(_stat(one, silent, growing) for one in made)


def _stat(one: Stat, silent: Sequence[str], growing: str) -> Stat:
    if one.name in _MISLEADING:
        words = until(silent)
        short = words if len(words) <= NOTE_LENGTH_MAX else "unknown until all nodes answer"
        return replace(one, value=Cell(units.UNKNOWN), note=Cell(short, words if short != words else ""))
    value = replace(one.value, is_least=one.value.text != units.UNKNOWN)
    if one.name == growing:
        return replace(one, value=value, note=Cell("growth unknown", until(silent)))
    return replace(one, value=value, note=replace(one.note, text=least_in(one.note.text)))


def least_stats(made: Sequence[Stat], lacking: Sequence[str]) -> tuple[Stat, ...]:
    """The cards of the totals. lacking: nodes that answer without all counts; without any, the cards as they are."""
    if not lacking:
        return tuple(made)
    return tuple(replace(one, value=_least_value(one.value, lacking)) for one in made)


def _least_value(value: Cell, lacking: Sequence[str]) -> Cell:
    if value.text == units.UNKNOWN:
        return value
    return replace(value, is_least=True, title=" · ".join(filter(None, (value.title, lacks(lacking)))))


def lacks(nodes: Sequence[str]) -> str:
    """`the answer of nsq-b3:4151 lacks counts`."""
    return _lack(listed(nodes), len(nodes))


def _lack(names: str, count: int) -> str:
    answers, lack = ("answer", "lacks") if count == 1 else ("answers", "lack")
    return f"the {answers} of {names} {lack} counts"


def until(silent: Sequence[str]) -> str:
    """`unknown until nsq-b3:4151 answers`."""
    return f"unknown until {listed(silent)} {'answers' if len(silent) == 1 else 'answer'}"


def listed(names: Sequence[str]) -> str:
    """`nsq-a, nsq-b, nsq-c and 4 more`."""
    more = len(names) - NAMES_MAX
    return ", ".join(names[:NAMES_MAX]) + (f" and {more} more" if more > 0 else "")


def nodes_of(live: LiveState | None, topic: str = "", channel: str = "") -> dict[str, object]:
    """The parts of a screen that the nodes have: the header's words, and the line about those that do not answer. Empty
    for one server."""
    if live is None or live.cluster is None:
        return {}
    silent = live.silent_of(topic, channel)
    places = live.cluster.places(topic, channel) if topic else ()
    return {
        "nodes": _header(live, [place.read_at_ms for place in places if place.is_answering]),
        "silence": _silence(live, silent if topic else (*silent, *live.partial_total), len(places) or node_count(live)),
    }


def header_of(live: LiveState | None) -> tuple[str, ...]:
    """The header's words about all nodes; () for one server."""
    return _header(live, ()) if live is not None and live.cluster is not None else ()


def own_storage(live: LiveState, topic: "TopicStats") -> str:
    """The kind of storage at this server, which its acts are about; "" where only other nodes have the topic."""
    if live.cluster is None:
        return topic.storage
    places = live.cluster.by_topic.get(topic.topic_name, ())
    return next((place.stats.storage for place in places if place.is_embedded), "")


def node_count(live: LiveState) -> int:
    """The nodes that are called, and this server."""
    assert live.cluster is not None, "only a cluster has other nodes"
    return len(live.cluster.state.called) + live.cluster.has_engine


def _header(live: LiveState, read_at_ms: Sequence[int]) -> tuple[str, str]:
    """`11 of 12 nodes`, and how old the oldest of the figures is where they are not of this second."""
    assert live.cluster is not None, "only a cluster has other nodes"
    state, count = live.cluster.state, node_count(live)
    answering = len(state.answering) + live.cluster.has_engine
    words = units.plural(count, "node") if answering == count else f"{answering} of {units.plural(count, 'node')}"
    read_at_ms = read_at_ms or [node.answers.answered_at_ms for node in state.answering]
    age_s = (live.snapshot.taken_at_ns // 1_000_000 - min(read_at_ms)) / 1_000 if read_at_ms else 0.0
    if age_s <= FRESH_S:
        return words, ""
    # In steps, so that the words in the header do not change each second.
    step_s = 5 if age_s < 60 else 30
    return words, f"≤ {units.duration(-(-age_s // step_s) * step_s)}"


def _silence(live: LiveState, silent: Sequence[str], count: int) -> str:
    """The line as HTML; "" while all answer with all counts. silent: also those that answer without some."""
    assert live.cluster is not None, "only a cluster has other nodes"
    by_name = {node.name: node for node in live.cluster.state.nodes}
    found = [by_name[name] for name in silent if name in by_name]
    nodes = sorted((node for node in found if not node.answers.is_answering), key=_failing_since_ms)
    lacking = [node for node in found if node.answers.is_answering]
    sentences = [_not_answering(live, nodes, count)] if nodes else []
    if lacking:
        sentences.append(sentence(_lack(_links(lacking), len(lacking))))
    if not sentences:
        return ""
    first_ms = min((node.answers.answered_at_ms for node in nodes), default=0)
    last = f"; the last full figures are of {units.moment(first_ms)} UTC" if first_ms else ""
    them = "it" if len(found) == 1 else "them"
    return (
        f'<span class="least">≥</span> {" ".join(sentences)} '
        f'<span class="rest">Figures with ≥ leave {them} out{last}.</span>'
    )


def _not_answering(live: LiveState, nodes: Sequence["Node"], count: int) -> str:
    now_ms = live.snapshot.taken_at_ns // 1_000_000
    since_ms = _failing_since_ms(nodes[0])
    lasts = f"for {units.duration(max(0, now_ms - since_ms) / 1_000)}" if since_ms < _NEVER_MS else "yet"
    if len(nodes) > 1 and since_ms < _NEVER_MS:
        lasts = f"the longest {lasts}"
    return f"{len(nodes)} of {units.plural(count, 'node')} not answering {lasts}: {_links(nodes)}."


def _links(nodes: Sequence["Node"]) -> str:
    more = f" and {len(nodes) - NAMES_MAX} more" if len(nodes) > NAMES_MAX else ""
    return ", ".join(map(_linked, nodes[:NAMES_MAX])) + more


_NEVER_MS = 1 << 62


def _failing_since_ms(node: "Node") -> int:
    return node.answers.failing_since_ms or _NEVER_MS


def _linked(node: "Node") -> str:
    """Its name, and why it does not answer."""
    _, _, why = node.answers.error.rpartition(": ")
    reason = f" ({escape(why[:_REASON_LENGTH_MAX].rstrip('.'))})" if why else ""
    title = f' title="{escape(node.answers.error)}"' if node.answers.error else ""
    return f'<a href="{node_url(node.name)}"{title}>{escape(node.name)}</a>{reason}'
