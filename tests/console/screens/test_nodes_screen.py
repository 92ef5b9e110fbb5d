"""The list of nodes, of data objects: states, versions, order, filters, and what a silent node leaves unknown."""

from dataclasses import replace
from typing import Any

import pytest

from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.calls.options import Addresses
from admin_console.cluster.reading.members import Identity, Member
from admin_console.cluster.reading.node_info import NodeInfo
from admin_console.cluster.reading.node_rates import Rates
from admin_console.cluster.reading.node_stats import NodeStats
from admin_console.cluster.reading.nodes import Answers, ClusterState, Lookupd, Node
from admin_console.cluster.reading.registrations import Registration
from admin_console.cluster.reading.totals import NodeSums
from admin_console.gateway.cluster_view import ClusterView
from admin_console.screens import node as node_screen
from admin_console.screens import nodes
from admin_console.screens.list_links import ListQuery
from admin_console.vocabulary import units
from admin_console.vocabulary.roles import Role

LOOKUPS = tuple(HttpAddress(f"lookup-{name}", 4161) for name in "ab")
NOW_MS = units.now_ms()
ANSWERS = Answers(answered_at_ms=NOW_MS)
# Since when is shown in minutes: a slow run is no other text.
_BEFORE_MS = NOW_MS - 2 * 3_600_000
SILENT = Answers(_BEFORE_MS, 0, "http://c:4151/stats can't be reached: timed out", _BEFORE_MS)


@pytest.fixture(autouse=True)
def _standing_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the second at which the answers above were made."""
    monkeypatch.setattr(units, "now_ms", lambda: NOW_MS)


def node(host: str, **changes: Any) -> Node:
    address = HttpAddress(host, 4151)
    registration = Registration(address, f"{host}.example.org", 4150, "1.3.0", "10.0.0.1:1")
    return replace(
        Node(
            Member(address, address, False, dict.fromkeys(LOOKUPS, registration)),
            ANSWERS,
            NodeInfo(Identity(f"{host}.example.org", host, 4150, 4151, 5), "1.3.0", "eu-a", "eu"),
            NodeStats(health="OK"),
            sums=NodeSums(3, 4, 50, 600, 2, 500),
            rates=Rates(30.0, 20.0),
        ),
        **changes,
    )


def state_of(*found: Node, **changes: Any) -> ClusterState:
    lookupds = tuple(Lookupd(address, ANSWERS, len(found)) for address in LOOKUPS)
    return replace(ClusterState(Addresses(LOOKUPS), lookupds, found), **changes)


def parts_of(*found: Node, query: ListQuery | None = None, **changes: Any) -> dict[str, Any]:
    return nodes.parts(ClusterView(state_of(*found, **changes)), query or ListQuery("nodes"))


def rows_of(parts: dict[str, Any], table: str = "nodes") -> dict[str, dict[str, Any]]:
    """By the row's key, by column: the cell."""
    return {row.key: {column.name: cell for column, cell in row.cells} for row in parts["tables"][table].rows}


def test_a_row_has_every_figure_of_its_node() -> None:
    (row,) = rows_of(parts_of(node("a"))).values()
    texts = {name: cell.text for name, cell in row.items() if hasattr(cell, "text")}
    assert {name: texts[name] for name in texts if name != "answered"} == {
        "name": "a:4151", "version": "nsqd 1.3.0", "zone": "eu · eu-a", "lookups": "2 of 2", "topics": "3",
        "clients": "4", "depth": "50", "messages": "600", "published": "30", "finished": "20", "share": "100 %",
    }  # fmt: skip
    assert texts["answered"].endswith("s")
    assert row["state"].chips == ()


def test_a_version_is_amber_where_another_node_of_the_same_program_is_newer() -> None:
    old = NodeInfo(Identity("b", "b", 4150, 4151, 5), "1.2.10")
    own = NodeInfo(Identity("c", "c", 4150, 4151, 5), "1.3.0+penstock.0.2.0")
    odd = NodeInfo(Identity("d", "d", 4150, 4151, 5), "HEAD")
    found = rows_of(parts_of(node("a"), node("b", info=old), node("c", info=own), node("d", info=odd)))
    assert {key: row["version"].tone for key, row in found.items()} == {
        "a:4151": "", "b:4151": "warning", "c:4151": "", "d:4151": "",
    }  # fmt: skip
    assert found["c:4151"]["version"].text == "Penstock 0.2.0"


def test_a_silent_node_keeps_its_counts_muted_and_what_it_would_measure_is_unknown() -> None:
    parts = parts_of(node("a"), node("c", answers=SILENT))
    row = rows_of(parts)["c:4151"]
    assert (row["topics"].text, row["topics"].tone) == ("3", "muted")
    assert [row[name].text for name in ("depth", "messages", "published", "share")] == ["–"] * 4
    assert row["state"].chips[0].text == "not answering 2h 00m"
    stats = {stat.name: stat for stat in parts["stats"]}
    assert (stats["answering"].value.text, stats["answering"].note.text) == ("1", "of 2 · c:4151 is silent")
    assert [stats[name].value.text for name in ("depth", "published", "clients")] == ["≥ 50", "≥ 30/s", "≥ 4"]
    assert parts["texts"]["partial"].startswith("≥: 1 of 2 nodes not answering, c:4151 for 2h 00m: http://c:4151/stats")


def test_a_node_that_is_not_called_is_no_part_of_the_sums_and_no_silent_one() -> None:
    refused = node("z", answers=Answers(), info=None, stats=None, sums=None, rates=Rates())
    refused = replace(refused, member=replace(refused.member, refusal="the rules do not allow 10.0.0.9"))
    parts = parts_of(node("a"), node("b"), refused)
    stats = {stat.name: stat for stat in parts["stats"]}
    assert (stats["answering"].value.text, stats["answering"].note.text) == ("2", "of 2 · 1 not called")
    assert "≥" not in "".join(stat.value.text for stat in parts["stats"])
    assert not parts["flags"]["partial"]
    beside_silent = parts_of(node("a"), node("c", answers=SILENT), refused)
    note = beside_silent["stats"][0].note
    assert note.text == "of 2 · 1 silent · 1 not called"
    assert beside_silent["texts"]["partial"].startswith("≥: 1 of 2 nodes not answering, c:4151")


def test_without_a_silent_node_no_sum_is_marked_and_a_long_name_leaves_its_card() -> None:
    parts = parts_of(node("a"), node("b"))
    assert "≥" not in "".join(stat.value.text for stat in parts["stats"])
    assert not parts["flags"]["partial"]
    long = parts_of(node("a"), node("n" * 40, answers=SILENT))["stats"][0].note
    assert (long.text, long.title) == ("of 2 · 1 silent", f"{'n' * 40}:4151")


def test_a_node_that_an_nsqlookupd_lacks_is_amber_but_not_while_that_one_is_silent() -> None:
    some = node("a")
    missing = node("a", member=replace(some.member, registrations={LOOKUPS[0]: some.member.registration}))
    row = rows_of(parts_of(missing))["a:4151"]
    assert (row["lookups"].text, row["lookups"].tone, row["state"].chips[0].text) == (
        "1 of 2",
        "warning",
        "1 of 2 lookups",
    )
    lookupds = (Lookupd(LOOKUPS[0], ANSWERS, 1), Lookupd(LOOKUPS[1], SILENT, 1))
    parts = parts_of(missing, lookupds=lookupds)
    assert rows_of(parts)["a:4151"]["lookups"].tone == ""
    assert rows_of(parts, "lookupds")["lookup-b:4161"]["why"].text.startswith("http://c:4151/stats can't")


def test_a_node_s_page_calls_it_not_registered_only_where_an_answer_lacks_it() -> None:
    some = node("a")
    found = replace(some, member=replace(some.member, registrations={LOOKUPS[0]: some.member.registration}))

    def chips(one: Node, of_b: Answers = ANSWERS) -> list[list[str]]:
        lookupds = (Lookupd(LOOKUPS[0], ANSWERS, 1), Lookupd(LOOKUPS[1], of_b, 1))
        parts = node_screen.parts(ClusterView(state_of(one, lookupds=lookupds)), Role.VIEWER, "a:4151")
        return [[chip.text for chip in row["state"].chips] for row in rows_of(parts, "registrations").values()]

    assert chips(found) == [[], ["not registered"]]
    assert chips(found, of_b=Answers()) == [[], []], "it never answered"
    assert chips(found, of_b=SILENT) == [[], []]
    configured = replace(some, member=replace(some.member, is_configured=True, registrations={}))
    assert chips(configured) == [[], []], "a node of --nsqd-http-address alone registers nowhere"


def test_the_page_of_a_node_that_never_answered_does_not_say_that_it_has_no_topic() -> None:
    unread = node("a", answers=Answers(), info=None, stats=None, sums=None, rates=Rates())
    tables = node_screen.parts(ClusterView(state_of(unread)), Role.VIEWER, "a:4151")["tables"]
    assert "Its topics are unknown: it has not answered yet." in tables["node_topics"].html
    assert "Its channels are unknown: it has not answered yet." in tables["node_channels"].html
    empty = node_screen.parts(ClusterView(state_of(node("a"))), Role.VIEWER, "a:4151")["tables"]
    assert "The node has no topic." in empty["node_topics"].html


@pytest.mark.parametrize(
    ("sort", "show", "wanted", "expected"),
    [
        ("", "", "", ["c:4151", "b:4151", "a:4151"]),  # worst first, then the deepest
        ("name", "", "", ["a:4151", "b:4151", "c:4151"]),
        ("-published", "", "", ["b:4151", "a:4151", "c:4151"]),
        ("", "attention", "", ["c:4151"]),
        ("", "zone-eu-b", "", ["b:4151"]),
        ("", "zone-<script>", "", ["c:4151", "b:4151", "a:4151"]),
        ("", "", "B.example", ["b:4151"]),
        ("", "", "none", []),
    ],
)
def test_the_list_is_sorted_and_filtered_by_the_link(sort: str, show: str, wanted: str, expected: list[str]) -> None:
    other = NodeInfo(Identity("b.example.org", "b", 4150, 4151, 5), "1.3.0", "eu-b", "eu")
    deep = node("b", info=other, sums=NodeSums(3, 4, 5_000, 600), rates=Rates(90.0, 0.0))
    query = ListQuery("nodes", wanted, show, sort)
    found = parts_of(node("a"), deep, node("c", answers=SILENT), query=query)
    assert list(rows_of(found)) == expected


def test_hostile_texts_of_a_node_are_text_and_its_zone_is_no_filter() -> None:
    bad = NodeInfo(Identity("<b>", "x", 1, 2, 3), "<script>alert(1)</script>", '<img src=x onerror="">', '"')
    stats = NodeStats(health="NOK - <b>disk</b>")
    parts = parts_of(node("a"), node("b", info=bad, stats=stats))
    html = "".join(cell.html for cell in rows_of(parts)["b:4151"].values())
    assert "<script" not in html
    assert "<img" not in html
    assert "<b>" not in html
    assert [one.name for one in parts["list_bar"].filters] == ["all", "attention"]


def test_a_node_that_is_gone_stays_with_its_version_and_since_when() -> None:
    parts = parts_of(node("a"), gone=(node("z", gone_since_ms=units.now_ms() - 3_600_000),))
    row = rows_of(parts, "gone")["z:4151"]
    assert (row["version"].text, row["for"].text) == ("nsqd 1.3.0", "1h 00m")
    assert "<time" in row["since"].html
    assert parts["flags"]["has_gone"]
