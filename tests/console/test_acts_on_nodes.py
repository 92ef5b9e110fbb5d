"""Acts on what several nodes have: which of them, the question by node, a row for each, one row in the audit list."""

import re
import threading
from collections.abc import Mapping
from html import escape, unescape
from pathlib import Path

import pytest

from admin_console.audit.models import AuditRow, Phase, Verdict
from admin_console.cluster.cluster import Cluster, get_cluster, set_cluster
from admin_console.cluster.reading.nodes import ClusterState
from admin_console.gateway.gateway import ActOrder, ActResult
from admin_console.views import bulk_acts, on_nodes
from admin_console.views.on_nodes import OnNodes
from admin_console.vocabulary.roles import Role
from queue_engine.service.http.api import reference
from tests.support.fake_node import FakeNode
from tests.support.fake_nsqd import FakeNsqd, channel, topic
from tests.support.pages.cluster_console import ClusterConsole, cluster_console
from tests.support.pages.console import client_of, make_user, words
from tests.support.pages.forms import pressed

pytestmark = pytest.mark.django_db

JSON = {"Accept": "application/json"}
DIALOG = {"X-Fragment": "1"}
PAUSE = "/topics/orders/billing/~pause/"
EMPTY = "/topics/orders/billing/~empty/"


def nsqd(depth: int, **figures: object) -> FakeNsqd:
    return FakeNsqd.of(topic("orders", channel("billing", depth=depth, **figures)))


def own_orders(console: ClusterConsole, count: int) -> None:
    """Have this server have orders/billing, too, with so many messages."""
    calls = console.engine.calls
    calls.create_topic("orders").result(30)
    calls.create_channel("orders", "billing").result(30)
    calls.publish("orders", [b"m"] * count).result(30)


def fields_of(html: str) -> dict[str, list[str]]:
    """The hidden fields of a form, and those that are ticked."""
    found: dict[str, list[str]] = {}
    hidden = re.findall(r'<input\s+type="hidden" name="([^"]+)"\s+value="([^"]*)"', html)
    for name, value in [*hidden, *re.findall(r'<input\s+type="checkbox" name="([^"]+)" value="([^"]*)" checked', html)]:
        found.setdefault(name, []).append(unescape(value))
    return found


def nodes_in(html: str) -> list[str]:
    """Those that a question ticks; "" of forms without any is left out."""
    return [name for name in fields_of(html).get("node", []) if name]


def depths_of(state: ClusterState) -> list[int]:
    """Of orders/billing at the other nodes."""
    return [node.stats.topics["orders"].channels["billing"].figures["depth"] for node in state.nodes if node.stats]


def messages_of(state: ClusterState) -> list[int]:
    return [node.stats.topics["orders"].figures["message_count"] for node in state.nodes if node.stats]


def last_row() -> AuditRow:
    row = AuditRow.objects.filter(phase=Phase.RESULT).first()
    assert row is not None
    return row


def test_an_act_goes_to_all_nodes_that_have_it_with_a_row_for_each(tmp_path: Path) -> None:
    with nsqd(3) as a, nsqd(4) as b, FakeNsqd() as other, cluster_console(tmp_path, a, b, other) as console:
        own_orders(console, 5)
        console.see_topic("orders", 2)
        browser = client_of(make_user())
        question = browser.get(PAUSE, headers=DIALOG).content.decode()
        text = words(question)
        assert "Pause orders/billing on 3 nodes" in text
        assert "It holds 12 messages now." in text
        nsqds = " and ".join(sorted([a.address, b.address]))
        assert (
            f"{nsqds} can't end a pause: at its end this console resumes the channel; if it does not run then" in text
        )
        for name, held in ((a.address, "3 messages"), (b.address, "4 messages"), (console.own, "5 messages")):
            assert re.search(rf"{name} : {held}, 0 consumers", text), (name, text)
        assert nodes_in(question) == sorted([a.address, b.address, console.own])
        answer = browser.post(PAUSE, {**fields_of(question), "reason": "deploy"}, headers=DIALOG)
        assert answer.content.startswith(b"<form")  # by which a dialog knows its content
        text = words(answer.content.decode())
        assert "Pause channel orders/billing: done on 3 nodes" in text
        for name, depth in ((a.address, 3), (b.address, 4), (console.own, 5)):
            assert re.search(rf"✓ {name} : Paused orders/billing: .* It holds {depth} messages now\.", text)
        assert a.channel("orders", "billing")["paused"]
        assert b.channel("orders", "billing")["paused"]
        (own,) = console.engine.calls.stats(topic="orders").result(10).topics
        assert (own.channels[0].paused, own.channels[0].pause.reason) == (True, "deploy")
        assert other.acts == []
        emptying = words(browser.get("/topics/orders/billing/~empty/", headers=DIALOG).content.decode())
        assert "What can be undone differs by node." in emptying, "this server has a trash"
        row = last_row()
        assert (row.action, row.verdict, row.reason) == ("pause_channel", Verdict.DONE, "deploy")
        assert row.message == "Pause channel orders/billing: done on 3 nodes."
        assert sorted(row.detail.split("; ")) == sorted(f"{one} done" for one in (a.address, b.address, console.own))
        assert AuditRow.objects.count() == 2  # the intent and the result


def test_an_act_that_a_fault_of_ours_ends_has_its_outcome_in_the_audit_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nsqd(3) as a, cluster_console(tmp_path, a) as console:
        console.see_topic("orders", 1)

        def fails(*_: object) -> ActResult:
            raise RuntimeError("a fault of ours")

        monkeypatch.setattr(OnNodes, "do", fails)
        answer = client_of(make_user()).post(PAUSE, {"node": [a.address]}, headers=JSON)
        assert (answer.status_code, answer.json()["code"]) == (500, "INTERNAL_ERROR")
        assert "may have been done" in answer.json()["message"]
        row = last_row()
        assert (row.action, row.verdict) == ("pause_channel", Verdict.UNKNOWN)


def test_ticked_nodes_alone_do_it(tmp_path: Path) -> None:
    with nsqd(3) as a, nsqd(4) as b, cluster_console(tmp_path, a, b) as console:
        console.see_topic("orders", 2)
        browser = client_of(make_user())
        url = f"/topics/orders/billing/~empty/?node={b.address}"
        question = browser.get(url, headers=DIALOG).content.decode()
        assert f"Empty orders/billing on {b.address}" in words(question)
        assert "4 messages will be removed." in words(question)
        assert "this can't be undone: it is an nsqd and has no trash" in words(question)
        both = words(browser.get(f"{url}&node={a.address}", headers=DIALOG).content.decode())
        assert "This can't be undone on 2 nodes. A node that you untick is left as it is." in both
        fields = fields_of(question)
        assert (nodes_in(question), fields["expected_by_node"]) == ([b.address], [f"{b.address} 4"])
        typed = {**fields, "typed_name": "orders/billing"}
        answer = browser.post("/topics/orders/billing/~empty/", typed, headers=JSON).json()
        assert (answer["ok"], answer["message"]) == (True, f"{b.address}: Emptied orders/billing: removed 4 messages.")
        assert [one["node"] for one in answer["nodes"]] == [b.address]
        assert (a.channel("orders", "billing")["depth"], b.channel("orders", "billing")["depth"]) == (3, 0)


def test_a_node_that_refuses_and_one_that_is_gone_have_a_row_and_the_rest_is_tried_again(tmp_path: Path) -> None:
    with nsqd(3) as a, nsqd(4) as b, cluster_console(tmp_path, a, b) as console:
        console.see_topic("orders", 2)
        b.answers["/channel/pause"] = (403, {}, b'{"message":"NOT_ALLOWED"}')
        browser = client_of(make_user())
        html = browser.post(PAUSE, {"node": [a.address, b.address]}, headers=DIALOG).content.decode()
        assert "done on 1 of 2 nodes" in words(html)
        assert f"✕ {b.address} : Nothing was done to orders/billing: {b.address} refused it: NOT_ALLOWED." in words(
            html
        )
        url, again = pressed(html, "Try the rest again")
        row = last_row()
        assert row.verdict == Verdict.FAILED
        assert sorted(row.detail.split("; ")) == sorted([f"{a.address} done", f"{b.address} NOT_ALLOWED"])
        del b.answers["/channel/pause"]
        question = browser.post(url, again, headers=DIALOG).content.decode()
        assert nodes_in(question) == [b.address]
        browser.post(PAUSE, fields_of(question), headers=DIALOG)
        assert b.channel("orders", "billing")["paused"]
        assert [one.path for one in a.acts] == ["/channel/pause"]


def test_a_form_with_no_node_ticked_does_nothing(tmp_path: Path) -> None:
    with nsqd(3) as a, nsqd(4) as b, cluster_console(tmp_path, a, b) as console:
        console.see_topic("orders", 2)
        answer = client_of(make_user()).post(PAUSE, {"node": [""]}, headers=JSON).json()
        assert (answer["ok"], answer["message"]) == (False, "No node is ticked. Nothing was done.")
        assert (a.acts, b.acts) == ([], [])


def test_a_form_with_no_node_ticked_comes_back_as_it_was_filled_in(tmp_path: Path) -> None:
    empty, typed = "/topics/orders/billing/~empty/", {"typed_name": "orders/billing", "reason": "deploy"}
    with nsqd(3) as a, nsqd(4) as b, cluster_console(tmp_path, a, b) as console:
        console.see_topic("orders", 2)
        browser = client_of(make_user())
        for headers in (DIALOG, {}):
            answer = browser.post(empty, {"node": [""], **typed}, headers=headers)
            html = " ".join(answer.content.decode().split())
            assert answer.status_code == 400
            assert "No node is ticked. Nothing was done." in words(html)
            assert "Empty orders/billing on the ticked nodes" in words(html)
            assert nodes_in(html) == []
            assert all(f'name="node" value="{one.address}">' in html for one in (a, b))
            assert all(f'name="{name}" value="{value}"' in html for name, value in typed.items())
        html = browser.post(PAUSE, {"node": ["", ""], "for": "1h"}, headers=DIALOG).content.decode()
        assert re.search(r'<option\s+value="1h" selected', html)
        # After another complaint the form still has the nodes that are not ticked.
        html = browser.post(empty, {"node": ["", b.address], "typed_name": "x"}, headers=DIALOG).content.decode()
        assert "'x' is not orders/billing. Nothing was done." in words(html).replace("&#x27;", "'")
        assert nodes_in(html) == [b.address]
        assert f'name="node" value="{a.address}">' in html
        assert (a.acts, b.acts) == ([], [])


def test_the_answer_to_a_question_about_this_server_leaves_a_node_that_comes_later(tmp_path: Path) -> None:
    with FakeNsqd() as a, cluster_console(tmp_path, a) as console:
        own_orders(console, 5)
        console.see()
        browser = client_of(make_user())
        emptying, pausing = (browser.get(path, headers=DIALOG).content.decode() for path in (EMPTY, PAUSE))
        assert "5 messages will be removed." in words(emptying)
        a.topics["orders"] = topic("orders", channel("billing", depth=70))
        console.see_topic("orders", 1)
        # After a complaint the form has the other node, unticked.
        again = browser.post(EMPTY, fields_of(emptying), headers=DIALOG).content.decode()
        assert "Type orders/billing to confirm." in words(again)
        assert (nodes_in(again), f'name="node" value="{a.address}">' in again) == ([console.own], True)
        for path, question in ((PAUSE, pausing), (EMPTY, emptying)):
            answer = browser.post(path, {**fields_of(question), "typed_name": "orders/billing"}, headers=JSON).json()
            assert (answer["ok"], [one["node"] for one in answer["nodes"]]) == (True, [console.own]), answer
            assert last_row().detail == f"{console.own} done"
        assert (a.acts, a.channel("orders", "billing")["depth"]) == ([], 70)
        # A program that names no node means all that have it.
        assert len(browser.post(PAUSE, {}, headers=JSON).json()["nodes"]) == 2


def test_buttons_say_on_how_many_nodes_and_which_node_can_not(tmp_path: Path) -> None:
    with nsqd(3) as a, nsqd(4) as b, cluster_console(tmp_path, a, b) as console:
        own_orders(console, 1)
        console.see_topic("orders", 2)
        html = client_of(make_user()).get("/topics/orders/billing/").content.decode()
        text = words(html)
        assert "Empty on 3 nodes…" in text
        assert "❚❚ Pause on 3 nodes…" in text
        # This server alone can, of three.
        assert "Max attempts on 1 node…" in text
        console.engine.calls.delete_topic("orders").result(30)
        console.see_topic("orders", 2)
        html = client_of(make_user("grace")).get("/topics/orders/billing/").content.decode()
        assert "Empty on 2 nodes…" in words(html)
        first = min(a.address, b.address)
        for label, reason in (("Max attempts…", "has no quarantine"), ("Rewind…", "keeps no past messages")):
            sentence = f"{first} is an nsqd and {reason}. 1 further node can't do this, either."
            assert re.search(rf'aria-disabled="true" title="{re.escape(escape(sentence))}"[^>]*>{label}', html), label
        assert (
            f"{first} is an nsqd and keeps no past messages, can't requeue or release messages by hand, "
            "stops no topic or channel after a fault and has no quarantine. 1 further node can't do this, either."
        ) in words(html)


def test_what_is_paused_on_some_nodes_is_paused_on_the_rest_and_the_question_says_so(tmp_path: Path) -> None:
    with nsqd(3, paused=True) as a, nsqd(4) as b, cluster_console(tmp_path, a, b) as console:
        console.see_topic("orders", 2)
        browser = client_of(make_user())
        html = browser.get("/topics/orders/billing/").content.decode()
        shown = re.findall(r"<(?:a|span)[^>]*data-when=\"[a-z_]*\"(?![^>]* hidden)[^>]*>([^<]*)<", html)
        assert {"❚❚ Pause on 2 nodes…", "▶ Resume on 2 nodes…"} <= {*shown}
        assert "Change end or reason on 2 nodes…" not in shown
        question = browser.get(PAUSE, headers=DIALOG).content.decode()
        text = words(question)
        assert "Pause orders/billing on 2 nodes" in text
        assert f"It is paused on {a.address} already: author and start of that pause stay the same." in text
        assert "consumers will get no further messages until it is resumed." in text
        browser.post(PAUSE, {**fields_of(question), "for": "as it is"}, headers=DIALOG)
        assert b.channel("orders", "billing")["paused"]
        # Of one node that has a pause, it is the end or the reason that changes.
        text = words(browser.get(f"{PAUSE}?node={a.address}", headers=DIALOG).content.decode())
        assert f"Change the pause of orders/billing on {a.address}" in text
        # The answer has the word of the button.
        resumed = browser.post("/topics/orders/billing/~unpause/", {"node": [a.address, b.address]}, headers=DIALOG)
        assert "Resume channel orders/billing: done on 2 nodes" in words(resumed.content.decode())


def test_no_node_can_do_what_nsqds_can_not(tmp_path: Path) -> None:
    with nsqd(3) as a, cluster_console(tmp_path, a) as console:
        console.see_topic("orders", 1)
        browser = client_of(make_user())
        url = "/topics/orders/billing/~max-attempts/"
        reason = f"{a.address} is an nsqd and has no quarantine."
        question = browser.get(url, headers=DIALOG).content.decode()
        assert reason in words(question)
        assert 'type="submit"' not in question
        refused = browser.post(url, {"max_attempts": "3"}, headers=JSON)
        assert (refused.json()["ok"], refused.json()["code"]) == (False, "NOT_SUPPORTED")
        assert reason in refused.json()["message"]
        own_orders(console, 1)
        console.see_topic("orders", 1)
        # This server can: the question says who takes no part.
        question = browser.get(url, headers=DIALOG).content.decode()
        assert f"Set max attempts of orders/billing on {console.own}" in words(question)
        assert reason in words(question)
        assert browser.post(url, {"max_attempts": "3"}, headers=JSON).json()["ok"]


def test_a_topic_that_is_deleted_everywhere_is_deleted_in_order(tmp_path: Path) -> None:
    with nsqd(3) as a, nsqd(4) as b, FakeNode() as lookup:
        lookup.answers |= dict.fromkeys(("/topic/tombstone", "/topic/delete"), b"")
        lookup.answer_as_lookupd(a, b, topics=("orders",))
        with cluster_console(tmp_path, a, b, lookupds=[lookup]) as console:
            own_orders(console, 1)
            console.see_topic("orders", 2)
            browser = client_of(make_user())
            question = browser.get("/topics/orders/~delete/", headers=DIALOG).content.decode()
            assert "8 messages will be removed." in words(question)
            hidden = "The nsqlookupds hide it from consumers meanwhile, and forget it once each node has deleted it."
            assert hidden in words(question)
            typed = {**fields_of(question), "typed_name": "orders"}
            answer = browser.post("/topics/orders/~delete/", typed, headers=JSON).json()
            assert answer["ok"], answer
            assert "orders" not in a.topics | b.topics
            assert console.engine.calls.stats(topic="orders").result(10).topics == ()
            assert [one.path for one in lookup.acts] == ["/topic/tombstone"] * 2 + ["/topic/delete"]
            assert answer["undo"]  # of this server's trash


def test_a_message_is_published_at_one_node_and_a_channel_created_at_all(tmp_path: Path) -> None:
    with nsqd(3) as a, nsqd(4) as b, cluster_console(tmp_path, a, b) as console:
        own_orders(console, 5)
        console.see_topic("orders", 2)
        browser = client_of(make_user())
        url = "/topics/orders/~publish/"
        assert f"Publish a message to orders on {console.own}" in words(
            browser.get(url, headers=DIALOG).content.decode()
        )
        assert browser.post(url, {"body": "x"}, headers=JSON).json()["ok"]
        assert browser.post(f"{url}?node={b.address}", {"body": "x"}, headers=JSON).json()["ok"]
        assert [one.path for one in (*a.acts, *b.acts)] == ["/pub"]
        assert b.channel("orders", "billing")["depth"] == 5
        made = browser.post("/topics/orders/~create-channel/", {"channel": "archive"}, headers=JSON).json()
        assert [(one["ok"], one["message"]) for one in made["nodes"]] == [(True, "Created orders/archive.")] * 3
        assert a.channel("orders", "archive") is not b.channel("orders", "archive")


def test_the_question_of_a_delete_says_that_producers_make_it_again(tmp_path: Path) -> None:
    with nsqd(3) as a, cluster_console(tmp_path, a) as console:
        console.see_topic("orders", 1)
        for count in (700, 1400):
            a.topics["orders"]["message_count"] = count
            console.see("the publishes", lambda state, count=count: messages_of(state) == [count])
        question = words(client_of(make_user()).get("/topics/orders/~delete/", headers=DIALOG).content.decode())
        again = r"Producers publish [0-9.,]+/s to it: their next message creates the topic again, empty\."
        assert re.search(again, question), question


def test_two_operators_of_a_console_do_not_do_the_same_on_other_nodes(tmp_path: Path) -> None:
    with nsqd(3) as a, cluster_console(tmp_path, a) as console:
        console.see_topic("orders", 1)
        ada, grace = client_of(make_user("ada")), client_of(make_user("grace"))
        shown = fields_of(ada.get(PAUSE, headers=DIALOG).content.decode())["shown"][0]
        assert grace.post(PAUSE, {}, headers=JSON).json()["ok"]
        refused = ada.post(PAUSE, {"shown": shown}, headers=JSON).json()
        assert (refused["ok"], refused["code"]) == (False, "STATE_CHANGED")
        assert "grace" in refused["message"]


def test_an_act_on_a_selection_goes_to_the_nodes_of_each(tmp_path: Path) -> None:
    clicks = topic("clicks", channel("archive", depth=2))
    with nsqd(3) as a, nsqd(4) as b, cluster_console(tmp_path, a, b) as console:
        b.topics["clicks"] = clicks
        own_orders(console, 5)
        console.see_topic("clicks", 1)
        console.see_topic("orders", 2)
        browser = client_of(make_user())
        selected = {"on": ["orders/billing", "clicks/archive"]}
        text = words(browser.get("/topics/~selected/empty-channel/", selected, headers=DIALOG).content.decode())
        assert "orders/billing: 12 messages, 0 consumers, on 3 nodes" in text
        assert f"clicks/archive: 2 messages, 0 consumers, on {b.address}" in text
        nsqds = " and ".join(sorted([a.address, b.address]))
        assert text.count(f"{nsqds}: this can't be undone: each is an nsqd and has no trash.") == 1
        assert re.search(rf"{console.own}: this can be undone for \S+\.", text), text
        lines = {"on": "orders/billing 12\nclicks/archive 2", "typed_name": "2 channels"}
        answer = browser.post("/topics/~selected/empty-channel/", lines, headers=JSON).json()
        assert answer["ok"], answer
        assert answer["results"][0]["counts"] == {"depth": 12}
        assert [b.channel(*one)["depth"] for one in (("orders", "billing"), ("clicks", "archive"))] == [0, 0]
        assert a.channel("orders", "billing")["depth"] == 0
        rows = {row.topic: row for row in AuditRow.objects.filter(phase=Phase.RESULT)}
        assert sorted(rows["orders"].detail.split("; ")) == sorted(
            f"{one} done" for one in (a.address, b.address, console.own)
        )
        assert rows["clicks"].detail == f"{b.address} done"


def test_an_act_on_a_selection_leaves_the_nodes_that_come_later(tmp_path: Path) -> None:
    empty, pause = "/topics/~selected/empty-channel/", "/topics/~selected/pause-channel/"
    with nsqd(3) as a, FakeNsqd() as b, cluster_console(tmp_path, a, b) as console:
        b.topics["clicks"] = topic("clicks", channel("archive", depth=2))
        console.engine.calls.create_topic("own").result(30)
        console.engine.calls.create_channel("own", "mail").result(30)
        console.see_topic("clicks", 1)
        console.see_topic("orders", 1)
        browser = client_of(make_user())
        on = {"on": ["orders/billing", "clicks/archive", "own/mail"]}
        emptying, pausing = (browser.get(path, on, headers=DIALOG).content.decode() for path in (empty, pause))
        lines = [f"@ {a.address}", "orders/billing 3", f"@ {b.address}", "clicks/archive 2", f"@ {console.own}"]
        assert fields_of(emptying)["on"][0].splitlines() == [*lines, "own/mail 0"]
        b.topics["orders"] = topic("orders", channel("billing", depth=70))
        a.topics["own"] = topic("own", channel("mail", depth=80))
        console.see_topic("orders", 2)
        console.see_topic("own", 1)
        # A question that comes back is about the same nodes.
        again = browser.post(empty, fields_of(emptying), headers=DIALOG).content.decode()
        assert f"orders/billing: 3 messages, 0 consumers, on {a.address}" in words(again)
        assert fields_of(again)["on"] == fields_of(emptying)["on"]
        for path, question in ((pause, pausing), (empty, emptying)):
            form = {**fields_of(question), "typed_name": "3 channels"}
            answer = browser.post(path, form, headers=JSON).json()
            assert (answer["ok"], answer["done"]) == (True, 3), answer
        assert [one.query["topic"] for one in a.acts] == ["orders", "orders"]
        assert [one.query["topic"] for one in b.acts] == ["clicks", "clicks"]
        assert (b.channel("orders", "billing")["depth"], a.channel("own", "mail")["depth"]) == (70, 80)
        assert a.channel("orders", "billing")["depth"] == 0
        (own,) = console.engine.calls.stats(topic="own").result(10).topics
        assert own.channels[0].paused


def test_the_undo_of_a_selection_leaves_what_was_paused_before(tmp_path: Path) -> None:
    clicks, pause = topic("clicks", channel("archive", depth=2)), "/topics/~selected/pause-channel/"
    orders = topic("orders", channel("billing"))
    with FakeNsqd.of(orders, clicks) as a, nsqd(4) as b, cluster_console(tmp_path, a, b) as console:
        console.see_topic("orders", 2)
        browser, bob = client_of(make_user()), client_of(make_user("bob"))
        assert bob.post(PAUSE, {"node": a.address, "reason": "incident"}, headers=JSON).json()["ok"]
        html = browser.post(pause, {"on": ["orders/billing", "clicks/archive"]}, headers=DIALOG).content.decode()
        assert "Paused 2 channels" in words(html)
        (url, on) = re.findall(r'formaction="([^"]+)"\s+name="on"\s+value="([^"]+)">Undo', html)[0]
        question = browser.post(url, {"ask": "1", "on": unescape(on)}, headers=DIALOG).content.decode()
        assert f"orders/billing: 4 messages, 0 consumers, on {b.address}" in words(question)
        assert browser.post(url, fields_of(question), headers=JSON).json()["ok"]
        assert a.channel("orders", "billing")["paused"], "by bob"
        assert not b.channel("orders", "billing")["paused"]
        assert not a.channel("clicks", "archive")["paused"]


def test_no_answer_of_another_node_ends_no_selection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_acts, "TOGETHER", 1)
    with nsqd(3) as a, cluster_console(tmp_path, a) as console:
        a.topics["clicks"] = topic("clicks", channel("archive", depth=2))
        console.see_topic("clicks", 1)
        a.answers["/channel/pause"] = (200, {"Content-Length": "10"}, b"")  # it ends before its body
        lines = {"on": "orders/billing\nclicks/archive"}
        answer = client_of(make_user()).post("/topics/~selected/pause-channel/", lines, headers=JSON).json()
        assert [one["code"] for one in answer["results"]] == ["OUTCOME_UNKNOWN"] * 2
        assert [one.query["topic"] for one in a.acts] == ["orders", "clicks"]


def test_what_is_about_one_consumer_or_message_is_this_server_s_alone(tmp_path: Path) -> None:
    requeue = "/topics/orders/billing/~requeue/"
    orders = topic("orders", channel("billing", depth=3, in_flight_count=2))
    other = FakeNsqd.of(orders, version="1.3.0+penstock.0.2.0")
    with other as a, cluster_console(tmp_path, a) as console:
        own_orders(console, 1)
        console.see_topic("orders", 1)
        browser = client_of(make_user())
        assert "Requeue orders/billing on 2 nodes" in words(browser.get(requeue, headers=DIALOG).content.decode())
        for query, scope in (("client=5", "client"), (f"message={'a' * 16}", "message"), ("scope=all", "all")):
            question = browser.get(f"{requeue}?{query}", headers=DIALOG).content.decode()
            assert "Requeue orders/billing at this server Nothing is in flight at this server now." in words(question)
            assert nodes_in(question) == [console.own]
            if scope != "client":  # no consumer is connected here
                assert f'name="scope" value="{scope}" checked' in " ".join(question.split())
        for part in ({"scope": "client", "client": "5"}, {"client": "5"}, {"scope": "message", "message": "a" * 16}):
            answer = browser.post(requeue, part, headers=JSON).json()
            assert "nodes" not in answer
            refused = browser.post(requeue, {**part, "node": a.address}, headers=JSON).json()
            assert f"at this server alone, not at {a.address}" in refused["message"]
        answer = browser.post(requeue, {"scope": "all"}, headers=JSON).json()
        assert answer["ok"], answer
        assert "nodes" not in answer
        assert a.acts == []


def test_far_more_messages_than_a_selection_counted_are_not_removed(tmp_path: Path) -> None:
    with nsqd(3) as a, nsqd(4) as b, cluster_console(tmp_path, a, b) as console:
        console.see_topic("orders", 2)
        for node in (a, b):
            node.channel("orders", "billing")["depth"] = 900
        console.see("the new figures", lambda state: depths_of(state) == [900, 900])
        lines = {"on": "orders/billing 7", "typed_name": "1 channel"}
        answer = client_of(make_user()).post("/topics/~selected/empty-channel/", lines, headers=JSON).json()
        (result,) = answer["results"]
        assert (result["ok"], result["code"]) == (False, "COUNTS_CHANGED")
        assert "there are 1,800 messages now, and the question counted 7" in result["message"]


def own_topics(console: ClusterConsole) -> list[str]:
    return [one.topic_name for one in console.engine.calls.stats(topic="orders").result(10).topics]


def test_an_act_that_names_a_node_which_lost_the_topic_leaves_this_servers(tmp_path: Path) -> None:
    with nsqd(3) as a, FakeNsqd() as other, cluster_console(tmp_path, a, other) as console:
        own_orders(console, 5)
        console.see_topic("orders", 1)
        browser = client_of(make_user())
        lost = f"{a.address} does not have it."
        typed = {"node": [a.address], "typed_name": "orders"}
        assert browser.post("/topics/orders/~delete/", typed, headers=JSON).json()["ok"]
        console.see_topic("orders", 0)
        # The retry, a second submit, the link to the question, a selection, one message.
        refused = browser.post("/topics/orders/~delete/", typed, headers=JSON)
        assert (refused.status_code, lost in refused.json()["message"]) == (400, True), refused.content
        in_dialog = browser.post("/topics/orders/~delete/", typed, headers=DIALOG)
        assert lost in words(in_dialog.content.decode())
        question = browser.get(f"/topics/orders/~delete/?node={a.address}", headers=DIALOG)
        assert lost in words(question.content.decode())
        assert 'type="submit"' not in question.content.decode()
        assert lost in browser.post(PAUSE, {"node": [a.address]}, headers=JSON).json()["message"]
        lines = {"on": "orders 5", "typed_name": "1 topic", "node": [a.address]}
        (row,) = browser.post("/topics/~selected/delete-topic/", lines, headers=JSON).json()["results"]
        assert (row["ok"], lost in row["message"]) == (False, True), row
        assert browser.get("/topics/~selected/delete-topic/", lines, headers=DIALOG).status_code == 200
        message = {"id": "0", "node": [a.address]}
        assert browser.post("/topics/orders/billing/~messages/~finish/", message, headers=JSON).status_code == 404
        # All nodes of a question are unticked.
        unticked = {"node": [""], "typed_name": "orders"}
        assert not browser.post("/topics/orders/~delete/", unticked, headers=JSON).json()["ok"]
        (own,) = console.engine.calls.stats(topic="orders").result(10).topics
        assert (own.paused, own.channels[0].paused, own.channels[0].depth) == (False, False, 5)
        # This server was ticked, too.
        both = {"node": [a.address, console.own], "typed_name": "orders"}
        assert browser.post("/topics/orders/~delete/", both, headers=JSON).json()["ok"]
        assert own_topics(console) == []


def test_an_act_that_names_a_node_on_a_server_without_others_does_nothing(tmp_path: Path) -> None:
    with cluster_console(tmp_path) as console:
        own_orders(console, 5)
        console.see()
        set_cluster(None)
        typed = {"node": ["nsq-b2:4151"], "typed_name": "orders"}
        browser = client_of(make_user())
        refused = browser.post("/topics/orders/~delete/", typed, headers=JSON)
        assert "nsq-b2:4151 does not have it." in refused.content.decode()
        assert own_topics(console) == ["orders"]
        assert browser.post("/topics/orders/~delete/", {"typed_name": "orders"}, headers=JSON).json()["ok"]


def test_a_fault_of_one_act_of_a_selection_leaves_the_others_their_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeNsqd.of(topic("orders"), topic("clicks")) as a, cluster_console(tmp_path, a) as console:
        console.see_topic("orders", 1)
        do = OnNodes.do

        def faulty(
            nodes: OnNodes, order: ActOrder, expected: Mapping[str, int], own: Mapping[str, Mapping[str, object]]
        ) -> ActResult:
            if order.topic == "orders":
                raise RuntimeError("Session is closed")
            return do(nodes, order, expected, own)

        monkeypatch.setattr(OnNodes, "do", faulty)
        on = {"on": ["orders", "clicks"]}
        rows = client_of(make_user()).post("/topics/~selected/pause-topic/", on, headers=JSON).json()["results"]
        assert [(one["ok"], one["code"]) for one in rows] == [(False, "INTERNAL_ERROR"), (True, "")]
        verdicts = {row.topic: row.verdict for row in AuditRow.objects.filter(phase=Phase.RESULT)}
        assert verdicts == {"orders": Verdict.UNKNOWN, "clicks": Verdict.DONE}


def test_on_one_server_nothing_is_said_of_nodes(tmp_path: Path) -> None:
    with FakeNsqd.of(topic("clicks")) as other, cluster_console(tmp_path, other) as console:
        own_orders(console, 2)
        console.see_topic("clicks", 1)
        browser = client_of(make_user())
        question = browser.get(PAUSE, headers=DIALOG).content.decode()
        assert "Pause orders/billing Its 0 consumers" in words(question)
        answer = browser.post(PAUSE, {}, headers=JSON).json()
        assert answer["ok"]
        assert "nodes" not in answer
        assert last_row().detail == ""


def acts_of(html: str, form: str) -> dict[str, tuple[str, str]]:
    """The enabled acts of a form with selected rows: label → path, and the nodes that can't."""
    (found,) = re.findall(rf'<form class="selected-acts" id="{form}".*?</form>', html, re.DOTALL)
    buttons = re.findall(r'<button class="[^"]*" formaction="([^"]+)"([^>]*)>([^<]+)</button>', found)
    return {label: (path, "".join(re.findall(r'data-unable="([^"]*)"', rest))) for path, rest, label in buttons}


def test_rows_of_nodes_are_selected_for_the_acts_that_they_can_do(tmp_path: Path) -> None:
    with nsqd(3) as a, nsqd(4) as b, cluster_console(tmp_path, a, b) as console:
        own_orders(console, 5)
        console.see_topic("orders", 2)
        browser = client_of(make_user())
        html = browser.get("/topics/orders/billing/").content.decode()
        boxes = re.findall(r'<input\s+type="checkbox" name="node"\s+value="([^"]*)"\s+form="select-by_node"', html)
        # The last one is of the rows that come later; all together have none.
        assert boxes == [*sorted([a.address, b.address, console.own]), ""]
        assert 'data-key="*"' in html
        acts = acts_of(html, "select-by_node")
        path, unable = acts["Empty on these…"]
        assert (path, unable) == ("/topics/orders/billing/~empty/", "")
        assert acts["Max attempts on these…"][1].split() == sorted([a.address, b.address])
        assert {"❚❚ Pause on these…", "▶ Resume on these…"} <= acts.keys()
        lacks = "keeps no past messages, can't requeue or release messages by hand and has no quarantine"
        assert f"{a.address} is an nsqd and {lacks}." in unescape(html)
        # The form is a GET with the nodes: the question has these alone, without a script, too.
        question = browser.get(path, {"node": [a.address, console.own]}).content.decode()
        assert nodes_in(question) == sorted([a.address, console.own])
        assert "Empty orders/billing on 2 nodes" in words(question)
        # With more names than a link can have it is a POST.
        for act in (path, PAUSE, "/topics/orders/billing/~rewind/"):
            posted = browser.post(act, {"node": [console.own], "ask": "1"}, headers=DIALOG)
            question = posted.content.decode()
            assert (posted.status_code, nodes_in(question), "errorlist" in question) == (200, [console.own], False), act
            assert a.address not in re.findall(r'name="node" value="([^"]*)"', question)
        assert nodes_in(browser.post(path, {"node": [a.address, b.address], "ask": "1"}).content.decode()) == sorted(
            [a.address, b.address]
        )
        assert not AuditRow.objects.exists()
        # An operator's buttons are off where the act takes an admin; a viewer has no boxes.
        html = client_of(make_user("grace", role=Role.OPERATOR)).get("/topics/orders/billing/").content.decode()
        assert "Empty on these…" not in acts_of(html, "select-by_node")
        assert "❚❚ Pause on these…" in acts_of(html, "select-by_node")
        assert (
            "select-by_node"
            not in client_of(make_user("bob", role=Role.VIEWER)).get("/topics/orders/").content.decode()
        )


def test_a_page_reads_its_nodes_once_for_all_acts_on_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with nsqd(3) as a, nsqd(4) as b, cluster_console(tmp_path, a, b) as console:
        console.see_topic("orders", 2)
        reads: list[str] = []

        def read() -> Cluster | None:
            reads.append("")
            return get_cluster()

        monkeypatch.setattr(on_nodes, "get_cluster", read)
        browser = client_of(make_user())
        for path in ("/topics/orders/billing/", f"/nodes/{a.address}/"):
            reads.clear()
            assert "selected-acts" in browser.get(path).content.decode()
            assert len(reads) <= 2, path


def test_an_act_that_no_node_can_do_is_none_of_the_selected(tmp_path: Path) -> None:
    with nsqd(3) as a, nsqd(4) as b, cluster_console(tmp_path, a, b) as console:
        console.see_topic("orders", 2)
        acts = acts_of(client_of(make_user()).get("/topics/orders/billing/").content.decode(), "select-by_node")
        assert {label.split(" on ")[0] for label in acts} == {"❚❚ Pause", "▶ Resume", "Empty", "Delete"}


def test_the_acts_of_a_nodes_page_are_that_nodes_alone(tmp_path: Path) -> None:
    with nsqd(3) as a, nsqd(4) as b, cluster_console(tmp_path, a, b) as console:
        own_orders(console, 5)
        console.see_topic("orders", 2)
        browser = client_of(make_user())
        html = browser.get(f"/nodes/{b.address}/").content.decode()
        row = re.findall(r'data-key="orders/billing".*?</tr>', html, re.DOTALL)[0]
        (pause,) = re.findall(r'href="([^"]*~pause/[^"]*)"', row)
        assert nodes_in(browser.get(unescape(pause), headers=DIALOG).content.decode()) == [b.address]
        # An nsqd requeues nothing: the button is off, with the reason in words.
        reason = f"{b.address} is an nsqd and can't requeue or release messages by hand."
        assert "Requeue…" not in acts_of(html, "select-node_channels")
        assert reason in words(html)
        path, _ = acts_of(html, "select-node_channels")["Empty…"]
        selected = {"on": "orders/billing", "node": b.address}
        question = browser.get(path, selected, headers=DIALOG).content.decode()
        assert f"Empty 1 channel on {b.address}" in words(question)
        assert f"orders/billing: 4 messages, 0 consumers, on {b.address}" in words(question)
        fields = fields_of(question)
        assert fields["node"] == [b.address]
        assert f'href="/nodes/{b.address}/"' in question
        answer = browser.post(path, {**fields, "typed_name": "1 channel"}, headers=DIALOG).content.decode()
        assert "Emptied 1 channel" in words(answer)
        assert fields_of(answer)["node"] == [b.address], "what is tried again goes to that node, too"
        assert (a.channel("orders", "billing")["depth"], b.channel("orders", "billing")["depth"]) == (3, 0)
        (own,) = console.engine.calls.stats(topic="orders").result(10).topics
        assert own.channels[0].depth == 5
        assert last_row().detail == f"{b.address} done"
        # This server's page has all of them.
        html = browser.get(f"/nodes/{console.own}/").content.decode()
        assert "Requeue…" in acts_of(html, "select-node_channels")


def test_a_nodes_page_hides_it_from_consumers_as_lookup_does(tmp_path: Path) -> None:
    with nsqd(3) as a, FakeNode() as lookup:
        lookup.answer_as_lookupd(a, topics=("orders",))
        with cluster_console(tmp_path, lookupds=[lookup]) as console:
            console.see_topic("orders", 1)
            html = client_of(make_user()).get(f"/nodes/{a.address}/").content.decode()
            tombstone = f"/lookup/orders/{a.address}/~tombstone/"
            assert f'href="{tombstone}" data-dialog>Tombstone…' in html
            html = client_of(make_user("bob", role=Role.VIEWER)).get(f"/nodes/{a.address}/").content.decode()
            assert tombstone not in html
            assert re.search(r'aria-disabled="true" title="Needs the role [^"]*">Tombstone…', html)


REWIND = "/topics/orders/billing/~rewind/"
PENSTOCK = "1.3.0+penstock.0.2.0"


def preview_of(**figures: int) -> dict[str, int]:
    """The answer of a node's /channel/seek/preview."""
    found = {"offset": 0, "next_offset": 7, "oldest_offset": 0, "end_offset": 9, "depth": 9, "depth_now": 3}
    return {**found, **figures}


def test_a_rewind_over_nodes_has_a_preview_of_each_and_goes_exactly_there(tmp_path: Path) -> None:
    orders = topic("orders", channel("billing", depth=3, quarantined_count=2))
    done = (200, {}, b'{"offset":2,"oldest_offset":2,"end_offset":9,"depth":7}')
    with (
        nsqd(4) as a,
        FakeNsqd.of(orders, version=PENSTOCK) as b,
        cluster_console(tmp_path, a, b) as console,
    ):
        own_orders(console, 5)
        console.see_topic("orders", 2)
        b.answers["/channel/seek/preview"] = preview_of(offset=2, oldest_offset=2, depth=7)
        b.answers["/channel/seek"] = (403, {}, b'{"message":"NOT_ALLOWED"}')
        browser = client_of(make_user())
        question = browser.get(REWIND, headers=DIALOG).content.decode()
        assert "Rewind orders/billing on 2 nodes" in words(question)
        assert f"{a.address} is an nsqd and keeps no past messages." in words(question)
        assert nodes_in(question) == sorted([b.address, console.own])
        form = {**fields_of(question), "place": "offset", "offset": "0"}
        assert (
            "An offset is a place in the log of one node" in browser.post(REWIND, form, headers=JSON).json()["message"]
        )
        form |= {"place": "start", "offset": ""}
        preview = browser.post(REWIND, form, headers=DIALOG).content.decode()
        text = words(preview)
        # 5 messages, of which none was delivered: going there is forward.
        assert f"{console.own} : it continues at offset 0 (the topic holds offsets 0 to 4), skips no message" in text
        assert (
            f"{b.address} : it goes to offset 2 (the topic holds offsets 2 to 8), skips unfinished messages before it"
            " and delivers 7 messages from there on, finished ones again; unfinished now: 3 messages; of 2 quarantined"
            " messages none stays so" in text
        )
        assert b.acts == []
        assert not AuditRow.objects.exists()
        # The place of the preview counts, and no other.
        other = {**fields_of(preview), "place": "end"}
        assert (
            "You chose another place after the preview" in browser.post(REWIND, other, headers=JSON).json()["message"]
        )
        form = {**fields_of(preview), "reason": "replay"}
        answer = browser.post(REWIND, form, headers=DIALOG).content.decode()
        assert "done on 1 of 2 nodes" in words(answer)
        assert f"✓ {console.own} : Rewound orders/billing" in words(answer)
        row = last_row()
        assert (row.action, row.verdict, row.reason) == ("rewind_channel", Verdict.FAILED, "replay")
        assert sorted(row.detail.split("; ")) == sorted([f"{console.own} done", f"{b.address} NOT_ALLOWED"])
        url, again = pressed(answer, "Try the rest again")
        b.answers["/channel/seek"] = done
        question = browser.post(url, again, headers=DIALOG).content.decode()
        assert nodes_in(question) == [b.address]
        assert re.search(r'<option\s+value="start" selected', question)
        # A script confirms the form that it gets.
        shown = browser.post(REWIND, {**fields_of(question), "place": "start"}, headers=JSON)
        assert (shown.status_code, shown.json()["code"]) == (409, "NOT_CONFIRMED")
        (row_shown,) = [one for one in shown.json()["nodes"] if one["is_ticked"]]
        assert row_shown["node"] == b.address
        assert row_shown["message"].startswith("it goes to offset 2")
        answer = browser.post(REWIND, shown.json()["form"], headers=JSON).json()
        assert answer["ok"]
        assert answer["message"] == f"{b.address}: Rewound orders/billing to offset 2: its depth is 7 now."
        exactly = {"offset": "2", "keep_finished": "false", "exact": "true"}
        assert b.acts[-1].query == {"topic": "orders", "channel": "billing", **exactly}
        # One other node alone takes an offset; forward, it repeats nothing that is finished meanwhile.
        b.answers["/channel/seek/preview"] = preview_of(offset=8, depth=1)
        ahead = {"node": b.address, "place": "offset", "offset": "8"}
        preview = browser.post(REWIND, ahead, headers=DIALOG).content.decode()
        assert "continues at offset 8 (the topic holds offsets 0 to 8), skips 2 messages" in words(preview)
        assert browser.post(REWIND, fields_of(preview), headers=JSON).json()["ok"]
        assert b.acts[-1].query["keep_finished"] == "true"
        # This server alone shows its preview first.
        preview = browser.post(REWIND, {"node": console.own, "place": "start"}, headers=DIALOG).content.decode()
        assert "The channel continues at offset 0 (the topic holds offsets 0 to 4)" in words(preview)


def test_a_node_without_a_preview_costs_its_row_of_a_rewind(tmp_path: Path) -> None:
    orders = topic("orders", channel("billing", depth=3))
    old, odd, slow = (FakeNsqd.of(orders, version=PENSTOCK) for _ in range(3))
    paths = {path: one for path, one in reference()["paths"].items() if path != "/channel/seek/preview"}
    old.answers["/openapi.json"] = {"paths": paths}
    odd.answers["/channel/seek/preview"] = {**preview_of(), "depth": "many"}
    is_over = threading.Event()
    with old, odd, slow, cluster_console(tmp_path, old, odd, slow, timeout_s=1.0) as console:
        own_orders(console, 5)
        console.see_topic("orders", 3)
        slow.answers["/channel/seek/preview"] = lambda: {"is_over": is_over.wait(60)}
        old.answers["/channel/seek"] = (200, {}, b'{"offset":0,"oldest_offset":0,"end_offset":9,"depth":9}')
        browser = client_of(make_user())
        form = fields_of(browser.get(REWIND, headers=DIALOG).content.decode())
        preview = browser.post(REWIND, {**form, "place": "end"}, headers=DIALOG).content.decode()
        text = words(preview)
        assert f"no preview: {old.address} runs Penstock 0.2.0, which has no such preview" in text
        is_over.set()
        assert f"no preview: {odd.address} answered with no preview" in text
        assert re.search(rf"no preview: {slow.address}[^ ]* did not answer", text), text
        assert f"Rewind orders/billing on {console.own}" in text
        assert nodes_in(preview) == [console.own]
        assert "A node without a preview is not ticked." in text
        # A node that is not ticked gives none.
        slow.requests.clear()
        some = {**form, "node": ["", odd.address, console.own], "place": "end"}
        text = words(browser.post(REWIND, some, headers=DIALOG).content.decode())
        assert f"no preview: {odd.address} answered with no preview" in text
        assert f"{slow.address} : 3 messages, 0 consumers; no preview: it was not ticked" in text
        assert not [path for path, _ in slow.requests if path.startswith("/channel/seek")]
        # Ticked by hand, it goes to the place in its own log.
        sent = {**fields_of(preview), "node": ["", old.address, console.own]}
        assert browser.post(REWIND, sent, headers=JSON).json()["ok"]
        assert old.acts[-1].query == {"topic": "orders", "channel": "billing", "to": "end"}
        assert (odd.acts, slow.acts) == ([], [])
        (own,) = console.engine.calls.stats(topic="orders").result(10).topics
        assert own.channels[0].depth == 0
        # This server alone, as the preview ticks it, needs no second preview.
        preview = browser.post(REWIND, {**form, "place": "start"}, headers=DIALOG).content.decode()
        assert nodes_in(preview) == [console.own]
        answer = browser.post(REWIND, fields_of(preview), headers=JSON).json()
        assert answer["message"] == f"{console.own}: Rewound orders/billing to offset 0: its depth is 5 now."


def test_a_topic_is_created_on_the_nodes_that_are_ticked(tmp_path: Path) -> None:
    create = "/topics/~create/"
    with nsqd(3) as a, nsqd(4) as b, cluster_console(tmp_path, a, b) as console:
        browser = client_of(make_user())
        question = browser.get(create, headers=DIALOG).content.decode()
        assert nodes_in(question) == [console.own], "as on one server"
        assert all(f'name="node" value="{one.address}"' in question for one in (a, b))
        form = {**fields_of(question), "topic": "clicks", "storage": "log"}
        b.answers["/topic/create"] = (403, {}, b'{"message":"NOT_ALLOWED"}')
        answer = browser.post(create, {**form, "node": [a.address, b.address]}, headers=DIALOG).content.decode()
        assert "Create topic clicks: done on 1 of 2 nodes" in words(answer)
        assert ("clicks" in a.topics, "clicks" in b.topics) == (True, False)
        assert console.engine.calls.stats(topic="clicks").result(10).topics == ()
        assert sorted(last_row().detail.split("; ")) == sorted([f"{a.address} done", f"{b.address} NOT_ALLOWED"])
        url, again = pressed(answer, "Try the rest again")
        del b.answers["/topic/create"]
        question = browser.post(url, again, headers=DIALOG).content.decode()
        assert (nodes_in(question), 'value="clicks"' in question) == ([b.address], True)
        assert browser.post(create, {"topic": "clicks", "node": [b.address, console.own]}, headers=JSON).json()["ok"]
        assert "clicks" in b.topics
        assert len(console.engine.calls.stats(topic="clicks").result(10).topics) == 1
        assert not browser.post(create, {"topic": "more", "node": [""]}, headers=JSON).json()["ok"]
        # A program that names no node means this server.
        assert browser.post(create, {"topic": "mine"}, headers=JSON).json()["ok"]
        assert "mine" not in a.topics | b.topics
