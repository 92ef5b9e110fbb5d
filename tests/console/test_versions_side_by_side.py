"""A rolling upgrade: Penstocks and nsqds of two versions side by side, each shown with what it can."""

import json
import re
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from admin_console.cluster.reading.nodes import ClusterState
from admin_console.cluster.reading.registrations import registrations_in
from admin_console.gateway.gateway import DONE, FAILED
from admin_console.hub.hub import get_hub
from queue_engine.engine.acts.log_acts import Target
from queue_engine.service.http.api import reference
from tests.cluster.contract.conftest import gateways_of
from tests.console.test_acts_on_nodes import DIALOG, fields_of, nodes_in
from tests.support.fake_node import FakeNode
from tests.support.fake_nsqd import FakeNsqd, channel, topic
from tests.support.pages.cluster_console import cluster_console
from tests.support.pages.console import client_of, make_user, words
from tests.support.waiting import wait_for

pytestmark = pytest.mark.django_db

RECORDED = Path(__file__).parents[1] / "data" / "nsq-1.2"
OLD, NEW = "1.3.0+penstock.0.1.9", "1.3.0+penstock.0.2.0"
FIRST = "0.1.0"  # before the versions of Penstocks named nsqd's
REQUEUE = "/topics/orders/billing/~requeue/"
LATER = ("/channel/requeue", "/channel/release")


def recorded(name: str) -> Any:
    return json.loads((RECORDED / f"{name}.json").read_bytes())["body"]


def nsqd_1_2(node: FakeNode) -> None:
    """Have it answer as nsqd 1.2.1 does; its recorded address is now this one's."""
    node.answers["/info"] = {**recorded("nsqd-info"), "http_port": node.port}
    node.answers["/stats"] = recorded("nsqd-stats")


def penstock(version: str, *, depth: int = 4, without: Collection[str] = (), no_parameters: bool = False) -> FakeNsqd:
    """without: paths that its version lacks. no_parameters: its acts have names alone."""
    billing = channel("billing", depth=depth, message_count=depth + 1, finish_count=1, oldest_age_ms=9_000)
    found = FakeNsqd.of(topic("orders", billing, message_count=depth + 1), version=version)
    paths = {path: one for path, one in reference()["paths"].items() if path not in without}
    if no_parameters:
        for one in paths.values():
            for operation in one.values():
                operation["parameters"] = [
                    parameter for parameter in operation["parameters"] if parameter["name"] in ("topic", "channel")
                ]
    found.answers["/openapi.json"] = {"paths": paths}
    for path in (*without, *(LATER if not without else ())):
        found.answers[path] = (404, {}, b'{"message":"NOT_FOUND"}') if path in without else b""
    return found


_ROW = re.compile(r'<tr data-key="([^"]+)">(.*?)</tr>', re.DOTALL)
_CELL = re.compile(r'class="([^"]*)" data-cell="(\w+)"[^>]*>(.*?)</td>', re.DOTALL)


def cells(html: str, cell: str, *, amber: bool = False) -> dict[str, str]:
    """Node → the text of its cell in the tables of a page. amber: in amber cells alone."""
    return {
        key: " ".join(words(text).split())
        for key, row in _ROW.findall(html)
        for css, name, text in _CELL.findall(row)
        if name == cell and (not amber or "tone-warning" in css)
    }


def test_each_version_is_shown_with_what_it_can(tmp_path: Path) -> None:
    first = penstock(FIRST, without=LATER, no_parameters=True)
    old, new = penstock(OLD, without=LATER), penstock(NEW)
    plain = FakeNsqd.of(topic("orders", channel("billing", depth=3, message_count=3), message_count=3))
    with first, old, new, plain, FakeNode() as older:
        nsqd_1_2(older)
        with cluster_console(tmp_path, first, old, new, older, plain) as console:
            console.see_topic("orders", 5)
            browser = client_of(make_user())
            nodes = browser.get("/nodes/").content.decode()
            products = {
                first.address: "Penstock 0.1.0",
                old.address: "Penstock 0.1.9",
                new.address: "Penstock 0.2.0",
                older.address: "nsqd 1.2.1",
                plain.address: "nsqd 1.3.0",
            }
            assert cells(nodes, "version").items() >= products.items()
            assert cells(nodes, "version", amber=True).keys() == {first.address, old.address, older.address}
            page = browser.get("/topics/orders/billing/").content.decode()
            assert cells(page, "version").items() >= products.items()
            assert cells(page, "depth").items() >= {older.address: "7", old.address: "4", plain.address: "3"}.items()
            # The limits of each stand on its page, and in the question of an act.
            lacks = "Limits its version has no /channel/requeue and /channel/release Called at"
            nothing = "shows no messages and has no quarantine, no trash, no pipeline cursors and no keys Called at"
            for node, text in ((old, lacks), (older, nothing)):
                assert text in words(browser.get(f"/nodes/{node.address}/").content.decode())
            page = words(browser.get(f"/nodes/{first.address}/").content.decode())
            assert re.search(r"Limits its version has no (?:\w+ of [a-z/]+,? ){6}and \d+ more Called at", page), page
            assert "Limits" not in words(browser.get(f"/nodes/{new.address}/").content.decode())
            question = browser.get(REQUEUE, headers=DIALOG).content.decode()
            assert nodes_in(question) == [new.address]
            for node, product in ((first, "Penstock 0.1.0"), (old, "Penstock 0.1.9")):
                assert f"{node.address} runs {product}, which has no such act." in words(question)
            nsqd = min(older.address, plain.address)
            assert f"{nsqd} is an nsqd and can't requeue or release messages by hand." in words(question)
            assert "1 further node can't do this, either." in words(question)
            # Done where it can be.
            assert browser.post(REQUEUE, fields_of(question), headers=DIALOG).status_code == 204
            assert [one.path for one in new.acts] == ["/channel/requeue"]
            assert not [*first.acts, *old.acts, *older.acts, *plain.acts]


def test_a_parameter_that_an_older_version_would_ignore_is_not_sent(tmp_path: Path) -> None:
    with penstock(OLD, no_parameters=True) as old, penstock(NEW) as new, ExitStack() as stack:
        before, now = (gateways_of(stack, tmp_path / node.address, node.port)[0] for node in (old, new))
        # This console ends a pause there, as on an nsqd, and compares the counts.
        assert (before.ends_pauses, now.ends_pauses) == (False, True)
        for gateway in (before, now):
            paused = gateway.act("pause_channel", "orders", "billing", by="ada", reason="deploy", for_ms=60_000)
            assert paused.verdict == DONE
            old.channel("orders", "billing")["depth"] = 2_000
            new.channel("orders", "billing")["depth"] = 2_000
            gateway.act("empty_channel", "orders", "billing", by="ada", expected=5)
            gateway.act("create_channel", "orders", "archive", start=Target(word="start"))
        assert [one.query for one in old.acts] == [{"topic": "orders", "channel": "billing"}]
        pause, empty, create = (one.query for one in new.acts)
        assert (pause["reason"], pause["for"], empty["expected"]) == ("deploy", "1m", "5")
        assert create == {"topic": "orders", "channel": "archive", "start": "start"}
        refused = before.act("create_channel", "orders", "archive", start=Target(word="start"))
        reason = f"{before.name} runs Penstock 0.1.9, which has no “start” for it"
        assert (refused.code, refused.message) == ("NOT_SUPPORTED", f"Nothing was done to orders/archive: {reason}.")
        assert before.act("create_channel", "orders", "archive").verdict == DONE


def messages_read(node: FakeNode) -> list[str]:
    return [path for path, _ in node.requests if path.startswith(("/channel/messages", "/topic/messages"))]


def test_no_messages_are_read_where_an_older_version_would_answer_with_others(tmp_path: Path) -> None:
    with penstock(OLD, no_parameters=True) as old, cluster_console(tmp_path, old) as console:
        old.channel("orders", "billing")["in_flight_count"] = 2
        old.answers |= {"/channel/messages": {"messages": []}, "/topic/messages": {"messages": []}}

        def in_flight(state: ClusterState) -> bool:
            (node,) = state.nodes
            assert node.stats is not None
            return node.stats.topics["orders"].channels["billing"].figures["in_flight_count"] == 2

        console.see("messages in flight", in_flight)
        browser = client_of(make_user())
        # With keys, each second's list would be a look at contents, which the node audits.
        page = words(browser.get("/topics/orders/billing/").content.decode())
        assert "runs Penstock 0.1.9, which lists no messages without their keys." in page
        # Its oldest messages would be there as those with the key.
        refused = browser.get("/topics/orders/~messages/", {"key": "k1"})
        reason = f"{old.address} runs Penstock 0.1.9, which finds no messages by key."
        assert (refused.status_code, reason in words(refused.content.decode())) == (409, True)
        assert messages_read(old) == []
        old.answers["/openapi.json"] = {"paths": reference()["paths"]}
        old.restart()
        console.see(
            "its parameters", lambda state: bool((info := state.nodes[0].info) and info.takes("/topic/messages", "key"))
        )
        browser.get("/topics/orders/~messages/", {"key": "k1"})
        assert len(messages_read(old)) == 1
        old.channel("orders", "billing")["in_flight_count"] = 2
        console.see("messages in flight", in_flight)
        old.answers["/channel/messages"] = (503, {}, b'{"message":"EXITING"}')
        sentence = f"Not listed here: {old.address} refused it: EXITING."
        # A page waits a short time for the answer, the next one has it.
        wait_for("the refusal", lambda: sentence in words(browser.get("/topics/orders/billing/").content.decode()))


def test_a_version_that_names_no_acts_is_called_and_its_refusal_is_clear(tmp_path: Path) -> None:
    with penstock(OLD, without=LATER) as old, ExitStack() as stack:
        old.answers["/openapi.json"] = (404, {}, b'{"message":"NOT_FOUND"}')
        gateway, _ = gateways_of(stack, tmp_path, old.port)
        assert gateway.why_not("requeue_channel") == ""
        refused = gateway.act("requeue_channel", "orders", "billing")
        reason = f"{gateway.name} runs Penstock 0.1.9, which has no such act"
        assert (refused.code, refused.message) == ("NOT_SUPPORTED", f"Nothing was done to orders/billing: {reason}.")


def test_a_node_that_is_replaced_has_the_acts_and_figures_of_its_new_version(tmp_path: Path) -> None:
    with (
        penstock(OLD, without=LATER) as rolling,
        penstock(NEW) as other,
        cluster_console(tmp_path, rolling, other) as console,
    ):
        console.see_topic("orders", 2)
        browser = client_of(make_user())
        assert cells(browser.get("/nodes/").content.decode(), "version", amber=True).keys() == {rolling.address}
        # The same address and second, another version: its counters begin anew, its messages are there.
        rolling.restart()
        rolling.started_s -= 60
        rolling.version = NEW
        rolling.answers = dict(other.answers)
        console.see("the new version", lambda state: all(one.info and one.info.version == NEW for one in state.nodes))
        html = browser.get("/nodes/").content.decode()
        assert cells(html, "version", amber=True) == {}
        assert cells(html, "version")[rolling.address] == "Penstock 0.2.0"
        assert cells(browser.get("/topics/orders/billing/").content.decode(), "depth")["*"] == "8"
        live = get_hub().live
        assert live is not None
        assert live.cluster is not None
        # What it counts anew is no message, and none is taken back.
        assert live.topics["orders"].message_count == 5
        assert [key for key, growth in live.cluster.growth.items() if growth.raw[0]] == []
        question = browser.get(REQUEUE, headers=DIALOG).content.decode()
        assert nodes_in(question) == sorted([rolling.address, other.address])


@pytest.mark.parametrize(
    "document", [{}, {"paths": []}, {"paths": {"/pub": 7, "/topic/create": {"post": []}}}, [], None]
)
def test_a_list_of_acts_of_another_form_costs_no_figure(document: Any, tmp_path: Path) -> None:
    with penstock(OLD) as node, ExitStack() as stack:
        node.answers["/openapi.json"] = json.dumps(document).encode()
        gateway, _ = gateways_of(stack, tmp_path, node.port)
        assert gateway.act("create_topic", "other").verdict in (DONE, FAILED)


def test_an_nsqlookupd_1_2_names_its_nodes_and_their_tombstones() -> None:
    (found,) = registrations_in(recorded("lookupd-nodes-tombstoned")["producers"]).nodes
    assert (found.address.bare, found.version) == ("127.0.0.1:27151", "1.2.1")
    assert (set(found.topics), set(found.tombstoned)) == ({"lonely", "orders"}, {"orders"})
