"""The differences between nodes, as a table of findings: a sentence and an act each."""

from collections.abc import Iterable, Sequence
from typing import Any

from admin_console.cluster.merging import differences as kinds
from admin_console.cluster.merging.differences import Difference
from admin_console.diagnosis.consumers_on_some import CONSUMERS_ON_SOME
from admin_console.diagnosis.paused import PAUSED
from admin_console.hub.hub import LiveState
from admin_console.screens.cells import BaseCell, Cell, Chip, LinkCell, SentenceCell, StateCell
from admin_console.screens.links import act_cell, node_url, url_of
from admin_console.screens.parts import Column, Empty, Table
from admin_console.vocabulary import units
from admin_console.vocabulary.roles import Role

PAGES = frozenset({"nodes", "topic", "channel"})
SHOWN_MAX = 20
_LABEL_LENGTH_MAX = 28
_TONES = {kinds.PAUSED: "held", kinds.VERSIONS: ""}
_BANNERS = {PAUSED: kinds.PAUSED, CONSUMERS_ON_SOME: kinds.CONSUMERS}
_COLUMNS = (
    Column("kind", "Kind", "state"),
    Column("finding", "Finding", "text"),
    Column("act", "Act", "action"),
)


def parts(live: LiveState, role: Role, page: str, topic: str, channel: str) -> dict[str, dict[str, Any]]:
    """Tables, flags and texts of the page's screen. On a topic's page are those about it and its channels, on a
    channel's those about it and its topic; on any other page all."""
    assert live.cluster is not None, "one server differs from no other"
    found: Iterable[Difference] = live.cluster.differences
    if page in ("topic", "channel"):
        found = [one for one in found if one.topic == topic and (page == "topic" or one.channel in ("", channel))]
    heads = _in_banner(live, topic, channel) if page == "channel" else ""
    listed = [one for one in found if one.kind != heads or one.channel != channel]
    here = (topic, channel) if page in ("topic", "channel") else None
    rows = [("/".join(one.key), _cells(one, role, here)) for one in listed[:SHOWN_MAX]]
    return {
        "tables": {
            "differences": Table.build(
                "differences", "Differences between nodes", _COLUMNS, rows, Empty("Nothing differs")
            )
        },
        "flags": {"differs": bool(listed)},
        "texts": {"differences": _count(listed)},
    }


def _in_banner(live: LiveState, topic: str, channel: str) -> str:
    """The kind of the finding about a channel that its page's banner has; "" for none."""
    diagnosis = live.diagnoses.get((topic, channel))
    return _BANNERS.get(diagnosis.states[0].finding.kind, "") if diagnosis is not None and diagnosis.states else ""


def _count(found: Sequence[Difference]) -> str:
    words = units.plural(len(found), "finding")
    if len(found) > SHOWN_MAX:
        return f"{words}, the worst {SHOWN_MAX} of them"
    return f"{words}, the worst first" if len(found) > 1 else words


def _cells(one: Difference, role: Role, here: tuple[str, str] | None) -> tuple[BaseCell, ...]:
    since = f"Since {units.moment(one.since_ms)} UTC" if one.since_ms else ""
    chip = Chip(one.kind, _TONES.get(one.kind, "warning"), since)
    return StateCell((chip,)), SentenceCell(one.title, one.text), _act(one, role, here)


def _act(one: Difference, role: Role, here: tuple[str, str] | None) -> BaseCell:
    """The likely cure, or the place of the cause; nothing where that is this page. here: topic and channel of it."""
    if one.kind == kinds.CHANNEL:
        query = {"topic": one.topic, "channel": one.channel, "node": one.node}
        return act_cell("Create it there…", "register_name", role, query=query)
    if one.kind == kinds.LOOKUPDS:
        return LinkCell("Open Lookup", url_of("lookup"))
    if one.kind == kinds.VERSIONS:
        return LinkCell("Sort by version", f"{url_of('nodes')}?sort=version")
    if one.kind == kinds.TOMBSTONE:
        return LinkCell("Show producers", url_of("topic", one.topic))
    if one.kind == kinds.PAUSED and (one.topic, one.channel) == here:
        return Cell("")
    if one.kind == kinds.PAUSED:
        name = f"{one.topic}/{one.channel}" if one.channel else one.topic
        url = url_of("channel", one.topic, one.channel) if one.channel else url_of("topic", one.topic)
        return LinkCell(_label("Open", name), url)
    return LinkCell(_label("Open", one.node), node_url(one.node)) if one.node else LinkCell("Nodes", url_of("nodes"))


def _label(verb: str, name: str) -> str:
    return f"{verb} {name}" if len(name) <= _LABEL_LENGTH_MAX else verb
