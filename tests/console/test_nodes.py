"""The page Nodes: this server and others with their states, and the addresses that an admin changes."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from django.test import Client

from admin_console.audit.models import AuditRow
from admin_console.cluster.cluster import get_cluster
from admin_console.hub.hub import get_hub
from admin_console.live.broadcast import Broadcast
from admin_console.screens.build import Request
from admin_console.vocabulary.roles import Role
from queue_engine.service.runner import EngineRunner
from tests.support.fake_node import FakeNode, producer
from tests.support.pages.console import client_of, console_engine, make_user, see, words
from tests.support.waiting import wait_for

pytestmark = pytest.mark.django_db


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineRunner]:
    with console_engine(tmp_path, broadcast_address="127.0.0.1") as runner:
        runner.calls.create_topic("orders").result(30)
        runner.calls.publish("orders", [b"m"] * 5).result(30)
        see(runner)
        yield runner


def text_of(client: Client) -> str:
    """The page's words, one space between."""
    answer = client.get("/nodes/")
    assert answer.status_code == 200
    return words(answer.content.decode().partition("<main")[2].partition("</main>")[0].replace("<wbr>", ""))


def test_without_addresses_this_server_stands_alone_and_the_page_says_how_to_name_others(engine: EngineRunner) -> None:
    text = text_of(client_of(make_user(role=Role.VIEWER)))
    assert "Nodes 1 node Counter Addresses…" in text
    assert "No other nodes" in text
    assert "--lookupd-http-address HOST:4161" in text


def test_an_admin_names_nodes_and_they_are_shown_at_once(engine: EngineRunner, tmp_path: Path) -> None:
    admin = client_of(make_user(role=Role.ADMIN))
    with FakeNode() as a, FakeNode() as lookup:
        topic = {"topic_name": "clicks", "depth": 3, "message_count": 70, "channels": []}
        a.answer_as_nsqd({**topic, "channels": [{"channel_name": "all", "depth": 1204, "client_count": 2}]})
        own = {**producer(engine.http_address[1]), "topics": ["orders"]}
        lookup.answers["/nodes"] = {"producers": [producer(a.port), own, producer(80, address="169.254.169.254")]}
        form = {"lookupds": lookup.address, "nsqds": "", "reason": "the new cluster"}
        asked = admin.get("/nodes/~addresses/").content.decode()
        assert "The console calls these addresses from now on, also after a restart." in asked
        answer = admin.post("/nodes/~addresses/", form, follow=True).content.decode()
        assert "Changed the addresses: the console now calls 1 nsqlookupd and 0 nodes." in answer
        # Its rate is unknown until its second answer, which a page may come behind.
        row = rf"127\.0\.0\.1:{a.port} nsqd 1\.3\.0 1 of 1 1 2 1,207 70 (?:–|0) – – [0-9.]+ m?s"
        wait_for("its figures", lambda: re.search(row, text_of(admin)))
        # This server, which registered there as well, is one row.
        wait_for("its registration", lambda: (cluster := get_cluster()) is not None and cluster.state.embedded)
        wait_for("one row", lambda: text_of(admin).count(f":{engine.http_address[1]} ") == 1)
        assert f":{engine.http_address[1]} this server" in text_of(admin)
        html = admin.get("/nodes/").content.decode()
        assert 'title="169.254.169.254 is the address of a metadata service."' in html
        assert f'title="host-{a.port}"' in html
        rows = AuditRow.objects.filter(action="set_addresses", phase="result")
        assert [(one.verdict, one.actor, one.detail, one.reason) for one in rows] == [
            ("done", "ada", f"nsqlookupds: {lookup.address}; nodes: none", "the new cluster")
        ]


def test_a_node_that_does_not_answer_says_since_when_and_why(engine: EngineRunner) -> None:
    admin = client_of(make_user(role=Role.ADMIN))
    with FakeNode() as gone:
        pass
    admin.post("/nodes/~addresses/", {"lookupds": "", "nsqds": gone.address})
    error = f"http://{gone.address}/info can't be reached: Connection refused."
    wait_for("its error", lambda: error in text_of(admin))
    # It may have messages: this server's are the least that there are.
    strip = "Answering 1 of 2 · 127.0.0.1:[0-9]+ is silent Depth ≥ 5 .* Clients ≥ 0"
    wait_for("its totals", lambda: re.search(strip, text_of(admin)))
    assert error in text_of(admin)


def test_addresses_that_are_none_are_named_and_nothing_changes(engine: EngineRunner) -> None:
    admin = client_of(make_user(role=Role.ADMIN))
    answer = admin.post("/nodes/~addresses/", {"lookupds": "a:1\nb", "nsqds": "c:70000"})
    assert answer.status_code == 400
    text = answer.content.decode()
    assert "&#x27;b&#x27; is neither HOST:PORT nor https://HOST:PORT. Nothing was changed." in text
    assert "&#x27;c:70000&#x27; has the port 70000: a port is 1 to 65535. Nothing was changed." in text
    cluster = get_cluster()
    assert cluster is not None
    assert not cluster.state.addresses.has_any


def test_addresses_that_can_t_be_written_stay_as_they_were(engine: EngineRunner, tmp_path: Path) -> None:
    (tmp_path / "cluster.json").mkdir()
    admin = client_of(make_user(role=Role.ADMIN))
    answer = admin.post("/nodes/~addresses/", {"lookupds": "", "nsqds": "127.0.0.1:1"}, follow=True)
    assert "The addresses stay as they were" in answer.content.decode()
    assert "No other nodes" in text_of(admin)


def test_names_with_markup_are_text(engine: EngineRunner) -> None:
    admin = client_of(make_user(role=Role.ADMIN))
    with FakeNode() as a:
        a.answer_as_nsqd(version="<script>alert(1)</script>")
        admin.post("/nodes/~addresses/", {"lookupds": "", "nsqds": a.address})
        wait_for("its version", lambda: "alert(1)" in admin.get("/nodes/").content.decode())
        assert "<script>alert" not in admin.get("/nodes/").content.decode()


def test_the_page_is_live_as_the_others_are(engine: EngineRunner) -> None:
    request = Request.parse({"page": "nodes", "show": "all"}, Role.VIEWER)
    live = get_hub().live
    assert live is not None
    update = orjson.loads(asyncio.run(Broadcast(get_hub()).build_update(request, live)))
    assert update["tables"]["nodes"]["keys"] == [f"127.0.0.1:{engine.http_address[1]}"]
    html = client_of(make_user(role=Role.VIEWER)).get("/nodes/?show=all").content.decode()
    assert 'data-subscribe="{&quot;page&quot;:&quot;nodes&quot;,&quot;show&quot;:&quot;all&quot;}"' in html
