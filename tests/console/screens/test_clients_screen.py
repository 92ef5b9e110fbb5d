"""The list of clients and the page of one, of data objects: states, search, order, pages, marks of what is lacking."""

from dataclasses import replace
from typing import Any

import pytest

from admin_console.cluster.reading.nodes import ClusterState
from admin_console.gateway.client_list import Client, ClientList, ClientRates
from admin_console.gateway.cluster_view import ClusterView
from admin_console.gateway.gateway import ClientStats
from admin_console.screens import client, clients, node
from admin_console.screens.list_links import ListQuery
from admin_console.vocabulary import units
from admin_console.vocabulary.roles import Role
from tests.support import cluster_states

PLAIN = ClientStats(0, "", "", "go-nsq/1.1.0", "", "V2", 3, 200, 0, 0, 0, 0, 0, units.now_ms() // 1_000 - 7_200, 60_000)


def connection(name: str, address: str, *, rate: float | None = None, node: str = "a:4151", **changes: Any) -> Client:
    """changes: of the stats, and of the client."""
    of_client = {key: changes.pop(key) for key in ("timeouts", "zone", "is_local", "is_own") if key in changes}
    stats = replace(PLAIN, client_id=name, hostname=f"{name}.example.org", remote_address=address, **changes)
    rates = None if rate is None else ClientRates(rate, 0.0, None)
    return Client(node, address, "orders", "billing", stats, rates=rates, **of_client)


def listed(*found: Client, **changes: Any) -> ClusterView:
    return ClusterView(ClusterState(), clients=ClientList(found, units.now_ms(), 2, **changes))


def parts_of(view: ClusterView, *query: str) -> dict[str, Any]:
    return clients.parts(view, ListQuery("clients", *query))


def names_of(parts: dict[str, Any]) -> list[str]:
    return [row.cells[0][1].text for row in parts["tables"]["connections"].rows]


HUNG = connection("billing-7f9c", "10.2.0.41:4", rate=0.0, node="b:4151", in_flight_count=2_100, ready_count=2_100)
PEERS = [connection(f"billing-{n}", f"10.2.0.{n}:1", rate=150.0, in_flight_count=130) for n in (38, 39, 40)]


def test_a_consumer_that_holds_most_and_finishes_none_is_an_outlier_beside_its_peers_at_all_nodes() -> None:
    view = listed(*PEERS, HUNG)
    parts = parts_of(view)
    assert names_of(parts)[0] == "billing-7f9c"
    reason = "Holds 84 % of the channel's messages and finishes none. Its 3 peers finish 450/s."
    assert parts["tables"]["connections"].rows[0].cells[1][1].chips[0].title == reason
    assert (parts["banner"].tone, parts["banner"].text) == ("danger", reason)
    assert parts["banner"].href == "/clients/b%3A4151/10.2.0.41%3A4/"
    assert parts["texts"]["count_outliers"] == "1"
    assert names_of(parts_of(view, "", "outliers")) == ["billing-7f9c"]


@pytest.mark.parametrize(
    "found",
    [
        [PEERS[0], HUNG],  # two share a channel as they like
        [*PEERS, replace(HUNG, rates=ClientRates(140.0, 0.0, None))],  # it works
        [*PEERS, replace(HUNG, rates=None)],  # its rate is unknown
        [*(replace(one, rates=ClientRates(0.0, 0.0, None)) for one in PEERS), HUNG],  # none of them finishes any
        [replace(HUNG, key=str(n)) for n in range(4)],  # all hold as many
    ],
)
def test_no_consumer_is_an_outlier_without_peers_that_do_better(found: list[Client]) -> None:
    parts = parts_of(listed(*found))
    assert parts["texts"]["count_outliers"] == "0"
    assert parts["banner"] is None


def test_a_consumer_that_gives_back_or_lets_time_out_a_tenth_is_failing() -> None:
    back = connection("back", "1.1.1.1:1", finish_count=76, requeue_count=24)
    late = connection("late", "1.1.1.1:2", finish_count=10, timeouts=90)
    few = connection("few", "1.1.1.1:3", finish_count=1, requeue_count=1)
    parts = parts_of(listed(back, late, few, *PEERS))
    chips = {row.cells[0][1].text: row.cells[1][1].chips for row in parts["tables"]["connections"].rows}
    assert [chips[name][0].text for name in ("back", "late")] == ["24 % given back", "90 % timed out"]
    assert chips["few"] == ()


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("BILLING-38", ["billing-38"]),
        ("b:4151 orders/billing", ["billing-7f9c"]),
        ("10.2.0.39", ["billing-39"]),
        ("go-nsq 10.2.0.4", ["billing-7f9c", "billing-40"]),
        ("go-nsq nothing", []),
    ],
)
def test_the_search_finds_all_parts_of_its_text_in_name_address_agent_node_or_channel(
    wanted: str, expected: list[str]
) -> None:
    parts = parts_of(listed(*PEERS, HUNG), wanted, "", "-in_flight")
    assert names_of(parts) == expected
    assert f"{len(expected)} of 4 connections match" in parts["subtitle"]


def test_the_link_sorts_and_pages_and_the_server_sends_one_page() -> None:
    view = listed(*(connection(f"c{n:03}", f"10.0.0.1:{n}", in_flight_count=n) for n in range(1, 121)))
    assert names_of(parts_of(view, "", "", "-in_flight"))[:2] == ["c120", "c119"]
    last = parts_of(view, "", "", "name", "3")
    assert names_of(last)[-1] == "c120"
    assert len(last["tables"]["connections"].rows) == 20
    assert last["texts"]["page"] == "101–120 of 120"


def test_what_a_node_without_an_answer_lacks_is_marked_on_every_sum() -> None:
    view = listed(*PEERS, lacking={"b:4151": units.now_ms() - 2 * 3_600_000})
    parts = parts_of(view)
    stats = {stat.name: stat.value.text for stat in parts["stats"]}
    assert (stats["connections"], stats["in_flight"]) == ("≥ 3", "≥ 390")
    assert parts["texts"]["partial"] == "≥: 1 of 2 nodes not answering, b:4151 for 2h 00m"
    assert parts["subtitle"] == "≥ 3 connections from 3 hosts to 1 of 2 nodes"
    whole = parts_of(listed(*PEERS))
    assert "≥" not in "".join(stat.value.text for stat in whole["stats"])


def test_nodes_that_are_being_read_do_not_count_as_silent_ones() -> None:
    two_hours_ago_ms = units.now_ms() - 2 * 3_600_000
    view = listed(*PEERS, lacking={"b:4151": two_hours_ago_ms, **dict.fromkeys("cdef", 0)})
    words = parts_of(view)["texts"]["partial"]
    assert words == "≥: 1 of 2 nodes not answering, b:4151 for 2h 00m; 4 more being read"
    empty = parts_of(listed(lacking={"b:4151": two_hours_ago_ms}))["tables"]["connections"].empty
    assert empty.text == "1 of 2 nodes not answering, b:4151 for 2h 00m."
    assert parts_of(listed(lacking={"b:4151": 0}))["tables"]["connections"].empty.text == "The nodes are being read."
    state = cluster_states.state([cluster_states.node("a:4151", read_at_ms=units.now_ms())])
    own = node.parts(ClusterView(state, clients=ClientList((), 0, 2, {"a:4151": 0, "b:4151": 1})), Role.ADMIN, "a:4151")
    assert own["texts"]["clients"] == "being read", "a node's page says nothing of others"


def cards_of(*found: Client, **changes: Any) -> dict[str, tuple[str, str]]:
    return {stat.name: (stat.value.text, stat.note.text) for stat in parts_of(listed(*found, **changes))["stats"]}


def test_the_cards_name_nsqds_only_where_a_timeout_is_not_counted() -> None:
    counted = [replace(one, timeouts=0, rates=ClientRates(150.0, 0.0, 0.0)) for one in PEERS]
    late = replace(counted[0], rates=ClientRates(150.0, 0.0, 6.0))
    assert cards_of(*counted)["timeouts"] == ("0/min", "by consumers")
    assert cards_of(late, *counted[1:])["timeouts"] == ("6/min", "100 % at one")
    assert cards_of(late, *PEERS[1:])["timeouts"] == ("≥ 6/min", "100 % at one · nsqds count none")
    assert cards_of(*PEERS)["timeouts"] == ("–", "nsqds count none")
    assert cards_of()["timeouts"] == ("–", "by consumers")


def test_the_cards_do_not_say_that_all_share_the_work_before_rates_show_it() -> None:
    assert cards_of(*PEERS)["outliers"] == ("0", "all share the work")
    assert cards_of(*(replace(one, rates=None) for one in PEERS))["outliers"] == ("–", "")
    assert cards_of()["outliers"] == ("0", "")
    lacking = cards_of(*PEERS, lacking={"b:4151": 0})
    assert lacking["outliers"] == ("≥ 0", "")
    assert lacking["in_flight"] == ("≥ 390", "of ≥ 600 RDY")
    assert lacking["connections"] == ("≥ 3", "≥ 3 consumers · ≥ 0 producers")


def test_a_count_that_an_nsqd_does_not_make_is_unknown_not_0() -> None:
    row = parts_of(listed(PEERS[0]))["tables"]["connections"].rows[0]
    cells = {column.name: cell for column, cell in row.cells}
    assert (cells["timeouts"].text, cells["requeued"].text, cells["attributes"].text) == ("–", "0", "")


def test_a_clients_page_has_its_figures_beside_the_mean_of_its_peers() -> None:
    view = listed(*PEERS, HUNG)
    parts = client.parts(view, "b:4151", "10.2.0.41:4")
    rows = {row.key: [cell for _, cell in row.cells] for row in parts["tables"]["compared"].rows}
    assert [cell.text for cell in rows["in_flight"]] == ["In flight", "2,100", "130", "84 %"]
    assert [cell.text for cell in rows["rate"]] == ["Finished /s", "0/s", "150/s", "0 %"]
    assert rows["timed_out"][1].text == "–"
    assert {stat.name: stat.note.text for stat in parts["stats"]}["ready"] == "peers 200"
    assert [row.cells[0][1].text for row in parts["tables"]["connections"].rows] == [one.name for one in PEERS]
    facts = {row.key: row.cells[1][1].text for row in parts["tables"]["facts"].rows}
    assert (facts["User agent"], facts["Message timeout"]) == ("go-nsq/1.1.0", "1m 00s")
    assert not parts["flags"]["own"]


def test_a_connection_that_is_gone_is_no_page_and_one_whose_node_is_silent_is_unknown() -> None:
    assert client.parts(listed(*PEERS), "b:4151", "10.2.0.41:4") == {"flags": {"gone": True}, "texts": {"partial": ""}}
    silent = listed(*PEERS, lacking={"b:4151": units.now_ms() - 2 * 3_600_000})
    texts = client.parts(silent, "b:4151", "10.2.0.41:4")["texts"]
    assert texts["partial"] == "1 of 2 nodes not answering, b:4151 for 2h 00m"


def test_hostile_words_of_a_client_are_text() -> None:
    bad = connection("<b>", "<script>", user_agent='<img src=x onerror="">', auth_identity="<i>", authed=True)
    view = listed(replace(bad, key="a1b2"))
    html = parts_of(view)["tables"]["connections"].html
    html += client.parts(view, "a:4151", "a1b2")["tables"]["facts"].html
    for tag in ("<script", "<img", "<i>", "<b>"):
        assert tag not in html
