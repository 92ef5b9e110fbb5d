"""Acts of the page Lookup that go to nodes as well, over fakes that answer as NSQ 1.3 does."""

import json
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from admin_console.audit.models import AuditRow
from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.cluster import get_cluster
from admin_console.cluster.lookupds.lookupd_answers import LookupdReport, topics_listed
from admin_console.vocabulary.roles import Role
from tests.support.fake_node import FakeNode, Request, producer
from tests.support.fake_nsqd import FakeNsqd, channel, topic
from tests.support.pages.cluster_console import cluster_console
from tests.support.pages.console import client_of, make_user, words
from tests.support.waiting import wait_for

pytestmark = pytest.mark.django_db

RECORDED = Path(__file__).parents[1] / "data/nsq-1.3"


class FakeLookupd(FakeNode):
    """An nsqlookupd that answers acts as nsqlookupd does: 200 with nothing."""

    def list_topic(self, name: str, *nodes: FakeNode, channels: tuple[str, ...] = ()) -> None:
        acts = [f"/{scope}/{verb}" for scope in ("topic", "channel") for verb in ("create", "delete")]
        self.answers.update(dict.fromkeys([*acts, "/topic/tombstone"], b""))
        self.answer_as_lookupd(*nodes, topics=(name,))
        self.answers["/topics"] = {"topics": [name]}
        self.answers["/channels"] = {"channels": list(channels)}
        self.answers["/debug"] = {}


def recorded(name: str) -> Any:
    return json.loads((RECORDED / f"lookupd-{name}.json").read_text())


def test_the_lists_of_nsqlookupd_are_read_as_it_writes_them(tmp_path: Path) -> None:
    """The console calls the paths that were recorded, and no other one."""
    with FakeNode() as lookup, cluster_console(tmp_path):
        for name in ("topics", "nodes", "debug", "channels-topic-orders"):
            found = recorded(name)
            path = found["request"]["path"].partition("?")[0]
            lookup.answers[path] = (found["status"], found["headers"], json.dumps(found["body"]).encode())
        cluster = get_cluster()
        assert cluster is not None
        address = HttpAddress.parse(lookup.address)

        def report() -> LookupdReport | None:
            assert cluster is not None
            return cluster.lookupds.reports([address])[0]

        taken = wait_for("its lists", report)
        assert (taken.error, taken.server_count) == ("", 3)
        lonely, orders = topics_listed([taken])
        assert orders.channels == ("archive", "billing", "tail#ephemeral")
        assert [one.node for one in orders.producers] == ["127.0.0.1:28011", "127.0.0.1:28021"]
        assert [one.pinged_at_ms for one in orders.producers] == [1795808968323, 1795808968320]
        assert [one.node for one in lonely.producers] == ["127.0.0.1:28031"]
        # The fake has one answer for all topics: no producer of lonely has these channels.
        assert list(lonely.lonely) == ["archive", "billing", "tail#ephemeral"]
        assert "/channels?topic=orders" in [path for path, _ in lookup.requests]


def create(browser: Client, **form: Any) -> str:
    answer = browser.post("/lookup/~create/", form, follow=True)
    return words(answer.content.decode())


def test_a_channel_is_created_at_nsqlookupds_and_on_ticked_nodes(tmp_path: Path) -> None:
    with FakeNsqd() as a, FakeNsqd() as b, FakeLookupd() as lookup:
        lookup.list_topic("orders", a, b)
        with cluster_console(tmp_path, a, b, lookupds=(lookup,)) as console:
            browser = client_of(make_user(role=Role.OPERATOR))
            asked = browser.get(f"/lookup/~create/?topic=orders&channel=mail&node={a.address}").content.decode()
            # The finding that leads here has the node ticked.
            assert f'value="{a.address}" checked' in asked
            assert f'value="{b.address}" checked' not in asked
            form = {
                "topic": "orders",
                "channel": "mail",
                "lookupds": [lookup.address],
                "node": [a.address, console.own],
            }
            assert "Created orders/mail at 1 nsqlookupd and on 2 nodes." in create(browser, **form)
            assert [one["channel_name"] for one in a.topics["orders"]["channels"]] == ["mail"]
            assert "orders" not in b.topics
            (own,) = console.engine.calls.stats(include_clients=False).result(10).topics
            assert [one.channel_name for one in own.channels] == ["mail"]
            assert lookup.acts == [Request("POST", "/channel/create", {"topic": "orders", "channel": "mail"})]
            # One that fails is named, and costs no other one.
            b.failing = (500, {}, b'{"message":"INTERNAL_ERROR"}')
            found = create(browser, topic="later", channel="", node=[a.address, b.address])
            assert "Created later on 1 of 2 nodes." in found
            assert "INTERNAL_ERROR" in found
            assert "later" in a.topics
            row = AuditRow.objects.filter(action="register_name", phase="result").first()
            assert row is not None
            assert sorted(row.detail.split(", ")) == sorted([f"on {a.address}", f"on {b.address}"])


def test_a_tombstone_deletes_the_topic_there_once_its_name_is_typed(tmp_path: Path) -> None:
    with FakeNsqd.of(topic("orders", channel("billing", depth=40))) as a, FakeLookupd() as lookup:
        lookup.list_topic("orders", a)
        with cluster_console(tmp_path, a, lookupds=(lookup,)):
            admin = client_of(make_user())
            url = f"/lookup/orders/{a.address}/~tombstone/"
            asked = unescape(admin.get(url).content.decode())
            assert "40 messages of orders stay there. To end the topic there, as nsqadmin's Tombstone does" in asked
            assert "is not orders. Nothing was done." in unescape(
                admin.post(url, {"typed_name": "order"}).content.decode()
            )
            assert lookup.acts == []
            admin.post(url)
            assert "orders" in a.topics
            answer = words(admin.post(url, {"typed_name": "orders", "expected": "40"}, follow=True).content.decode())
            tombstone = Request("POST", "/topic/tombstone", {"topic": "orders", "node": a.address})
            assert lookup.acts == [tombstone, tombstone]
            assert f"Tombstoned {a.address} as a producer of orders at 1 nsqlookupd. On {a.address}: Deleted" in answer
            assert a.topics == {}
            rows = AuditRow.objects.filter(action="tombstone_producer", phase="result").order_by("id")
            assert [row.detail for row in rows] == [a.address, f"{a.address}, and delete the topic there"]


def test_where_a_tombstone_fails_nothing_is_deleted(tmp_path: Path) -> None:
    """A consumer that finds the node at that nsqlookupd would make the topic again."""
    with FakeNsqd.of(topic("orders")) as a, FakeLookupd() as lookup:
        lookup.list_topic("orders", a)
        lookup.answers["/topic/tombstone"] = (500, {}, b'{"message":"INTERNAL_ERROR"}')
        with cluster_console(tmp_path, a, lookupds=(lookup,)):
            url = f"/lookup/orders/{a.address}/~tombstone/"
            answer = words(client_of(make_user()).post(url, {"typed_name": "orders"}, follow=True).content.decode())
            assert f"Did not tombstone {a.address}" in answer
            assert f"orders was not deleted on {a.address}." in answer
            assert "orders" in a.topics


def test_who_may_not_delete_a_topic_hides_its_producer_alone(tmp_path: Path) -> None:
    with FakeNsqd.of(topic("orders")) as a, FakeLookupd() as lookup:
        lookup.list_topic("orders", a)
        with cluster_console(tmp_path, a, lookupds=(lookup,)):
            operator = client_of(make_user(role=Role.OPERATOR))
            url = f"/lookup/orders/{a.address}/~tombstone/"
            assert "typed_name" not in operator.get(url).content.decode()
            assert operator.post(url, {"typed_name": "orders"}).status_code == 400
            assert operator.post(url).status_code == 302
            assert "orders" in a.topics


def test_this_servers_topic_is_deleted_with_its_tombstone(tmp_path: Path) -> None:
    with FakeLookupd() as lookup, cluster_console(tmp_path, lookupds=(lookup,)) as console:
        console.engine.calls.create_topic("orders").result(30)
        lookup.list_topic("orders")
        port = int(console.own.rpartition(":")[2])
        lookup.answers["/nodes"] = {"producers": [producer(port, topics=("orders",))]}
        url = f"/lookup/orders/{console.own}/~tombstone/"
        admin = client_of(make_user())
        assert "0 messages of orders stay there" in unescape(admin.get(url).content.decode())
        answer = words(admin.post(url, {"typed_name": "orders", "expected": "0"}, follow=True).content.decode())
        assert f"On {console.own}: Deleted orders" in answer
        assert console.engine.calls.stats(include_clients=False).result(10).topics == ()


def test_servers_lead_to_their_pages_and_this_one_is_found_by_each_of_its_names(tmp_path: Path) -> None:
    with (
        FakeNsqd.of(topic("orders")) as a,
        FakeLookupd() as lookup,
        cluster_console(tmp_path, a, lookupds=(lookup,)) as console,
    ):
        port = int(console.own.rpartition(":")[2])
        listed = f"localhost:{port}"  # as its --broadcast-address says
        lookup.list_topic("orders")
        named = producer(port, address="localhost", topics=("orders",))
        other = producer(int(a.address.rpartition(":")[2]), topics=("orders",))
        lookup.answers["/nodes"] = {"producers": [named, other]}
        wait_for("its other name", lambda: [one.named.bare for one in console.cluster.state.embedded] == [listed])
        browser = client_of(make_user(role=Role.VIEWER))
        html = browser.get("/lookup/").content.decode()
        for name, words_of in ((listed, f"{listed} this server"), (a.address, a.address)):
            assert words_of in words(html)
            path = reverse("node", args=(name,))
            assert f'href="{path}"' in html
            page = browser.get(path, follow=True)
            assert page.status_code == 200
            assert "There is no node" not in page.content.decode()
        assert page.redirect_chain == []
        assert browser.get(reverse("node", args=(listed,))).headers["Location"] == reverse("node", args=(console.own,))
