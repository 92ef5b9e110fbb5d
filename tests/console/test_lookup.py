"""The page Lookup: registrations, what nsqlookupds know, and what it says while there is none."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client

from admin_console.audit.models import AuditRow
from admin_console.gateway import lookups
from admin_console.gateway.lookups import LookupReports
from admin_console.vocabulary.roles import Role
from queue_engine.service.runner import EngineRunner
from tests.support.pages.console import client_of, console_engine, make_user
from tests.support.processes.running_lookup import RunningLookup
from tests.support.waiting import wait_for

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def asks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "FRESH_S", 0.01)


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
    assert f"Topics at {lookup.http_address} 1 server, 2 topics" in text
    assert f"orders {node} Tombstone… billing" in text
    assert "returns none –" in text
    lookup.post(f"/topic/tombstone?topic=orders&node={node}")
    wait_for("the tombstone", lambda: f"{node} (tombstoned)" in text_of(client))


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
                (topic,) = lookups.read_report(lookup.http_address).topics
                return [(one.node, one.is_inactive) for one in topic.producers]

            wait_for("its silence", lambda: producers() == [(f"127.0.0.1:{runner.http_address[1]}", True)])


def test_an_nsqlookupd_that_does_not_answer_keeps_its_last_report_and_says_why() -> None:
    reports = LookupReports()
    with RunningLookup() as lookup:
        lookup.post("/topic/create?topic=orders")
        address = lookup.http_address
        first = wait_for("a report", lambda: reports.of([address])[0])
        assert [one.topic for one in first.topics] == ["orders"]
    later = wait_for("its failure", lambda: (found := reports.of([address])[0]) and found.error and found)
    assert [one.topic for one in later.topics] == ["orders"]
    assert reports.of([]) == []


def test_an_answer_of_another_form_is_an_error_and_the_next_one_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(([], {"topics": []}, {"producers": []}, {}))
    monkeypatch.setattr(lookups, "_get", lambda *_: next(answers))
    reports = LookupReports()
    wait_for("its failure", lambda: (found := reports.of(["x:1"])[0]) and found.error)
    wait_for("a report", lambda: (found := reports.of(["x:1"])[0]) and not found.error)


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
    assert f"{node} (tombstoned)" in text_of(client)
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


def test_an_nsqlookupd_that_does_not_take_a_tombstone_is_named() -> None:
    with RunningLookup() as lookup:
        address = lookup.http_address
        result = lookups.tombstone([address, "127.0.0.1:1"], "orders", "h:1")
        assert result.verdict == "failed"
        assert result.message == (
            "Tombstoned h:1 as a producer of orders at 1 nsqlookupd. Without an answer: 127.0.0.1:1: [Errno 111] "
            "Connection refused."
        )
    result = lookups.tombstone(["127.0.0.1:1"], "orders", "h:1")
    assert result.message.startswith("h:1 was not tombstoned as a producer of orders. Without an answer: ")
