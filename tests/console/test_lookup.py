"""The page Lookup: nsqlookupds with their state, what they list, registrations, and the acts there."""

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from admin_console.audit.models import AuditRow
from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.cluster import get_cluster
from admin_console.cluster.lookupds import lookupds
from admin_console.cluster.lookupds.lookupd_answers import LookupdProducer, LookupdReport, LookupdTopic, topics_listed
from admin_console.views.lookup_acts import may_go_on, result_of
from admin_console.vocabulary.roles import Role
from queue_engine.service.runner import EngineRunner
from tests.support.fake_node import FakeNode
from tests.support.pages.console import client_of, console_engine, make_user
from tests.support.processes.running_lookup import RunningLookup
from tests.support.waiting import wait_for

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def asks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookupds, "FRESH_S", 0.01)


@pytest.fixture
def lookup() -> Iterator[RunningLookup]:
    with RunningLookup() as running:
        yield running


@pytest.fixture
def engine(lookup: RunningLookup, tmp_path: Path) -> Iterator[EngineRunner]:
    """Topic orders with the channel billing, registered."""
    given = {"lookupd_tcp_address": (lookup.tcp_address,), "broadcast_address": "127.0.0.1"}
    with console_engine(tmp_path, **given) as runner:
        runner.calls.create_topic("orders").result(30)
        runner.calls.create_channel("orders", "billing").result(30)
        wait_for("its registration", lambda: lookup.channels("orders") == ["billing"])
        wait_for("a snapshot that knows", lambda: knows(runner))
        yield runner


def knows(runner: EngineRunner) -> bool:
    """Whether the newest snapshot has the registration of the channel."""
    return runner.snapshot is not None and [one.channel_count for one in runner.snapshot.lookupds] == [1]


def text_of(client: Client) -> str:
    """The page's words, one space between."""
    answer = client.get("/lookup/")
    assert answer.status_code == 200
    main = answer.content.decode().partition("<main")[2].partition("</main>")[0]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", main)).replace(" ,", ",")


def test_without_an_nsqlookupd_it_says_how_to_name_one(tmp_path: Path) -> None:
    with console_engine(tmp_path) as runner:
        text = text_of(client_of(make_user(role=Role.VIEWER)))
        assert "This server registers with no nsqlookupd" in text
        assert "--lookupd-tcp-address HOST:4160" in text
        assert f"http://127.0.0.1:{runner.http_address[1]}/config/nsqlookupd_tcp_addresses" in text


def test_it_shows_the_registrations_and_what_each_nsqlookupd_knows(engine: EngineRunner, lookup: RunningLookup) -> None:
    client = client_of(make_user(role=Role.VIEWER))
    lookup.post("/channel/create?topic=returns&channel=c")
    wait_for("an answer", lambda: "has not answered yet" not in text_of(client))
    wait_for("a new answer", lambda: "returns" in text_of(client))
    text = text_of(client)
    assert f"{lookup.tcp_address} Registered" in text
    assert re.search("(none yet|[0-9.]+ s ago) 1 1 –", text)
    node = f"127.0.0.1:{engine.http_address[1]}"
    assert re.search(f"{lookup.http_address} – this server registers at {lookup.tcp_address} 1 2 [0-9.]+ m?s", text)
    assert f"orders {node} this server Tombstone… billing" in text
    assert "returns none –" in text
    assert f"returns topic {lookup.http_address} – Unregister… returns/c channel {lookup.http_address}" in text
    lookup.post(f"/topic/tombstone?topic=orders&node={node}")
    wait_for("the tombstone", lambda: f"{node} this server (tombstoned)" in text_of(client))


def test_topics_are_filtered_by_name(engine: EngineRunner, lookup: RunningLookup) -> None:
    client = client_of(make_user(role=Role.VIEWER))
    lookup.post("/topic/create?topic=returns")
    wait_for("both", lambda: "returns" in text_of(client) and "orders" in text_of(client))
    found = client.get("/lookup/?q=ret").content.decode()
    assert "returns" in found
    assert "billing" not in found
    assert "No topic has “nope” in its name" in client.get("/lookup/?q=nope").content.decode()


def test_a_lost_nsqlookupd_is_shown_with_its_error(engine: EngineRunner, lookup: RunningLookup) -> None:
    client = client_of(make_user(role=Role.VIEWER))
    lookup.stop()
    wait_for("its loss", lambda: f"{lookup.tcp_address} Not connected" in text_of(client))
    wait_for("its reason", lambda: re.search("closed the connection|could not be reached", text_of(client)))


def test_a_producer_without_pings_is_inactive(tmp_path: Path) -> None:
    with RunningLookup(inactive_producer_timeout_ms=1) as lookup:
        given = {"lookupd_tcp_address": (lookup.tcp_address,), "broadcast_address": "127.0.0.1"}
        with console_engine(tmp_path, **given) as runner:
            runner.calls.create_topic("orders").result(30)
            wait_for("its registration", lambda: "topic:orders:" in lookup.get("/debug"))

            def producers() -> list[tuple[str, bool]]:
                return [
                    (producer.node, producer.is_silent)
                    for report in reports(lookup.http_address)
                    for topic in topics_listed([report] if report else [])
                    for producer in topic.producers
                ]

            wait_for("its silence", lambda: producers() == [(f"127.0.0.1:{runner.http_address[1]}", True)])
            # Consumers do not find it: the topic counts as one without a producer.
            client = client_of(make_user(role=Role.VIEWER))
            why = f"orders topic {lookup.http_address} 127.0.0.1:{runner.http_address[1]} sent no PING"
            wait_for("its line", lambda: why in text_of(client))


def reports(*addresses: str) -> list[LookupdReport | None]:
    cluster = get_cluster()
    assert cluster is not None
    return cluster.lookupds.reports([HttpAddress.parse(one) for one in addresses])


def test_an_nsqlookupd_that_does_not_answer_keeps_its_last_report_and_says_why(tmp_path: Path) -> None:
    with console_engine(tmp_path), RunningLookup() as lookup:
        lookup.post("/topic/create?topic=orders")
        address = lookup.http_address
        first = wait_for("a report", lambda: reports(address)[0])
        assert [one.topic for one in first.topics] == ["orders"]
        lookup.stop()
        later = wait_for("its failure", lambda: (found := reports(address)[0]) and found.error and found)
        assert [one.topic for one in later.topics] == ["orders"]
        assert later.failing_since_ms >= first.answered_at_ms == later.answered_at_ms > 0
        assert reports() == []


@pytest.mark.parametrize("answer", [[], {"topics": 3}, {"data": None}, {"topics": [None, 3, "x" * 100]}])
def test_an_answer_of_another_form_costs_its_own_part_alone(answer: Any, tmp_path: Path) -> None:
    with console_engine(tmp_path), FakeNode() as fake:
        fake.answer_as_lookupd(fake, topics=("orders",))
        body = json.dumps(answer).encode()
        fake.answers.update({"/topics": body, "/debug": body, "/channels": body})
        report = wait_for("a report", lambda: reports(fake.address)[0])
        assert (report.error, [one.topic for one in report.topics]) == ("", ["orders"])


def test_a_producer_is_tombstoned_after_a_question_and_audited(engine: EngineRunner, lookup: RunningLookup) -> None:
    client = client_of(make_user(role=Role.OPERATOR))
    node = f"127.0.0.1:{engine.http_address[1]}"
    url = f"/lookup/orders/{node}/~tombstone/"
    wait_for("the button", lambda: url in client.get("/lookup/").content.decode())
    asked = client.get(url).content.decode()
    assert f"Tombstone {node} for orders" in asked
    assert re.search(r'"Where you are">\s*<a\s+href="/lookup/">Lookup</a>\s*</nav>', asked)
    assert re.search(r'href="/lookup/"[^>]* aria-current="page"', asked)
    assert "Consumers that look orders up at 1 nsqlookupd" in asked
    assert len(lookup.get("/lookup?topic=orders")["producers"]) == 1
    answer = client.post(url, {"reason": "it is slow"}, follow=True)
    assert f"Tombstoned {node} as a producer of orders at 1 nsqlookupd." in answer.content.decode()
    assert lookup.get("/lookup?topic=orders")["producers"] == []
    assert f"{node} this server (tombstoned)" in text_of(client)
    assert url not in client.get("/lookup/").content.decode()
    # It is not named as a producer any more: nothing is left to be done.
    assert client.post(url).status_code == 404
    rows = AuditRow.objects.filter(action="tombstone_producer").order_by("id")
    assert [(row.phase, row.verdict, row.actor, row.topic, row.detail, row.reason) for row in rows] == [
        ("intent", "", "ada", "orders", node, "it is slow"),
        ("result", "done", "ada", "orders", node, "it is slow"),
    ]


def test_a_viewer_sees_why_not(engine: EngineRunner) -> None:
    client = client_of(make_user(role=Role.VIEWER))
    wait_for("the button", lambda: "Tombstone…" in text_of(client))
    page = client.get("/lookup/").content.decode()
    assert "Needs the role operator; yours is viewer." in page
    assert "~tombstone" not in page


def test_an_nsqlookupd_that_does_not_take_an_act_is_named(tmp_path: Path) -> None:
    def lose() -> bytes:
        raise ConnectionError("the connection ends without an answer")

    with console_engine(tmp_path), RunningLookup() as lookup, FakeNode() as losing:
        losing.answers["/topic/create"] = lose
        cluster = get_cluster()
        assert cluster is not None
        addresses = [HttpAddress.parse(one) for one in (lookup.http_address, "127.0.0.1:1", losing.address)]
        outcomes = cluster.lookupds.act(addresses, "/topic/create", {"topic": "orders"})
        result = result_of("Created orders", "Did not create orders.", outcomes)
        assert result.verdict == "unknown"
        assert result.message == (
            "Created orders at 1 of 3 nsqlookupds. http://127.0.0.1:1/topic/create can't be reached: Connection "
            f"refused. http://{losing.address}/topic/create can't be reached: Server disconnected: it may have been "
            "done there."
        )
        failed = result_of("Created orders", "Did not create orders.", outcomes[1:2])
        assert (failed.verdict, failed.message.partition(". ")[0]) == ("failed", "Did not create orders")


def test_several_nsqlookupds_that_do_not_answer_are_a_plural() -> None:
    assert may_go_on(["a:1"]) == "a:1 does not answer, and may go on to list it."
    assert may_go_on(["a:1", "b:1"]) == "a:1 and b:1 do not answer, and may go on to list it."


def test_a_name_without_a_producer_is_unregistered_after_a_question_and_audited(
    engine: EngineRunner, lookup: RunningLookup
) -> None:
    admin = client_of(make_user(role=Role.ADMIN))
    operator = client_of(make_user("grace", role=Role.OPERATOR))
    for name in ("topic=returns&channel=c", "topic=returns&channel=d", "topic=orders&channel=lost"):
        lookup.post(f"/channel/create?{name}")
    listed = operator.get("/lookup/").content.decode()
    assert "Needs the role admin; yours is operator." in listed
    assert "~unregister" not in listed
    asked = unescape(admin.get("/lookup/returns/~unregister/").content.decode())
    assert f"{lookup.http_address} lists returns no more. No message is lost by it." in asked
    assert "With it 2 channels of it: c and d." in asked
    assert "A node that creates returns later does not make these channels by itself any more" in asked
    answer = admin.post("/lookup/returns/~unregister/", {"reason": "a typo"}, follow=True).content.decode()
    assert "Unregistered returns at 1 nsqlookupd." in answer
    assert lookup.get("/topics")["topics"] == ["orders"]
    # A channel alone: those that a server has stay.
    assert lookup.channels("orders") == ["billing", "lost"]
    admin.post("/lookup/orders/lost/~unregister/")
    assert lookup.channels("orders") == ["billing"]
    rows = AuditRow.objects.filter(action__startswith="unregister", phase="result").order_by("id")
    assert [(row.verdict, row.topic, row.channel, row.detail, row.reason) for row in rows] == [
        ("done", "returns", "", f"at {lookup.http_address}", "a typo"),
        ("done", "orders", "lost", f"at {lookup.http_address}", ""),
    ]
    # What a producer has is not unregistered, whatever a page showed before it came.
    for url in ("/lookup/orders/~unregister/", "/lookup/orders/billing/~unregister/"):
        refused = admin.post(url)
        assert refused.status_code == 404
        assert "has a producer by now" in refused.content.decode()
    assert lookup.channels("orders") == ["billing"]


def test_a_channel_is_created_at_the_nsqlookupds_that_are_ticked(engine: EngineRunner, lookup: RunningLookup) -> None:
    operator = client_of(make_user(role=Role.OPERATOR))
    asked = operator.get("/lookup/~create/").content.decode()
    assert re.search(f'type="checkbox" name="lookupds"\\s+value="{lookup.http_address}" checked', asked)
    form = {"topic": "returns", "channel": "c", "lookupds": [lookup.http_address]}
    answer = operator.post("/lookup/~create/", form, follow=True).content.decode()
    assert "Created returns/c at 1 nsqlookupd." in answer
    assert lookup.channels("returns") == ["c"]
    for bad, sentence in (
        ({**form, "lookupds": []}, "No nsqlookupd and no node is ticked."),
        ({**form, "channel": "a b"}, "is not a channel name"),
        ({**form, "topic": ""}, "is not a topic name"),
    ):
        refused = operator.post("/lookup/~create/", bad)
        assert refused.status_code == 400
        assert sentence in refused.content.decode()


def test_without_an_nsqlookupd_nothing_can_be_created(tmp_path: Path) -> None:
    with console_engine(tmp_path):
        asked = client_of(make_user(role=Role.ADMIN)).get("/lookup/~create/").content.decode()
        assert "There is no nsqlookupd and no other node: name some under Nodes, Addresses." in asked


def test_what_several_nsqlookupds_list_is_one_topic_with_what_differs() -> None:
    a, b = HttpAddress("a", 4161), HttpAddress("b", 4161)
    hidden, silent = LookupdProducer("n:1", is_tombstoned=True), LookupdProducer("n:1", is_inactive=True)
    (orders, returns) = topics_listed(
        [
            LookupdReport(
                a,
                (
                    LookupdTopic("orders", ("billing",), (LookupdProducer("n:1"),), ("mail",)),
                    LookupdTopic("returns", (), (silent,), ("c",)),
                ),
            ),
            LookupdReport(b, (LookupdTopic("orders", ("mail",), (hidden,), ("old",)),)),
        ]
    )
    (producer,) = orders.producers
    assert (producer.visible_at, producer.tombstoned_at, producer.is_silent) == ((a,), (b,), False)
    # A channel that a producer has at one of them is none without a producer.
    assert (orders.at, orders.channels, dict(orders.lonely)) == ((a, b), ("billing", "mail"), {"old": (b,)})
    assert (orders.is_lonely, returns.is_lonely, dict(returns.lonely)) == (False, True, {"c": (a,)})
