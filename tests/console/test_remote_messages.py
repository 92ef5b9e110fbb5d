"""Messages of a remote Penstock are listed, read and acted on as local ones; those of a Go nsqd are unreadable."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import pytest
from django.test import Client

from admin_console.audit.models import AuditRow, Phase
from admin_console.vocabulary.roles import Role
from tests.support.fake_node import FakeNode
from tests.support.fake_nsqd import FakeNsqd, channel, topic
from tests.support.pages.cluster_console import ClusterConsole, cluster_console
from tests.support.pages.console import client_of, make_user, words
from tests.support.processes.running_engine import RunningEngine

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
    path: Path, *more: FakeNode, messages: int = 3
) -> Iterator[tuple[ClusterConsole, RunningEngine, str]]:
    """A console whose only node with orders/billing is a Penstock. The last is its name."""
    with RunningEngine(path / "remote", sync="os") as remote:
        remote.http("POST", "/topic/create?topic=orders", b"")
        remote.http("POST", "/channel/create?topic=orders&channel=billing", b"")
        for number in range(3):
            remote.http("POST", f"/pub?topic=orders&key=k{number}", b"body %d" % number)
        with cluster_console(path, AtPort(port=remote.http_port)) as console:
            console.see_topic("orders", 1)
            yield console, remote, f"127.0.0.1:{remote.http_port}"


def ids_in(html: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"~messages/([0-9a-f]{16})/", html)))


def shown_nodes(html: str) -> dict[str, bool]:
    """The links to nodes, and whether each is the current one."""
    nav = html.partition('class="node-links')[2].partition("</nav>")[0]
    links = re.findall(r"<a href=[^>]*?( aria-current[^>]*)?>([^<]*)<", nav)
    return {" ".join(text.split()): bool(current) for current, text in links}


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
        if file.status_code == 200:
            assert file.content.count(b"\n") == 3


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
        html = listed(client_of(make_user("vera", Role.VIEWER)), name)
        assert len(ids_in(html)) == 3
        assert "body 0" not in html
        assert "k0" not in words(html)


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
        (url,) = re.findall(rf'href="([^"]+)"[^>]*>{node.address}<', html)
        html = browser.get(unescape(url)).content.decode()
        assert f"at {node.address} · nothing is consumed" in words(html)
        assert shown_nodes(html) == {f"{console.own} (this server)": False, node.address: True}
        # A message is looked for at the same node.
        find = html[html.index('class="form-row-inline find"') :].partition("</form>")[0]
        assert f'name="node" value="{node.address}"' in find
        (url,) = re.findall(rf'href="([^"]+)"[^>]*>{console.own}\b', html)
        one = browser.get(f"{LIST}{ids_in(browser.get(unescape(url)).content.decode())[0]}/").content.decode()
        assert f"at this server, {console.own} · nothing is" in words(one)


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
