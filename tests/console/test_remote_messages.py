"""Messages of a remote Penstock are listed, read and acted on as local ones; those of a Go nsqd are unreadable."""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.test import Client

from admin_console.audit.models import AuditRow, Phase
from admin_console.cluster.reading.nodes import ClusterState
from admin_console.gateway import in_flight_list
from admin_console.hub.hub import get_hub
from admin_console.message_views import lists
from admin_console.vocabulary.roles import Role
from queue_engine.engine.messages.rows import IN_FLIGHT
from queue_engine.wire.user_claim import HEADER
from tests.support.fake_node import FakeNode
from tests.support.fake_nsqd import FakeNsqd, channel, topic
from tests.support.nsq_socket import NsqSocket
from tests.support.pages.cluster_console import ClusterConsole, cluster_console
from tests.support.pages.console import client_of, make_user, words
from tests.support.processes.running_engine import RunningEngine
from tests.support.waiting import wait_for

pytestmark = pytest.mark.django_db

JSON = {"Accept": "application/json"}
LIST = "/topics/orders/billing/~messages/"


@dataclass
class AtPort(FakeNode):
    """Stands for a node that runs by itself."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@contextmanager
def remote_penstock(
    path: Path, *more: FakeNode, timeout_s: float = 5.0
) -> Iterator[tuple[ClusterConsole, RunningEngine, str]]:
    """A console with a Penstock that has orders/billing, which this server has not. more: other nodes with it. The last
    is the Penstock's name."""
    with RunningEngine(path / "remote", sync="os") as remote:
        remote.http("POST", "/topic/create?topic=orders", b"")
        remote.http("POST", "/channel/create?topic=orders&channel=billing", b"")
        for number in range(3):
            remote.http("POST", f"/pub?topic=orders&key=k{number}", b"body %d" % number)
        with cluster_console(path, AtPort(port=remote.http_port), *more, timeout_s=timeout_s) as console:
            console.see_topic("orders", 1 + len(more))
            yield console, remote, f"127.0.0.1:{remote.http_port}"


def ids_in(html: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"~messages/([0-9a-f]{16})/", html)))


def shown_nodes(html: str) -> dict[str, bool]:
    """The links to nodes, and whether each is the current one."""
    nav = html.partition('class="node-links')[2].partition("</nav>")[0]
    links = re.findall(r"<a href=[^>]*?( aria-current[^>]*)?>([^<]*)<", nav)
    return {" ".join(text.split()): bool(current) for current, text in links}


def field_of(html: str, button: str, field: str) -> list[str]:
    """The values of a field in the form with this button."""
    (form,) = [one for one in re.findall(r"<form .*?</form>", html, re.DOTALL) if f">{button}</button>" in one]
    return re.findall(rf'name="{field}" value="([^"]*)"', form)


def listed(browser: Client, name: str, state: str = "waiting") -> str:
    return browser.get(LIST, {"node": name, "state": state}).content.decode()


def test_its_messages_are_listed_and_read_and_the_look_is_audited(tmp_path: Path) -> None:
    with remote_penstock(tmp_path) as (_, _, name):
        browser = client_of(make_user())
        html = browser.get(LIST).content.decode()  # the only node that has it
        assert f"at {name} · nothing is consumed" in words(html)
        assert all(f"body {number}" in html for number in range(3))
        ids = ids_in(html)
        assert len(ids) == 3
        url = re.findall(rf'href="([^"]*~messages/{ids[0]}/\?node=[^"&]*)"', html)[0]
        one = browser.get(unescape(url)).content.decode()
        assert f"at {name} · nothing is" in words(one)
        assert "body 0" in one
        assert "k0" in words(one)
        body = browser.get(f"/topics/orders/billing/~messages/{ids[0]}/body", {"node": name})
        rows = [row.message for row in AuditRow.objects.filter(action="read_messages")]
        assert f"Looked at 3 messages of orders/billing at {name}." in rows
        assert body.content == b"body 0"
        file = browser.post(f"/topics/orders/billing/~messages/~file/?node={name}", {"id": ids})
        assert (file.status_code, file.content.count(b"\n")) == (200, 3)


def test_single_messages_are_acted_on_at_their_node_with_a_row_in_the_audit_list(tmp_path: Path) -> None:
    with remote_penstock(tmp_path) as (_, remote, name):
        browser = client_of(make_user())
        html = listed(browser, name)
        ids = ids_in(html)
        assert f"~messages/~quarantine/?node={name.replace(':', '%3A')}" in html
        url = f"/topics/orders/billing/~messages/~quarantine/?node={name}"
        answer = browser.post(url, {"id": ids[:2]}, headers=JSON).json()
        assert (answer["ok"], [one["ok"] for one in answer["results"]]) == (True, [True, True])
        assert remote.channel_stats("orders", "billing")["depth"] == 1
        assert sorted(ids_in(listed(browser, name, "quarantined"))) == sorted(ids[:2])
        row = AuditRow.objects.filter(phase=Phase.RESULT).first()
        assert row is not None
        assert (row.action, row.detail) == ("quarantine_messages", f"{name} done")
        finished = f"/topics/orders/billing/~messages/~finish/?node={name}"
        missing = browser.post(finished, {"id": ["0123456789abcdef", ids[2]]}, headers=JSON).json()
        assert [one["ok"] for one in missing["results"]] == [False, True]


def test_a_viewer_sees_no_bodies_of_another_node(tmp_path: Path) -> None:
    with remote_penstock(tmp_path) as (_, _, name):
        browser = client_of(make_user("vera", Role.VIEWER))
        html = listed(browser, name)
        assert len(ids_in(html)) == 3
        one = get(browser, f"{LIST}{ids_in(html)[0]}/", node=name)
        for page in (html, one):
            assert "body 0" not in page
            assert "k0" not in words(page)


def test_a_node_gets_the_name_of_the_user_who_looks_and_no_look_of_a_viewer(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("127.0.0.0/8 s3cret\n")
    tokens.chmod(0o600)
    held = topic("orders", channel("billing", depth=1), storage="log")
    fake = FakeNsqd.of(held, version="1.3.0+penstock.0.2.0")
    row = {"id": "a" * 16, "state": "waiting"}
    with fake as node, cluster_console(tmp_path, node, token_file=str(tokens)) as console:
        node.answers |= {
            "/channel/messages": {"messages": [row]},
            "/channel/message": {"message": row},
            "/topic/messages": {"messages": []},
            "/channel/search": {"search": "s1", "topic": "orders", "channel": "billing", "status": "running"},
        }
        node.answers["/channel/search/state"] = node.answers["/channel/search"]
        console.see_topic("orders", 1)
        browser = client_of(make_user("zoë"))
        for url, query in (
            (LIST, {}),
            (f"{LIST}{row['id']}/", {}),
            (TOPIC_LIST, {}),
            (TOPIC_LIST, {"key": "k"}),
            (LIST, {"text": "body", "in": "all"}),
        ):
            get(browser, url, **query)
        looks = ("/channel/message", "/topic/messages", "/channel/search")
        sent = [(path, headers.get(HEADER)) for path, headers in node.requests if path.startswith(looks)]
        assert {path.partition("?")[0] for path, _ in sent} == {*node.answers}
        assert {user for _, user in sent} == {"zo%C3%AB"}
        del node.requests[:]
        viewer = client_of(make_user("vera", Role.VIEWER))
        get(viewer, LIST)
        get(viewer, f"{LIST}{row['id']}/")
        paths = [path for path, _ in node.requests if path.startswith(looks)]
        assert [("keys=false" in path, "contents=false" in path) for path in paths] == [(True, False), (False, True)]


def test_a_list_names_its_node_and_leads_to_those_of_the_others(tmp_path: Path) -> None:
    orders = topic("orders", channel("billing", depth=3))
    penstock, plain = FakeNsqd.of(orders, version="1.3.0+penstock.0.2.0"), FakeNsqd.of(orders)
    with penstock as node, plain as nsqd, cluster_console(tmp_path, node, nsqd) as console:
        node.answers["/channel/messages"] = {"state": "waiting", "counts": {"waiting": 0}, "messages": []}
        browser = client_of(make_user())
        calls = console.engine.calls
        calls.create_topic("orders").result(30)
        calls.create_channel("orders", "billing").result(30)
        calls.publish("orders", [b"m"]).result(30)
        console.see_topic("orders", 2)
        html = browser.get(LIST).content.decode()
        assert f"at this server, {console.own} · nothing is consumed" in words(html)
        assert f"Not listed here: {nsqd.address} is an nsqd and shows no messages." in words(html)
        assert shown_nodes(html) == {f"{console.own} (this server)": True, node.address: False}
        (url,) = re.findall(rf'href="([^"]+)"[^>]*>{node.address}\b', html)
        html = browser.get(unescape(url)).content.decode()
        assert f"at {node.address} · nothing is consumed" in words(html)
        assert shown_nodes(html) == {f"{console.own} (this server)": False, node.address: True}
        # A message is looked for at the same node.
        find = html[html.index('class="form-row-inline find"') :].partition("</form>")[0]
        assert f'name="node" value="{node.address}"' in find
        (url,) = re.findall(rf'href="([^"]+)"[^>]*>{console.own}\b', html)
        one = browser.get(f"{LIST}{ids_in(browser.get(unescape(url)).content.decode())[0]}/").content.decode()
        assert f"at this server, {console.own} · nothing is" in words(one)


def test_the_links_to_nodes_count_the_messages_in_the_state_that_is_shown(tmp_path: Path) -> None:
    with remote_penstock(tmp_path) as (console, remote, name):
        calls = console.engine.calls
        calls.create_topic("orders").result(30)
        calls.create_channel("orders", "billing").result(30)
        calls.publish("orders", [b"own"]).result(30)
        remote.http("POST", "/channel/message/quarantine?topic=orders&channel=billing&offset=0", b"")
        console.see(
            "the quarantine",
            lambda state: any(
                node.stats and node.stats.topics["orders"].channels["billing"].figures.get("quarantined_count")
                for node in state.nodes
            ),
        )
        browser = client_of(make_user())
        for shown in (name, console.own):
            for state, there, here in (
                ("waiting", "2 waiting", "1 waiting"),
                ("quarantined", "1 quarantined", "0 quarantined"),
                ("finished", "", ""),
            ):
                html = listed(browser, shown, state)
                nav = html.partition('class="node-links')[2].partition("</nav>")[0]
                counts = re.findall(r"<a [^>]*>([^\s<]*)[^<]*(?:<small>(.*?)</small>)?", nav)
                assert dict(counts) == {name: there, console.own: here}, (shown, state)


def test_an_id_is_found_at_the_node_that_has_it_whichever_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, slow = FakeNsqd.of(topic("orders", channel("billing"))), FakeNsqd.of(topic("orders", channel("billing")))
    slow.version = "1.3.0+penstock.0.2.0"
    answers, gave_up = threading.Event(), list[bool]()

    def one_message() -> dict[str, object]:
        if not answers.wait(40):
            gave_up.append(True)
        return {}

    slow.answers["/channel/message"] = one_message
    with plain, slow, remote_penstock(tmp_path, plain, slow, timeout_s=60.0) as (console, _, name):
        calls = console.engine.calls
        calls.create_topic("orders").result(30)
        calls.create_channel("orders", "billing").result(30)
        calls.publish("orders", [b"own"]).result(30)
        console.see_topic("orders", 3)
        browser = client_of(make_user())
        (at_other, *_), (at_own,) = ids_in(listed(browser, name)), ids_in(listed(browser, console.own))
        others = ("", console.own, name)
        for shown in others:
            query = {"node": shown} if shown else {}
            there = browser.get(LIST, {**query, "find": at_other}).headers["Location"]
            assert unescape(there) == f"{LIST}{at_other}/?node={name.replace(':', '%3A')}", shown
            assert browser.get(LIST, {**query, "find": at_own}).headers["Location"] == f"{LIST}{at_own}/", shown
        assert not gave_up, "a find has waited for the slow node"
        answers.set()
        # One that no node has is looked for in vain; an offset is a place in the log of the node that is shown.
        nowhere = browser.get(LIST, {"find": "0" * 16}).headers["Location"]
        assert browser.get(nowhere).status_code == 404
        assert browser.get(LIST, {"find": "1"}).headers["Location"] == f"{LIST}1/"
        assert plain.acts == slow.acts == []
        # Nothing of a message is shown by that: it is no look at contents.
        sent = [path for path, _ in slow.requests if path.startswith("/channel/message?")]
        assert sent
        assert all("contents=false" in path for path in sent)
        monkeypatch.setattr(lists, "FIND_NODES_MAX", 1)
        refused = browser.get(LIST, {"find": at_other})
        assert refused.status_code == 400
        assert (
            f"Message {at_other} is not at this server. 2 other nodes list messages of orders/billing, and a find "
            "reads 1 at most: choose the message's node." in words(refused.content.decode())
        )
        assert browser.get(LIST, {"node": name, "find": at_other}).status_code == 302
        assert [path for path, _ in slow.requests if path.startswith("/channel/message?")] == sent


def test_a_channel_of_this_server_alone_has_no_links_to_nodes(tmp_path: Path) -> None:
    with FakeNsqd.of(topic("clicks")) as other, cluster_console(tmp_path, other) as console:
        console.engine.calls.create_topic("orders").result(30)
        console.engine.calls.create_channel("orders", "billing").result(30)
        console.see_topic("clicks", 1)
        html = client_of(make_user()).get(LIST).content.decode()
        assert shown_nodes(html) == {}
        assert "this server" not in words(html[html.index("<h1>") :].partition("</div>")[0])


def test_those_of_a_go_nsqd_are_said_to_be_unreadable(tmp_path: Path) -> None:
    fake = FakeNsqd.of(topic("orders", channel("billing", depth=3)))
    with fake as nsqd, cluster_console(tmp_path, nsqd) as console:
        console.see_topic("orders", 1)
        answer = client_of(make_user()).get(LIST)
        assert answer.status_code == 409
        reason = f"Nothing was read of orders/billing: {nsqd.address} is an nsqd and shows no messages."
        assert reason in words(answer.content.decode())


def test_a_refusal_of_the_node_and_a_silent_one_are_sentences(tmp_path: Path) -> None:
    fake = FakeNsqd.of(topic("orders", channel("billing", depth=3)), version="1.3.0+penstock.0.2.0")
    with fake as node, cluster_console(tmp_path, node) as console:
        console.see_topic("orders", 1)
        browser = client_of(make_user())
        node.answers["/channel/messages"] = (403, {}, b'{"message":"TOKEN_MISSING"}')
        assert f"{node.address} refused it: TOKEN_MISSING." in words(browser.get(LIST).content.decode())
        # What can't be right costs itself alone.
        strange = [{"state": "waiting", "id": "<b>"}, 3, {"state": "waiting", "id": "0" * 16, "attempts": 1 << 70}]
        counts = {"waiting": "many", "nope": 3}
        node.answers["/channel/messages"] = {"state": "waiting", "counts": counts, "messages": strange}
        assert ids_in(browser.get(LIST).content.decode()) == ["0" * 16]
        node.answers["/channel/messages"] = b"[]"
        assert browser.get(LIST).status_code == 200


# The page of a topic's messages, and searches.

TOPIC_LIST = "/topics/orders/~messages/"


def get(browser: Client, url: str, **query: str) -> str:
    answer = browser.get(url, query, follow=True)
    assert answer.status_code == 200, words(answer.content.decode())
    text: str = answer.content.decode()
    return text


def test_the_messages_of_a_topic_at_another_node_are_paged_shown_whole_and_downloaded(tmp_path: Path) -> None:
    with remote_penstock(tmp_path) as (_, remote, name):
        for number in range(3, 45):
            remote.http("POST", "/pub?topic=orders", b"body %d" % number)
        browser = client_of(make_user())
        assert 'aria-disabled="true"' not in get(browser, "/topics/orders/").partition(">Messages<")[0][-200:]
        html = get(browser, TOPIC_LIST)  # the only node that has it
        assert f"at {name} · nothing is consumed" in words(html)
        assert ("body 44" in html, "body 24" in html) == (True, False)
        # An offset is of this node's log; a key is looked for at all.
        assert (field_of(html, "Show", "node"), field_of(html, "Find", "node")) == ([name], [])
        older = unescape(re.findall(r'href="([^"]*)" rel="prev"', html)[0])
        html = get(browser, older)
        assert ("body 24" in html, "body 25" in html, "body 4\n" in html) == (True, False, False)
        newer = unescape(re.findall(r'href="([^"]*)" rel="next"', html)[0])
        assert "body 44" in get(browser, newer)
        one = get(browser, TOPIC_LIST, node=name, offset="7", whole="1")
        assert ("body 7" in one, "body 8" in one) == (True, False)
        file = browser.get(TOPIC_LIST, {"node": name, "offset": "7", "as": "file"})
        assert file.content == b"body 7"
        rows = [row.message for row in AuditRow.objects.filter(action="read_messages")]
        assert f"Looked at 20 messages of orders at {name}." in rows
        assert rows.count(f"Looked at 1 message of orders at {name}.") == 2


def test_a_key_is_looked_for_at_all_nodes_and_one_that_fails_costs_its_own(tmp_path: Path) -> None:
    fake = FakeNsqd.of(topic("orders", channel("billing"), storage="log"), version="1.3.0+penstock.0.2.0")
    with fake as broken, remote_penstock(tmp_path, broken) as (console, _, name):
        broken.answers["/topic/messages"] = (503, {}, b'{"message":"EXITING"}')
        calls = console.engine.calls
        calls.create_topic("orders").result(30)
        calls.publish("orders", [b"own body"], key=b"k1").result(30)
        console.see_topic("orders", 2)
        browser = client_of(make_user())
        html = get(browser, TOPIC_LIST, key="k1")
        assert ("own body" in html, "body 1" in html, "body 0" in html) == (True, True, False)
        assert re.findall(r'data-label="Node"\s*>([^<]*)<', html) == [console.own, name]  # the newest first
        assert f"{broken.address} refused it: EXITING." in words(html)
        assert shown_nodes(html)["all nodes"] is True
        # Each message leads to its own node, as a file too.
        files = [unescape(url) for url in re.findall(r'href="([^"]*as=file[^"]*)"', html)]
        assert [browser.get(url).content for url in files] == [b"own body", b"body 1"]
        at_one = get(browser, TOPIC_LIST, key="k1", node=name)
        assert ("own body" in at_one, "body 1" in at_one) == (False, True)
        assert shown_nodes(at_one) == {
            "all nodes": False,
            f"{console.own} (this server)": False,
            name: True,
            broken.address: False,
        }
        rows = [row.message for row in AuditRow.objects.filter(action="read_messages")]
        assert "Looked at 2 messages of orders at 3 nodes." in rows


def test_the_older_messages_with_a_key_are_at_the_links_of_their_nodes(tmp_path: Path) -> None:
    with remote_penstock(tmp_path) as (console, remote, name):
        calls = console.engine.calls
        calls.create_topic("orders").result(30)
        key = "a1" * 32
        for number in range(15):
            calls.publish("orders", [b"own %d." % number], key=key.encode()).result(30)
            remote.http("POST", f"/pub?topic=orders&key={key}", b"far %d." % number)
        console.see_topic("orders", 1)
        browser = client_of(make_user())
        html = get(browser, TOPIC_LIST, key=key)
        assert ("own 14." in html, "far 14." in html, "own 5." in html, "own 4." in html) == (True, True, True, False)
        links = dict(re.findall(r'href="([^"]*)" rel="prev">([^<]*)<', html))
        older = {label: get(browser, unescape(url)) for url, label in links.items()}
        assert older.keys() == {f"Older at {console.own}", f"Older at {name}"}
        for node, word in ((console.own, "own"), (name, "far")):
            text = older[f"Older at {node}"]
            assert [f"{word} {number}." in text for number in (0, 4, 5)] == [True, True, False]
            # So is the list of one node, and what leads on from there.
            (url,) = re.findall(rf'href="([^"]*)"[^>]*>{node}\s', html.replace("<", " <"))
            (newest,) = re.findall(r'href="([^"]*)" rel="next">Newest<', text)
            for shown in (get(browser, unescape(url)), get(browser, unescape(newest))):
                assert [f"{one} 14." in shown for one in ("own", "far")] == [word == "own", word == "far"]
                assert field_of(shown, "Find", "node") == [node]
                assert field_of(shown, "Find", "key") == [key]


def test_a_server_on_a_socket_file_has_one_name_at_its_messages(tmp_path: Path) -> None:
    held = topic("orders", channel("billing"), storage="log")
    with FakeNsqd.of(held) as nsqd, FakeNsqd.of(held, version="1.3.0+penstock.0.2.0") as node:
        node.answers["/topic/messages"] = (503, {}, b'{"message":"EXITING"}')
        with cluster_console(tmp_path, nsqd, node, http_address=str(tmp_path / "http")) as console:
            calls = console.engine.calls
            calls.create_topic("orders").result(30)
            calls.create_channel("orders", "billing").result(30)
            calls.publish("orders", [b"own body"], key=b"k").result(30)
            console.see_topic("orders", 2)
            browser = client_of(make_user())
            for url in (LIST, TOPIC_LIST):
                html = get(browser, url, node="this-server")
                assert "own body" in html
                assert shown_nodes(html)["this-server (this server)"] is True
                assert str(tmp_path) not in html
            html = get(browser, TOPIC_LIST, key="k")
            assert re.findall(r'data-label="Node"\s*>([^<]*)<', html) == ["this-server"]


def test_a_disk_queue_or_an_nsqd_shows_no_messages_of_a_topic_and_says_why(tmp_path: Path) -> None:
    plain = FakeNsqd.of(topic("orders", channel("billing")))
    files = FakeNsqd.of(topic("orders", channel("billing"), storage="diskqueue"), version="1.3.0+penstock.0.2.0")
    with plain as nsqd, files as queue, cluster_console(tmp_path, nsqd, queue) as console:
        console.see_topic("orders", 2)
        browser = client_of(make_user())
        refused = browser.get(TOPIC_LIST, {"node": nsqd.address})
        reason = f"Nothing was read of orders: {nsqd.address} is an nsqd and keeps no past messages."
        assert (refused.status_code, reason in words(refused.content.decode())) == (409, True)
        reason = "topic orders has storage kind diskqueue: only the log can be read and rewound"
        assert reason in words(browser.get(TOPIC_LIST, {"node": queue.address}).content.decode())
        assert "nowhere:1 does not have it." in words(browser.get(TOPIC_LIST, {"node": "nowhere:1"}).content.decode())
        page = get(browser, "/topics/orders/")
        button = re.findall(r'aria-disabled="true"\s+title="([^"]*)">Messages<', page)
        assert len(button) == 1
        assert "keeps no past messages" in button[0] or reason in button[0]
        # One that shows them is enough.
        console.engine.calls.create_topic("orders").result(30)
        console.see_topic("orders", 2)
        html = get(browser, TOPIC_LIST)
        assert f"at this server, {console.own} · nothing is consumed" in words(html)
        assert f"Not listed here: {nsqd.address} is an nsqd and keeps no past messages." in words(html)
        assert f"Not listed here: {queue.address}: {reason}." in words(html)


def test_a_search_runs_at_the_node_of_its_messages(tmp_path: Path) -> None:
    with remote_penstock(tmp_path) as (_, _, name):
        browser = client_of(make_user())
        html = listed(browser, name)
        form = html[html.index('aria-label="Search the bodies"') :].partition("</form>")[0]
        assert f'name="node" value="{name}"' in form
        started = browser.get(LIST, {"node": name, "text": "body 1", "in": "all"})
        assert started.status_code == 302
        assert started.url.endswith(f"?node={name.replace(':', '%3A')}")

        def found() -> str:
            page = browser.get(started.url, headers={"X-Fragment": "1"}).content.decode()
            return page if 'data-state="running"' not in page else ""

        html = wait_for("the search's end", found)
        assert "1 found · 3 of 3 messages looked at" in words(html)
        assert (
            "body 1"
            in browser.get(
                unescape(re.findall(r'href="([^"]*~messages/[0-9a-f]{16}/[^"]*)"', html)[0])
            ).content.decode()
        )
        assert browser.post(started.url).status_code == 302
        other = browser.get(f"{LIST}~search/nothing/", {"node": name}, follow=True).content.decode()
        assert "That search has ended" in words(other)
        assert f"at {name} · nothing is consumed" in words(other)


# The panel "In flight" of a channel's page.


def test_messages_in_flight_are_those_of_now_and_of_the_process_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead_s = [0.0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + ahead_s[0])
    monkeypatch.setattr(in_flight_list, "time", clock)
    held = topic("orders", channel("billing", in_flight_count=1))
    reader = in_flight_list.InFlightReader()
    with FakeNsqd.of(held, version="1.3.0+penstock.0.2.0") as node, cluster_console(tmp_path, node) as console:

        def listed(held: str, later_s: float) -> list[str]:
            """As a page that opens has them. held: by the node from now on."""
            node.answers["/channel/messages"] = {"messages": [{"id": held, "state": IN_FLIGHT}]}
            ahead_s[0] += later_s
            live = get_hub().live
            assert live is not None
            assert live.cluster is not None
            found, _ = reader.newest(console.cluster, live.cluster, "orders", "billing", 20)
            return [one.stats.message_id for one in found]

        console.see_topic("orders", 1)
        first, second, third = ("a" * 16, "b" * 16, "c" * 16)
        assert listed(first, 0) == [first]
        # Viewers of the same second are one read; a page that opens later shows none of then.
        assert listed(second, 0) == [first]
        assert listed(second, 5) == [second]
        node.restart()
        node.channel("orders", "billing")["in_flight_count"] = 1

        def has_restarted(state: ClusterState) -> bool:
            return state.nodes[0].stats is not None and state.nodes[0].stats.started_s == node.started_s

        console.see("its restart", has_restarted)
        assert listed(third, 1.5) == [third]


def panel(html: str) -> str:
    return html[html.index("<h2>In flight</h2>") :].partition("</section>")[0]


def test_messages_in_flight_at_all_nodes_are_one_list_and_requeued_where_they_are(tmp_path: Path) -> None:
    held = topic("orders", channel("billing", in_flight_count=7))
    slow_fake = FakeNsqd.of(held, version="1.3.0+penstock.0.2.0")
    with FakeNsqd.of(held) as nsqd, slow_fake as slow, remote_penstock(tmp_path, nsqd, slow) as (console, remote, name):
        console.engine.calls.create_topic("orders").result(30)
        console.engine.calls.create_channel("orders", "billing").result(30)
        console.engine.calls.publish("orders", [b"own"]).result(30)
        release = threading.Event()
        slow.answers["/channel/messages"] = lambda: {"messages": [] if release.wait(20) else [3]}
        consumers = [remote.client(), NsqSocket(console.engine.tcp_address[1])]
        for consumer, who in zip(consumers, ("far-7", "near-7"), strict=True):
            consumer.identify(client_id=who, msg_timeout=600_000)
            consumer.subscribe("orders", "billing", rdy=1)
        ids = [consumer.read_message().id.decode() for consumer in consumers]

        def has_read() -> bool:
            node = next(one for one in console.cluster.state.nodes if one.name == name)
            return (
                node.stats is not None
                and node.stats.topics["orders"].channels["billing"].figures["in_flight_count"] == 1
            )

        wait_for("the node's figures", has_read)
        console.see_topic("orders", 3)
        browser = client_of(make_user())
        shown = panel(get(browser, "/topics/orders/billing/"))
        assert sorted(re.findall(r"~messages/([0-9a-f]{16})/", shown)) == sorted(ids)
        assert "far-7 127.0.0.1" in shown
        assert f"Not listed here: {nsqd.address} is an nsqd and shows no messages." in words(shown)
        assert f"Not listed here: {slow.address}: no answer yet." in words(shown)
        (requeue,) = re.findall(r'href="([^"]*~messages/~requeue/[^"]*)"', shown)
        question = get(browser, unescape(requeue))
        assert ids[0] in question
        assert f"on {name}" in words(question)
        (link,) = [
            unescape(url) for url in re.findall(r'href="([^"]*~messages/[0-9a-f]{16}/[^"]*)"', shown) if "node=" in url
        ]
        assert "body 0" in get(browser, link)
        # Later pages do not wait for it, and one call is on the way: no page makes another.
        calls = [path for path, _ in slow.requests if path.startswith("/channel/messages")]
        get(browser, "/topics/orders/billing/")
        assert [path for path, _ in slow.requests if path.startswith("/channel/messages")] == calls
        release.set()
        # Nothing was read of keys and bodies: the list is no look at contents.
        sent = [path for path, _ in slow.requests if path.startswith("/channel/messages")]
        assert all("keys=false" in path and "preview_bytes=0" in path for path in sent)
        consumers[1].close()
