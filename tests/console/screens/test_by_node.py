"""Pages of a cluster: figures that lack a node's part are marked, silent nodes are named once, and the pages of topics
and channels have each node's figures and lines. Pages of one server have none of that."""

import re
from dataclasses import replace
from html import unescape
from typing import Any

import orjson
import pytest

from admin_console.cluster.reading.nodes import Node
from admin_console.gateway.client_list import ClientList
from admin_console.gateway.cluster_view import ClusterView
from admin_console.hub.hub import Hub, LiveState
from admin_console.screens import graphs, node_table, partial
from admin_console.screens.build import Request, build_screen
from admin_console.screens.parts import Screen, Table
from admin_console.vocabulary import units
from admin_console.vocabulary.roles import Role
from queue_engine.vocabulary.figures import CLIENT
from queue_engine.vocabulary.flow.pause import Pause
from tests.support import cluster_states, fake_nsqd
from tests.support.pages import snapshots
from tests.support.pages.clusters import OWN, HubOfCluster, nsqd
from tests.support.pages.snapshots import START_S

PAGES = {
    "overview": Request("overview", Role.ADMIN),
    "topics": Request("topics", Role.ADMIN),
    "topic": Request("topic", Role.ADMIN, topic="orders"),
    "channel": Request("channel", Role.ADMIN, topic="orders", channel="billing"),
}


def own(second: float = START_S, *, depth: int = 3, **channel: Any) -> Any:
    """This server: orders/billing, and clicks, which no other node has."""
    billing = snapshots.channel("orders", "billing", depth=depth, message_count=10, client_count=1, **channel)
    clicks = snapshots.channel("clicks", "all", depth=7, client_count=2)
    topics = (snapshots.topic("clicks", clicks), snapshots.topic("orders", billing, message_count=10))
    return snapshots.snapshot(*topics, second=second)


def orders(depth: int = 40, **figures: Any) -> dict[str, Any]:
    """The topic orders at an nsqd."""
    billing = fake_nsqd.channel("billing", depth=depth, message_count=100, client_count=1, **figures)
    return fake_nsqd.topic("orders", billing, message_count=100)


def silent(name: str = "nsq-b", *, since: float = START_S - 40, **figures: Any) -> Node:
    return nsqd(name, orders(500, **figures), silent_since=since)


def screen_of(page: str, live: LiveState) -> Screen:
    return build_screen(PAGES[page], live)


def text_of(html: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", html))


def row(table: Table, key: str) -> dict[str, str]:
    """The words of a row by column."""
    (found,) = [one for one in table.rows if one.key == key]
    return {column.name: text_of(cell.html) for column, cell in found.cells}


def test_a_sum_without_a_silent_node_is_marked_and_what_would_mislead_is_unknown() -> None:
    live = HubOfCluster().see(own(), nsqd("nsq-a", orders()), silent())
    stats = {stat.name: text_of(stat.value.html) for stat in screen_of("overview", live).stats}
    assert stats["waiting"] == "≥ 50"
    assert stats["in_flight"] == "≥ 0"
    assert stats["oldest"] == "–"
    rows = screen_of("overview", live).tables["urgent"]
    billing = row(rows, "orders/billing")
    assert (billing["nodes"], billing["depth"], billing["deferred"]) == ("3", "≥ 43", "≥ 0")
    assert (billing["growth"], billing["oldest"]) == ("–", "–")
    assert row(screen_of("topics", live).tables["topics"], "orders")["clients"] == "≥ 2"
    assert {stat.name: text_of(stat.value.html) for stat in screen_of("channel", live).stats}["depth"] == "≥ 43"


def test_the_small_words_of_a_partial_page_are_marked_as_well() -> None:
    live = HubOfCluster().see(own(in_flight_count=2, ready_count=5), nsqd("nsq-a", orders(timeout_count=4)), silent())
    notes = {stat.name: text_of(stat.note.html) for stat in screen_of("channel", live).stats}
    assert notes["in_flight"] == "≥ 2 consumers, RDY ≥ 5"
    assert notes["timeouts"] == "≥ 4 since start"
    assert notes["depth"] == "growth unknown"
    assert notes["oldest"] == "unknown until nsq-b:4151 answers", "one line of 32 characters"
    subtitle = screen_of("channel", live).subtitle
    assert subtitle.startswith("≥ 43 in memory, ≥ 0 on disk")
    assert "≥ 110 messages" in subtitle
    assert screen_of("overview", live).subtitle == "≥ 2 topics · ≥ 2 channels · ≥ 4 consumers · 3 nodes"


def test_the_overview_s_oldest_message_is_the_least_where_an_nsqd_reports_no_age() -> None:
    def oldest(*own_topics: Any, waiting: int = 40) -> tuple[str, str]:
        here = snapshots.snapshot(*own_topics)
        stats = {
            one.name: one for one in screen_of("overview", HubOfCluster().see(here, nsqd("a", orders(waiting)))).stats
        }
        return text_of(stats["oldest"].value.html), text_of(stats["oldest"].note.html)

    aged = snapshots.channel("clicks", "all", depth=7, oldest_ns=int((START_S - 120) * 1e9))
    clicks = snapshots.topic("clicks", aged)
    assert oldest() == ("–", "not every node reports it")
    assert oldest(clicks) == ("≥ 2m 00s", "in clicks/all")
    assert oldest(clicks, waiting=0) == ("2m 00s", "in clicks/all")
    assert oldest(waiting=0) == ("–", "every message is finished")


def test_a_row_whose_nodes_all_answer_has_no_mark() -> None:
    live = HubOfCluster().see(own(), nsqd("nsq-a", orders()), silent())
    clicks = row(screen_of("overview", live).tables["urgent"], "clicks/all")
    assert (clicks["nodes"], clicks["depth"]) == ("1", "7")
    assert "≥" not in "".join(row(screen_of("topics", live).tables["topics"], "clicks").values())


@pytest.mark.parametrize(("page", "count"), [("overview", 3), ("topics", 3), ("topic", 3), ("channel", 3)])
def test_a_page_names_nodes_that_do_not_answer_once(page: str, count: int) -> None:
    live = HubOfCluster().see(own(), nsqd("nsq-a", orders()), silent())
    words = text_of(screen_of(page, live).silence)
    assert words.startswith(f"≥ 1 of {count} nodes not answering for 40 s: nsq-b:4151 (Connection refused). ")
    assert "Figures with ≥ leave it out; the last full figures are of 2025-06-15 15:05:59 UTC." in words


def test_a_topic_s_page_says_nothing_of_a_silent_node_that_does_not_have_it() -> None:
    live = HubOfCluster().see(own(), nsqd("nsq-a", orders()), silent())
    screen = build_screen(Request("topic", Role.ADMIN, topic="clicks"), live)
    assert screen.silence == ""
    assert screen.nodes[0] == "2 of 3 nodes", "the header is of the whole cluster"
    assert not any("≥" in stat.value.html for stat in screen.stats)


def test_the_header_has_the_age_of_figures_that_are_not_of_this_second() -> None:
    cluster = HubOfCluster()
    assert screen_of("overview", cluster.see(own(), nsqd("nsq-a", orders()))).nodes == ("2 nodes", "")
    live = cluster.see(own(START_S + 8), nsqd("nsq-a", orders()))
    assert screen_of("overview", live).nodes == ("2 nodes", "≤ 10 s")


def test_pages_of_nodes_and_clients_have_the_nodes_in_the_header() -> None:
    live = HubOfCluster().see(own(), nsqd("nsq-a", orders()), silent())
    assert live.cluster is not None
    view = ClusterView(live.cluster.state, clients=ClientList())
    for page in ("nodes", "node", "clients", "client", "counter"):
        request = Request(page, Role.ADMIN, node="nsq-a:4151")
        update = orjson.loads(build_screen(request, live, cluster=view).update_json())
        assert update["nodes"][0] == "2 of 3 nodes", page
        assert update["silence"] == "", "each has a sentence of its own"
        alone = orjson.loads(build_screen(request, None, cluster=view).update_json())
        assert "nodes" not in alone


def nowhere() -> Any:
    """This server, without a topic."""
    return snapshots.snapshot()


def test_what_a_silent_node_may_have_is_not_said_to_be_none() -> None:
    gone = nsqd("nsq-b", orders_of(0), silent_since=START_S - 40)
    live = HubOfCluster().see(nowhere(), gone)
    channel = screen_of("channel", live).tables
    assert channel["clients"].empty.text == "The consumers are unknown until nsq-b:4151 answers."
    assert channel["in_flight"].empty.text == "Which messages are in flight is unknown until nsq-b:4151 answers."
    here = HubOfCluster().see(nowhere(), nsqd("nsq-b", orders_of(0)))
    assert screen_of("channel", here).tables["in_flight"].empty.text == "No message is in flight."
    assert screen_of("channel", here).tables["clients"].empty.text == "No consumer is connected to this channel."
    assert "– on disk" not in screen_of("channel", here).subtitle, "an nsqd does not report its files"


def orders_of(consumers: int) -> dict[str, Any]:
    return fake_nsqd.topic("orders", fake_nsqd.channel("billing", client_count=consumers), message_count=1)


def test_a_channel_whose_consumers_may_be_at_a_silent_node_is_not_said_to_have_none() -> None:
    for at_b, chip, count in [
        (nsqd("nsq-b", orders_of(0), silent_since=START_S - 40), "consumers unknown", "0"),
        (nsqd("nsq-b", orders_of(0)), "no consumers", "1"),
    ]:
        live = HubOfCluster().see(nowhere(), nsqd("nsq-a", orders_of(0)), at_b)
        assert chip in [one.text for one in screen_of("channel", live).chips]
        for page in ("overview", "topics"):
            filters = {one.name: one.count for one in screen_of(page, live).list_bar.filters}
            assert filters["no-consumer"] == count, page


def test_a_silent_node_does_not_hide_that_messages_have_no_consumer_at_the_others() -> None:
    waiting = fake_nsqd.topic("orders", fake_nsqd.channel("billing", depth=9, message_count=9), message_count=9)
    hub = HubOfCluster()
    gone = nsqd("nsq-b", orders_of(0), silent_since=START_S - 40)
    for second in range(6):
        live = hub.see(snapshots.snapshot(second=START_S + second), nsqd("nsq-a", waiting), gone)
    screen = screen_of("channel", live)
    assert [(one.text, one.tone) for one in screen.chips] == [("consumers unknown", "warning")]
    assert screen.banner is not None
    assert screen.banner.title == "No consumer is connected to the nodes that answer."
    filters = {one.name: one.count for one in screen_of("overview", live).list_bar.filters}
    assert (filters["attention"], filters["no-consumer"]) == ("1", "0")


def test_a_topic_whose_node_never_answered_is_not_said_to_have_no_channel() -> None:
    live = HubOfCluster().see(nowhere(), cluster_states.unread("nsq-b:4151", "orders"))
    topics, topic = screen_of("topics", live), screen_of("topic", live)
    assert "channels unknown" in row(topics.tables["topics"], "orders")["state"]
    assert {one.name: one.count for one in topics.list_bar.filters}["no-channel"] == "0"
    assert topic.tables["channels"].empty.title == "The channels are unknown until nsq-b:4151 answers"
    overview = screen_of("overview", live)
    assert not overview.flags["unchannelled"]
    assert overview.tables["urgent"].empty.title == "The channels are unknown until nsq-b:4151 answers"
    here = HubOfCluster().see(nowhere(), nsqd("nsq-b", fake_nsqd.topic("orders")))
    assert "no channels" in row(screen_of("topics", here).tables["topics"], "orders")["state"]
    assert screen_of("topic", here).tables["channels"].empty.title == "No channels yet"
    assert screen_of("overview", here).flags["unchannelled"]


def test_a_list_that_no_channel_passes_names_the_nodes_that_it_lacks() -> None:
    for at_b, text in [
        (nsqd("nsq-b", orders(), silent_since=START_S - 40), "The figures are without nsq-b:4151."),
        (nsqd("nsq-b", orders()), ""),
    ]:
        live = HubOfCluster().see(own(), at_b)
        screen = build_screen(Request("overview", Role.ADMIN, show="paused"), live)
        empty = screen.tables["urgent"].empty
        assert (empty.title, empty.text) == ("No channel is paused", text)


def test_a_node_that_answers_without_all_counts_marks_its_rows_and_is_not_called_silent() -> None:
    lacks = nsqd("nsq-b", orders(1 << 63))
    live = HubOfCluster().see(own(), nsqd("nsq-a", orders()), lacks)
    screen = screen_of("topics", live)
    assert screen.subtitle.startswith("≥ 2 topics")
    depths = {one.key: row(screen.tables["topics"], one.key)["depth"] for one in screen.tables["topics"].rows}
    assert depths == {"orders": "≥ 43", "clicks": "7"}
    for page in PAGES:
        found = text_of(screen_of(page, live).silence)
        assert found == "≥ The answer of nsq-b:4151 lacks counts. Figures with ≥ leave it out.", page
    both = text_of(screen_of("topic", HubOfCluster().see(own(), silent("nsq-a"), lacks)).silence)
    assert re.match(r"≥ 1 of 3 nodes not answering for .*: nsq-a:4151 .* of nsq-b:4151 .* leave them out; ", both)


def test_an_update_has_the_reason_for_a_list_without_rows() -> None:
    live = HubOfCluster().see(nowhere(), cluster_states.unread("nsq-b:4151"))
    update = orjson.loads(screen_of("topics", live).update_json())
    assert "The topics are unknown until nsq-b:4151 answers" in update["tables"]["topics"]["empty"]
    there = orjson.loads(screen_of("topics", HubOfCluster().see(own())).update_json())
    assert "empty" not in there["tables"]["topics"], "rows need no reason"


def test_while_no_node_is_read_yet_no_page_says_that_nothing_is_there() -> None:
    live = HubOfCluster().see(nowhere(), cluster_states.unread("nsq-b:4151"))
    for page, table in (("overview", "urgent"), ("topics", "topics")):
        assert screen_of(page, live).tables[table].empty.title == "The topics are unknown until nsq-b:4151 answers"
    assert not screen_of("overview", live).flags["first_run"], "its graphs stay"
    here = HubOfCluster().see(nowhere(), nsqd("nsq-b"))
    assert screen_of("overview", here).flags["first_run"]


def test_a_pause_at_some_nodes_says_at_how_many() -> None:
    nodes = nsqd("nsq-a", orders(paused=True)), nsqd("nsq-b", orders(paused=True))
    live = HubOfCluster().see(own(), *nodes)
    assert "❚❚ paused on 2 of 3" in row(screen_of("overview", live).tables["urgent"], "orders/billing")["state"]
    assert "❚❚ paused on 2 of 3" in text_of(screen_of("channel", live).chips_html)
    screen = screen_of("channel", live)
    assert screen.banner is not None
    assert screen.banner.title == f"Paused on 2 of 3 nodes. {OWN} still delivers."
    assert not screen.flags["pause_recorded"], "an nsqd does not record who paused: there is no panel"
    everywhere = HubOfCluster().see(own(paused=True), *nodes)
    assert "❚❚ paused<" in screen_of("channel", everywhere).chips_html
    # It can be paused at the rest; the end of a pause is changed where all nodes have one.
    for found, is_on_some in ((live, True), (everywhere, False)):
        flags = screen_of("channel", found).flags
        assert (flags["paused"], flags["paused_on_some"], flags["paused_everywhere"]) == (
            True,
            is_on_some,
            not is_on_some,
        )
        assert not flags["running"]


def paused(by: str, until_s: float = 0, **figures: Any) -> dict[str, Any]:
    """Of a channel of a Penstock, since a minute; until_s: from now on."""
    until_ms = round((START_S + until_s) * 1000) if until_s else 0
    since_ms = round((START_S - 60) * 1000)
    return {
        "paused": True,
        "pause": {"by": by, "reason": "deploy", "since_ms": since_ms, "until_ms": until_ms, "depth": 1},
        **figures,
    }


def test_pauses_ramps_and_redrives_of_other_penstocks_are_shown_by_node() -> None:
    at_a = nsqd("nsq-a", orders(**paused("ada", 300)))
    live = HubOfCluster().see(own(), at_a)
    screen = screen_of("channel", live)
    assert screen.banner is not None
    assert screen.banner.title == f"Paused on 1 of 2 nodes by ada for 1m. {OWN} still delivers."
    since = units.moment(round((START_S - 60) * 1000))
    assert f"Paused on nsq-a:4151 by ada since {since} UTC, resumes in 5m." in screen.banner.text
    assert "Reason: deploy." in screen.banner.text
    assert (screen.flags["pause_recorded"], screen.texts["pause_by"]) == (True, "ada")
    assert "❚❚ by ada, resumes in 5m" in row(screen.tables["by_node"], "nsq-a:4151")["state"]
    # Two authors, and a node that resumes slowly while it redrives.
    redrive = {"rate": 5, "total": 40, "began_ms": 1, "by": "bob", "done": 10, "left": 30, "ended": ""}
    ramp = {"from_ms": round(START_S * 1000) - 1000, "until_ms": round(START_S * 1000) + 60_000}
    nodes = at_a, nsqd("nsq-b", orders(**paused("bob"))), nsqd("nsq-c", orders(ramp=ramp, redrive=redrive))
    screen = screen_of("channel", HubOfCluster().see(nowhere(), *nodes))
    assert screen.banner is not None
    assert "Paused on 2 of 3 nodes by ada, bob for 1m." in screen.banner.title
    assert "on nsq-a:4151 by ada" in screen.banner.text
    assert "on nsq-b:4151 by bob" in screen.banner.text
    assert screen.texts["pause_until"] == "when a user resumes it"
    assert row(screen.tables["by_node"], "nsq-c:4151")["state"] == "ramp+1"
    assert "redrive 10 of 40" in screen.tables["by_node"].html
    assert "10 of 40 wait again" in screen.texts["quarantine_redrive"]


def test_the_pause_of_a_topic_is_told_of_its_node_and_the_same_one_at_all_nodes_once() -> None:
    at_a = fake_nsqd.topic("orders", fake_nsqd.channel("billing"), **paused("ada"))
    at_b = fake_nsqd.topic("orders", fake_nsqd.channel("billing"), **paused("ada"))
    screen = screen_of("topic", HubOfCluster().see(nowhere(), nsqd("nsq-a", at_a), nsqd("nsq-b", at_b)))
    assert screen.banner is not None
    assert screen.banner.title.startswith("Paused by ada for 1m: ")
    assert "on nsq-a" not in screen.banner.text
    screen = screen_of("topic", HubOfCluster().see(own(), nsqd("nsq-a", at_a)))
    assert screen.banner is not None
    assert "Paused on nsq-a:4151 by ada since" in screen.banner.text


def test_cursors_of_all_nodes_are_listed_and_only_this_server_s_are_deleted_here() -> None:
    cursor = {
        "cursor": "archive", "topic": "orders", "number": 7, "id_base": 9, "offset": 20, "end_offset": 45,
        "synced_offset": 40, "oldest_offset": 0, "depth": 25, "lag_bytes": 9000, "retention_bytes": 0,
        "created_ms": 1, "is_warned": False, "gaps": [], "lake": "", "maker": "token copier", "expires_ms": 0,
    }  # fmt: skip
    bad = [{**cursor, "cursor": "<b>"}, {**cursor, "cursor": "x", "depth": 1 << 70}, {**cursor, "topic": "mails"}, 3]
    node = nsqd("nsq-a", {**orders(), "cursors": [cursor, *bad]})
    live = HubOfCluster().see(nowhere(), node)
    screen = screen_of("topic", live)
    assert screen.flags["has_cursors"]
    shown = screen.tables["cursors"]
    assert [one.key for one in shown.rows] == ["archive@nsq-a:4151"]
    assert row(shown, "archive@nsq-a:4151")["node"] == "nsq-a:4151"
    assert row(shown, "archive@nsq-a:4151")["depth"] == "25"
    assert "nsq-a:4151 does this at its own console alone." in shown.html
    # The archive of this server is not about them.
    assert live.topics["orders"].cursors == ()


@pytest.mark.parametrize(
    "document",
    [3, [], {"by": 3}, {"since_ms": -1}, {"since_ms": 1 << 62}, {"until_ms": "soon"}, {"depth": 1 << 64}],
)
def test_a_pause_that_can_not_be_right_costs_itself_alone(document: Any) -> None:
    screen = screen_of("channel", HubOfCluster().see(nowhere(), nsqd("nsq-a", orders(paused=True, pause=document))))
    assert screen.flags["paused"]
    assert not screen.flags["pause_recorded"]
    long = {"by": "a" * 5_000, "reason": "r", "since_ms": 1}
    found = HubOfCluster().see(nowhere(), nsqd("nsq-a", orders(paused=True, pause=long)))
    assert screen_of("channel", found).texts["pause_by"] == "a" * 255


def test_a_topic_paused_at_some_nodes_says_which_deliver_and_whose_part_its_depth_lacks() -> None:
    at_a = fake_nsqd.topic("orders", depth=2, paused=True)
    live = HubOfCluster().see(own(), nsqd("nsq-a", at_a), silent())
    screen = screen_of("topic", live)
    assert screen.banner is not None
    assert screen.banner.title == f"Paused on 1 of 3 nodes. {OWN} still delivers."
    assert screen.banner.note == "The figures are without nsq-b:4151."
    assert f"Paused on 1 of 3 nodes. {OWN} still delivers." in unescape(screen.chips_html)


def test_a_pause_counts_as_grown_only_what_came_since_at_paused_nodes() -> None:
    def at(depth: int) -> dict[str, str]:
        pause = Pause("anna", since_ms=(START_S - 60) * 1000, depth=10)
        billing = snapshots.channel("orders", "billing", depth=depth, paused=True, pause=pause)
        here = snapshots.snapshot(snapshots.topic("orders", billing, depth=depth, paused=True, pause=pause))
        live = HubOfCluster().see(here, nsqd("nsq-a", orders(3_000)))
        assert live.topics["orders"].pause == pause, "at the topic itself nothing waits at the other node"
        return {page: screen_of(page, live).texts["pause_depth"] for page in ("channel", "topic")}

    at_channel = {"channel": "3,010, unchanged since", "topic": "10, unchanged since"}
    assert at(10) == at_channel
    assert at(14) == {"channel": "3,010, +4 since", "topic": "10, +4 since"}


def test_a_fault_of_this_server_names_it_and_heads_no_page_of_other_nodes_alone() -> None:
    ill = replace(own(), health="NOK - No space left on device")
    live = HubOfCluster().see(ill, nsqd("nsq-a", orders(), fake_nsqd.topic("far", fake_nsqd.channel("away", depth=9))))
    title = "This server: the engine reports a problem."
    for page in ("overview", "channel"):
        banner = screen_of(page, live).banner
        assert banner is not None
        assert banner.title == title
    far = build_screen(Request("channel", Role.ADMIN, "far", "away"), live).banner
    assert far is None or "engine" not in f"{far.title} {far.note}"
    assert screen_of("overview", live).texts["log_of"].startswith("of this server, ")
    hub = Hub()
    hub.write(ill)
    assert hub.live is not None
    alone = screen_of("overview", hub.live)
    assert alone.banner is not None
    assert alone.banner.title == "The engine reports a problem."
    assert alone.texts["log_of"].startswith("shared by")


def test_percentiles_without_a_silent_node_name_it_and_are_no_least() -> None:
    latency = {"count": 4, "percentiles": [{"quantile": 0.99, "value": 1_200_000_000}, {"quantile": 0.5, "value": 1}]}
    live = HubOfCluster().see(own(), nsqd("nsq-a", orders(e2e_processing_latency=latency)), silent())
    screen = screen_of("channel", live)
    assert row(screen.tables["by_node"], "*")["latency"] == "–"
    assert screen.texts["latency_of"].startswith("of ≥ 4 messages finished ")
    assert screen.texts["latency_of"].endswith(", without nsq-b:4151")


def test_a_rate_below_the_least_shown_is_marked_before_its_sign() -> None:
    assert partial.least_in("<0.01/s in · 5/s finished") == "≥ <0.01/s in · ≥ 5/s finished"


def test_producers_of_all_nodes_have_their_node_and_an_unknown_time_is_no_age() -> None:
    far = nsqd("nsq-a", orders())
    assert far.stats is not None
    figures = {
        **dict.fromkeys(one.name for one in CLIENT),
        "client_id": "shop",
        "remote_address": "10.0.0.9:7",
        "pub_counts": {"orders": 7},
    }
    topic = replace(far.stats.topics["orders"], producers=(figures,))
    far = replace(far, stats=replace(far.stats, topics={"orders": topic}))
    cluster = HubOfCluster()
    here = replace(own(), producers=(snapshots.client(1, pub_counts=(("orders", 5),)),))
    table = screen_of("topic", cluster.see(here, far, watched=("orders",))).tables["producers"]
    found = {cells["name"]: cells for cells in (row(table, one.key) for one in table.rows)}
    assert found["worker-1"]["node"] == OWN
    assert (found["shop"]["node"], found["shop"]["published"], found["shop"]["connected"]) == ("nsq-a:4151", "7", "–")
    hub = Hub()
    hub.write(here)
    assert hub.live is not None
    alone = screen_of("topic", hub.live).tables["producers"]
    assert "node" not in row(alone, alone.rows[0].key)


def test_a_topic_of_other_nodes_alone_has_its_page() -> None:
    live = HubOfCluster().see(own(), nsqd("nsq-a", fake_nsqd.topic("far", fake_nsqd.channel("away", depth=9))))
    for request in (Request("topic", Role.VIEWER, topic="far"), Request("channel", Role.VIEWER, "far", "away")):
        screen = build_screen(request, live)
        assert screen.flags["gone"] is False
        assert row(screen.tables["by_node"], "nsq-a:4151")["depth"] == "9"


def test_a_topic_of_silent_nodes_alone_is_not_gone() -> None:
    live = HubOfCluster().see(own(), nsqd("nsq-b", fake_nsqd.topic("far", depth=8), silent_since=START_S - 5))
    screen = build_screen(Request("topic", Role.VIEWER, topic="far"), live)
    assert screen.flags["gone"] is False
    assert row(screen.tables["by_node"], "nsq-b:4151")["places"] == "8 + 0", "what it answered last"


def test_a_channel_by_node_has_a_row_for_each_and_one_for_all() -> None:
    latency = {"count": 4, "percentiles": [{"quantile": 0.99, "value": 1_200_000_000}, {"quantile": 0.5, "value": 1}]}
    nodes = nsqd("nsq-a", orders(40, backend_depth=30, deferred_count=2, e2e_processing_latency=latency)), silent()
    table = screen_of("channel", HubOfCluster().see(own(), *nodes)).tables["by_node"]
    assert [one.key for one in table.rows] == [OWN, "nsq-a:4151", "nsq-b:4151", "*"]
    of_a = row(table, "nsq-a:4151")
    assert (of_a["version"], of_a["places"], of_a["deferred"]) == ("nsqd 1.3.0", "10 + 30", "2")
    assert (of_a["oldest"], of_a["latency"], of_a["read"]) == ("–", "1.2 s", "0 ms")
    of_b = row(table, "nsq-b:4151")
    assert (of_b["state"], of_b["depth"], of_b["growth"]) == ("not answering 40 s", "500", "–")
    of_all = row(table, "*")
    assert (of_all["name"], of_all["depth"], of_all["messages"]) == ("All 3 nodes", "≥ 43", "≥ 110")


def test_nodes_that_never_answered_do_not_fill_the_table() -> None:
    """An nsqlookupd may name thousands of them."""
    unread = [cluster_states.unread(f"dead-{number:02}:4151", "orders") for number in range(30)]
    table = screen_of("topic", HubOfCluster().see(own(), nsqd("nsq-a", orders()), *unread)).tables["by_node"]
    first = [f"dead-{number:02}:4151" for number in range(node_table.UNREAD_ROWS_MAX)]
    assert [one.key for one in table.rows] == [*first, OWN, "nsq-a:4151", "*"]
    of_all = row(table, "*")
    assert of_all["name"] == "All 32 nodes without a row: 10 that never answered"
    assert of_all["depth"] == "≥ 43"


def test_percentiles_of_several_nodes_are_the_worst_of_them() -> None:
    def latency(ns: int) -> dict[str, Any]:
        return {"count": 4, "percentiles": [{"quantile": 0.99, "value": ns}]}

    nodes = [nsqd(f"nsq-{ns}", orders(e2e_processing_latency=latency(ns * 10**6))) for ns in (200, 900, 30)]
    table = screen_of("channel", HubOfCluster().see(own(), *nodes)).tables["by_node"]
    assert row(table, "*")["latency"] == "worst of 3: 900 ms"


def test_consumers_of_all_nodes_have_their_node() -> None:
    mail = {"client_id": "mail", "remote_address": "10.0.0.7:5000", "in_flight_count": 3, "ready_count": 5}
    at_a = fake_nsqd.channel("billing", clients=(mail,))
    here = snapshots.client(1, client_id="here", in_flight_count=1)
    live = HubOfCluster().see(own(clients=(here,)), nsqd("nsq-a", fake_nsqd.topic("orders", at_a)))
    table = screen_of("channel", live).tables["clients"]
    keys = [one.key for one in table.rows]
    assert len(keys) == 2
    of_a = row(table, next(key for key in keys if key != "1"))
    assert (of_a["name"], of_a["node"], of_a["ready"]) == ("mail 10.0.0.7:5000", "nsq-a:4151", "5")
    assert of_a["attributes"] == "V2", "an nsqd reports no timeout of a client"
    assert of_a["timeouts"] == "–", "an nsqd counts none of a client"
    assert of_a["action"] == "", "only this server's engine can requeue what one consumer has"
    assert row(table, "1")["action"] == "Requeue now…"


def watched(seconds: int, *names: str) -> LiveState:
    """orders/billing while its page is open: each node gets 20 messages a second and finishes 5 of them."""
    cluster = HubOfCluster()
    cluster.hub.node_rings.watch("orders", "billing")
    cluster.hub.node_rings.watch("orders")
    for index in range(seconds):
        second = START_S + index
        billing = fake_nsqd.channel("billing", depth=15 * index, message_count=20 * index)
        at_each = fake_nsqd.topic("orders", billing, message_count=20 * index)
        live = cluster.see(own(second), *(nsqd(name, at_each, second=second) for name in names))
    return live


def test_each_node_has_a_line_in_the_colour_of_its_dot() -> None:
    live = watched(40, "nsq-a", "nsq-b")
    screen = screen_of("channel", live)
    depth, finished = screen.graphs[:2]
    assert (depth.title, finished.title) == ("Depth by node, messages", "Finished by node, messages/s")
    assert [(line.label, line.series, line.value) for line in depth.legend] == [
        (OWN, 1, "3"),
        ("nsq-a:4151", 2, "585"),
        ("nsq-b:4151", 4, "585"),
    ]
    assert finished.legend[1].value == "5/s over 30 s"
    table = screen.tables["by_node"]
    assert 'class="dot series-2"' in table.rows[1].cells[0][1].html
    assert row(table, "nsq-a:4151")["growth"] == "+15"
    columns = graphs.columns_of(live, graphs.node_plans(live, "orders", "billing"))
    assert columns["waiting@nsq-a:4151"][-3:] == [555, 570, 585]
    assert columns["finished@nsq-b:4151"][-2:] == [5, 5]
    assert screen.points["waiting@nsq-a:4151"] == 585
    published = screen_of("topic", live).graphs[1]
    assert (published.title, published.legend[1].value) == ("Published by node, messages/s", "20/s over 30 s")


def test_beyond_eight_nodes_the_others_are_one_line() -> None:
    live = watched(35, *(f"nsq-{index:02}" for index in range(10)))
    depth = screen_of("channel", live).graphs[0]
    assert len(depth.legend) == 9
    assert [line.series for line in depth.legend] == [1, 2, 4, 5, 6, 7, 8, 3, 9]
    assert (depth.legend[8].label, depth.legend[8].value) == ("3 others", "1,023"), "this server is the smallest"


def test_a_silent_node_s_line_has_a_gap_and_ends() -> None:
    cluster = HubOfCluster()
    cluster.hub.node_rings.watch("orders", "billing")
    for index in range(10):
        cluster.see(own(START_S + index), nsqd("nsq-a", orders(), second=START_S + index))
    for index in range(10, 20):
        live = cluster.see(own(START_S + index), nsqd("nsq-a", orders(), silent_since=START_S + 10))
    plans = graphs.node_plans(live, "orders", "billing")
    assert graphs.columns_of(live, plans)["waiting@nsq-a:4151"][-11:] == [40, *[None] * 10]
    assert graphs.points_of(live, plans)["waiting@nsq-a:4151"] is None
    assert graphs.points_of(live, plans)[f"waiting@{OWN}"] == 3


def test_times_that_lack_a_node_s_part_stay_marked_when_it_answers_again() -> None:
    cluster = HubOfCluster()
    for index in range(12):
        is_silent = 3 <= index < 6
        second = START_S + index
        a = nsqd("nsq-a", orders(), silent_since=START_S + 3) if is_silent else nsqd("nsq-a", orders(), second=second)
        live = cluster.see(own(second), a)
    silence = [(START_S + 3, START_S + 5)]
    assert live.silences_of() == silence
    assert live.silences_of("orders", "billing") == silence
    assert live.silences_of("clicks") == []


def test_a_node_that_restarts_has_a_rate_of_what_it_did_since() -> None:
    cluster = HubOfCluster()
    cluster.hub.node_rings.watch("orders", "billing")
    for index, (count, started_s) in enumerate([(1000, 1), (1010, 1), (4, START_S + 2), (8, START_S + 2)]):
        second = START_S + index
        at_a = fake_nsqd.topic("orders", fake_nsqd.channel("billing", message_count=count))
        live = cluster.see(own(second), nsqd("nsq-a", at_a, second=second, started_s=started_s))
    columns = graphs.columns_of(live, graphs.node_plans(live, "orders", "billing"))
    assert columns["finished@nsq-a:4151"][-3:] == [10, 4, 4]


def test_a_reading_counts_once_however_often_it_is_seen() -> None:
    cluster = HubOfCluster()
    cluster.hub.node_rings.watch("orders")
    for index in range(3):
        live = cluster.see(own(START_S + index), nsqd("nsq-a", orders(), second=START_S + 0.4))
    assert live.rings_of_nodes("orders")["nsq-a:4151"].clock.newest == START_S


def test_rings_of_nodes_go_when_no_page_is_open_any_more() -> None:
    cluster = HubOfCluster()
    for index in range(3):
        live = cluster.see(own(START_S + index), nsqd("nsq-a", orders(), second=START_S + index))
    assert live.rings_of_nodes("orders", "billing") == {}


def test_one_server_s_updates_have_nothing_of_nodes() -> None:
    hub = Hub()
    hub.write(own())
    for page in PAGES:
        screen = screen_of(page, hub.live)
        update = orjson.loads(screen.update_json())
        assert not {"nodes", "silence"} & update.keys()
        assert "by_node" not in screen.tables
        for table in screen.tables.values():
            assert "nodes" not in [column.name for column in table.columns]
