"""Undo after emptying and deleting, and the trash as a page."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from admin_console.audit.models import AuditRow
from admin_console.vocabulary.roles import Role
from queue_engine.service.runner import EngineRunner
from tests.support.nsq_socket import NsqSocket
from tests.support.pages.console import client_of, make_user, orders_engine

pytestmark = pytest.mark.django_db

JSON = {"Accept": "application/json"}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineRunner]:
    with orders_engine(tmp_path) as runner:
        yield runner


@pytest.fixture
def client(engine: EngineRunner) -> Client:
    return client_of(make_user())


def post(client: Client, path: str, /, **form: Any) -> dict[str, Any]:
    answer = client.post(path, form, headers=JSON)
    return {**answer.json(), "status": answer.status_code}


def depth(engine: EngineRunner, topic: str = "orders") -> int:
    (found,) = engine.submit("stats.now", topic=topic).result(30).topics
    return found.depth + sum(channel.depth for channel in found.channels)


def test_an_emptied_channel_comes_back_by_the_link_beside_the_sentence(client: Client, engine: EngineRunner) -> None:
    answer = client.post("/topics/orders/billing/~empty/", {"typed_name": "orders/billing"}, follow=True)
    page = answer.content.decode()
    assert "Emptied orders/billing: dropped 5 messages." in page
    undo = re.search(r'<a href="([^"]+)" data-dialog>Undo</a>', page)
    assert undo is not None
    assert depth(engine) == 0
    question = client.get(undo[1]).content.decode()
    assert "Restore orders/billing</button>" in question
    assert "5 messages will come back" in question
    page = client.post(undo[1], {"reason": "wrong channel"}, follow=True).content.decode()
    assert "Restored orders/billing from the trash: 5 messages came back." in page
    assert "The trash is empty" in page
    assert depth(engine) == 5
    row = AuditRow.objects.filter(action="restore_trash", phase="result").get()
    assert (row.actor, row.topic, row.reason, row.counts) == (
        "ada",
        "orders",
        "wrong channel",
        {"depth": 5, "channels": 1},
    )
    assert "expired, or given up because the disk was full" in client.get(undo[1]).content.decode()


def test_a_channel_that_a_client_makes_anew_at_once_is_joined(client: Client, engine: EngineRunner) -> None:
    undo = post(client, "/topics/orders/billing/~delete/", typed_name="orders/billing")["undo"]
    with NsqSocket(engine.tcp_address[1]) as consumer:
        consumer.send(b"SUB orders billing\n")
        consumer.expect_ok()
        consumer.send(b"RDY 10\n")
        engine.submit("publish", "orders", [b"new"]).result(30)
        assert consumer.read_message().body == b"new"
        assert post(client, undo)["message"] == "Restored orders/billing from the trash: 5 messages came back."
        assert {consumer.read_message().body for _ in range(5)} == {b"m%d" % number for number in range(5)}


@pytest.mark.parametrize(("swap", "left"), [("false", {"orders": 1, "orders.restored": 5}), ("true", {"orders": 5})])
def test_a_topic_whose_name_lives_again_is_asked_about(
    client: Client, engine: EngineRunner, swap: str, left: dict[str, int]
) -> None:
    undo = post(client, "/topics/orders/~delete/", typed_name="orders")["undo"]
    engine.submit("acts.create_topic", "orders").result(30)
    engine.submit("publish", "orders", [b"new"]).result(30)
    question = client.get(undo).content.decode()
    assert "Restore it beside that one, as orders.restored" in question
    assert post(client, undo, swap=swap)["ok"]
    assert {name: depth(engine, name) for name in left} == left
    assert ("/orders" in client.get("/trash/").content.decode()) == (swap == "true")


def test_the_page_lists_what_there_is_and_who_did_it(client: Client, engine: EngineRunner) -> None:
    assert "The trash is empty" in client.get("/trash/").content.decode()
    post(client, "/topics/orders/billing/~empty/", typed_name="orders/billing")
    page = client.get("/trash/").content.decode()
    for text in ("orders/<wbr>billing", "Emptied", "ada", "5 messages", "Restore…", "Delete…"):
        assert text in page, text
    viewer = client_of(make_user("vera", role=Role.VIEWER))
    assert "; yours is viewer." in viewer.get("/trash/").content.decode(), "a title is not touched"
    delete = re.search(r'href="([^"]+~delete/)"', page)
    assert delete is not None
    answer = post(client, delete[1])
    assert answer["message"] == "Deleted what the trash had of orders/billing for good: 5 messages."
    assert "The trash is empty" in client.get("/trash/").content.decode()
    assert viewer.get("/trash/").status_code == 200


def test_the_engine_counts_again(client: Client, engine: EngineRunner) -> None:
    page = client.get("/topics/orders/billing/~empty/").content.decode()
    assert '<input type="hidden" name="expected" value="5">' in page
    engine.submit("publish", "orders", [b"x"] * 1_100).result(30)
    answer = post(client, "/topics/orders/billing/~empty/", typed_name="orders/billing", expected="5")
    assert (answer["status"], answer["code"]) == (409, "COUNTS_CHANGED")
    assert "1,105 messages now, and 5 were expected" in answer["message"]
    assert depth(engine) == 1_105
    assert post(client, "/topics/orders/billing/~empty/", typed_name="orders/billing", expected="1105")["ok"]


def test_what_can_t_be_restored_offers_no_undo(client: Client, engine: EngineRunner) -> None:
    engine.submit("acts.create_topic", "old", storage="diskqueue").result(30)
    engine.submit("acts.create_channel", "old", "billing").result(30)
    engine.submit("publish", "old", [b"x"]).result(30)
    assert post(client, "/topics/old/billing/~empty/", typed_name="old/billing")["undo"] == ""
