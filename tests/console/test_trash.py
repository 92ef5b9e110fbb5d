"""Undo after emptying and deleting, and the trash as a page."""

import re
from html import unescape
from typing import Any

import pytest
from django.test import Client

from admin_console.audit.models import AuditRow
from admin_console.vocabulary.roles import Role
from queue_engine.service.runner import EngineRunner
from tests.support.nsq_socket import NsqSocket
from tests.support.pages.console import client_of, make_user

pytestmark = pytest.mark.django_db

JSON = {"Accept": "application/json"}


def post(client: Client, path: str, /, **form: Any) -> dict[str, Any]:
    answer = client.post(path, form, headers=JSON)
    return {**answer.json(), "status": answer.status_code}


def depth(engine: EngineRunner, topic: str = "orders") -> int:
    (found,) = engine.calls.stats(topic=topic).result(30).topics
    return found.depth + sum(channel.depth for channel in found.channels)


def test_emptying_an_empty_channel_offers_no_undo(client: Client, engine: EngineRunner) -> None:
    for has_undo in (True, False):
        answer = client.post("/topics/orders/billing/~empty/", {"typed_name": "orders/billing"}, follow=True)
        assert (">Undo</a>" in answer.content.decode()) == has_undo
    assert "Emptied orders/billing: removed no messages." in answer.content.decode()


def test_an_emptied_channel_comes_back_by_the_link_beside_the_sentence(client: Client, engine: EngineRunner) -> None:
    answer = client.post("/topics/orders/billing/~empty/", {"typed_name": "orders/billing"}, follow=True)
    page = answer.content.decode()
    assert "Emptied orders/billing: removed 5 messages." in page
    undo = re.search(r'<a href="([^"]+)" data-dialog>Undo</a>', page)
    assert undo is not None
    assert depth(engine) == 0
    undo_url = unescape(undo[1])
    question = client.get(undo_url).content.decode()
    assert "Restore orders/billing</button>" in question
    assert "5 messages will come back" in question
    next_url = re.search(r'name="next" value="([^"]+)"', question)
    assert next_url is not None
    form = {"reason": "wrong channel", "next": next_url[1]}
    answer = client.post(undo_url, form, follow=True)
    assert "Restored orders/billing from the trash: 5 messages came back." in answer.content.decode()
    assert answer.redirect_chain == [("/topics/orders/billing/", 302)], "back to the page that offered it"
    assert "The trash is empty" in client.get("/trash/").content.decode()
    assert depth(engine) == 5
    row = AuditRow.objects.filter(action="restore_trash", phase="result").get()
    assert (row.actor, row.topic, row.reason, row.counts) == (
        "ada",
        "orders",
        "wrong channel",
        {"depth": 5, "channels": 1},
    )
    assert "expired, or given up because the disk was full" in client.get(undo_url).content.decode()


def test_a_channel_that_a_client_makes_anew_at_once_is_joined(client: Client, engine: EngineRunner) -> None:
    undo = post(client, "/topics/orders/billing/~delete/", typed_name="orders/billing")["undo"]
    with NsqSocket(engine.tcp_address[1]) as consumer:
        consumer.send(b"SUB orders billing\n")
        consumer.expect_ok()
        consumer.send(b"RDY 10\n")
        engine.calls.publish("orders", [b"new"]).result(30)
        assert consumer.read_message().body == b"new"
        assert post(client, undo)["message"] == "Restored orders/billing from the trash: 5 messages came back."
        assert {consumer.read_message().body for _ in range(5)} == {b"m%d" % number for number in range(5)}


@pytest.mark.parametrize(("swap", "left"), [("false", {"orders": 1, "orders.restored": 5}), ("true", {"orders": 5})])
def test_a_topic_whose_name_lives_again_is_asked_about(
    client: Client, engine: EngineRunner, swap: str, left: dict[str, int]
) -> None:
    undo = post(client, "/topics/orders/~delete/", typed_name="orders")["undo"]
    engine.calls.create_topic("orders").result(30)
    engine.calls.publish("orders", [b"new"]).result(30)
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
    delete = re.search(r'href="([^"]+~delete/)[?]next=%2Ftrash%2F"', page)
    assert delete is not None
    answer = post(client, delete[1])
    assert answer["message"] == "Deleted the trash entry of orders/billing for good: 5 messages."
    assert "The trash is empty" in client.get("/trash/").content.decode()
    assert viewer.get("/trash/").status_code == 200


def names_on(page: str) -> list[str]:
    return [name.replace("<wbr>", "") for name in re.findall(r'data-label="Name">([^\n]+)</td>', page)]


def linked(page: str, label: str) -> str:
    (url,) = re.findall(rf'href="([^"]+)"[^>]*>{label}</a>', page) or [""]
    return unescape(url)


def test_a_long_trash_is_read_in_pages(client: Client, engine: EngineRunner) -> None:
    names = [f"orders/c{number:03}" for number in range(120)]
    for name in names:
        engine.calls.create_channel("orders", name.partition("/")[2]).result(30)
        engine.calls.delete_channel("orders", name.partition("/")[2]).result(30)
    first = client.get("/trash/").content.decode()
    assert names_on(first) == names[:69:-1]
    assert "120 entries" in first
    assert not linked(first, "Newest")
    second = client.get(linked(first, "Older")).content.decode()
    assert names_on(second) == names[69:19:-1]
    assert linked(second, "Newest") == "/trash/"
    last_url = linked(second, "Older")
    last = client.get(last_url).content.decode()
    assert names_on(last) == names[19::-1]
    assert not linked(last, "Older")
    assert "20 entries of 120" in last
    # An act leads back to its page, which begins where it began: an entry above it that is gone moves nothing.
    restore = unescape(re.findall(r'href="([^"]+)" data-dialog>Restore…', second)[-1])
    question = client.get(restore).content.decode()
    next_url = re.search(r'name="next" value="([^"]+)"', question)
    assert next_url is not None
    answer = client.post(restore, {"next": unescape(next_url[1])}, follow=True)
    assert answer.redirect_chain == [(linked(first, "Older"), 302)]
    page = answer.content.decode()
    assert "Restored orders/c020 from the trash" in page
    assert names_on(page) == names[69:20:-1] + names[19:18:-1]
    assert names_on(client.get(last_url).content.decode()) == names[19::-1]
    # What was there may all be gone meanwhile.
    gone = client.get("/trash/?before=1-1").content.decode()
    assert "No older entries" in gone
    assert linked(gone, "Newest") == "/trash/"
    assert names_on(client.get("/trash/?before=x").content.decode()) == names[:69:-1]


def test_the_engine_counts_again(client: Client, engine: EngineRunner) -> None:
    page = client.get("/topics/orders/billing/~empty/").content.decode()
    assert '<input type="hidden" name="expected" value="5">' in page
    engine.calls.publish("orders", [b"x"] * 1_100).result(30)
    answer = post(client, "/topics/orders/billing/~empty/", typed_name="orders/billing", expected="5")
    assert (answer["status"], answer["code"]) == (409, "COUNTS_CHANGED")
    assert "1,105 messages now, and 5 were expected" in answer["message"]
    assert depth(engine) == 1_105
    assert post(client, "/topics/orders/billing/~empty/", typed_name="orders/billing", expected="1105")["ok"]


def test_what_can_t_be_restored_offers_no_undo(client: Client, engine: EngineRunner) -> None:
    engine.calls.create_topic("old", storage="diskqueue").result(30)
    engine.calls.create_channel("old", "billing").result(30)
    engine.calls.publish("old", [b"x"]).result(30)
    assert post(client, "/topics/old/billing/~empty/", typed_name="old/billing")["undo"] == ""
