"""Five hundred nodes: each form that lists nodes is sent and answered; beyond the limits a sentence has the reason."""

import re
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client

from admin_console.audit.models import AuditRow, Phase, Verdict
from admin_console.cluster.calls.options import ADDRESSES_MAX, Pace
from admin_console.cluster.cluster import Cluster, get_cluster
from admin_console.cluster.merging.merger import Merger
from admin_console.cluster.reading.nodes import Node
from admin_console.gateway.fan_out import NodeResult, by_node, summary
from admin_console.gateway.gateway import DONE, FAILED, NO_AUTHOR, ActOrder, ActResult, get_gateway
from admin_console.hub.hub import get_hub
from admin_console.views import bulk_acts
from admin_console.vocabulary import form_limits, units
from queue_engine.service.runner import EngineRunner
from tests.support import cluster_states
from tests.support.fake_node import FakeNode
from tests.support.fake_nsqd import FakeNsqd, channel, topic
from tests.support.many_nodes import listening
from tests.support.pages.cluster_console import cluster_console
from tests.support.pages.console import client_of, console_engine, make_user, words
from tests.support.pages.forms import pressed, sent
from tests.support.waiting import wait_for

pytestmark = pytest.mark.django_db

COUNT = 500
FORM = "application/x-www-form-urlencoded"
DIALOG = {"X-Fragment": "1"}
BILLING = "/topics/orders/billing/"


def field_count(fields: dict[str, list[str]]) -> int:
    return sum(map(len, fields.values()))


def ask(browser: Client, url: str, **fields: Any) -> str:
    """The question as a dialog shows it."""
    answer = browser.post(url, {"ask": "1", **fields}, headers=DIALOG) if fields else browser.get(url, headers=DIALOG)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


def _is_paused(node: Node) -> bool:
    return bool(node.stats and node.stats.topics["orders"].channels["billing"].figures["paused"])


def see(engine: EngineRunner, monkeypatch: pytest.MonkeyPatch, count: int, *topics: dict[str, Any]) -> None:
    """Have pages show so many nodes, without any call."""
    taken = engine.calls.stats(include_clients=False).result(10)
    nodes = [
        cluster_states.node(f"nsq-{number:04}.example:4151", *topics, read_at_ms=units.now_ms())
        for number in range(count)
    ]
    state = cluster_states.state(nodes)
    monkeypatch.setattr(Cluster, "state", state)
    get_hub().write(Merger(lambda: get_gateway().node().name).tick(taken, state, taken.taken_at_ns))


def test_acts_go_to_five_hundred_nodes_and_the_rest_and_the_undo_to_those_that_are_left(tmp_path: Path) -> None:
    nodes = [
        FakeNsqd.of(topic("orders", channel("billing", depth=number), channel("audit"))) for number in range(COUNT)
    ]
    with FakeNode() as lookupd, listening(nodes, lookupd):
        lookupd.answers |= dict.fromkeys(("/topic/create", "/channel/create"), b"")
        with cluster_console(
            tmp_path, lookupds=[lookupd], pace=Pace(period_s=5), timeout_s=30, connect_timeout_s=30
        ) as console:
            console.see_topic("orders", COUNT)
            browser = client_of(make_user())

            # A node that refuses is tried again, and nothing else with it.
            nodes[7].answers["/channel/pause"] = (403, {}, b'{"message":"NOT_ALLOWED"}')
            html = browser.post(f"{BILLING}~pause/", sent(ask(browser, f"{BILLING}~pause/")), headers=DIALOG).content
            assert "done on 499 of 500 nodes" in words(html.decode())
            assert words(html.decode()).index("NOT_ALLOWED") < 300
            row = AuditRow.objects.filter(phase=Phase.RESULT).first()
            assert row is not None
            assert (row.verdict, row.detail) == (
                Verdict.FAILED,
                f"499 of 500 nodes done; {nodes[7].address} NOT_ALLOWED",
            )
            del nodes[7].answers["/channel/pause"]
            url, fields = pressed(html.decode(), "Try the rest again")
            question = ask(browser, url, **fields)
            assert [one for one in sent(question)["node"] if one] == [nodes[7].address]
            browser.post(url, sent(question), headers=DIALOG)
            assert all(one.channel("orders", "billing")["paused"] for one in nodes)
            assert all(len(one.acts) == 1 for one in nodes if one is not nodes[7])

            # The undo of all.
            url, fields = pressed(html.decode(), "Undo")
            console.see("the pauses", lambda state: all(map(_is_paused, state.nodes)))
            question = ask(browser, url, **fields)
            assert len(sent(question)["node"]) == COUNT  # 499, and the mark of a form
            assert not browser.post(url.partition("?")[0], sent(question), headers=DIALOG).content.count(b"failed")
            assert [one.channel("orders", "billing")["paused"] for one in nodes].count(True) == 1

            # The count of each node goes along: one has more by the answer.
            question = ask(browser, f"{BILLING}~empty/")
            fields = {**sent(question), "typed_name": ["orders/billing"]}
            assert field_count(fields) < COUNT + 20
            nodes[9].channel("orders", "billing")["depth"] = 10_000
            text = words(browser.post(f"{BILLING}~empty/", fields, headers=DIALOG).content.decode())
            assert "done on 499 of 500 nodes" in text
            assert [one.channel("orders", "billing")["depth"] for one in nodes].count(0) == 499

            # Ticked ones, and a selection of channels at ticked nodes.
            ticked = [one.address for one in nodes[:400]]
            question = ask(browser, f"{BILLING}~pause/", node=ticked)
            assert "on 400 nodes" in words(question)
            browser.post(f"{BILLING}~pause/", sent(question), headers=DIALOG)
            assert [one.channel("orders", "billing")["paused"] for one in nodes].count(True) == 400
            url = "/topics/~selected/pause-channel/"
            question = ask(browser, url, on="orders/billing\norders/audit", node=ticked)
            assert len(words(question)) < 2_000
            assert "Paused 2 channels" in words(browser.post(url, sent(question), headers=DIALOG).content.decode())

            # A new topic, by both forms.
            question = ask(browser, "/lookup/~create/")
            names = re.findall(r'<input type="checkbox" name="node"\s+value="([^"]*)"', question)
            assert len(names) == COUNT + 1
            made = {**sent(question), "topic": ["made"], "node": [one.address for one in nodes]}
            browser.post("/lookup/~create/", made, headers=DIALOG)
            assert all("made" in one.topics for one in nodes)
            made = {**sent(ask(browser, "/topics/~create/")), "topic": ["too"], "node": [one.address for one in nodes]}
            text = words(browser.post("/topics/~create/", made, headers=DIALOG).content.decode())
            assert "done on 500 nodes" in text
            assert all("too" in one.topics for one in nodes)


def test_questions_name_some_nodes_and_count_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with console_engine(tmp_path) as engine:
        see(engine, monkeypatch, COUNT, topic("orders", channel("billing", depth=1)))
        browser = client_of(make_user())
        text = words(ask(browser, f"{BILLING}~pause/"))
        assert "nsq-0004.example:4151 and 495 more can't end a pause" in text
        assert text.index("It holds 500 messages now.") < text.index("nsq-0005.example:4151")
        for act in ("empty", "delete"):
            fields = sent(ask(browser, f"/topics/orders/~{act}/"))
            assert field_count(fields) < COUNT + 20
            assert fields["expected_by_node"][0].splitlines()[:1] == [
                f"nsq-0000.example:4151 {'0' if act == 'empty' else '1'}"
            ]


def test_a_question_about_more_nodes_than_a_form_names_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with console_engine(tmp_path) as engine:
        see(engine, monkeypatch, form_limits.NODES_MAX + 1, topic("orders", channel("billing", depth=1)))
        browser = client_of(make_user())
        question = ask(browser, f"{BILLING}~empty/")
        assert "2,001 nodes are concerned, and a form names 2,000 at most." in words(question)
        assert "Tick up to 2,000 rows of the table of nodes on the page" in words(question)
        assert "<button" not in question
        ticked = [f"nsq-{number:04}.example:4151" for number in range(form_limits.NODES_MAX)]
        fields = sent(ask(browser, f"{BILLING}~empty/", node=ticked))
        # A complaint has the form back as it was, with no node lost.
        answer = browser.post(f"{BILLING}~empty/", {**fields, "typed_name": ["wrong"]}, headers=DIALOG)
        assert answer.status_code == 400
        assert "is not orders/billing. Nothing was done." in words(answer.content.decode())
        assert sent(answer.content.decode())["node"][1:] == ticked
        for url in ("/topics/~create/", "/lookup/~create/"):
            assert "A form lists 2,000 nodes at most: 2 further ones are left out." in words(ask(browser, url))


def test_a_form_with_more_fields_than_the_console_reads_gets_a_sentence(tmp_path: Path) -> None:
    sentence = "The form has 2,301 fields, and the console reads 2,300 at most. Nothing was done."
    fields = urlencode({"node": ["a"] * (form_limits.FIELDS_MAX + 1)}, doseq=True)
    with console_engine(tmp_path):
        browser = client_of(make_user())
        for headers in (DIALOG, {}, {"Accept": "application/json"}):
            answer = browser.post(f"{BILLING}~pause/", fields, FORM, headers=headers)
            assert (answer.status_code, sentence in answer.content.decode()) == (400, True)
        assert sentence in browser.get(f"/topics/?{fields}").content.decode()
        parts = browser.post(f"{BILLING}~pause/", {"node": ["a"] * (form_limits.FIELDS_MAX + 1)}, headers=DIALOG)
        assert parts.content.startswith(b"The form has too many fields, and the console reads 2,300 at most.")
        large = browser.post(f"{BILLING}~pause/", {"reason": "x" * form_limits.BYTES_MAX}, headers=DIALOG)
        assert large.status_code == 413
        assert "bytes, and the console reads 8,388,608 at most. Nothing was done." in large.content.decode()


def test_a_selection_whose_names_are_too_much_for_a_form_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_acts, "SELECTED_BYTES_MAX", 1_000)
    with console_engine(tmp_path) as engine:
        see(engine, monkeypatch, COUNT, topic("orders", channel("billing")))
        browser = client_of(make_user())
        answer = browser.get("/topics/~selected/pause-topic/?on=orders", headers=DIALOG)
        assert answer.status_code == 400
        assert "of names, and a form takes 1000 B at most. Select fewer. Nothing was done." in answer.content.decode()


def test_the_addresses_page_takes_as_many_as_there_may_be(tmp_path: Path) -> None:
    texts = [f"https://127.0.0.2:{20_000 + number}" for number in range(ADDRESSES_MAX)]
    with console_engine(tmp_path):
        browser = client_of(make_user())
        too_many = browser.post("/nodes/~addresses/", {"lookupds": "", "nsqds": "\n".join([*texts, "b:1"])})
        assert too_many.status_code == 400
        page = unescape(too_many.content.decode())
        assert "1,001 addresses: the most is 1,000. Nothing was changed." in page
        assert "\n".join([*texts, "b:1"]) in page, "the typed addresses are still there"
        done = browser.post("/nodes/~addresses/", {"lookupds": "", "nsqds": "\n".join(texts)}, headers=DIALOG)
        assert done.status_code == 204, done.content
        cluster = get_cluster()
        assert cluster is not None
        wait_for("the addresses", lambda: cluster.state.addresses.has_any)
        assert [str(one) for one in cluster.addresses.nsqds] == texts
        assert "\n".join(texts) in browser.get("/nodes/~addresses/").content.decode()


def test_the_audit_list_and_the_sentence_have_the_nodes_that_did_not_do_it() -> None:
    failed = ActResult(FAILED, "Refused.", "NOT_ALLOWED")
    results = [NodeResult(f"nsq-{number:03}.example:4151", ActResult(DONE, "Done.")) for number in range(COUNT)]
    assert by_node(results) == "500 of 500 nodes done"
    results[250:350] = [NodeResult(one.node, failed) for one in results[250:350]]
    text = by_node(results)
    assert len(text) <= 2_550
    assert text.startswith("400 of 500 nodes done; nsq-250.example:4151 NOT_ALLOWED; nsq-251")
    assert re.search(r"; and [0-9]+ more$", text)
    message = summary(ActOrder("pause_topic", "orders", "", NO_AUTHOR, {}), results).message
    assert message.endswith("nsq-254.example:4151: Refused. 95 further nodes did not do it, either.")
